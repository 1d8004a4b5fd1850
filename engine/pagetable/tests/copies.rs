//! What address spaces ask of the engine: a range with holes protected, a hole mapped by one store, a range copied as by a fork.

use crate::common;

use std::ops::Range;

use common::{DATA, GIB, MIB, Table, change, live_4k, map, offline, tables_above};
use vellum_pagetable::{Change, CopyEdit, El1, Gather, Memory, Platform, Refusal, Reserve, Step};
use vellum_vmsa::{
    Descriptor, Granule4K, Layout, LeafSize, Level, Maintenance, Meaning, PageSize, PhysAddr, Stage1Attributes,
    VirtAddr,
};

const PAGE: u64 = 0x1000;
const NONE: Stage1Attributes = Stage1Attributes::empty();

/// What becomes of leaves, without a licence.
const fn edit(set: Stage1Attributes, clear: Stage1Attributes) -> CopyEdit<'static, El1> {
    CopyEdit { set, clear, licence: None }
}

/// Leaves that were told as so many that lead on from each other: where each leads, and its descriptor.
fn each_of((to, leaf, size): (PhysAddr, Descriptor, LeafSize), count: usize) -> impl Iterator<Item = (u64, u64)> {
    let step = size.size_bytes(PageSize::Size4K);
    (0..count as u64).map(move |number| (to.bits() + number * step, leaf.bits() + number * step))
}

fn range(start: u64, bytes: u64) -> Range<VirtAddr> {
    VirtAddr::new(start)..VirtAddr::new(start + bytes)
}

/// Two pages with a hole between, and a block.
fn setup() -> [Change<El1>; 3] {
    [
        map(0, PAGE, 64 * MIB, LeafSize::PAGE),
        map(2 * PAGE, PAGE, 65 * MIB, LeafSize::PAGE),
        map(2 * MIB, 2 * MIB, 66 * MIB, LeafSize::single(Level::L2)),
    ]
}

/// Start, size and attributes of every leaf.
fn leaves(table: &Table<'_, Granule4K>) -> Vec<(u64, u32, u64)> {
    let mut leaves = Vec::new();
    let _ = table.view().for_each::<()>(table.view().range(), |entry| {
        if let Meaning::Leaf(..) = entry.lookup.meaning {
            leaves.push((entry.input.bits(), entry.shift, entry.lookup.descriptor.bits()));
        }
        std::ops::ControlFlow::Continue(())
    });
    leaves
}

#[test]
fn a_range_with_holes_is_protected_where_it_is_mapped() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &setup());
    let before = leaves(&table);
    let (from, set) = (range(0, 6 * MIB), Stage1Attributes::READ_ONLY);
    let refused = table.plan(&[Change::Protect { from: from.clone(), set, clear: NONE }], None).unwrap_err();
    assert_eq!(refused, Refusal::NotMapped(PAGE));
    change(&mut table, &memory, &[Change::ProtectSparse { from, set, clear: NONE }], None);
    let after: Vec<_> = before.iter().map(|&(at, shift, bits)| (at, shift, bits | 1 << 7)).collect();
    assert_eq!(leaves(&table), after);
}

#[test]
fn a_hole_of_a_table_is_mapped_by_one_store() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &setup());
    let _ = memory.take_steps();
    let to = PhysAddr::new(80 * MIB);
    for (page, to) in [(0, to), (2 * MIB, to), (8 * MIB, to), (PAGE + 1, to), (1 << 60, to), (PAGE, to + 1)] {
        assert!(!table.map_page(VirtAddr::new(page), to, DATA), "{page:#x}");
    }
    let beyond = PhysAddr::new(1 << table.geometry().layout().output_bits());
    assert!(!table.map_page(VirtAddr::new(PAGE), beyond, DATA));
    assert!(!table.map_page(VirtAddr::new(PAGE), to, Stage1Attributes::from_bits_retain(1 << 20)));
    assert_eq!(memory.take_steps(), [], "nothing is stored then");
    assert!(table.map_page(VirtAddr::new(PAGE), to, DATA));
    let steps = memory.take_steps();
    assert!(matches!(steps[0], Step::Store(..)));
    assert_eq!(steps[1..], [Step::Maintain(Maintenance::DSB_ISHST), Step::Maintain(Maintenance::ISB)]);
    assert_eq!(table.view().translate(VirtAddr::new(PAGE + 5)).unwrap().output, to + 5);
}

