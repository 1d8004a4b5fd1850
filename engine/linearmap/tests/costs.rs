//! What changes cost: TLBIs, barriers, tables, and what a reserve is enough for.

use crate::common;

use common::{DATA, GIB, Kernel, LOCKS, Live, MIB, Plan, at, cpu, leaves, painted, steps, tables};
use seed::Seed;
use vellum_linearmap::{CHANGES_IN_RESERVE, Context, Cpu, Leaves, LinearMap, Map, Operations, Refused, Wanted, paint};
use vellum_pagetable::{El1, PageTable, Reserve, Step, TlbFeatures};
use vellum_vmsa::maintenance::TlbiOperand;
use vellum_vmsa::{
    AddressHalf, BbmLevel, Granule, Granule4K, Granule16K, Granule64K, LeafSize, Level, Maintenance, PhysAddr, VirtAddr,
};

/// TLBIs and DSBs of some steps, and how many of those were before the last store.
fn maintenance(steps: &[Step]) -> (usize, usize, usize) {
    let of = |steps: &[Step]| {
        let tlbis = steps.iter().filter(|step| matches!(step, Step::Maintain(Maintenance::Invalidate(..)))).count();
        let isbs = steps.iter().filter(|step| **step == Step::Maintain(Maintenance::ISB)).count();
        let all = steps.iter().filter(|step| matches!(step, Step::Maintain(_))).count();
        (tlbis, all - tlbis - isbs)
    };
    let last = steps.iter().rposition(|step| matches!(step, Step::Store(..))).map_or(0, |last| last + 1);
    let (tlbis, dsbs) = of(steps);
    (tlbis, dsbs, of(&steps[..last]).1)
}

fn change(map: &Live<Granule4K>, from: u64, bytes: u64, wanted: Wanted) -> (usize, usize, usize) {
    let (changed, steps) = steps(map, &[at(map, from, bytes)], wanted, Context::Atomic);
    changed.unwrap();
    maintenance(&steps)
}

#[test]
fn one_page_takes_one_tlbi_and_two_dsbs_and_a_split_one_dsb_more() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    map.refill();
    // A block of 1 GiB becomes two tables, filled, and linked by one store after one DSB.
    assert_eq!(change(&map, GIB + MIB, 0x1000, Wanted::ReadOnly), (1, 3, 1));
    assert_eq!(change(&map, GIB + MIB, 0x1000, Wanted::Writable), (1, 2, 0));
    assert_eq!(change(&map, GIB + MIB, 0x1000, Wanted::ReadOnly), (1, 2, 0));
    assert_eq!(change(&map, GIB + MIB, 0x1000, Wanted::Hidden), (1, 2, 0));
    // TLBs hold nothing of what is hidden.
    assert_eq!(change(&map, GIB + MIB, 0x1000, Wanted::Writable), (0, 1, 0));
    assert_eq!(change(&map, GIB + MIB, 0x1000, Wanted::Shown), (0, 1, 0));
    assert_eq!(change(&map, GIB + 9 * MIB, 0x1000, Wanted::Hidden), (1, 3, 1));
    assert_eq!(change(&map, GIB + 9 * MIB, 0x1000, Wanted::Default), (0, 1, 0));
    let operations = map.counters().operations;
    assert_eq!(operations, Operations { tlbi_address: 5, dsb_stores: 10, dsb_all: 5, isb: 8, ..Operations::default() });
}

#[test]
fn a_page_of_the_largest_block_takes_the_tables_on_its_path_and_no_more() {
    fn path<G: Granule>(expected: usize) {
        let map = painted::<G>(&Plan::one(0, 64 * GIB), cpu(BbmLevel::Level3));
        let before = tables(&map);
        map.set_memory_ro(&[at(&map, GIB + MIB, G::SIZE_BYTES)], Context::MayWait).unwrap();
        assert_eq!((tables(&map) - before, map.counters().splits), (expected, expected as u64));
    }
    path::<Granule4K>(2);
    path::<Granule16K>(1);
    path::<Granule64K>(1);
}

