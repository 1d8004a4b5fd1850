//! Mistakes that page-table libraries have made, each of them shown not to be made here.

use crate::common;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ops::ControlFlow;

use common::counting::Counting;
use common::{
    DATA, GIB, KERNEL, MIB, PLAIN_KERNEL, Table, change, each_licence, leaves, live, live_4k, map, read_only,
    tables_above, unmap,
};
use vellum_pagetable::{
    Census, Change, El1, HardwareUpdates, Licence, Memory, Platform, Refusal, Reserve, Scope, Slot, Step, Summary,
    Tolerance,
};
use vellum_vmsa::{
    BbmLevel, Descriptor, Granule, Granule4K, Granule16K, Granule64K, Layout, LeafSize, Level, Maintenance, Meaning,
    PhysAddr, Stage1Attributes, TlbiOp, VirtAddr,
};

/// How many bytes are mapped by leaves that `choose` chooses.
fn bytes_where<G: Granule>(table: &Table<'_, G>, choose: impl Fn(Descriptor) -> bool) -> u64 {
    leaves(table).iter().filter(|(_, _, leaf)| choose(*leaf)).map(|(_, bytes, _)| bytes).sum()
}

fn is_read_only(leaf: Descriptor) -> bool {
    leaf.bits() & Stage1Attributes::READ_ONLY.bits() != 0
}

fn maintained(operation: Maintenance) -> impl Fn(&Step) -> bool {
    move |step| *step == Step::Maintain(operation)
}

fn is_tlbi(step: &Step) -> bool {
    matches!(step, Step::Maintain(Maintenance::Invalidate(..)))
}

/// Looks for steps in this order, others between them allowed; where they stand.
fn in_order(steps: &[Step], wanted: &[&dyn Fn(&Step) -> bool]) -> Vec<usize> {
    let mut at = 0;
    let mut places = Vec::new();
    for (number, wanted) in wanted.iter().enumerate() {
        let found = steps[at..].iter().position(wanted);
        let place = at + found.unwrap_or_else(|| panic!("step {number} does not come in order: {steps:#?}"));
        places.push(place);
        at = place + 1;
    }
    places
}

/// Part of a live block may lead elsewhere only by break-before-make, and the rest of it stays what it was.
#[test]
fn part_of_a_live_block_is_remapped_by_break_before_make_alone() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 2 * MIB, GIB, LeafSize::LARGEST)]);
    let slot = table.view().path(VirtAddr::new(0)).last().unwrap().slot;
    let from = VirtAddr::new(0x5000)..VirtAddr::new(0x6000);
    let to = PhysAddr::new(7 * GIB);
    let elsewhere = [Change::Remap { from, to, attributes: DATA, largest: LeafSize::LARGEST }];
    let refusal = |table: &mut Table<'_, Granule4K>, licence: Option<&Licence<'_>>| {
        table.plan(&elsewhere, licence).map(|plan| plan.tables_needed()).unwrap_err()
    };
    assert_eq!(refusal(&mut table, None), Refusal::NeedsLicence(0x5000));
    let third = Census::new(Tolerance::new(BbmLevel::Level3, true));
    assert_eq!(refusal(&mut table, third.tolerated().as_ref()), Refusal::NeedsBreak(0x5000));
    let (steps, _) = change(&mut table, &memory, &elsewhere, Some(&Licence::break_before_make(&())));
    let invalid = |step: &Step| matches!(step, Step::Store(at, new) if *at == slot && !new.is_valid());
    let made = |step: &Step| matches!(step, Step::Store(at, new) if *at == slot && new.is_valid());
    let broken = maintained(Maintenance::DSB_ISHST);
    let places = in_order(&steps, &[&invalid, &broken, &is_tlbi, &maintained(Maintenance::DSB_ISH), &made]);
    assert!(!steps[..places[4]].iter().any(made), "nothing is made before the window closes");
    let outputs = (0..512).map(|page| table.view().translate(VirtAddr::new(page << 12)).unwrap().output.bits());
    let expected = (0..512).map(|page| if page == 5 { 7 * GIB } else { GIB + (page << 12) });
    assert!(outputs.eq(expected));
}

