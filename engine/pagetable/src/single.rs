//! One page that changes in place: the most frequent change by far. It takes one descent, whose end is kept.

use vmsa::{Address, Descriptor, Granule, Level};

use crate::apply::set_and_complete;
use crate::change::Change;
use crate::decide::{Edit, goal, protection};
use crate::platform::{Platform, Slot};
use crate::regime::Regime;
use crate::table::PageTable;
use crate::walk::descend;

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
        let goal = goal(table.geometry, change).ok()?;
        if goal.to - goal.from != G::SIZE_BYTES {
            return None;
        }
        Self::at(table, goal.from, goal.edit()?)
    }

    /// The page at offset `start`, if it is a leaf by itself, and `edit` changes it in place.
    #[inline(always)]
    fn at<G: Granule, R: Regime, P: Platform>(table: &PageTable<'_, G, R, P>, start: u64, edit: Edit) -> Option<Self> {
        let page = descend(table.platform, table.geometry, table.root, start, |_, level, slot, descriptor| {
            (level == Level::L3).then_some((slot, descriptor))
        });
        let (slot, old) = page.filter(|(_, descriptor)| descriptor.is_page() && !descriptor.is_contiguous())?;
        let new = edit.apply(old);
        // What is kept must not become a hole.
        let stays = new != Descriptor::INVALID || edit.removes();
        let is_changed_in_place = new != old && stays && edit.is_in_place::<R::Attributes>(old, new);
        is_changed_in_place.then_some(Self { slot, start, old, new, edit })
    }
}

impl<G: Granule, R: Regime, P: Platform> PageTable<'_, G, R, P> {
    /// Changes attributes of the page at `page`, first `clear`, then `set`, as a plan of one [`Change::Protect`] does, if that
    /// takes neither a table nor a licence: the page is a leaf by itself, and what changes may change in place. Says whether
    /// the page was changed. It is complete then: what a gather would make TLBs forget is forgotten on return.
    ///
    /// If not, nothing has changed, and a plan says why. What another gather still has to forget of the page is forgotten
    /// before: that gather is finished.
    #[cfg_attr(feature = "alloc", doc = include_str!("../docs/protect-page.md"))]
    #[must_use = "a page that was not changed takes a plan"]
    #[inline(always)]
    pub fn protect_page(&mut self, page: R::Input, set: R::Attributes, clear: R::Attributes) -> bool {
        let single = match (self.geometry.offset(page.bits()), protection::<G, R>(self.geometry, set, clear)) {
            (Some(start), Ok(edit)) if start & (G::SIZE_BYTES - 1) == 0 => Single::at(self, start, edit),
            _ => None,
        };
        if let Some(single) = &single {
            set_and_complete(self, single);
        }
        single.is_some()
    }
}
