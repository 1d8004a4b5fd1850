//! What others change while a call has let go of the lock.

use crate::common;

use common::{GIB, Live, MIB, Plan, at, cpu, painted, tables};
use vellum_linearmap::{Context, Wanted};
use vellum_vmsa::{BbmLevel, Granule4K};

/// More than are remembered one by one.
const TORN: u64 = 20;
const MOST_TURNS: usize = 1000;

fn tear(map: &Live<Granule4K>) {
    for slot in 0..TORN {
        let page = [at(map, GIB + slot * 2 * MIB, 0x1000)];
        map.change(&page, Wanted::Hidden, Context::MayWait).unwrap();
        map.change(&page, Wanted::Shown, Context::MayWait).unwrap();
    }
    map.set_memory_ro(&[at(map, GIB, GIB)], Context::MayWait).unwrap();
    map.set_memory_rw(&[at(map, GIB, GIB)], Context::MayWait).unwrap();
}

/// Another CPU changes a long range, and slots that fold, whenever the lock is free: what was there when the call began is looked at,
/// and the call ends.
#[test]
fn all_heals_though_others_go_on_changing() {
    let map: &Live<Granule4K> = Box::leak(Box::new(painted(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3))));
    let before = tables(map);
    map.set_reserve(0);
    // So that no leaf of 1 GiB makes one look of all.
    let hidden = [at(map, GIB + 600 * MIB, 0x1000)];
    map.change(&hidden, Wanted::Hidden, Context::MayWait).unwrap();
    tear(map);
    let turns: &std::cell::Cell<usize> = Box::leak(Box::default());
    *map.embedder().when_freed.borrow_mut() = Some(Box::new(move || {
        turns.set(turns.get() + 1);
        assert!(turns.get() < MOST_TURNS, "it does not end");
        tear(map);
    }));
    map.heal_all();
    // Each turn looks at 64 slots, and 512 of the map and 16 by themselves were to be looked at.
    assert!((TORN as usize..=9 * TORN as usize).contains(&turns.get()), "{turns:?}");
    *map.embedder().when_freed.borrow_mut() = None;
    map.change(&hidden, Wanted::Shown, Context::MayWait).unwrap();
    map.heal_all();
    assert_eq!(tables(map), before);
}
