//! The shortcut: attributes of one page that is a leaf already, the most frequent change by far. One descent, and no plan.

use vmsa::{Address, Descriptor, Granule, Level};

use crate::changes::{Writer, protection};
use crate::gather::complete_stores;
use crate::invalidation::Invalidation;
use crate::platform::Platform;
use crate::regime::Regime;
use crate::table::PageTable;
use crate::walk::descend;

impl<G: Granule, R: Regime, P: Platform> PageTable<'_, G, R, P> {
    /// Changes attributes of the page at `page`, first `clear`, then `set`, as a plan of one [`crate::Change::Protect`] does, if
    /// that takes neither a table nor a licence: the page is a leaf by itself, and what changes may change in place. Says
    /// whether the page was changed. It is complete then: what a gather would make TLBs forget is forgotten on return.
    ///
    /// If not, nothing has changed, and a plan says why. What another gather still has to forget of the page is forgotten
    /// before: that gather is finished.
    #[cfg_attr(feature = "alloc", doc = include_str!("../docs/protect-page.md"))]
    #[must_use = "a page that was not changed takes a plan"]
    #[inline(always)]
    pub fn protect_page(&mut self, page: R::Input, set: R::Attributes, clear: R::Attributes) -> bool {
        let Self { platform, geometry, regime, root, is_live, .. } = *self;
        let Some(start) = geometry.offset(page.bits()) else { return false };
        if start & (G::SIZE_BYTES - 1) != 0 {
            return false;
        }
        // All that is asked is asked where the descent ends: there the layout and the level are constants.
        let changed = descend(platform, geometry, root, start, |layout, level, slot, old| {
            let edit = protection::<G, R>(layout, set, clear).ok()?;
            let new = edit.apply(old);
            let is_single = level == Level::L3 && old.is_page() && !old.is_contiguous();
            // What could not be told from a hole must not become one.
            let is_made = new != old && new != Descriptor::INVALID && edit.is_in_place::<R::Attributes>(old, new);
            (is_single && is_made).then_some((slot, old, new, edit))
        });
        let Some((slot, old, new, edit)) = changed else { return false };
        let is_stale = Writer { platform, regime: &self.regime, is_live }.set(slot, old, new, edit);
        if is_live {
            let stale = is_stale.then(|| Invalidation::page::<G>(geometry.input(start)));
            complete_stores(platform, geometry, regime, stale.into_iter());
        }
        true
    }
}
