//! Threads, their memory, and `futex`.

use libc::*;
use programs::machine::{exit, handle, word};
use programs::memory::{READ_WRITE, pages};
use programs::{Answer, call, child, map, page, peek, poke, tell, touch};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, RwLock, mpsc};
use std::thread;

thread_local! {
    static OWN: Cell<u32> = const { Cell::new(0) };
}

fn main() {
    together();
    memory();
    futexes();
    requeues();
    operations();
    any_of();
    number();
    one_takes();
    ends();
}

/// A signal to a process is for one thread: the first, or, where that masks it, the other, which reads meanwhile.
fn one_takes() {
    static TAKER: AtomicU32 = AtomicU32::new(0);
    static OTHER: AtomicU32 = AtomicU32::new(0);
    extern "C" fn note(_: i32, _: &siginfo_t, _: *mut c_void) {
        TAKER.store(call(SYS_gettid, &[]).unwrap_or(0) as u32, Ordering::SeqCst);
    }
    handle(SIGUSR1, note, 0).expect("a handler");
    let (own, mut ends) = (std::process::id(), [0i32; 2]);
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
    let [from, to] = ends.map(|end| end as u64);
    for (how, is_first) in [(SIG_UNBLOCK, true), (SIG_BLOCK, false)] {
        let (set, mut interrupted) = (1u64 << (SIGUSR1 - 1), 0);
        call(SYS_rt_sigprocmask, &[SIG_UNBLOCK as u64, &raw const set as u64, 0, 8]).expect("a mask");
        for _ in 0..50 {
            TAKER.store(0, Ordering::SeqCst);
            let reads = move || call(SYS_read, &[from, &mut 0u8 as *mut u8 as u64, 1]);
            OTHER.store(0, Ordering::SeqCst);
            let other = thread::spawn(move || {
                OTHER.store(call(SYS_gettid, &[]).unwrap_or(0) as u32, Ordering::SeqCst);
                (0..).take_while(|_| reads().is_err()).count()
            });
            // While it begins it masks what comes, and then takes what there is, on every kernel.
            while !is_asleep(OTHER.load(Ordering::SeqCst)) {
                thread::yield_now();
            }
            call(SYS_rt_sigprocmask, &[how as u64, &raw const set as u64, 0, 8]).expect("a mask");
            call(SYS_kill, &[own.into(), SIGUSR1 as u64]).expect("it is sent");
            while TAKER.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            assert_eq!(TAKER.load(Ordering::SeqCst) == own, is_first);
            call(SYS_write, &[to, c"x".as_ptr() as u64, 1]).expect("room");
            interrupted += other.join().expect("it ends");
            call(SYS_rt_sigprocmask, &[SIG_UNBLOCK as u64, &raw const set as u64, 0, 8]).expect("a mask");
        }
        println!(
            "the first takes it: {is_first}; the other was not interrupted for that: {}",
            interrupted == 0 || !is_first
        );
    }
}

/// Whether a thread of this process sleeps.
fn is_asleep(number: u32) -> bool {
    std::fs::read_to_string(format!("/proc/self/task/{number}/stat")).is_ok_and(|stat| stat.contains(") S "))
}

