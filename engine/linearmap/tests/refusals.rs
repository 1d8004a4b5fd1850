//! What is refused has changed nothing: every allocation that fails, every reserve that is dry, every CPU that does not park.

use crate::common;

use std::cell::Cell;

use common::{DATA, GIB, Kernel, Live, MIB, Plan, at, cpu, leaves, paint_and_make, painted, region, tables};
use vellum_linearmap::{Context, Leaves, LinearMap, Map, NotParked, Pages, Refused, Wanted, paint};
use vellum_pagetable::{El1, PageTable, Refusal, Reserve};
use vellum_vmsa::{BbmLevel, Granule, Granule4K, Granule16K, Granule64K, PhysAddr, Stage1Attributes, VirtAddr};

/// A map of two blocks of the largest size, and scattered pages of both.
fn scattered<G: Granule>(map: &Live<G>) -> Vec<std::ops::Range<VirtAddr>> {
    let page = G::SIZE_BYTES;
    [GIB + 5 * page, GIB + 700 * MIB, 2 * GIB + 3 * page, 2 * GIB + 512 * MIB].map(|from| at(map, from, page)).to_vec()
}

/// Each allocation that `wanted` takes fails in turn.
fn each_allocation_fails<G: Granule>(level: BbmLevel, wanted: Wanted) {
    for left in 0.. {
        let map = painted::<G>(&Plan::one(GIB, 3 * GIB), cpu(level));
        let before = (leaves(&map), tables(&map), map.embedder().out.get());
        map.embedder().left.set(left);
        match map.change(&scattered(&map), wanted, Context::MayWait) {
            Ok(()) => {
                assert!(left > 0, "it takes tables");
                assert_eq!(map.counters().splits, tables(&map) as u64 - before.1 as u64);
                return;
            }
            Err(Refused::OutOfTables(_)) => {
                assert_eq!((leaves(&map), tables(&map), map.embedder().out.get()), before);
                assert_eq!((map.counters().out_of_tables, map.counters().changes), (1, 0));
            }
            Err(refused) => panic!("{refused}"),
        }
    }
}

#[test]
fn every_allocation_that_fails_leaves_the_map_as_it_was() {
    for wanted in [Wanted::ReadOnly, Wanted::ReadOnlyExecutable, Wanted::Hidden] {
        each_allocation_fails::<Granule4K>(BbmLevel::Level3, wanted);
        each_allocation_fails::<Granule4K>(BbmLevel::Level0, wanted);
        each_allocation_fails::<Granule16K>(BbmLevel::Level3, wanted);
        each_allocation_fails::<Granule64K>(BbmLevel::Level0, wanted);
    }
}

#[test]
fn a_hole_at_the_end_of_a_list_refuses_all_of_it() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let before = leaves(&map);
    let ranges = [at(&map, GIB, 0x1000), at(&map, 2 * GIB - 0x1000, 0x2000)];
    for context in [Context::MayWait, Context::Atomic] {
        map.refill();
        let refused = map.set_memory_ro(&ranges, context).unwrap_err();
        assert_eq!(refused, Refused::Change(Refusal::NotMapped(ranges[1].start.bits() + 0x1000)));
        assert_eq!(leaves(&map), before);
    }
    let astray = map.set_memory_ro(&[at(&map, GIB + 1, 0x1000)], Context::MayWait).unwrap_err();
    assert_eq!(astray, Refused::Change(Refusal::Misaligned(at(&map, GIB + 1, 0).start.bits())));
    assert_eq!((map.counters().refused, map.counters().changes), (3, 0));
}

#[test]
fn a_dry_reserve_refuses_until_it_is_filled() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let (page, before) = (at(&map, GIB + MIB, 0x1000), leaves(&map));
    let refused = map.set_direct_map_invalid(std::slice::from_ref(&page), Context::Atomic);
    assert_eq!(refused, Err(Refused::ReserveDry(2)));
    assert_eq!((leaves(&map), map.counters().reserve_dry), (before, 1));
    assert!(map.refill());
    assert_eq!(map.reserve(), 80);
    map.set_direct_map_invalid(std::slice::from_ref(&page), Context::Atomic).unwrap();
    assert_eq!((map.reserve(), map.counters().atomic), (78, 1));
    // What folds fills the reserve first, and gives back what is too many.
    map.set_direct_map_valid(std::slice::from_ref(&page), true, Context::Atomic).unwrap();
    map.heal_all();
    // The root and two spare tables are out beside it.
    assert_eq!((map.reserve(), map.embedder().out.get()), (80, 83));
    // So does every change that may wait, whose own tables do not come out of the reserve, but of the spare ones.
    map.set_direct_map_invalid(std::slice::from_ref(&page), Context::Atomic).unwrap();
    map.set_memory_ro(&[at(&map, GIB + 100 * MIB, 0x1000)], Context::MayWait).unwrap();
    assert_eq!((map.reserve(), map.embedder().out.get()), (80, 85));
    map.set_memory_rw(&[at(&map, GIB + 100 * MIB, 0x1000)], Context::MayWait).unwrap();
    map.set_direct_map_valid(&[page], true, Context::MayWait).unwrap();
    map.heal_all();
    assert_eq!((map.reserve(), map.embedder().out.get()), (80, 83));
}

