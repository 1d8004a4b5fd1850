//! A module: the kernel loads it while it runs, calls it on every CPU, and unloads it.
//!
//! It has text, constants with addresses in them, data and zeros, and uses what the kernel exports.
#![no_std]

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};

unsafe extern "C" {
    /// Says a line.
    fn module_say(text: *const u8, bytes: usize);
}

/// What its name is.
#[used]
#[unsafe(link_section = ".modinfo")]
static NAME: [u8; 12] = *b"name=sample\0";

/// A number and a function.
type Step = (u64, fn(u64) -> u64);

/// Constants, and addresses that relocation writes.
static STEPS: [Step; 3] = [(3, triple), (5, add_five), (2, halve)];
/// Data that is not zero.
static CALLS: AtomicU64 = AtomicU64::new(1 << 32);
/// Zeros.
static SUM: AtomicU64 = AtomicU64::new(0);

#[inline(never)]
fn triple(number: u64) -> u64 {
    number.wrapping_mul(3)
}

#[inline(never)]
fn add_five(number: u64) -> u64 {
    number.wrapping_add(5)
}

#[inline(never)]
fn halve(number: u64) -> u64 {
    number / 2
}

fn say(text: &str) {
    // SAFETY: the kernel reads so many bytes, which are there.
    unsafe { module_say(text.as_ptr(), text.len()) };
}

/// Every CPU calls it once. Not 0 says that something is not as it was linked.
#[unsafe(no_mangle)]
pub extern "C" fn module_start(cpu: u64) -> u64 {
    // By the addresses in it, and not by what the compiler knows of them.
    let steps = black_box(&STEPS);
    let value = steps.iter().fold(cpu, |value, (_, step)| step(value));
    let is_linked = value == (3 * cpu + 5) / 2 && steps.iter().map(|(number, _)| number).sum::<u64>() == 10;
    SUM.fetch_add(cpu, Ordering::Relaxed);
    let before = CALLS.fetch_add(1, Ordering::Relaxed);
    u64::from(!is_linked || before < 1 << 32)
}

/// One CPU calls it before the module goes.
#[unsafe(no_mangle)]
pub extern "C" fn module_stop() {
    match CALLS.load(Ordering::Relaxed) & 0xffff_ffff {
        0 => say("sample: no CPU called"),
        1 => say("sample: one CPU called"),
        _ => say("sample: every CPU called"),
    }
}
