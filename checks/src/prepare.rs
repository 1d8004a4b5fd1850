//! The machine before the CPUs start: a pool full of poison, a page table built by the engine, registers that use it.

use std::collections::BTreeSet;
use std::rc::Rc;

use machine::barrier::Barrier;
use machine::event::Event;
use machine::machine::Machine;
use machine::seed::Seed;

use crate::failure::Failure;
use crate::hardware;
use crate::host::Host;
use crate::ledger::Ledger;
use crate::mutation::{Change, Class, Mutation, Site};
use crate::program::{Part, poison};
use crate::registers::{EMPTY, RESERVED_TAG};
use crate::run::{Run, Start};
use crate::scenario::{POOL, Scenario};
use crate::sharing::Sharing;
use crate::stock;

/// A scenario whose machine is ready.
#[derive(Clone)]
pub struct Prepared {
    /// What each run begins with.
    pub start: Start,
    /// One program for each CPU, and where CPUs call each other an interrupt for each.
    pub parts: Vec<Part>,
    /// What went wrong while the page table was built.
    pub failure: Option<Failure>,
    /// Call sites that the building passed.
    pub sites: BTreeSet<(Site, Class)>,
    /// Events of the building.
    pub events: u64,
}

impl Prepared {
    /// Builds the page table of a scenario, with this mutant of the engine.
    pub fn new(mut scenario: Scenario, mutation: Option<Mutation>) -> Self {
        // What is not repeated matters only to CPUs that need it.
        scenario.parameters.tlb.repeat |= mutation.is_some_and(|it| it.change == Change::Once);
        let scenario = Rc::new(scenario);
        let mut machine = Machine::new(&scenario.parameters.features());
        let pool = fill_pool(&mut machine, &scenario);
        enable(&mut machine, &scenario);
        let ledger = Ledger::new(&scenario, pool);
        let start = Start { scenario: Rc::clone(&scenario), mutation, host: Host::May(Box::new(machine)), ledger };
        let mut build = Run::new(&start, &[Part::Build], Sharing::default());
        while build.failure().is_none() && build.ready() != 0 {
            build.step(0);
        }
        let (failure, events) = (build.failure().cloned(), build.events());
        let (mut host, mut ledger, _, sites) = build.into_end();
        if failure.is_none() {
            host.write_guest(&scenario);
        }
        if failure.is_none() {
            follow(&mut host, &mut ledger, &scenario);
        }
        leave(&mut host, &mut ledger, &scenario);
        let (root, cpus) = (ledger.root, 0..scenario.parameters.cpus);
        let programs = cpus.clone().map(|cpu| Part::Steps(cpu, root));
        let interrupts = cpus.filter(|_| scenario.is_shared).map(|cpu| Part::Interrupt(cpu, root));
        let mut prepared = Self {
            start: Start { host, ledger, ..start },
            parts: programs.chain(interrupts).collect(),
            failure,
            sites,
            events,
        };
        if prepared.failure.is_none() {
            let finding = prepared.start.host.take_findings().into_iter().find(|finding| !finding.is_lint());
            prepared.failure = finding.map(Failure::of_rule);
        }
        if prepared.failure.is_none() {
            prepared.failure = prepared.check_built();
        }
        prepared
    }

    /// The same, with concrete TLBs beside the may-TLB.
    pub fn into_concrete(mut self, seed: Seed) -> Self {
        let addresses: Vec<u64> =
            self.start.scenario.regions.iter().flat_map(|region| region.probes.iter().copied()).collect();
        self.start.host = self.start.host.into_concrete(seed, &addresses);
        self
    }

    /// A run of it.
    pub fn run(&self, sharing: Sharing) -> Run {
        Run::new(&self.start, &self.parts, sharing)
    }

    fn check_built(&self) -> Option<Failure> {
        let mut run = Run::new(&self.start, &[], Sharing::default());
        stock::check(&mut run);
        look_everywhere(&mut run, &self.start.scenario);
        run.failure().cloned()
    }
}

/// Looks at every probe of every region from CPU 0: what is there must be what the region holds.
pub fn look_everywhere(run: &mut Run, scenario: &Scenario) {
    run.check_ended();
    run.synchronize(0);
    run.go_to_look(0);
    let (_, ledger, host) = run.parts();
    if let Some(wrong) = hardware::find_lost_mark(scenario, ledger, host) {
        run.fail(0, wrong);
    }
    for (number, region) in scenario.regions.iter().enumerate() {
        for address in &region.probes {
            if run.failure().is_none() {
                run.look(0, number, *address);
            }
        }
    }
}

fn fill_pool(machine: &mut Machine, scenario: &Scenario) -> Vec<u64> {
    let bytes = scenario.parameters.page_size.size_bytes();
    let pages: Vec<u64> = (0..scenario.pool as u64).map(|number| POOL + number * bytes).collect();
    for page in &pages {
        for slot in 0..bytes / 8 {
            machine.store(0, page + slot * 8, poison(slot & 15));
        }
    }
    machine.barrier(0, Barrier::DSB_ISH);
    // The lowest is taken first.
    pages.into_iter().rev().collect()
}

/// Turns the MMU of every CPU on, with an empty table: what the engine builds is switched to later, walkers awake. The half
/// that is not used has its walks switched off.
fn enable(machine: &mut Machine, scenario: &Scenario) {
    let parameters = &scenario.parameters;
    for cpu in 0..parameters.cpus as u8 {
        machine.enter(cpu, parameters.setting.edits_at());
        for (register, value) in parameters.controls().into_iter().chain(parameters.roots(EMPTY, RESERVED_TAG)) {
            machine.write_register(cpu, register, value);
        }
        machine.barrier(cpu, Barrier::Isb);
        for (register, value) in parameters.switches() {
            machine.write_register(cpu, register, value);
            machine.barrier(cpu, Barrier::Isb);
        }
    }
}

/// The other CPUs follow the one that built the table, each by its own TTBR write, but for those that come later.
fn follow(host: &mut Host, ledger: &mut Ledger, scenario: &Scenario) {
    let parameters = &scenario.parameters;
    for cpu in (1..parameters.cpus as u8).filter(|cpu| scenario.walking() >> cpu & 1 == 1) {
        for (register, value) in parameters.roots(ledger.root, parameters.tag(cpu)) {
            host.happen(cpu, &Event::Write { register, value });
        }
        host.happen(cpu, &Event::Barrier(Barrier::Isb));
    }
    let now = host.machine().events();
    (0..parameters.cpus as u8).for_each(|cpu| ledger.synchronize(cpu, now));
}

/// CPUs that edit nothing go to where one looks.
fn leave(host: &mut Host, ledger: &mut Ledger, scenario: &Scenario) {
    let looks_at = scenario.parameters.setting.looks_at();
    for cpu in (0..scenario.parameters.cpus as u8).filter(|cpu| !scenario.edits(usize::from(*cpu))) {
        host.happen(cpu, &Event::Enter(looks_at));
        ledger.synchronize(cpu, host.machine().events());
    }
}
