//! Leaves side by side that lead on from each other: edited here and copied there [`TURNS`] at a time, two by each load and store.
//!
//! ```text
//!   here    │ d  │ d+s │ d+2s │ … │    s: the bytes of a leaf       becomes │ e │ e+s │ e+2s │ … │, unless it is as asked
//!   there   │ ·  │  ·  │  ·   │ … │    no hardware walks it yet     becomes │ c │ c+s │ c+2s │ … │
//! ```

use vmsa::{Bits, Descriptor};

use super::Writer;
use crate::alike::{TURNS, differences};
use crate::platform::{Platform, Slot};

/// Address bits above this may stand elsewhere in a descriptor than those below (LPA, LPA2).
const TOGETHER: u32 = 48;

/// What becomes of a leaf that is copied.
#[derive(Clone, Copy)]
pub(crate) struct Copied {
    pub(crate) leaf: Descriptor,
    /// Here.
    pub(crate) here: Descriptor,
    /// There.
    pub(crate) there: Descriptor,
}

/// Edits [`TURNS`] leaves from `slot` on, of which the first was read, and copies them to `into`, if each is `step` above the one before. Says
/// whether they are; if not, nothing is stored. Of leaves that hardware marks each is exchanged: they are not for this.
#[inline(always)]
pub(crate) fn copy_leading<P: Platform>(
    writer: &Writer<'_, P>,
    (slot, into): (Slot, Slot),
    copied: Copied,
    step: u64,
) -> bool {
    let run = writer.platform.for_run();
    let Copied { leaf, here, there } = copied;
    let (first, others) = differences(&run, slot, leaf.bits(), step);
    // What is carried into other bits on the way would be edited with them.
    let carried = (leaf.bits() ^ leaf.bits().wrapping_add((TURNS as u64 - 1) * step)) >> TOGETHER;
    if first | others | carried != 0 {
        return false;
    }
    let run = Writer { platform: &run, is_marked: false, is_live: writer.is_live };
    if here != leaf {
        set_leading(&run, slot, here.bits(), step);
    }
    set_leading(&run, into, there.bits(), step);
    true
}

#[inline(always)]
fn set_leading<P: Platform>(writer: &Writer<'_, P>, slot: Slot, first: Bits, step: u64) {
    for number in (0..TURNS).step_by(2) {
        let leaf = first + number as u64 * step;
        writer.set_pair(slot.after(number), [Descriptor::new(leaf), Descriptor::new(leaf + step)]);
    }
}

/// Makes `count` leaves from `slot` on what stands from `copy` on.
pub(crate) fn copy_back<P: Platform>(writer: &Writer<'_, P>, (slot, copy): (Slot, Slot), count: usize) {
    let run = writer.platform.for_run();
    let run = Writer { platform: &run, is_marked: false, is_live: writer.is_live };
    let mut number = 0;
    while number < count {
        if slot.after(number).is_even() && count - number >= TURNS {
            for pair in (number..number + TURNS).step_by(2) {
                run.set_pair(slot.after(pair), run.platform.load_pair(copy.after(pair)));
            }
            number += TURNS;
        } else {
            run.make(slot.after(number), run.platform.load(copy.after(number)));
            number += 1;
        }
    }
}
