//! `ppoll` and `pselect6`: what is told, what is counted, what time is left.

use libc::*;
use programs::{Answer, call, tell};
use std::ffi::CStr;

const MILLISECOND: u64 = 1_000_000;

fn main() {
    events();
    sets();
    times();
    masks();
}

fn open(path: &CStr, flags: i32) -> u64 {
    call(SYS_openat, &[AT_FDCWD as u64, path.as_ptr() as u64, flags as u64, 0o644]).expect("it opens")
}

fn pipe() -> [u64; 2] {
    let mut ends = [0i32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, O_NONBLOCK as u64]).expect("a pipe");
    ends.map(|end| end as u64)
}

fn write(number: u64, bytes: usize) -> Answer {
    call(SYS_write, &[number, vec![1u8; bytes].as_ptr() as u64, bytes as u64])
}

fn events() {
    let poll = |what: &str, number: u64, events: i16| {
        let mut asked = pollfd { fd: number as i32, events, revents: 0 };
        let time = [0u64, MILLISECOND];
        let answer = call(SYS_ppoll, &[&raw mut asked as u64, 1, time.as_ptr() as u64, 0, 8]);
        tell(what, answer);
        println!("  {:#x}", asked.revents);
    };
    const ALL: i16 = 0x3fff;
    let [from, to] = pipe();
    poll("an empty pipe", from, ALL);
    poll("its other end", to, ALL);
    write(to, 100_000).expect("it writes");
    poll("a full pipe", from, ALL);
    poll("its other end", to, ALL);
    poll("POLLRDNORM of a full pipe", from, POLLRDNORM);
    poll("POLLWRNORM of a full pipe", to, POLLWRNORM);
    poll("no event of a full pipe", from, 0);
    call(SYS_close, &[from]).expect("it closes");
    poll("nobody reads", to, ALL);
    let file = open(c"file", O_CREAT | O_RDWR);
    poll("a file", file, ALL);
    poll("POLLRDNORM of a file", file, POLLRDNORM);
    poll("a folder", open(c".", O_DIRECTORY), ALL);
    poll("null", open(c"/dev/null", O_RDWR), ALL);
    poll("a path", open(c"file", O_PATH), ALL);
    poll("a path, no event", open(c"file", O_PATH), 0);
    poll("a closed number", 99, 0);
}

/// Asks of numbers below 64: which are in the sets then.
fn select(what: &str, count: u64, mut sets: [u64; 3]) {
    let time = [0u64, MILLISECOND];
    let [reads, writes, errors] = sets.each_mut().map(|set| if *set == 0 { 0 } else { &raw mut *set as u64 });
    tell(what, call(SYS_pselect6, &[count, reads, writes, errors, time.as_ptr() as u64, 0]));
    println!("  {:?}", sets.map(u64::count_ones));
}

fn sets() {
    let [from, to] = pipe();
    let [first, second] = [1u64 << from, 1 << to];
    select("nothing is there", 64, [first, 0, 0]);
    select("room", 64, [0, second, 0]);
    select("the other way round", 64, [second, first, 0]);
    write(to, 1).expect("it writes");
    select("something is there", 64, [first, second, first | second]);
    call(SYS_close, &[to]).expect("it closes");
    select("no writer", 64, [first, 0, first]);
    select("no writer, of errors alone", 64, [0, 0, first]);
    select("a closed number", 64, [second, 0, 0]);
    let [from, to] = pipe();
    call(SYS_close, &[from]).expect("it closes");
    select("no reader", 64, [1 << to, 1 << to, 1 << to]);
    let path = 1 << open(c"file", O_PATH);
    select("a path", 64, [path, path, path]);
    select("beyond the count", 1, [path, 0, 0]);
    select("less than none", u64::MAX, [0, 0, 0]);
    let mut many = [0u64; 64];
    many[0] = path;
    many[63] = 1;
    let time = [0u64, MILLISECOND];
    let ask = |count: u64| call(SYS_pselect6, &[count, many.as_ptr() as u64, 0, 0, time.as_ptr() as u64, 0]);
    tell("many", ask(1025));
}

fn times() {
    let [from, to] = pipe();
    let mut asked = pollfd { fd: from as i32, events: POLLIN, revents: 0 };
    let set = 1u64 << from;
    for is_there in [false, true] {
        let time = if is_there { [5, 0] } else { [0, 2 * MILLISECOND] };
        let wanted = time[0] * 1000 + time[1] / MILLISECOND;
        let told = |what: &str, answer: Answer, left: [u64; 2]| {
            tell(what, answer);
            let left = left[0] * 1000 + left[1] / MILLISECOND;
            println!("  all of it {}, none {}, less {}", left == wanted && wanted < 10, left == 0, left < wanted);
        };
        let mut left = time;
        told("poll", call(SYS_ppoll, &[&raw mut asked as u64, 1, left.as_mut_ptr() as u64, 0, 8]), left);
        let (mut left, mut its) = (time, set);
        let answer = call(SYS_pselect6, &[64, &raw mut its as u64, 0, 0, left.as_mut_ptr() as u64, 0]);
        told("select", answer, left);
        write(to, 1).expect("it writes");
    }
    // A time that cannot be written is no error.
    let read_only = programs::memory::pages(1);
    call(SYS_mprotect, &[read_only, programs::page(), PROT_READ as u64]).expect("rights");
    tell("a time that is read-only", call(SYS_ppoll, &[&raw mut asked as u64, 1, read_only, 0, 8]));
}

/// What is open while it waits alone.
fn masks() {
    extern "C" fn handler(signal: i32, _: &siginfo_t, _: *mut c_void) {
        println!("  signal {signal}");
    }
    programs::machine::handle(SIGUSR1, handler, 0).expect("a handler");
    let set = 1u64 << (SIGUSR1 - 1);
    call(SYS_rt_sigprocmask, &[SIG_BLOCK as u64, &raw const set as u64, 0, 8]).expect("a mask");
    call(SYS_kill, &[std::process::id().into(), SIGUSR1 as u64]).expect("it is sent");
    let none = 0u64;
    let [from, to] = pipe();
    write(to, 1).expect("it writes");
    let mut asked = pollfd { fd: from as i32, events: POLLIN, revents: 0 };
    tell("poll, something is there", call(SYS_ppoll, &[&raw mut asked as u64, 1, 0, &raw const none as u64, 8]));
    let mut pending = 0u64;
    call(SYS_rt_sigpending, &[&raw mut pending as u64, 8]).expect("a set");
    println!("pending: {pending:#x}");
    asked.events = 0;
    let time = [5u64, 0];
    tell(
        "poll, nothing is there",
        call(SYS_ppoll, &[&raw mut asked as u64, 1, time.as_ptr() as u64, &raw const none as u64, 8]),
    );
    let mut mask = 0u64;
    call(SYS_rt_sigprocmask, &[0, 0, &raw mut mask as u64, 8]).expect("a mask");
    println!("mask: {mask:#x}");
}
