//! Runs: slots side by side whose descriptors go up by one step, compared many at a time.
//!
//! ```text
//!   slot        │  d   │ d+s  │ d+2s │ d+3s │  x  │      s: the bytes of a leaf; 0 where holes are counted
//!   differs by  │  0   │  0   │ mark │  0   │  …  │      a mark is ignored, and told; x ends the run
//! ```

use vmsa::{Bits, Descriptor};

use crate::platform::{Platform, Slot};

/// As many as are looked at before it is asked whether they are alike: a third of the instructions for each. Contiguous groups are
/// of so many members, or of a multiple.
pub(super) const TURNS: usize = 16;

/// How many of `count` descriptors from `slot` on are `first`, each `step` above the one before, but for bits of `ignored`; and
/// which of these any of them differs in.
#[inline(always)]
pub(super) fn count_alike<P: Platform>(
    platform: &P,
    slot: Slot,
    count: usize,
    first: Descriptor,
    step: u64,
    ignored: Bits,
) -> (usize, Bits) {
    let run = platform.for_run();
    let differs = |slot: Slot, first: Bits, number: usize| {
        run.load(slot.after(number)).bits() ^ first.wrapping_add(number as u64 * step)
    };
    let (mut number, mut all, mut slot, mut first) = (0, 0, slot, first.bits());
    while number + TURNS <= count {
        let some = (0..TURNS).fold(0, |some, turn| some | differs(slot, first, turn));
        if some & !ignored != 0 {
            break;
        }
        (all, number) = (all | some, number + TURNS);
        (slot, first) = (slot.after(TURNS), first.wrapping_add(TURNS as u64 * step));
    }
    let rest = (0..count - number).map(|turn| differs(slot, first, turn)).take_while(|one| one & !ignored == 0);
    rest.fold((number, all), |(number, all), one| (number + 1, all | one))
}
