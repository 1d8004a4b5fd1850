//! When leaves fold, and what that costs.

use crate::common;

use common::{DATA, GIB, LOCKS, Live, MIB, Plan, at, cpu, leaves, painted, region, tables};
use seed::Seed;
use vellum_linearmap::{Context, Leaves, Wanted};
use vellum_vmsa::{
    BbmLevel, Descriptor, Granule, Granule4K, Granule16K, Granule64K, LeafSize, Level, Stage1Attributes,
};

pub(crate) const PAGE: u64 = 0x1000;

#[test]
fn a_page_that_is_protected_and_released_in_turn_does_not_fold_each_time() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let page = [at(&map, GIB + MIB, PAGE)];
    for _ in 0..100 {
        map.set_memory_ro(&page, Context::MayWait).unwrap();
        map.set_memory_rw(&page, Context::MayWait).unwrap();
        map.heal(100);
    }
    assert_eq!((map.counters().splits, map.counters().folds), (2, 0));
    // Left alone it folds by itself, after some rounds.
    let rounds = (1..).find(|_| {
        map.heal(100);
        leaves(&map).len() == 1
    });
    assert_eq!(rounds, Some(4));
    assert_eq!((map.counters().splits, map.counters().folds), (2, 2));
}

#[test]
fn a_request_drains_the_hysteresis() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let page = [at(&map, GIB + MIB, PAGE)];
    map.set_memory_ro(&page, Context::MayWait).unwrap();
    map.set_memory_rw(&page, Context::MayWait).unwrap();
    let waits = map.embedder().machine.waits.get();
    map.heal_all();
    assert_eq!(leaves(&map).len(), 1);
    assert!(map.embedder().machine.waits.get() > waits, "views may still walk the tables that are left over");
    assert!(!map.heal(100), "nothing is left");
}

#[test]
fn what_is_hot_stays_while_what_is_cold_folds() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let (hot, cold) = ([at(&map, GIB + MIB, PAGE)], [at(&map, GIB + 101 * MIB, PAGE)]);
    for page in [&hot, &cold] {
        map.set_memory_ro(page, Context::MayWait).unwrap();
        map.set_memory_rw(page, Context::MayWait).unwrap();
    }
    for _ in 0..10 {
        map.set_memory_ro(&hot, Context::MayWait).unwrap();
        map.set_memory_rw(&hot, Context::MayWait).unwrap();
        map.heal(1);
    }
    assert_eq!((map.counters().splits, map.counters().folds), (3, 1));
}

#[test]
fn a_budget_is_kept_and_what_is_left_is_found_again() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let pages: Vec<_> = (0..100).map(|number| at(&map, GIB + number * 10 * MIB, PAGE)).collect();
    map.set_memory_ro(&pages, Context::MayWait).unwrap();
    map.set_memory_rw(&pages, Context::MayWait).unwrap();
    assert_eq!(map.counters().splits, 101);
    let mut rounds = 0;
    while map.counters().folds < 101 {
        let folds = map.counters().folds;
        let has_more = map.heal(5);
        let folded = map.counters().folds - folds;
        assert!(folded <= 6, "{folded} folds for a budget of 5 slots");
        rounds += 1;
        assert!(has_more || rounds < 5 || map.counters().folds == 101);
    }
    assert_eq!(leaves(&map).len(), 1);
}

#[test]
fn ten_thousand_scattered_pairs_leave_the_map_as_after_boot() {
    let plan = Plan {
        regions: vec![
            region(GIB, GIB + 20 * MIB, DATA),
            region(GIB + 20 * MIB, GIB + 22 * MIB, DATA.union(Stage1Attributes::READ_ONLY)),
            region(GIB + 22 * MIB, 3 * GIB, DATA),
        ],
        ..Plan::one(0, 0)
    };
    let map = painted::<Granule4K>(&plan, cpu(BbmLevel::Level3));
    map.refill();
    let (first, tables_at_first, out) = (leaves(&map), tables(&map), map.embedder().out.get());
    let mut random = Seed::new(18);
    for _ in 0..10_000 {
        let page = [at(&map, GIB + (11_264 + random.below(512 * 1024 - 11_264)) * PAGE, PAGE)];
        map.set_memory_ro(&page, Context::MayWait).unwrap();
        map.set_memory_rw(&page, Context::MayWait).unwrap();
    }
    assert!(tables(&map) > 900, "{}", tables(&map));
    map.heal_all();
    assert_eq!((leaves(&map), tables(&map), map.embedder().out.get()), (first, tables_at_first, out));
    assert_eq!(map.counters().splits, map.counters().folds);
}