fn together() {
    let sum = Arc::new(Mutex::new(0u64));
    let all: Vec<_> = (0..6u64)
        .map(|number| {
            let sum = sum.clone();
            thread::spawn(move || {
                OWN.set(number as u32);
                for _ in 0..500 {
                    *sum.lock().expect("whole") += number;
                    thread::yield_now();
                }
                OWN.get()
            })
        })
        .collect();
    let own: Vec<u32> = all.into_iter().map(|thread| thread.join().expect("it ends")).collect();
    println!("sum {}, own {own:?}, the first's {}", *sum.lock().expect("whole"), OWN.get());
    let (sender, receiver) = mpsc::channel();
    let helper = thread::spawn(move || (0..1000).for_each(|number| sender.send(number).expect("it listens")));
    println!("sent: {}", receiver.iter().sum::<i32>());
    helper.join().expect("it ends");
    let barrier = Arc::new(Barrier::new(4));
    let leaders: usize = (0..4)
        .map(|_| barrier.clone())
        .map(|barrier| thread::spawn(move || usize::from(barrier.wait().is_leader())))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|thread| thread.join().expect("it ends"))
        .sum();
    println!("leaders: {leaders}");
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let other = pair.clone();
    let waker = thread::spawn(move || {
        *other.0.lock().expect("whole") = true;
        other.1.notify_all();
    });
    let mut is_set = pair.0.lock().expect("whole");
    while !*is_set {
        is_set = pair.1.wait(is_set).expect("whole");
    }
    waker.join().expect("it ends");
    let lock = RwLock::new(5);
    println!("read twice: {}", *lock.read().expect("whole") + *lock.read().expect("whole"));
    let caught = thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(|| [7u8; 100_000].iter().map(|&one| u64::from(one)).sum::<u64>());
    println!("a stack of its own: {}", caught.expect("a thread").join().expect("it ends"));
}

/// Threads that map, touch and unmap beside each other.
fn memory() {
    let base = pages(64);
    let page = page();
    let all: Vec<_> = (0..4u64)
        .map(|number| {
            thread::spawn(move || {
                let mut wrong = 0;
                for round in 0..40u8 {
                    let own = map(0, 16 * page, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0).expect("room");
                    touch(own, 16 * page, number as u8 + 1);
                    let part = base + number * 16 * page;
                    touch(part, 16 * page, round);
                    call(SYS_mprotect, &[part, 8 * page, PROT_READ as u64]).expect("rights");
                    wrong += (0..16).filter(|at| peek(own + at * page) != number as u8 + 1).count();
                    wrong += (0..16).filter(|at| peek(part + at * page) != round).count();
                    call(SYS_mprotect, &[part, 8 * page, READ_WRITE as u64]).expect("rights");
                    call(SYS_madvise, &[part, 4 * page, MADV_DONTNEED as u64]).expect("advice");
                    wrong += (0..4).filter(|at| peek(part + at * page) != 0).count();
                    call(SYS_munmap, &[own, 16 * page]).expect("it goes");
                }
                wrong
            })
        })
        .collect();
    println!("wrong: {}", all.into_iter().map(|thread| thread.join().expect("it ends")).sum::<usize>());
    // Children of a process with threads have one.
    poke(base, 99);
    println!("a child beside threads: {}", child(|| i32::from(peek(base))));
}

fn futex(address: u64, what: i32, value: u64, time: u64, other: u64, last: u64) -> Answer {
    call(SYS_futex, &[address, what as u64, value, time, other, last])
}

