//! The engine in each regime: silent as it is, and with a barrier or TLBI of its invalidation taken from it, noticed.

use checks::levels::Levels;
use checks::mutants::Survey;
use checks::mutation::{Change, Class, Mutation};
use checks::parameters::Parameters;
use checks::prepare::Prepared;
use checks::setting::Setting;
use checks::suite::{self, Trial};
use checks::workloads::{ALL, Size};
use machine::barrier::Barrier;
use machine::event::{Event, Level};
use machine::machine::Machine;
use machine::registers::{Features, HCR_E2H, HCR_TGE, Register};
use pagetable::TlbFeatures;

/// Every workload with few interleavings, in its plainest schedule, in every setting, at one BBM level after the other.
#[test]
fn every_workload_is_silent_in_every_setting() {
    let small = ALL.iter().filter(|workload| workload.size == Size::Small);
    for (number, workload) in (0..).zip(small) {
        for (turn, setting) in (0..).zip(Setting::ALL) {
            let tlb = TlbFeatures { range: number % 2 == 0, level_hints: number % 3 == 0, repeat: false };
            let parameters = Parameters { bbm: Levels::all((number + turn) % 4), tlb, ..Parameters::PLAIN };
            let parameters = parameters.in_setting(setting, u64::from(number));
            let prepared = Prepared::new(workload.scenario_with(u64::from(number), parameters, &[]), None);
            if let Some(caught) = suite::survey(&prepared).0.caught {
                panic!("{}: {parameters}: {}", workload.name, caught.failure);
            }
        }
    }
}

/// Workloads whose invalidation is of each kind: a leaf, a range, a table, everything, one that cannot wait.
const KINDS: [&str; 6] = ["unmap-page", "unmap-group", "unmap-table", "unmap-all", "protect-part", "table-reuse"];

/// The mutants of a regime's invalidation (`gather.rs`), hunted by the trials of one setting alone.
fn survivors(setting: Setting, seed: u64) -> (Vec<Mutation>, Vec<String>) {
    let chosen = ALL.iter().filter(|workload| KINDS.contains(&workload.name));
    let trials: Vec<Trial> = chosen.map(|workload| Trial { workload, seed }).collect();
    assert!(trials.iter().all(|trial| trial.scenario(&[]).parameters.setting == setting));
    let survey = Survey::of(trials).expect("the engine itself is silent");
    let is_its = |it: &&Mutation| {
        let is_order = matches!(it.class, Class::Barrier(_) | Class::Tlbi(_));
        is_order && it.site.file().ends_with("gather.rs") && it.class != Class::Barrier(Barrier::Isb)
    };
    let mutants: Vec<Mutation> = survey.mutants().iter().filter(is_its).copied().collect();
    let verdicts = mutants.iter().map(|mutation| survey.hunt(*mutation));
    let alive = verdicts.filter(|verdict| verdict.killer.is_none()).map(|verdict| verdict.to_string()).collect();
    (mutants, alive)
}

/// The sequence of `pagetable`'s stage 2: DSB, TLBIs by intermediate address, DSB, VMALLE1IS, DSB; and VMALLS12E1IS, DSB.
#[test]
fn each_barrier_and_tlbi_of_stage_2_is_needed() {
    for (setting, seed) in [(Setting::Stage2, 3), (Setting::Guest, 4)] {
        let (mutants, alive) = survivors(setting, seed);
        assert_eq!(alive, Vec::<String>::new(), "{setting}");
        let deleted =
            |class: Class| mutants.iter().filter(|it| it.class == class && it.change == Change::Delete).count();
        let tlbi = |name| {
            let (op1, crn, crm, op2) = vmsa::TlbiOp::find(name).expect("a name").fields();
            Class::Tlbi(machine::tlbi::Opcode::new(op1.into(), crn.into(), crm.into(), op2.into()))
        };
        // The one between the stages and the last.
        assert_eq!(deleted(Class::Barrier(Barrier::DSB_ISH)), 2, "{setting}");
        assert_eq!(deleted(Class::Barrier(Barrier::DSB_ISHST)), 1, "{setting}");
        assert_eq!(deleted(tlbi("vmalle1is")), 1, "{setting}");
        let (leaf, table) =
            if setting == Setting::Guest { ("ripas2le1is", "ripas2e1is") } else { ("ipas2le1is", "ipas2e1is") };
        assert_eq!((deleted(tlbi(leaf)), deleted(tlbi(table))), (1, 1), "{setting}");
        assert_eq!(deleted(tlbi("vmalls12e1is")), usize::from(setting == Setting::Stage2), "{setting}");
    }
}

/// A platform that executes maintenance under other registers than it is meant for is told so.
#[test]
fn maintenance_under_the_wrong_registers_is_noticed() {
    let mut machine = Machine::new(&[Features::full(0)]);
    let set = |machine: &mut Machine, level, vmid: u64, hcr| {
        machine.apply(0, &Event::Enter(level));
        machine.write_register(0, Register::VttbrEl2, vmid << 48);
        machine.write_register(0, Register::HcrEl2, hcr);
        machine.barrier(0, Barrier::Isb);
        Setting::ALL.map(|setting| setting.check_maintenance(machine, 0).is_ok())
    };
    let (vmid, host) = (u64::from(checks::setting::VMID), HCR_E2H | HCR_TGE);
    // EL1, EL2, EL2&0, stage 2, stage 2 beneath stage 1.
    assert_eq!(set(&mut machine, Level::El1, vmid, 0), [true, false, false, false, false]);
    assert_eq!(set(&mut machine, Level::El2, vmid, 0), [false, true, false, true, true]);
    assert_eq!(set(&mut machine, Level::El2, vmid, HCR_E2H), [false, false, false, true, true]);
    assert_eq!(set(&mut machine, Level::El2, vmid, host), [false, false, true, false, false]);
    assert_eq!(set(&mut machine, Level::El2, vmid + 1, 0), [false, true, false, false, false]);
}
