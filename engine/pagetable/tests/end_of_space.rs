//! The last addresses of a page table, and the border of two entries of its root. Every call does at the end of all addresses what it
//! does at that border, and nothing behind the end.

use crate::common;

use std::ops::Range;

use common::{DATA, KERNEL, Table, leaves, live_at, shape};
use vellum_pagetable::{Change, CopyEdit, El1, Licence, Memory, PageTable, Refusal, Reserve, Summary};
use vellum_vmsa::{
    AddressHalf, Geometry, Granule, Granule4K, Granule16K, Granule64K, LeafSize, Level, PhysAddr, Stage1Attributes,
    VirtAddr,
};

const READ_ONLY: Stage1Attributes = Stage1Attributes::READ_ONLY;
const NONE: Stage1Attributes = Stage1Attributes::empty();
/// Where leaves lead to: an address that every leaf may have.
const TO: PhysAddr = PhysAddr::new(0);

/// A page table, and the address at which all that is done there ends.
struct Case<'m, G: Granule> {
    memory: &'m Memory,
    table: Table<'m, G>,
    end: u64,
    /// What came of the calls, without addresses.
    log: Vec<String>,
}

impl<G: Granule> Case<'_, G> {
    /// Bytes that end where all ends.
    fn last(&self, bytes: u64) -> Range<VirtAddr> {
        self.part(bytes, bytes)
    }

    /// Bytes that begin so far before the end.
    fn part(&self, before: u64, bytes: u64) -> Range<VirtAddr> {
        let start = self.end.wrapping_sub(before);
        VirtAddr::new(start)..VirtAddr::new(start.wrapping_add(bytes))
    }

    fn note(&mut self, what: &str, came: impl std::fmt::Debug) {
        let found = leaves(&self.table).into_iter().map(|(at, bytes, leaf)| (self.end.wrapping_sub(at), bytes, leaf));
        let found: Vec<_> = found.collect();
        let summary = Summary::read(&self.table.view(), self.table.view().range()).unwrap();
        let many = if found.len() > 40 { found.len() } else { 0 };
        self.log.push(format!(
            "{what}: {came:?}, {} tables, {many} {:x?}",
            summary.tables(),
            &found[..found.len().min(40)]
        ));
    }

    fn change(&mut self, what: &str, change: Change<El1>) {
        let (licence, mut reserve, mut gather) = (Licence::break_before_make(&()), Reserve::new(), self.table.gather());
        let changes = [change];
        let came = self.table.plan(&changes, Some(&licence)).map(|mut plan| {
            let needed = plan.tables_needed();
            self.memory.supply::<G>(&mut reserve, needed);
            plan.apply(&mut reserve, &mut gather).unwrap();
            needed
        });
        let freed = gather.finish(self.memory).count();
        self.note(what, (came.map_err(|_| ()), freed));
    }

    fn map(&mut self, range: Range<VirtAddr>, largest: LeafSize) {
        self.change("map", Change::Map { from: range, to: TO, attributes: DATA, largest });
    }

    /// Every change of a range that is mapped.
    fn each_change(&mut self, bytes: u64, part: u64) {
        for largest in [LeafSize::LARGEST, LeafSize::PAGE] {
            // Some thousands of leaves at most.
            if bytes >> G::SHIFT > 2 * Granule4K::ENTRIES as u64 && largest == LeafSize::PAGE {
                continue;
            }
            let (all, from) = (|case: &Self| case.last(bytes), |case: &Self| case.last(part));
            self.map(all(self), largest);
            self.change("split at", Change::Split { at: from(self).start });
            self.change("protect", Change::Protect { from: from(self), set: READ_ONLY, clear: NONE });
            self.change("hide", Change::MakeInvalid { from: from(self) });
            self.change("protect sparsely", Change::ProtectSparse { from: all(self), set: READ_ONLY, clear: NONE });
            self.change("show", Change::MakeValid { from: from(self) });
            self.change("age", Change::Age { from: from(self) });
            self.change("clean", Change::Clean { from: from(self) });
            self.change("pages", Change::SplitToPages { from: self.last(G::SIZE_BYTES) });
            self.change("clear", Change::Protect { from: all(self), set: DATA, clear: READ_ONLY });
            self.change("collapse", Change::Collapse { from: all(self) });
            let (from, to, attributes) = (from(self), TO, DATA | READ_ONLY);
            self.change("remap", Change::Remap { from, to, attributes, largest });
            self.copy(bytes);
            self.change("unmap the last", Change::UnmapMapped { from: self.last(part) });
            self.change("unmap", Change::Unmap { from: all(self) });
        }
    }

    /// A copy into an empty page table.
    fn copy(&mut self, bytes: u64) {
        let (from, mut reserve, mut gather) = (self.last(bytes), Reserve::new(), self.table.gather());
        let counted = self.table.tables_to_copy(from.clone()).unwrap();
        self.memory.supply::<G>(&mut reserve, counted + 1);
        let mut there = PageTable::offline(self.memory, self.table.geometry(), KERNEL, &mut reserve).unwrap();
        let licence = Licence::break_before_make(&());
        let edit = || CopyEdit { set: READ_ONLY, clear: NONE, licence: Some(&licence) };
        let planned = self.table.plan_copy(std::iter::once(from.clone()), edit()).unwrap().tables();
        self.table.copy_to(&mut there, from, edit(), &mut reserve, &mut gather, |_, _, _, _| {}).unwrap();
        let _ = gather.finish(self.memory);
        assert_eq!(leaves(&there), leaves(&self.table));
        self.note("copy", (counted, planned, reserve.count()));
    }

    /// A move away from the end, and back.
    fn moves(&mut self, bytes: u64) {
        self.map(self.last(bytes), LeafSize::LARGEST);
        for (from, to) in [(bytes, 3 * bytes), (3 * bytes, bytes)] {
            let (from, to) = (self.part(from, bytes), self.part(to, bytes).start);
            let (mut reserve, mut gather) = (Reserve::new(), self.table.gather());
            let needed = self.table.tables_to_move(from.clone(), to).unwrap();
            self.memory.supply::<G>(&mut reserve, needed);
            let moved = self.table.move_leaves(from, to, &mut reserve, &mut gather).unwrap();
            let freed = gather.finish(self.memory).count();
            self.note("move", (needed, moved, reserve.count(), freed));
        }
        self.change("unmap", Change::Unmap { from: self.last(bytes) });
    }

    /// What is done to one page or one group without a plan.
    fn one(&mut self) {
        let (page, group) = (G::SIZE_BYTES, LeafSize::group(Level::L3).size_bytes(G::PAGE_SIZE));
        let licence = Licence::break_before_make(&());
        // The table of pages stays.
        self.map(self.part(2 * group, page), LeafSize::PAGE);
        let (at, first) = (self.last(page).start, self.last(group).start);
        let is_empty = self.table.is_group_empty(first);
        let mapped = self.table.map_page(at, TO, DATA);
        let protected = self.table.protect_page(at, READ_ONLY, NONE, Some(&licence));
        let hidden = self.table.make_page_valid(at, false, Some(&licence));
        let shown = self.table.make_page_valid(at, true, Some(&licence));
        let is_there = !self.table.is_group_empty(first) && !self.table.map_group(first, TO, DATA);
        self.note("page", (is_empty, mapped, protected, hidden, shown, is_there));
        self.change("unmap", Change::Unmap { from: self.last(page) });
        let hole = self.table.view().find_hole(at).expect("a hole");
        let is_hole = self.table.is_hole_of_group(hole);
        let mapped = self.table.map_hole_group(hole, TO, DATA);
        self.note("group of a hole", (is_hole, mapped));
        self.change("unmap", Change::Unmap { from: self.last(group) });
        let mapped = self.table.map_group(first, TO, DATA);
        self.note("group", (mapped, self.table.view().translate(at).map(|found| (found.output, found.size))));
        let split = self.table.split_group(at, &licence);
        let mut gather = self.table.gather();
        let within = self.last(2 * group);
        let folded = self.table.fold_up(at, &within, Some(&licence), &mut gather);
        let freed = gather.finish(self.memory).count();
        self.note("split and fold", (split, folded, freed));
        self.change("unmap", Change::Unmap { from: self.last(2 * group) });
        let hole = self.table.view().find_hole(at);
        self.note("nothing", (hole.map(|_| ()), self.table.view().path(at).count()));
        self.claim(at);
    }

    /// The last table as a part.
    fn claim(&mut self, at: VirtAddr) {
        let (mut reserve, mut gather) = (Reserve::new(), self.table.gather());
        self.memory.supply::<G>(&mut reserve, 4);
        let mut part = self.table.claim(at, Level::L3, &mut reserve, &mut gather).unwrap();
        let range = part.range();
        let mapped = part.map_page(at, TO, DATA) && part.protect_page(at, READ_ONLY, NONE, None);
        let whole = part.plan(&[Change::Unmap { from: range.clone() }], None).unwrap().tables_needed();
        self.table.release(part, &mut gather);
        let freed = gather.finish(self.memory).count();
        let range = (self.end.wrapping_sub(range.start.bits()), range.end.bits() == self.end);
        self.note("part", (range, mapped, whole, reserve.count(), freed));
        self.change("unmap", Change::Unmap { from: self.last(G::SIZE_BYTES) });
    }

    /// All of it, from pages to as much as an entry of the root maps.
    fn all(mut self) -> Vec<String> {
        let (page, group) = (G::SIZE_BYTES, LeafSize::group(Level::L3).size_bytes(G::PAGE_SIZE));
        let (block, geometry) = (page << G::INDEX_BITS, self.table.geometry());
        self.each_change(page, page);
        self.each_change(2 * page, page);
        self.each_change(group, page);
        if G::PAGE_SIZE == Granule4K::PAGE_SIZE {
            // Blocks that become few pages, and leaves of the largest kind, as many as a table has.
            self.each_change(block, page);
            self.each_change(2 * block, block + page);
            self.each_change(1 << Geometry::<G>::shift(geometry.start()), page);
        }
        [page, group, block].into_iter().for_each(|bytes| self.moves(bytes));
        self.one();
        assert!(leaves(&self.table).is_empty());
        self.log
    }
}

