//! The shortcut: one page that changes by one store. The most frequent change by far: one descent, no plan.
//!
//! ```text
//! map        a hole            a descent ──▶ a hole of a table of pages ──▶ stored ──▶ (live) DSB ISHST · ISB
//! map_hole   one found before                └──▶ is it one still?      ──▶ stored ──▶ (live) DSB ISHST · ISB
//! protect    set, clear        a descent ──▶ a page by itself ──▶ stored ──▶ (live) DSB ISHST · TLBI · DSB ISH · ISB
//! validity   bit 0                │    ▲                            └─ it was kept: no TLB holds it, and there is no TLBI
//!                                 │    └─ one of a group that may end in place: its members become single first
//!                                 └─ anything else: a plan
//! ```

use vmsa::{Address, Bits, Descriptor, Granule, Layout, Level, PhysAddr};

use crate::changes::{Edit, Writer};
use crate::gather::complete_stores;
use crate::invalidation::Invalidation;
use crate::licence::Licence;
use crate::platform::{Platform, Slot};
use crate::regime::{Fields, Regime};
use crate::table::PageTable;
use crate::view::Hole;
use crate::walk::{descend, descend_from, descend_usual, descend_usual_below};

/// What a page has beside bit 0, valid or kept.
const PAGE: Bits = Descriptor::TYPE & !Descriptor::VALID;

