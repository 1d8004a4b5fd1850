//! Memory that is first touched by atomic instructions: what they find, how often they fault, what is refused.
//!
//! `atomics --count MIB` tells faults and instructions for each page of so much memory, 256 MiB unless told, where one nanosecond is one
//! instruction (`-icount`), and fails if a first touch by an atomic instruction takes more than one fault.

use libc::*;
use programs::machine::{atomically, word};
use programs::memory::{ANONYMOUS, READ_WRITE, file, minor_faults, pages};
use programs::{call, faults, in_child, map, page, peek, poke, tell};
use std::process::ExitCode;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Instant;

/// What one page is touched by.
type Touch = fn(u64);

const TOUCHES: [(&str, Touch); 5] = [
    ("add", |at| atomically(at, |word| word.fetch_add(1, Relaxed))),
    ("or", |at| atomically(at, |word| word.fetch_or(4, SeqCst))),
    ("swap", |at| atomically(at, |word| word.swap(7, Relaxed))),
    ("compare and swap", |at| atomically(at, |word| word.compare_exchange(0, 9, Relaxed, Relaxed))),
    ("compare in vain", |at| atomically(at, |word| word.compare_exchange(1, 9, Relaxed, Relaxed))),
];

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|word| word == "--count") {
        return count(std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(256));
    }
    values();
    refused();
    of_files();
    ExitCode::SUCCESS
}

fn values() {
    for (name, touch) in TOUCHES {
        let base = pages(4);
        let before = minor_faults();
        touch(base);
        let taken = minor_faults() - before;
        println!("{name}: {:?}, one fault or two: {}", word(base), (1..=2).contains(&taken));
        peek(base + page());
        touch(base + page());
        println!("{name} of what was read: {:?}", word(base + page()));
        in_child("a child", || {
            touch(base);
            println!("{name} in a child: {:?}", word(base));
        });
        println!("{name} afterwards: {:?}", word(base));
    }
}

fn refused() {
    let base = pages(8);
    let protect = |at: u64, rights: i32| tell("rights", call(SYS_mprotect, &[at, page(), rights as u64]));
    protect(base, PROT_READ);
    protect(base + page(), PROT_NONE);
    poke(base + 2 * page(), 1);
    protect(base + 2 * page(), PROT_READ);
    for (name, touch) in TOUCHES {
        faults(&format!("{name} of what is read-only"), base, || touch(base));
        faults(&format!("{name} of what is closed"), base, || touch(base + page()));
        faults(&format!("{name} of what was written"), base, || touch(base + 2 * page()));
        faults(&format!("{name} where nothing is"), base, || touch(base + 8 * page()));
    }
}

fn of_files() {
    let number = file(2 * page());
    for (what, flags) in [("private", MAP_PRIVATE), ("shared", MAP_SHARED)] {
        let base = map(0, 2 * page(), READ_WRITE, flags, number, 0).expect("room");
        (TOUCHES[0].1)(base);
        println!("a {what} file: {:?}", word(base));
    }
    let base = map(0, page(), READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0).expect("room");
    in_child("a child", || (TOUCHES[0].1)(base));
    println!("shared memory: {:?}", word(base));
    let base = map(0, page(), PROT_WRITE, ANONYMOUS, -1, 0).expect("room");
    (TOUCHES[0].1)(base);
    println!("for writing alone: {:?}", word(base));
}

/// Faults and instructions for each page of so much memory; whether a first touch by each atomic instruction is one fault.
fn count(mib: u64) -> ExitCode {
    let store: Touch = |at| poke(at, 1);
    let load: Touch = |at| {
        std::hint::black_box(peek(at));
    };
    let all = TOUCHES.into_iter().chain([("store", store), ("load", load)]);
    let mut is_right = true;
    for (name, touch) in all {
        // Asked once, as the C library takes 40 instructions to tell.
        let bytes = page();
        let pages = (mib << 20) / bytes;
        let base = map(0, pages * bytes, READ_WRITE, ANONYMOUS, -1, 0).expect("room");
        let (before, start) = (minor_faults(), Instant::now());
        (0..pages).for_each(|which| touch(base + which * bytes));
        let (instructions, taken) = (start.elapsed().as_nanos() as u64 / pages, minor_faults() - before);
        println!("{name}: {pages} pages, {taken} faults, {instructions} instructions for each page");
        // Some more are for what the program itself touches meanwhile.
        is_right &= (pages..pages + 16).contains(&taken);
        call(SYS_munmap, &[base, pages * bytes]).expect("it goes");
    }
    ExitCode::from(u8::from(!is_right))
}
