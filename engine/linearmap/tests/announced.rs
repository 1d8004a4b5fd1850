//! What is announced: each leaf that changes size in place, once for all that changes together, and nothing else.

use crate::common;

use common::{Announced, GIB, Live, MIB, Plan, at, cpu, leaves, painted};
use vellum_linearmap::{Calls, Context, NotParked, Wanted};
use vellum_pagetable::Licence;
use vellum_vmsa::{BbmLevel, Granule, Granule4K, Granule16K, Granule64K};

const PAGE: u64 = 0x1000;

/// A map whose kernel wants to hear.
fn heard<G: Granule>(level: BbmLevel) -> Live<G> {
    let map = painted::<G>(&Plan::one(GIB, 3 * GIB), cpu(level));
    *map.embedder().announced.borrow_mut() = Some(Vec::new());
    map
}

fn take<G: Granule>(map: &Live<G>) -> Announced {
    map.embedder().announced.borrow_mut().replace(Vec::new()).unwrap()
}

#[test]
fn a_leaf_that_is_split_is_announced_and_what_is_a_leaf_by_itself_is_not() {
    let map = heard::<Granule4K>(BbmLevel::Level3);
    let page = [at(&map, GIB + 5 * PAGE, PAGE)];
    map.set_memory_ro(&page, Context::MayWait).unwrap();
    assert_eq!(take(&map), [[at(&map, GIB, GIB)]]);
    map.set_memory_rw(&page, Context::MayWait).unwrap();
    map.set_direct_map_invalid(&page, Context::MayWait).unwrap();
    map.set_direct_map_valid(&page, true, Context::MayWait).unwrap();
    map.set_memory_ro(&[at(&map, 2 * GIB, GIB)], Context::MayWait).unwrap();
    assert_eq!(take(&map), Announced::new(), "nothing changes size");
    map.set_memory_ro(&[at(&map, GIB + MIB, PAGE)], Context::MayWait).unwrap();
    assert_eq!(take(&map), [[at(&map, GIB + MIB, 16 * PAGE)]], "a contiguous group");
}

/// No TLB holds two leaves of different sizes: nothing that could be announced comes of it.
#[test]
fn what_breaks_before_it_makes_is_not_announced() {
    let alone = heard::<Granule4K>(BbmLevel::Level0);
    let parking = heard::<Granule4K>(BbmLevel::Level3);
    parking.admit(cpu(BbmLevel::Level0));
    parking.embedder().parks.set(true);
    for (map, changer, is_announced) in
        [(&alone, BbmLevel::Level0, false), (&parking, BbmLevel::Level0, false), (&parking, BbmLevel::Level3, true)]
    {
        map.embedder().changer.set(changer);
        let page = [at(map, GIB + 5 * PAGE, PAGE)];
        let expected = if is_announced { vec![vec![at(map, GIB, GIB)]] } else { vec![] };
        map.set_memory_ro(&page, Context::MayWait).unwrap();
        assert_eq!((take(map), leaves(map).len() > 2), (expected.clone(), true), "a split, {changer:?}");
        map.set_memory_rw(&page, Context::MayWait).unwrap();
        map.heal_all();
        assert_eq!((take(map), leaves(map).len()), (expected, 2), "a fold, {changer:?}");
    }
}

/// In place while others are parked, too: who does not want to hear would stop here.
#[test]
fn who_does_not_want_to_hear_is_told_nothing() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 3 * GIB), cpu(BbmLevel::Level3));
    map.admit(cpu(BbmLevel::Level0));
    map.embedder().parks.set(true);
    map.embedder().changer.set(BbmLevel::Level3);
    map.set_memory_ro(&[at(&map, GIB + 5 * PAGE, PAGE)], Context::MayWait).unwrap();
    assert!(leaves(&map).len() > 2);
    map.set_memory_rw(&[at(&map, GIB + 5 * PAGE, PAGE)], Context::MayWait).unwrap();
    map.heal_all();
    assert_eq!(leaves(&map).len(), 2);
}

#[test]
fn a_list_is_announced_once() {
    let map = heard::<Granule4K>(BbmLevel::Level3);
    let page = |from| at(&map, from, PAGE);
    map.set_memory_ro(&[page(GIB + MIB), page(2 * GIB), page(GIB + 9 * MIB)], Context::MayWait).unwrap();
    assert_eq!(take(&map), [[at(&map, GIB, GIB), at(&map, 2 * GIB, GIB)]]);
    // A range that begins in one leaf and ends in another: what lies between stays as large as it is.
    map.set_memory_ro(&[at(&map, GIB + 36 * MIB - PAGE, 64 * MIB)], Context::MayWait).unwrap();
    assert_eq!(take(&map), [[at(&map, GIB + 32 * MIB, 32 * MIB), at(&map, GIB + 96 * MIB, 32 * MIB)]]);
}

#[test]
fn beside_a_part_of_a_leaf_all_of_another_is_not_announced() {
    let map = heard::<Granule4K>(BbmLevel::Level3);
    map.set_memory_ro(&[at(&map, GIB, PAGE), at(&map, 2 * GIB, GIB)], Context::MayWait).unwrap();
    assert_eq!(take(&map), [[at(&map, GIB, GIB)]]);
}