#[test]
fn a_list_is_one_round_of_barriers_and_no_leaf_is_split_that_is_whole_in_it() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 3 * GIB), cpu(BbmLevel::Level3));
    map.refill();
    let ranges = [at(&map, GIB, GIB), at(&map, 2 * GIB + 2 * MIB, 2 * MIB)];
    let (changed, steps) = steps(&map, &ranges, Wanted::Hidden, Context::Atomic);
    changed.unwrap();
    assert_eq!((maintenance(&steps), map.counters().splits), ((2, 3, 1), 1));
    let size = |from| map.view().path(at(&map, from, 0).start).last().unwrap().level;
    assert_eq!((size(GIB), size(2 * GIB + 2 * MIB)), (Level::L1, Level::L2));
}

#[test]
fn ranges_of_one_list_may_overlap() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let ranges = [at(&map, GIB, 0x3000), at(&map, GIB + 0x1000, 0x4000), at(&map, GIB + 0x2000, 0x1000)];
    map.set_direct_map_invalid(&ranges, Context::MayWait).unwrap();
    assert!(!map.is_present(at(&map, GIB + 0x4000, 0).start) && map.is_present(at(&map, GIB + 0x5000, 0).start));
    map.set_direct_map_default(&ranges, Context::MayWait).unwrap();
    map.heal_all();
    assert_eq!(leaves(&map).len(), 1);
}

#[test]
fn a_cpu_with_the_erratum_makes_every_tlbi_be_repeated() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    map.refill();
    let tlb = TlbFeatures { range: true, level_hints: true, repeat: true };
    map.admit(Cpu { tlb, ..cpu(BbmLevel::Level3) });
    assert_eq!(change(&map, GIB + MIB, 0x1000, Wanted::ReadOnly), (2, 4, 1));
    assert_eq!(change(&map, GIB + MIB, 0x1000, Wanted::Writable), (2, 3, 0));
    let _ = map.embedder().machine.memory.take_steps();
    map.heal_all();
    let (tlbis, ..) = maintenance(&map.embedder().machine.memory.take_steps());
    assert!(tlbis > 0 && tlbis % 2 == 0, "{tlbis}");
}

fn a_full_reserve_is_enough<G: Granule>() {
    for round in 0..20 {
        let map = painted::<G>(&Plan::one(0, 256 * GIB), cpu(BbmLevel::Level3));
        assert!(map.refill());
        let mut random = Seed::new(round);
        for _ in 0..CHANGES_IN_RESERVE {
            let page = random.below(256 * GIB / G::SIZE_BYTES) * G::SIZE_BYTES;
            map.set_direct_map_invalid(&[at(&map, page, G::SIZE_BYTES)], Context::Atomic).unwrap();
        }
    }
}

#[test]
fn a_full_reserve_is_enough_for_64_pages_at_random() {
    a_full_reserve_is_enough::<Granule4K>();
    a_full_reserve_is_enough::<Granule16K>();
    a_full_reserve_is_enough::<Granule64K>();
}

/// Two tables are spare, so that a page of the largest leaf may be protected and released for ever.
#[test]
fn what_splits_and_heals_in_turn_asks_for_no_memory() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    assert!(map.refill());
    map.embedder().left.set(0);
    let (page, other) = ([at(&map, GIB + MIB, 0x1000)], [at(&map, GIB + 9 * MIB, 0x1000)]);
    for _ in 0..3 {
        map.set_memory_ro(&page, Context::MayWait).unwrap();
        assert_eq!(map.set_memory_ro(&other, Context::MayWait), Err(Refused::OutOfTables(1)));
        map.set_memory_rw(&page, Context::MayWait).unwrap();
        map.heal_all();
        assert_eq!((leaves(&map).len(), map.reserve()), (1, 80));
    }
}

/// The reserve of a map of so many input bits, once it is full.
fn reserve<G: Granule>(input_bits: u32, memory_bytes: u64) -> usize {
    let kernel = Kernel::<G>::new();
    let geometry = common::widths::shape(input_bits, AddressHalf::Upper);
    let range = VirtAddr::new(geometry.base())..VirtAddr::new(geometry.base()) + memory_bytes;
    let (root, leaves) = (PhysAddr::new(0), Leaves::Largest);
    let map = Map { root, geometry, regime: El1::kernel(), range, leaves, memory_bytes };
    let map = LinearMap::new(kernel, map, cpu(BbmLevel::Level3)).unwrap();
    assert!(map.refill());
    map.reserve()
}