#[test]
fn a_hole_that_was_found_is_mapped_while_it_is_one() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &setup());
    let (page, to) = (VirtAddr::new(PAGE), PhysAddr::new(80 * MIB));
    for elsewhere in [0, 2 * MIB, 8 * MIB] {
        assert_eq!(table.view().find(VirtAddr::new(elsewhere)).unwrap().hole(), None, "{elsewhere:#x}");
        assert_eq!(table.view().find_hole(VirtAddr::new(elsewhere)), None, "{elsewhere:#x}");
    }
    assert_eq!(table.view().find_hole(VirtAddr::new(1 << 60)), None);
    assert!(table.view().find(VirtAddr::new(1 << 60)).is_none());
    let hole = table.view().find(page).unwrap().hole().expect("a hole of a table of pages");
    assert_eq!(table.view().find_hole(page), Some(hole));
    let _ = memory.take_steps();
    let beyond = PhysAddr::new(1 << table.geometry().layout().output_bits());
    assert!(!table.map_hole(hole, to + 1, DATA) && !table.map_hole(hole, beyond, DATA));
    assert!(!table.map_hole(hole, to, Stage1Attributes::from_bits_retain(1 << 20)));
    assert_eq!(memory.take_steps(), [], "nothing is stored then");
    assert!(table.map_hole(hole, to, DATA));
    let steps = memory.take_steps();
    assert!(matches!(steps[0], Step::Store(..)));
    assert_eq!(steps[1..], [Step::Maintain(Maintenance::DSB_ISHST), Step::Maintain(Maintenance::ISB)]);
    assert_eq!(table.view().translate(page).unwrap().output, to);
    assert!(!table.map_hole(hole, to, DATA), "it is a hole no more");
    assert_eq!(memory.take_steps(), []);
}

/// A page that is kept while it is invalid is no hole, be it found before or searched now.
#[test]
fn a_kept_page_is_not_mapped_over() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &setup());
    let (page, to) = (VirtAddr::new(PAGE), PhysAddr::new(80 * MIB));
    let hole = table.view().find_hole(page).expect("a hole of a table of pages");
    assert!(table.map_page(page, to, DATA) && table.make_page_valid(page, false, None));
    let _ = memory.take_steps();
    for other in [to, to + PAGE] {
        assert!(!table.map_hole(hole, other, DATA) && !table.map_page(page, other, DATA));
    }
    assert_eq!(memory.take_steps().iter().filter(|step| matches!(step, Step::Store(..))).count(), 0);
    assert_eq!(table.view().find_hole(page), None);
    assert!(table.make_page_valid(page, true, None));
    assert_eq!(table.view().translate(page).unwrap().output, to);
}