/// A change that may wait fills the reserve, be it a single table that lacks; one that may not gives no page back.
#[test]
fn the_reserve_is_filled_and_emptied_where_that_may_wait() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let [page, other] = [MIB, 9 * MIB].map(|from| [at(&map, GIB + from, 0x1000)]);
    map.set_direct_map_invalid(&page, Context::MayWait).unwrap();
    assert!(map.refill());
    map.set_direct_map_invalid(&other, Context::Atomic).unwrap();
    assert_eq!(map.reserve(), 79);
    map.set_memory_ro(&page, Context::MayWait).unwrap();
    assert_eq!(map.reserve(), 80);
    let pages = painted::<Granule4K>(&Plan { leaves: Leaves::Pages, ..Plan::one(GIB, 2 * GIB) }, cpu(BbmLevel::Level3));
    let (slot, out) = (at(&pages, GIB, 2 * MIB), pages.embedder().out.get());
    pages.change(&[slot], Wanted::Absent, Context::Atomic).unwrap();
    assert_eq!((pages.reserve(), pages.embedder().out.get()), (1, out));
    pages.set_memory_ro(&[at(&pages, GIB + 2 * MIB, 0x2000)], Context::MayWait).unwrap();
    assert_eq!((pages.reserve(), pages.embedder().out.get()), (0, out - 1));
}

#[test]
fn every_name_does_what_it_says() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let page = [at(&map, GIB + MIB, 0x1000)];
    let seen = || {
        let leaf = map.view().path(page[0].start).last().unwrap().descriptor;
        let has = |bit: Stage1Attributes| leaf.bits() & bit.bits() != 0;
        (leaf.is_valid(), !has(Stage1Attributes::READ_ONLY), !has(Stage1Attributes::PXN))
    };
    map.set_memory_ro(&page, Context::MayWait).unwrap();
    assert_eq!(seen(), (true, false, false));
    map.set_memory_x(&page, Context::MayWait).unwrap();
    assert_eq!(seen(), (true, false, true));
    map.set_memory_nx(&page, Context::MayWait).unwrap();
    map.set_memory_rw(&page, Context::MayWait).unwrap();
    assert_eq!(seen(), (true, true, false));
    map.set_memory_rox(&page, Context::MayWait).unwrap();
    assert_eq!(seen(), (true, false, true));
    map.set_memory_valid(&page, false, Context::MayWait).unwrap();
    assert_eq!(seen(), (false, false, true));
    map.set_memory_valid(&page, true, Context::MayWait).unwrap();
    map.set_direct_map_invalid(&page, Context::MayWait).unwrap();
    assert_eq!(seen(), (false, false, true));
    map.set_direct_map_default(&page, Context::MayWait).unwrap();
    assert_eq!(seen(), (true, true, true));
    map.set_direct_map_valid(&page, false, Context::MayWait).unwrap();
    assert_eq!((seen(), map.is_present(page[0].start)), ((false, true, true), false));
}

#[test]
fn who_cannot_be_parked_is_named_before_anything_changes() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    map.admit(cpu(BbmLevel::Level0));
    let (page, before) = (at(&map, GIB + MIB, 0x1000), leaves(&map));
    let refused = map.set_memory_ro(std::slice::from_ref(&page), Context::MayWait);
    assert_eq!(refused, Err(Refused::NotParked(NotParked(Some(1)))));
    // The two tables that it would have taken are spare.
    assert_eq!((leaves(&map), map.counters().not_parked, map.embedder().out.get()), (before, 1, 3));
    // What changes no leaf's size needs nobody's leave.
    map.set_memory_ro(&[at(&map, GIB, GIB)], Context::MayWait).unwrap();
    map.embedder().parks.set(true);
    map.set_memory_rw(&[page], Context::MayWait).unwrap();
    assert_eq!((map.embedder().parked.get(), map.counters().parked), (1, 1));
}

