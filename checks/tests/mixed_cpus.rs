//! CPUs of several BBM levels: who counts on the level of the CPU that makes a change, where others look, is noticed. A linear map
//! parks those that must not see it, knows of each CPU before it walks the map, and what a kernel owes it is missed.

use std::iter;

use checks::explore::exhaustive::{self, Limits};
use checks::explore::{Caught, random};
use checks::levels::{Levels, MOST_CPUS};
use checks::omission::Omission;
use checks::parameters::Parameters;
use checks::prepare::Prepared;
use checks::scenario::{Permit, Scenario, Step};
use checks::sharing::Sharing;
use checks::suite;
use checks::workloads::Workload;

const STATES: u64 = 1_000_000;

fn explore(scenario: Scenario) -> Option<String> {
    let explored = exhaustive::explore(&Prepared::new(scenario, None), Limits { states: STATES });
    assert!(explored.is_complete || explored.caught.is_some(), "too many states");
    explored.caught.map(|caught| caught.failure.to_string())
}

/// A block is split by a CPU of level 3, where every other looks at it and one has a lower level.
fn split(name: &str) -> Scenario {
    let parameters = Parameters { cpus: 2, ..Parameters::PLAIN };
    Workload::find(name).expect("the workload").scenario_with(0, parameters, &[])
}

/// The same with the licence of one who is alone, which is as good as its own CPU.
fn split_as_if_alone(name: &str) -> Scenario {
    let mut scenario = split(name);
    for step in scenario.programs.iter_mut().flatten() {
        if let Step::Change { permit, .. } = step {
            *permit = Permit::Parked;
        }
    }
    scenario
}

#[test]
fn the_weakest_cpu_decides() {
    for name in ["split-on-mixed", "split-not-cached-on-mixed"] {
        assert_eq!(explore(split(name)), None, "{name}");
    }
}

#[test]
fn what_the_changing_cpu_tolerates_is_not_enough() {
    for name in ["split-on-mixed", "split-not-cached-on-mixed"] {
        let failure = explore(split_as_if_alone(name)).unwrap_or_else(|| panic!("{name} was not noticed"));
        println!("{name}: {failure}");
    }
}

/// States after which random orders are tried.
const FEW: u64 = 4_000;
/// Random orders with TLBs that fill and drop by chance, and about how many steps each has.
const ORDERS: u64 = 12;
const LENGTH: usize = 120;
/// More than the program of a CPU that arrives has.
const OF_LATE: usize = 80;

/// A workload on CPUs of these levels, of which the first makes the change.
fn on(levels: &[u8], name: &str) -> Scenario {
    let mut all = [3; MOST_CPUS];
    all[..levels.len()].copy_from_slice(levels);
    let (bbm, cpus) = (Levels::mixed(all), levels.len());
    let parameters = Parameters { cpus, bbm, hardware: (true, true), ..Parameters::PLAIN };
    Workload::find(name).expect("the workload").scenario_with(0, parameters, &[])
}

/// What goes wrong in some random order, if anything does.
fn at_random(prepared: &Prepared) -> Option<Caught> {
    (0..ORDERS).find_map(|seed| suite::run_with_tlbs(prepared, seed, LENGTH).caught)
}

/// What goes wrong in any order of two CPUs, or where there are too many in some.
fn examine(scenario: Scenario) -> Option<Caught> {
    let prepared = Prepared::new(scenario, None);
    match prepared.start.scenario.parameters.cpus {
        2 => suite::examine(&prepared, FEW).caught,
        _ => at_random(&prepared),
    }
}

/// What goes wrong where the last CPU comes between any two steps of the first.
fn meet(scenario: Scenario) -> Option<Caught> {
    let prepared = Prepared::new(scenario, None);
    let (late, mut steps) = (prepared.start.scenario.parameters.cpus as u8 - 1, 0);
    let plain = random::drive_run(&prepared, &mut prepared.run(Sharing::default()), |ready| {
        let thread = ready.trailing_zeros() as usize;
        steps += usize::from(thread == 0);
        Some(thread)
    });
    let orders = (0..=steps).map(|at| iter::repeat_n(0, at).chain(iter::repeat_n(late, OF_LATE)).collect());
    plain.caught.or_else(|| orders.map(|order: Vec<u8>| random::replay(&prepared, &order)).find_map(|ran| ran.caught))
}

