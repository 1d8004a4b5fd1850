//! Address spaces on the simulated machine, under as many random schedules as a test has time for.

use checks::levels::Levels;
use checks::spaces::{self, Done, LockError, Orders, Ran};
use vmsa::maintenance::Barrier;
use vmsa::{BbmLevel, Maintenance, TlbiOp};

fn run(seed: u64, orders: &Orders) -> Ran {
    spaces::run(seed, orders).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"))
}

#[test]
fn cpus_fault_fork_protect_and_unmap_against_each_other() {
    let runs: Vec<Ran> = (0..RUNS).map(|seed| run(seed, &Orders::PLAIN)).collect();
    let count = |what: fn(&Ran) -> u64| runs.iter().map(what).sum::<u64>();
    let (faults, atomics) = (count(|ran| ran.done.faults), count(|ran| ran.done.atomics));
    assert!(faults > RUNS, "{faults} faults in {} events", count(|ran| ran.events));
    assert!(atomics > RUNS / 16, "{atomics} atomics");
    assert!(count(|ran| ran.done.moved) > RUNS / 4, "moves");
    assert!(count(|ran| ran.folios) > RUNS / 8, "folios");
    assert!(count(|ran| ran.zeros) > RUNS / 16, "blocks of zeros");
}

/// Contiguous groups begin and end, by `mprotect` of parts and rights given back, MADV_DONTNEED and `munmap` of parts, forks and the writes behind
/// them, under programs of other CPUs, at every level and on CPUs that differ.
#[test]
fn groups_begin_and_end_at_every_level_and_mix() {
    let mixes = [Levels::mixed([3, 0, 3, 3]), Levels::mixed([2, 3, 1, 3]), Levels::mixed([3, 2, 3, 3])];
    for levels in (0..4).map(Levels::all).chain(mixes) {
        let orders = Orders { groups: Some(levels), calls: 10, ..Orders::PLAIN };
        let has_all = |done: &Done| [done.made, done.ended, done.given, done.forked].iter().all(|count| *count > 0);
        let (mut done, mut seeds) = (Done::default(), 0..RUNS);
        // Rare ones take more runs.
        while let Some(seed) = seeds.next().filter(|&seed| seed < RUNS / 7 || !has_all(&done)) {
            done = done.with(run(seed, &orders).done);
        }
        println!("{}: {done:?}", levels.describe(3));
        assert!(has_all(&done), "{levels:?}: {done:?}");
    }
}

/// Who ends a group in place completes that for every walker: the next to change one of its pages may be another CPU, whose DSB is not for
/// these stores. Both seeds met the group again behind that CPU's TLBI where the DSB of `split_group` was missing.
#[test]
fn a_group_that_another_cpu_has_ended_is_not_met_behind_a_tlbi() {
    let orders = Orders { groups: Some(Levels::all(3)), calls: 10, ..Orders::PLAIN };
    for seed in [24, 111] {
        run(seed, &orders);
    }
}

#[test]
fn a_leaf_that_changes_size_where_a_cpu_does_not_tolerate_it_is_found() {
    for levels in [Levels::all(0), Levels::mixed([3, 0, 3, 3])] {
        let orders = Orders { believed: Some(BbmLevel::Level3), groups: Some(levels), calls: 10, ..Orders::PLAIN };
        let is_found = |seed| spaces::run(seed, &orders).is_err_and(|wrong| wrong.contains("V6"));
        assert!((0..RUNS).any(is_found), "{levels:?}");
    }
}

#[test]
fn a_space_that_is_capped_breaks_first_where_the_system_would_not() {
    let orders = Orders { believed: Some(BbmLevel::Level3), is_capped: true, ..Orders::PLAIN };
    (0..RUNS / 2).for_each(|seed| {
        run(seed, &orders);
    });
}

#[test]
fn a_fault_that_takes_a_part_of_another_page_is_found() {
    let orders = Orders { lock_error: Some(LockError::PartOfCpu), ..Orders::PLAIN };
    assert!((0..RUNS).any(|seed| spaces::run(seed, &orders).is_err()));
}

#[test]
fn a_whole_that_does_not_wait_for_a_part_is_found() {
    for part in [1, 3, 4, 5] {
        let orders = Orders { lock_error: Some(LockError::Forgets(part)), ..Orders::PLAIN };
        assert!((0..RUNS).any(|seed| spaces::run(seed, &orders).is_err()), "part {part}");
    }
}

/// A CPU that marks nothing by itself keeps as clean what another's hardware has marked: unless it is told to forget that, and waits
/// until it has, it faults for ever.
#[test]
fn who_does_not_forget_what_another_has_marked_faults_for_ever() {
    let omissions: [fn(&Maintenance, bool) -> bool; 2] = [
        |it, _| matches!(it, Maintenance::Invalidate(TlbiOp::VALE1, _)),
        |it, _| *it == Maintenance::Barrier(Barrier::DSB_NSH),
    ];
    for omits in omissions {
        let orders = Orders { omits, marks: true, calls: 8, ..Orders::PLAIN };
        let is_found = |seed| spaces::run(seed, &orders).is_err_and(|wrong| wrong.contains("answer a fault"));
        assert!((0..RUNS).any(is_found));
    }
    let orders = Orders { marks: true, calls: 8, ..Orders::PLAIN };
    (0..RUNS / 4).for_each(|seed| {
        run(seed, &orders);
    });
}

/// The same of pages of contiguous groups, at levels at which these stay as they are and at others. What a page was written is not lost where
/// another page of its group was marked, and nobody faults for ever.
#[test]
fn pages_of_a_group_are_marked_by_cpus_of_which_one_marks_nothing() {
    for levels in [Levels::all(0), Levels::all(2), Levels::all(3), Levels::mixed([3, 0, 3, 3])] {
        let orders = Orders { groups: Some(levels), marks: true, calls: 8, ..Orders::PLAIN };
        let done = (0..RUNS / 6).map(|seed| run(seed, &orders).done).fold(Done::default(), Done::with);
        assert!([done.made, done.ended, done.kept].iter().all(|count| *count > 0), "{levels:?}: {done:?}");
    }
}

/// What a group could be written by before a fork is forgotten before anybody believes that it cannot: where it is broken first, and where it is
/// withdrawn in place.
#[test]
fn a_fork_that_leaves_a_group_in_a_tlb_is_found() {
    let omissions: [fn(&Maintenance, bool) -> bool; 3] = [
        |it, is_forking| is_forking && matches!(it, Maintenance::Invalidate(..)),
        |it, is_forking| is_forking && *it == Maintenance::DSB_ISHST,
        |it, is_forking| is_forking && *it == Maintenance::DSB_ISH,
    ];
    for (level, omits) in [0, 3].into_iter().flat_map(|level| omissions.map(|omits| (level, omits))) {
        let orders = Orders { omits, groups: Some(Levels::all(level)), calls: 10, ..Orders::PLAIN };
        let is_found = |seed| spaces::run(seed, &orders).is_err_and(|wrong| wrong.contains("which is not its own"));
        assert!((0..RUNS).any(is_found), "level {level}");
    }
}

/// Seeds that are run.
const RUNS: u64 = 60;