#[test]
fn the_reserve_of_large_pages_is_no_more_than_a_hundredth_of_memory() {
    assert_eq!((reserve::<Granule16K>(42, 64 * MIB), reserve::<Granule16K>(42, 4 * GIB)), (16, 64));
    assert_eq!((reserve::<Granule64K>(42, 512 * MIB), reserve::<Granule64K>(42, GIB)), (16, 16));
    assert_eq!((reserve::<Granule64K>(42, 64 * GIB), reserve::<Granule64K>(48, 64 * GIB)), (64, 64));
    for blocks in [0, 1, 2, 15, 16, 17, 63, 64, 65] {
        for beside in [0, 31 * MIB] {
            let of_16k = (blocks * 32 * MIB + beside) & !0x3fff;
            assert!(reserve::<Granule16K>(42, of_16k) as u64 * 100 * Granule16K::SIZE_BYTES <= of_16k);
            let of_64k = blocks * 512 * MIB + beside;
            assert!(reserve::<Granule64K>(42, of_64k) as u64 * 100 * Granule64K::SIZE_BYTES <= of_64k);
        }
    }
}

/// A level above the root has no leaves, even if memory were enough for one.
#[test]
fn the_reserve_is_for_the_levels_that_there_are() {
    assert_eq!((reserve::<Granule4K>(30, GIB), reserve::<Granule4K>(31, GIB)), (64, 80));
    assert_eq!((reserve::<Granule4K>(39, 512 * GIB), reserve::<Granule4K>(48, 512 * GIB)), (128, 128));
    assert_eq!(reserve::<Granule4K>(48, 128 << 40), 128);
}

/// No more tables than there can be leaves for them to replace.
#[test]
fn the_reserve_of_little_memory_is_small() {
    for (bytes, tables) in [(MIB, 0), (64 * MIB, 32), (GIB, 80), (2 * GIB, 80), (128 * GIB, 128)] {
        let map = painted::<Granule4K>(&Plan::one(0, bytes), cpu(BbmLevel::Level3));
        assert!(map.refill());
        assert_eq!(map.reserve(), tables, "{bytes:#x}");
    }
}

#[test]
fn neighbours_that_are_alike_are_painted_as_one() {
    use common::{DATA, region};
    let regions = vec![
        region(GIB, GIB + 0x5000, DATA),
        region(GIB + 0x5000, GIB + 7 * MIB, DATA),
        region(GIB + 7 * MIB, 2 * GIB, DATA),
    ];
    let map = painted::<Granule4K>(&Plan { regions, ..Plan::one(0, 0) }, cpu(BbmLevel::Level3));
    let found = map.view().translate(at(&map, GIB + MIB, 0).start).unwrap();
    assert_eq!((found.size, found.output.bits()), (LeafSize::single(Level::L1), GIB + MIB));
}

/// What is counted is what was executed, kind by kind.
#[test]
fn every_operation_is_counted_by_its_kind() {
    fn counted(tlb: TlbFeatures, bytes: u64) -> Operations {
        let first = Cpu { tlb, ..cpu(BbmLevel::Level3) };
        let plan = Plan { leaves: Leaves::Pages, ..Plan::one(GIB, GIB + 8 * MIB) };
        let map = painted::<Granule4K>(&plan, first);
        let page = [at(&map, GIB + 0x1000, bytes)];
        map.set_memory_ro(&page, Context::MayWait).unwrap();
        let before = map.counters().operations;
        map.set_memory_rw(&page, Context::MayWait).unwrap();
        let after = map.counters().operations;
        Operations {
            tlbi_address: after.tlbi_address - before.tlbi_address,
            tlbi_range: after.tlbi_range - before.tlbi_range,
            tlbi_everything: after.tlbi_everything - before.tlbi_everything,
            dsb_stores: after.dsb_stores - before.dsb_stores,
            dsb_all: after.dsb_all - before.dsb_all,
            isb: after.isb - before.isb,
        }
    }
    let one = Operations { dsb_stores: 1, dsb_all: 1, isb: 1, ..Operations::default() };
    let ranges = TlbFeatures { range: true, level_hints: false, repeat: false };
    assert_eq!(counted(ranges, 0x6000), Operations { tlbi_range: 1, ..one });
    assert_eq!(counted(TlbFeatures::NONE, 0x6000), Operations { tlbi_address: 6, ..one });
    assert_eq!(counted(TlbFeatures::NONE, 4 * MIB), Operations { tlbi_everything: 1, ..one });
    let twice = TlbFeatures { repeat: true, ..ranges };
    assert_eq!(counted(twice, 0x6000), Operations { tlbi_range: 2, dsb_all: 2, ..one });
}