fn futexes() {
    let at = pages(1);
    let word: &AtomicU32 = word(at);
    let short = [0u64, 2_000_000];
    let time = short.as_ptr() as u64;
    tell("another value", futex(at, FUTEX_WAIT, 1, 0, 0, 0));
    tell("nobody wakes", futex(at, FUTEX_WAIT, 0, time, 0, 0));
    tell("nobody wakes, private", futex(at, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, time, 0, 0));
    tell("nobody waits", futex(at, FUTEX_WAKE, 1, 0, 0, 0));
    tell("an odd address", futex(at + 1, FUTEX_WAIT, 0, time, 0, 0));
    tell("nothing is there", futex(8, FUTEX_WAIT, 0, time, 0, 0));
    tell("nothing is there to wake", futex(16, FUTEX_WAKE, 1, 0, 0, 0));
    tell("no bits", futex(at, FUTEX_WAIT_BITSET, 0, time, 0, 0));
    tell("no bits to wake", futex(at, FUTEX_WAKE_BITSET, 1, 0, 0, 0));
    tell("an unknown operation", futex(at, 77, 0, 0, 0, 0));
    tell("an operation of many bits", futex(at, 0x200 | FUTEX_WAKE, 1, 0, 0, 0));
    for private in [0, FUTEX_PRIVATE_FLAG] {
        for (name, what) in [("wake", FUTEX_WAKE), ("wake some", FUTEX_WAKE_BITSET), ("requeue", FUTEX_REQUEUE)] {
            tell(&format!("{name} at an odd address"), futex(at + 2, what | private, 1, 1, at, 1));
            tell(&format!("{name} above all"), futex(1 << 52, what | private, 1, 1, at, 1));
        }
        tell("an odd second address", futex(at, FUTEX_WAKE_OP | private, 1, 1, at + 10, 0));
        tell("requeue less than none", futex(at, FUTEX_REQUEUE | private, 1, -1i64 as u64, at + 64, 0));
        tell("requeue and wake less than none", futex(at, FUTEX_REQUEUE | private, -1i64 as u64, 1, at + 64, 0));
        tell("a point of time of FUTEX_WAIT", futex(at, FUTEX_WAIT | private | FUTEX_CLOCK_REALTIME, 0, time, 0, 0));
        tell("a clock to wake by", futex(at, FUTEX_WAKE | private | FUTEX_CLOCK_REALTIME, 1, 0, 0, 0));
        tell("time from nowhere", futex(at, FUTEX_WAIT_BITSET | private, 1, 8, 0, 1));
    }
    let bad = [0u64, 1_000_000_000];
    tell("a bad time", futex(at, FUTEX_WAIT, 0, bad.as_ptr() as u64, 0, 0));
    tell("time from nowhere", futex(at, FUTEX_WAIT, 0, 8, 0, 0));
    let waiters: Vec<_> =
        (0..3).map(|_| thread::spawn(move || futex(at, FUTEX_WAIT, 0, 0, 0, 0).map_err(|error| error.0))).collect();
    let mut woken = 0;
    while woken < 3 {
        woken += futex(at, FUTEX_WAKE, 1, 0, 0, 0).expect("it wakes");
        thread::yield_now();
    }
    println!(
        "woken: {woken}, {:?}",
        waiters.into_iter().map(|thread| thread.join().expect("it ends")).collect::<Vec<_>>()
    );
    for count in [0u64, -1i64 as u64] {
        let waiters: Vec<_> =
            (0..3).map(|_| thread::spawn(move || futex(at, FUTEX_WAIT, 0, 0, 0, 0).is_ok())).collect();
        let mut moved = 0;
        while moved < 3 {
            moved += futex(at, FUTEX_REQUEUE, 0, 10, at + 32, 0).expect("it moves");
            thread::yield_now();
        }
        println!("to wake {}: {:?}", count as i32, futex(at + 32, FUTEX_WAKE, count, 0, 0, 0).map_err(|error| error.0));
        futex(at + 32, FUTEX_WAKE, 3, 0, 0, 0).expect("it wakes");
        println!("all woke: {}", waiters.into_iter().all(|thread| thread.join().expect("it ends")));
    }
    word.store(5, Ordering::SeqCst);
    // FUTEX_WAKE_OP: adds 2 to the second word, and wakes there if it was 5.
    let operation = 1u64 << 28 | 2 << 12 | 5;
    tell("wake with an operation", futex(at + 8, FUTEX_WAKE_OP, 1, 1, at, operation));
    println!("the word: {}", word.load(Ordering::SeqCst));
}

fn requeues() {
    let at = pages(1);
    let waiters: Vec<_> = (0..3).map(|_| thread::spawn(move || futex(at, FUTEX_WAIT, 0, 0, 0, 0).is_ok())).collect();
    let mut moved = 0;
    while moved < 3 {
        moved += futex(at, FUTEX_REQUEUE, 0, 10, at + 64, 0).expect("it moves");
        thread::yield_now();
    }
    tell("nobody is left", futex(at, FUTEX_WAKE, 10, 0, 0, 0));
    tell("they are there", futex(at + 64, FUTEX_WAKE, 10, 0, 0, 0));
    println!("all woke: {}", waiters.into_iter().all(|thread| thread.join().expect("it ends")));
    tell("compare: another value", futex(at, FUTEX_CMP_REQUEUE, 1, 1, at + 64, 7));
    tell("compare: the value", futex(at, FUTEX_CMP_REQUEUE, 1, 1, at + 64, 0));
}