/// A border of two entries of the root: behind the fourth, or in the middle of fewer.
fn border<G: Granule>(geometry: Geometry<G>) -> u64 {
    geometry.base() + (geometry.input_bytes() / 2).min(4 << Geometry::<G>::shift(geometry.start()))
}

fn check<G: Granule>(bits: u32, half: AddressHalf) {
    let geometry = shape::<G>(bits, half);
    let end = geometry.base().wrapping_add(geometry.input_bytes());
    let [at_border, at_end] = [border(geometry), end].map(|end| {
        let memory = Memory::new();
        let table = live_at(&memory, geometry, KERNEL, &[]);
        Case { memory: &memory, table, end, log: Vec::new() }.all()
    });
    for (border, end) in at_border.iter().zip(&at_end) {
        assert_eq!(border, end, "{bits} bits, {half:?}");
    }
    assert_eq!(at_border.len(), at_end.len());
}

#[test]
fn the_end_of_all_addresses_is_as_the_border_of_two_entries() {
    for (bits, half) in [(36, AddressHalf::Upper), (39, AddressHalf::Lower), (48, AddressHalf::Upper)] {
        check::<Granule4K>(bits, half);
    }
    check::<Granule4K>(52, AddressHalf::Lower);
    check::<Granule4K>(52, AddressHalf::Upper);
    check::<Granule16K>(52, AddressHalf::Upper);
    check::<Granule64K>(52, AddressHalf::Upper);
}

