//! Futexes that say who has them (FUTEX_LOCK_PI): had, waited for, handed over, and what is refused.

use libc::*;
use programs::machine::word;
use programs::memory::pages;
use programs::{Answer, call, child, tell};
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

const LOCK: i32 = 6;
const UNLOCK: i32 = 7;
const TRY_LOCK: i32 = 8;
const LOCK_BY_CLOCK: i32 = 13;
const PRIVATE: i32 = 128;
const WAITERS: u32 = 0x8000_0000;
const DIED: u32 = 0x4000_0000;

fn futex(at: u64, operation: i32, time: u64) -> Answer {
    call(SYS_futex, &[at, operation as u64, 0, time, 0, 0])
}

fn own() -> u32 {
    call(SYS_gettid, &[]).expect("a number") as u32
}

/// The word, by whose it is.
fn tell_word(what: &str, at: u64) {
    let found = word(at).load(SeqCst);
    let owner = match found & !(WAITERS | DIED) {
        0 => "nobody",
        number if number == own() => "this thread",
        _ => "another",
    };
    println!("{what}: {owner}, waiters {}, died {}", found & WAITERS != 0, found & DIED != 0);
}

/// Comes back once somebody waits.
fn until_waited_for(at: u64) {
    while word(at).load(SeqCst) & WAITERS == 0 {
        thread::yield_now();
    }
}

fn main() {
    let at = pages(1);
    alone(at);
    handed_over(at);
    ended(at);
    circle(at);
    between_processes();
    any_of(at);
}

/// Waits for one of several words (`futex_waitv`): value, address, and what kind each is.
fn any_of(at: u64) {
    const WORD: u64 = 2;
    let wait = |words: &[[u64; 3]], count: u64, flags: u64, time: u64, clock: u64| {
        call(SYS_futex_waitv, &[words.as_ptr() as u64, count, flags, time, clock])
    };
    let words = move |kind: u64| [[0, at, kind], [0, at + 64, kind], [0, at + 128, kind]];
    let kind = WORD | PRIVATE as u64;
    let past = [1u64, 0];
    let past = past.as_ptr() as u64;
    (0..3).for_each(|index| word(at + 64 * index).store(0, SeqCst));
    tell("until a time that has passed", wait(&words(kind), 3, 0, past, CLOCK_MONOTONIC as u64));
    tell("shared", wait(&words(WORD), 3, 0, past, CLOCK_REALTIME as u64));
    tell("none", wait(&words(kind), 0, 0, 0, 0));
    tell("too many", wait(&words(kind), 129, 0, 0, 0));
    tell("flags", wait(&words(kind), 3, 1, 0, 0));
    tell("no such kind", wait(&words(1), 3, 0, 0, 0));
    tell("no such clock", wait(&words(kind), 3, 0, past, 7));
    tell("no words", call(SYS_futex_waitv, &[0, 3, 0, 0, 0]));
    tell("not aligned", wait(&[[0, at + 2, kind]], 1, 0, past, 1));
    tell("another value", wait(&[[0, at, kind], [7, at + 64, kind]], 2, 0, 0, 0));
    let other = thread::spawn(move || tell("woken by the second", wait(&words(kind), 3, 0, 0, 0)));
    let wake = || call(SYS_futex, &[at + 64, (FUTEX_WAKE | PRIVATE) as u64, 1]);
    while wake() != Ok(1) {
        thread::yield_now();
    }
    other.join().expect("it ends");
    tell("nobody is left", call(SYS_futex, &[at, (FUTEX_WAKE | PRIVATE) as u64, 9]));
}

fn alone(at: u64) {
    tell("free", futex(at, LOCK | PRIVATE, 0));
    tell_word("had", at);
    tell("again", futex(at, LOCK | PRIVATE, 0));
    tell("tried again", futex(at, TRY_LOCK | PRIVATE, 0));
    tell("let go", futex(at, UNLOCK | PRIVATE, 0));
    tell_word("let go", at);
    tell("let go again", futex(at, UNLOCK | PRIVATE, 0));
    tell("tried", futex(at, TRY_LOCK | PRIVATE, 0));
    tell("let go", futex(at, UNLOCK | PRIVATE, 0));
    tell("not aligned", futex(at + 2, LOCK | PRIVATE, 0));
    tell("nowhere", futex(8, LOCK | PRIVATE, 0));
    tell("nowhere, let go", futex(8, UNLOCK | PRIVATE, 0));
    tell("by the clock", futex(at, LOCK | PRIVATE | FUTEX_CLOCK_REALTIME, 0));
    tell("by a clock", futex(at, LOCK_BY_CLOCK | PRIVATE | FUTEX_CLOCK_REALTIME, 0));
    tell("let go", futex(at, UNLOCK | PRIVATE, 0));
    word(at).store(0x3fff_fff0, SeqCst);
    tell("nobody's", futex(at, LOCK | PRIVATE, 0));
    tell_word("then", at);
    word(at).store(0x3fff_fff0, SeqCst);
    tell("nobody's, tried", futex(at, TRY_LOCK | PRIVATE, 0));
    word(at).store(DIED, SeqCst);
    tell("its owner had died", futex(at, LOCK | PRIVATE, 0));
    tell_word("then", at);
    tell("let go", futex(at, UNLOCK | PRIVATE, 0));
    tell_word("then", at);
}

