//! What secret pages split of the linear map is whole again once they are gone and nothing has run for a while. Linux's never is, so
//! that this program is for our kernel alone.

use std::fs;

use libc::*;
use programs::memory::READ_WRITE;
use programs::{call, map, page, touch};

/// Fewer than after which the kernel heals by itself.
const PAGES: u64 = 40;
/// More rounds of healing than a slot that has changed is left alone for, each as long as [`PAUSE`].
const PAUSES: usize = 10;

fn main() {
    if std::env::args().nth(1).as_deref() != Some("leaves") {
        println!("healing leaves: looks whether they fold");
        return;
    }
    let before = leaves();
    let file = call(SYS_memfd_secret, &[0]).expect("a file");
    call(SYS_ftruncate, &[file, PAGES * page()]).expect("a size");
    let start = map(0, PAGES * page(), READ_WRITE, MAP_SHARED, file as i32, 0).expect("memory");
    touch(start, PAGES * page(), 1);
    println!("split: {}", leaves() != before);
    call(SYS_munmap, &[start, PAGES * page()]).expect("it goes");
    call(SYS_close, &[file]).expect("it closes");
    for _ in 0..PAUSES {
        call(SYS_nanosleep, &[&raw const PAUSE as u64, 0]).expect("time passes");
    }
    println!("whole again: {}", leaves() == before);
}

static PAUSE: timespec = timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// How much of the linear map each size of leaf has.
fn leaves() -> String {
    let text = fs::read_to_string("/proc/meminfo").expect("meminfo");
    text.lines().filter(|line| line.starts_with("DirectMap")).collect::<Vec<_>>().join("\n")
}
