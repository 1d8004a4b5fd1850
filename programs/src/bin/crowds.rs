//! Many of one kind at one place: threads that wait for one word, one pipe, one time; locks of one file, names in one folder, descriptors of
//! one process, signals of one process. A call takes the longer the more there are; interrupts are masked no longer.

use libc::*;
use programs::child::{ended, wait};
use programs::machine::{exit, fork, word};
use programs::memory::{ANONYMOUS, READ_WRITE, pages};
use programs::timers::{MILLISECOND, SECOND, await_signal, bit, mask, now};
use programs::{Answer, call, map, page, tell, touch};
use std::ffi::CString;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::{self, JoinHandle};

const WAIT: u64 = 0;
const WAKE: u64 = 1;
const REQUEUE: u64 = 3;
const ALL: u64 = i32::MAX as u64;

fn main() {
    let many = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1000);
    if std::env::args().nth(2).as_deref() == Some("scattered") {
        scatter();
    }
    one_word(many);
    one_pipe(many);
    one_moment(many);
    one_cpu(many);
    one_file(many);
    one_folder(many);
    one_table(many.min(4000));
    one_signal(many.min(1000));
}

/// Leaves half of the memory, in single pages: two files take turns to have one, and one goes. Then a list that grows beyond a page in one
/// piece is refused, and whoever needs it fails.
fn scatter() {
    let [stays, goes] = [0, 1].map(|_| call(SYS_memfd_create, &[c"crowds".as_ptr() as u64, 0]).expect("a file"));
    let bytes = vec![1u8; page() as usize];
    let write = |file| call(SYS_write, &[file, bytes.as_ptr() as u64, page()]);
    while write(stays).is_ok() && write(goes).is_ok() {}
    call(SYS_close, &[goes]).expect("it closes");
    // What files leave to others lies together.
    let bytes = 16 << 20;
    touch(map(0, bytes, READ_WRITE, ANONYMOUS, -1, 0).expect("memory"), bytes, 1);
    for count in [1000, 1100, 65_536] {
        let groups = vec![7u32; count];
        tell(&format!("{count} groups"), call(SYS_setgroups, &[count as u64, groups.as_ptr() as u64]));
    }
}

fn begin(many: usize, body: impl Fn(usize) + Copy + Send + 'static) -> Vec<JoinHandle<()>> {
    let builder = || thread::Builder::new().stack_size(32 << 10);
    (0..many).map(|number| builder().spawn(move || body(number)).expect("a thread")).collect()
}

fn join(threads: Vec<JoinHandle<()>>) -> usize {
    threads.into_iter().filter_map(|thread| thread.join().ok()).count()
}

fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        thread::yield_now();
    }
}

fn futex(at: u64, operation: u64, value: u64, moves: u64, other: u64) -> Answer {
    call(SYS_futex, &[at, operation, value, moves, other])
}

/// Threads wait for a word; all are moved to another and back, one is woken, then the others.
fn one_word(many: usize) {
    let (one, other) = (pages(1), pages(1));
    let threads = begin(many, move |_| until(|| futex(one, WAIT, 0, 0, 0).is_ok()));
    let mut moved = 0;
    until(|| {
        moved += futex(one, REQUEUE, 0, ALL, other).expect("it moves") as usize;
        moved == many
    });
    println!("one word: {} moved back", futex(other, REQUEUE, 0, ALL, one).expect("it moves"));
    println!("one word: {} woken", futex(one, WAKE, 1, 0, 0).expect("it wakes"));
    word(one).store(1, SeqCst);
    println!("one word: {} woken", futex(one, WAKE, ALL, 0, 0).expect("it wakes"));
    println!("one word: {} ended", join(threads));
}

