//! Leaves side by side that an edit makes the same of, edited many at a time.

use vmsa::{Bits, Descriptor};

use super::{Edit, Writer};
use crate::alike::TURNS;
use crate::platform::{Platform, Slot};
use crate::regime::Fields;

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
        let telling = if writer.exchanges() { None } else { edit.telling::<A>() };
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
        let (edited, is_stale) =
            if edited == leaf { (leaf, false) } else { self.writer.set::<A>(slot, leaf, edited, self.edit) };
        each(0, edited);
        (1, is_stale)
    }
}