/// Changes, healing and what is done in a window: of every barrier and TLBI that reached the machine, one counter knows.
#[test]
fn whatever_is_executed_is_counted() {
    for level in [BbmLevel::Level3, BbmLevel::Level0] {
        let map = painted::<Granule4K>(&Plan::one(GIB, 3 * GIB), cpu(level));
        map.refill();
        let ranges = [at(&map, GIB + MIB, 0x1000), at(&map, 2 * GIB + 3 * MIB, 40 * MIB)];
        for context in [Context::MayWait, Context::Atomic] {
            map.set_memory_ro(&ranges, context).unwrap();
            map.set_memory_rw(&ranges, context).unwrap();
            map.heal_all();
        }
        let (mut executed, steps) = (Operations::default(), map.embedder().machine.memory.take_steps());
        for step in steps {
            let Step::Maintain(operation) = step else { continue };
            *match operation {
                Maintenance::Invalidate(tlbi, _) if tlbi.operand().is_range() => &mut executed.tlbi_range,
                Maintenance::Invalidate(tlbi, _) if tlbi.operand() == TlbiOperand::Nothing => {
                    &mut executed.tlbi_everything
                }
                Maintenance::Invalidate(..) => &mut executed.tlbi_address,
                Maintenance::ISB => &mut executed.isb,
                Maintenance::DSB_ISHST => &mut executed.dsb_stores,
                Maintenance::Barrier(_) => &mut executed.dsb_all,
            } += 1;
        }
        assert_eq!(map.counters().operations, executed);
        assert!(map.counters().folds > 0);
    }
}

/// The lock is taken once by a change, which also learns under it whether the reserve lacks anything: it does not.
#[test]
fn a_change_takes_the_lock_no_oftener_than_it_must() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let page = [at(&map, GIB + MIB, 0x1000)];
    let locks = |context| {
        let before = LOCKS.get();
        map.set_memory_ro(&page, context).unwrap();
        LOCKS.get() - before
    };
    assert_eq!(locks(Context::MayWait), 3, "two tables are fetched in between, and then the reserve");
    assert_eq!((locks(Context::MayWait), locks(Context::Atomic)), (1, 1));
}

/// Who paints memory into tables that are walked may rely on the leaves once it is done.
#[test]
fn what_is_painted_beneath_walkers_is_there_when_it_is_done() {
    use common::{DATA, region};
    let (kernel, geometry) = (Kernel::<Granule4K>::new(), common::widths::shape::<Granule4K>(39, AddressHalf::Upper));
    let mut reserve = Reserve::new();
    kernel.machine.memory.supply::<Granule4K>(&mut reserve, 1);
    let table = PageTable::offline(&kernel.machine, geometry, El1::kernel(), &mut reserve).unwrap();
    let mut table = table.publish();
    let _ = kernel.machine.memory.take_steps();
    let regions = [region(GIB, GIB + 0x5000, DATA), region(GIB + 4 * MIB, GIB + 6 * MIB, DATA)];
    paint(&mut table, &kernel.machine, &kernel, geometry.base(), &regions, Leaves::Largest).unwrap();
    let steps = kernel.machine.memory.take_steps();
    let last = steps.iter().rposition(|step| matches!(step, Step::Store(..))).unwrap();
    let behind = &steps[last + 1..];
    assert_eq!(behind, [Step::Maintain(Maintenance::DSB_ISHST), Step::Maintain(Maintenance::ISB)]);
}

