//! Leaves side by side that lead on from each other: edited here and copied there [`TURNS`] at a time, two by each load and store.
//!
//! ```text
//!   here    │ d  │ d+s │ d+2s │ … │    s: the bytes of a leaf       becomes │ e │ e+s │ e+2s │ … │, unless it is as asked
//!   there   │ ·  │  ·  │  ·   │ … │    no hardware walks it yet     becomes │ c │ c+s │ c+2s │ … │
//! ```

use vmsa::{Bits, Descriptor};

use super::Writer;
use crate::alike::TURNS;
use crate::platform::{Platform, Slot};

/// Address bits above this may stand elsewhere in a descriptor than those below (LPA, LPA2).
const TOGETHER: u32 = 48;

/// What becomes of a leaf that is copied.
#[derive(Clone, Copy)]
pub(crate) struct Copied {
    pub(crate) leaf: Descriptor,
    /// Here: what it was, what it is there, or a hole.
    pub(crate) here: Descriptor,
    /// There.
    pub(crate) there: Descriptor,
}

/// Edits leaves from `slot` on, of which the first was read, and copies them to `into`: [`TURNS`] at a time, `most` of them at the most, as long as
/// each is `step` above the one before. How many. Of leaves that hardware marks each is exchanged: they are not for this.
#[inline(always)]
pub(crate) fn copy_leading<P: Platform>(
    writer: &Writer<'_, P>,
    (mut slot, mut into): (Slot, Slot),
    copied: Copied,
    (step, most): (u64, usize),
) -> usize {
    let run = writer.platform.for_run();
    let run = Writer { platform: &run, is_marked: false, is_live: writer.is_live };
    let [mut leaf, mut there] = [copied.leaf, copied.there].map(Descriptor::bits);
    let (is_kept, is_broken) = (copied.here == copied.leaf, copied.here == Descriptor::INVALID);
    // What is carried into other bits on the way would be edited with them.
    let together = (!leaf & ((1 << TOGETHER) - 1)) / step + 1;
    let most = together.min(most as u64) as usize;
    let mut count = 0;
    while most - count >= TURNS && are_leading(run.platform, slot, leaf, step) {
        if is_kept {
            set_leading(&run, [into], there, step);
        } else if is_broken {
            set_leading(&run, [slot], Descriptor::INVALID.bits(), 0);
            set_leading(&run, [into], there, step);
        } else {
            set_leading(&run, [slot, into], there, step);
        }
        (slot, into, count) = (slot.after(TURNS), into.after(TURNS), count + TURNS);
        [leaf, there] = [leaf, there].map(|bits| bits.wrapping_add(TURNS as u64 * step));
    }
    count
}

/// Whether [`TURNS`] descriptors from `slot` on are `first` and what follows, each `step` above the one before.
#[inline(always)]
fn are_leading<P: Platform>(run: &P, slot: Slot, first: Bits, step: u64) -> bool {
    let others = (0..TURNS).step_by(2).fold(0, |others, number| {
        let [one, next] = run.load_pair(slot.after(number)).map(Descriptor::bits);
        let expected = first.wrapping_add(number as u64 * step);
        others | (one ^ expected) | (next ^ expected.wrapping_add(step))
    });
    // One branch asks for all: by itself the compiler makes one for each.
    core::hint::black_box(others == 0)
}

/// Writes [`TURNS`] leaves from each of these slots on, the same everywhere.
#[inline(always)]
fn set_leading<P: Platform, const PLACES: usize>(
    writer: &Writer<'_, P>,
    slots: [Slot; PLACES],
    first: Bits,
    step: u64,
) {
    for number in (0..TURNS).step_by(2) {
        let leaf = first.wrapping_add(number as u64 * step);
        let pair = [leaf, leaf.wrapping_add(step)].map(Descriptor::new);
        slots.iter().for_each(|slot| writer.set_pair(slot.after(number), pair));
    }
}

/// As many as are copied back at a time: nothing is asked of them.
const BACK: usize = 2 * TURNS;

/// Makes `count` leaves from `slot` on what stands from `copy` on.
pub(crate) fn copy_back<P: Platform>(writer: &Writer<'_, P>, (mut slot, mut copy): (Slot, Slot), count: usize) {
    let run = writer.platform.for_run();
    let run = Writer { platform: &run, is_marked: false, is_live: writer.is_live };
    let mut left = count;
    while left > 0 {
        let is_even = slot.is_even();
        while is_even && left >= BACK {
            for number in (0..BACK).step_by(2) {
                run.set_pair(slot.after(number), run.platform.load_pair(copy.after(number)));
            }
            (slot, copy, left) = (slot.after(BACK), copy.after(BACK), left - BACK);
        }
        if left > 0 {
            run.make(slot, run.platform.load(copy));
            (slot, copy, left) = (slot.after(1), copy.after(1), left - 1);
        }
    }
}