/// A kernel whose calls never run the change is told that it is not made.
#[test]
fn what_is_never_run_is_refused() {
    for others in [0, 1] {
        let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level0));
        (0..others).for_each(|_| map.admit(cpu(BbmLevel::Level0)));
        map.embedder().parks.set(true);
        map.embedder().forgets.set(true);
        let page = [at(&map, GIB + MIB, 0x1000)];
        let refused = map.set_memory_ro(&page, Context::MayWait);
        assert_eq!(refused, Err(Refused::NotParked(NotParked(None))), "{others} others");
        assert_eq!((leaves(&map).len(), map.counters().changes, map.counters().not_parked), (1, 0, 1));
        map.embedder().forgets.set(false);
        map.set_memory_ro(&page, Context::MayWait).unwrap();
        assert_eq!(map.counters().changes, 1);
    }
}

#[test]
fn a_wait_for_who_does_not_park_is_not_repeated_for_ever() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let page = [at(&map, GIB + MIB, 0x1000)];
    map.set_memory_ro(&page, Context::MayWait).unwrap();
    map.set_memory_rw(&page, Context::MayWait).unwrap();
    map.admit(cpu(BbmLevel::Level0));
    let split = leaves(&map);
    map.heal_all();
    assert_eq!(leaves(&map), split);
    map.embedder().parks.set(true);
    map.heal_all();
    assert_eq!((leaves(&map).len(), map.embedder().parked.get()), (1, 1));
}

#[test]
fn painting_paints_all_or_nothing() {
    let plan = Plan::one(GIB, GIB + 6 * MIB);
    let map = painted::<Granule4K>(&plan, cpu(BbmLevel::Level3));
    let (kernel, geometry) = (map.embedder(), map.view().geometry());
    let mut reserve = Reserve::new();
    kernel.machine.memory.supply::<Granule4K>(&mut reserve, 1);
    let mut table = PageTable::offline(&kernel.machine, geometry, El1::kernel(), &mut reserve).unwrap();
    let read_only = DATA.union(Stage1Attributes::READ_ONLY);
    let regions = [region(GIB, GIB + 0x5000, DATA), region(3 * GIB, 3 * GIB + 0x5000, read_only)];
    let out = kernel.out.get();
    for left in 0..4 {
        kernel.left.set(left);
        let refused = paint(&mut table, &kernel.machine, kernel, geometry.base(), &regions, plan.leaves);
        assert_eq!(refused, Err(Refused::OutOfTables(4 - left)));
        assert_eq!((table.view().translate(at(&map, GIB, 0).start), kernel.out.get()), (None, out));
    }
    let twice = [region(GIB, GIB + 0x5000, DATA), region(GIB + 0x4000, GIB + 0x6000, read_only)];
    let refused = paint(&mut table, &kernel.machine, kernel, geometry.base(), &twice, plan.leaves);
    assert_eq!(refused, Err(Refused::Change(Refusal::Overlap(at(&map, GIB + 0x4000, 0).start.bits()))));
    kernel.left.set(4);
    kernel.is_wide.set(true);
    let refused = paint(&mut table, &kernel.machine, kernel, geometry.base(), &regions, plan.leaves);
    assert_eq!((refused, kernel.out.get()), (Err(Refused::OutOfTables(4)), out));
    kernel.is_wide.set(false);
    // The second page is one that no descriptor can lead to.
    struct SecondIsWide<'a>(&'a Kernel<Granule4K>, Cell<usize>);
    impl Pages for SecondIsWide<'_> {
        fn allocate(&self) -> Option<PhysAddr> {
            self.1.set(self.1.get() + 1);
            self.0.is_wide.set(self.1.get() == 2);
            self.0.allocate()
        }
        fn free(&self, table: PhysAddr) {
            self.0.free(table);
        }
    }
    let pages = SecondIsWide(kernel, Cell::new(0));
    let refused = paint(&mut table, &kernel.machine, &pages, geometry.base(), &regions, plan.leaves);
    assert_eq!((refused, kernel.out.get()), (Err(Refused::OutOfTables(3)), out));
    kernel.is_wide.set(false);
    paint(&mut table, &kernel.machine, kernel, geometry.base(), &regions, plan.leaves).unwrap();
    assert!(table.view().translate(at(&map, 3 * GIB + 0x4fff, 0).start).is_some());
    // What is mapped already is not mapped again.
    let refused = paint(&mut table, &kernel.machine, kernel, geometry.base(), &regions[1..], plan.leaves);
    assert_eq!(refused, Err(Refused::Change(Refusal::AlreadyMapped(at(&map, 3 * GIB, 0).start.bits()))));
}

