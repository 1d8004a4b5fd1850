//! How long what has changed is left alone, one by one and beyond the slots that are remembered.

use crate::common;
use crate::healing::{PAGE, pair};

use common::{GIB, MIB, Plan, at, cpu, leaves, painted};
use vellum_linearmap::Context;
use vellum_vmsa::{BbmLevel, Granule4K, Level};

#[test]
fn more_slots_than_are_remembered_fold_all_the_same() {
    for slots in [15, 16, 17, 40] {
        let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
        for slot in 0..slots {
            let page = [at(&map, GIB + slot * 10 * MIB, PAGE)];
            map.set_memory_ro(&page, Context::MayWait).unwrap();
            map.set_memory_rw(&page, Context::MayWait).unwrap();
        }
        let rounds = (1..20).find(|_| !map.heal(1000) && leaves(&map).len() == 1);
        // Who was pushed out has the same patience as the others.
        assert_eq!(rounds, Some(5), "{slots} slots");
    }
}

#[test]
fn who_is_pushed_out_is_who_changed_longest_ago() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let pair = |slot: u64| {
        let page = [at(&map, GIB + slot * 10 * MIB, PAGE)];
        map.set_memory_ro(&page, Context::MayWait).unwrap();
        map.set_memory_rw(&page, Context::MayWait).unwrap();
    };
    pair(0);
    map.heal(0);
    (1..16).for_each(pair);
    // It makes room for the seventeenth, and is the first that is due, as if it had stayed.
    pair(16);
    (0..3).for_each(|_| assert!(!map.heal(1)));
    assert_eq!(map.counters().folds, 0);
    map.heal(1);
    let is_whole =
        |slot: u64| map.view().translate(at(&map, GIB + slot * 10 * MIB, 0).start).unwrap().size.level == Level::L2;
    assert_eq!((0..17).filter(|&slot| is_whole(slot)).collect::<Vec<_>>(), [0]);
}

#[test]
fn every_slot_that_changed_is_left_alone_for_as_long() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let slot = |number: u64| GIB + number * 10 * MIB;
    (0..16).for_each(|number| pair(&map, slot(number), PAGE));
    // It is remembered already, and pushes nobody out.
    pair(&map, slot(5), PAGE);
    let is_whole = |number: u64| map.view().translate(at(&map, slot(number), 0).start).unwrap().size.level == Level::L2;
    map.heal(100);
    assert_eq!((0..16).filter(|&number| is_whole(number)).count(), 0);
    // The seventeenth takes the place of the first.
    pair(&map, slot(16), PAGE);
    (0..3).for_each(|_| _ = map.heal(100));
    assert_eq!((0..17).filter(|&number| is_whole(number)).count(), 0);
    map.heal(100);
    assert_eq!((0..17).filter(|&number| !is_whole(number)).collect::<Vec<_>>(), [16], "it changed a round later");
}

/// Nobody is due for having been pushed out: however many slots are sampled, none folds for as long as each changes again in time.
#[test]
fn more_slots_than_are_remembered_do_not_fold_each_time() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    for _ in 0..50 {
        (0..40).for_each(|number| pair(&map, GIB + number * 10 * MIB, PAGE));
        map.heal(100);
    }
    assert_eq!((map.counters().splits, map.counters().folds), (41, 0));
}

/// What is left alone is not left split for ever by those that are sampled on both sides of it.
#[test]
fn what_is_cold_folds_amid_slots_that_change_for_ever() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let slot = |number: u64| GIB + number * 10 * MIB;
    let is_whole = || map.view().translate(at(&map, slot(20), 0).start).unwrap().size.level == Level::L2;
    pair(&map, slot(20), PAGE);
    let rounds = (1..200).find(|_| {
        (0..40).filter(|&number| number != 20).for_each(|number| pair(&map, slot(number), PAGE));
        map.heal(1000);
        is_whole()
    });
    assert_eq!(rounds, Some(69));
    // And as much does not fold again before as many rounds are over.
    let folds = map.counters().folds;
    (0..64).for_each(|_| {
        (0..40).for_each(|number| pair(&map, slot(number), PAGE));
        map.heal(1000);
    });
    assert_eq!(map.counters().folds, folds);
}

/// In a range that is looked at, a slot is left alone up to the round that its patience ends with, and no round longer.
#[test]
fn a_slot_amid_a_long_range_keeps_its_patience() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let level = |from| map.view().translate(at(&map, from, 0).start).unwrap().size.level;
    pair(&map, GIB + 51 * MIB, 100 * MIB);
    (0..3).for_each(|_| _ = map.heal(1000));
    pair(&map, GIB + 100 * MIB, PAGE);
    map.heal(1000);
    assert_eq!(level(GIB + 51 * MIB), Level::L3, "the range changed four rounds ago");
    for _ in 0..3 {
        map.heal(1000);
        assert_eq!((level(GIB + 51 * MIB), level(GIB + 100 * MIB)), (Level::L2, Level::L3), "five; the slot less");
    }
    map.heal(1000);
    assert_ne!(level(GIB + 100 * MIB), Level::L3, "five");
}