/// Many leaves are edited at once where they are alike: what one among them differs by, wherever it stands, is seen.
#[test]
fn a_leaf_among_many_is_edited_as_it_is() {
    const PAGES: u64 = 40;
    let (all, clear) = (range(0, PAGES * PAGE), Stage1Attributes::DBM);
    let (set, dbm) = (Stage1Attributes::READ_ONLY, Stage1Attributes::DBM);
    for odd in 0..PAGES {
        for kind in 0..4 {
            let memory = Memory::new();
            let mut table = live_4k(&memory, &[map(0, PAGES * PAGE, 64 * MIB, LeafSize::PAGE)]);
            let page = VirtAddr::new(odd * PAGE);
            match kind {
                0 => assert!(table.protect_page(page, NONE, Stage1Attributes::AF, None)),
                1 => assert!(table.protect_page(page, set, NONE, None)),
                2 => assert!(table.make_page_valid(page, false, None)),
                _ => _ = change(&mut table, &memory, &[Change::Unmap { from: range(odd * PAGE, PAGE) }], None),
            }
            assert!(table.protect_page(VirtAddr::new((odd ^ 1) * PAGE), dbm, NONE, None));
            let find = |page| table.view().find(VirtAddr::new(page * PAGE)).unwrap();
            let slots: Vec<_> = (0..PAGES).map(find).collect();
            let becomes = |bits: u64| if bits == 0 { 0 } else { bits & !dbm.bits() | set.bits() };
            let mut there = offline::<Granule4K>(&memory, 39, Layout::Bits48);
            let (mut reserve, mut gather) = (Reserve::new(), table.gather());
            memory.supply::<Granule4K>(&mut reserve, 5);
            let mut told = Vec::new();
            if odd % 2 == 0 {
                change(&mut table, &memory, &[Change::ProtectSparse { from: all.clone(), set, clear }], None);
            } else {
                let each = |to, leaf, size, count| told.extend(each_of((to, leaf, size), count));
                table.copy_to(&mut there, all.clone(), edit(set, clear), &mut reserve, &mut gather, each).unwrap();
            }
            let kept = |number: u64| odd % 2 == 1 && number == odd && kind == 2;
            for (number, before) in (0..).zip(&slots) {
                let bits = before.descriptor.bits();
                let expected = if kept(number) { bits } else { becomes(bits) };
                assert_eq!(memory.load(before.slot).bits(), expected, "{odd} {kind} {number}");
            }
            if odd % 2 == 1 {
                let valid = slots.iter().filter(|slot| slot.descriptor.is_valid());
                let expected: Vec<_> = valid.map(|slot| becomes(slot.descriptor.bits())).collect();
                assert_eq!(told.iter().map(|(_, leaf)| *leaf).collect::<Vec<_>>(), expected);
                let copied: Vec<_> = leaves(&there).into_iter().map(|(_, _, bits)| bits).collect();
                assert_eq!(copied, expected);
            }
            reserve.refill(&memory, gather.finish(&memory));
        }
    }
}

const SIDE_BY_SIDE: u64 = 70;
const CLEAR: Stage1Attributes = Stage1Attributes::DBM;

/// Copies leaves side by side that lead on from what is made of a page's leaf. How many were copied at once, time and again.
fn copied_at_once(first: impl Fn(u64) -> u64) -> Vec<u64> {
    let set = Stage1Attributes::READ_ONLY;
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, SIDE_BY_SIDE * PAGE, 64 * MIB, LeafSize::PAGE)]);
    let slot = |page: u64| table.view().find(VirtAddr::new(page * PAGE)).unwrap().slot;
    let first = first(memory.load(slot(0)).bits() - 64 * MIB);
    let leaves: Vec<_> = (0..SIDE_BY_SIDE).map(|page| Descriptor::new(first + page * PAGE)).collect();
    let slots: Vec<_> = (0..SIDE_BY_SIDE).map(slot).collect();
    slots.iter().zip(&leaves).for_each(|(slot, leaf)| memory.store(*slot, *leaf));
    let mut there = offline::<Granule4K>(&memory, 39, Layout::Bits48);
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    memory.supply::<Granule4K>(&mut reserve, 5);
    let mut told = Vec::new();
    let each = |_, _, _, count| told.push(count as u64);
    let all = range(0, SIDE_BY_SIDE * PAGE);
    table.copy_to(&mut there, all, edit(set, CLEAR), &mut reserve, &mut gather, each).unwrap();
    let _ = gather.finish(&memory);
    for (page, leaf) in (0..).zip(&leaves) {
        let edited = leaf.bits() & !CLEAR.bits() | set.bits();
        let copy = there.view().find(VirtAddr::new(page * PAGE)).unwrap().slot;
        let found = [slots[page as usize], copy].map(|slot| memory.load(slot).bits());
        assert_eq!(found, [edited; 2], "{first:x} {page}");
    }
    told
}