/// Loads stand for time under the lock: a page that is a leaf takes two descents at most, a look at a slot a table at each level.
#[test]
fn what_is_read_under_the_lock_does_not_grow_with_memory() {
    let loads = |gib: u64| {
        let map = painted::<Granule4K>(&Plan::one(0, gib * GIB), cpu(BbmLevel::Level3));
        map.refill();
        let (page, loads) = ([at(&map, GIB + MIB, 0x1000)], &map.embedder().machine.loads);
        let of = |deed: &dyn Fn()| {
            loads.set(0);
            deed();
            loads.get()
        };
        [
            of(&|| map.set_memory_ro(&page, Context::Atomic).unwrap()),
            of(&|| map.set_memory_rw(&page, Context::Atomic).unwrap()),
            of(&|| map.set_direct_map_invalid(&page, Context::Atomic).unwrap()),
            of(&|| map.set_direct_map_default(&page, Context::Atomic).unwrap()),
            of(&|| map.heal_all()),
        ]
    };
    let (small, large) = (loads(64), loads(256));
    assert_eq!(small[1..4], [3, 3, 6], "one descent of three levels for each change: no plan");
    assert!(small[0] <= 120 && small[4] <= 4_000, "{small:?}");
    assert_eq!(small[..4], large[..4]);
    assert!(large[4] <= small[4] + 100, "{small:?} {large:?}");
}

#[test]
fn a_slot_beside_tables_is_looked_at_alone() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    // Every second slot is split, and stays so.
    let pages: Vec<_> = (0..256).map(|number| at(&map, GIB + 4 * number * MIB, 0x1000)).collect();
    map.set_memory_ro(&pages, Context::MayWait).unwrap();
    map.heal_all();
    let page = [at(&map, GIB + 6 * MIB + 0x5000, 0x1000)];
    map.set_memory_ro(&page, Context::MayWait).unwrap();
    map.set_memory_rw(&page, Context::MayWait).unwrap();
    map.embedder().machine.loads.set(0);
    map.heal_all();
    let loads = map.embedder().machine.loads.get();
    assert!(loads < 1_000, "{loads} loads for one table of pages");
    let found = map.view().translate(page[0].start).unwrap();
    assert_eq!(found.size, LeafSize::single(Level::L2));
}

/// A page that is to be shown and to be writable splits its block once: the reserve need hold no more than that takes.
#[test]
fn two_changes_of_a_page_take_the_tables_of_one() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let (all, page) = ([at(&map, GIB, GIB)], [at(&map, GIB + MIB, 0x1000)]);
    map.set_memory_ro(&all, Context::MayWait).unwrap();
    map.set_direct_map_invalid(&all, Context::MayWait).unwrap();
    assert!(map.set_reserve(2));
    map.set_direct_map_default(&page, Context::Atomic).unwrap();
    assert!(map.is_present(page[0].start));
    assert_eq!(map.reserve(), 0);
}

/// How often the map looks at descriptors for a change, made where announcements are heard, and where they are not: what needs no plan
/// is made without one, and what was planned is planned once.
#[test]
fn a_change_looks_no_oftener_than_it_must() {
    for is_heard in [false, true] {
        let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
        map.refill();
        if is_heard {
            *map.embedder().announced.borrow_mut() = Some(Vec::new());
        }
        let page = |number: u64| at(&map, GIB + 2 * MIB + number * 0x1000, 0x1000);
        let elsewhere = Wanted::Leading { displacement: 1 << 40, attributes: DATA };
        let looks = [
            (vec![page(0)], Wanted::Hidden, "a page of the largest block"),
            (vec![page(1)], Wanted::ReadOnly, "a page of the table"),
            (vec![page(33)], Wanted::ReadOnly, "a page of a group"),
            (vec![page(65)], Wanted::Default, "two changes of one"),
            (vec![page(2).start..page(3).end], Wanted::ReadOnly, "two pages"),
            (vec![page(4), page(6)], Wanted::ReadOnly, "a list of two"),
            (vec![page(0)], elsewhere, "a hidden page elsewhere"),
            (vec![at(&map, GIB + 4 * MIB, 2 * MIB)], Wanted::ReadOnly, "a block"),
        ]
        .map(|(ranges, wanted, name)| {
            map.embedder().machine.loads.set(0);
            map.change(&ranges, wanted, Context::MayWait).unwrap();
            format!("{name}: {}", map.embedder().machine.loads.get())
        });
        // To say what changes size is to look at what is there.
        let (split, group) = if is_heard { (12, 100) } else { (8, 35) };
        let expected = [
            format!("a page of the largest block: {split}"),
            "a page of the table: 3".into(),
            format!("a page of a group: {group}"),
            "two changes of one: 113".into(),
            "two pages: 13".into(),
            "a list of two: 14".into(),
            "a hidden page elsewhere: 7".into(),
            "a block: 3".into(),
        ];
        assert_eq!(looks, expected, "heard: {is_heard}");
    }
}
