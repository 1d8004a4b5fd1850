//! `munmap`: holes, edges, and what is refused.

use libc::*;
use programs::memory::{ANONYMOUS, READ_WRITE, file, pages};
use programs::proc::tell_maps;
use programs::{call, faults, map, page, peek, poke, tell, touch};

fn unmap(start: u64, bytes: u64) -> programs::Answer {
    call(SYS_munmap, &[start, bytes])
}

fn main() {
    let page = page();
    let base = pages(16);
    touch(base, 16 * page, 3);
    tell("no bytes", unmap(base, 0));
    tell("an odd address", unmap(base + 1, page));
    tell("above all", unmap(1 << 52, page));
    tell("over the top", unmap((1 << 48) - page, 2 * page));
    tell("all bytes", unmap(base, u64::MAX));
    tell("round the end", unmap(base, 0u64.wrapping_sub(base)));
    tell("what is free", unmap(base + 16 * page, page));
    tell_maps("before", base, base - page, base + 17 * page);
    tell("one in the middle", unmap(base + 4 * page, page));
    tell("a byte", unmap(base + 6 * page, 1));
    tell("over a hole", unmap(base + 3 * page, 5 * page));
    tell("the first", unmap(base, page));
    tell("the last, and behind", unmap(base + 15 * page, 4 * page));
    tell_maps("after", base, base - page, base + 17 * page);
    println!("what is left: {} {}", peek(base + page), peek(base + 14 * page));
    faults("a hole", base, || poke(base + 4 * page, 1));
    faults("a hole read", base, || peek(base + 5 * page));
    let again = map(base + 3 * page, 5 * page, READ_WRITE, ANONYMOUS | MAP_FIXED, -1, 0).expect("room");
    println!("new pages: {} {}", peek(again), peek(again + 4 * page));
    tell_maps("closed", base, base - page, base + 17 * page);
    files(page);
    // Areas that come and go in every order.
    let many = pages(64);
    (0..64).step_by(2).for_each(|at| unmap(many + at * page, page).map(drop).expect("it goes"));
    println!("every second: {} areas", programs::proc::maps(many, many, many + 64 * page).len());
    (0..64).step_by(4).for_each(|at| {
        map(many + at * page, page, READ_WRITE, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0).map(drop).expect("room");
    });
    println!("half of them again: {} areas", programs::proc::maps(many, many, many + 64 * page).len());
    tell("all of it", unmap(many, 64 * page));
    println!("nothing: {} areas", programs::proc::maps(many, many, many + 64 * page).len());
}

/// Parts of a file.
fn files(page: u64) {
    let number = file(8 * page);
    let base = pages(8);
    map(base, 8 * page, READ_WRITE, MAP_SHARED | MAP_FIXED, number, 0).expect("room");
    tell("a part of a file", unmap(base + 2 * page, 3 * page));
    tell_maps("its areas", base, base - page, base + 9 * page);
    println!("on both sides: {} {}", peek(base + page), peek(base + 5 * page));
    map(base + 2 * page, 3 * page, READ_WRITE, MAP_SHARED | MAP_FIXED, number, 2 * page).expect("room");
    tell_maps("joined again", base, base - page, base + 9 * page);
    tell("closed", call(SYS_close, &[number as u64]));
    println!("still there: {}", peek(base + 4 * page));
}