/// Leaves that lead on from each other are copied and told at once, as far as their addresses do: what is carried beyond, as others may have
/// written it, is edited as it stands in each.
#[test]
fn leaves_that_lead_on_are_copied_at_once() {
    for before in (0..40).chain([SIDE_BY_SIDE]) {
        // DBM comes out of what is below it once so many leaves are past.
        let told = copied_at_once(|leaf| (leaf | CLEAR.bits()) - before * PAGE);
        let expected = before.max(SIDE_BY_SIDE - before) / 16 * 16;
        assert!(before % 16 != 0 || told.iter().max() == Some(&expected), "{before} {told:?}");
    }
}

#[test]
fn leaves_are_copied_at_once_as_far_as_their_addresses_stand_together() {
    let to = |address: u64| copied_at_once(|leaf| leaf | (address - 32 * PAGE))[..2].to_vec();
    assert_eq!(to(1 << 46), [64, 1]);
    assert_eq!(to(1 << 47), [64, 1]);
    // Bit 48 of an address may stand elsewhere.
    assert_eq!(to(1 << 48), [32, 32]);
}

fn copy(
    table: &mut Table<'_, Granule4K>,
    there: &mut Table<'_, Granule4K>,
    from: Range<VirtAddr>,
    reserve: &mut Reserve,
    gather: &mut Gather<Granule4K, El1>,
) -> Result<Vec<u64>, Refusal> {
    let mut told = Vec::new();
    let edit = edit(Stage1Attributes::READ_ONLY, Stage1Attributes::DBM);
    table.copy_to(there, from, edit, reserve, gather, |to, leaf, size, count| {
        told.extend(each_of((to, leaf, size), count).map(|(to, _)| to / MIB));
    })?;
    Ok(told)
}

#[test]
fn a_copy_is_what_the_edit_made_of_the_original() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &setup());
    let mut there = offline::<Granule4K>(&memory, 39, Layout::Bits48);
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    let before = leaves(&table);
    let needed = table.tables_to_copy(range(0, 6 * MIB)).unwrap();
    memory.supply::<Granule4K>(&mut reserve, needed - 1);
    let short = copy(&mut table, &mut there, range(0, 6 * MIB), &mut reserve, &mut gather);
    assert_eq!(short, Err(Refusal::ReserveShortBy(1)));
    assert_eq!(leaves(&table), before, "a refusal changes nothing");
    memory.supply::<Granule4K>(&mut reserve, 1);
    let told = copy(&mut table, &mut there, range(0, 6 * MIB), &mut reserve, &mut gather).unwrap();
    assert_eq!(told, [64, 65, 66]);
    let edited: Vec<_> = before.iter().map(|&(at, shift, bits)| (at, shift, bits | 1 << 7)).collect();
    assert_eq!(leaves(&table), edited);
    assert_eq!(leaves(&there), edited);
    assert_eq!(reserve.count(), 0, "as many tables as were counted");
    let _ = memory.take_steps();
    reserve.refill(&memory, gather.finish(&memory));
    let steps = memory.take_steps();
    assert!(steps.iter().any(|step| matches!(step, Step::Maintain(Maintenance::Invalidate(..)))), "{steps:?}");
    // A second range goes into tables that are there.
    change(&mut table, &memory, &[map(MIB, PAGE, 90 * MIB, LeafSize::PAGE)], None);
    let needed = 2 + tables_above();
    assert_eq!(table.tables_to_copy(range(MIB, PAGE)).unwrap(), needed);
    memory.supply::<Granule4K>(&mut reserve, needed);
    let mut gather = table.gather();
    copy(&mut table, &mut there, range(MIB, PAGE), &mut reserve, &mut gather).unwrap();
    reserve.refill(&memory, gather.finish(&memory));
    assert_eq!((leaves(&there), reserve.count()), (leaves(&table), needed));
}