/// Bits without a name are copied into every leaf that a block splits into, whatever the licence.
#[test]
fn bits_without_a_name_survive_a_split() {
    fn check<G: Granule>(bits: u32, layout: Layout) {
        let attributes = layout.attribute_mask(G::PAGE_SIZE, Level::L3) & !Stage1Attributes::AF.bits();
        for bit in (0..64).map(|bit| 1 << bit).filter(|bit| attributes & bit != 0) {
            let memory = Memory::new();
            let block_bytes = LeafSize::single(Level::L2).size_bytes(G::PAGE_SIZE);
            let largest = LeafSize::single(Level::L2);
            let mut table =
                live::<G, _>(&memory, (bits, layout), PLAIN_KERNEL, &[map(0, block_bytes, block_bytes, largest)]);
            let block = table.view().path(VirtAddr::new(0)).last().unwrap();
            memory.store(block.slot, Descriptor::new(block.descriptor.bits() | bit));
            let old = block.descriptor.bits() & attributes | bit;
            let from = VirtAddr::new(0)..VirtAddr::new(G::SIZE_BYTES);
            change(&mut table, &memory, &[Change::SplitToPages { from }], Some(&Licence::break_before_make(&())));
            let pages = leaves(&table);
            assert_eq!(pages.len(), G::ENTRIES);
            assert!(pages.iter().all(|(_, _, page)| page.bits() & attributes == old), "{bit:#x} is lost");
        }
    }
    check::<Granule4K>(39, Layout::Bits48);
    check::<Granule4K>(39, Layout::Lpa2);
    check::<Granule16K>(36, Layout::Bits48);
    check::<Granule64K>(42, Layout::Lpa);
}

/// A group of which one page becomes read-only is a group no longer: in no member, and at no moment with a member that
/// differs.
#[test]
fn one_read_only_page_ends_its_contiguous_group() {
    fn check<G: Granule>(bits: u32) {
        let members = 1 << G::PAGE_SIZE.contiguous_shift(Level::L3).unwrap();
        let bytes = members * G::SIZE_BYTES;
        each_licence(|licence| {
            let memory = Memory::new();
            let setup = [map(0, bytes, bytes, LeafSize::LARGEST)];
            let mut table = live::<G, _>(&memory, (bits, Layout::Bits48), PLAIN_KERNEL, &setup);
            let group: BTreeMap<_, _> = (0..members)
                .map(|page| table.view().path(VirtAddr::new(page * G::SIZE_BYTES)).last().unwrap())
                .map(|lookup| (lookup.slot, lookup.descriptor))
                .collect();
            assert!(group.values().all(|member| member.is_contiguous()));
            let wanted = [read_only(5 * G::SIZE_BYTES, G::SIZE_BYTES)];
            let (steps, _) = change(&mut table, &memory, &wanted, Some(licence));
            let mut held = group;
            for step in &steps {
                let Step::Store(slot, new) = step else { continue };
                held.insert(*slot, *new);
                let members = || held.values().filter(|member| member.is_valid());
                let is_split = members().any(|member| member.is_contiguous()) && members().any(|it| is_read_only(*it));
                assert!(!is_split, "a group whose members differ may be seen: {licence:?}");
            }
            assert!(held.values().all(|member| !member.is_contiguous()));
            assert_eq!(bytes_where(&table, is_read_only), G::SIZE_BYTES);
            assert_eq!(bytes_where(&table, |_| true), bytes);
        });
    }
    check::<Granule4K>(39);
    check::<Granule16K>(47);
    check::<Granule64K>(42);
}

/// An output address that descriptors cannot hold is refused, and the largest that they can hold is kept.
#[test]
fn an_output_address_too_wide_is_refused_and_not_cut_off() {
    fn check<G: Granule>(bits: u32, layout: Layout) {
        let memory = Memory::new();
        let mut table = live::<G, _>(&memory, (bits, layout), KERNEL, &[]);
        let (page, end) = (G::SIZE_BYTES, 1u64 << table.geometry().layout().output_bits());
        for (bytes, to) in [(page, end), (2 * page, end - page), (page, 1 << 63), (2 * page, !(page - 1))] {
            let refusal = table.plan(&[map(0, bytes, to, LeafSize::PAGE)], None).map(|plan| plan.tables_needed());
            assert_eq!(refusal, Err(Refusal::OutputTooWide(PhysAddr::new(to))));
        }
        change(&mut table, &memory, &[map(page, page, end - page, LeafSize::PAGE)], None);
        let last = table.view().translate(VirtAddr::new(page + 0x123)).unwrap();
        assert_eq!(last.output, PhysAddr::new(end - page + 0x123));
    }
    check::<Granule4K>(39, Layout::Bits48);
    check::<Granule4K>(39, Layout::Lpa2);
    check::<Granule16K>(47, Layout::Lpa2);
    check::<Granule64K>(42, Layout::Bits48);
    check::<Granule64K>(42, Layout::Lpa);
}

