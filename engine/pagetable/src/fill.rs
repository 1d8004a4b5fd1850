//! Writing tables that no walker can reach yet: new ones, and those on lists.

use core::ops::ControlFlow;

use vmsa::{Bits, Descriptor, Geometry, Granule, Layout, Level, PhysAddr};

use crate::pieces::{Content, Kind, Pieces};
use crate::platform::{Platform, Slot};
use crate::regime::{Attributes, Regime};
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
    let (Some(level), Some(table)) = (above.next(), reserve.0.pop(platform)) else {
        debug_assert!(false, "the plan counted the tables");
        return Descriptor::INVALID;
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

/// A leaf that takes the place of all leaves below `table`, which no walker writes any more: it says of accesses and writes
/// what any of them says.
pub(crate) fn gather_hardware_writes<G: Granule, R: Regime, P: Platform>(
    platform: &P,
    geometry: Geometry<G>,
    table: Table,
    leaf: Descriptor,
) -> Descriptor {
    let mut bits = leaf.bits();
    let end = table.start + ((geometry.entries(table.level) as u64) << Geometry::<G>::shift(table.level));
    let _ = walk::<G, P, ()>(platform, geometry, table, table.start, end, &mut |visit| {
        if next_table(geometry, visit).is_none() && visit.descriptor.is_valid() {
            bits = R::Attributes::gather(bits, visit.descriptor.bits());
        }
        ControlFlow::Continue(Next::Enter)
    });
    Descriptor::new(bits)
}