#[test]
fn what_cannot_be_copied_is_refused() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &setup());
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    memory.supply::<Granule4K>(&mut reserve, 9);
    let mut there = offline::<Granule4K>(&memory, 39, Layout::Bits48);
    let refused = copy(&mut table, &mut there, range(2 * MIB, MIB), &mut reserve, &mut gather);
    assert_eq!(refused, Err(Refusal::NeedsLicence(2 * MIB)));
    let refused = copy(&mut table, &mut there, range(3 * MIB, MIB), &mut reserve, &mut gather);
    assert_eq!(refused, Err(Refusal::NeedsLicence(3 * MIB)));
    let refused = copy(&mut table, &mut there, range(5, MIB), &mut reserve, &mut gather);
    assert_eq!(refused, Err(Refusal::Misaligned(5)));
    let device = edit(Stage1Attributes::memory(1), NONE);
    let refused = table.copy_to(&mut there, range(0, MIB), device, &mut reserve, &mut gather, |_, _, _, _| {});
    assert_eq!(refused, Err(Refusal::NotAttributes(1 << 2)));
    change(&mut table, &memory, &[map(5 * MIB, 64 << 10, 69 * MIB, LeafSize::group(Level::L3))], None);
    let (before, with_group) = (leaves(&table), range(MIB, 5 * MIB));
    let refused = copy(&mut table, &mut there, with_group, &mut reserve, &mut gather);
    assert_eq!(refused, Err(Refusal::NeedsLicence(5 * MIB)));
    let mut there = there.publish();
    let refused = copy(&mut table, &mut there, range(0, MIB), &mut reserve, &mut gather);
    assert_eq!(refused, Err(Refusal::AlreadyMapped(0)));
    assert_eq!((leaves(&table), leaves(&there)), (before, Vec::new()));
}

/// Blocks and tables in turn: tables are not copied as leaves, none is made that was made already, and each leaf that changes is
/// forgotten as large as it is.
#[test]
fn tables_beside_blocks_are_copied_each_as_it_is() {
    let memory = Memory::new();
    let block = |at: u64| map(at, 2 * MIB, (1 << 36) + at, LeafSize::single(Level::L2));
    let pages = |at: u64| map(at, 3 * PAGE, (1 << 36) + at, LeafSize::PAGE);
    let setup = [block(0), pages(2 * MIB), block(4 * MIB), pages(6 * MIB), block(8 * MIB)];
    let mut table = common::live::<Granule4K, _>(&memory, (39, Layout::Bits48), common::PLAIN_KERNEL, &setup);
    let mut there = offline_like(&memory, &table);
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    let all = range(0, 10 * MIB);
    let needed = 3 + tables_above();
    assert_eq!(table.tables_to_copy(all.clone()), Ok(needed));
    memory.supply::<Granule4K>(&mut reserve, needed + 1);
    let before = leaves(&table);
    let edit = edit(Stage1Attributes::READ_ONLY, NONE);
    table.copy_to(&mut there, all, edit, &mut reserve, &mut gather, |_, _, _, _| {}).unwrap();
    let edited: Vec<_> = before.iter().map(|&(at, shift, bits)| (at, shift, bits | 1 << 7)).collect();
    assert_eq!((leaves(&table), leaves(&there), reserve.count()), (edited.clone(), edited, 1));
    let _ = gather.finish(&memory);
    assert_eq!(gather.issued(), 9, "three blocks and twice three pages");
    let links: Vec<_> =
        [2 * MIB, 6 * MIB].map(|at| table.view().path(VirtAddr::new(at)).nth(1).unwrap().descriptor).into();
    assert!(links.iter().all(|link| link.bits() & 1 << 7 == 0), "a table is edited: {links:x?}");
}

