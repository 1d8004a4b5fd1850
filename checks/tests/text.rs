//! A kernel that reads a program's instruction without a lock, beside another CPU that unmaps the page, frees it and its table and uses
//! both anew, hides it or splits the block that it is read by: every order of the steps of two CPUs.

use checks::explore::exhaustive::{self, Explored, Limits};
use checks::mutants::Survey;
use checks::mutation::{Change, Class};
use checks::omission::Omission;
use checks::parameters::Parameters;
use checks::prepare::Prepared;
use checks::scenario::Scenario;
use checks::suite::Trial;
use checks::workloads::Workload;
use machine::barrier::Barrier;
use pagetable::TlbFeatures;
use vmsa::PageSize;

const STATES: u64 = 200_000;
const NAMES: [&str; 3] = ["text-goes", "text-hidden", "text-split"];

fn workload(name: &str) -> &'static Workload {
    Workload::find(name).expect("the workload")
}

fn scenario(name: &str, parameters: Parameters) -> Scenario {
    workload(name).scenario_with(0, Parameters { cpus: 2, ..parameters }, &[])
}

fn explore(scenario: Scenario) -> Explored {
    let explored = exhaustive::explore(&Prepared::new(scenario, None), Limits { states: STATES });
    assert!(explored.is_complete || explored.caught.is_some(), "too many states");
    explored
}

#[test]
fn no_order_reads_what_was_never_there() {
    let tlb = TlbFeatures { range: true, level_hints: true, repeat: false };
    let small = Parameters { tlb, ..Parameters::PLAIN };
    let large = Parameters { page_size: PageSize::Size16K, is_global: false, ..Parameters::PLAIN };
    for (name, parameters) in NAMES.iter().flat_map(|name| [(name, small), (name, large)]) {
        let explored = explore(scenario(name, parameters));
        if let Some(caught) = explored.caught {
            panic!("{name}, {parameters}: {}\n{:?}", caught.failure, caught.choices);
        }
        println!("{name}, {parameters}: {:?}", explored.tally);
    }
}

/// A load that nothing ends faults in some order; and who keeps what AT said recognizes what was gone.
#[test]
fn what_a_reader_leaves_out_is_noticed() {
    for (omitted, name, expected) in [
        (Omission::Fixup, "text-hidden", "a load of the kernel's faults"),
        (Omission::Asking, "text-goes", "gone before it was looked for"),
    ] {
        let explored = explore(Scenario { omitted: Some(omitted), ..scenario(name, Parameters::PLAIN) });
        let failure = explored.caught.unwrap_or_else(|| panic!("{omitted:?} is missed by nobody")).failure.to_string();
        assert!(failure.contains(expected), "{omitted:?}: {failure}");
    }
}

/// Nobody waits for a reader: the TLBIs and the DSBs alone keep what it walks from being used anew.
#[test]
fn without_a_tlbi_or_a_dsb_what_is_read_is_used_anew_too_soon() {
    let survey = Survey::of(vec![Trial { workload: workload("text-goes"), seed: 0 }]).expect("the engine is silent");
    let is_grace = |class: &Class| matches!(class, Class::Tlbi(_) | Class::Barrier(Barrier::Dsb { .. }));
    let mutants = survey.mutants().into_iter().filter(|it| it.change == Change::Delete && is_grace(&it.class));
    let verdicts: Vec<_> = mutants.map(|mutant| survey.hunt(mutant)).collect();
    assert!(verdicts.len() >= 4, "a TLBI, the DSBs around it, and one before a table is linked: {}", verdicts.len());
    for verdict in verdicts {
        assert!(verdict.killer.is_some(), "{verdict}");
    }
}
