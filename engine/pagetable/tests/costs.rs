//! What a change costs is what was said: it takes the tables that its plan counts, issues the TLBIs that its gather counts, and
//! loses no table; what no TLB holds costs no TLBI; a TLBI says no more, and no less, than is to be forgotten.

mod common;

use common::{DATA, GIB, KERNEL, MIB, PLAIN_KERNEL, change, each_licence, live, live_4k, map, read_only, unmap};
use vellum_pagetable::{
    Change, El1, HardwareUpdates, Licence, Memory, PageTable, Refusal, Reserve, Scope, Step, Summary, TlbFeatures,
};
use vellum_vmsa::{
    AddressHalf, Geometry, Granule4K, Layout, LeafSize, Level, Maintenance, PhysAddr, Stage1Attributes, TlbiOp,
    VirtAddr,
};

const PAGE: u64 = 0x1000;
/// Groups of blocks of 1 GiB begin here.
const BASE: u64 = 16 * GIB;

fn range(from: u64, bytes: u64) -> std::ops::Range<VirtAddr> {
    VirtAddr::new(from)..VirtAddr::new(from + bytes)
}

fn is_tlbi(step: &&Step) -> bool {
    matches!(step, Step::Maintain(Maintenance::Invalidate(..)))
}

/// Tables to begin with: leaves of each size, and such leaves kept.
fn beginnings() -> Vec<Vec<Change<El1>>> {
    let sizes = LeafSize::all(vellum_vmsa::PageSize::Size4K, Layout::Bits48).filter(|size| size.level >= Level::L1);
    let mut beginnings = vec![vec![]];
    for size in sizes {
        let bytes = size.size_bytes(vellum_vmsa::PageSize::Size4K).max(8 * PAGE);
        beginnings.push(vec![map(BASE, bytes, 0, size)]);
        if size.contiguous {
            beginnings.push(vec![map(BASE, bytes, 0, size), Change::Hide { from: range(BASE, bytes) }]);
        }
    }
    beginnings
}

fn wishes() -> Vec<Change<El1>> {
    let from = range(BASE + 5 * PAGE, 2 * PAGE);
    let (set, clear) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty());
    let (to, attributes, largest) = (PhysAddr::new(0), DATA, LeafSize::LARGEST);
    vec![
        map(BASE + 5 * PAGE, 2 * PAGE, 0, LeafSize::PAGE),
        map(BASE / 2 - PAGE, 2 * PAGE, 0, LeafSize::PAGE),
        Change::Remap { from: from.clone(), to, attributes, largest },
        Change::Remap { from: range(BASE, 2 * MIB), to, attributes, largest },
        Change::Protect { from: from.clone(), set, clear },
        Change::Unmap { from: from.clone() },
        Change::Unmap { from: range(BASE, 16 * GIB) },
        Change::Unmap { from: range(BASE - MIB, 2 * MIB) },
        Change::UnmapMapped { from: from.clone() },
        Change::Hide { from: from.clone() },
        Change::Show { from: from.clone() },
        Change::Age { from: range(BASE, 8 * PAGE) },
        Change::Clean { from: from.clone() },
        Change::Split { at: from.start },
        Change::SplitToPages { from: range(BASE, 8 * PAGE) },
        Change::Collapse { from: range(BASE, 2 * MIB) },
    ]
}

