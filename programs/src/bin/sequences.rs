//! Restartable sequences (`rseq`): the CPU's number in memory, sequences that end in their midst, what is refused.

use libc::*;
use programs::machine::{execute, handle, word};
use programs::memory::pages;
use programs::{Answer, call, child, page, tell};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

const SIGNATURE: u32 = 0xd428_bc00;
const BYTES: u64 = 32;
const UNREGISTER: u64 = 1;
/// Where things are in a page of memory: the area, what describes the sequence, half a millisecond, the code.
const DESCRIPTION: u64 = 64;
const TIME: u64 = 128;
const CODE: u64 = 256;

/// Code, where its sequence is in it, and where the handler: bytes from its beginning.
struct Code(&'static [u32], Range<u64>, u64);

/// The sequence goes round for ever; behind it the signature, and a handler that returns 1.
const ENDLESS: Code = Code(&[0x5280_0000, 0x1400_0000, SIGNATURE, 0x5280_0020, 0xd65f_03c0], 4..8, 12);
/// The sequence sleeps, and then goes round.
const SLEEPS: Code = Code(
    &[
        0x10ff_fc00, // adr x0, #TIME - CODE
        0xd280_0001, // mov x1, #0
        0xd280_0ca8, // mov x8, #101: nanosleep
        0xd400_0001, // svc #0
        0x1400_0000,
        SIGNATURE,
        0x5280_0020,
        0xd65f_03c0,
    ],
    12..20,
    24,
);
/// The handler is in the sequence, where it must not be.
const INSIDE: Code = Code(&[0x1400_0002, SIGNATURE, 0x1400_0000], 8..12, 8);

fn main() {
    refused();
    numbers();
    inherited();
    println!("interrupted: {}", child(|| run(&ENDLESS, Some(20), SIGNATURE)));
    println!("asleep: {}", child(|| run(&SLEEPS, None, SIGNATURE)));
    println!("another signature: {}", child(|| run(&ENDLESS, Some(20), 7)));
    println!("a handler inside: {}", child(|| run(&INSIDE, Some(20), SIGNATURE)));
}

fn register(area: u64, flags: u64) -> Answer {
    call(SYS_rseq, &[area, BYTES, flags, SIGNATURE.into()])
}

fn refused() {
    let area = pages(2);
    tell("too small", call(SYS_rseq, &[area, 16, 0, SIGNATURE.into()]));
    tell("not aligned", register(area + 8, 0));
    tell("an unknown flag", register(area, 1 << 20));
    tell("not there", register(area, UNREGISTER));
    call(SYS_munmap, &[area + page(), page()]).expect("it goes");
    println!("nowhere: {}", child(|| register(area + page(), 0).map_or_else(|error| error.0, |_| 0)));
    tell("registered", register(area, 0));
    tell("again", register(area, 0));
    tell("elsewhere", register(area + BYTES, 0));
    tell("another signature", call(SYS_rseq, &[area, BYTES, 0, 7]));
    tell("taken back by another", call(SYS_rseq, &[area, BYTES, UNREGISTER, 7]));
    tell("taken back elsewhere", register(area + BYTES, UNREGISTER));
    tell("taken back", register(area, UNREGISTER));
    println!("without a number: {:#x}", word(area + 4).load(Relaxed));
    tell("taken back again", register(area, UNREGISTER));
}

/// The number in memory is the CPU's, on whichever it runs.
fn numbers() {
    let is_right = || {
        let area = pages(1);
        register(area, 0).expect("it is the first");
        let mut cpu = 0u32;
        let is_right = (0..1000).all(|_| {
            let before = word(area + 4).load(Relaxed);
            call(SYS_getcpu, &[&raw mut cpu as u64, 0]).expect("a CPU");
            before == cpu || word(area + 4).load(Relaxed) != before
        });
        let is_same = word(area).load(Relaxed) == word(area + 4).load(Relaxed);
        register(area, UNREGISTER).expect("it was the first");
        is_right && is_same
    };
    println!("the CPU's number: {}", is_right());
    let all: Vec<_> = (0..4).map(|_| thread::spawn(is_right)).collect();
    println!("in threads: {}", all.into_iter().all(|thread| thread.join().expect("it ends")));
}

fn inherited() {
    let area = pages(1);
    tell("registered", register(area, 0));
    println!("a child: {}", child(|| register(area, 0).map_or_else(|error| error.0, |_| 0)));
    tell("taken back", register(area, UNREGISTER));
}

extern "C" fn ignore(_: i32, _: &siginfo_t, _: *mut c_void) {}

/// What the code returns, and 10 more if its sequence is not over; `timer` is after how many milliseconds a signal comes.
fn run(Code(code, sequence, handler): &Code, timer: Option<u64>, signature: u32) -> i32 {
    let area = pages(1);
    code.iter().zip((area + CODE..).step_by(4)).for_each(|(one, at)| word(at).store(*one, Relaxed));
    word(area + TIME + 8).store(500_000, Relaxed);
    call(SYS_mprotect, &[area, page(), (PROT_READ | PROT_WRITE | PROT_EXEC) as u64]).expect("it is ours");
    let store = |at: u64, value: u64| {
        word(area + at + 4).store((value >> 32) as u32, Relaxed);
        word(area + at).store(value as u32, Relaxed);
    };
    store(DESCRIPTION + 8, area + CODE + sequence.start);
    store(DESCRIPTION + 16, sequence.end - sequence.start);
    store(DESCRIPTION + 24, area + CODE + handler);
    call(SYS_rseq, &[area, BYTES, 0, signature.into()]).expect("it is the first");
    handle(SIGALRM, ignore, 0).expect("a handler");
    if let Some(milliseconds) = timer {
        let time = [0, 0, 0, milliseconds * 1000];
        call(SYS_setitimer, &[ITIMER_REAL as u64, time.as_ptr() as u64, 0]).expect("a timer");
    }
    store(8, area + DESCRIPTION);
    let answer = execute(area + CODE);
    (answer + 10 * u64::from(word(area + 8).load(Relaxed) != 0)) as i32
}
