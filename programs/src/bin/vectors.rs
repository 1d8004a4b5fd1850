//! SVE, where the CPU has it: what a thread has there is its own, over switches of threads and handlers of signals.

use libc::*;
use programs::machine::{SEEN, handle};
use programs::vectors::{hold_vectors, spoil_vectors};
use programs::{call, tell};
use std::sync::atomic::Ordering;
use std::thread;

/// PR_SVE_SET_VL, PR_SVE_GET_VL.
const SET_VECTOR: u64 = 50;
const GET_VECTOR: u64 = 51;

extern "C" fn spoil(_: i32, _: &siginfo_t, _: *mut c_void) {
    spoil_vectors();
    SEEN.fetch_add(1, Ordering::SeqCst);
}

fn main() {
    let features = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !features.split_whitespace().any(|word| word == "sve") {
        println!("no SVE");
        return;
    }
    let bytes = call(SYS_prctl, &[GET_VECTOR]).expect("a length") & 0xffff;
    println!("vectors are whole quadwords: {}", bytes >= 16 && bytes.is_multiple_of(16));
    for wanted in [0, 8, 17, 8208, 1 << 20 | 16] {
        tell(&format!("vectors of {wanted:#x} bytes"), call(SYS_prctl, &[SET_VECTOR, wanted]));
    }
    tell("the shortest vectors", call(SYS_prctl, &[SET_VECTOR, 16]));
    handle(SIGALRM, spoil, SA_RESTART).expect("a handler");
    let times = [0u64, 1000, 0, 1000];
    call(SYS_setitimer, &[0, times.as_ptr() as u64, 0]).expect("a timer");
    let threads: Vec<_> = (3..8).map(|seed| thread::spawn(move || hold_vectors(seed))).collect();
    // Whoever holds something takes the signals.
    let mask = 1u64 << (SIGALRM - 1);
    call(SYS_rt_sigprocmask, &[SIG_BLOCK as u64, &raw const mask as u64, 0, 8]).expect("a mask");
    let wrong: Vec<u64> = threads.into_iter().map(|thread| thread.join().expect("it ends")).collect();
    call(SYS_setitimer, &[0, [0u64; 4].as_ptr() as u64, 0]).expect("none");
    println!("not kept: {wrong:?}, signals came: {}", SEEN.load(Ordering::SeqCst) > 0);
}
