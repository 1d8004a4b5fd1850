//! Every moment of boot has a way: nothing is refused for the moment it comes at.

use crate::common;

use common::{GIB, Live, MIB, Plan, at, cpu, leaves, painted};
use vellum_linearmap::{Context, Cpu, Levels, Stage, Wanted};
use vellum_pagetable::{TlbFeatures, Tolerance};
use vellum_vmsa::{BbmLevel, Granule, Granule4K, Granule16K, Granule64K, IdRegisters, Midr};

/// One change of every kind, at a place of its own, of a part of a leaf and of a whole one.
fn one_of_every_kind<G: Granule>(map: &Live<G>, moment: u64) {
    let pages = at(map, GIB + moment * 64 * MIB + G::SIZE_BYTES, 3 * G::SIZE_BYTES);
    for (number, context) in [Context::MayWait, Context::Atomic].into_iter().enumerate() {
        let whole = at(map, GIB + number as u64 * GIB, GIB);
        for wanted in Wanted::ALL.into_iter().chain([Wanted::NotExecutable]) {
            map.change(&[pages.clone(), whole.clone()], wanted, context).unwrap();
        }
        map.set_direct_map_valid(std::slice::from_ref(&pages), false, context).unwrap();
        assert!(!map.is_present(pages.start) && map.is_present(pages.end));
        map.set_direct_map_valid(std::slice::from_ref(&pages), true, context).unwrap();
        assert!(map.is_present(pages.start));
        map.refill();
    }
    map.heal(8);
    map.heal_all();
}

/// A CPU that is admitted is not alone with the map, whether or not anybody said that others would come.
#[test]
fn an_admission_ends_being_alone() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    map.admit(cpu(BbmLevel::Level3));
    assert_eq!(map.with_standing(|standing| (standing.stage(), standing.late())), (Stage::Starting, 0));
}

fn through_boot<G: Granule>(first: BbmLevel, others: &[BbmLevel]) {
    let map = painted::<G>(&Plan::one(GIB, 3 * GIB), cpu(first));
    map.refill();
    map.embedder().parks.set(true);
    let painted = leaves(&map);
    let stage = || map.with_standing(|standing| (standing.stage(), standing.census().cpus(), standing.late()));
    one_of_every_kind(&map, 0);
    assert_eq!(stage(), (Stage::Alone, 1, 0));
    map.start_others();
    one_of_every_kind(&map, 1);
    assert_eq!(stage(), (Stage::Starting, 1, 0));
    let (late, early) = others.split_last().unwrap();
    for (number, &other) in early.iter().enumerate() {
        map.admit(cpu(other));
        one_of_every_kind(&map, 2);
        assert_eq!(stage(), (Stage::Starting, number + 2, 0));
    }
    map.settle();
    one_of_every_kind(&map, 3);
    map.admit(cpu(*late));
    one_of_every_kind(&map, 4);
    assert_eq!(stage(), (Stage::Settled, others.len() + 1, 1));
    let weakest = others.iter().fold(first, |weakest, &level| weakest.min(level));
    assert_eq!(map.with_standing(|standing| standing.census().weakest().level()), weakest);
    let counters = map.counters();
    let refused = counters.refused + counters.not_parked + counters.out_of_tables + counters.reserve_dry;
    assert_eq!((refused, leaves(&map)), (0, painted));
}

#[test]
fn no_moment_of_boot_refuses_a_change() {
    use BbmLevel::{Level0, Level1, Level3};
    for others in [[Level3, Level3], [Level0, Level3], [Level3, Level0]] {
        through_boot::<Granule4K>(Level3, &others);
        through_boot::<Granule4K>(Level1, &others);
    }
    through_boot::<Granule16K>(Level3, &[Level3, Level3]);
    through_boot::<Granule64K>(Level0, &[Level3, Level0]);
}

#[test]
fn one_cpu_that_tolerates_nothing_has_a_window_and_two_park() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level0));
    let page = [at(&map, GIB + MIB, 0x1000)];
    map.set_memory_ro(&page, Context::MayWait).unwrap();
    assert_eq!((map.embedder().windows.get(), map.counters().windows), (1, 1));
    // A page changes in place, whoever runs.
    map.set_memory_rw(&page, Context::MayWait).unwrap();
    assert_eq!(map.embedder().windows.get(), 1);
    map.heal_all();
    assert_eq!((map.embedder().windows.get(), map.counters().folds), (2, 2));
    map.embedder().parks.set(true);
    map.admit(cpu(BbmLevel::Level3));
    map.set_memory_ro(&page, Context::MayWait).unwrap();
    assert_eq!((map.embedder().windows.get(), map.embedder().parked.get()), (2, 1));
}

#[test]
fn boot_never_goes_back() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level3));
    map.settle();
    map.start_others();
    assert_eq!(map.with_standing(|standing| standing.stage()), Stage::Settled);
}

#[test]
fn the_level_falls_and_never_rises_and_so_does_what_tlb_maintenance_can_do() {
    let map = painted::<Granule4K>(&Plan::one(GIB, 2 * GIB), cpu(BbmLevel::Level2));
    let read = || map.with_standing(|standing| (standing.census().weakest().level(), standing.tlb()));
    let able = TlbFeatures { range: true, level_hints: true, repeat: false };
    assert_eq!(read(), (BbmLevel::Level2, able));
    map.admit(Cpu { tlb: TlbFeatures { range: false, ..able }, ..cpu(BbmLevel::Level3) });
    assert_eq!(read(), (BbmLevel::Level2, TlbFeatures { range: false, ..able }));
    map.admit(Cpu { tlb: TlbFeatures { level_hints: false, ..able }, ..cpu(BbmLevel::Level1) });
    assert_eq!(read(), (BbmLevel::Level1, TlbFeatures::NONE));
    map.admit(Cpu { tlb: TlbFeatures { repeat: true, ..able }, ..cpu(BbmLevel::Level3) });
    map.admit(cpu(BbmLevel::Level3));
    assert_eq!(read(), (BbmLevel::Level1, TlbFeatures { repeat: true, ..TlbFeatures::NONE }));
}

#[test]
fn what_was_told_overrides_what_a_cpu_says() {
    let silent = IdRegisters::default();
    let (ampere_one, a57) = (Midr::new(0xc00f_ac30), Midr::new(0x410f_d070));
    let told = Levels {
        all: Some(BbmLevel::Level1),
        single: &[(2, BbmLevel::Level0), (3, BbmLevel::Level3), (2, BbmLevel::Level2)],
    };
    let level = |levels: Levels<'_>, number, midr| levels.tolerance(number, &silent, midr, true).level();
    assert_eq!(level(Levels::default(), 0, a57), BbmLevel::Level0);
    assert_eq!(level(Levels::default(), 0, ampere_one), BbmLevel::Level3);
    assert_eq!(level(told, 0, ampere_one), BbmLevel::Level1);
    assert_eq!((level(told, 2, a57), level(told, 3, a57)), (BbmLevel::Level2, BbmLevel::Level3));
    assert_eq!(told.tolerance(2, &silent, a57, true), Tolerance::new(BbmLevel::Level2, true));
}
