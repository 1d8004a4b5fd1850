//! A guest that is held so that a debugger can look: from a finding on, no CPU begins another block of instructions until somebody
//! has stopped the machine and lets it go on. The interface has no call that stops a machine; each CPU is sent back to where it is.

use std::ffi::{c_int, c_uint};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::interface::{self, Handle};

/// The first finding that whoever listens does not excuse is to hold the guest.
static IS_ASKED: AtomicBool = AtomicBool::new(false);
static IS_HELD: AtomicBool = AtomicBool::new(false);
/// One has.
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// CPUs that were sent back since, one bit each: such a CPU sleeps only once the machine is stopped.
static HELD: AtomicU64 = AtomicU64::new(0);

static GATE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

/// What whoever listens answers to a finding that is to hold the guest.
pub(crate) const HOLD: u8 = b'h';
/// How long a CPU that is held rests between two looks.
const REST: Duration = Duration::from_millis(1);

/// A finding will hold the guest.
pub(crate) fn ask() {
    IS_ASKED.store(true, Ordering::Relaxed);
}

/// What a callback before each block must be able to do.
pub(crate) fn flags() -> c_int {
    if IS_ASKED.load(Ordering::Relaxed) { interface::SETS_PLACE } else { interface::READS_REGISTERS }
}

/// A finding was told: the answer says whether it holds the guest.
pub(crate) fn answer(report: &mut UnixStream) {
    if !IS_ASKED.load(Ordering::Relaxed) || IS_OVER.load(Ordering::Relaxed) {
        return;
    }
    let mut answer = [0];
    if report.read_exact(&mut answer).is_ok() && answer == [HOLD] {
        IS_OVER.store(true, Ordering::Relaxed);
        IS_HELD.store(true, Ordering::Relaxed);
    }
}

/// Before a block of instructions of `cpu`, which `place` reads the address of: does not return while the guest is held. The first
/// CPU that comes here tells so: a debugger that stopped the machine before would not be noticed.
pub(crate) fn wait(cpu: c_uint, place: Option<Handle>, tell: fn()) {
    if !IS_HELD.load(Ordering::Relaxed) {
        return;
    }
    let Some(place) = place.and_then(interface::register_value) else { return };
    if HELD.fetch_or(1 << (cpu % 64), Ordering::Relaxed) == 0 {
        tell();
    }
    rest();
    interface::go_to(place);
}

/// Until somebody lets the guest go on, or QEMU may want this CPU for something else.
fn rest() {
    if let Ok(guard) = GATE.0.lock() {
        // Both ends are the same: the CPU looks again.
        drop(GATE.1.wait_timeout(guard, REST));
    }
}

/// `cpu` goes on after it slept: if it had been held, somebody had stopped the machine.
pub(crate) fn resumed(cpu: c_uint) {
    if HELD.load(Ordering::Relaxed) >> (cpu % 64) & 1 == 1 {
        IS_HELD.store(false, Ordering::Relaxed);
        GATE.1.notify_all();
    }
}
