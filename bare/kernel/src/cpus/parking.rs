//! Who parks when a leaf of the linear map changes size: see [`hardware::parking`] for how.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hardware::parking::{self, Place};
use hardware::{image, per_cpu, timer};
use linearmap::NotParked;
use pagetable::{Census, Tolerance};
use vmsa::BbmLevel;

use crate::cpus::calls;
use crate::facts::facts;

/// Milliseconds that a CPU has to park. One that does not is named, and nothing is changed. A virtual CPU may not run for seconds, where
/// its host has much else to do.
const PATIENCE: u64 = 10_000;

/// A bit for each CPU that walks the kernel's tables.
static WALKING: AtomicU32 = AtomicU32::new(0);
/// A bit for each of them that tolerates a live leaf that changes size.
static TOLERANT: AtomicU32 = AtomicU32::new(0);
/// A bit for each of those to which TLB conflict aborts may come of it.
static CONFLICTING: AtomicU32 = AtomicU32::new(0);
/// The longest that CPUs stood still, in ticks of the counter.
static LONGEST: AtomicU64 = AtomicU64::new(0);

/// CPUs can park from now on. Once.
pub(crate) fn start() {
    let facts = facts();
    let place = Place {
        board: facts.linear.address(facts.parking.board).bits(),
        board_physical: facts.parking.board.bits(),
        image_offset: image::whole().start.wrapping_sub(facts.load_address.bits()),
        ttbr0: facts.parking.ttbr0,
        ttbr1: facts.parking.ttbr1,
    };
    // SAFETY: boot took the board for this, cleared it, and mapped it in the lower half and by the linear map, which has it for
    // ever; both tables stay as boot built them; no TTBR that this kernel writes has CnP.
    unsafe { parking::set_up(place) };
}

/// A CPU walks the kernel's tables from now on, and tolerates so much.
pub(crate) fn note(cpu: usize, tolerance: Tolerance) {
    if Census::new(tolerance).tolerated().is_some() {
        TOLERANT.fetch_or(1 << cpu, Ordering::Relaxed);
        if tolerance.level() < BbmLevel::Level3 {
            CONFLICTING.fetch_or(1 << cpu, Ordering::Relaxed);
        }
    }
    WALKING.fetch_or(1 << cpu, Ordering::Release);
}

/// A CPU comes to its end: nobody waits for it any more.
pub(crate) fn leave(cpu: usize) {
    WALKING.fetch_and(!(1 << cpu), Ordering::Relaxed);
}

/// Whether this CPU tolerates a live leaf that changes size.
fn is_tolerant() -> bool {
    TOLERANT.load(Ordering::Relaxed) & 1 << per_cpu::index() != 0
}

/// What is tolerated by every CPU that walks the tables while this one changes them, others being parked: by this one alone, if it
/// parks all others.
pub(crate) fn tolerated() -> Tolerance {
    let level = match CONFLICTING.load(Ordering::Relaxed) {
        _ if !is_tolerant() => BbmLevel::Level0,
        0 => BbmLevel::Level3,
        _ => BbmLevel::Level2,
    };
    Tolerance::new(level, true)
}

/// Runs `change` while CPUs are parked: those that do not tolerate it, if this one does, or all others. The lock of the linear map is
/// held, so that one parks at a time.
pub(crate) fn run(change: impl FnOnce()) -> Result<(), NotParked> {
    let others = WALKING.load(Ordering::Acquire) & !(1 << per_cpu::index());
    let set = if is_tolerant() { others & !TOLERANT.load(Ordering::Relaxed) } else { others };
    run_without(set, change)
}

/// Runs `body` while all other CPUs are parked. The lock of the linear map is held, as above.
pub(crate) fn run_alone(body: impl FnOnce()) -> Result<(), NotParked> {
    run_without(WALKING.load(Ordering::Acquire) & !(1 << per_cpu::index()), body)
}

fn run_without(set: u32, change: impl FnOnce()) -> Result<(), NotParked> {
    let start = timer::read_counter();
    let ticks = timer::read_frequency() * PATIENCE / 1000;
    parking::park(set, ticks, calls::interrupt_others).map_err(|cpu| NotParked(Some(cpu)))?;
    change();
    parking::release(set);
    LONGEST.fetch_max(timer::read_counter() - start, Ordering::Relaxed);
    Ok(())
}

/// The longest that CPUs stood still, in ticks of the counter.
pub(crate) fn longest() -> u64 {
    LONGEST.load(Ordering::Relaxed)
}
