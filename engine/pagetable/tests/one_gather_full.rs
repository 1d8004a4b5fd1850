//! More in one gather than it holds, and changes that meet again what the same gather has left to forget.

use crate::common;

use common::regimes::Drawn;
use common::tlbi::Watched;
use common::walkers::{Beside, Walkers};
use common::{DATA, GIB, KERNEL, MIB, live_4k, live_at, map, read_only, unmap};
use vellum_pagetable::{
    Census, Change, El1, HardwareUpdates, Licence, Memory, Reserve, Stage2, Summary, TlbFeatures, Tolerance,
};
use vellum_vmsa::{BbmLevel, Granule4K, LeafSize, PhysAddr, VirtAddr};

/// More than a gather holds of anything, twice.
const MANY: u64 = 40;

/// Maps pages, and unmaps them in one gather: `bytes` around each, `stride` apart. All tables below come free, and
/// no sooner than TLBs have forgotten the way to them.
fn unmap_many<R: Drawn + Watched>(tlb: TlbFeatures, (pages, bytes, stride): (u64, u64, u64), is_list: bool) {
    let memory = Memory::new();
    let geometry = R::fixed::<Granule4K>(40);
    let attributes = R::attributes(R::PLAYED[2]);
    let at = |from: u64, bytes: u64| R::Input::from(from)..R::Input::from(from + bytes);
    let starts: Vec<u64> = (0..MANY).map(|number| 4 * GIB + number * stride).collect();
    let setup = |from: &u64| Change::Map {
        from: at(*from, pages * 0x1000),
        to: PhysAddr::new(*from),
        attributes,
        largest: LeafSize::PAGE,
    };
    let mut table = live_at(
        &memory,
        geometry,
        R::drawn(tlb, HardwareUpdates::None, 2),
        &starts.iter().map(setup).collect::<Vec<_>>(),
    );
    let mut walkers = Walkers::of(&table, &memory, Beside::InPlace);
    let count = |table: &common::Table<'_, _, R>| Summary::read(&table.view(), table.view().range()).unwrap().tables();
    let (before, mut reserve, mut gather) = (count(&table), Reserve::new(), table.gather());
    let changes: Vec<_> = starts.iter().map(|from| Change::Unmap { from: at(*from, bytes) }).collect();
    let lists = if is_list { vec![&changes[..]] } else { changes.chunks(1).collect() };
    for list in lists {
        table.plan(list, None).unwrap().apply(&mut reserve, &mut gather).unwrap();
    }
    let retired = gather.finish(&memory);
    walkers.follow(&memory.take_steps());
    walkers.check();
    assert_eq!(retired.count(), before - count(&table), "tables are lost");
    assert!(common::leaves(&table).is_empty());
}

#[test]
fn more_than_a_gather_holds_is_forgotten_and_comes_free() {
    let tlb = |range, level_hints| TlbFeatures { range, level_hints, repeat: false };
    for tlb in [tlb(false, false), tlb(false, true), tlb(true, true), TlbFeatures { repeat: true, ..tlb(true, true) }] {
        for is_list in [true, false] {
            // Tables side by side and apart, tables of tables, scattered pages, and runs of them.
            for many in
                [(3, 2 * MIB, 2 * MIB), (1, 2 * MIB, 6 * MIB), (1, GIB, GIB), (1, 0x1000, 0x3000), (3, 0x3000, 0x4000)]
            {
                unmap_many::<El1>(tlb, many, is_list);
                unmap_many::<Stage2>(tlb, many, is_list);
            }
        }
    }
}