/// Threads that change one word, half of them by FUTEX_WAKE_OP: nothing is lost.
fn operations() {
    const ROUNDS: u32 = 4000;
    let at = pages(1);
    let by_call = || {
        for _ in 0..ROUNDS {
            // Adds 1.
            let operation = 1 << 28 | 1 << 12;
            futex(at + 8, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0, at, operation).expect("it is done");
        }
    };
    let by_itself = || {
        for _ in 0..ROUNDS {
            word(at).fetch_add(1 << 16, Ordering::SeqCst);
        }
    };
    thread::scope(|scope| {
        (0..2).for_each(|_| drop(scope.spawn(by_call)));
        (0..2).for_each(|_| drop(scope.spawn(by_itself)));
    });
    let sum = word(at).load(Ordering::SeqCst);
    println!("by calls: {}, by itself: {}", sum & 0xffff, sum >> 16);
}

/// Waits for one of several words (`futex_waitv`): value, address, and what kind each is.
fn any_of() {
    let at = pages(1);
    const WORD: u64 = 2;
    let wait = |words: &[[u64; 3]], count: u64, flags: u64, time: u64, clock: u64| {
        call(SYS_futex_waitv, &[words.as_ptr() as u64, count, flags, time, clock])
    };
    let words = move |kind: u64| [[0, at, kind], [0, at + 64, kind], [0, at + 128, kind]];
    let kind = WORD | FUTEX_PRIVATE_FLAG as u64;
    let past = [1u64, 0];
    let past = past.as_ptr() as u64;
    (0..3).for_each(|index| word(at + 64 * index).store(0, Ordering::SeqCst));
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
    let wake = || call(SYS_futex, &[at + 64, (FUTEX_WAKE | FUTEX_PRIVATE_FLAG) as u64, 1]);
    while wake() != Ok(1) {
        thread::yield_now();
    }
    other.join().expect("it ends");
    tell("nobody is left", call(SYS_futex, &[at, (FUTEX_WAKE | FUTEX_PRIVATE_FLAG) as u64, 9]));
}

/// A number behind a descriptor (`eventfd`): who takes it waits until somebody adds to it.
fn number() {
    let file = call(SYS_eventfd2, &[0, 0]).expect("a number");
    let other = thread::spawn(move || {
        let mut value = 0u64;
        call(SYS_read, &[file, &raw mut value as u64, 8]).map(|_| value)
    });
    thread::yield_now();
    tell("added", call(SYS_write, &[file, [7u64].as_ptr() as u64, 8]));
    tell("waited for", other.join().expect("it ends"));
}

/// What ends a process while it has threads.
fn ends() {
    let with_thread = |body: fn() -> i32| {
        child(move || {
            thread::spawn(|| {
                loop {
                    thread::park();
                }
            });
            body()
        })
    };
    println!("exit beside a thread: {}", with_thread(|| 4));
    println!(
        "a signal: {}",
        with_thread(|| call(SYS_kill, &[std::process::id().into(), SIGKILL as u64]).map_or(1, |_| 2))
    );
    let last = child(|| {
        thread::spawn(|| {
            let short = [0u64, 20_000_000];
            call(SYS_nanosleep, &[short.as_ptr() as u64, 0]).expect("it sleeps");
            exit(6)
        });
        call(SYS_exit, &[9]).map_or(1, |_| 2)
    });
    println!("the first thread ends first: {last}");
    let fault = child(|| thread::spawn(|| poke(16, 1)).join().map_or(3, |_| 4));
    println!("a thread that faults: {fault}");
}
