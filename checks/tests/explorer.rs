//! The explorer covers what it says it covers: three CPUs with twelve events each, whole, by partial-order reduction.

use checks::explore::exhaustive::{self, Limits};
use checks::explore::random;
use checks::parameters::Parameters;
use checks::prepare::Prepared;
use checks::sharing::Sharing;
use checks::workloads::Workload;

const CPUS: usize = 3;
const EVENTS: usize = 12;
/// More than there are.
const STATES: u64 = 1_000_000;

fn prepared() -> Prepared {
    let parameters = Parameters { cpus: CPUS, ..Parameters::PLAIN };
    let workload = Workload::find("all-edit").expect("the workload");
    Prepared::new(workload.scenario_with(0, parameters, &[]), None)
}

#[test]
fn three_cpus_with_twelve_events_each_are_explored_whole() {
    let prepared = prepared();
    let mut steps = [0; CPUS];
    let ran = random::drive_run(&prepared, &mut prepared.run(Sharing::default()), |ready| {
        let cpu = ready.trailing_zeros() as usize;
        steps[cpu] += 1;
        Some(cpu)
    });
    assert_eq!(ran.caught, None);
    assert!(steps.iter().all(|count| *count >= EVENTS), "{steps:?} steps");

    let reduced = exhaustive::explore(&prepared, Limits { states: STATES });
    assert!(reduced.is_complete && reduced.caught.is_none(), "{reduced:?}");
    println!("{steps:?} steps: {:?}", reduced.tally);
    let plain = exhaustive::explore_plainly(&prepared, Limits { states: STATES });
    assert!(plain.is_complete && plain.caught.is_none(), "{plain:?}");
    assert_eq!(reduced.tally.states, plain.tally.states, "sleep sets leave out orders, never states");
    assert!(reduced.tally.schedules < plain.tally.schedules, "{:?} {:?}", reduced.tally, plain.tally);
}
