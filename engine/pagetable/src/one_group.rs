//! The shortcuts for folios: a contiguous group of pages that comes where its table is there and holds nothing yet, and one that ends in
//! place. One descent, no plan.
//!
//! ```text
//! a descent ──▶ holes of a table of pages, all of a group ──▶ stored, member by member ──▶ (live) DSB ISHST · ISB
//!           ──▶ a group that may end in place             ──▶ its members become single ──▶ DSB ISHST · ISB
//!                 └─ anything else: a plan
//! ```

use vmsa::{Address, Descriptor, Granule, LeafSize, Level, PhysAddr};

use crate::changes::Writer;
use crate::gather::complete_stores;
use crate::licence::Licence;
use crate::platform::{Platform, Slot};
use crate::regime::Regime;
use crate::table::PageTable;
use crate::view::Hole;
use crate::walk::descend;

impl<G: Granule, R: Regime, P: Platform> PageTable<'_, G, R, P> {
    /// Whether the contiguous group of pages at `group` is of holes alone, be it that its table is not there.
    pub fn is_group_empty(&self, group: R::Input) -> bool {
        let start = group.bits().wrapping_sub(self.geometry.base());
        self.group_offset(start).is_some_and(|members| {
            descend(self.platform, self.geometry, self.root, start, |_, level, first, found| match level {
                Level::L3 => self.holds_nothing(first, members),
                _ => found == Descriptor::INVALID,
            })
        })
    }

    /// Whether all of the contiguous group of pages that a hole lies in is holes. What [`Self::map_hole`] asks of the hole holds here too.
    pub fn is_hole_of_group(&self, hole: Hole) -> bool {
        group_of::<G>(hole).is_some_and(|(first, members)| self.holds_nothing(first, members))
    }

    /// Maps the contiguous group of pages that a hole lies in to `to`, as [`Self::map_hole`] maps a page. Says whether it is mapped: not if
    /// one of its members is no hole.
    #[must_use = "a group that was not mapped takes a plan"]
    pub fn map_hole_group(&mut self, hole: Hole, to: PhysAddr, attributes: R::Attributes) -> bool {
        let Some((first, members)) = group_of::<G>(hole) else { return false };
        let Some(leaf) = self.group_leaf(to, members, attributes) else { return false };
        let is_empty = self.holds_nothing(first, members);
        if is_empty {
            self.make_group(first, members, leaf);
        }
        is_empty
    }

    /// Maps the contiguous group of pages at `group` to `to`, as a plan of one [`crate::Change::Map`] does, if its table is there and has
    /// holes for all of it. Says whether it is mapped; if not, nothing has changed, and a plan says why.
    #[must_use = "a group that was not mapped takes a plan"]
    pub fn map_group(&mut self, group: R::Input, to: PhysAddr, attributes: R::Attributes) -> bool {
        let start = group.bits().wrapping_sub(self.geometry.base());
        let Some(members) = self.group_offset(start) else { return false };
        let Some(leaf) = self.group_leaf(to, members, attributes) else { return false };
        let page = |_, level, slot, _| (level == Level::L3).then_some(slot);
        let first = descend(self.platform, self.geometry, self.root, start, page);
        let Some(first) = first.filter(|first| self.holds_nothing(*first, members)) else { return false };
        self.make_group(first, members, leaf);
        true
    }

    /// Makes the pages of the contiguous group that holds `page` leaves by themselves, as a plan of one [`crate::Change::SplitToPages`] does, if
    /// the licence lets that be done in place and no TLB be told of it. Says whether they are; if not, nothing has changed, and a plan says why.
    ///
    /// Walkers see it on return. Whoever changes one of the pages next may be another CPU, whose DSB is not for these stores (RSPVBD): a
    /// walker that still met the group by another member would have the page again as it was.
    #[must_use = "a group that was not split takes a plan"]
    pub fn split_group(&mut self, page: R::Input, licence: &Licence<'_>) -> bool {
        let start = page.bits().wrapping_sub(self.geometry.base());
        let is_inside = start < self.geometry.input_bytes();
        let is_split = is_inside
            && descend(self.platform, self.geometry, self.root, start, |_, level, slot, leaf| {
                level == Level::L3 && leaf.is_contiguous() && self.leave_group(slot, start, leaf, Some(licence))
            });
        if is_split {
            // Nothing is to be forgotten: what a TLB holds of the group says what the pages say.
            complete_stores(self.platform, self.geometry, self.regime, None.into_iter());
        }
        is_split
    }

    /// The first member of a group that leads to `to`, if descriptors can say so.
    fn group_leaf(&self, to: PhysAddr, members: usize, attributes: R::Attributes) -> Option<Descriptor> {
        let (layout, attributes) = (self.geometry.layout(), self.attribute_bits(attributes).ok()?);
        let is_group = to.bits() & (members as u64 * G::SIZE_BYTES - 1) == 0 && to.bits() >> layout.output_bits() == 0;
        let is_group = is_group && self.largest.allows(LeafSize::group(Level::L3));
        is_group.then(|| Descriptor::leaf(layout, Level::L3, to, attributes | Descriptor::CONTIGUOUS))
    }

    /// A group comes where holes are.
    fn make_group(&self, first: Slot, members: usize, leaf: Descriptor) {
        let writer = Writer::new(self.platform, self.regime, self.is_live);
        // Holes and members of one group may stand side by side (IPGVGZ). A group is aligned, so that its addresses differ where every
        // layout has them in place.
        for number in 0..members {
            writer.make(first.after(number), Descriptor::new(leaf.bits() + ((number as u64) << G::SHIFT)));
        }
        if self.is_live {
            // No TLB holds a hole, so that there is nothing to forget.
            complete_stores(self.platform, self.geometry, self.regime, None.into_iter());
        }
    }

    /// The members of the group at an offset, if that is where one begins. No root of pages is smaller than a group.
    fn group_offset(&self, start: u64) -> Option<usize> {
        let order = G::PAGE_SIZE.contiguous_shift(Level::L3)?;
        let is_group = start & ((G::SIZE_BYTES << order) - 1) == 0 && start < self.geometry.input_bytes();
        is_group.then_some(1 << order)
    }

    fn holds_nothing(&self, first: Slot, members: usize) -> bool {
        (0..members).all(|number| self.platform.load(first.after(number)) == Descriptor::INVALID)
    }
}

/// The first slot of the contiguous group of pages that a hole lies in, and how many members that has.
fn group_of<G: Granule>(hole: Hole) -> Option<(Slot, usize)> {
    let members = 1 << G::PAGE_SIZE.contiguous_shift(Level::L3)?;
    Some((hole.0.first_of(members), members))
}