fn assert_silent(levels: &[u8], name: &str, caught: Option<Caught>) {
    if let Some(Caught { failure, choices }) = caught {
        panic!("{name} on CPUs of levels {levels:?}: {failure}\n{choices:?}");
    }
}

#[test]
fn cpus_that_must_not_see_a_change_park() {
    for levels in [&[0, 3][..], &[3, 0], &[0, 0], &[1, 2, 3], &[2, 0, 3]] {
        assert_silent(levels, "parking", examine(on(levels, "parking")));
        for name in ["parking-show", "parking-heal"] {
            assert_silent(levels, name, at_random(&Prepared::new(on(levels, name), None)));
        }
    }
}

/// Every mix of levels on so many CPUs.
fn mixes(cpus: usize) -> impl Iterator<Item = Vec<u8>> {
    (0..4_usize.pow(cpus as u32)).map(move |mix| (0..cpus).map(|cpu| (mix >> (2 * cpu) & 3) as u8).collect())
}

/// One order with TLBs of one workload each: 340 mixes.
#[test]
fn every_mix_of_one_to_four_cpus_parks_as_it_must() {
    for (seed, levels) in (0..).zip((1..=MOST_CPUS).flat_map(mixes)) {
        let names = ["parking", "parking-show", "parking-heal", "two-initiators"];
        let name = names[levels.iter().sum::<u8>() as usize % names.len()];
        let prepared = Prepared::new(on(&levels, name), None);
        assert_silent(&levels, name, suite::run_with_tlbs(&prepared, seed, LENGTH).caught);
    }
}

#[test]
fn a_cpu_may_arrive_at_every_step_of_a_change() {
    for (name, mixes) in [
        ("arrival", &[[3, 0], [3, 3], [3, 2], [2, 3], [0, 0], [0, 3]][..]),
        ("arrival-at-show", &[[3, 0], [3, 3], [0, 0]]),
        ("arrival-at-heal", &[[3, 0]]),
    ] {
        mixes.iter().for_each(|levels| assert_silent(levels, name, meet(on(levels, name))));
    }
    // Beside one that looks on.
    for levels in [&[3, 3, 0], &[0, 3, 3]] {
        assert_silent(levels, "arrival", at_random(&Prepared::new(on(levels, "arrival"), None)));
    }
}

#[test]
fn two_cpus_change_one_map_and_park_for_each_other() {
    for levels in [&[3, 0][..], &[0, 3], &[0, 0], &[3, 3], &[0, 3, 3], &[3, 0, 2]] {
        let prepared = Prepared::new(on(levels, "two-initiators"), None);
        assert_silent(levels, "two-initiators", at_random(&prepared));
    }
}

/// What a kernel owes to its linear map, and where it is missed.
#[test]
fn what_a_kernel_leaves_out_is_noticed() {
    for (omitted, levels, name) in [
        (Omission::OneCall, &[0, 3][..], "parking"),
        (Omission::OneCall, &[3, 0], "parking"),
        (Omission::Awaiting, &[0, 3], "parking"),
        (Omission::Awaiting, &[3, 0], "parking"),
        (Omission::Keeping, &[0, 3], "parking"),
        (Omission::Keeping, &[3, 0], "parking"),
        (Omission::Leaving, &[3, 0], "parking"),
        (Omission::Counting, &[3, 0], "arrival"),
        (Omission::Counting, &[0, 0], "arrival"),
        (Omission::Level, &[3, 0], "arrival"),
        (Omission::Locking, &[3, 0], "arrival"),
    ] {
        let caught = examine(Scenario { omitted: Some(omitted), ..on(levels, name) });
        let failure = caught.unwrap_or_else(|| panic!("{omitted:?} is missed by nobody: {name}, {levels:?}")).failure;
        println!("{omitted:?}, {name}, {levels:?}: {failure}");
    }
}