/// Protecting 4 KiB of a block of 1 GiB changes 4 KiB.
#[test]
fn protecting_a_page_changes_that_page_alone() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(GIB, GIB, GIB, LeafSize::single(Level::L1))]);
    let wanted = [read_only(GIB + 0x1234_5000, 0x1000)];
    change(&mut table, &memory, &wanted, Some(&Licence::break_before_make(&())));
    assert_eq!(bytes_where(&table, |_| true), GIB);
    assert_eq!(bytes_where(&table, is_read_only), 0x1000);
    let page = table.view().translate(VirtAddr::new(GIB + 0x1234_5678)).unwrap();
    assert!(is_read_only(page.descriptor) && page.output == PhysAddr::new(GIB + 0x1234_5678));
}

/// Unmapping part of a block leaves the rest of it mapped to where it was.
#[test]
fn unmapping_part_of_a_block_leaves_the_rest() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(GIB, GIB, 3 * GIB, LeafSize::single(Level::L1))]);
    let hole = GIB + 0x1234_5000..GIB + 0x1234_8000;
    let wanted = [unmap(hole.start, hole.end - hole.start)];
    change(&mut table, &memory, &wanted, Some(&Licence::break_before_make(&())));
    assert_eq!(bytes_where(&table, |_| true), GIB - 0x3000);
    for page in (GIB..2 * GIB).step_by(0x1000) {
        let output = table.view().translate(VirtAddr::new(page)).map(|found| found.output.bits());
        assert_eq!(output, (!hole.contains(&page)).then_some(page + 2 * GIB));
    }
}

/// Who copies counts tables for all that is copied first, so that what pages there are is looked at once.
#[test]
fn to_count_tables_looks_into_no_table_of_pages() {
    let memory = Memory::new();
    let table = live_4k(&memory, &[map(0, 4 << 20, GIB, LeafSize::PAGE)]);
    let counting = Counting(&memory, Cell::new(0));
    let table = table.over(&counting);
    assert_eq!(table.tables_to_copy(VirtAddr::new(0)..VirtAddr::new(4 << 20)), Ok(3 + tables_above()));
    assert_eq!(counting.1.take(), 3 + tables_above(), "one descriptor of level 1, two of level 2");
}

/// 512 GiB of nothing but one page cost a few loads for each descriptor that is there, not one for each 4 KiB.
#[test]
fn a_hole_is_passed_in_one_step() {
    let memory = Memory::new();
    let table = live_4k(&memory, &[map(GIB, 0x1000, GIB, LeafSize::PAGE)]);
    let counting = Counting(&memory, Cell::new(0));
    let mut table = table.over(&counting);
    let from = table.view().range();
    let licence = Licence::break_before_make(&());
    let there = (3 + tables_above()) * 512;
    let _ = Summary::read(&table.view(), from.clone()).unwrap();
    assert!(counting.1.take() <= there);
    let changes = [
        Change::Age { from: from.clone() },
        Change::Clean { from: from.clone() },
        Change::SplitToPages { from: from.clone() },
        Change::Collapse { from: from.clone() },
        Change::Unmap { from },
    ];
    for change in &changes {
        let mut gather = table.gather();
        let mut none = Reserve::new();
        table.plan(std::slice::from_ref(change), Some(&licence)).unwrap().apply(&mut none, &mut gather).unwrap();
        let _ = gather.finish(&memory);
        let loads = counting.1.take();
        assert!(loads <= 8 * there, "{loads} loads for {change:?}");
    }
}

/// A table comes free only when TLBs and walk caches have forgotten the way to it, and is not written before.
#[test]
fn a_table_is_invalidated_before_it_is_freed() {
    let from = VirtAddr::new(0)..VirtAddr::new(2 * MIB);
    for wanted in [unmap(0, 2 * MIB), Change::Collapse { from }] {
        each_licence(|licence| {
            let memory = Memory::new();
            let mut table = live_4k(&memory, &[map(0, 2 * MIB, 2 * MIB, LeafSize::PAGE)]);
            let block = table.view().path(VirtAddr::new(0)).find(|it| it.level == Level::L2).unwrap();
            let Meaning::Table(freed) = block.meaning else { panic!("no table") };
            let (steps, retired) = change(&mut table, &memory, std::slice::from_ref(&wanted), Some(licence));
            assert_eq!(retired, 1);
            let unlinked =
                |step: &Step| matches!(step, Step::Store(at, new) if *at == block.slot && *new != block.descriptor);
            let forgotten = |step: &Step| {
                let Step::Maintain(Maintenance::Invalidate(op, operand)) = step else { return false };
                // All levels, and no hint: the way to the table is forgotten too. By range: two pages or more from 0.
                let is_by_address = *op == TlbiOp::VAAE1IS && operand >> 44 == 0;
                is_by_address || *op == TlbiOp::RVAAE1IS && operand >> 37 & 0b11 == 0 || *op == TlbiOp::VMALLE1IS
            };
            let written = |step: &Step| matches!(step, Step::Store(at, _) if at.address().align_down(0x1000) == freed);
            let (seen, complete) = (maintained(Maintenance::DSB_ISHST), maintained(Maintenance::DSB_ISH));
            let places = in_order(&steps, &[&unlinked, &seen, &forgotten, &complete, &written]);
            assert_eq!(steps.iter().position(written), Some(places[4]), "{wanted:?} writes to it too early");
        });
    }
}

