//! Parts: what lets faults of one process on several CPUs go side by side. A part is many blocks, and has a lock of its own.
//!
//! ```text
//!   a page ──▶ its block: what one slot of a table of level 2 translates ──▶ one of 16 parts: blocks at even distances are of several
//! ```
//! Who has the lock of a page's part alone may edit the descriptor in the block's slot of level 2, and all below it. Tables of level 2 and
//! above, and areas, are read by whoever has any part, and edited by who has the whole. Where the way for a page ends above level 2 a fault
//! takes the whole ([`crate::fault`]). So two that have different parts never edit one word, and never read what the other edits.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use vmsa::{Geometry, Granule, Level};

use crate::area::{Area, AreaFlags, Backing, Rights};
use crate::embedder::PARTS;
use crate::resident::Resident;
use crate::shape::{Leaf, Note};

/// The part that a page's block is of: four digits of the block's number, each of 16, come together, so that no even distance of blocks
/// has all of them be of one part. Arenas of `malloc` are 64 MiB apart, and stacks some 8 MiB.
#[inline(always)]
pub(crate) const fn part_of<G: Granule>(page: u64) -> usize {
    let block = page >> Geometry::<G>::shift(Level::L2);
    let digits = block ^ block >> 4;
    (digits ^ digits >> 8) as usize % PARTS
}

/// What faults of one part alter, beside tables. Its lock orders all accesses: these are atomics so that others may have other parts
/// beside, and each is written by a plain store.
// A cache line, which no CPU writes but those whose faults are here.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct Part {
    /// The area where the last fault came, if no file is behind it: faults come where the last one came. Without one, it ends at 0.
    start: AtomicU64,
    end: AtomicU64,
    /// Its rights, and above them its flags.
    facts: AtomicU32,
    /// Pages that faults here have put into tables, less those that they have taken out: this may be less than nothing.
    own: AtomicU64,
    file: AtomicU64,
    /// Grows whenever a table comes free here.
    version: AtomicU64,
}

/// All parts of an address space.
pub(crate) struct Parts(Box<[Part; PARTS]>);

impl Parts {
    /// `None` if there is no heap for them.
    pub(crate) fn new() -> Option<Self> {
        let mut parts = Vec::new();
        parts.try_reserve_exact(PARTS).ok()?;
        parts.resize_with(PARTS, Part::default);
        parts.into_boxed_slice().try_into().ok().map(Self)
    }

    #[inline(always)]
    pub(crate) fn get(&self, part: usize) -> &Part {
        &self.0[part % PARTS]
    }

    /// That of a page.
    pub(crate) fn of<G: Granule>(&self, page: u64) -> &Part {
        self.get(part_of::<G>(page))
    }

    /// Areas may change from now on: what was found last is not believed any more.
    #[inline(always)]
    pub(crate) fn forget_areas(&mut self) {
        self.0.iter_mut().for_each(|part| *part.end.get_mut() = 0);
    }

    /// What the faults of all parts have put into tables.
    pub(crate) fn resident(&self) -> Resident {
        let sum = |count: fn(&Part) -> &AtomicU64| self.0.iter().map(count).map(get).fold(0, u64::wrapping_add);
        Resident { own: sum(|part| &part.own), file: sum(|part| &part.file) }
    }
}

impl Part {
    /// Whether a page lies in the area that was found last.
    #[inline(always)]
    pub(crate) fn is_latest(&self, page: u64) -> bool {
        get(&self.start) <= page && page < get(&self.end)
    }

    /// The rights and flags of that area.
    #[inline(always)]
    pub(crate) fn latest_facts(&self) -> (Rights, AreaFlags) {
        let facts = self.facts.load(Ordering::Relaxed);
        (Rights::from_bits_retain(facts as u8), AreaFlags::from_bits_retain((facts >> u8::BITS) as u16))
    }

    /// That area, but for its origin, which no fault asks for.
    pub(crate) fn latest<F>(&self) -> Area<F> {
        let (rights, flags) = self.latest_facts();
        let backing = Backing::Anonymous { origin: 0 };
        // What has no file may be given all rights.
        Area { start: get(&self.start), end: get(&self.end), rights, most: Rights::all(), flags, backing }
    }

    /// Notes an area as the one that was found last, if no file is behind it. Whether it is.
    pub(crate) fn note<F>(&self, area: &Area<F>) -> bool {
        if !matches!(area.backing, Backing::Anonymous { .. }) {
            return false;
        }
        let facts = u32::from(area.rights.bits()) | u32::from(area.flags.bits()) << u8::BITS;
        set(&self.start, area.start);
        set(&self.end, area.end);
        self.facts.store(facts, Ordering::Relaxed);
        true
    }

    /// So many pages of the program's own more.
    #[inline(always)]
    pub(crate) fn add_own(&self, pages: u64) {
        set(&self.own, get(&self.own).wrapping_add(pages));
    }

    /// So many pages more with this leaf.
    pub(crate) fn add(&self, leaf: &Leaf, pages: u64) {
        let count = self.count(leaf);
        set(count, get(count).wrapping_add(pages * u64::from(leaf.has(Note::COUNTED))));
    }

    /// A page less.
    pub(crate) fn subtract(&self, leaf: &Leaf) {
        let count = self.count(leaf);
        set(count, get(count).wrapping_sub(u64::from(leaf.has(Note::COUNTED))));
    }

    fn count(&self, leaf: &Leaf) -> &AtomicU64 {
        if leaf.has(Note::OWN) { &self.own } else { &self.file }
    }

    #[inline(always)]
    pub(crate) fn version(&self) -> u64 {
        get(&self.version)
    }

    /// A table has come free.
    pub(crate) fn note_free_table(&self) {
        set(&self.version, self.version().wrapping_add(1));
    }
}

#[inline(always)]
fn get(cell: &AtomicU64) -> u64 {
    cell.load(Ordering::Relaxed)
}

#[inline(always)]
fn set(cell: &AtomicU64, value: u64) {
    cell.store(value, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmsa::{Granule4K, Granule16K, Granule64K};

    fn parts_of_blocks<G: Granule>(shift: u32) -> usize {
        let block = 1 << Geometry::<G>::shift(Level::L2);
        let met = (0..PARTS as u64).fold(0_u32, |met, number| met | 1 << part_of::<G>(block * (number << shift)));
        let within = (0..PARTS as u64).all(|at| part_of::<G>(at * (block / 16)) == part_of::<G>(0));
        assert!(within, "a block is of one part");
        met.count_ones() as usize
    }

    #[test]
    fn each_part_is_its_own() {
        let parts = Parts::new().expect("heap");
        (0..PARTS).for_each(|part| parts.get(part).add_own(part as u64));
        assert!((0..PARTS).all(|part| get(&parts.get(part).own) == part as u64));
    }

    #[test]
    fn each_part_has_as_many_blocks_as_every_other() {
        let block = 1 << Geometry::<Granule4K>::shift(Level::L2);
        let mut counts = [0; PARTS];
        (0..1 << 16).for_each(|number| counts[part_of::<Granule4K>(block * number)] += 1);
        assert_eq!(counts, [(1 << 16) / PARTS; PARTS]);
    }

    #[test]
    fn blocks_at_an_even_distance_are_of_all_parts() {
        for shift in 0..=12 {
            assert_eq!(parts_of_blocks::<Granule4K>(shift), PARTS, "{} blocks", 1 << shift);
            assert_eq!(parts_of_blocks::<Granule16K>(shift), PARTS, "{} blocks", 1 << shift);
            assert_eq!(parts_of_blocks::<Granule64K>(shift), PARTS, "{} blocks", 1 << shift);
        }
    }
}
