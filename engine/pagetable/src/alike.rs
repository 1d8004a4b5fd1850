//! Slots side by side whose descriptors go up by one step, compared many at a time.
//!
//! ```text
//!   slot        │  d   │ d+s  │ d+2s │ d+3s │  x  │      s: the bytes of a leaf; 0 where holes are counted
//!   differs by  │  0   │  0   │ mark │  0   │  …  │      a mark is ignored, and told; x ends the run
//! ```

use vmsa::{Bits, Descriptor};

use crate::platform::{Platform, Slot};

/// As many as are looked at before it is asked whether they are alike: a third of the instructions for each. Contiguous groups are
/// of so many members, or of a multiple.
pub(crate) const TURNS: usize = 16;

/// How many of `count` descriptors from `slot` on are `first`, each `step` above the one before, but for bits of `ignored`; and
/// which of these any of them differs in.
#[inline(always)]
pub(crate) fn count_alike<P: Platform>(
    platform: &P,
    slot: Slot,
    count: usize,
    first: Descriptor,
    step: u64,
    ignored: Bits,
) -> (usize, Bits) {
    let run = platform.for_run();
    let (mut left, mut all, mut slot, mut first) = (count, 0, slot, first.bits());
    while left > 0 {
        let is_even = slot.is_even();
        while is_even && left >= TURNS {
            let (marks, others) = differences(&run, slot, first, step);
            // As numbers, so that one branch asks for all.
            if marks & !ignored | u64::from(others != 0) != 0 {
                break;
            }
            (left, all) = (left - TURNS, all | marks);
            (slot, first) = (slot.after(TURNS), first.wrapping_add(TURNS as u64 * step));
        }
        // One by one, up to where many are looked at again.
        for _ in 0..if is_even { TURNS.min(left) } else { 1 } {
            let marks = run.load(slot).bits() ^ first;
            if marks & !ignored != 0 {
                return (count - left, all);
            }
            (left, all) = (left - 1, all | marks);
            (slot, first) = (slot.after(1), first.wrapping_add(step));
        }
    }
    (count, all)
}

/// What the first of [`TURNS`] descriptors differs in from `first`, and what others differ in from the first of them, each `step`
/// above the one before: mostly nothing, for what is marked is marked all over.
#[inline(always)]
fn differences<P: Platform>(run: &P, slot: Slot, first: Bits, step: u64) -> (Bits, Bits) {
    let [one, next] = run.load_pair(slot);
    let differences = (2..TURNS).step_by(2).fold(next.bits() ^ one.bits().wrapping_add(step), |some, number| {
        let [even, odd] = run.load_pair(slot.after(number));
        let expected = one.bits().wrapping_add(number as u64 * step);
        some | (even.bits() ^ expected) | (odd.bits() ^ expected.wrapping_add(step))
    });
    (one.bits() ^ first, differences)
}