/// Every descriptor of a new table is written, and visible, before a walker can reach the table.
#[test]
fn a_table_is_filled_before_it_is_linked() {
    let changes = [map(8 * GIB + 0x5000, 0x1000, 0, LeafSize::PAGE), read_only(GIB + 0x5000, 0x1000)];
    for wanted in changes {
        each_licence(|licence| {
            let memory = Memory::new();
            let mut table =
                live::<Granule4K, _>(&memory, (48, Layout::Bits48), KERNEL, &[map(GIB, GIB, GIB, LeafSize::LARGEST)]);
            let mut reached = BTreeSet::from([table.root()]);
            let view = table.view();
            let _ = view.for_each::<Infallible>(view.range(), |entry| {
                if let Meaning::Table(next) = entry.lookup.meaning {
                    reached.insert(next);
                }
                ControlFlow::Continue(())
            });
            let (steps, _) = change(&mut table, &memory, std::slice::from_ref(&wanted), Some(licence));
            let mut links = 0;
            for (number, step) in steps.iter().enumerate() {
                let Step::Store(slot, new) = step else { continue };
                if reached.contains(&slot.address().align_down(0x1000)) && new.bits() & 0b11 == 0b11 {
                    links += assert_filled(&steps[..number], *new, &mut reached);
                }
            }
            assert!(links >= 2, "{wanted:?} links {links} tables");
        });
    }
}

/// The table that `link` leads to, and those below it, have been filled and ordered by these steps. How many there are.
fn assert_filled(steps: &[Step], link: Descriptor, reached: &mut BTreeSet<PhysAddr>) -> usize {
    let table = Layout::Bits48.output(link, 12);
    // Page descriptors look like tables; only tables have been written.
    let is_in = |slot: &Slot| slot.address().align_down(0x1000) == table;
    let stores = || {
        steps.iter().enumerate().filter_map(move |(number, step)| match step {
            Step::Store(slot, new) if is_in(slot) => Some((number, *slot, *new)),
            _ => None,
        })
    };
    let Some((last, ..)) = stores().next_back() else { return 0 };
    let slots: BTreeSet<_> = stores().map(|(_, slot, _)| slot).collect();
    assert_eq!(slots.len(), 512, "a table with slots that hold what was in memory before is linked");
    assert!(steps[last..].iter().any(maintained(Maintenance::DSB_ISHST)), "a table is linked before it is visible");
    reached.insert(table);
    let links: Vec<_> = stores().filter(|(_, _, new)| new.bits() & 0b11 == 0b11).map(|(_, _, new)| new).collect();
    1 + links.into_iter().map(|new| assert_filled(steps, new, reached)).sum::<usize>()
}

