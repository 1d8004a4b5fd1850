//! Who parks when a leaf of the linear map changes size: [`kerncore::parking`] says by which protocol, [`hardware::parking`] how.

use core::sync::atomic::{AtomicU64, Ordering};

use hardware::parking::{self, Board, PARKING, Place};
use hardware::{image, per_cpu, timer};
use linearmap::NotParked;
use pagetable::{Census, Tolerance};

use crate::cpus::calls;
use crate::facts::facts;

/// Milliseconds that a CPU has to park. One that does not is named, and nothing is changed. A virtual CPU may not run for seconds, where
/// its host has much else to do.
const PATIENCE: u64 = 10_000;

/// The longest that CPUs stood still, in ticks of the counter.
static LONGEST: AtomicU64 = AtomicU64::new(0);
/// CPUs that have not parked in time, and taken no interrupt since: a bit for each. Nobody waits for them again, with exceptions masked.
static LATE: AtomicU64 = AtomicU64::new(0);

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

/// A CPU walks the kernel's tables from now on, and tolerates so much. Under the map's lock, as all of this but [`leave`].
pub(crate) fn note(cpu: usize, tolerance: Tolerance) {
    PARKING.note(cpu, Census::new(tolerance).tolerated().map(|_| tolerance.level()));
}

/// A CPU comes to its end: nobody waits for it to park, and what it does not tolerate is not changed again.
pub(crate) fn leave(cpu: usize) {
    PARKING.leave(cpu);
}

/// What is tolerated by every CPU that walks the tables while this one changes them, others being parked: by this one alone, if it
/// parks all others.
pub(crate) fn tolerated() -> Tolerance {
    Tolerance::new(PARKING.tolerated(per_cpu::index()), true)
}

/// Whether a CPU would be asked to park for a change by this one.
pub(crate) fn asks(cpu: usize) -> bool {
    PARKING.asked_by(per_cpu::index()) >> cpu & 1 != 0
}

/// Runs `change` while CPUs are parked: those that do not tolerate it, if this one does, or all others.
pub(crate) fn run(change: impl FnOnce()) -> Result<(), NotParked> {
    measured(PARKING.asked_by(per_cpu::index()), |board| PARKING.run(per_cpu::index(), board, change))
}

/// Runs `body` while all other CPUs are parked.
pub(crate) fn run_alone(body: impl FnOnce()) -> Result<(), NotParked> {
    measured(u64::MAX, |board| PARKING.run_alone(per_cpu::index(), board, body))
}

fn measured(asked: u64, round: impl FnOnce(&Board<fn()>) -> Result<(), usize>) -> Result<(), NotParked> {
    let late = LATE.load(Ordering::Relaxed) & asked;
    if late != 0 {
        // For the next time, if it takes interrupts again.
        calls::interrupt_others();
        return Err(NotParked(Some(late.trailing_zeros() as usize)));
    }
    let start = timer::read_counter();
    let ticks = timer::read_frequency() * PATIENCE / 1000;
    let board = Board::new(calls::interrupt_others as fn(), ticks).ok_or(NotParked(None))?;
    if let Err(cpu) = round(&board) {
        LATE.fetch_or(1 << cpu, Ordering::Relaxed);
        return Err(NotParked(Some(cpu)));
    }
    LONGEST.fetch_max(timer::read_counter() - start, Ordering::Relaxed);
    Ok(())
}

/// This CPU takes interrupts.
pub(super) fn note_answer() {
    let this = 1 << per_cpu::index();
    if LATE.load(Ordering::Relaxed) & this != 0 {
        LATE.fetch_and(!this, Ordering::Relaxed);
    }
}

/// The longest that CPUs stood still, in ticks of the counter.
pub(crate) fn longest() -> u64 {
    LONGEST.load(Ordering::Relaxed)
}
