//! A guest that is a realm.
#![no_std]
#![no_main]

use guests::{machine, say};

hardware::guest_entry_points! {
    main: main,
    secondary: secondary,
}

fn main(_device_tree: u64) -> ! {
    say!("# checks");
    machine::end(0, 0)
}

fn secondary(_cpu: usize) -> ! {
    machine::rest()
}
