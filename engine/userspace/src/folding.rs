//! Folding: leaves that have become alike again, and lead to frames side by side, become one, a contiguous group or a block.
//!
//! ```text
//!   mprotect(part, r--)      |rw-|r--|r--|rw-|rw-|      the folio's leaf is cut at both ends of the part
//!   mprotect(part, rw-)      |rw-----------------|      both ends are looked at: one leaf
//! ```
//! Only what a call or a fault has just changed is looked at: the group that holds its first page, and that of its last; and their block where
//! it is of groups alone. Where every CPU tolerates that live leaves change size, no TLB is told of a group that ends or begins: who holds the
//! one finds in the other what it says, and who meets a conflict bears it.

use core::ops::{ControlFlow, Range};

use pagetable::{Change, Reserve};
use vmsa::Granule;

use crate::area::Area;
use crate::embedder::Embedder;
use crate::folio::{around, block_order, group_order};
use crate::state::{Editing, State, for_each_leaf, leaf_at};

impl<E: Embedder> State<E> {
    /// Makes what holds the first and the last page of a range as large as its area and its frames allow.
    pub(crate) fn fold_ends(&self, editing: &Editing<'_, E>, range: &Range<u64>, supply: &mut Reserve) {
        let last = range.end - E::Granule::SIZE_BYTES;
        self.fold_group(editing, range.start, supply);
        if group::<E>(last) != group::<E>(range.start) {
            self.fold_group(editing, last, supply);
        }
    }

    /// Makes the leaves of a range as large as its area and its frames allow, which has come there page by page. Blocks without a leaf are
    /// passed over.
    pub(crate) fn fold_all(&self, editing: &Editing<'_, E>, range: &Range<u64>, supply: &mut Reserve) {
        let Some(area) = self.areas.find(range.start).filter(|_| self.has_folios()).map(Area::range) else { return };
        let first_in = |range: Range<u64>| {
            for_each_leaf::<E, u64>(&self.table(editing), &range, |page, _| ControlFlow::Break(page)).ok().flatten()
        };
        let mut at = range.start;
        while at < range.end
            && let Some(page) = first_in(at..range.end)
        {
            let block = block::<E>(page);
            self.collapse(editing, block.start.max(area.start)..block.end.min(area.end), supply);
            at = block.end;
        }
    }

    /// The same of the group around a page that has just become what the others may be; of the block where that is of groups alone then.
    pub(crate) fn fold_group(&self, editing: &Editing<'_, E>, page: u64, supply: &mut Reserve) {
        let Some(area) = self.areas.find(page).filter(|_| self.has_folios()).map(Area::range) else { return };
        let (group, block) = (group::<E>(page), block::<E>(page));
        if !is_within(&group, &area) {
            return;
        }
        self.collapse(editing, group, supply);
        if is_within(&block, &area) && self.is_of_groups(editing, &block, page) {
            self.collapse(editing, block, supply);
        }
    }

    /// Whether a block is of contiguous groups that lead on from each other. One that is not is mostly told by the first or second group, and
    /// of each one descriptor alone is looked at.
    fn is_of_groups(&self, editing: &Editing<'_, E>, block: &Range<u64>, page: u64) -> bool {
        let table = self.table(editing);
        let view = table.view();
        // How far a group that is one leaf leads.
        let leads = |at: u64| {
            let found = leaf_at::<E>(&view, at).filter(|(_, whole)| *whole == group::<E>(at));
            found.map(|(leaf, _)| leaf.frame.bits().wrapping_sub(at))
        };
        let Some(distance) = leads(page) else { return false };
        // Those beside it differ first.
        let own = group::<E>(page);
        let (before, behind) = (block.start..own.start, own.end..block.end);
        let mut others = behind.chain(before).step_by((own.end - own.start) as usize);
        others.all(|at| leads(at) == Some(distance))
    }

    /// Makes leaves of a range larger, which is of one block. Who cannot goes on as he was.
    fn collapse(&self, editing: &Editing<'_, E>, range: Range<u64>, supply: &mut Reserve) {
        let (licence, start) = (editing.licence(), range.start);
        let change = [Change::Collapse { from: start.into()..range.end.into() }];
        let mut table = self.table(editing);
        let mut gather = table.gather();
        let Ok(mut plan) = table.plan(&change, Some(&licence)) else { return };
        editing.resize(&licence, range, &mut || {
            let _ = plan.apply(supply, &mut gather);
            let retired = gather.finish(&editing.platform);
            if retired.count() > 0 {
                self.parts.of::<E::Granule>(start).note_free_table();
            }
            supply.refill(&editing.platform, retired);
        });
    }
}

const fn is_within(range: &Range<u64>, area: &Range<u64>) -> bool {
    area.start <= range.start && range.end <= area.end
}

/// The contiguous group around a page.
const fn group<E: Embedder>(page: u64) -> Range<u64> {
    around::<E>(page, group_order::<E>())
}

/// The block around a page.
const fn block<E: Embedder>(page: u64) -> Range<u64> {
    around::<E>(page, block_order::<E>())
}