/// The last page of one leaf and the first of the next: each end of a range asks after its own leaf.
#[test]
fn a_range_at_the_edge_of_a_leaf_is_of_that_leaf_alone() {
    for (from, pages, announced) in [
        (2 * GIB - PAGE, 1, &[GIB][..]),
        (2 * GIB - 2 * PAGE, 2, &[GIB]),
        (2 * GIB, 1, &[2 * GIB]),
        (2 * GIB - PAGE, 2, &[GIB, 2 * GIB]),
        (3 * GIB - PAGE, 1, &[2 * GIB]),
    ] {
        let map = heard::<Granule4K>(BbmLevel::Level3);
        map.set_memory_ro(&[at(&map, from, pages * PAGE)], Context::MayWait).unwrap();
        let announced: Vec<_> = announced.iter().map(|from| at(&map, *from, GIB)).collect();
        assert_eq!(take(&map), [announced], "{from:#x}");
    }
}

/// Whichever slot of a leaf was the last to stand apart.
#[test]
fn a_leaf_that_folds_is_announced_whole_wherever_it_was_split() {
    for slot in [0, 1, 15, 16, 510, 511] {
        let map = heard::<Granule4K>(BbmLevel::Level3);
        let page = [at(&map, GIB + slot * 2 * MIB + MIB, PAGE)];
        map.set_memory_ro(&page, Context::MayWait).unwrap();
        map.set_memory_rw(&page, Context::MayWait).unwrap();
        take(&map);
        map.heal_all();
        assert_eq!(take(&map), [[at(&map, GIB, GIB)]], "slot {slot}");
    }
}

#[test]
fn of_very_many_leaves_the_last_are_one() {
    let map = heard::<Granule4K>(BbmLevel::Level3);
    map.set_memory_ro(&[at(&map, GIB, PAGE)], Context::MayWait).unwrap();
    take(&map);
    let pages: Vec<_> = (1..12).map(|number| at(&map, GIB + number * 64 * MIB, PAGE)).collect();
    map.set_memory_ro(&pages, Context::MayWait).unwrap();
    let [announced] = &take(&map)[..] else { panic!("one announcement") };
    assert_eq!(announced.len(), 8);
    assert_eq!(announced[7], at(&map, GIB + 8 * 64 * MIB, 3 * 64 * MIB + 32 * MIB));
}

#[test]
fn what_folds_is_announced_as_the_leaf_that_it_becomes() {
    let map = heard::<Granule4K>(BbmLevel::Level3);
    let page = [at(&map, GIB + 5 * PAGE, PAGE)];
    map.set_memory_ro(&page, Context::MayWait).unwrap();
    take(&map);
    map.heal_all();
    assert_eq!(take(&map), Announced::new(), "it is protected yet");
    map.set_memory_rw(&page, Context::MayWait).unwrap();
    map.heal_all();
    assert_eq!(take(&map), [[at(&map, GIB, GIB)]]);
    assert_eq!(leaves(&map).len(), 2);
}

#[test]
fn groups_that_form_beside_what_stays_split_are_announced() {
    let map = heard::<Granule4K>(BbmLevel::Level3);
    let pages = [at(&map, GIB, PAGE), at(&map, GIB + MIB, PAGE)];
    map.set_memory_ro(&pages, Context::MayWait).unwrap();
    map.set_memory_rw(&pages[1..], Context::MayWait).unwrap();
    take(&map);
    map.heal_all();
    assert_eq!(take(&map), [[at(&map, GIB, 2 * MIB)]], "the slot");
}

/// To announce changes nothing of what is made.
fn is_the_same<G: Granule>() {
    let [silent, heard] = [painted::<G>(&Plan::one(GIB, 3 * GIB), cpu(BbmLevel::Level3)), heard(BbmLevel::Level3)];
    for wanted in Wanted::ALL {
        for from in [GIB + 7 * G::SIZE_BYTES, GIB + 600 * MIB, 2 * GIB] {
            let [one, other] =
                [&silent, &heard].map(|map| map.change(&[at(map, from, G::SIZE_BYTES)], wanted, Context::MayWait));
            assert_eq!(one, other);
            assert_eq!(leaves(&silent), leaves(&heard));
        }
        for map in [&silent, &heard] {
            map.heal_all();
        }
        assert_eq!(leaves(&silent), leaves(&heard));
    }
    assert_eq!(silent.counters(), heard.counters());
}

#[test]
fn to_announce_changes_nothing_else() {
    is_the_same::<Granule4K>();
    is_the_same::<Granule16K>();
    is_the_same::<Granule64K>();
}

/// A kernel that says nothing of announcements is asked for none; what it is given to resize is resized.
#[test]
fn who_says_nothing_hears_nothing() {
    struct Silent;
    impl Calls for Silent {
        fn in_window(&self, change: &mut dyn FnMut(&Licence<'_>)) {
            change(&Licence::break_before_make(&()));
        }
    }
    let mut resized = 0;
    Silent.announce(&[], &mut || resized += 1);
    Silent.in_window(&mut |_| resized += 1);
    assert_eq!((Silent.announces(), resized), (false, 2));
    assert_eq!(Silent.park(&mut |_| panic!("nobody is parked")), Err(NotParked(None)));
}
