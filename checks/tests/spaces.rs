//! Address spaces on the simulated machine, under as many random schedules as a test has time for.

use checks::spaces::{self, LockError, Twist};
use vmsa::BbmLevel;

#[test]
fn cpus_fault_fork_protect_and_unmap_against_each_other() {
    let (mut events, mut faults, mut folios, mut zeros, mut atomics) = (0, 0, 0, 0, 0);
    for seed in 0..RUNS {
        let ran = spaces::run(seed, 6, Twist::default()).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        (events, faults) = (events + ran.events, faults + ran.faults);
        (folios, zeros, atomics) = (folios + ran.folios, zeros + ran.zeros, atomics + ran.atomics);
    }
    assert!(faults > RUNS, "{faults} faults in {events} events");
    assert!(folios > RUNS / 8, "{folios} folios");
    assert!(atomics > RUNS / 16, "{atomics} atomics");
    assert!(zeros > RUNS / 16, "{zeros} blocks of zeros");
}

#[test]
fn a_leaf_that_changes_size_where_a_cpu_does_not_tolerate_it_is_found() {
    let twist = Twist { believed: Some(BbmLevel::Level3), ..Twist::default() };
    let is_found = |seed| spaces::run(seed, 6, twist).is_err_and(|wrong| wrong.contains("V6"));
    assert!((0..RUNS).any(is_found));
}

#[test]
fn a_space_that_is_capped_breaks_first_where_the_system_would_not() {
    let twist = Twist { believed: Some(BbmLevel::Level3), is_capped: true, ..Twist::default() };
    for seed in 0..RUNS / 2 {
        spaces::run(seed, 6, twist).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
}

#[test]
fn a_fault_that_takes_a_part_of_another_page_is_found() {
    let twist = Twist { lock_error: Some(LockError::PartOfCpu), ..Twist::default() };
    let is_found = |seed| spaces::run(seed, 6, twist).is_err();
    assert!((0..RUNS).any(is_found));
}

#[test]
fn a_whole_that_does_not_wait_for_a_part_is_found() {
    for part in [1, 3, 4, 5] {
        let twist = Twist { lock_error: Some(LockError::Forgets(part)), ..Twist::default() };
        let is_found = |seed| spaces::run(seed, 6, twist).is_err();
        assert!((0..RUNS).any(is_found), "part {part}");
    }
}

/// Seeds that are run.
const RUNS: u64 = 60;