/// Groups that are as asked already are copied as groups, of pages and of blocks, if they lie in the range whole.
#[test]
fn groups_that_are_as_asked_are_copied_as_they_are() {
    for (bytes, level) in [(64 << 10, Level::L3), (32 * MIB, Level::L2)] {
        let memory = Memory::new();
        let group = LeafSize::group(level);
        let setup = [map(0, 2 * bytes, GIB, group), map(4 * bytes, bytes, GIB + 4 * bytes, group)];
        let mut table = live_4k(&memory, &setup);
        let mut there = offline::<Granule4K>(&memory, 39, Layout::Bits48);
        let (mut reserve, mut gather) = (Reserve::new(), table.gather());
        memory.supply::<Granule4K>(&mut reserve, 4);
        let nothing = || edit(NONE, Stage1Attributes::READ_ONLY);
        let half = bytes / 2;
        for (from, bytes) in [(half, bytes), (bytes, half), (0, bytes + half), (4 * bytes + half, bytes)] {
            let refused =
                table.copy_to(&mut there, range(from, bytes), nothing(), &mut reserve, &mut gather, |_, _, _, _| {});
            assert_eq!(refused, Err(Refusal::NeedsLicence(from)));
        }
        let before = leaves(&table);
        table.copy_to(&mut there, range(0, 5 * bytes), nothing(), &mut reserve, &mut gather, |_, _, _, _| {}).unwrap();
        assert_eq!((leaves(&table), leaves(&there)), (before.clone(), before));
        let _ = gather.finish(&memory);
        assert_eq!(gather.issued(), 0);
        // One member that is not as asked is enough, be the first a hole.
        let last = table.view().path(VirtAddr::new(5 * bytes - 1)).last().unwrap();
        memory.store(last.slot, Descriptor::new(last.descriptor.bits() | Stage1Attributes::READ_ONLY.bits()));
        let first = table.view().path(VirtAddr::new(4 * bytes)).last().unwrap();
        memory.store(first.slot, Descriptor::INVALID);
        let mut there = offline::<Granule4K>(&memory, 39, Layout::Bits48);
        let refused =
            table.copy_to(&mut there, range(0, 5 * bytes), nothing(), &mut reserve, &mut gather, |_, _, _, _| {});
        assert!(matches!(refused, Err(Refusal::NeedsLicence(at)) if at >= 4 * bytes), "{refused:?}");
    }
}

/// A page table of the same shape and regime, not live.
fn offline_like<'m>(memory: &'m Memory, table: &Table<'m, Granule4K>) -> Table<'m, Granule4K> {
    let mut reserve = Reserve::new();
    memory.supply::<Granule4K>(&mut reserve, 1);
    vellum_pagetable::PageTable::offline(memory, table.geometry(), table.regime(), &mut reserve).unwrap()
}

#[test]
fn nothing_is_copied_of_nothing_or_into_another_shape() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &setup());
    let mut there = offline_like(&memory, &table);
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    for start in [0, PAGE, 3 * MIB] {
        let copied = copy(&mut table, &mut there, range(start, 0), &mut reserve, &mut gather);
        assert_eq!(copied, Ok(vec![]), "{start:#x}");
    }
    memory.supply::<Granule4K>(&mut reserve, 9);
    let before = memory.descriptors();
    let mut other = offline::<Granule4K>(&memory, 38, Layout::Bits48);
    let (empty, all) = (leaves(&other), range(0, 6 * MIB));
    assert_eq!(copy(&mut table, &mut other, all.clone(), &mut reserve, &mut gather), Err(Refusal::AlreadyMapped(0)));
    assert_eq!((leaves(&other), reserve.count()), (empty, 9));
    for bit in [0, 2, 11, 20] {
        let named = Stage1Attributes::from_bits_retain(1 << bit);
        for edit in [edit(named, NONE), edit(NONE, named)] {
            let refused = table.copy_to(&mut there, all.clone(), edit, &mut reserve, &mut gather, |_, _, _, _| {});
            assert_eq!(refused, Err(Refusal::NotAttributes(1 << bit)));
        }
    }
    assert!(before.iter().all(|(slot, held)| memory.descriptors()[slot] == *held));
}
