//! Writing tables that no walker can reach yet: new ones, and those on lists.

use core::ops::ControlFlow;

use vmsa::{Bits, Descriptor, Geometry, Granule, Layout, Level, PhysAddr};

use crate::pieces::{Content, Kind, Pieces};
use crate::platform::{Platform, Slot};
use crate::regime::{Regime, marks};
use crate::tables::Reserve;
use crate::walk::{Next, Table, next_table, walk};

/// Writes the link of a [`crate::tables::TableList`] into a table.
pub(crate) fn thread<P: Platform>(platform: &P, table: PhysAddr, next: PhysAddr) {
    platform.store(Slot::new(table, 0), Descriptor::note(next));
}

/// Writes a root of `entries` descriptors that holds nothing.
pub(crate) fn clear_root<P: Platform>(platform: &P, root: PhysAddr, entries: usize) {
    fill_holes(platform, Slot::new(root, 0), entries);
}

/// Fills a new table for one slot of level `above` that starts at `start`, and those below it; returns the descriptor
/// that will link it. Every descriptor of a table is written, so that what was in the memory does not matter.
pub(crate) fn build<G: Granule, P: Platform>(
    platform: &P,
    layout: Layout,
    reserve: &mut Reserve,
    above: Level,
    start: u64,
    pieces: &Pieces,
) -> Descriptor {
    // The plan counted the tables. Were one lacking, a hole in its place would take away what is mapped: better to end here,
    // where nothing is stored yet that a walker may see.
    let (Some(level), Some(table)) = (above.next(), reserve.0.pop(platform)) else {
        unreachable!("the plan counted too few tables");
    };
    let shift = G::PAGE_SIZE.level_shift(level);
    let end = start + ((G::ENTRIES as u64) << shift);
    let mut at = start;
    while at < end {
        let segment = pieces.segment::<G>(layout, level, at, end);
        let slot = Slot::new(table, ((at - start) >> shift) as usize);
        match segment.kind {
            Kind::Holes => fill_holes(platform, slot, ((segment.end - at) >> shift) as usize),
            Kind::Leaves(content) => fill_segment::<G, P>(platform, layout, slot, level, (at, segment.end), content),
            Kind::Tables => {
                for index in 0..(segment.end - at) >> shift {
                    let below = build::<G, P>(platform, layout, reserve, level, at + (index << shift), pieces);
                    platform.store(slot.after(index as usize), below);
                }
            }
        }
        at = segment.end;
    }
    Descriptor::table(layout, table, 0)
}

fn fill_holes<P: Platform>(platform: &P, slot: Slot, count: usize) {
    for_each(count, |index| platform.store(slot.after(index), Descriptor::INVALID));
}

/// A loop laid out sixteen turns at a time: half the instructions for each descriptor.
#[inline(always)]
fn for_each(count: usize, mut turn: impl FnMut(usize)) {
    const TURNS: usize = 16;
    let rounds = count / TURNS;
    for round in 0..rounds {
        for index in 0..TURNS {
            turn(round * TURNS + index);
        }
    }
    for index in rounds * TURNS..count {
        turn(index);
    }
}

/// Leaves from `start` to `end`, which in a table that is live are holes: contiguous groups wherever a whole one fits.
pub(crate) fn fill_segment<G: Granule, P: Platform>(
    platform: &P,
    layout: Layout,
    slot: Slot,
    level: Level,
    (start, end): (u64, u64),
    content: &Content,
) {
    let shift = G::PAGE_SIZE.level_shift(level);
    let first = content.leaf(layout, level, start);
    if end - start == 1 << shift {
        return platform.store(slot, first);
    }
    let (from, to) = content.groups::<G>(level, start, end);
    if !content.is_linear(layout, start, end - (1 << shift)) {
        return fill_one_by_one::<G, P>(platform, layout, slot, level, (start, end), (from, to), content);
    }
    // By value, so that nothing but the descriptors is written to memory.
    let run = move |at: u64, end: u64, contiguous: Bits| {
        let slot = slot.after(((at - start) >> shift) as usize);
        let mut leaf = first.bits().wrapping_add(at - start) | contiguous;
        for_each(((end - at) >> shift) as usize, |index| {
            platform.store(slot.after(index), Descriptor::new(leaf));
            leaf = leaf.wrapping_add(1 << shift);
        });
    };
    run(start, from, 0);
    run(from, to, Descriptor::CONTIGUOUS);
    run(to, end, 0);
}

/// The same where bits that stand elsewhere change on the way (LPA, LPA2). What `groups` covers becomes groups.
#[cold]
fn fill_one_by_one<G: Granule, P: Platform>(
    platform: &P,
    layout: Layout,
    slot: Slot,
    level: Level,
    (start, end): (u64, u64),
    groups: (u64, u64),
    content: &Content,
) {
    let shift = G::PAGE_SIZE.level_shift(level);
    for index in 0..((end - start) >> shift) as usize {
        let at = start + ((index as u64) << shift);
        let contiguous = if (groups.0..groups.1).contains(&at) { Descriptor::CONTIGUOUS } else { 0 };
        platform.store(slot.after(index), Descriptor::new(content.leaf(layout, level, at).bits() | contiguous));
    }
}

/// A leaf that takes the place of all leaves below `table`, which no walker writes any more: it has the marks that any of them
/// has.
pub(crate) fn gather_marks<G: Granule, R: Regime, P: Platform>(
    platform: &P,
    geometry: Geometry<G>,
    regime: R,
    table: Table,
    leaf: Descriptor,
) -> Descriptor {
    let mut marks = 0;
    let end = table.start + ((geometry.entries(table.level) as u64) << Geometry::<G>::shift(table.level));
    let _ = walk::<G, P, ()>(platform, geometry, table, table.start, end, &mut |visit| {
        if next_table(geometry, visit).is_none() && visit.descriptor.is_valid() {
            marks |= marks::of::<R::Attributes>(visit.descriptor.bits());
        }
        ControlFlow::Continue(Next::Enter)
    });
    Descriptor::new(marks::with(regime, leaf.bits(), marks))
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    extern crate std;

    use std::panic::{AssertUnwindSafe, catch_unwind};

    use vmsa::Granule4K;

    use super::*;
    use crate::memory::Memory;

    /// Whatever made a plan count too few tables: nobody is given a descriptor to link.
    #[test]
    fn an_empty_reserve_gives_no_descriptor() {
        let (memory, mut reserve) = (Memory::new(), Reserve::new());
        let pieces = Pieces { from: 0, to: 0, inside: None, outside: None };
        let build = || build::<Granule4K, _>(&memory, Layout::Bits48, &mut reserve, Level::L2, 0, &pieces);
        assert!(catch_unwind(AssertUnwindSafe(build)).is_err());
        assert!(memory.take_steps().is_empty());
    }
}
