//! What a kernel's memory calls cost, told by the first process: instructions, where one nanosecond is one instruction (`-icount`).
//!
//! ```text
//! costs           pages alone (MADV_NOHUGEPAGE)
//! costs huge      memory that is advised to have large folios (MADV_HUGEPAGE)
//! costs groups    memory of which nothing is said
//! costs secret    a file of `memfd_secret`
//! ```
//! `cargo xtask bench kernel` runs this on Linux and on our kernel, and reads its lines.

use libc::*;
use programs::child::wait;
use programs::machine::{atomically, execute, execute_with, exit, fork};
use programs::memory::{ANONYMOUS, READ_WRITE, minor_faults};
use programs::{call, map, page, peek, poke};
use std::sync::atomic::Ordering::Relaxed;
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
    let word = std::env::args().nth(1);
    let advice = match word.as_deref() {
        Some("secret") => return secret(),
        Some("huge") => MADV_HUGEPAGE,
        Some("groups") => MADV_NORMAL,
        _ => MADV_NOHUGEPAGE,
    };
    // What Linux still does since the boot is over by the last round: the least counts.
    let rounds = [round(advice), round(advice), round(advice)];
    for (which, name) in NAMES.iter().enumerate() {
        println!("cost: {name} {}", rounds.iter().map(|round| round[which]).min().unwrap_or(0));
    }
}

/// Each for a page, but for `mprotect`, which is the call of half, and `faults`, which are those of all pages that `atomic` touches.
const NAMES: [&str; 9] = ["touch", "fork", "mprotect", "munmap", "atomic", "faults", "read", "file", "text"];

static PAUSE: timespec = timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// What each of [`NAMES`] costs.
fn round(advice: i32) -> [u64; NAMES.len()] {
    let pages = BYTES / page();
    let base = fresh(advice);
    let touched = timed(|| touch(base));
    // A new slice of time: who forks late in one waits until the child has run.
    call(SYS_nanosleep, &[&raw const PAUSE as u64, 0]).expect("time passes");
    let mut child = 0;
    let forked = timed(|| child = fork().unwrap_or_else(|| exit(0)));
    wait(child);
    unmap(base);
    let base = fresh(advice);
    touch(base);
    let protected = timed(|| _ = call(SYS_mprotect, &[base, BYTES / 2, PROT_READ as u64]));
    unmap(base);
    let base = fresh(advice);
    touch(base);
    let unmapped = timed(|| unmap(base));
    let base = fresh(advice);
    let before = minor_faults();
    let added = timed(|| each_page(base, |at| atomically(at, |word| word.fetch_add(1, Relaxed))));
    let faults = minor_faults() - before;
    unmap(base);
    let [read, file, text] = reads(advice).map(|cost| cost / pages);
    [touched / pages, forked / pages, protected, unmapped / pages, added / pages, faults, read, file, text]
}

/// First touches by a load: of memory without a file, of a file that has none of its pages yet, and of memory without a file by an
/// instruction in a page that may be executed, and not read where the CPU can tell.
fn reads(advice: i32) -> [u64; 3] {
    let load = |at: u64| _ = std::hint::black_box(peek(at));
    let base = fresh(advice);
    let read = timed(|| each_page(base, load));
    unmap(base);
    let number = call(SYS_memfd_create, &[c"file".as_ptr() as u64, 0]).expect("a file");
    call(SYS_ftruncate, &[number, BYTES]).expect("a size");
    let base = map(0, BYTES, PROT_READ, MAP_PRIVATE, number as i32, 0).expect("room");
    let of_file = timed(|| each_page(base, load));
    unmap(base);
    call(SYS_close, &[number]).expect("it closes");
    // `ldrb w0, [x0]`, `ret`.
    let code = code(&[0xd65f_03c0_3940_0000], PROT_EXEC);
    let base = fresh(advice);
    let by_text = timed(|| each_page(base, |at| _ = execute_with(code, at)));
    unmap(base);
    call(SYS_munmap, &[code, page()]).expect("it goes");
    [read, of_file, by_text]
}

/// Pages of a secret file, which are each second one of it, by an order in which none comes behind its neighbour; then all go.
fn secret() {
    const PAGES: u64 = 8192;
    const STEP: u64 = 3001;
    let most = [u64::MAX; 2];
    call(SYS_prlimit64, &[0, RLIMIT_MEMLOCK as u64, most.as_ptr() as u64, 0]).expect("no limit");
    let (bytes, step) = (2 * PAGES * page(), 2 * page());
    let file = call(SYS_memfd_secret, &[0]).expect("a file");
    call(SYS_ftruncate, &[file, bytes]).expect("a size");
    let base = map(0, bytes, READ_WRITE, MAP_SHARED, file as i32, 0).expect("room");
    let place = |turn: u64| base + (turn * STEP % PAGES) * step;
    let touched = timed(|| (0..PAGES).for_each(|turn| poke(place(turn), 1)));
    let released = timed(|| {
        call(SYS_munmap, &[base, bytes]).expect("it goes");
        call(SYS_close, &[file]).expect("it closes");
    });
    println!("cost: secret {}\ncost: released {}", touched / PAGES, released / PAGES);
}

fn timed(body: impl FnOnce()) -> u64 {
    let start = Instant::now();
    body();
    start.elapsed().as_nanos() as u64
}

/// Memory of which this is advised.
fn fresh(advice: i32) -> u64 {
    let base = map(0, BYTES, READ_WRITE, ANONYMOUS, -1, 0).expect("room");
    // A kernel that has no huge pages refuses.
    let _ = call(SYS_madvise, &[base, BYTES, advice as u64]);
    base
}

fn each_page(base: u64, body: impl Fn(u64)) {
    // Asked once: the C library takes 40 instructions to tell, which would count for each page.
    let bytes = page();
    (0..BYTES / bytes).for_each(|which| body(base + which * bytes));
}

fn touch(base: u64) {
    each_page(base, |at| poke(at, 1));
}

fn unmap(base: u64) {
    call(SYS_munmap, &[base, BYTES]).expect("it goes");
}

/// A page with these instructions, two in each word.
fn code(words: &[u64], rights: i32) -> u64 {
    let code = map(0, page(), READ_WRITE, ANONYMOUS, -1, 0).expect("room");
    (code..).zip(words.iter().flat_map(|words| words.to_le_bytes())).for_each(|(at, byte)| poke(at, byte));
    call(SYS_mprotect, &[code, page(), rights as u64]).expect("code");
    code
}

/// Nanoseconds since the machine began, by the counter that programs may read.
fn counter_nanoseconds() -> u64 {
    // `mrs x0, cntvct_el0` and `mrs x0, cntfrq_el0`, with `ret` behind each.
    let code = code(&[0xd65f_03c0_d53b_e040, 0xd65f_03c0_d53b_e000], PROT_READ | PROT_EXEC);
    (u128::from(execute(code)) * 1_000_000_000 / u128::from(execute(code + 8).max(1))) as u64
}