/// Walks of the kernel's tables cache leaves and tables under whatever ASID runs: forms for one ASID leave the others' (RCHVGJ).
#[test]
fn kernel_leaves_and_tables_are_forgotten_under_every_asid() {
    const GLOBAL: [TlbiOp; 5] =
        [TlbiOp::VAALE1IS, TlbiOp::RVAALE1IS, TlbiOp::VAAE1IS, TlbiOp::RVAAE1IS, TlbiOp::VMALLE1IS];
    const OF_ASID: [TlbiOp; 5] = [TlbiOp::VALE1IS, TlbiOp::RVALE1IS, TlbiOp::VAE1IS, TlbiOp::RVAE1IS, TlbiOp::ASIDE1IS];
    // A page, three pages, a table with one page, a table of pages, a table of tables; with and without operations by range.
    let wanted = [(0, 0x1000), (0x2000, 0x3000), (4 * MIB, 2 * MIB), (2 * MIB, 2 * MIB), (GIB, GIB)];
    for (scope, ops, asid) in [(Scope::Global, GLOBAL, 0), (Scope::Asid(0xabcd), OF_ASID, 0xabcd)] {
        let mut seen = Vec::new();
        for tlb in [KERNEL.tlb, PLAIN_KERNEL.tlb] {
            for (at, bytes) in wanted {
                let memory = Memory::new();
                let pages = [(0, MIB), (2 * MIB, 2 * MIB), (4 * MIB, 0x1000), (GIB, 2 * MIB)];
                let setup = pages.map(|(at, bytes)| map(at, bytes, GIB + at, LeafSize::PAGE));
                let mut table =
                    live::<Granule4K, _>(&memory, (48, Layout::Bits48), El1 { scope, tlb, ..KERNEL }, &setup);
                let (steps, _) = change(
                    &mut table,
                    &memory,
                    &[Change::Unmap { from: VirtAddr::new(at)..VirtAddr::new(at + bytes) }],
                    None,
                );
                seen.extend(steps.iter().filter_map(|step| match *step {
                    Step::Maintain(Maintenance::Invalidate(op, operand)) => Some((op, operand >> 48)),
                    _ => None,
                }));
            }
        }
        assert!(seen.iter().all(|(op, its)| ops.contains(op) && *its == asid), "{seen:x?}");
        let unseen: Vec<_> = ops.iter().filter(|op| !seen.iter().any(|(seen, _)| seen == *op)).collect();
        assert!(unseen.is_empty(), "never issued: {unseen:?}");
    }
}

/// A TLBI by address keeps VA\[55:12\] in its operand at every granule.
#[test]
fn a_tlbi_operand_is_shifted_by_12_at_every_granule() {
    fn check<G: Granule>(bits: u32, layout: Layout, ttl: u64) {
        let address = 0x1_2345_0000;
        for (scope, op, asid) in [(Scope::Global, TlbiOp::VAALE1IS, 0), (Scope::Asid(0xabcd), TlbiOp::VALE1IS, 0xabcd)]
        {
            for (tlb, ttl) in [(KERNEL.tlb, ttl), (PLAIN_KERNEL.tlb, 0)] {
                let memory = Memory::new();
                let regime = El1 { scope, tlb, ..KERNEL };
                let setup = [map(address, 4 * G::SIZE_BYTES, 0, LeafSize::PAGE)];
                let mut table = live::<G, _>(&memory, (bits, layout), regime, &setup);
                let (steps, _) = change(&mut table, &memory, &[unmap(address, G::SIZE_BYTES)], None);
                let operand = asid << 48 | ttl << 44 | 0x12_3450;
                let tlbis: Vec<_> = steps.iter().filter(|step| is_tlbi(step)).collect();
                assert_eq!(tlbis, [&Step::Maintain(Maintenance::Invalidate(op, operand))]);
            }
        }
    }
    check::<Granule4K>(39, Layout::Bits48, 0b0111);
    check::<Granule4K>(52, Layout::Lpa2, 0b0111);
    check::<Granule16K>(47, Layout::Bits48, 0b1011);
    check::<Granule64K>(42, Layout::Lpa, 0b1111);
}

/// The dirty state is hardware's where DBM is set alone: a writable page does not make read-only neighbours writable.
#[test]
fn folding_gives_no_right_to_write_that_was_not_there() {
    let regime = El1 { hardware_updates: HardwareUpdates::DirtyState, ..KERNEL };
    for dbm in [Stage1Attributes::empty(), Stage1Attributes::DBM] {
        let memory = Memory::default();
        let from = VirtAddr::new(0)..VirtAddr::new(2 * MIB);
        let attributes = DATA | Stage1Attributes::READ_ONLY | dbm;
        let map = Change::Map { from: from.clone(), to: PhysAddr::new(GIB), attributes, largest: LeafSize::PAGE };
        let mut table = live::<Granule4K, El1>(&memory, (39, Layout::Bits48), regime, &[map]);
        let writable = Change::Protect {
            from: VirtAddr::new(0x5000)..VirtAddr::new(0x6000),
            set: Stage1Attributes::empty(),
            clear: Stage1Attributes::READ_ONLY,
        };
        change(&mut table, &memory, &[writable], None);
        let collapse = [Change::Collapse { from: from.clone() }];
        change(&mut table, &memory, &collapse, Some(&Licence::break_before_make(&())));
        let bytes = bytes_where(&table, |leaf| !is_read_only(leaf));
        assert_eq!(bytes, if dbm.is_empty() { 0x1000 } else { 2 * MIB });
    }
}