/// Makes a change, if it is not refused, with more tables in reserve than it needs.
fn check(
    table: &mut PageTable<'_, Granule4K, El1, Memory>,
    memory: &Memory,
    wish: &Change<El1>,
    licence: Option<&Licence<'_>>,
) {
    let tables = |table: &PageTable<'_, Granule4K, El1, Memory>| {
        let view = table.view();
        Summary::read(&view, view.range()).unwrap().tables()
    };
    let before = tables(table);
    let Ok(plan) = table.plan(std::slice::from_ref(wish), licence) else { return };
    let (mut reserve, needed) = (Reserve::new(), plan.tables_needed());
    memory.supply::<Granule4K>(&mut reserve, needed + 3);
    let _ = memory.take_steps();
    let mut gather = plan.gather();
    plan.with(&mut reserve).unwrap().apply(&mut gather);
    let retired = gather.finish(memory);
    assert_eq!(reserve.count(), 3, "{wish:?} needs {needed} tables, it was said");
    assert_eq!(gather.issued(), memory.take_steps().iter().filter(is_tlbi).count(), "{wish:?}");
    assert_eq!(before + needed, tables(table) + retired.count(), "{wish:?} loses a table");
}

#[test]
fn a_change_takes_issues_and_frees_what_it_says() {
    for beginning in beginnings() {
        for wish in wishes() {
            let make = |is_live: bool, licence: Option<&Licence<'_>>| {
                let memory = Memory::new();
                let mut table = common::offline::<Granule4K>(&memory, 39, Layout::Bits48);
                beginning.iter().for_each(|one| drop(change(&mut table, &memory, std::slice::from_ref(one), None)));
                let mut table = if is_live { table.publish() } else { table };
                check(&mut table, &memory, &wish, licence);
            };
            make(false, None);
            make(true, None);
            each_licence(|licence| make(true, Some(licence)));
        }
    }
}

/// A hole takes no table, whatever hardware may write.
#[test]
fn holes_take_no_tables() {
    for hardware_updates in [HardwareUpdates::AccessFlag, HardwareUpdates::DirtyState] {
        let memory = Memory::new();
        let setup = [map(0, 8 * PAGE, GIB, LeafSize::PAGE)];
        let regime = El1 { hardware_updates, ..KERNEL };
        let mut table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), regime, &setup);
        for wish in [Change::Age { from: range(8 * PAGE, 8 * PAGE) }, Change::Clean { from: range(0, 16 * PAGE) }] {
            assert_eq!(table.plan(&[wish], None).unwrap().tables_needed(), 0, "{hardware_updates:?}");
        }
    }
}

/// Without the access flag no TLB holds a page, unless hardware may have set the flag.
#[test]
fn what_no_tlb_holds_costs_stores_and_one_barrier() {
    let young = DATA.difference(Stage1Attributes::AF);
    for (hardware_updates, attributes, is_cached) in [
        (HardwareUpdates::None, young, false),
        (HardwareUpdates::None, DATA, true),
        (HardwareUpdates::AccessFlag, young, true),
        (HardwareUpdates::DirtyState, young, true),
    ] {
        for bytes in [PAGE, 4 * PAGE] {
            let memory = Memory::new();
            let from = range(0, bytes);
            let setup = [Change::Map { from, to: PhysAddr::new(GIB), attributes, largest: LeafSize::PAGE }];
            let regime = El1 { hardware_updates, ..KERNEL };
            let mut table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), regime, &setup);
            let (steps, _) = change(&mut table, &memory, &[read_only(0, bytes)], None);
            let is_store = |step: &&Step| matches!(step, Step::Store(..));
            let (stores, tlbis) = (steps.iter().filter(is_store).count(), steps.iter().filter(is_tlbi).count());
            let exchanges = steps.iter().filter(|step| matches!(step, Step::Exchange(..))).count();
            let pages = (bytes / PAGE) as usize;
            // What hardware may be writing is exchanged.
            let expected = if hardware_updates == HardwareUpdates::None { (pages, 0) } else { (0, pages) };
            assert_eq!((stores, exchanges), expected, "{hardware_updates:?}");
            assert_eq!(tlbis, usize::from(is_cached), "{hardware_updates:?}, {attributes:?}");
            // A DSB before the TLBI and one behind, and an ISB.
            let barriers = steps.len() - pages - tlbis;
            assert_eq!(barriers, if is_cached { 3 } else { 2 }, "{steps:?}");
        }
    }
}

