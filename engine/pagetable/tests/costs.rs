//! What a change costs is what was said: it takes the tables that its plan counts, issues the TLBIs that its gather counts, and
//! loses no table; what no TLB holds costs no TLBI; a TLBI says no more, and no less, than is to be forgotten.

use crate::common;

use common::{
    DATA, GIB, KERNEL, MIB, PLAIN_KERNEL, change, each_licence, live, live_4k, live_at, map, read_only, shape, unmap,
};
use vellum_pagetable::{
    Census, Change, El1, El2, El2And0, HardwareUpdates, Licence, Memory, PageTable, Platform, Regime, Reserve, Scope,
    Stage2, Step, Summary, TlbFeatures, Tolerance,
};
use vellum_vmsa::{
    AddressHalf, BbmLevel, Geometry, Granule4K, IntermediateAddr, Layout, LeafSize, Level, Maintenance, PhysAddr,
    Stage1Attributes, Stage2Attributes, TlbiOp, VirtAddr,
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
            beginnings.push(vec![map(BASE, bytes, 0, size), Change::MakeInvalid { from: range(BASE, bytes) }]);
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
        Change::MakeInvalid { from: from.clone() },
        Change::MakeValid { from: from.clone() },
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
    (is_live, licence): (bool, Option<&Licence<'_>>),
) {
    let tables = |table: &PageTable<'_, Granule4K, El1, Memory>| {
        let view = table.view();
        Summary::read(&view, view.range()).unwrap().tables()
    };
    let before = tables(table);
    let Ok(mut plan) = table.plan(std::slice::from_ref(wish), licence) else { return };
    let (mut reserve, needed) = (Reserve::new(), plan.tables_needed());
    memory.supply::<Granule4K>(&mut reserve, needed + 3);
    let _ = memory.take_steps();
    let mut gather = plan.gather();
    plan.apply(&mut reserve, &mut gather).unwrap();
    let retired = gather.finish(memory);
    let steps = memory.take_steps();
    assert_eq!(reserve.count(), 3, "{wish:?} needs {needed} tables, it was said");
    assert_eq!(gather.issued(), steps.iter().filter(is_tlbi).count(), "{wish:?}");
    let is_maintenance = |step: &Step| matches!(step, Step::Maintain(_));
    if !is_live {
        assert!(!steps.iter().any(is_maintenance), "{wish:?} where nobody walks: {steps:?}");
    }
    // Of a table that comes free the first word is written once no walker comes to it, and nobody waits for that.
    let linked = |step: &Step| match step {
        Step::Store(slot, new) | Step::Exchange { slot, new, .. } => memory.load(*slot) == *new && new.is_valid(),
        Step::Load(..) | Step::Maintain(_) => false,
    };
    if let Some(last) = steps.iter().rposition(linked).filter(|_| is_live) {
        assert!(steps[last..].iter().any(is_maintenance), "{wish:?} may be seen late: {steps:?}");
    }
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
                check(&mut table, &memory, &wish, (is_live, licence));
            };
            make(false, None);
            make(true, None);
            each_licence(|licence| make(true, Some(licence)));
            make(false, Some(&Census::new(Tolerance::new(BbmLevel::Level3, true)).tolerated().unwrap()));
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
        let wishes = [
            Change::Age { from: range(8 * PAGE, 8 * PAGE) },
            Change::Clean { from: range(0, 16 * PAGE) },
            Change::Unmap { from: range(2 * MIB + PAGE, PAGE) },
            Change::Unmap { from: range(GIB - PAGE, 2 * PAGE) },
        ];
        for wish in wishes {
            assert_eq!(table.plan(&[wish], None).unwrap().tables_needed(), 0, "{hardware_updates:?}");
        }
    }
}