#[test]
fn hidden_pages_fold_into_hidden_leaves() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    for page in 0..512 {
        map.set_direct_map_invalid(&[at(&map, GIB + 64 * MIB + page * PAGE, PAGE)], Context::MayWait).unwrap();
    }
    map.heal_all();
    assert_eq!(tables(&map), 2, "a root, and the table of the block: the hidden pages have none");
    let hidden = leaves(&map).into_iter().find(|(start, ..)| *start == GIB + 64 * MIB).unwrap();
    assert_eq!((hidden.1, hidden.2.is_valid()), (2 * MIB, false));
    // One of them shown: the others stay hidden, in leaves as large as can be.
    map.set_direct_map_valid(&[at(&map, GIB + 64 * MIB, PAGE)], true, Context::MayWait).unwrap();
    assert!(map.is_present(at(&map, GIB + 64 * MIB, 0).start));
    assert!(!map.is_present(at(&map, GIB + 64 * MIB + PAGE, 0).start));
    assert_eq!(map.counters().splits - map.counters().folds, 2);
    map.set_direct_map_valid(&[at(&map, GIB + 64 * MIB, 2 * MIB)], true, Context::MayWait).unwrap();
    map.heal_all();
    assert_eq!(leaves(&map).len(), 1);
}

/// Hidden blocks that were hidden one by one make no groups, and yet what groups would be a part of.
#[test]
fn hidden_blocks_fold_into_a_hidden_gibibyte() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    for block in 0..512 {
        map.set_direct_map_invalid(&[at(&map, GIB + block * 2 * MIB, 2 * MIB)], Context::MayWait).unwrap();
    }
    map.heal_all();
    let all = leaves(&map);
    assert_eq!(all.iter().map(|leaf| (leaf.0, leaf.1, leaf.2.is_valid())).collect::<Vec<_>>(), [(GIB, GIB, false)]);
}

#[test]
fn a_map_of_pages_stays_one() {
    let plan = Plan { leaves: Leaves::Pages, ..Plan::one(GIB, GIB + 4 * MIB) };
    let map = painted::<Granule4K>(&plan, cpu(BbmLevel::Level0));
    assert!(map.refill());
    assert_eq!((leaves(&map).len(), map.reserve()), (1024, 0));
    map.set_memory_ro(&[at(&map, GIB, 2 * MIB)], Context::Atomic).unwrap();
    map.set_memory_rw(&[at(&map, GIB, 2 * MIB)], Context::Atomic).unwrap();
    map.heal_all();
    assert_eq!((leaves(&map).len(), map.counters().folds, map.embedder().windows.get()), (1024, 0, 0));
}

#[test]
fn blocks_fold_through_groups_to_groups_of_the_largest() {
    let map = painted::<Granule4K>(&Plan::one(0, 64 * GIB), cpu(BbmLevel::Level3));
    let size = |from| map.view().translate(at(&map, from, 0).start).unwrap().size;
    let largest = LeafSize::group(Level::L1);
    assert_eq!(size(17 * GIB), largest);
    for bytes in [PAGE, 64 << 10, 2 * MIB, 32 * MIB, GIB, 16 * GIB] {
        let range = [at(&map, 16 * GIB, bytes)];
        map.set_memory_ro(&range, Context::MayWait).unwrap();
        map.set_memory_rw(&range, Context::MayWait).unwrap();
        map.heal_all();
        assert_eq!((size(16 * GIB), size(31 * GIB), tables(&map)), (largest, largest, 1), "after {bytes:#x}");
    }
}

