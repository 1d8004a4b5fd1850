//! Writing tables that no walker can reach yet: new ones, and those on lists.
//!
//! ```text
//! what is outside   │l│l│l│l│l│l│l│l│l│l│l│l│l│l│l│l│    written all over, in one run
//! what is inside                  │·│·│·│                then written over it: leaves, holes, or tables
//! ```
//! Where nothing is outside, or less than inside, segment by segment is less to write.

use vmsa::{Descriptor, Geometry, Granule, Level};

use crate::pieces::{Kind, Pieces, for_each};
use crate::platform::{Platform, Slot};
use crate::tables::Reserve;

/// Writes `count` descriptors that hold nothing, from `slot` on.
pub(crate) fn fill_holes<P: Platform>(platform: &P, slot: Slot, count: usize) {
    let run = platform.for_run();
    let single = |index| run.store(slot.after(index), Descriptor::INVALID);
    let odd = usize::from(!slot.is_even()).min(count);
    let pairs = (count - odd) / 2;
    (0..odd).for_each(single);
    for_each::<16>(pairs, |pair| run.store_pair(slot.after(odd + 2 * pair), [Descriptor::INVALID; 2]));
    (odd + 2 * pairs..count).for_each(single);
}

/// Fills a new table for one slot of level `above` that starts at `start`, and those below it; returns the descriptor
/// that will link it. Every descriptor of a table is written, so that what was in the memory does not matter. `None` if the
/// reserve runs short, which the caller has made sure of.
pub(crate) fn build<G: Granule, P: Platform>(
    platform: &P,
    geometry: Geometry<G>,
    reserve: &mut Reserve,
    above: Level,
    start: u64,
    pieces: &Pieces,
) -> Option<Descriptor> {
    match above.next()? {
        // By itself, because it is the most frequent: its numbers are constants.
        Level::L3 => build_at(platform, geometry, reserve, Level::L3, start, pieces),
        level => build_at(platform, geometry, reserve, level, start, pieces),
    }
}

/// The same, of a new table of `level`.
#[inline(always)]
fn build_at<G: Granule, P: Platform>(
    platform: &P,
    geometry: Geometry<G>,
    reserve: &mut Reserve,
    level: Level,
    start: u64,
    pieces: &Pieces,
) -> Option<Descriptor> {
    let (table, run) = (reserve.take(platform)?, platform.for_run());
    let shift = Geometry::<G>::shift(level);
    let (mut at, mut end) = (start, start + ((G::ENTRIES as u64) << shift));
    let inside = pieces.to.min(end).saturating_sub(pieces.from.max(start));
    let outside = pieces.outside.as_ref().filter(|_| inside < (end - start) / 2);
    if let Some(outside) = outside.filter(|outside| outside.fits(geometry, level)) {
        let bytes = outside.write_table(geometry, level, start, |index, leaves| {
            run.store_pair(Slot::new(table, index), leaves);
        });
        // A group of which something else takes a part is a group no more: all of it is written again.
        (at, end) = ((pieces.from & !(bytes - 1)).max(start), ((pieces.to + bytes - 1) & !(bytes - 1)).min(end));
    }
    while at < end {
        let segment = pieces.segment(geometry, level, at, end);
        let slot = Slot::new(table, ((at - start) >> shift) as usize);
        let slots = ((segment.end - at) >> shift) as usize;
        match segment.kind {
            Kind::Holes => fill_holes(platform, slot, slots),
            Kind::Leaves(content) => content.write_leaves(geometry, level, (at, segment.end), |index, leaf| {
                run.store(slot.after(index), leaf);
            }),
            Kind::Tables => {
                for index in 0..slots {
                    let below = at + ((index as u64) << shift);
                    platform.store(slot.after(index), build(platform, geometry, reserve, level, below, pieces)?);
                }
            }
        }
        at = segment.end;
    }
    Some(Descriptor::table(geometry.layout(), table, 0))
}
