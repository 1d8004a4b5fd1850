//! One page that changes in place: the most frequent change by far. Its plan is one descent, and keeps where that ended.

use vmsa::{Descriptor, Granule, Level};

use crate::change::Change;
use crate::decide::{Decision, Edit, goal};
use crate::platform::{Platform, Slot};
use crate::regime::Regime;
use crate::table::PageTable;
use crate::walk::{Visit, descend};

/// A page, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Single {
    pub(crate) slot: Slot,
    /// The offset where it starts.
    pub(crate) start: u64,
    pub(crate) old: Descriptor,
    /// What `edit` makes of `old`.
    pub(crate) new: Descriptor,
    pub(crate) edit: Edit,
}

impl Single {
    /// The page that `changes` are about, if they are about one alone, need nothing and are not refused.
    #[inline(always)]
    pub(crate) fn find<G: Granule, R: Regime, P: Platform>(
        table: &PageTable<'_, G, R, P>,
        changes: &[Change<R>],
    ) -> Option<Self> {
        let [change] = changes else { return None };
        let geometry = table.geometry;
        let goal = goal(geometry, change).ok()?;
        if goal.to - goal.from != G::SIZE_BYTES {
            return None;
        }
        let page = descend(table.platform, geometry, table.root, goal.from, |_, level, slot, descriptor| {
            (level == Level::L3).then_some((slot, descriptor))
        });
        let (slot, old) = page.filter(|(_, descriptor)| descriptor.is_page())?;
        let (start, end) = (goal.from, goal.to);
        let visit = Visit { slot, level: Level::L3, descriptor: old, start, end, from: start, to: end };
        match goal.decide_leaf(geometry, table.regime, &visit) {
            Decision::Set(edit, _) => Some(Self { slot, start, old, new: edit.apply(old), edit }),
            _ => None,
        }
    }
}