#[test]
fn nothing_folds_beyond_the_linear_map() {
    let all = painted::<Granule4K>(&Plan::one(GIB, 3 * GIB), cpu(BbmLevel::Level3));
    // The second gibibyte but for its last block.
    let range = at(&all, GIB, GIB).end..at(&all, 3 * GIB - 2 * MIB, 0).start;
    let plan = Plan { range: Some(range), ..Plan::one(GIB, 3 * GIB) };
    let map = painted::<Granule4K>(&plan, cpu(BbmLevel::Level3));
    let pages = [GIB + MIB, 2 * GIB, 3 * GIB - 2 * MIB - PAGE, 3 * GIB - MIB].map(|from| at(&map, from, PAGE));
    map.set_memory_ro(&pages, Context::MayWait).unwrap();
    map.set_memory_rw(&pages, Context::MayWait).unwrap();
    map.heal_all();
    let size = |page: usize| map.view().translate(pages[page].start).unwrap().size;
    assert_eq!((size(0), size(3)), (LeafSize::PAGE, LeafSize::PAGE), "not its");
    assert_eq!((size(1), size(2)), (LeafSize::group(Level::L2), LeafSize::single(Level::L2)));
}

#[test]
fn a_long_range_is_healed_from_end_to_end() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 3 * GIB), cpu(BbmLevel::Level3));
    let range = [at(&map, GIB + MIB, GIB)];
    map.set_direct_map_invalid(&range, Context::MayWait).unwrap();
    assert_eq!(map.counters().splits, 4);
    map.set_direct_map_valid(&range, true, Context::MayWait).unwrap();
    map.heal_all();
    assert_eq!((leaves(&map).len(), map.counters().folds), (2, 4));
}

fn blocks<G: Granule>() {
    let plan = Plan { leaves: Leaves::Blocks, ..Plan::one(GIB, 3 * GIB) };
    let map = painted::<G>(&plan, cpu(BbmLevel::Level3));
    let painted = leaves(&map);
    let is_contiguous = |leaves: &[(u64, u64, Descriptor)]| leaves.iter().any(|leaf| leaf.2.is_contiguous());
    assert!(!is_contiguous(&painted));
    map.set_memory_ro(&[at(&map, GIB + MIB, G::SIZE_BYTES)], Context::MayWait).unwrap();
    assert!(!is_contiguous(&leaves(&map)) && leaves(&map).len() > painted.len());
    map.set_memory_rw(&[at(&map, GIB + MIB, G::SIZE_BYTES)], Context::MayWait).unwrap();
    map.heal_all();
    assert_eq!(leaves(&map), painted);
}

#[test]
fn a_map_of_blocks_has_no_groups_and_heals() {
    blocks::<Granule4K>();
    blocks::<Granule16K>();
    blocks::<Granule64K>();
}

/// Protects and releases a range, so that it is uniform again.
pub(crate) fn pair(map: &Live<Granule4K>, from: u64, bytes: u64) {
    let range = [at(map, from, bytes)];
    map.set_memory_ro(&range, Context::MayWait).unwrap();
    map.set_memory_rw(&range, Context::MayWait).unwrap();
}

/// A call that could not park is no success: it is counted, and what was due is due in the next.
#[test]
fn healing_that_is_refused_is_counted() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    pair(&map, GIB, PAGE);
    map.admit(cpu(BbmLevel::Level0));
    (0..4).for_each(|_| assert!(!map.heal(1)));
    assert_eq!(map.counters().not_parked, 0, "nobody was asked");
    assert!(!map.heal(1) && !map.heal(1));
    map.heal_all();
    assert_eq!((map.counters().not_parked, map.counters().folds), (3, 0));
    map.embedder().parks.set(true);
    map.heal(1);
    assert_eq!((map.counters().not_parked, leaves(&map).len()), (3, 1));
}

/// Both ends of a range are left alone, and what a budget pays for is slots: those of the range and no other.
#[test]
fn a_range_is_as_many_slots_as_it_touches() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    assert!(!map.heal(0), "nothing has changed");
    pair(&map, GIB + MIB, 2 * MIB);
    let folds = map.counters().folds;
    assert!((0..4).all(|_| !map.heal(1)), "they are left alone");
    assert_eq!(map.counters().folds, folds);
    assert!(map.heal(1), "one end");
    assert!(map.heal(1), "the other");
    assert!(!map.heal(1), "both, of one leaf now");
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    pair(&map, GIB + 2 * MIB, PAGE);
    pair(&map, GIB + 2 * MIB, 2 * MIB);
    assert!((0..4).all(|_| !map.heal(0)), "one slot, not due");
    assert!(map.heal(0) && map.counters().folds == 0);
    assert!(!map.heal(1));
    let operations = map.counters().operations;
    assert!(map.counters().folds > 0 && operations.tlbi_address + operations.tlbi_range > 0);
}