#[test]
fn a_page_that_no_descriptor_can_lead_to_is_no_table() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let (page, before) = ([at(&map, GIB + MIB, 0x1000)], leaves(&map));
    map.embedder().is_wide.set(true);
    assert_eq!(map.set_memory_ro(&page, Context::MayWait), Err(Refused::OutOfTables(2)));
    assert!(!map.refill());
    assert_eq!((leaves(&map), map.embedder().out.get(), map.reserve()), (before, 1, 0));
}

#[test]
fn memory_that_runs_out_leaves_a_reserve_that_is_not_full() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    map.embedder().left.set(3);
    assert!(!map.refill());
    assert_eq!((map.reserve(), map.embedder().out.get()), (3, 4));
    map.embedder().left.set(1000);
    assert!(map.refill() && map.refill());
    assert_eq!((map.reserve(), map.embedder().out.get()), (80, 83));
    assert!(map.set_reserve(10));
    assert_eq!((map.reserve(), map.embedder().out.get()), (10, 13));
    map.embedder().left.set(0);
    assert!(!map.set_reserve(11));
    assert_eq!(map.reserve(), 10);
}

#[test]
fn a_map_whose_range_or_root_cannot_be_is_none() {
    let plan = Plan::one(GIB, 2 * GIB);
    let outside = Plan { range: Some(VirtAddr::new(0x1000)..VirtAddr::new(0x2000)), ..plan.clone() };
    let refused = paint_and_make::<Granule4K>(&outside, cpu(BbmLevel::Level3)).err();
    assert_eq!(refused, Some(Refused::Change(Refusal::OutOfRange(0x1000))));
    let map = painted::<Granule4K>(&plan, cpu(BbmLevel::Level3));
    let (geometry, range) = (map.view().geometry(), map.view().range());
    let with_root = |root: u64| {
        let (root, range) = (PhysAddr::new(root), range.clone());
        let map = Map { root, geometry, regime: El1::kernel(), range, leaves: Leaves::Largest, memory_bytes: GIB };
        LinearMap::new(Kernel::<Granule4K>::new(), map, cpu(BbmLevel::Level3)).err()
    };
    let misaligned = Refusal::MisalignedRoot { root: PhysAddr::new(0x1800), align: 0x1000 };
    assert_eq!(with_root(0x1800), Some(Refused::Change(misaligned)));
    assert_eq!(with_root(1 << 48), Some(Refused::Change(Refusal::OutputTooWide(PhysAddr::new(1 << 48)))));
    assert_eq!(with_root(0x1000), None);
}

#[test]
fn each_refusal_is_one_line() {
    let lines = [
        (Refused::Change(Refusal::NotMapped(0x1000)), "0x1000 is not mapped"),
        (Refused::OutOfTables(2), "no memory for 2 more tables"),
        (Refused::ReserveDry(1), "the reserve for atomic context lacks 1 tables"),
        (Refused::NotParked(NotParked(Some(3))), "CPU 3 did not answer a call to park"),
        (Refused::NotParked(NotParked(None)), "some CPU does not tolerate it, and none can be parked"),
    ];
    lines.iter().for_each(|(refused, line)| assert_eq!(refused.to_string(), *line));
}

/// The access flag is set, and DBM is not, whatever is asked for; neighbours that differ, or do not touch, stay apart.
#[test]
fn regions_are_painted_as_the_map_needs_them() {
    let clean = DATA.union(Stage1Attributes::DBM).union(Stage1Attributes::READ_ONLY);
    let regions = vec![
        region(GIB, GIB + 2 * MIB, DATA),
        region(GIB + 2 * MIB, GIB + 4 * MIB, clean),
        region(GIB + 6 * MIB, GIB + 8 * MIB, clean.union(Stage1Attributes::AF)),
        region(GIB + 8 * MIB, GIB + 10 * MIB, clean),
    ];
    let map = painted::<Granule4K>(&Plan { regions, ..Plan::one(0, 0) }, cpu(BbmLevel::Level3));
    let bits = |leaf: vellum_vmsa::Descriptor| leaf.bits() & !0xffff_ffff_f000;
    let painted: Vec<_> = leaves(&map).iter().map(|(start, bytes, leaf)| (*start, *bytes, bits(*leaf))).collect();
    let writable = DATA.union(Stage1Attributes::AF).bits() | 1;
    let read_only = writable | Stage1Attributes::READ_ONLY.bits();
    let at = |mib: u64, bits| (GIB + mib * MIB, 2 * MIB, bits);
    assert_eq!(painted, [at(0, writable), at(2, read_only), at(6, read_only), at(8, read_only)]);
}

