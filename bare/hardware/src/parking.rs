//! Parking: CPUs wait off the kernel's tables while one of them changes what the others do not tolerate.
//!
//! ```text
//! initiator   ticket ── interrupt ── wait until each has seen the ticket ── change, TLBIs, DSB ── ticket 0, event
//! other       interrupt, or a wait for a lock ── park: identity map, empty TTBR1, own TLB forgotten, seen = ticket ── 0? ── on
//! ```
//! One parks at a time: who holds the lock of the linear map. Every wait with interrupts masked answers ([`answer`]), so that
//! nobody who waits for that lock, or for one that the initiator holds, keeps the initiator waiting.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use spin::Once;

use crate::per_cpu::{self, MAX_CPUS};
use crate::{interrupts, timer};

/// Where CPUs park, and by which tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The board's address in the kernel's map.
    pub board: u64,
    /// Its physical address, at which `ttbr0` maps it.
    pub board_physical: u64,
    /// Virtual minus physical address of the image.
    pub image_offset: u64,
    /// TTBR0_EL1: the identity text and the board.
    pub ttbr0: u64,
    /// TTBR1_EL1: nothing.
    pub ttbr1: u64,
}

/// Bytes of a CPU's part of the board: the ticket, and the one that the CPU has seen.
const LINE_BYTES: u64 = 128;
/// Bytes of the board.
pub const BOARD_BYTES: u64 = LINE_BYTES * MAX_CPUS as u64;

static PLACE: Once<Place> = Once::new();
static TICKET: AtomicU64 = AtomicU64::new(0);
/// A bit for each CPU that is to park.
static REQUESTED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    #[link_name = "park"]
    fn park_raw(line: u64, parked: u64, ttbr0: u64, ttbr1: u64);
    #[link_name = "parked"]
    fn parked();
}

/// CPUs park there from now on.
///
/// # Safety
///
/// The board is all zeros, memory of its own, mapped writable at both addresses for ever, and both tables are as [`Place`] says and
/// never change; no TTBR has CnP set.
pub unsafe fn set_up(place: Place) {
    PLACE.call_once(|| place);
}

/// Parks this CPU if it is asked to. To be called wherever a CPU waits with interrupts masked, and where it takes an interrupt.
#[inline]
pub fn answer() {
    if REQUESTED.load(Ordering::Relaxed) != 0 {
        answer_request();
    }
}

#[cold]
fn answer_request() {
    let masks = interrupts::mask();
    let this = per_cpu::index();
    // Taken, so that the interrupt that comes for it later finds nothing to do.
    let is_meant = REQUESTED.fetch_and(!(1 << this), Ordering::Acquire) & 1 << this != 0;
    if let Some(place) = PLACE.get().filter(|_| is_meant) {
        let parked = (parked as *const () as u64).wrapping_sub(place.image_offset);
        let line = place.board_physical + this as u64 * LINE_BYTES;
        // SAFETY: exceptions are masked; the tables are what `set_up` was promised, and `parked` is identity text. It comes back with
        // this CPU as it was.
        unsafe { park_raw(line, parked, place.ttbr0, place.ttbr1) };
    }
    interrupts::restore(masks);
}

/// What a CPU is asked, and what it has seen of that.
struct Line {
    ticket: &'static AtomicU64,
    seen: &'static AtomicU64,
}

fn line(place: &Place, cpu: usize) -> Line {
    let at = place.board + cpu as u64 * LINE_BYTES;
    // SAFETY: the promise of `set_up`; what is there is written as 64-bit words alone.
    let ticket = unsafe { AtomicU64::from_ptr(at as *mut u64) };
    // SAFETY: as above.
    let seen = unsafe { AtomicU64::from_ptr((at + 8) as *mut u64) };
    Line { ticket, seen }
}

fn each(set: u32) -> impl Iterator<Item = usize> {
    (0..MAX_CPUS).filter(move |cpu| set & 1 << cpu != 0)
}

/// Parks CPUs of `set`, a bit each, this one not among them, by `call`, which interrupts every other CPU. If one is not parked after
/// so many ticks of the counter, all go on, and it is named. One initiator at a time.
pub fn park(set: u32, ticks: u64, call: impl FnOnce()) -> Result<(), usize> {
    let Some(place) = PLACE.get() else { return each(set).next().map_or(Ok(()), Err) };
    let ticket = TICKET.fetch_add(1, Ordering::Relaxed) + 1;
    each(set).for_each(|cpu| line(place, cpu).ticket.store(ticket, Ordering::Relaxed));
    // Behind the tickets: a CPU that takes its request finds one.
    REQUESTED.store(set, Ordering::Release);
    call();
    let end = timer::read_counter() + ticks;
    for cpu in each(set) {
        while line(place, cpu).seen.load(Ordering::Acquire) != ticket {
            if timer::read_counter() > end {
                release(set);
                return Err(cpu);
            }
            interrupts::pause();
        }
    }
    Ok(())
}

/// Lets parked CPUs go on. What was changed meanwhile is complete, its TLBIs too.
pub fn release(set: u32) {
    let Some(place) = PLACE.get() else { return };
    // Who has not taken the request finds none; who takes it at this moment finds no ticket.
    REQUESTED.store(0, Ordering::Relaxed);
    each(set).for_each(|cpu| line(place, cpu).ticket.store(0, Ordering::Release));
    interrupts::send_event();
}
