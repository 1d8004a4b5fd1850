//! Runs: slots side by side whose descriptors go up by one step, compared many at a time; and leaves side by side that an edit makes
//! the same of, edited many at a time.
//!
//! ```text
//!   slot        │  d   │ d+s  │ d+2s │ d+3s │  x  │      s: the bytes of a leaf; 0 where holes are counted
//!   differs by  │  0   │  0   │ mark │  0   │  …  │      a mark is ignored, and told; x ends the run
//! ```

use vmsa::{Bits, Descriptor};

use super::{Edit, Writer};
use crate::platform::{Platform, Slot};
use crate::regime::Fields;

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

/// An edit of leaves side by side.
pub(crate) struct RunEdit<'w, 'p, P: Platform> {
    writer: &'w Writer<'p, P>,
    edit: Edit,
    /// Leaves that agree in these bits change alike, and TLBs may hold all of them or none. `None`: one by one.
    telling: Option<Bits>,
    /// How many are edited one by one, because many side by side were not alike.
    singles: usize,
}

impl<'w, 'p, P: Platform> RunEdit<'w, 'p, P> {
    #[inline(always)]
    pub(crate) fn new<A: Fields>(writer: &'w Writer<'p, P>, edit: Edit) -> Self {
        // Where hardware marks leaves, each is exchanged.
        let telling = if writer.is_live && writer.is_marked { None } else { edit.telling::<A>() };
        Self { writer, edit, telling, singles: 0 }
    }

    /// Edits leaves from `slot` on, of which the first is `leaf`: one at the least, `count` at the most, and gives `each` what
    /// becomes of them, with their number. How many; and whether TLBs may hold copies of them that matter, of all or of none.
    #[inline(always)]
    pub(crate) fn step<A: Fields>(
        &mut self,
        slot: Slot,
        leaf: Descriptor,
        count: usize,
        mut each: impl FnMut(usize, Descriptor),
    ) -> (usize, bool) {
        let edited = self.edit.apply(leaf);
        if self.singles == 0
            && count >= TURNS
            && let Some(telling) = self.telling
        {
            let run = self.writer.platform.for_run();
            let writer = Writer { platform: &run, is_marked: false, is_live: self.writer.is_live };
            // Written where they stay: an array that a function gives is moved there.
            let mut leaves = [0; TURNS];
            for (turn, one) in leaves.iter_mut().enumerate() {
                *one = run.load(slot.after(turn)).bits();
            }
            if leaves.iter().fold(0, |all, one| all | one ^ leaf.bits()) & telling == 0 {
                let leaves = leaves.iter().enumerate();
                if edited == leaf {
                    leaves.for_each(|(turn, &one)| each(turn, Descriptor::new(one)));
                    return (TURNS, false);
                }
                for (turn, &one) in leaves {
                    let new = Descriptor::new(one & !self.edit.clear | self.edit.set);
                    // Nothing marks it meanwhile, so that this is a store.
                    let _ = writer.swap(slot.after(turn), Descriptor::new(one), new);
                    each(turn, new);
                }
                return (TURNS, self.writer.is_stale::<A>(leaf, edited));
            }
            self.singles = TURNS;
        }
        self.singles = self.singles.saturating_sub(1);
        let is_stale = edited != leaf && self.writer.set::<A>(slot, leaf, edited, self.edit);
        each(0, edited);
        (1, is_stale)
    }
}