/// A range whose first page is of a hidden block and whose second of a read-only one: each of two changes splits the other.
#[test]
fn a_list_takes_the_tables_of_each_of_its_changes_and_no_more() {
    let page = Granule4K::SIZE_BYTES;
    let map =
        painted::<Granule4K>(&Plan { leaves: Leaves::Blocks, ..Plan::one(GIB, GIB + 4 * MIB) }, cpu(BbmLevel::Level3));
    map.set_direct_map_invalid(&[at(&map, GIB, 2 * MIB)], Context::MayWait).unwrap();
    map.set_memory_ro(&[at(&map, GIB + 2 * MIB, 2 * MIB)], Context::MayWait).unwrap();
    let (range, before) = ([at(&map, GIB + 2 * MIB - page, 2 * page)], leaves(&map));
    for tables in [0, 1] {
        map.embedder().left.set(tables);
        map.set_reserve(tables);
        map.embedder().left.set(tables);
        let refused = Refused::ReserveDry(2 - tables);
        assert_eq!(map.set_direct_map_default(&range, Context::Atomic), Err(refused));
        assert_eq!(map.set_direct_map_default(&range, Context::MayWait), Err(Refused::OutOfTables(2)));
        assert_eq!(leaves(&map), before, "{tables}");
    }
    map.embedder().left.set(2);
    map.set_direct_map_default(&range, Context::MayWait).unwrap();
    // Pages that are leaves by themselves take none.
    map.embedder().left.set(0);
    let pages = [at(&map, GIB + 2 * MIB - page, page), at(&map, GIB + 2 * MIB, page)];
    map.set_memory_ro(&pages, Context::MayWait).unwrap();
    assert_eq!(map.counters().splits, 2);
}

/// Pages that others fetched meanwhile, and for which there is no more room, go back; to ask for what there is moves none.
#[test]
fn a_reserve_holds_no_more_than_it_is_to_hold() {
    let map: &Live<Granule4K> = Box::leak(Box::new(painted(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3))));
    map.set_reserve(4);
    for target in [10, 3, 0] {
        map.set_reserve(0);
        // It lacks five when it begins to fetch.
        *map.embedder().meanwhile.borrow_mut() = Some(Box::new(move || assert!(map.set_reserve(target))));
        assert!(map.set_reserve(5));
        let spare = target.min(2);
        assert_eq!((map.reserve(), map.embedder().out.get()), (target, spare + target + 1));
    }
    map.set_reserve(7);
    // Any page that it gave back would not be one that it can have again.
    map.embedder().is_wide.set(true);
    assert!(map.set_reserve(7) && map.refill());
    assert_eq!(map.reserve(), 7);
}

/// Nothing is due: nobody is parked for it, and no CPU waits in a window.
#[test]
fn who_has_nothing_to_heal_calls_nobody() {
    for others in [0, 1] {
        let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level0));
        (0..others).for_each(|_| map.admit(cpu(BbmLevel::Level0)));
        map.embedder().parks.set(true);
        assert!(!map.heal(10));
        map.heal_all();
        assert_eq!((map.embedder().parked.get(), map.embedder().windows.get()), (0, 0));
    }
}

/// What else maps memory may change in one list with it, be it right behind; its tables heal by nobody, and are not counted.
#[test]
fn tables_of_other_maps_are_not_counted() {
    let both = Plan::one(GIB, 4 * GIB);
    let all = painted::<Granule4K>(&both, cpu(BbmLevel::Level3));
    let inside = at(&all, 2 * GIB, 0x1000);
    for outside in [GIB, 2 * GIB - 0x1000, 3 * GIB, 4 * GIB - 0x1000] {
        let range = Some(at(&all, 2 * GIB, GIB));
        let map = painted::<Granule4K>(&Plan { range, ..both.clone() }, cpu(BbmLevel::Level3));
        let before = tables(&map) as u64;
        map.set_memory_ro(&[at(&map, outside, 0x1000), inside.clone()], Context::MayWait).unwrap();
        assert_eq!((map.counters().splits, tables(&map) as u64 - before), (2, 4), "{outside:#x}");
    }
}
