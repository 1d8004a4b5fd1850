//! Stage 2: roots of several tables, its attributes and its dirty state.

use crate::common;

use common::guest::{FULL, GUEST, guest_memory, map, range, shape, write_protect};
use common::{GIB, KERNEL, MIB, ROOT, change, each_licence, leaves, live_at};
use expect_test::expect;
use vellum_pagetable::{
    Change, El2, HardwareUpdates, Licence, Memory, PageTable, Platform, Refusal, Reserve, Slot, Stage2, Step,
    TlbFeatures,
};
use vellum_vmsa::{
    AddressHalf, Descriptor, Geometry, Granule, Granule4K, Granule16K, Granule64K, IntermediateAddr, Layout, LeafSize,
    Level, Maintenance, PhysAddr, Stage2Attributes, Stage2Memory, TlbiOp,
};

const HYPERVISOR: El2 = El2 { tlb: FULL, hardware_updates: HardwareUpdates::None };

/// Every shape with a root of several tables, and some with one: what lies on either side of each border between two tables of
/// the root is mapped, found, changed and removed, and nothing beside the root and its tables is written.
#[test]
fn concatenated_roots_are_one_table_to_every_change() {
    fn check<G: Granule>(bits: u32, start: Level, layout: Layout) {
        let geometry = Geometry::<G>::stage2(bits, start, layout).unwrap();
        let memory = Memory::default();
        let mut table = live_at(&memory, geometry, GUEST, &[]);
        let root = table.root();
        let table_bytes = geometry.input_bytes() / geometry.root_tables() as u64;
        let borders: Vec<u64> = (1..geometry.root_tables() as u64).map(|number| number * table_bytes).collect();
        let (first, last) = (0, geometry.input_bytes() - 2 * G::SIZE_BYTES);
        let starts: Vec<u64> =
            [first].into_iter().chain(borders.iter().map(|at| at - G::SIZE_BYTES)).chain([last]).collect();
        let changes: Vec<_> = starts.iter().map(|&at| map(at, 2 * G::SIZE_BYTES, at)).collect();
        change(&mut table, &memory, &changes, None);
        let translate = |table: &PageTable<'_, G, Stage2, Memory>, at: u64| {
            table.view().translate(IntermediateAddr::new(at)).map(|found| found.output.bits())
        };
        for &at in &starts {
            assert_eq!(translate(&table, at + 0x123), Some(at + 0x123));
            assert_eq!(translate(&table, at + G::SIZE_BYTES + 0x123), Some(at + G::SIZE_BYTES + 0x123));
            let path: Vec<_> = table.view().path(IntermediateAddr::new(at + G::SIZE_BYTES)).collect();
            let slot = Slot::new(root, geometry.index(start, at + G::SIZE_BYTES));
            assert_eq!((path[0].slot, path.len()), (slot, 1 + start.below() as usize), "{at:#x}");
        }
        assert_eq!(leaves(&table).len(), 2 * starts.len());
        // One page alone has a shortcut; two across the border have not.
        for &at in &starts {
            change(&mut table, &memory, &[write_protect(at + G::SIZE_BYTES, G::SIZE_BYTES)], None);
            change(&mut table, &memory, &[write_protect(at, 2 * G::SIZE_BYTES)], None);
        }
        let is_read_only = |leaf: Descriptor| leaf.bits() & Stage2Attributes::WRITE.bits() == 0;
        assert!(leaves(&table).into_iter().all(|(_, _, leaf)| is_read_only(leaf)));
        let all = range(0, geometry.input_bytes());
        assert_eq!(change(&mut table, &memory, &[Change::Collapse { from: all.clone() }], None).1, 0);
        let (_, freed) = change(&mut table, &memory, &[Change::Unmap { from: all.clone() }], None);
        assert_eq!(leaves(&table), []);
        // Two blocks with a border between them, and every size of leaf.
        let block = LeafSize::single(Level::L2).size_bytes(G::PAGE_SIZE);
        let at = borders.first().map_or(0, |border| border.saturating_sub(block));
        let bytes = (2 * block).min(geometry.input_bytes() - at);
        let (_, _) = change(&mut table, &memory, &[map(at, bytes, at)], None);
        assert_eq!(leaves(&table).iter().map(|(_, bytes, _)| bytes).sum::<u64>(), bytes);
        change(&mut table, &memory, &[Change::Unmap { from: all }], None);
        let root_end = root + geometry.root_bytes().max(G::SIZE_BYTES);
        let below = memory.descriptors().keys().filter(|slot| slot.address() < root).count();
        assert!(freed > 0 && below == 0 && root_end > root);
        if geometry.root_tables() > 1 {
            let beyond = |slot: &&Slot| slot.address() >= root_end && slot.address().bits() < common::TABLES;
            assert_eq!(memory.descriptors().keys().filter(beyond).count(), 0, "a store beyond the root");
        }
    }
    check::<Granule4K>(40, Level::L1, Layout::Bits48);
    check::<Granule4K>(40, Level::L0, Layout::Bits48);
    check::<Granule4K>(43, Level::L1, Layout::Bits48);
    check::<Granule4K>(32, Level::L2, Layout::Bits48);
    check::<Granule4K>(52, Level::L0, Layout::Lpa2);
    check::<Granule4K>(52, Level::MINUS_1, Layout::Lpa2);
    check::<Granule16K>(48, Level::L1, Layout::Bits48);
    check::<Granule16K>(38, Level::L2, Layout::Bits48);
    check::<Granule16K>(52, Level::L0, Layout::Lpa2);
    check::<Granule64K>(43, Level::L2, Layout::Bits48);
    check::<Granule64K>(52, Level::L1, Layout::Lpa);
}

