//! Parking: CPUs wait off the kernel's tables while one of them changes what the others do not tolerate. [`kerncore::parking`] is the
//! protocol; here are its words, and the way off the tables. Every wait for a lock with interrupts masked answers
//! ([`answer`]); a wait for somebody who waits for nobody, such as a reader of tables, need not.

use core::sync::atomic::AtomicU64;

use kerncore::parking::{Others, Parking};
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
/// Who parks, and when.
pub static PARKING: Parking<AtomicU64> = {
    let [walking, tolerant, conflicting, requested, ticket, left] = [const { AtomicU64::new(0) }; 6];
    Parking::new(walking, tolerant, conflicting, requested, ticket, left)
};

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

/// Parks this CPU if it is asked to. To be called wherever a CPU waits for a lock with interrupts masked, and where it takes an interrupt.
#[inline]
pub fn answer() {
    if PARKING.is_requested() {
        answer_request();
    }
}

#[cold]
fn answer_request() {
    let masks = interrupts::mask();
    let this = per_cpu::index();
    if PARKING.take_request(this)
        && let Some(place) = PLACE.get()
    {
        let parked = (parked as *const () as u64).wrapping_sub(place.image_offset);
        let line = place.board_physical + this as u64 * LINE_BYTES;
        // SAFETY: exceptions are masked; the tables are what `set_up` was promised, and `parked` is identity text. It comes back with
        // this CPU as it was.
        unsafe { park_raw(line, parked, place.ttbr0, place.ttbr1) };
    }
    interrupts::restore(masks);
}

/// The other CPUs: the board reaches each, `call` interrupts all, and they are waited for so long.
pub struct Board<C> {
    place: &'static Place,
    call: C,
    /// Of the counter.
    end: u64,
}

impl<C> Board<C> {
    /// That of [`set_up`]. Others have so many ticks of the counter from now on.
    pub fn new(call: C, ticks: u64) -> Option<Self> {
        Some(Self { place: PLACE.get()?, call, end: timer::read_counter() + ticks })
    }
}

impl<C: Fn()> Others for Board<C> {
    type Word = AtomicU64;

    fn line(&self, cpu: usize) -> [&AtomicU64; 2] {
        let at = self.place.board + cpu as u64 * LINE_BYTES;
        // SAFETY: the promise of `set_up`; what is there is written as 64-bit words alone.
        [at, at + 8].map(|word| unsafe { AtomicU64::from_ptr(word as *mut u64) })
    }

    fn call(&self) {
        (self.call)();
    }

    fn wait(&self) -> bool {
        interrupts::pause();
        timer::read_counter() <= self.end
    }

    fn wake(&self) {
        interrupts::send_event();
    }
}
