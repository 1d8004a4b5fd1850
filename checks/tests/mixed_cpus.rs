//! CPUs of several BBM levels: who counts on the level of the CPU that makes a change, where others look, is noticed.

use checks::explore::exhaustive::{self, Limits};
use checks::parameters::Parameters;
use checks::prepare::Prepared;
use checks::scenario::{Permit, Scenario, Step};
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