#[test]
fn roots_and_shapes_that_cannot_be_are_refused_before_the_first_store() {
    let memory = Memory::default();
    let mut reserve = Reserve::new();
    memory.supply::<Granule4K>(&mut reserve, 4);
    let _ = memory.take_steps();
    let offline = |geometry, reserve: &mut Reserve| PageTable::offline(&memory, geometry, GUEST, reserve).map(drop);
    assert_eq!(offline(shape(), &mut reserve), Err(Refusal::Shape { root_tables: 2 }));
    let upper = Geometry::new(39, Layout::Bits48, AddressHalf::Upper).unwrap();
    let refusal = offline(upper, &mut reserve).unwrap_err();
    expect!["the regime has no page tables of that geometry"].assert_eq(&refusal.to_string());
    let at = |geometry, root| PageTable::offline_at(&memory, geometry, GUEST, PhysAddr::new(root)).map(drop);
    let misaligned = at(shape(), 0x1000).unwrap_err();
    expect!["a root at 0x1000, expected a multiple of 0x2000"].assert_eq(&misaligned.to_string());
    assert_eq!(at(shape(), 1 << 48), Err(Refusal::OutputTooWide(PhysAddr::new(1 << 48))));
    let small = Geometry::stage2(40, Level::L0, Layout::Bits48).unwrap();
    assert_eq!(at(small, 8), Err(Refusal::MisalignedRoot { root: PhysAddr::new(8), align: 16 }));
    let wide = Geometry::stage2(40, Level::L0, Layout::Lpa2).unwrap();
    assert_eq!(at(wide, 0x20), Err(Refusal::MisalignedRoot { root: PhysAddr::new(0x20), align: 64 }));
    // A root that is walked already is held against the same, and not written.
    let live = |geometry, root| PageTable::live(&memory, geometry, GUEST, PhysAddr::new(root)).map(drop);
    for (geometry, root) in [(shape(), 0x1000), (shape(), 1 << 48), (small, 8), (wide, 0x20), (upper, 0x2000)] {
        assert_eq!(live(geometry, root), at(geometry, root));
        assert!(live(geometry, root).is_err());
    }
    assert_eq!((live(shape(), 0x2000), live(small, 0x20)), (Ok(()), Ok(())));
    let el2 = |geometry: Geometry<Granule4K>, root: PhysAddr| {
        PageTable::offline_at(&memory, geometry, HYPERVISOR, root).map(drop)
    };
    assert_eq!(el2(shape(), ROOT), Err(Refusal::Shape { root_tables: 2 }));
    assert_eq!(el2(upper, ROOT), Err(Refusal::Shape { root_tables: 1 }));
    let kernel = PageTable::offline_at(&memory, shape(), KERNEL, ROOT).map(drop);
    assert_eq!(kernel, Err(Refusal::Shape { root_tables: 2 }));
    assert_eq!((memory.take_steps(), reserve.count()), (vec![], 4));
    // A root of its own memory is any regime's, and of a small one no more is written than it has.
    let table = PageTable::offline_at(&memory, small, GUEST, PhysAddr::new(0x40)).unwrap();
    assert_eq!((memory.take_steps().len(), memory.load(Slot::new(table.root(), 1))), (2, Descriptor::INVALID));
}

