//! A linear map at each state of boot, with readers and the updates of hardware beside: every allocation fails in turn, and what is
//! refused has changed nothing that anybody sees.

use checks::explore::random;
use checks::levels::Levels;
use checks::omission::Omission;
use checks::parameters::Parameters;
use checks::prepare::Prepared;
use checks::request::{Request, Software};
use checks::scenario::Scenario;
use checks::sharing::Sharing;
use checks::suite;
use checks::workloads::Workload;

/// States after which random orders are tried.
const FEW: u64 = 400;
/// Random orders with TLBs that fill and drop by chance, and about how many steps each has.
const ORDERS: u64 = 2;
const LENGTH: usize = 120;

/// A split, a split and what is hidden and shown, a fold; in a context that may not wait.
const OPERATIONS: [&str; 4] = ["parking", "parking-show", "parking-heal", "linear-atomic"];
/// The same while a CPU arrives late.
const MET: [&str; 3] = ["arrival", "arrival-at-show", "arrival-at-heal"];

/// Whether others are said to be started, and that all run that were to.
const ALONE: (bool, bool) = (false, false);
const STARTING: (bool, bool) = (true, false);
const SETTLED: (bool, bool) = (true, true);

fn scenario(name: &str, cpus: usize, boot: (bool, bool)) -> Scenario {
    let parameters = Parameters { cpus, bbm: Levels::all(3), hardware: (true, true), ..Parameters::PLAIN };
    Scenario { boot, ..Workload::find(name).expect("the workload").scenario_with(0, parameters, &[]) }
}

/// How often somebody asks for something of software's, if nobody interrupts anybody.
fn count(prepared: &Prepared, is_it: impl Fn(&Software) -> bool) -> usize {
    let mut run = prepared.run(Sharing::default()).tell();
    let caught = random::replay_run(prepared, &mut run, &[]).caught;
    assert_eq!(caught, None);
    let log = run.take_log();
    log.iter().filter(|told| matches!(&told.asked.request, Request::Software(what) if is_it(what))).count()
}

/// Each allocation fails in turn: how many there are, and how often a change was refused.
fn each_allocation_fails(name: &str, cpus: usize, boot: (bool, bool)) -> (usize, usize) {
    let as_it_is = Prepared::new(scenario(name, cpus, boot), None);
    let allocations = count(&as_it_is, |what| *what == Software::Take);
    let mut refused = 0;
    for fails_at in (0..allocations).map(Some).chain([None]) {
        let prepared = Prepared::new(Scenario { fails_at, ..scenario(name, cpus, boot) }, None);
        refused += count(&prepared, |what| matches!(what, Software::Withdraw(_)));
        // A fold has long tables to compare.
        let caught = if cpus == 3 || name.ends_with("heal") {
            (0..ORDERS).find_map(|seed| suite::run_with_tlbs(&prepared, seed, LENGTH).caught)
        } else {
            suite::examine(&prepared, FEW).caught
        };
        if let Some(caught) = caught {
            panic!("{name}, {cpus} CPUs, {boot:?}, without {fails_at:?}: {}\n{:?}", caught.failure, caught.choices);
        }
    }
    (allocations, refused)
}

#[test]
fn no_state_of_boot_shows_what_was_refused() {
    let early = [(1, ALONE), (1, STARTING), (2, STARTING), (2, SETTLED), (3, SETTLED)];
    for name in OPERATIONS {
        for (cpus, boot) in early {
            let (allocations, refused) = each_allocation_fails(name, cpus, boot);
            assert!(allocations > 0 && refused > 0, "{name}: {allocations} allocations, {refused} refused");
        }
    }
    for name in MET {
        let (allocations, refused) = each_allocation_fails(name, 2, SETTLED);
        assert!(allocations > 0 && refused > 0, "{name}: {allocations} allocations, {refused} refused");
    }
}

/// A map that has changed something and says that it refuses.
#[test]
fn what_is_changed_and_refused_is_seen() {
    for name in OPERATIONS {
        let made = Scenario { omitted: Some(Omission::Refusing), ..scenario(name, 1, SETTLED) };
        let caught = random::replay(&Prepared::new(made, None), &[]).caught;
        println!("{name}: {}", caught.expect("what is read is not what was there").failure);
    }
}