/// What lies beside the linear map, or is pages for ever, is never due.
#[test]
fn what_does_not_fold_is_not_waited_for() {
    let all = painted::<Granule4K>(&Plan::one(GIB, 3 * GIB), cpu(BbmLevel::Level3));
    let range = Some(at(&all, GIB, GIB));
    let beside = Plan { range, ..Plan::one(GIB, 3 * GIB) };
    let pages = Plan { leaves: Leaves::Pages, ..Plan::one(2 * GIB, 2 * GIB + 4 * MIB) };
    for plan in [beside, pages] {
        let map = painted::<Granule4K>(&plan, cpu(BbmLevel::Level3));
        pair(&map, 2 * GIB, PAGE);
        assert!((0..8).all(|_| !map.heal(0)));
    }
}

/// A page of a slot in the middle stood apart, until the whole range became as it was.
#[test]
fn what_a_long_range_makes_uniform_in_its_middle_folds() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    map.set_memory_ro(&[at(&map, GIB + 101 * MIB, PAGE)], Context::MayWait).unwrap();
    map.heal_all();
    assert!(leaves(&map).len() > 1);
    map.set_memory_ro(&[at(&map, GIB, GIB)], Context::MayWait).unwrap();
    map.heal_all();
    assert_eq!(leaves(&map).len(), 1);
}

/// Nobody holds the lock for longer than it takes to look at 64 slots.
#[test]
fn a_request_looks_at_so_many_slots_while_it_holds_the_lock() {
    for (slots, holds) in [(63, 1), (64, 1), (65, 2), (128, 2), (129, 3)] {
        let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
        let pages: Vec<_> = (0..slots).map(|slot| at(&map, GIB + slot * 2 * MIB, PAGE)).collect();
        map.set_memory_ro(&pages, Context::MayWait).unwrap();
        map.set_memory_rw(&pages, Context::MayWait).unwrap();
        let locks = LOCKS.get();
        map.heal_all();
        // Once for the round.
        assert_eq!((LOCKS.get() - locks, leaves(&map).len()), (1 + holds, 1), "{slots} slots");
    }
}

/// What a leaf holds is passed with it: all of a gibibyte is one look beside the ends that are fresh.
#[test]
fn a_leaf_is_looked_at_once_however_many_slots_it_holds() {
    let map = painted::<Granule4K>(&Plan::one(0, 2 * GIB), cpu(BbmLevel::Level3));
    for from in [0, GIB] {
        map.set_memory_ro(&[at(&map, from, GIB)], Context::MayWait).unwrap();
        (0..4).for_each(|_| assert!(!map.heal(1)));
        assert!(map.heal(2), "both ends");
        assert!(!map.heal(1), "the leaf that has all");
    }
}

/// A slot that was due leaves what is looked at behind it as short as it was, whether it folds or stays split.
#[test]
fn what_is_done_is_not_looked_at_again() {
    for (wanted, level) in [(Wanted::Writable, Level::L1), (Wanted::ReadOnly, Level::L3)] {
        let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
        let page = [at(&map, GIB + 4 * MIB, PAGE)];
        map.set_memory_ro(&page, Context::MayWait).unwrap();
        map.change(&page, wanted, Context::MayWait).unwrap();
        (0..4).for_each(|_| assert!(!map.heal(0)));
        pair(&map, GIB + 901 * MIB, 2 * MIB);
        assert!(!map.heal(1), "the slot that is due");
        (0..3).for_each(|_| assert!(!map.heal(0)));
        assert!(map.heal(2), "both ends of what changed later");
        assert!(!map.heal(1), "the group in which both are");
        assert_eq!(map.view().translate(page[0].start).unwrap().size.level, level);
    }
}