/// Without the access flag no TLB holds a page, unless hardware may have set the flag.
#[test]
fn what_no_tlb_holds_costs_stores_and_one_barrier() {
    let young = DATA.difference(Stage1Attributes::AF);
    // Software's own bits no TLB looks at.
    let (read_only, software) = (Stage1Attributes::READ_ONLY, Stage1Attributes::from_bits_retain(1 << 55));
    for (hardware_updates, attributes, set, is_cached) in [
        (HardwareUpdates::None, young, read_only, false),
        (HardwareUpdates::None, DATA, read_only, true),
        (HardwareUpdates::None, DATA, software, false),
        (HardwareUpdates::None, DATA, software | read_only, true),
        (HardwareUpdates::AccessFlag, young, read_only, true),
        (HardwareUpdates::DirtyState, young, read_only, true),
        (HardwareUpdates::DirtyState, young, software, false),
    ] {
        for bytes in [PAGE, 4 * PAGE] {
            let memory = Memory::new();
            let from = range(0, bytes);
            let setup = [Change::Map { from, to: PhysAddr::new(GIB), attributes, largest: LeafSize::PAGE }];
            let regime = El1 { hardware_updates, ..KERNEL };
            let mut table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), regime, &setup);
            let protect = Change::Protect { from: range(0, bytes), set, clear: Stage1Attributes::empty() };
            let (steps, _) = change(&mut table, &memory, &[protect], None);
            let is_store = |step: &&Step| matches!(step, Step::Store(..));
            let (stores, tlbis) = (steps.iter().filter(is_store).count(), steps.iter().filter(is_tlbi).count());
            let exchanges = steps.iter().filter(|step| matches!(step, Step::Exchange { .. })).count();
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
    assert!(!table.protect_page(VirtAddr::new(0), DATA, clear, None));
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
        change(&mut table, &memory, &[Change::MakeInvalid { from: range(PAGE, PAGE) }], None);
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

/// Three blocks are one range.
#[test]
fn a_few_blocks_are_forgotten_at_once() {
    for blocks in [2, 3, 4] {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, blocks * 2 * MIB, GIB, LeafSize::single(Level::L2))]);
        let (steps, _) = change(&mut table, &memory, &[unmap(0, blocks * 2 * MIB)], None);
        assert_eq!(tlbis(&steps).len(), 1, "{blocks}: {steps:?}");
    }
}

/// One page takes one store.
#[test]
fn a_page_is_stored_once() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, PAGE, GIB, LeafSize::PAGE)]);
    let (steps, _) = change(&mut table, &memory, &[map(PAGE, PAGE, GIB, LeafSize::PAGE)], None);
    assert_eq!(steps.iter().filter(|step| matches!(step, Step::Store(..))).count(), 1, "{steps:?}");
}

/// What lies before or behind a block that was split keeps its level hint.
#[test]
fn neighbours_of_a_split_block_keep_their_hint() {
    let hints = TlbFeatures { range: false, level_hints: true, repeat: false };
    for (first, page) in [(2 * MIB, 2 * MIB - PAGE), (2 * MIB + 8 * PAGE, 4 * MIB), (4 * MIB - PAGE, 4 * MIB)] {
        let memory = Memory::new();
        let setup = [
            map(0, 2 * MIB, GIB, LeafSize::PAGE),
            map(2 * MIB, 2 * MIB, 4 * GIB, LeafSize::LARGEST),
            map(4 * MIB, 2 * MIB, 7 * GIB, LeafSize::PAGE),
        ];
        let mut table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), El1 { tlb: hints, ..KERNEL }, &setup[..1]);
        setup[1..].iter().for_each(|one| drop(change(&mut table, &memory, std::slice::from_ref(one), None)));
        let census = Census::new(Tolerance::new(BbmLevel::Level3, true));
        let (mut gather, mut reserve) = (table.gather(), Reserve::new());
        memory.supply::<Granule4K>(&mut reserve, 1);
        let _ = memory.take_steps();
        for wish in [read_only(first, PAGE), read_only(page, PAGE)] {
            let licence = census.tolerated();
            table.plan(&[wish], licence.as_ref()).unwrap().apply(&mut reserve, &mut gather).unwrap();
        }
        let _ = gather.finish(&memory);
        let mut found = tlbis(&memory.take_steps());
        found.sort_by_key(|(_, operand)| operand & !hint(3));
        let mut expected = [(first, 0), (page, hint(3))].map(|(at, hint)| (TlbiOp::VAALE1IS, hint | at >> 12));
        expected.sort_by_key(|(_, operand)| operand & !hint(3));
        assert_eq!(found, expected, "what was a block goes without a hint");
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
            table.plan(&[unmap(page * PAGE, PAGE)], None).unwrap().apply(&mut Reserve::new(), &mut gather).unwrap();
        }
        assert_eq!(tlbis(&memory.take_steps()), [], "{order:?}");
        let _ = gather.finish(&memory);
        assert_eq!(gather.issued(), tlbis(&memory.take_steps()).len(), "{order:?}");
    }
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