impl<G: Granule, R: Regime, P: Platform> PageTable<'_, G, R, P> {
    /// Changes attributes of the page at `page`, first `clear`, then `set`, as a plan of one [`crate::Change::Protect`] does, if
    /// that takes no table: the page is a leaf by itself, and all that is named may change in place. A page of a contiguous group
    /// takes a licence for leaves that change size in place. Says whether the page is as asked. All is complete then: what a
    /// gather would make TLBs forget is forgotten on return.
    ///
    /// If not, nothing has changed, and a plan says why. What another gather still has to forget of the page is forgotten
    /// before: that gather is finished.
    #[cfg_attr(feature = "alloc", doc = include_str!("../docs/protect-page.md"))]
    #[must_use = "a page that was not changed takes a plan"]
    #[inline(always)]
    pub fn protect_page(
        &mut self,
        page: R::Input,
        set: R::Attributes,
        clear: R::Attributes,
        licence: Option<&Licence<'_>>,
    ) -> bool {
        let edit = Edit { only: 0, set: set.into(), clear: clear.into() };
        // These bits mean the same in every layout of descriptors.
        let is_in_place = (edit.set | edit.clear) & !(R::Attributes::IN_PLACE & !R::ABSENT) == 0;
        is_in_place && self.change_page(page, edit, licence)
    }

    /// Makes the page at `page` invalid, but keeps what it was, or makes it valid again: as [`Self::protect_page`] changes
    /// attributes, and as a plan of one [`crate::Change::MakeInvalid`] or [`crate::Change::MakeValid`] does.
    #[must_use = "a page that was not changed takes a plan"]
    #[inline(always)]
    pub fn make_page_valid(&mut self, page: R::Input, is_valid: bool, licence: Option<&Licence<'_>>) -> bool {
        self.change_page(page, if is_valid { Edit::MAKE_VALID } else { Edit::MAKE_INVALID }, licence)
    }

    /// Maps the page at `page` to `to`, as a plan of one [`crate::Change::Map`] does, if its table is there and has a hole for it.
    /// Says whether it is mapped; if not, nothing has changed, and a plan says why. What another gather still has to forget of the
    /// page is forgotten before: that gather is finished.
    #[must_use = "a page that was not mapped takes a plan"]
    #[inline(always)]
    pub fn map_page(&mut self, page: R::Input, to: PhysAddr, attributes: R::Attributes) -> bool {
        let start = page.bits().wrapping_sub(self.geometry.base());
        let Some(leaf) = self.page_leaf(to, attributes) else { return false };
        if start & (G::SIZE_BYTES - 1) != 0 || start >= self.geometry.input_bytes() {
            return false;
        }
        let hole = descend(self.platform, self.geometry, self.root, start, page_at);
        let Some((slot, Descriptor::INVALID)) = hole else { return false };
        self.make_page(slot, leaf);
        true
    }

    /// The same at a hole that was found before, by a [`crate::View`] of this page table: [`crate::Lookup::hole`]. Says whether the page is
    /// mapped: not if the hole is none any more.
    ///
    /// No table of the page table has come free since the hole was found: one that has is memory of somebody else's. Where many
    /// edit one after the other, who finds a hole knows that by what they note of their changes.
    #[must_use = "a page that was not mapped takes a plan"]
    #[inline(always)]
    pub fn map_hole(&mut self, hole: Hole, to: PhysAddr, attributes: R::Attributes) -> bool {
        let Some(leaf) = self.page_leaf(to, attributes) else { return false };
        let is_hole = self.platform.load(hole.0) == Descriptor::INVALID;
        if is_hole {
            self.make_page(hole.0, leaf);
        }
        is_hole
    }

    /// A page that leads to `to`, if a descriptor can say so.
    #[inline(always)]
    fn page_leaf(&self, to: PhysAddr, attributes: R::Attributes) -> Option<Descriptor> {
        let layout = self.geometry.layout();
        let attributes = self.attribute_bits(attributes).ok()?;
        let is_page = to.bits() & (G::SIZE_BYTES - 1) == 0 && to.bits() >> layout.output_bits() == 0;
        is_page.then(|| Descriptor::leaf(layout, Level::L3, to, attributes))
    }

    /// A page comes where a hole is.
    #[inline(always)]
    fn make_page(&self, slot: Slot, leaf: Descriptor) {
        Writer::new(self.platform, self.regime, self.is_live).make(slot, leaf);
        if self.is_live {
            // No TLB holds a hole, so that there is nothing to forget.
            complete_stores(self.platform, self.geometry, self.regime, None.into_iter());
        }
    }

    /// Makes an edit of a page, by which a live leaf may change in place.
    #[inline(always)]
    fn change_page(&self, page: R::Input, edit: Edit, licence: Option<&Licence<'_>>) -> bool {
        // What is not usual is elsewhere, so that the rest needs no more registers than it has.
        if self.geometry.is_usual() {
            return self.change_found(page, edit, licence, |table, start| {
                descend_usual::<G, _, _>(table.platform, table.root, start, page_at)
            });
        }
        self.change_unusual(page, edit.set, edit.clear, licence)
    }

    #[cold]
    #[inline(never)]
    fn change_unusual(&self, page: R::Input, set: Bits, clear: Bits, licence: Option<&Licence<'_>>) -> bool {
        let edit = Edit { only: 0, set, clear };
        self.change_found(page, edit, licence, |table, start| {
            let (geometry, root) = (table.geometry, table.root);
            if geometry.is_usual_below() {
                return descend_usual_below::<G, _, _>(table.platform, root, start, page_at);
            }
            descend_from::<G, _, _>(geometry.start(), geometry.layout(), table.platform, root, start, page_at)
        })
    }

    /// The same, where `find` finds the page.
    #[inline(always)]
    fn change_found(
        &self,
        page: R::Input,
        edit: Edit,
        licence: Option<&Licence<'_>>,
        find: impl FnOnce(&Self, u64) -> Option<(Slot, Descriptor)>,
    ) -> bool {
        let start = page.bits().wrapping_sub(self.geometry.base());
        // A power of two, so that one test tells both: outside, or not the start of a page.
        let never = self.geometry.input_bytes().wrapping_neg() | (G::SIZE_BYTES - 1);
        if start & never != 0 {
            return false;
        }
        let Some((slot, old)) = find(self, start) else { return false };
        // The bit that pages have beside bit 0, which a kept one lacks.
        if old.bits() & PAGE == 0 {
            return false;
        }
        if old.is_contiguous() {
            return self.change_member(start, slot, old, edit.set, edit.clear, licence);
        }
        if self.is_live {
            self.set_live_page(start, slot, old, edit.set, edit.clear);
        } else {
            let _ =
                Writer::new(self.platform, self.regime, false).set::<R::Attributes>(slot, old, edit.apply(old), edit);
        }
        true
    }

    /// A page of a group changes, by itself from now on, if that can be in place.
    #[cold]
    #[inline(never)]
    fn change_member(
        &self,
        start: u64,
        slot: Slot,
        old: Descriptor,
        set: Bits,
        clear: Bits,
        licence: Option<&Licence<'_>>,
    ) -> bool {
        let edit = Edit { only: 0, set, clear };
        // What changes nothing leaves the group as it is.
        let is_alone = edit.apply(old) != old && self.leave_group(slot, start, old, licence);
        if is_alone {
            self.set_live_page(start, slot, Descriptor::new(old.bits() & !Descriptor::CONTIGUOUS), set, clear);
        }
        is_alone
    }

    /// A page that hardware may be using changes in place, and that is complete at once.
    #[inline(never)]
    fn set_live_page(&self, start: u64, slot: Slot, old: Descriptor, set: Bits, clear: Bits) {
        let edit = Edit { only: 0, set, clear };
        if edit.apply(old) == old {
            return;
        }
        // What is kept no hardware reads or writes, and no TLB holds it.
        let is_valid = old.is_valid();
        let writer = Writer::new(self.platform, self.regime, is_valid);
        let (_, is_stale) = writer.set::<R::Attributes>(slot, old, edit.apply(old), edit);
        let stale = (is_stale && is_valid).then(|| Invalidation::page::<G>(self.geometry.input(start)));
        complete_stores(self.platform, self.geometry, self.regime, stale.into_iter());
    }
}

/// The descriptor where a descent ends, if that is at the level of pages.
#[inline(always)]
fn page_at(_: Layout, level: Level, slot: Slot, descriptor: Descriptor) -> Option<(Slot, Descriptor)> {
    (level == Level::L3).then_some((slot, descriptor))
}