/// Of those that changed in one round the first is healed first. A round in which nobody parks is a round like any other, be it of
/// a request.
#[test]
fn who_changed_first_is_healed_first_and_no_round_counts_twice() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let slot = |number: u64| GIB + number * 10 * MIB;
    (0..5).for_each(|number| pair(&map, slot(number), PAGE));
    map.admit(cpu(BbmLevel::Level0));
    map.heal_all();
    map.embedder().parks.set(true);
    let is_whole = |number: u64| map.view().translate(at(&map, slot(number), 0).start).unwrap().size.level != Level::L3;
    (0..3).for_each(|_| assert!(!map.heal(1)));
    for healed in 1..6 {
        map.heal(1);
        assert!((0..5).all(|number| is_whole(number) == (number < healed)), "{healed} looks");
    }
}

/// 65 slots are due, which is one more than are looked at in one go: all of them fold, and then nothing may fold.
#[test]
fn all_that_has_changed_is_healed_on_request() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let before = leaves(&map);
    assert!(!map.may_fold());
    (0..65).for_each(|slot| pair(&map, GIB + slot * 2 * MIB, PAGE));
    assert!(map.may_fold(), "in a later round");
    map.heal_all();
    assert_eq!(leaves(&map), before);
    assert!(!map.may_fold());
}

/// What a budget was too small for is not forgotten for what is due next.
#[test]
fn what_was_put_back_is_looked_at_before_more_is_taken() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let before = leaves(&map);
    // Sixteen of these are remembered, and the others scattered.
    let change = |first: u64| (first..first + 40).for_each(|slot| pair(&map, GIB + slot * 2 * MIB, PAGE));
    let wait = || (0..6).for_each(|_| _ = map.heal(0));
    change(0);
    wait();
    assert!(map.heal(18), "two of those that are scattered are looked at");
    change(200);
    wait();
    assert!((0..200).any(|_| !map.heal(3)));
    assert_eq!(leaves(&map), before);
}

/// A request heals the slots that a budget was too small for, beside those that have changed since.
#[test]
fn a_request_heals_what_was_put_back() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let before = leaves(&map);
    let change = |first: u64| (first..first + 40).for_each(|slot| pair(&map, GIB + slot * 2 * MIB, PAGE));
    change(0);
    (0..6).for_each(|_| _ = map.heal(0));
    assert!(map.heal(18), "two scattered slots are looked at, and 22 are put back");
    change(200);
    map.heal_all();
    assert_eq!(leaves(&map), before);
}

/// A range that has changed keeps its patience when slots that changed earlier are pushed out beside it.
#[test]
fn scattered_slots_are_as_young_as_the_youngest() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let slot = |number: u64| GIB + number * 10 * MIB;
    let level = || map.view().translate(at(&map, slot(50), 0).start).unwrap().size.level;
    // Pushed out by the sixteen that follow.
    pair(&map, slot(50), PAGE);
    (0..16).for_each(|number| pair(&map, slot(number), PAGE));
    (0..3).for_each(|_| _ = map.heal(0));
    pair(&map, slot(50) - 5 * MIB, 10 * MIB);
    pair(&map, slot(17), PAGE);
    for _ in 0..4 {
        map.heal(1000);
        assert_eq!(level(), Level::L3, "it has changed less than five rounds ago");
    }
    map.heal(1000);
    assert_ne!(level(), Level::L3);
}

/// A scattered slot that is left alone keeps no slot behind it from folding.
#[test]
fn slots_behind_one_that_is_left_alone_fold() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let slot = |number: u64| GIB + number * 10 * MIB;
    (0..40).for_each(|number| pair(&map, slot(number), PAGE));
    for _ in 0..5 {
        pair(&map, slot(10), PAGE);
        map.heal(1000);
    }
    let is_whole = |number: u64| map.view().translate(at(&map, slot(number), 0).start).unwrap().size.level == Level::L2;
    assert_eq!((0..40).filter(|&number| !is_whole(number)).collect::<Vec<_>>(), [10]);
}

/// Who cannot park others says that nothing is left to do now, and counts that.
#[test]
fn what_cannot_park_is_not_asked_again_at_once() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level0));
    map.admit(cpu(BbmLevel::Level0));
    map.settle();
    map.embedder().parks.set(true);
    pair(&map, GIB, PAGE);
    map.embedder().parks.set(false);
    assert!((0..6).all(|_| !map.heal(1)));
    assert!(map.may_fold() && map.counters().not_parked > 0);
    map.embedder().parks.set(true);
    map.heal_all();
    assert_eq!((leaves(&map).len(), map.may_fold()), (1, false));
}