/// Threads wait for a byte each.
fn one_pipe(many: usize) {
    let mut ends = [0i32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
    let from = ends[0] as u64;
    let threads = begin(many, move |_| {
        let mut byte = [0u8];
        call(SYS_read, &[from, byte.as_mut_ptr() as u64, 1]).expect("a byte");
    });
    let bytes = vec![1u8; many];
    println!("one pipe: {:?} written", call(SYS_write, &[ends[1] as u64, bytes.as_ptr() as u64, many as u64]).ok());
    println!("one pipe: {} ended", join(threads));
    ends.iter().for_each(|end| {
        let _ = call(SYS_close, &[*end as u64]);
    });
}

/// Threads sleep until moments that lie close together, each before those that began earlier.
fn one_moment(many: usize) {
    let first = now(CLOCK_MONOTONIC) + 50 * MILLISECOND;
    let threads = begin(many, move |number| {
        let until = first + (many - number) as u64 * 100;
        let until = [until / SECOND, until % SECOND];
        call(SYS_clock_nanosleep, &[CLOCK_MONOTONIC as u64, 1, until.as_ptr() as u64, 0]).expect("it sleeps");
    });
    println!("one moment: {} ended", join(threads));
}

/// Threads of the first CPU have turns beside one that may run anywhere.
fn one_cpu(many: usize) {
    let threads = begin(many, move |_| {
        let first = [1u64];
        call(SYS_sched_setaffinity, &[0, 8, first.as_ptr() as u64]).expect("the first CPU");
        (0..10).for_each(|_| thread::yield_now());
    });
    println!("one CPU: {} ended", join(threads));
}

fn open(path: &str, flags: i32) -> u64 {
    let path = CString::new(path).expect("a path");
    call(SYS_openat, &[AT_FDCWD as u64, path.as_ptr() as u64, flags as u64, 0o600]).expect("it opens")
}

/// Every second byte of a file is locked, and then all between.
fn one_file(many: usize) {
    let file = open("/tmp/locks", O_RDWR | O_CREAT);
    let lock = |start: usize, bytes: usize, kind: i32| {
        let lock = [kind as u32 as u64, start as u64, bytes as u64, 0];
        call(SYS_fcntl, &[file, F_SETLK as u64, lock.as_ptr() as u64])
    };
    let had = (0..many).filter(|number| lock(2 * number, 1, F_WRLCK).is_ok()).count();
    println!("one file: {had} locks");
    println!("one file: one lock {}", lock(0, 2 * many, F_WRLCK).is_ok());
    println!("one file: none {}", lock(0, 0, F_UNLCK).is_ok());
    call(SYS_close, &[file]).expect("it was open");
}

/// A folder has many names, all of which are read.
fn one_folder(many: usize) {
    let make = |path: &str| {
        let path = CString::new(path).expect("a path");
        call(SYS_mkdirat, &[AT_FDCWD as u64, path.as_ptr() as u64, 0o700]).expect("a folder")
    };
    make("/tmp/crowd");
    for number in 0..many {
        make(&format!("/tmp/crowd/{number}"));
    }
    println!("one folder: {} names", std::fs::read_dir("/tmp/crowd").expect("it opens").count());
    std::env::set_current_dir("/tmp/crowd/0").expect("it is there");
    println!("one folder: {:?}", std::env::current_dir().ok());
    std::env::set_current_dir("/").expect("it is there");
    let gone = (0..many).filter(|number| std::fs::remove_dir(format!("/tmp/crowd/{number}")).is_ok()).count();
    println!("one folder: {gone} gone, itself {}", std::fs::remove_dir("/tmp/crowd").is_ok());
}

/// A child has the descriptors of its parent.
fn one_table(many: usize) {
    let most = [4096u64, 4096];
    call(SYS_prlimit64, &[0, RLIMIT_NOFILE as u64, most.as_ptr() as u64, 0]).expect("a limit");
    let all: Vec<u64> = (0..many).map(|_| call(SYS_dup, &[1]).expect("a descriptor")).collect();
    let is_open = |number: &&u64| call(SYS_fcntl, &[**number, F_GETFD as u64]).is_ok();
    let Some(child) = fork() else { exit(i32::from(all.iter().filter(is_open).count() != many)) };
    println!("one table: {}", ended(wait(child)));
    let last = *all.last().expect("there is one");
    println!("one table: closed {:?}", call(SYS_close_range, &[all[0], last, 0]));
    println!("one table: {} open", all.iter().filter(is_open).count());
}

/// Signals wait, and are taken in the order in which they came.
fn one_signal(many: usize) {
    const SIGNAL: i32 = 40;
    mask(bit(SIGNAL) | bit(SIGNAL + 1));
    let send = |signal: i32, value: usize| {
        let mut info = [0u32; 32];
        (info[0], info[2], info[6]) = (signal as u32, -1i32 as u32, value as u32);
        let process = std::process::id();
        call(SYS_rt_sigqueueinfo, &[process.into(), signal as u64, info.as_ptr() as u64])
    };
    println!("one signal: {} sent", (0..many).filter(|value| send(SIGNAL, *value).is_ok()).count());
    println!("one signal: another {}", send(SIGNAL + 1, 7).is_ok());
    println!("one signal: another taken {}", await_signal(SIGNAL + 1, SECOND).is_ok());
    let is_next = |value: &usize| await_signal(SIGNAL, SECOND).is_ok_and(|info| info[6] as usize == *value);
    println!("one signal: {} taken in order", (0..many).take_while(is_next).count());
    mask(0);
}
