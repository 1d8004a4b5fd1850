//! One page that changes in place: the most frequent change by far. Its plan is one descent, and keeps where that ended.

use vmsa::{Granule, Level};

use crate::change::Change;
use crate::decide::{Decision, Edit, goal};
use crate::platform::Platform;
use crate::regime::Regime;
use crate::table::PageTable;
use crate::walk::{Visit, descend};

/// A page, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Single {
    pub(crate) visit: Visit,
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
        descend(table.platform, geometry, table.root, goal.from, |_, level, slot, descriptor| {
            if level != Level::L3 || !descriptor.is_page() {
                return None;
            }
            let (from, to) = (goal.from, goal.to);
            let visit = Visit { slot, level, descriptor, start: from, end: to, from, to };
            match goal.decide_leaf::<G, R>(geometry, &visit) {
                Decision::Set(edit, _) => Some(Self { visit, edit }),
                _ => None,
            }
        })
    }
}
