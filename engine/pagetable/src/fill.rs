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
    for round in 0..count / TURNS {
        (0..TURNS).for_each(|index| turn(round * TURNS + index));
    }
    (count / TURNS * TURNS..count).for_each(turn);
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
    let count = ((end - start) >> shift) as usize;
    let leaf = |index: usize| content.leaf(layout, level, start + ((index as u64) << shift)).bits();
    if count == 1 {
        return platform.store(slot, Descriptor::new(leaf(0)));
    }
    let (head, groups) = match content.group_bytes::<G>(level) {
        Some(bytes) => {
            let from = start.next_multiple_of(bytes).min(end);
            (((from - start) >> shift) as usize, (((end & !(bytes - 1)).max(from) - from) >> shift) as usize)
        }
        None => (count, 0),
    };
    let (first, last) = (leaf(0), leaf(count - 1));
    // Neighbours differ by what a leaf covers, unless bits that stand elsewhere change on the way (LPA, LPA2).
    let is_linear = last.wrapping_sub(first) == (count as Bits - 1) << shift;
    let mut done = 0;
    for (count, contiguous) in [(head, 0), (groups, Descriptor::CONTIGUOUS), (count - head - groups, 0)] {
        let slot = slot.after(done);
        if is_linear {
            let mut next = first.wrapping_add((done as Bits) << shift) | contiguous;
            for_each(count, |index| {
                platform.store(slot.after(index), Descriptor::new(next));
                next = next.wrapping_add(1 << shift);
            });
        } else {
            for_each(count, |index| {
                platform.store(slot.after(index), Descriptor::new(leaf(done + index) | contiguous))
            });
        }
        done += count;
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
