//! Memory that comes and goes: against a naive model, with every allocation failing in turn, and as before once all is back.

use crate::common;

use std::ops::Range;
use std::slice::from_ref;

use common::{DATA, GIB, Live, MIB, Plan, at, cpu, leaves, painted, region, tables};
use proptest::prelude::*;
use vellum_linearmap::{Context, Leaves, NotParked, Refused, Wanted};
use vellum_pagetable::{Refusal, Step};
use vellum_vmsa::{
    BbmLevel, Descriptor, Granule, Granule4K, Granule16K, Granule64K, Maintenance, Stage1Attributes, VirtAddr,
};

/// Memory of two banks, and what is linear map of it.
fn plan() -> Plan {
    let range = VirtAddr::new(0)..VirtAddr::new(0);
    Plan {
        range: Some(range),
        regions: vec![region(GIB, 2 * GIB + 36 * MIB, DATA), region(3 * GIB, 3 * GIB + 2 * MIB, DATA)],
        ..Plan::one(0, 0)
    }
}

fn map<G: Granule>(plan: &Plan, level: BbmLevel) -> Live<G> {
    let base = common::geometry::<G>(plan).base();
    let map = painted::<G>(
        &Plan { range: Some(VirtAddr::new(base)..VirtAddr::new(base + 4 * GIB)), ..plan.clone() },
        cpu(level),
    );
    assert!(map.refill());
    map
}

fn add<G: Granule>(map: &Live<G>, ranges: &[Range<VirtAddr>]) -> Result<(), Refused> {
    // Without the access flag, and with DBM: it is painted with the one, and without the other.
    map.add(ranges, 0u64.wrapping_sub(map.view().geometry().base()), DATA.union(Stage1Attributes::DBM))
}

/// All that must be as it was: leaves, tables, pages that are out.
fn state<G: Granule>(map: &Live<G>) -> (Vec<(u64, u64, Descriptor)>, usize, usize) {
    // What comes may have taken the spare tables that there were.
    map.refill();
    (leaves(map), tables(map), map.embedder().out.get())
}

/// The tables that the counters tell of are those that there are.
fn check_counters<G: Granule>(map: &Live<G>, painted: usize) {
    let counters = map.counters();
    assert_eq!(painted as u64 + counters.splits - counters.folds, tables(map) as u64);
}

/// Pages of a block, whole blocks, what ends amid two blocks, all of a bank.
fn parts<G: Granule>(map: &Live<G>) -> Vec<Vec<Range<VirtAddr>>> {
    let page = G::SIZE_BYTES;
    vec![
        vec![at(map, GIB + 5 * page, page)],
        vec![at(map, GIB + 64 * MIB, 2 * MIB), at(map, GIB + 512 * MIB + page, 2 * MIB)],
        vec![at(map, 2 * GIB - 3 * page, 32 * MIB + 6 * page)],
        vec![at(map, GIB, GIB + 36 * MIB), at(map, 3 * GIB, 2 * MIB)],
    ]
}

const PARTS: usize = 4;

fn each_allocation_fails<G: Granule>(level: BbmLevel, part: usize) {
    let first = state(&map::<G>(&plan(), level));
    // What is to be added was removed before.
    for is_back in [false, true] {
        for left in 0.. {
            let map = map::<G>(&plan(), level);
            let (ranges, painted) = (parts(&map)[part].clone(), first.1);
            if is_back {
                map.remove(&ranges).unwrap();
                map.heal_all();
            }
            let (before, counted) = (state(&map), map.counters());
            map.embedder().left.set(left);
            let changed = if is_back { add(&map, &ranges) } else { map.remove(&ranges) };
            match changed {
                Ok(()) => {
                    let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
                    assert_eq!(map.counters().removed, bytes);
                    assert_eq!(map.counters().added, if is_back { bytes } else { 0 });
                    check_counters(&map, painted);
                    map.embedder().left.set(usize::MAX);
                    assert!(map.refill());
                    if is_back {
                        map.heal_all();
                        assert_eq!(state(&map), first, "part {part}");
                    }
                    break;
                }
                Err(Refused::OutOfTables(_)) => {
                    assert_eq!(state(&map), before);
                    let now = map.counters();
                    assert_eq!(
                        (now.added, now.removed, now.changes),
                        (counted.added, counted.removed, counted.changes)
                    );
                }
                Err(refused) => panic!("{refused}"),
            }
        }
    }
}

