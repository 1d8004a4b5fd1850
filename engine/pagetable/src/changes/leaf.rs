//! Edits: every leaf of a range becomes what a function makes of it. Protect, age, clean, make valid or invalid, unmap.
//!
//! ```text
//! a leaf, whole          in place, in a run with the neighbours that are alike; or by break-before-make
//! a part of a leaf       the leaf splits first                                        (`split`)
//! a part of a group      the group dissolves first                                    (`group`)
//! a kept leaf            freely: no TLB holds it
//! a table, to unmap      unlinked with all that is below it
//! ```

use vmsa::{Descriptor, Geometry, Granule};

use super::decision::{Part, Regroup};
use super::run::RunEdit;
use super::{Decision, Edit, Editor, Goal};
use crate::alike::count_alike;
use crate::change::Refusal;
use crate::invalidation::Depth;
use crate::platform::Platform;
use crate::regime::{Regime, marks};
use crate::table::PageTable;
use crate::walk::{Next, Visit};

impl<G: Granule, R: Regime, P: Platform> PageTable<'_, G, R, P> {
    /// What an edit means for a live leaf or group.
    #[inline(always)]
    pub(super) fn decide_leaf(&self, goal: &Goal, edit: Edit, visit: &Visit) -> Decision {
        let edited = edit.apply(visit.descriptor);
        if edited == visit.descriptor && !self.edits_another(edit, visit) {
            return Decision::Pass;
        }
        // It could not be told from a hole, nor could a part of it that is a leaf of its own.
        if edited.bits() & !Descriptor::CONTIGUOUS == 0 && !edit.removes() {
            return Decision::Refuse(Refusal::NotKeepable(self.geometry.input(visit.from)));
        }
        // From here on something changes that TLBs may hold: a group as one, a part of a leaf by a split, a whole leaf in place,
        // and what may not change in place by a break.
        if visit.is_group() {
            // Members that hardware marks until the moment of the edit may differ by it ever after.
            let becomes_group = visit.is_whole() && !edit.makes_rights_of_marks(self.regime);
            return Regroup::of(self.platform, visit, edit, becomes_group);
        }
        if !visit.is_whole() {
            return Decision::Resize(Part::of(visit, edit));
        }
        if edit.is_in_place::<R::Attributes>(visit.descriptor, edited) {
            return Decision::Set(edit, self.whole_to(goal, visit));
        }
        Decision::Remake(edited)
    }

    /// No TLB holds a kept leaf, so that it changes freely.
    pub(super) fn decide_kept(&self, edit: Edit, visit: &Visit) -> Decision {
        let edited = edit.apply(visit.descriptor);
        if edited == visit.descriptor && !self.edits_another(edit, visit) {
            return Decision::Pass;
        }
        if edited == Descriptor::INVALID && !edit.removes() {
            return Decision::Refuse(Refusal::NotKeepable(self.geometry.input(visit.from)));
        }
        match (visit.is_group(), visit.is_whole()) {
            // Members may differ in what hardware marked, which is uniform no longer if it comes to mean something else.
            (true, true) => Regroup::of(self.platform, visit, edit, true),
            (true, false) => Decision::Regroup(Regroup::Dissolve),
            (false, true) => Decision::Make(edited),
            (false, false) => self.resize(visit, Part::of(visit, edit)),
        }
    }

    /// Whether `edit` changes any member of a group: members differ in what hardware marked.
    fn edits_another(&self, edit: Edit, visit: &Visit) -> bool {
        visit.is_group() && visit.alike(self.platform).any(|(_, leaf)| edit.apply(leaf) != leaf)
    }

    /// Where leaves that change in place as the one at `visit` does give way to others.
    pub(super) fn end_of_run(&self, visit: &Visit, edit: Edit, end: u64) -> u64 {
        // What agrees in what the edit tells leaves by is alike, and counted many at a time.
        let left = ((end - visit.start) >> Geometry::<G>::shift(visit.level)) as usize;
        let alike = edit
            .telling::<R::Attributes>()
            .map_or(1, |telling| count_alike(self.platform, visit.slot, left, visit.descriptor, 0, !telling).0);
        // Of the first, hardware may have noted something since it was read.
        let alike = alike.max(1);
        let (mut slot, mut at) = (visit.slot.after(alike - 1), visit.start + alike as u64 * (visit.end - visit.start));
        while at < end {
            slot = slot.after(1);
            if !edit.is_alike::<R::Attributes>(visit.descriptor, self.platform.load(slot)) {
                break;
            }
            at += visit.end - visit.start;
        }
        at
    }
}

impl<G: Granule, R: Regime, P: Platform> Editor<'_, G, R, P> {
    /// A run of leaves changes in place. What of it TLBs may hold is forgotten as one range.
    ///
    /// ```text
    ///   slots     │ A │ A │ a │ A │ A │ B │      A: changes, TLBs may hold it   a: has no access flag, so that none holds it
    ///   forget    ├───────┤   ├───────┤          B: is not alike; it is met by itself
    ///             stale_from  at
    /// ```
    #[inline(always)]
    pub(super) fn set(&mut self, visit: &Visit, edit: Edit, end: u64) -> Next {
        let bytes = visit.end - visit.start;
        let (mut slot, mut leaf, mut at) = (visit.slot, visit.descriptor, visit.start);
        let (mut stale_from, writer) = (at, self.writer());
        let mut run = RunEdit::new::<R::Attributes>(&writer, edit);
        loop {
            let left = ((end - at) >> Geometry::<G>::shift(visit.level)) as usize;
            let (count, is_stale) = run.step::<R::Attributes>(slot, leaf, left, |_, _| {});
            let next = at + count as u64 * bytes;
            if !is_stale {
                self.forget(visit.level, stale_from, at);
                stale_from = next;
            }
            at = next;
            if at >= end {
                break;
            }
            slot = slot.after(count);
            leaf = self.platform.load(slot);
            if !edit.is_alike::<R::Attributes>(visit.descriptor, leaf) {
                break;
            }
        }
        self.note_store();
        self.forget(visit.level, stale_from, at);
        Next::Past(at)
    }

    /// What the engine does not make becomes a hole.
    pub(super) fn clear(&mut self, visit: &Visit) {
        // By exchange, where hardware may be writing: what it wrote last must not be overwritten unseen.
        self.writer().replace(visit.slot, visit.descriptor, |_| Descriptor::INVALID);
        self.note_store();
        if visit.descriptor.is_valid() {
            self.forget(visit.level, visit.start, visit.end);
        }
    }

    /// A table gives way to what TLBs cannot hold.
    pub(super) fn unlink(&mut self, visit: &Visit, new: Descriptor) {
        let Some(table) = visit.table(self.geometry) else { return };
        self.make(visit.slot, new);
        if self.is_live {
            self.gather.unlink(self.platform, table, visit.end - visit.start);
        } else {
            self.gather.retire(self.platform, table);
        }
    }

    /// A leaf becomes another leaf by break-before-make.
    pub(super) fn remake(&mut self, visit: &Visit, leaf: Descriptor) {
        self.exchange_broken(visit, Depth::LastLevel, |editor, broken| {
            let leaf = marks::marked_since(editor.regime, leaf, visit.descriptor, broken);
            editor.write(visit.slot, leaf);
        });
    }
}
