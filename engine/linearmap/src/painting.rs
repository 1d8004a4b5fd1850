//! Painting: all memory, once, with the largest leaves that there are.

use core::ops::Range;
use core::slice;

use pagetable::{Change, El1, PageTable, Platform, Refusal, Reserve};
use vmsa::{Granule, PhysAddr, Stage1Attributes, VirtAddr};

use crate::embedder::Pages;
use crate::refused::Refused;
use crate::shape::{Leaves, as_painted};
use crate::supply::{fetch, give_back};

/// Memory that is mapped in one way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// Whole pages.
    pub physical: Range<PhysAddr>,
    /// How: the access flag is added, and DBM left out, for with hardware dirty state a read-only leaf with DBM is writable.
    pub attributes: Stage1Attributes,
}

/// Maps regions, in ascending order, at `offset` above their physical addresses: all of them or none. Neighbours in the list that
/// are alike become one, so that no leaf ends where they meet.
pub fn paint<G: Granule, P: Platform>(
    table: &mut PageTable<'_, G, El1, P>,
    platform: &P,
    pages: &impl Pages,
    offset: u64,
    regions: &[Region],
    leaves: Leaves,
) -> Result<(), Refused> {
    let changes = || merged(regions).map(|region| map(&region, offset, leaves));
    let (mut needed, mut end) = (0, PhysAddr::new(0));
    for (region, change) in merged(regions).zip(changes()) {
        if region.physical.start < end {
            return Err(Refusal::Overlap(region.physical.start.bits().wrapping_add(offset)).into());
        }
        end = region.physical.end;
        needed += table.plan(slice::from_ref(&change), None)?.tables_needed();
    }
    let mut reserve = Reserve::new();
    let lacking = fetch(pages, platform, table.geometry().layout(), &mut reserve, needed);
    let mut painted = if lacking == 0 { Ok(()) } else { Err(Refused::OutOfTables(lacking)) };
    let mut gather = table.gather();
    // Planned one by one on a map that held none of them: what one has made takes nothing from another.
    for change in changes().take_while(|_| lacking == 0) {
        let plan = table.plan(slice::from_ref(&change), None);
        painted = painted.and(plan.and_then(|mut plan| plan.apply(&mut reserve, &mut gather)).map_err(Into::into));
    }
    reserve.refill(platform, gather.finish(platform));
    give_back(pages, platform, reserve);
    painted
}

fn map(region: &Region, offset: u64, leaves: Leaves) -> Change<El1> {
    let virtual_address = |physical: PhysAddr| VirtAddr::new(physical.bits().wrapping_add(offset));
    let Region { physical, attributes } = region;
    let from = virtual_address(physical.start)..virtual_address(physical.end);
    Change::Map { from, to: physical.start, attributes: *attributes, largest: leaves.largest() }
}

/// The regions as they are mapped, neighbours that are alike as one.
fn merged(regions: &[Region]) -> impl Iterator<Item = Region> {
    let mut rest = regions
        .iter()
        .map(|region| Region { physical: region.physical.clone(), attributes: as_painted(region.attributes) });
    let mut next = rest.next();
    core::iter::from_fn(move || {
        let mut region = next.take()?;
        for other in rest.by_ref() {
            if other.physical.start == region.physical.end && other.attributes == region.attributes {
                region.physical.end = other.physical.end;
            } else {
                next = Some(other);
                break;
            }
        }
        Some(region)
    })
}
