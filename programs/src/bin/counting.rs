//! Numbers behind descriptors: `eventfd`.

use libc::*;
use programs::{Answer, call, tell};
use std::thread;

fn add(file: u64, more: u64) -> Answer {
    call(SYS_write, &[file, &raw const more as u64, 8])
}

fn take(file: u64) -> Answer {
    let mut value = 0u64;
    call(SYS_read, &[file, &raw mut value as u64, 8]).map(|_| value)
}

/// What may be done without waiting.
fn tell_ready(what: &str, file: u64) {
    let mut wanted = [file | 0xfff << 32];
    let time = [0u64; 2];
    let count = call(SYS_ppoll, &[wanted.as_mut_ptr() as u64, 1, time.as_ptr() as u64, 0, 0]);
    println!("{what}: {count:?} {:#x}", wanted[0] >> 48);
}

fn main() {
    let file = call(SYS_eventfd2, &[3, EFD_NONBLOCK as u64]).expect("a number");
    tell_ready("three", file);
    tell("taken", take(file));
    tell("nothing there", take(file));
    tell_ready("none", file);
    tell("two", add(file, 2));
    tell("and three", add(file, 3));
    tell("taken", take(file));
    tell("too much", add(file, u64::MAX));
    tell("the most", add(file, u64::MAX - 1));
    tell_ready("the most", file);
    tell("one more", add(file, 1));
    tell("none more", add(file, 0));
    tell("taken", take(file));
    let mut small = [0u8; 7];
    tell("a short read", call(SYS_read, &[file, small.as_mut_ptr() as u64, 7]));
    tell("a short write", call(SYS_write, &[file, small.as_ptr() as u64, 7]));
    tell("a place", call(SYS_lseek, &[file, 0, 0]));
    tell("at a place", call(SYS_pread64, &[file, small.as_mut_ptr() as u64, 8, 0]));
    tell("nowhere", call(SYS_write, &[file, 8, 8]));
    println!("a link: {}", std::fs::read_link(format!("/proc/self/fd/{file}")).expect("a link").display());
    let semaphore = call(SYS_eventfd2, &[2, EFD_SEMAPHORE as u64 | EFD_NONBLOCK as u64]).expect("a number");
    (0..3).for_each(|_| tell("one", take(semaphore)));
    tell("a flag", call(SYS_eventfd2, &[0, 2]));
    let waited = call(SYS_eventfd2, &[0, 0]).expect("a number");
    let other = thread::spawn(move || tell("waited for", take(waited)));
    thread::yield_now();
    tell("added", add(waited, 7));
    other.join().expect("it ends");
}