#[test]
fn every_allocation_that_fails_leaves_the_map_as_it_was_and_what_comes_back_heals() {
    for part in 0..PARTS {
        each_allocation_fails::<Granule4K>(BbmLevel::Level3, part);
        each_allocation_fails::<Granule4K>(BbmLevel::Level0, part);
        each_allocation_fails::<Granule16K>(BbmLevel::Level3, part);
        each_allocation_fails::<Granule64K>(BbmLevel::Level0, part);
    }
}

/// A table goes with the last that it holds, without healing, and before the call returns.
#[test]
fn a_table_that_holds_nothing_goes_at_once() {
    for leaves_may_be in [Leaves::Largest, Leaves::Pages] {
        let map = map::<Granule4K>(&Plan { leaves: leaves_may_be, ..plan() }, BbmLevel::Level3);
        let (painted, first) = (tables(&map), state(&map));
        let block = at(&map, 2 * GIB + 2 * MIB, 2 * MIB);
        let cut = block.start + 7 * 0x1000;
        map.remove(&[block.start..cut]).unwrap();
        let split = tables(&map);
        map.remove(&[cut..block.end]).unwrap();
        assert_eq!(tables(&map), split - 1, "the table of pages is empty");
        check_counters(&map, painted);
        // The same in one list, whose ends meet.
        add(&map, from_ref(&block)).unwrap();
        map.heal_all();
        assert_eq!(state(&map), first);
        map.remove(&[block.start..cut, cut..block.end]).unwrap();
        assert_eq!(tables(&map), split - 1);
        add(&map, &[cut..block.end, block.start..cut]).unwrap();
        map.heal_all();
        assert_eq!(state(&map), first);
        // A bank that has the tables of both levels for itself.
        map.remove(&[at(&map, 3 * GIB, 2 * MIB)]).unwrap();
        let gone = if leaves_may_be == Leaves::Pages { 2 } else { 1 };
        assert_eq!(tables(&map), painted - gone);
        check_counters(&map, painted);
        add(&map, &[at(&map, 3 * GIB, 2 * MIB)]).unwrap();
        assert_eq!(state(&map), first);
        check_counters(&map, painted);
    }
}

/// The table goes in which a range ends: with the first page of that table, or with the last that it holds.
#[test]
fn the_table_in_which_a_range_ends_goes() {
    let page = Granule4K::SIZE_BYTES;
    for end in [2 * GIB + page, 2 * GIB + 2 * MIB - page] {
        let start = 2 * GIB - 2 * MIB;
        let map = painted::<Granule4K>(&Plan::one(start, end), cpu(BbmLevel::Level3));
        map.remove(&[at(&map, start, end - start)]).unwrap();
        assert_eq!(tables(&map), 1, "the root is left of what ended at {end:#x}");
    }
}

/// What lies before the map does not go, be it mapped, nor does anything come there.
#[test]
fn what_lies_before_the_map_is_not_of_it() {
    let plan = Plan { regions: vec![region(0, 2 * MIB, DATA), region(GIB, GIB + 2 * MIB, DATA)], ..Plan::one(0, 0) };
    let start = VirtAddr::new(common::geometry::<Granule4K>(&plan).base() + GIB);
    let map = painted::<Granule4K>(&Plan { range: Some(start..start + GIB), ..plan }, cpu(BbmLevel::Level3));
    let (before, behind) = (at(&map, 0, 2 * MIB), at(&map, 2 * MIB, 2 * MIB));
    let refused = |range: &Range<VirtAddr>| Err(Refused::Change(Refusal::OutOfRange(range.start.bits())));
    assert_eq!(map.remove(from_ref(&before)), refused(&before));
    assert_eq!(add(&map, from_ref(&behind)), refused(&behind));
}