/// What is right already costs nothing, for a page too.
#[test]
fn a_page_that_is_right_costs_nothing() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, PAGE, GIB, LeafSize::PAGE)]);
    let clear = Stage1Attributes::READ_ONLY;
    let protect = |set| [Change::Protect { from: range(0, PAGE), set, clear }];
    assert_eq!(change(&mut table, &memory, &protect(DATA), None), (vec![], 0));
    assert!(!table.protect_page(VirtAddr::new(0), DATA, clear));
    assert_eq!(memory.take_steps(), []);
}

/// TLBIs of these steps.
fn tlbis(steps: &[Step]) -> Vec<(TlbiOp, u64)> {
    let tlbi = |step: &Step| match step {
        Step::Maintain(Maintenance::Invalidate(op, operand)) => Some((*op, *operand)),
        _ => None,
    };
    steps.iter().filter_map(tlbi).collect()
}

/// TTL of a level with 4 KiB pages.
const fn hint(level: u64) -> u64 {
    (0b0100 | level) << 44
}

/// A kept page beside a valid one is in no TLB.
#[test]
fn a_kept_neighbour_costs_no_tlbi() {
    for wish in [read_only(0, 2 * PAGE), unmap(0, 2 * PAGE)] {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, 2 * PAGE, GIB, LeafSize::PAGE)]);
        change(&mut table, &memory, &[Change::Hide { from: range(PAGE, PAGE) }], None);
        let (steps, _) = change(&mut table, &memory, &[wish], None);
        assert_eq!(tlbis(&steps), [(TlbiOp::VAALE1IS, hint(3))]);
    }
}

/// Thirty-two blocks by range, and one by its address: a range of one leaf says no more.
#[test]
fn the_last_block_of_many_is_forgotten_by_its_address() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 66 * MIB, GIB, LeafSize::single(Level::L2))]);
    let (steps, _) = change(&mut table, &memory, &[unmap(0, 66 * MIB)], None);
    let [(first, _), last] = tlbis(&steps)[..] else { panic!("{steps:?}") };
    assert_eq!((first, last), (TlbiOp::RVAALE1IS, (TlbiOp::VAALE1IS, hint(2) | ((64 * MIB) >> 12))));
}

/// What lies before or behind a block that was split keeps its level hint.
#[test]
fn neighbours_of_a_split_block_keep_their_hint() {
    let hints = TlbFeatures { range: false, level_hints: true, repeat: false };
    for page in [2 * MIB - PAGE, 4 * MIB] {
        let memory = Memory::new();
        let setup = [
            map(0, 2 * MIB, GIB, LeafSize::PAGE),
            map(2 * MIB, 2 * MIB, 4 * GIB, LeafSize::LARGEST),
            map(4 * MIB, 2 * MIB, 7 * GIB, LeafSize::PAGE),
        ];
        let mut table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), El1 { tlb: hints, ..KERNEL }, &setup[..1]);
        setup[1..].iter().for_each(|one| drop(change(&mut table, &memory, std::slice::from_ref(one), None)));
        let census =
            vellum_pagetable::Census::new(vellum_pagetable::Tolerance::new(vellum_vmsa::BbmLevel::Level3, true));
        let (mut gather, mut reserve) = (table.gather(), Reserve::new());
        memory.supply::<Granule4K>(&mut reserve, 1);
        let _ = memory.take_steps();
        for wish in [read_only(2 * MIB + 8 * PAGE, PAGE), read_only(page, PAGE)] {
            let licence = census.tolerated();
            table.plan(&[wish], licence.as_ref()).unwrap().with(&mut reserve).unwrap().apply(&mut gather);
        }
        let _ = gather.finish(&memory);
        assert_eq!(tlbis(&memory.take_steps()).last(), Some(&(TlbiOp::VAALE1IS, hint(3) | page >> 12)));
    }
}

