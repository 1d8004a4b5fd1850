//! Calls that lack memory, while another process has nearly all: who has most ends and the call is made, unless it is its own process, or
//! one that is never to end; then it is refused.
//!
//! ```text
//! child   ──▶ takes memory to the last pages ──▶ says so ──▶ waits
//! parent  ──▶ waits for that ──▶ a call that lacks memory ──▶ how did the child end?
//! ```

use std::fs;
use std::sync::atomic::Ordering;

use libc::*;
use programs::child::{child, ended, wait};
use programs::machine::{exit, fail_allocation, fork, word};
use programs::memory::{ANONYMOUS, READ_WRITE};
use programs::{call, map, page, tell, touch};

/// What whoever takes memory leaves: less than any fork needs, more than a fault takes.
const PAGES_LEFT: u64 = 16;
/// Bytes before the end from which on single pages are taken.
const SMALL_STEPS: u64 = 32 << 20;
/// Bytes of a pipe.
const PIPE: u64 = 64 << 10;

fn main() {
    // Linux decides by more than pages, and counts other memory as available.
    if fail_allocation(0).is_none() {
        return;
    }
    println!("a fork beside it: {}", beside("0", || println!("  the fork: {}", child(|| 7))));
    println!("pipes beside it: {}", beside("0", pipes));
    println!("a fork beside one that never ends: {}", beside("-1000", || tell("  the fork", begin_child())));
    let alone = child(|| {
        take_memory();
        tell("  the fork", begin_child());
        0
    });
    println!("a fork of its own: {alone}");
}

/// Makes a call while a child has all memory; how the child ended, which does not end by itself.
fn beside(badness: &str, body: impl FnOnce()) -> String {
    let has_taken = map(0, page(), READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0).expect("memory");
    let hog = fork().unwrap_or_else(|| {
        fs::write("/proc/self/oom_score_adj", badness).expect("a word for who ends");
        take_memory();
        word(has_taken).store(1, Ordering::Release);
        loop {
            let _ = call(SYS_sched_yield, &[]);
        }
    });
    while word(has_taken).load(Ordering::Acquire) == 0 {
        let _ = call(SYS_sched_yield, &[]);
    }
    body();
    let mut status = 0i32;
    let over = call(SYS_wait4, &[hog as u64, &raw mut status as u64, WNOHANG as u64, 0]).expect("a child");
    if over != 0 {
        return ended(status);
    }
    call(SYS_kill, &[hog as u64, SIGTERM as u64]).expect("it is told");
    ended(wait(hog))
}

/// Bytes that programs can still take.
fn available() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").expect("meminfo");
    let row = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).expect("what is available");
    row.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") << 10
}

/// Takes memory until some pages are left.
fn take_memory() {
    let left = PAGES_LEFT * page();
    while available() > left + SMALL_STEPS {
        let bytes = (available() - left - SMALL_STEPS).next_multiple_of(page());
        touch(map(0, bytes, READ_WRITE, ANONYMOUS, -1, 0).expect("memory"), bytes, 1);
    }
    let start = map(0, 2 * SMALL_STEPS, READ_WRITE, ANONYMOUS, -1, 0).expect("memory");
    call(SYS_madvise, &[start, 2 * SMALL_STEPS, MADV_NOHUGEPAGE as u64]).expect("single pages");
    let mut places = (start..).step_by(page() as usize);
    while available() > left {
        touch(places.next().expect("addresses go on"), page(), 1);
    }
}

/// A child that ends at once.
fn begin_child() -> programs::Answer {
    let number = call(SYS_clone, &[SIGCHLD as u64, 0])?;
    if number == 0 {
        exit(0);
    }
    wait(number as i32);
    Ok(0)
}

/// Fills pipes, whose content is the kernel's, with as much as programs would leave to it.
fn pipes() {
    let bytes = vec![1u8; PIPE as usize];
    let mut refused = 0;
    for _ in 0..(12 << 20) / PIPE {
        let mut ends = [0i32; 2];
        call(SYS_pipe2, &[ends.as_mut_ptr() as u64, O_NONBLOCK as u64]).expect("a pipe");
        refused += u32::from(call(SYS_write, &[ends[1] as u64, bytes.as_ptr() as u64, PIPE]).is_err());
    }
    println!("  pipes: {refused} refused");
}