/// A page that went and comes back within one gather is forgotten in between, in either half.
#[test]
fn what_meets_itself_is_forgotten_first() {
    for half in [AddressHalf::Lower, AddressHalf::Upper] {
        let memory = Memory::new();
        let geometry = shape::<Granule4K>(39, half);
        let base = geometry.base();
        for at in [0, 8 * PAGE, 32 * MIB] {
            let mut table = live_at(&memory, geometry, KERNEL, &[map(base + at, 4 * PAGE, GIB, LeafSize::PAGE)]);
            let mut gather = table.gather();
            let _ = memory.take_steps();
            for wish in [unmap(base + at + PAGE, PAGE), map(base + at + PAGE, PAGE, 2 * GIB, LeafSize::PAGE)] {
                table.plan(&[wish], None).unwrap().apply(&mut Reserve::new(), &mut gather).unwrap();
            }
            let steps = memory.take_steps();
            let forgotten = steps.iter().position(|step| is_tlbi(&step)).expect("a TLBI before the map");
            assert!(steps[forgotten..].iter().any(|step| matches!(step, Step::Store(_, new) if new.is_valid())));
            let _ = gather.finish(&memory);
        }
    }
}

/// TLBIs and their DSB, twice where CPUs need that, of every regime.
#[test]
fn every_regime_repeats_where_it_must() {
    fn rounds<R: Regime>(of: impl Fn(TlbFeatures) -> R, bits: u32, wish: impl Fn() -> Change<R>, setup: Change<R>) {
        for repeat in [false, true] {
            let memory = Memory::new();
            let regime = of(TlbFeatures { range: false, level_hints: true, repeat });
            let geometry = match Geometry::<Granule4K>::stage2(bits, Level::L1, Layout::Bits48) {
                Ok(geometry) if regime.accepts(geometry) => geometry,
                _ => shape(bits, AddressHalf::Lower),
            };
            let mut table = live_at(&memory, geometry, regime, std::slice::from_ref(&setup));
            let (steps, _) = change(&mut table, &memory, &[wish()], None);
            let own = |step: &&Step| matches!(step, Step::Maintain(Maintenance::Invalidate(op, _)) if *op != TlbiOp::VMALLE1IS);
            assert_eq!(steps.iter().filter(own).count(), if repeat { 2 } else { 1 }, "{steps:?}");
        }
    }
    let (to, largest, hardware_updates) = (PhysAddr::new(GIB), LeafSize::PAGE, HardwareUpdates::None);
    let scope = Scope::Global;
    let plain = Stage1Attributes::INNER_SHAREABLE | Stage1Attributes::AF;
    let va = || range(0, PAGE);
    let ia = || IntermediateAddr::new(0)..IntermediateAddr::new(PAGE);
    rounds(
        |tlb| El1 { scope, tlb, hardware_updates },
        39,
        || Change::Unmap { from: va() },
        Change::Map { from: va(), to, attributes: DATA, largest },
    );
    rounds(
        |tlb| El2 { tlb, hardware_updates },
        39,
        || Change::Unmap { from: va() },
        Change::Map { from: va(), to, attributes: plain, largest },
    );
    rounds(
        |tlb| El2And0 { scope, tlb, hardware_updates },
        39,
        || Change::Unmap { from: va() },
        Change::Map { from: va(), to, attributes: DATA, largest },
    );
    let attributes = Stage2Attributes::READ_WRITE | Stage2Attributes::AF;
    rounds(
        |tlb| Stage2 { vmid: 3, tlb, hardware_updates },
        39,
        || Change::Unmap { from: ia() },
        Change::Map { from: ia(), to, attributes, largest },
    );
}