fn handed_over(at: u64) {
    futex(at, LOCK | PRIVATE, 0).expect("it is free");
    let other = thread::spawn(move || {
        tell("tried", futex(at, TRY_LOCK | PRIVATE, 0));
        tell_word("after that", at);
        let past = [1u64, 0];
        tell("until a time that has passed", futex(at, LOCK | PRIVATE, past.as_ptr() as u64));
        tell("the same by the other clock", futex(at, LOCK_BY_CLOCK | PRIVATE, past.as_ptr() as u64));
        let bad = [0u64, 1_000_000_000];
        tell("until no time", futex(at, LOCK | PRIVATE, bad.as_ptr() as u64));
        tell("let go by another", futex(at, UNLOCK | PRIVATE, 0));
    });
    other.join().expect("it ends");
    word(at).fetch_and(!WAITERS, SeqCst);
    let other = thread::spawn(move || {
        tell("waited for", futex(at, LOCK | PRIVATE, 0));
        tell_word("handed over", at);
        tell("let go", futex(at, UNLOCK | PRIVATE, 0));
        tell_word("then", at);
    });
    until_waited_for(at);
    // It waits, or is about to: who lets go finds it, or it finds the word free.
    while !is_parked() {
        thread::yield_now();
    }
    let done = futex(at, UNLOCK | PRIVATE, 0);
    other.join().expect("it ends");
    tell("let go", done);
}

/// Whether another thread of this process sleeps.
fn is_parked() -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    let stat = |path: std::path::PathBuf| std::fs::read_to_string(path.join("stat")).unwrap_or_default();
    tasks.flatten().any(|task| stat(task.path()).contains(") S "))
}

fn ended(at: u64) {
    word(at).store(0, SeqCst);
    let other = thread::spawn(move || {
        futex(at, LOCK | PRIVATE, 0).expect("it is free");
        until_waited_for(at);
        while !is_parked() {
            thread::yield_now();
        }
    });
    while word(at).load(SeqCst) == 0 {
        thread::yield_now();
    }
    tell("its owner ends", futex(at, LOCK | PRIVATE, 0));
    other.join().expect("it ends");
    tell_word("then", at);
    tell("let go", futex(at, UNLOCK | PRIVATE, 0));
}

fn circle(at: u64) {
    let second = at + 64;
    word(at).store(0, SeqCst);
    futex(at, LOCK | PRIVATE, 0).expect("it is free");
    let other = thread::spawn(move || {
        futex(second, LOCK | PRIVATE, 0).expect("it is free");
        let had = futex(at, LOCK | PRIVATE, 0);
        futex(at, UNLOCK | PRIVATE, 0).expect("its own");
        futex(second, UNLOCK | PRIVATE, 0).expect("its own");
        had
    });
    until_waited_for(at);
    while !is_parked() {
        thread::yield_now();
    }
    tell("each waits for the other", futex(second, LOCK | PRIVATE, 0));
    futex(at, UNLOCK | PRIVATE, 0).expect("its own");
    tell("the other", other.join().expect("it ends"));
    tell("then", futex(second, LOCK | PRIVATE, 0));
    tell("let go", futex(second, UNLOCK | PRIVATE, 0));
}

fn between_processes() {
    let at = programs::map(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0).expect("memory");
    futex(at, LOCK, 0).expect("it is free");
    let end = child(|| {
        tell("of another process", futex(at, TRY_LOCK, 0));
        tell("let go by it", futex(at, UNLOCK, 0));
        0
    });
    println!("{end}");
    tell("let go", futex(at, UNLOCK, 0));
    println!("{}", child(|| i32::from(futex(at, LOCK, 0).is_err())));
    tell("its process has ended", futex(at, LOCK, 0));
}
