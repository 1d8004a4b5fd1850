//! One page that changes: the most frequent change by far. Its plan is one descent, and keeps where that ended.

use vmsa::{Descriptor, Geometry, Granule, Level};

use crate::change::Change;
use crate::decide::{Decision, Edit, Goal, goal};
use crate::platform::{Platform, Slot};
use crate::regime::Regime;
use crate::table::PageTable;
use crate::walk::{Visit, descend};

/// A page that changes in place, and what becomes of it.
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

/// Where a change of one page leads.
pub(crate) enum Found {
    /// To a page that changes in place: nothing is needed, and nothing refused.
    Single(Single),
    /// To this descriptor.
    Other(Goal, Visit),
}

impl Found {
    /// What `changes` lead to, if they are about one page alone.
    #[inline(always)]
    pub(crate) fn find<G: Granule, R: Regime, P: Platform>(
        table: &PageTable<'_, G, R, P>,
        changes: &[Change<R>],
    ) -> Option<Self> {
        let [change] = changes else { return None };
        let geometry = table.geometry;
        let goal = goal(geometry, change).ok()?;
        let (from, to) = (goal.from, goal.to);
        if to - from != G::SIZE_BYTES {
            return None;
        }
        let (level, slot, descriptor) =
            descend(table.platform, geometry, table.root, from, |_, level, slot, descriptor| (level, slot, descriptor));
        if level == Level::L3 && descriptor.is_page() {
            let visit = Visit { slot, level: Level::L3, descriptor, start: from, end: to, from, to };
            if let Decision::Set(edit, _) = goal.decide_leaf::<G, R>(geometry, &visit) {
                return Some(Self::Single(Single {
                    slot,
                    start: from,
                    old: descriptor,
                    new: edit.apply(descriptor),
                    edit,
                }));
            }
        }
        let span = 1 << Geometry::<G>::shift(level);
        let start = from & !(span - 1);
        Some(Self::Other(goal, Visit { slot, level, descriptor, start, end: start + span, from, to }))
    }
}
