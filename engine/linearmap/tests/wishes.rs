//! Lists of ranges of which not the same is wanted: all of it is made, or nothing.

use crate::common;

use std::slice::from_ref;

use common::{DATA, GIB, Live, MIB, Plan, at, cpu, leaves, painted, region, tables};
use vellum_linearmap::{Context, Leaves, Refused, Wanted};
use vellum_pagetable::Refusal;
use vellum_vmsa::{BbmLevel, Granule, Granule4K, Granule16K, Granule64K, Stage1Attributes, VirtAddr};

/// Pages of two blocks of the largest size.
fn scattered<G: Granule>(map: &Live<G>) -> Vec<std::ops::Range<VirtAddr>> {
    let page = G::SIZE_BYTES;
    [GIB + 5 * page, GIB + 700 * MIB, 2 * GIB + 3 * page, 2 * GIB + 512 * MIB].map(|from| at(map, from, page)).to_vec()
}

/// Pages that are read-only become writable, others are hidden, and each allocation that this takes fails in turn.
fn each_allocation_of_two_wishes_fails<G: Granule>(level: BbmLevel) {
    for left in 0.. {
        let map = painted::<G>(&Plan::one(GIB, 4 * GIB), cpu(level));
        map.set_memory_ro(&[at(&map, 3 * GIB, 512 * MIB)], Context::MayWait).unwrap();
        let (hidden, reset) = (scattered(&map), [at(&map, 3 * GIB + 64 * MIB, G::SIZE_BYTES)]);
        let before = (leaves(&map), tables(&map), map.embedder().out.get());
        map.embedder().left.set(left);
        match map.change_all(&[(&hidden, Wanted::Hidden), (&reset, Wanted::Default)], Context::MayWait) {
            Ok(()) => {
                assert!(left > 1, "it takes tables");
                assert!(hidden.iter().all(|page| !map.is_present(page.start)));
                let leaf = map.view().translate(reset[0].start).expect("shown");
                assert_eq!(leaf.descriptor.bits() & Stage1Attributes::READ_ONLY.bits(), 0);
                return;
            }
            Err(Refused::OutOfTables(_)) => {
                assert_eq!((leaves(&map), tables(&map), map.embedder().out.get()), before);
            }
            Err(refused) => panic!("{refused}"),
        }
    }
}

#[test]
fn a_list_of_two_wishes_is_made_whole_or_not_at_all() {
    for level in [BbmLevel::Level0, BbmLevel::Level3] {
        each_allocation_of_two_wishes_fails::<Granule4K>(level);
        each_allocation_of_two_wishes_fails::<Granule16K>(level);
        each_allocation_of_two_wishes_fails::<Granule64K>(level);
    }
    // What goes is asked for once, whatever else is.
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let before = leaves(&map);
    let (page, block) = ([at(&map, GIB + MIB, 0x1000)], [at(&map, GIB, 2 * MIB)]);
    for all in [
        [(&page[..], Wanted::ReadOnly), (&block[..], Wanted::Absent)],
        [(&block[..], Wanted::Absent), (&page[..], Wanted::Shown)],
    ] {
        let refused = map.change_all(&all, Context::MayWait).unwrap_err();
        assert_eq!(refused, Refused::Change(Refusal::Overlap(all[1].0[0].start.bits())));
        assert_eq!(leaves(&map), before);
    }
}

/// Lists that do not meet lie beside each other in one table: what one empties another still fills.
#[test]
fn a_table_that_one_list_empties_is_there_for_another() {
    let plan = Plan { leaves: Leaves::Pages, ..Plan::one(GIB, 2 * GIB) };
    let map = painted::<Granule4K>(&plan, cpu(BbmLevel::Level3));
    let (slot, first) = (at(&map, GIB, 2 * MIB), at(&map, GIB, 0x1000));
    map.remove(&[VirtAddr::new(first.end.bits())..slot.end]).unwrap();
    map.embedder().left.set(0);
    let present = Wanted::Present { displacement: GIB.wrapping_sub(first.start.bits()), attributes: DATA };
    let next = [first.end..first.end + 0x1000];
    map.change_all(&[(from_ref(&first), Wanted::Absent), (&next, present)], Context::MayWait).unwrap();
    assert!(!map.is_present(first.start) && map.is_present(next[0].start));
}

