//! The shortcut for folios: a contiguous group of pages where its table is there and holds nothing yet. One descent, no plan.
//!
//! ```text
//! a descent ──▶ holes of a table of pages, all of a group ──▶ stored, member by member ──▶ (live) DSB ISHST · ISB
//!                 └─ anything else: a plan
//! ```

use vmsa::{Address, Descriptor, Granule, LeafSize, Level, PhysAddr};

use crate::changes::Writer;
use crate::gather::complete_stores;
use crate::platform::{Platform, Slot};
use crate::regime::Regime;
use crate::table::PageTable;
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

    /// Maps the contiguous group of pages at `group` to `to`, as a plan of one [`crate::Change::Map`] does, if its table is there and has
    /// holes for all of it. Says whether it is mapped; if not, nothing has changed, and a plan says why.
    #[must_use = "a group that was not mapped takes a plan"]
    pub fn map_group(&mut self, group: R::Input, to: PhysAddr, attributes: R::Attributes) -> bool {
        let (start, layout) = (group.bits().wrapping_sub(self.geometry.base()), self.geometry.layout());
        let Some(members) = self.group_offset(start) else { return false };
        let Ok(attributes) = self.attribute_bits(attributes) else { return false };
        let is_aligned = to.bits() & (members as u64 * G::SIZE_BYTES - 1) == 0;
        if !is_aligned || !self.largest.allows(LeafSize::group(Level::L3)) || to.bits() >> layout.output_bits() != 0 {
            return false;
        }
        let page = |_, level, slot, _| (level == Level::L3).then_some(slot);
        let first = descend(self.platform, self.geometry, self.root, start, page);
        let Some(first) = first.filter(|first| self.holds_nothing(*first, members)) else { return false };
        let writer = Writer::new(self.platform, self.regime, self.is_live);
        // Holes and members of one group may stand side by side (IPGVGZ).
        for number in 0..members {
            let page = to + ((number as u64) << G::SHIFT);
            let leaf = Descriptor::leaf(layout, Level::L3, page, attributes | Descriptor::CONTIGUOUS);
            writer.make(first.after(number), leaf);
        }
        if self.is_live {
            // No TLB holds a hole, so that there is nothing to forget.
            complete_stores(self.platform, self.geometry, self.regime, None.into_iter());
        }
        true
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
