//! Folding, slot by slot, upwards: a table of pages becomes a block, then its neighbours and it a group, then the table above a
//! block of its own, for as long as something folds.
//!
//! ```text
//! page ─▶ block of level 2 ─▶ group ─▶ block of level 1 ─▶ group …     each only where all that it is made of is alike
//! ```
//! So a look at a slot reads a table at each level at most, whatever else the map holds, and mostly as far as to the first thing that
//! differs: who is last to become whole folds for all of them.

use core::ops::Range;

use pagetable::{Change, El1, Gather, Licence, Lookup, PageTable, Platform, Refusal, Reserve, Slot};
use vmsa::{DESCRIPTOR_SHIFT, Descriptor, Geometry, Granule, LeafSize, Level, VirtAddr};

use crate::counters::Counted;
use crate::embedder::Embedder;
use crate::standing::Way;
use crate::state::State;

impl<G: Granule> State<G> {
    /// Looks at `budget` slots that have changed before round `due`, and folds what can. Says whether more is left. Tables that
    /// the reserve does not take go to `excess`.
    pub(crate) fn heal<E: Embedder<Granule = G>>(
        &mut self,
        embedder: &E,
        due: u64,
        budget: usize,
        excess: &mut Reserve,
    ) -> bool {
        if !self.healing.has_due(due) {
            return false;
        }
        let counted = Counted::new(embedder.platform());
        let Ok(mut table) = self.table(&counted) else { return false };
        let mut gather = table.gather();
        let healing = &mut self.healing;
        let mut mend = |licence: &Licence<'_>| {
            let mut left = budget;
            while left > 0
                && let Some(slots) = healing.take(due)
            {
                let mut at = slots.start;
                while at < slots.end && left > 0 {
                    left -= 1;
                    at = match healing.is_fresh(at, due) {
                        true => healing.slot_end(at),
                        false => mend_slot(&mut table, &counted, healing.bounds(), at, licence, &mut gather),
                    };
                }
                if at < slots.end {
                    healing.scatter(at..slots.end);
                }
            }
        };
        let mut is_parked = true;
        match self.standing.way() {
            (Way::InPlace, licence) => mend(&licence),
            (Way::Window, _) => embedder.in_window(&mut mend),
            (Way::Park, _) => is_parked = embedder.park(&mut mend).is_ok(),
        }
        let retired = gather.finish(&counted);
        self.counters.folds += retired.count() as u64;
        self.recycle(&counted, retired, excess);
        self.counters.add(&counted);
        // Who cannot park now is not asked again at once.
        is_parked && self.healing.has_due(due)
    }
}

/// Folds what the slot of level 2 at offset `at` is part of, as far as that goes. Gives the offset at which to go on: behind the
/// leaf that holds `at` now, and behind the slot.
fn mend_slot<G: Granule, P: Platform>(
    table: &mut PageTable<'_, G, El1, P>,
    platform: &P,
    bounds: &Range<u64>,
    at: u64,
    licence: &Licence<'_>,
    gather: &mut Gather<G, El1>,
) -> u64 {
    let mut held = size_at(table, at);
    for size in sizes(table.geometry()) {
        let bytes = size.size_bytes(G::PAGE_SIZE);
        let start = at & !(bytes - 1);
        let is_inside = bounds.start <= start && start + bytes <= bounds.end;
        if !is_inside || held < size && !is_alike(table, platform, size, start) {
            break;
        }
        // Nothing to be done, or nothing that can be: the licence is for it, and it takes no tables.
        if held < size && collapse(table, start..start + bytes, licence, gather).is_err() {
            break;
        }
        held = size_at(table, at);
        // A block that did not come to be is part of nothing larger. A group may not, and what holds it may: hidden leaves fold
        // without.
        if held < size && !size.contiguous {
            break;
        }
    }
    let end = |size: LeafSize| {
        let bytes = size.size_bytes(G::PAGE_SIZE);
        (at & !(bytes - 1)) + bytes
    };
    end(held).max(end(LeafSize::single(Level::L2)))
}

fn collapse<G: Granule, P: Platform>(
    table: &mut PageTable<'_, G, El1, P>,
    range: Range<u64>,
    licence: &Licence<'_>,
    gather: &mut Gather<G, El1>,
) -> Result<(), Refusal> {
    let input = |offset: u64| VirtAddr::new(table.geometry().input(offset));
    let collapse = [Change::Collapse { from: input(range.start)..input(range.end) }];
    table.plan(&collapse, Some(licence))?.apply(&mut Reserve::new(), gather)
}

/// What blocks and groups of blocks there are, from the smallest.
fn sizes<G: Granule>(geometry: Geometry<G>) -> impl Iterator<Item = LeafSize> {
    let levels = [Level::L2, Level::L1, Level::L0];
    let levels = levels.into_iter().filter(move |&level| G::PAGE_SIZE.has_leaf(level, geometry.layout()));
    levels.filter(move |&level| level >= geometry.start()).flat_map(|level| {
        let group = G::PAGE_SIZE.contiguous_shift(level).map(|_| LeafSize::group(level));
        [Some(LeafSize::single(level)), group].into_iter().flatten()
    })
}

/// The size of what stands where the way for offset `at` ends: a leaf, valid or kept, or a hole.
fn size_at<G: Granule, P: Platform>(table: &PageTable<'_, G, El1, P>, at: u64) -> LeafSize {
    let input = VirtAddr::new(table.geometry().input(at));
    let end = table.view().path(input).last();
    end.map_or(LeafSize::PAGE, |end| LeafSize { level: end.level, contiguous: end.descriptor.is_contiguous() })
}

/// Whether what would become one leaf of this size at `start` is alike all through: leaves, valid or kept, that lead to neighbours,
/// or holes. Of a table of pages it is not asked: there pages become groups too.
fn is_alike<G: Granule, P: Platform>(
    table: &PageTable<'_, G, El1, P>,
    platform: &P,
    size: LeafSize,
    start: u64,
) -> bool {
    let (geometry, layout) = (table.geometry(), table.geometry().layout());
    let (level, count) = match G::PAGE_SIZE.contiguous_shift(size.level).filter(|_| size.contiguous) {
        Some(shift) => (size.level, 1 << shift),
        None => (size.level.next().unwrap_or(Level::L3), G::ENTRIES as u64),
    };
    if level == Level::L3 {
        return true;
    }
    let first = table.view().path(VirtAddr::new(geometry.input(start))).find(|lookup| lookup.level == level);
    let Some(Lookup { slot, descriptor: first, .. }) = first.filter(|it| !it.descriptor.is_table(level)) else {
        return false;
    };
    let shift = Geometry::<G>::shift(level);
    let says = Descriptor::TYPE | layout.attribute_mask(G::PAGE_SIZE, level) & !Descriptor::CONTIGUOUS;
    (1..count).all(|number: u64| {
        let next = platform.load(Slot::new(slot.address() + (number << DESCRIPTOR_SHIFT), 0));
        let leads_on = layout.output(next, shift) == layout.output(first, shift) + (number << shift);
        (next.bits() ^ first.bits()) & says == 0 && (leads_on || next == Descriptor::INVALID)
    })
}
