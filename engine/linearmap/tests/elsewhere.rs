//! Memory that is shown elsewhere, as a realm's is that it shares: hidden, another address, and back, and the map heals.

use crate::common;

use std::slice::from_ref;

use common::{DATA, GIB, Live, MIB, Plan, at, cpu, leaves, painted, steps, tables};
use vellum_linearmap::{Context, Refused, Wanted};
use vellum_pagetable::{Refusal, Step};
use vellum_vmsa::{
    BbmLevel, Granule, Granule4K, Granule16K, Granule64K, Maintenance, PhysAddr, Stage1Attributes, VirtAddr,
};

/// What tells the unprotected half of a realm's addresses.
const UNPROTECTED: u64 = 1 << 40;
const ATTRIBUTES: Stage1Attributes = DATA.union(Stage1Attributes::AF);

fn output<G: Granule>(map: &Live<G>, address: VirtAddr) -> Option<PhysAddr> {
    map.view().translate(address).map(|found| found.output)
}

/// Pages that are led elsewhere: how far.
fn leading<G: Granule>(map: &Live<G>, at_0: VirtAddr, away: u64) -> Wanted {
    let physical = output(map, at_0).expect("mapped").bits();
    Wanted::Leading { displacement: physical.wrapping_sub(at_0.bits()).wrapping_add(away), attributes: ATTRIBUTES }
}

fn there_and_back<G: Granule>(level: BbmLevel) {
    let map = painted::<G>(&Plan::one(GIB, 2 * GIB), cpu(level));
    map.refill();
    let before = leaves(&map);
    let first = at(&map, GIB, G::SIZE_BYTES).start;
    let (shared, own) = (leading(&map, first, UNPROTECTED), leading(&map, first, 0));
    for (offset, bytes) in [(37 * MIB, 64 << 10), (64 * MIB, 32 * MIB), (127 * MIB, 2 * MIB)] {
        let range = at(&map, GIB + offset, bytes);
        for (wanted, away) in [(shared, UNPROTECTED), (own, 0)] {
            map.change(from_ref(&range), Wanted::Hidden, Context::MayWait).unwrap();
            assert_eq!(output(&map, range.start), None);
            let (changed, made) = steps(&map, from_ref(&range), wanted, Context::MayWait);
            changed.unwrap();
            let is_tlbi = |step: &Step| matches!(step, Step::Maintain(Maintenance::Invalidate(..)));
            assert!(!made.iter().any(is_tlbi), "no TLB knows what was hidden");
            for page in [range.start, VirtAddr::new(range.end.bits() - G::SIZE_BYTES)] {
                let expected = GIB + (page - first) + away;
                assert_eq!(output(&map, page), Some(PhysAddr::new(expected)));
            }
            let outside = [VirtAddr::new(range.start.bits() - 8), range.end];
            assert!(outside.into_iter().all(|near| output(&map, near).is_some_and(|to| to.bits() < UNPROTECTED)));
            map.heal_all();
        }
    }
    assert_eq!(leaves(&map), before);
}

#[test]
fn it_is_shown_elsewhere_and_comes_back_leaf_for_leaf() {
    for level in [BbmLevel::Level0, BbmLevel::Level3] {
        there_and_back::<Granule4K>(level);
        there_and_back::<Granule16K>(level);
        there_and_back::<Granule64K>(level);
    }
}

/// A page of a slot was hidden and shown, or protected, so that the slot is a table still, or a table of tables, when all of it is hidden:
/// all of it is led elsewhere nevertheless, by no licence, and nobody parks.
fn torn<G: Granule>(level: BbmLevel, bytes: u64, torn_by: &[Wanted]) {
    let map = painted::<G>(&Plan::one(GIB, 4 * GIB), cpu(level));
    map.refill();
    let before = leaves(&map);
    let all = at(&map, 2 * GIB, bytes);
    let (shared, own) = (leading(&map, all.start, UNPROTECTED), leading(&map, all.start, 0));
    for wanted in torn_by {
        map.change(&[at(&map, 2 * GIB + bytes / 2, G::SIZE_BYTES)], *wanted, Context::MayWait).unwrap();
    }
    // Whoever were to park refuses.
    map.admit(cpu(level));
    assert!(leaves(&map).len() > before.len());
    for (wanted, away) in [(shared, UNPROTECTED), (own, 0)] {
        map.change(from_ref(&all), Wanted::Hidden, Context::MayWait).unwrap();
        let (changed, made) = steps(&map, from_ref(&all), wanted, Context::MayWait);
        changed.unwrap_or_else(|refused| panic!("{level:?}, {bytes:#x} after {torn_by:?}: {refused}"));
        assert!(!made.iter().any(|step| matches!(step, Step::Maintain(Maintenance::Invalidate(..)))));
        for offset in (0..bytes).step_by(G::SIZE_BYTES as usize) {
            assert_eq!(output(&map, all.start + offset), Some(PhysAddr::new(2 * GIB + offset + away)));
        }
    }
    map.embedder().parks.set(true);
    map.heal_all();
    assert_eq!(leaves(&map), before);
}