/// TLBs have forgotten what goes before the call returns; what comes takes none to forget.
#[test]
fn what_goes_is_forgotten_and_what_comes_costs_no_tlbi() {
    let map = map::<Granule4K>(&plan(), BbmLevel::Level3);
    let steps = |change: &dyn Fn()| {
        let _ = map.embedder().machine.memory.take_steps();
        change();
        let steps = map.embedder().machine.memory.take_steps();
        steps.iter().filter(|step| matches!(step, Step::Maintain(Maintenance::Invalidate(..)))).count()
    };
    let block = at(&map, GIB + 2 * MIB, 2 * MIB);
    assert_eq!(steps(&|| map.remove(from_ref(&block)).unwrap()), 1);
    assert!(!map.is_present(block.start));
    assert_eq!(steps(&|| add(&map, from_ref(&block)).unwrap()), 0);
    assert!(map.is_present(block.start));
}

/// What was withheld when the map was painted is as if it had been there, once it has come.
fn withheld_comes<G: Granule>() {
    let withheld = |bytes| Plan { regions: vec![region(GIB, 2 * GIB - bytes, DATA)], ..plan() };
    let whole = leaves(&map::<G>(&withheld(0), BbmLevel::Level3));
    for bytes in [2 * MIB, 32 * MIB, 64 * MIB + G::SIZE_BYTES, 512 * MIB] {
        let map = map::<G>(&withheld(bytes), BbmLevel::Level3);
        add(&map, &[at(&map, 2 * GIB - bytes, bytes)]).unwrap();
        map.heal_all();
        assert_eq!(leaves(&map), whole, "{bytes:#x} bytes");
    }
}

#[test]
fn what_was_withheld_is_as_if_it_had_been_there() {
    withheld_comes::<Granule4K>();
    withheld_comes::<Granule16K>();
    withheld_comes::<Granule64K>();
}

#[test]
fn what_cannot_be_is_refused_whole() {
    let map = map::<Granule4K>(&plan(), BbmLevel::Level3);
    let before = state(&map);
    let page = |number: u64| at(&map, GIB + number * 0x1000, 0x1000);
    let at_bank = at(&map, 3 * GIB, 2 * MIB);
    // The last page of the map, and one behind it.
    let (tail, behind) = (at(&map, 4 * GIB - 0x1000, 0x1000), at(&map, 4 * GIB - 0x1000, 0x2000));
    let refused = |refusal| Err(Refused::Change(refusal));
    let cases = [
        // There is none, or there is some.
        (
            map.remove(&[page(1), at(&map, 2 * GIB + 36 * MIB, 0x1000)]),
            Refusal::NotMapped(at(&map, 2 * GIB + 36 * MIB, 0).start.bits()),
        ),
        (add(&map, &[at(&map, 5 * GIB / 2, 0x1000), at_bank.clone()]), Refusal::AlreadyMapped(at_bank.start.bits())),
        // Twice the same page.
        (map.remove(&[page(1), page(0).start..page(4).end]), Refusal::Overlap(page(0).start.bits())),
        (map.remove(&[page(0).start..page(4).end, page(4)]), Refusal::Overlap(page(4).start.bits())),
        // Not of the map.
        (add(&map, from_ref(&behind)), Refusal::OutOfRange(behind.start.bits())),
        (map.remove(&[page(4).start..page(1).end]), Refusal::OutOfRange(page(4).start.bits())),
        (map.remove(&[page(1).start..page(1).end + 1]), Refusal::Misaligned((page(1).end + 1).bits())),
    ];
    for (number, (changed, refusal)) in cases.into_iter().enumerate() {
        assert_eq!(changed, refused(refusal), "case {number}");
    }
    assert_eq!(map.remove(&[page(1)]), Ok(()));
    assert_eq!(map.remove(&[page(1)]), refused(Refusal::NotMapped(page(1).start.bits())));
    add(&map, &[page(1)]).unwrap();
    map.remove(&[]).and(map.remove(&[page(1).start..page(1).start])).unwrap();
    assert_eq!(map.remove(&[page(2), page(3)]), Ok(()), "neighbours do not overlap");
    add(&map, &[page(3), page(2)]).unwrap();
    // All of it, up to its end.
    add(&map, from_ref(&tail)).and(map.remove(&[tail])).unwrap();
    map.heal_all();
    assert_eq!(state(&map), before);
}