/// Write permission, execution, access and software bits change in place; the memory type by break-before-make alone.
#[test]
fn stage_2_attributes_change_in_place_but_for_the_memory_type() {
    let none = Stage2Attributes::empty();
    let in_place = [
        (none, Stage2Attributes::READ_WRITE),
        (Stage2Attributes::EXECUTE, none),
        (Stage2Attributes::XN0, none),
        (Stage2Attributes::DBM, Stage2Attributes::WRITE),
        (none, Stage2Attributes::AF),
        (Stage2Attributes::SOFTWARE, none),
    ];
    let by_break = [
        (none, Stage2Attributes::with_memory(Stage2Memory::WriteBack, false).unwrap()),
        (Stage2Attributes::NOT_XS, none),
        (none, Stage2Attributes::INNER_SHAREABLE),
    ];
    let memory = Memory::default();
    for (number, (set, clear)) in in_place.into_iter().chain(by_break).enumerate() {
        let mut table = live_at(&memory, shape(), GUEST, &[map(GIB, 0x1000, GIB)]);
        if table.geometry().layout() == Layout::Lpa2 && clear == Stage2Attributes::INNER_SHAREABLE {
            // Leaves of this layout do not say it.
            continue;
        }
        let protect = [Change::Protect { from: range(GIB, 0x1000), set, clear }];
        let plan = table.plan(&protect, None).map(|plan| plan.tables_needed());
        let expected = if number < in_place.len() { Ok(0) } else { Err(Refusal::NeedsLicence(GIB)) };
        assert_eq!(plan, expected, "{set:?} {clear:?}");
        each_licence(|licence| {
            let refused = table.plan(&protect, Some(licence)).is_err();
            assert!(!refused || number >= in_place.len());
        });
        change(&mut table, &memory, &protect, Some(&Licence::break_before_make(&())));
        let [(_, _, leaf)] = leaves(&table)[..] else { panic!("one page") };
        let mask = table.geometry().layout().attribute_mask(Granule4K::PAGE_SIZE, Level::L3);
        assert_eq!(leaf.bits() & mask, guest_memory().difference(clear).union(set).bits() & mask);
    }
}

/// A clean leaf of stage 2 has DBM and no write permission: hardware gives it back, and no fold or split loses it.
#[test]
fn dirty_state_of_stage_2_is_gathered_and_kept() {
    let regime = Stage2 { hardware_updates: HardwareUpdates::DirtyState, ..GUEST };
    let managed = guest_memory() | Stage2Attributes::DBM;
    let memory = Memory::default();
    let block = 2 * MIB;
    let setup =
        [Change::Map { from: range(GIB, block), to: PhysAddr::new(GIB), attributes: managed, largest: LeafSize::PAGE }];
    each_licence(|licence| {
        let mut table = live_at(&memory, shape(), regime, &setup);
        change(&mut table, &memory, &[Change::Clean { from: range(GIB, block) }], None);
        let is_dirty = |leaf: Descriptor| leaf.bits() & Stage2Attributes::WRITE.bits() != 0;
        assert!(leaves(&table).into_iter().all(|(_, _, leaf)| !is_dirty(leaf)));
        // The guest writes one page.
        let page = table.view().path(IntermediateAddr::new(GIB + 0x5000)).last().unwrap();
        memory.store(page.slot, Descriptor::new(page.descriptor.bits() | Stage2Attributes::WRITE.bits()));
        change(&mut table, &memory, &[Change::Collapse { from: range(GIB, block) }], Some(licence));
        let [(_, bytes, leaf)] = leaves(&table)[..] else { panic!("one block") };
        assert!(bytes == block && is_dirty(leaf), "what was written counts as dirty");
        change(&mut table, &memory, &[Change::Clean { from: range(GIB, block) }], None);
        change(&mut table, &memory, &[Change::SplitToPages { from: range(GIB, block) }], Some(licence));
        assert!(leaves(&table).into_iter().all(|(_, bytes, leaf)| bytes == 0x1000 && !is_dirty(leaf)));
    });
}

/// The TLBIs of a stage 2, bit by bit: what names no address has no operand.
#[test]
fn what_names_no_address_has_no_operand() {
    let memory = Memory::default();
    let mut table = live_at(&memory, shape(), GUEST, &[map(0, 0x2000, GIB), map(4 * MIB, 8 * MIB, 2 * GIB)]);
    let tlbis = |steps: Vec<Step>| {
        let tlbi = |step: Step| match step {
            Step::Maintain(Maintenance::Invalidate(operation, operand)) => Some((operation, operand)),
            _ => None,
        };
        steps.into_iter().filter_map(tlbi).collect::<Vec<_>>()
    };
    // A page by its own address at level 3 (TTL 0b0111), then what both stages made.
    let (steps, _) = change(&mut table, &memory, &[write_protect(0x1000, 0x1000)], None);
    assert_eq!(tlbis(steps), [(TlbiOp::IPAS2LE1IS, 0b0111 << 44 | 1), (TlbiOp::VMALLE1IS, 0)]);
    let plain = Stage2 { tlb: TlbFeatures::NONE, ..GUEST };
    let memory = Memory::default();
    let largest = LeafSize::PAGE;
    let pages = Change::Map { from: range(0, 4 * MIB), to: PhysAddr::new(GIB), attributes: guest_memory(), largest };
    let mut table = live_at(&memory, shape(), plain, &[pages]);
    let (steps, _) = change(&mut table, &memory, &[write_protect(0, 4 * MIB)], None);
    assert_eq!(tlbis(steps), [(TlbiOp::VMALLS12E1IS, 0)]);
}
