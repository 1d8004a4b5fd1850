//! Threads each of which has a mutex (FUTEX_LOCK_PI) and waits for the next one's: how long such a chain may be, circles of it, and
//! what becomes of it when its last thread lets go.

use libc::*;
use programs::machine::word;
use programs::memory::pages;
use programs::proc::asleep;
use programs::timers::{SECOND, now};
use programs::{Answer, call, child, tell};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};

const LOCK: u64 = 6;
const UNLOCK: u64 = 7;
const PRIVATE: u64 = 128;
const WAITERS: u32 = 0x8000_0000;

fn futex(at: u64, operation: u64, time: u64) -> Answer {
    call(SYS_futex, &[at, operation | PRIVATE, 0, time, 0, 0])
}

fn main() {
    for threads in [1, 2, 31, 32, 33, 1023, 1024, 1025] {
        println!("{threads} threads: {}", child(|| chain(threads)));
    }
    println!("let go: {}", child(|| let_go(100)));
    println!("one mutex: {}", child(|| crowd(320)));
}

/// The mutex of a thread, each on a line of its own.
fn at(start: u64, number: usize) -> u64 {
    start + 64 * number as u64
}

fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::yield_now();
    }
}

/// Threads of a chain, none of which waits yet.
fn threads(start: u64, count: usize, then: impl Fn(usize) + Copy + Send + 'static) -> Vec<Thread> {
    let have = Arc::new(AtomicUsize::new(0));
    let begin = |number: usize| {
        let have = have.clone();
        let body = move || {
            futex(at(start, number), LOCK, 0).expect("it is free");
            have.fetch_add(1, SeqCst);
            thread::park();
            then(number);
        };
        let builder = thread::Builder::new().stack_size(32 << 10);
        builder.spawn(body).expect("a thread").thread().clone()
    };
    let all: Vec<Thread> = (0..count).map(begin).collect();
    until(|| have.load(SeqCst) == count);
    all
}

/// So many threads wait, the last one for one that does not: another may wait for the first, or may not.
fn chain(count: usize) -> i32 {
    let start = pages(1 + 64 * (count as u64 + 2) / programs::page());
    let last = at(start, count);
    futex(last, LOCK, 0).expect("it is free");
    let wait_for_next = move |number: usize| {
        futex(at(start, number + 1), LOCK, 0).ok();
    };
    for (number, thread) in threads(start, count, wait_for_next).iter().enumerate() {
        thread.unpark();
        until(|| word(at(start, number + 1)).load(SeqCst) & WAITERS != 0);
    }
    let soon = now(CLOCK_REALTIME) + SECOND / 10;
    let time = [soon / SECOND, soon % SECOND];
    // Who has none of them, and who has the last: that is a circle.
    let other = move || tell("  another waits for the first", futex(at(start, 0), LOCK, time.as_ptr() as u64));
    thread::spawn(other).join().expect("it ends");
    tell("  the last waits for the first", futex(at(start, 0), LOCK, 0));
    0
}

/// Each lets go once it has the next one's.
fn let_go(count: usize) -> i32 {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    let start = pages(2);
    futex(at(start, count), LOCK, 0).expect("it is free");
    let pass_on = move |number: usize| {
        futex(at(start, number + 1), LOCK, 0).expect("it is let go");
        futex(at(start, number + 1), UNLOCK, 0).expect("it has it");
        futex(at(start, number), UNLOCK, 0).expect("it has it");
        ENDED.fetch_add(1, SeqCst);
    };
    for (number, thread) in threads(start, count, pass_on).iter().enumerate() {
        thread.unpark();
        until(|| word(at(start, number + 1)).load(SeqCst) & WAITERS != 0);
    }
    futex(at(start, count), UNLOCK, 0).expect("it has it");
    until(|| ENDED.load(SeqCst) == count);
    tell("  the first is free", futex(at(start, 0), LOCK, 0));
    0
}

/// Many wait for one mutex: each has it once, and a thread that ends with it leaves it to the next.
fn crowd(count: usize) -> i32 {
    static HAD: AtomicUsize = AtomicUsize::new(0);
    static ASK: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let start = pages(1 + 64 * (count as u64 + 2) / programs::page());
    let first = at(start, count);
    futex(first, LOCK, 0).expect("it is free");
    let have_it = move |number: usize| {
        ASK.lock().expect("nobody fails").push(call(SYS_gettid, &[]).expect("a number"));
        futex(first, LOCK, 0).expect("it is handed over");
        HAD.fetch_add(1, SeqCst);
        if number.is_multiple_of(2) {
            futex(first, UNLOCK, 0).expect("it has it");
        }
    };
    threads(start, count, have_it).iter().for_each(Thread::unpark);
    until(|| ASK.lock().expect("nobody fails").len() == count);
    // Who comes once a thread has ended with it finds an owner that is gone: ESRCH, or EINVAL where others wait.
    ASK.lock().expect("nobody fails").iter().for_each(|thread| asleep(&format!("self/task/{thread}")));
    futex(first, UNLOCK, 0).expect("it has it");
    until(|| HAD.load(SeqCst) == count);
    println!("  had by {count}");
    0
}