/// What splits a leaf that not every CPU tolerates takes others to park; what cuts none does not, nor does what comes.
#[test]
fn cpus_park_for_what_cuts_a_leaf_alone() {
    let map = map::<Granule4K>(&plan(), BbmLevel::Level0);
    map.admit(cpu(BbmLevel::Level3));
    map.settle();
    let (before, page) = (leaves(&map), at(&map, GIB + MIB, 0x1000));
    assert_eq!(map.remove(from_ref(&page)), Err(Refused::NotParked(NotParked(Some(1)))));
    assert_eq!(leaves(&map), before);
    let bank = at(&map, 3 * GIB, 2 * MIB);
    map.remove(from_ref(&bank)).unwrap();
    add(&map, &[bank]).unwrap();
    assert_eq!(map.embedder().parked.get(), 0);
    map.embedder().parks.set(true);
    map.remove(from_ref(&page)).unwrap();
    assert_eq!(map.embedder().parked.get(), 1);
    add(&map, &[page]).unwrap();
    map.heal_all();
    assert_eq!(leaves(&map), before);
}

/// In atomic context tables come out of the reserve, or the change is refused.
#[test]
fn a_dry_reserve_refuses() {
    let map = map::<Granule4K>(&plan(), BbmLevel::Level3);
    let (page, full) = (at(&map, GIB + MIB, 0x1000), map.reserve());
    map.change(from_ref(&page), Wanted::Absent, Context::Atomic).unwrap();
    assert_eq!(map.reserve(), full - 2);
    map.set_reserve(0);
    let other = at(&map, GIB + 9 * MIB, 0x1000);
    assert_eq!(map.change(&[other], Wanted::Absent, Context::Atomic), Err(Refused::ReserveDry(1)));
}

/// A step of a random run: what, from which page on, how many.
type Random = (usize, u64, u32, u8);

/// Pages of the map, each of them absent or as the attributes say.
fn run<G: Granule>(level: BbmLevel, steps: &[Random]) {
    let map = map::<G>(&plan(), level);
    let (first, painted, page) = (state(&map), tables(&map), G::SIZE_BYTES);
    let (start, count) = (GIB, (GIB + 36 * MIB) / page);
    // What a page may do: nothing where there is none.
    let mut model = vec![Some((true, true)); count as usize];
    for &(what, from, log, heals) in steps {
        let from = from % count;
        let to = (from + (1 << log)).min(count);
        let range = at(&map, start + from * page, (to - from) * page);
        let pages = &mut model[from as usize..to as usize];
        let (are_all, are_none) = (pages.iter().all(Option::is_some), pages.iter().all(Option::is_none));
        let (changed, is_possible) = match what {
            0 => (map.remove(&[range]), are_all),
            1 => (add(&map, &[range]), are_none),
            2 => (map.set_memory_ro(&[range], Context::MayWait), are_all),
            3 => (map.set_direct_map_invalid(&[range], Context::MayWait), are_all),
            _ => (map.set_direct_map_default(&[range], Context::MayWait), are_all),
        };
        assert_eq!(changed.is_ok(), is_possible, "{what} of {from}..{to}: {changed:?}");
        if is_possible {
            for page in pages {
                *page = match what {
                    0 => None,
                    1 => Some((true, true)),
                    2 => page.map(|(_, is_seen)| (false, is_seen)),
                    3 => page.map(|(is_written, _)| (is_written, false)),
                    _ => Some((true, true)),
                };
            }
        }
        match heals {
            0 => map.heal_all(),
            heals => (1..heals).for_each(|_| _ = map.heal(3)),
        }
        check(&map, start, &model);
        check_counters(&map, painted);
    }
    // What has gone comes back, in runs; then all is as it was.
    let mut at_page = 0;
    for run in model.chunk_by(|one, other| one.is_some() == other.is_some()) {
        let range = at(&map, start + at_page * page, run.len() as u64 * page);
        if run[0].is_none() {
            add(&map, &[range]).unwrap()
        } else {
            map.set_direct_map_default(&[range], Context::MayWait).unwrap()
        }
        at_page += run.len() as u64;
    }
    map.heal_all();
    assert!(map.refill());
    assert_eq!(state(&map), first);
}