/// Changes of one gather that do not meet wait for one round of barriers, whether they ascend or descend.
#[test]
fn what_does_not_meet_waits_for_the_end() {
    for order in [[0, 2, 4], [4, 2, 0], [0, 1, 2], [2, 1, 0]] {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, 8 * PAGE, GIB, LeafSize::PAGE)]);
        let mut gather = table.gather();
        let _ = memory.take_steps();
        for page in order {
            table
                .plan(&[unmap(page * PAGE, PAGE)], None)
                .unwrap()
                .with(&mut Reserve::new())
                .unwrap()
                .apply(&mut gather);
        }
        assert_eq!(tlbis(&memory.take_steps()), [], "{order:?}");
        let _ = gather.finish(&memory);
        assert_eq!(gather.issued(), tlbis(&memory.take_steps()).len(), "{order:?}");
    }
}

/// An empty range is within no other.
#[test]
fn an_empty_change_overlaps_nothing() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 8 * PAGE, GIB, LeafSize::PAGE)]);
    assert!(table.plan(&[read_only(0, 4 * PAGE), unmap(2 * PAGE, 0)], None).is_ok());
    assert!(table.plan(&[unmap(2 * PAGE, 0), read_only(0, 4 * PAGE)], None).is_ok());
    let both = [read_only(0, 4 * PAGE), unmap(3 * PAGE, 2 * PAGE)];
    assert_eq!(table.plan(&both, None).map(drop), Err(Refusal::Overlap(3 * PAGE)));
}

/// What goes wholly needs no licence; a group that goes in part does, wherever the part begins and ends.
#[test]
fn part_of_a_group_does_not_go_without_a_licence() {
    for (first, count, is_refused) in
        [(0, 2, true), (5, 43, true), (15, 2, true), (16, 20, true), (47, 1, true), (0, 48, false), (16, 16, false)]
    {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, 48 * PAGE, GIB, LeafSize::LARGEST)]);
        let refusal = table.plan(&[unmap(first * PAGE, count * PAGE)], None).map(drop);
        assert_eq!(
            matches!(refusal, Err(Refusal::NeedsLicence(_))),
            is_refused,
            "{count} pages from {first}: {refusal:?}"
        );
        assert_eq!(refusal.is_ok(), !is_refused);
    }
}

/// A reserve may have tables that no TTBR can hold, if another comes first.
#[test]
fn one_table_that_fits_is_enough_for_a_root() {
    let (memory, mut reserve) = (Memory::new(), Reserve::new());
    reserve.add(&memory, PhysAddr::new(1 << 50));
    let geometry = Geometry::<Granule4K>::new(39, Layout::Bits48, AddressHalf::Lower).unwrap();
    let refused = PageTable::offline(&memory, geometry, KERNEL, &mut reserve).map(|table| table.root());
    assert_eq!(refused, Err(Refusal::OutputTooWide(PhysAddr::new(1 << 50))));
    reserve.add(&memory, PhysAddr::new(1 << 40));
    let root = PageTable::offline(&memory, geometry, KERNEL, &mut reserve).map(|table| table.root());
    assert_eq!(root, Ok(PhysAddr::new(1 << 40)));
}

/// More than can be named one by one is forgotten as a whole, of the ASID or of all: an operand says no more than that.
#[test]
fn a_whole_invalidation_names_nothing_but_its_asid() {
    for (scope, expected) in [(Scope::Global, (TlbiOp::VMALLE1IS, 0)), (Scope::Asid(7), (TlbiOp::ASIDE1IS, 7 << 48))] {
        let memory = Memory::new();
        let setup = [map(0, 3 * MIB, GIB, LeafSize::PAGE)];
        let mut table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), El1 { scope, ..PLAIN_KERNEL }, &setup);
        let (steps, _) = change(&mut table, &memory, &[read_only(0, 3 * MIB)], None);
        assert_eq!(tlbis(&steps), [expected]);
    }
}