#[test]
fn what_is_a_table_still_is_shown_elsewhere_without_a_licence() {
    for level in [BbmLevel::Level0, BbmLevel::Level1, BbmLevel::Level2, BbmLevel::Level3] {
        for torn_by in [&[Wanted::Hidden, Wanted::Shown][..], &[Wanted::ReadOnly]] {
            torn::<Granule4K>(level, 2 * MIB, torn_by);
            torn::<Granule4K>(level, GIB, torn_by);
            torn::<Granule16K>(level, 32 * MIB, torn_by);
            torn::<Granule64K>(level, 2 * MIB, torn_by);
        }
    }
}

/// The one that parks the others tolerates more than they do, and so makes no break: nothing of a list is made of which a part takes one.
#[test]
fn a_list_is_refused_whole_by_the_licence_that_it_would_be_made_by() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level0));
    let [hidden, valid] = [GIB + MIB, GIB + 5 * MIB].map(|offset| at(&map, offset, 0x1000));
    map.change(from_ref(&hidden), Wanted::Hidden, Context::MayWait).unwrap();
    map.admit(cpu(BbmLevel::Level3));
    map.embedder().parks.set(true);
    map.embedder().changer.set(BbmLevel::Level3);
    let (before, wanted) = (leaves(&map), leading(&map, valid.start, UNPROTECTED));
    let refused = map.change(&[hidden.clone(), valid.clone()], wanted, Context::MayWait);
    assert_eq!(refused, Err(Refused::Change(Refusal::NeedsBreak(valid.start.bits()))));
    assert!(leaves(&map) == before, "a part was made");
    assert_eq!((map.embedder().parked.get(), map.counters().parked, map.counters().refused), (1, 0, 1));
    map.embedder().changer.set(BbmLevel::Level0);
    map.change(&[hidden, valid], wanted, Context::MayWait).unwrap();
    assert_eq!((map.embedder().parked.get(), map.counters().parked), (2, 1));
}

/// The table of a slot that is led elsewhere in a window goes, and is counted, so that the counters tell how many tables there are.
#[test]
fn splits_without_folds_are_the_tables_that_there_are() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level0));
    let (painted, slot) = (tables(&map), at(&map, GIB + 4 * MIB, 2 * MIB));
    let more = || tables(&map) as u64 + map.counters().folds - map.counters().splits;
    map.set_memory_ro(&[at(&map, GIB + 5 * MIB, 0x1000)], Context::MayWait).unwrap();
    assert_eq!((tables(&map), more()), (painted + 2, painted as u64));
    map.change(from_ref(&slot), leading(&map, slot.start, UNPROTECTED), Context::MayWait).unwrap();
    assert_eq!((tables(&map), more()), (painted + 1, painted as u64));
}

#[test]
fn what_is_not_mapped_is_not_led_elsewhere() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let (all, page) = (at(&map, GIB + 2 * MIB, 2 * MIB), at(&map, GIB + 3 * MIB, 0x1000));
    let wanted = leading(&map, all.start, 0);
    map.remove(from_ref(&page)).unwrap();
    let before = leaves(&map);
    let beyond = at(&map, 2 * GIB, 0x1000);
    for (range, hole) in [(&page, &page), (&all, &page), (&beyond, &beyond)] {
        let refused = map.change(from_ref(range), wanted, Context::MayWait);
        assert_eq!(refused, Err(Refused::Change(Refusal::NotMapped(hole.start.bits()))));
    }
    assert!(leaves(&map) == before);
}

#[test]
fn what_is_refused_leads_where_it_led() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let (inside, beyond) = (at(&map, 2 * GIB - 0x2000, 0x1000), at(&map, GIB + MIB, 0x1000));
    let wanted = Wanted::Leading { displacement: 1 << 50, attributes: ATTRIBUTES };
    let refused = map.change(&[inside.clone(), beyond.clone()], wanted, Context::MayWait);
    assert!(matches!(refused, Err(Refused::Change(Refusal::OutputTooWide(_)))), "{refused:?}");
    assert!([inside, beyond].into_iter().all(|range| output(&map, range.start).is_some()));
}

/// With hardware dirty state a leaf with DBM is writable, whatever AP[2] says: a read-only page has none.
#[test]
fn a_page_that_becomes_read_only_loses_dbm() {
    for wanted in [Wanted::ReadOnly, Wanted::ReadOnlyExecutable] {
        for pages in [1, 3] {
            let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
            let range = at(&map, GIB + MIB, pages * Granule4K::SIZE_BYTES);
            let Wanted::Leading { displacement, .. } = leading(&map, range.start, 0) else { unreachable!() };
            let attributes = ATTRIBUTES.union(Stage1Attributes::DBM);
            map.change(from_ref(&range), Wanted::Hidden, Context::MayWait).unwrap();
            map.change(from_ref(&range), Wanted::Leading { displacement, attributes }, Context::MayWait).unwrap();
            map.change(from_ref(&range), wanted, Context::MayWait).unwrap();
            let leaf = map.view().find(range.start).unwrap().descriptor;
            let bits = leaf.bits() & (Stage1Attributes::DBM | Stage1Attributes::READ_ONLY).bits();
            assert_eq!(bits, Stage1Attributes::READ_ONLY.bits(), "{wanted:?} of {pages} pages");
        }
    }
}