/// Every leaf holds pages of the model alone, as they are there.
fn check<G: Granule>(map: &Live<G>, start: u64, model: &[Option<(bool, bool)>]) {
    let mut seen = vec![None; model.len()];
    for (from, bytes, leaf) in leaves(map).into_iter().filter(|(from, ..)| *from < 3 * GIB) {
        let attributes = Stage1Attributes::from_bits_retain(leaf.bits());
        assert!(attributes.contains(Stage1Attributes::AF) && !attributes.contains(Stage1Attributes::DBM));
        let may = (!attributes.contains(Stage1Attributes::READ_ONLY), leaf.is_valid());
        let first = ((from - start) / G::SIZE_BYTES) as usize;
        seen[first..first + (bytes / G::SIZE_BYTES) as usize].fill(Some(may));
    }
    assert!(seen == model, "page {:?}", (0..model.len()).find(|page| seen[*page] != model[*page]));
}

fn random() -> impl Strategy<Value = Vec<Random>> {
    let log = prop_oneof![2 => 0u32..5, 3 => 0u32..19];
    prop::collection::vec((0usize..6, any::<u64>(), log, 0u8..5), 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_page_is_there_or_not_as_asked_4k(steps in random(), tolerates in any::<bool>()) {
        run::<Granule4K>(if tolerates { BbmLevel::Level3 } else { BbmLevel::Level0 }, &steps);
    }

    #[test]
    fn every_page_is_there_or_not_as_asked_16k(steps in random(), tolerates in any::<bool>()) {
        run::<Granule16K>(if tolerates { BbmLevel::Level3 } else { BbmLevel::Level1 }, &steps);
    }

    #[test]
    fn every_page_is_there_or_not_as_asked_64k(steps in random(), tolerates in any::<bool>()) {
        run::<Granule64K>(if tolerates { BbmLevel::Level3 } else { BbmLevel::Level0 }, &steps);
    }
}

/// The range ends at 2^64, of which an address has no word.
#[test]
fn memory_goes_up_to_the_last_address() {
    let bytes = 1 << 39;
    let map = painted::<Granule4K>(&Plan::one(bytes - 2 * GIB, bytes), cpu(BbmLevel::Level3));
    let start = at(&map, bytes - 4 * MIB, MIB).start;
    let (before, page) = (tables(&map), Granule4K::SIZE_BYTES);
    // Of the last page a table of each level is needed; all of it goes with what the last table held.
    map.remove(&[start..VirtAddr::new(0u64.wrapping_sub(page))]).unwrap();
    assert!(tables(&map) > before);
    map.remove(&[VirtAddr::new(0u64.wrapping_sub(page))..VirtAddr::new(0)]).unwrap();
    assert_eq!(leaves(&map).last().map(|(at, bytes, _)| at + bytes), Some(bytes - 4 * MIB));
    assert_eq!(tables(&map), before + 1);
}
