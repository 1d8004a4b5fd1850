//! Lists of ranges of which not the same is wanted: all of it is made, or nothing.

use crate::common;

use std::slice::from_ref;

use common::{DATA, GIB, Live, MIB, Plan, at, cpu, leaves, painted, tables};
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