/// A page that two lists want to be different things is refused, also where one of them begins before the map.
#[test]
fn lists_of_different_wishes_do_not_meet() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let before = leaves(&map);
    let first = at(&map, GIB, 0x1000);
    let around = VirtAddr::new(first.start.bits() - 0x1000)..first.end;
    for wanted in [Wanted::Absent, Wanted::Hidden] {
        let all = [(from_ref(&first), wanted), (from_ref(&around), Wanted::ReadOnly)];
        let refused = map.change_all(&all, Context::MayWait).unwrap_err();
        assert_eq!(refused, Refused::Change(Refusal::Overlap(around.start.bits())));
        assert_eq!(leaves(&map), before);
    }
}

/// A hole is not led elsewhere, whatever is wanted before and behind it.
#[test]
fn a_hole_is_not_led_elsewhere_amid_other_wishes() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let [shown, hole, hidden] = [1, 2, 3].map(|slot| [at(&map, GIB + slot * 2 * MIB, 2 * MIB)]);
    map.remove(&hole).unwrap();
    let before = leaves(&map);
    let leading = Wanted::Leading { displacement: 1 << 40, attributes: DATA };
    let all = [(&shown[..], Wanted::ReadOnly), (&hole, leading), (&hidden, Wanted::Hidden)];
    let refused = map.change_all(&all, Context::MayWait).unwrap_err();
    assert_eq!(refused, Refused::Change(Refusal::NotMapped(hole[0].start.bits())));
    assert_eq!(leaves(&map), before);
}

/// A list whose first page could be made alone is made whole, or not at all.
#[test]
fn a_page_at_the_head_of_lists_is_not_made_alone() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    let [split, first, page] = [MIB, MIB + 0x1000, 101 * MIB].map(|from| [at(&map, GIB + from, 0x1000)]);
    map.set_direct_map_invalid(&split, Context::MayWait).unwrap();
    map.set_reserve(0);
    map.embedder().left.set(0);
    let (before, all) = (leaves(&map), [(&first[..], Wanted::ReadOnly), (&page[..], Wanted::Hidden)]);
    assert_eq!(map.change_all(&all, Context::MayWait), Err(Refused::OutOfTables(1)));
    assert_eq!(leaves(&map), before);
    map.embedder().left.set(1);
    map.change_all(&all, Context::MayWait).unwrap();
    let head = map.view().translate(first[0].start).expect("mapped");
    assert_ne!(head.descriptor.bits() & Stage1Attributes::READ_ONLY.bits(), 0);
    assert!(!map.is_present(page[0].start));
}

/// What is wanted twice is the same twice; a range of nothing meets nobody, wherever it is; and only what goes must be of the map.
#[test]
fn lists_that_agree_may_meet() {
    let plan = Plan { regions: vec![region(0, 2 * MIB, DATA), region(GIB, GIB + 4 * MIB, DATA)], ..Plan::one(0, 0) };
    let start = VirtAddr::new(common::geometry::<Granule4K>(&plan).base() + GIB);
    let map = painted::<Granule4K>(&Plan { range: Some(start..start + GIB), ..plan }, cpu(BbmLevel::Level3));
    let [outside, block, next] = [0, GIB, GIB + 2 * MIB].map(|from| [at(&map, from, 2 * MIB)]);
    let empty = [block[0].start + 0x1000..block[0].start + 0x1000];
    for all in [
        [(&block[..], Wanted::ReadOnly), (&block[..], Wanted::ReadOnly)],
        [(&block[..], Wanted::ReadOnly), (&empty[..], Wanted::Absent)],
        [(&empty[..], Wanted::Absent), (&block[..], Wanted::ReadOnly)],
        [(&outside[..], Wanted::ReadOnly), (&next[..], Wanted::Absent)],
    ] {
        map.change_all(&all, Context::MayWait).unwrap_or_else(|refused| panic!("{all:?}: {refused}"));
    }
    assert!(map.is_present(empty[0].start) && !map.is_present(next[0].start));
    // A hole is led nowhere, and filled beside what is led elsewhere.
    let displacement = GIB.wrapping_sub(block[0].start.bits());
    let leading = Wanted::Leading { displacement: displacement.wrapping_add(1 << 40), attributes: DATA };
    let present = Wanted::Present { displacement, attributes: DATA };
    map.set_direct_map_invalid(&block, Context::MayWait).unwrap();
    map.change_all(&[(&block, leading), (&next, present)], Context::MayWait).unwrap();
    assert!(map.is_present(next[0].start));
}