fn across<G: Granule>(bits: u32, half: AddressHalf) {
    let (geometry, page, block) = (shape::<G>(bits, half), G::SIZE_BYTES, G::SIZE_BYTES << G::INDEX_BITS);
    let ends = geometry.base().wrapping_add(geometry.input_bytes());
    for (before, behind) in [(page, page), (page, block), (block, page), (block, block), (block + page, page)] {
        let (memory, border) = (Memory::new(), border(geometry));
        let mut table = live_at(&memory, geometry, KERNEL, &[]);
        let range = |at: u64| VirtAddr::new(at.wrapping_sub(before))..VirtAddr::new(at.wrapping_add(behind));
        let map = |at| Change::Map { from: range(at), to: TO, attributes: DATA, largest: LeafSize::LARGEST };
        let refused = table.plan(&[map(ends)], None).map(|plan| plan.tables_needed());
        assert!(
            matches!(refused, Err(Refusal::OutOfRange(_) | Refusal::Backward(_))),
            "{bits} bits, {half:?}: {refused:?}"
        );
        common::change(&mut table, &memory, &[map(border)], None);
        let mapped = leaves(&table);
        assert_eq!(mapped.iter().map(|it| it.1).sum::<u64>(), before + behind);
        let licence = Licence::break_before_make(&());
        let protect = Change::Protect { from: range(border), set: READ_ONLY, clear: NONE };
        common::change(&mut table, &memory, &[protect], Some(&licence));
        assert!(leaves(&table).iter().all(|(.., leaf)| leaf.bits() & READ_ONLY.bits() != 0));
        // Tables come free with the range that they are all in.
        let from = VirtAddr::new(geometry.base())..VirtAddr::new(ends);
        common::change(&mut table, &memory, &[Change::Unmap { from }], None);
        let summary = Summary::read(&table.view(), table.view().range()).unwrap();
        assert_eq!((leaves(&table).len(), summary.tables()), (0, 1), "{bits} bits: tables are lost");
    }
}

#[test]
fn what_crosses_the_border_of_two_entries_goes_without_a_table_left() {
    for half in [AddressHalf::Lower, AddressHalf::Upper] {
        for bits in [36, 39, 48, 52] {
            across::<Granule4K>(bits, half);
            across::<Granule16K>(bits, half);
            across::<Granule64K>(bits, half);
        }
    }
}