/// What is done of two blocks side by side.
fn deeds() -> Vec<(Change<El1>, BbmLevel)> {
    let range = |from: u64, bytes| VirtAddr::new(from)..VirtAddr::new(from + bytes);
    let to = PhysAddr::new(9 * GIB);
    let (here, beside) = (4 * MIB, 6 * MIB);
    let remap =
        |from, bytes| Change::Remap { from: range(from, bytes), to, attributes: DATA, largest: LeafSize::LARGEST };
    // Level 0: by break-before-make.
    let (in_place, by_break) = (BbmLevel::Level3, BbmLevel::Level0);
    vec![
        (read_only(here + 0x5000, 0x1000), in_place),
        (read_only(here, 0x1_0000), in_place),
        (read_only(beside, 0x1000), in_place),
        (unmap(here + 0x5000, 0x2000), in_place),
        (unmap(here, 2 * MIB), in_place),
        (map(here + 0x5000, 0x2000, 8 * GIB, LeafSize::PAGE), in_place),
        (Change::MakeInvalid { from: range(here + 0x5000, 2 * MIB) }, in_place),
        (Change::MakeValid { from: range(here, 4 * MIB) }, in_place),
        (Change::SplitToPages { from: range(here, 2 * MIB) }, in_place),
        (Change::Collapse { from: range(here, 4 * MIB) }, in_place),
        (remap(here + 0x6000, 0x1000), by_break),
        (remap(here, 2 * MIB), by_break),
        (Change::Split { at: VirtAddr::new(beside + 0x8000) }, by_break),
    ]
}

/// Every three of these deeds in one gather: nothing is live beside what TLBs hold of it, and nothing stays.
#[test]
fn what_meets_itself_in_one_gather_is_forgotten_in_between() {
    let deeds = deeds();
    let census = Census::new(Tolerance::new(BbmLevel::Level3, false));
    let (third, broken) = (census.tolerated().unwrap(), Licence::break_before_make(&()));
    for number in 0..deeds.len().pow(3) {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(4 * MIB, 4 * MIB, 5 * GIB, LeafSize::LARGEST)]);
        let mut walkers = Walkers::of(&table, &memory, Beside::Anything);
        let _ = memory.take_steps();
        let (mut reserve, mut gather) = (Reserve::new(), table.gather());
        memory.supply::<Granule4K>(&mut reserve, 8);
        let tables =
            |table: &common::Table<'_, _>| Summary::read(&table.view(), table.view().range()).unwrap().tables();
        let all = tables(&table) + 8;
        for place in 0..3 {
            let (deed, level) = &deeds[number / deeds.len().pow(place) % deeds.len()];
            let licence = if *level == BbmLevel::Level3 { &third } else { &broken };
            if let Ok(mut plan) = table.plan(std::slice::from_ref(deed), Some(licence)) {
                plan.apply(&mut reserve, &mut gather).unwrap();
            }
        }
        let retired = gather.finish(&memory);
        walkers.follow(&memory.take_steps());
        walkers.check();
        assert_eq!(tables(&table) + retired.count() + reserve.count(), all, "tables are lost");
    }
}

/// At most 512 TLBIs are made for one range; where it would be more, everything goes by one.
#[test]
fn from_513_tlbis_on_everything_is_forgotten() {
    // By address a page each; by range 8 GiB each, of which tables of level 1 cover 64 side by side.
    let by_address = |pages| (0x1000, pages, false);
    let by_range = |tables| (512 * GIB, tables, true);
    let table = [
        (by_address(511), 511),
        (by_address(512), 512),
        (by_address(513), 1),
        (by_range(7), 7 * 64),
        (by_range(8), 512),
        (by_range(9), 1),
    ];
    for ((stride, count, range), issued) in table {
        let memory = Memory::new();
        let regime = El1 { tlb: TlbFeatures { range, ..TlbFeatures::default() }, ..KERNEL };
        let geometry = El1::fixed::<Granule4K>(48);
        let setup: Vec<_> = (1..=count).map(|number| map(number * stride, 0x1000, GIB, LeafSize::PAGE)).collect();
        let mut table = live_at(&memory, geometry, regime, &setup);
        let mut walkers = Walkers::of(&table, &memory, Beside::InPlace);
        let _ = memory.take_steps();
        let mut gather = table.gather();
        // From the second page on, so that no table of pages goes whole.
        let all = [unmap(stride, stride * count)];
        table.plan(&all, None).unwrap().apply(&mut Reserve::new(), &mut gather).unwrap();
        let _ = gather.finish(&memory);
        assert_eq!(gather.issued(), issued, "{count} times {stride:#x} bytes");
        walkers.follow(&memory.take_steps());
        walkers.check();
    }
}
