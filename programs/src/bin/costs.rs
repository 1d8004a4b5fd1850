//! What a kernel's memory calls cost, told by the first process: instructions, where one nanosecond is one instruction (`-icount`).
//!
//! `cargo xtask bench kernel` runs this on Linux and on our kernel, and reads its lines.

use libc::*;
use programs::child::wait;
use programs::machine::{execute, exit, fork};
use programs::memory::{ANONYMOUS, READ_WRITE};
use programs::{call, map, page, poke};
use std::time::Instant;

/// What is mapped and touched.
const BYTES: u64 = 256 << 20;

fn main() {
    if std::process::id() != 1 {
        return println!("costs are told by the first process alone");
    }
    let boot = counter_nanoseconds();
    let mut info = [0u64; 14];
    call(SYS_sysinfo, &[info.as_mut_ptr() as u64]).expect("what is free");
    println!("cost: boot {boot}");
    println!("cost: free {}", info[5] * (info[13] & 0xffff_ffff));
    // What Linux still does since the boot is over by the last round: the least counts.
    let rounds = [round(), round(), round()];
    for (which, name) in ["touch", "fork", "mprotect", "munmap"].iter().enumerate() {
        println!("cost: {name} {}", rounds.iter().map(|round| round[which]).min().unwrap_or(0));
    }
}

static PAUSE: timespec = timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Each a page, but for `mprotect`, which is the call of half.
fn round() -> [u64; 4] {
    let pages = BYTES / page();
    let base = fresh();
    let touched = timed(|| touch(base));
    // A new slice of time: who forks late in one waits until the child has run.
    call(SYS_nanosleep, &[&raw const PAUSE as u64, 0]).expect("time passes");
    let mut child = 0;
    let forked = timed(|| child = fork().unwrap_or_else(|| exit(0)));
    wait(child);
    unmap(base);
    let base = fresh();
    touch(base);
    let protected = timed(|| _ = call(SYS_mprotect, &[base, BYTES / 2, PROT_READ as u64]));
    unmap(base);
    let base = fresh();
    touch(base);
    let unmapped = timed(|| unmap(base));
    [touched / pages, forked / pages, protected, unmapped / pages]
}

fn timed(body: impl FnOnce()) -> u64 {
    let start = Instant::now();
    body();
    start.elapsed().as_nanos() as u64
}

/// Memory without huge pages.
fn fresh() -> u64 {
    let base = map(0, BYTES, READ_WRITE, ANONYMOUS, -1, 0).expect("room");
    // A kernel that has none refuses.
    let _ = call(SYS_madvise, &[base, BYTES, MADV_NOHUGEPAGE as u64]);
    base
}

fn touch(base: u64) {
    (0..BYTES / page()).for_each(|which| poke(base + which * page(), 1));
}

fn unmap(base: u64) {
    call(SYS_munmap, &[base, BYTES]).expect("it goes");
}

/// Nanoseconds since the machine began, by the counter that programs may read.
fn counter_nanoseconds() -> u64 {
    /// `mrs x0, cntvct_el0` and `mrs x0, cntfrq_el0`, with `ret` behind each.
    const READERS: [u64; 2] = [0xd65f_03c0_d53b_e040, 0xd65f_03c0_d53b_e000];
    let code = map(0, page(), READ_WRITE, ANONYMOUS, -1, 0).expect("room");
    (code..).zip(READERS.iter().flat_map(|words| words.to_le_bytes())).for_each(|(at, byte)| poke(at, byte));
    call(SYS_mprotect, &[code, page(), (PROT_READ | PROT_EXEC) as u64]).expect("code");
    (u128::from(execute(code)) * 1_000_000_000 / u128::from(execute(code + 8).max(1))) as u64
}
