//! One run: programs on coroutines, one machine, one event at a time. Whoever holds the run says which CPU is next.
//!
//! ```text
//!   program ── Asked ──▶ pending ── step(cpu) ──▶ machine, ledger ── Reply ──▶ program
//! ```
//! Loads of words that one CPU alone uses, and stores to memory that no walker reads, concern nobody else: they happen at
//! once, so that a step is one event which others can notice.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;

use machine::barrier::Barrier;
use machine::event::Event;
use machine::finding::Rule;
use machine::machine::Outcome;
use machine::seed::Digest;
use machine::syndrome::AccessKind;

use crate::calling::Calling;
use crate::failure::{Failure, Wrong};
use crate::hardware;
use crate::host::Host;
use crate::ledger::Ledger;
use crate::linear::Place;
use crate::mutation::{Class, Mutation, Site};
use crate::program::Part;
use crate::request::{Asked, Look, Reply, Request, Software};
use crate::scenario::Scenario;
use crate::sharing::Sharing;
use crate::thread::{Thread, new_stack};

/// More events than any program needs: a mutant that turns in circles ends here.
const MOST_EVENTS: u64 = 600_000;
/// What a run begins with.
#[derive(Clone)]
pub struct Start {
    /// The scenario.
    pub scenario: Rc<Scenario>,
    /// The mutant of the engine that runs, if it is one.
    pub mutation: Option<Mutation>,
    /// The machine.
    pub host: Host,
    /// What the programs know.
    pub ledger: Ledger,
}

/// Where a run stands, so that it can be taken up again there.
#[derive(Clone)]
pub struct Mark {
    host: Host,
    ledger: Ledger,
    answers: usize,
}

/// What happened at a step.
#[derive(Clone, Debug)]
pub struct Told {
    /// Number of the machine's event, as findings have it.
    pub event: u64,
    /// CPU.
    pub cpu: u8,
    /// What it asked for.
    pub asked: Asked,
    /// What it was told.
    pub reply: Reply,
}

/// A run under way.
pub struct Run {
    scenario: Rc<Scenario>,
    host: Host,
    ledger: Ledger,
    threads: Vec<Thread>,
    /// What threads were told so far, in this order: programs are deterministic, so this is where each stands, and what they hold in
    /// common.
    answers: Vec<(usize, Reply)>,
    place: Place,
    failure: Option<Failure>,
    first_event: u64,
    sharing: Sharing,
    /// Call sites that were passed.
    sites: BTreeSet<(Site, Class)>,
    log: Option<Vec<Told>>,
}

impl Run {
    /// The programs of all CPUs, each at its first step. `sharing` is what earlier runs found out.
    pub fn new(start: &Start, parts: &[Part], sharing: Sharing) -> Self {
        let place = Place::default();
        let thread = |part: &Part| Thread::new(&start.scenario, start.mutation, *part, &place, new_stack());
        let threads = parts.iter().map(thread).collect();
        let mut run = Self {
            scenario: Rc::clone(&start.scenario),
            host: start.host.clone(),
            ledger: start.ledger.clone(),
            threads,
            answers: Vec::new(),
            place,
            failure: None,
            first_event: start.host.machine().events(),
            sharing,
            sites: BTreeSet::new(),
            log: None,
        };
        (0..run.threads.len()).for_each(|cpu| run.resume(cpu, Reply::Done));
        run
    }

    /// Also remembers every event.
    pub fn tell(mut self) -> Self {
        self.log = Some(Vec::new());
        self
    }

    /// What was remembered.
    pub fn take_log(&mut self) -> Vec<Told> {
        self.log.take().unwrap_or_default()
    }

    /// What went wrong first.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Machine events since the start.
    pub fn events(&self) -> u64 {
        self.host.machine().events() - self.first_event
    }

    /// The machine.
    pub fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// The machine.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Machine and ledger, once the programs have ended.
    pub fn into_end(self) -> (Host, Ledger, Sharing, BTreeSet<(Site, Class)>) {
        (self.host, self.ledger, self.sharing, self.sites)
    }

    /// What a thread will do next.
    pub fn pending(&self, thread: usize) -> Option<&Request> {
        self.threads[thread].pending.as_ref().map(|asked| &asked.request)
    }

    /// The CPU that a thread runs on: there are programs, one for each CPU, and then interrupts.
    pub fn cpu_of(&self, thread: usize) -> u8 {
        self.threads[thread].cpu()
    }

    /// Threads that can go on, as bits.
    pub fn ready(&self) -> u8 {
        let is_ready = |(_, thread): &(usize, &Thread)| match &thread.pending {
            _ if thread.is_program() && self.ledger.is_interrupted(thread.cpu()) => false,
            Some(Asked { request: Request::Software(what), .. }) => self.ledger.is_ready(thread.cpu(), what),
            pending => pending.is_some(),
        };
        self.threads.iter().enumerate().filter(is_ready).fold(0, |bits, (number, _)| bits | 1 << number)
    }

    /// Nobody can go on: who has not come to an end waits for ever, but for interrupts that do not come.
    pub(crate) fn check_ended(&mut self) {
        let idles = Software::Calling(Calling::Answer);
        let waits = self.threads.iter().find_map(|thread| match &thread.pending.as_ref()?.request {
            Request::Software(what) if *what == idles => None,
            request => Some((thread.cpu(), format!("it waits for ever: {request:?}"))),
        });
        if let Some((cpu, text)) = waits {
            self.fail(cpu, Wrong::Program(text));
        }
    }

    /// Lets a thread make its step, and then all that concerns nobody else.
    pub fn step(&mut self, thread: usize) {
        self.execute(thread);
        while self.failure.is_none() && self.is_private(thread) {
            self.execute(thread);
        }
    }

    /// A number that equal states share.
    pub fn digest(&self) -> u64 {
        let mut state = Digest::new();
        state.write_u64(self.host.machine().digest());
        self.ledger.hash(&mut state);
        for thread in &self.threads {
            state.write_u64(thread.digest.finish());
        }
        state.finish()
    }

    /// Where the run stands.
    pub fn mark(&self) -> Mark {
        Mark { host: self.host.clone(), ledger: self.ledger.clone(), answers: self.answers.len() }
    }

    /// Programs at their first step again, and then led to where `mark` was made, by the replies of this run.
    pub fn go_back(&mut self, mark: &Mark, start: &Start, parts: &[Part]) {
        self.place = Place::default();
        for (thread, part) in self.threads.iter_mut().zip(parts) {
            let stack = thread.end();
            *thread = Thread::new(&start.scenario, start.mutation, *part, &self.place, stack);
        }
        self.answers.truncate(mark.answers);
        for (thread, reply) in &self.answers {
            self.threads[*thread].advance(*reply);
        }
        self.host = mark.host.clone();
        self.ledger = mark.ledger.clone();
        self.failure = None;
    }

    fn is_private(&self, thread: usize) -> bool {
        match self.threads[thread].pending.as_ref().map(|asked| &asked.request) {
            Some(Request::Load(word)) => !self.sharing.is_shared(*word),
            Some(Request::Event(Event::Store { address, .. })) => self.host.machine().is_plain(*address),
            Some(Request::Software(what)) => what.is_private(),
            _ => false,
        }
    }

    fn execute(&mut self, thread: usize) {
        let Some(asked) = self.threads[thread].pending.take() else { return };
        let cpu = self.threads[thread].cpu();
        if matches!(asked.request, Request::Software(Software::Unlock)) {
            // What the next holder finds depends on all that this one was told.
            self.ledger.leave(self.threads[thread].digest.finish());
        }
        let reply = self.happen(cpu, &asked);
        if let Some(log) = &mut self.log {
            let event = self.host.machine().events();
            log.push(Told { event, cpu, asked: asked.clone(), reply });
        }
        self.note_findings(cpu, &asked.request);
        if self.events() > MOST_EVENTS {
            self.fail(cpu, Wrong::Endless(MOST_EVENTS));
        }
        if self.failure.is_none() {
            self.resume(thread, reply);
        }
    }

    fn happen(&mut self, cpu: u8, asked: &Asked) -> Reply {
        match &asked.request {
            Request::Load(address) => {
                self.sharing.note(cpu, *address, false);
                self.host.load(cpu, *address)
            }
            Request::Event(event) => {
                if let Some(class) = Class::of(event) {
                    self.sites.insert((asked.site, class));
                }
                if let Event::Store { address, .. } | Event::CompareExchange { address, .. } = event
                    && !self.host.machine().is_plain(*address)
                {
                    self.sharing.note(cpu, *address, true);
                }
                self.check_maintenance(cpu, event);
                let reply = self.host.happen(cpu, event);
                if matches!(event, Event::Barrier(Barrier::Isb) | Event::Enter(_)) {
                    self.ledger.synchronize(cpu, self.host.machine().events());
                }
                reply
            }
            Request::Access { region, address, kind } => {
                self.access(cpu, (*region, *address, *kind));
                Reply::Done
            }
            Request::Look(look) => self.tell_one(cpu, look),
            Request::Update(address, kind) => {
                let parts = (&mut self.ledger, &mut self.host, &mut self.sharing);
                hardware::update(&self.scenario, parts, cpu, *address, *kind)
            }
            Request::Software(what) => {
                if let Software::Complain(text) = what {
                    self.fail(cpu, Wrong::Program(text.to_string()));
                }
                self.ledger.happen(cpu, what)
            }
        }
    }

    /// Everything that an access may come to, judged, and with concrete TLBs what came about.
    fn access(&mut self, cpu: u8, access: (usize, u64, AccessKind)) -> (Vec<Outcome>, Option<Outcome>) {
        let (outcomes, came) = self.host.access(cpu, access.1, access.2);
        self.judge(cpu, access, &outcomes, came);
        (outcomes, came)
    }

    /// One answer of those that a kernel may have; a fault is a refusal.
    fn tell_one(&mut self, cpu: u8, look: &Look) -> Reply {
        let (outcomes, came) = self.access(cpu, (look.region, look.address, AccessKind::Read));
        match came.unwrap_or(outcomes[look.choice % outcomes.len()]) {
            Outcome::Translated(output) if look.is_load => match self.host.load(cpu, output & !7) {
                Reply::Word(word) => Reply::Word(word >> (8 * (output & 4)) & u64::from(u32::MAX)),
                other => other,
            },
            Outcome::Translated(output) => Reply::Word(output),
            Outcome::Fault(_) => Reply::Refused(0),
        }
    }

    /// A context synchronization event of `cpu`, outside of any program.
    pub fn synchronize(&mut self, cpu: u8) {
        self.host.happen(cpu, &Event::Barrier(Barrier::Isb));
        self.ledger.synchronize(cpu, self.host.machine().events());
    }

    /// TLB maintenance must act on the page table that is edited: what the engine asks of its platform.
    fn check_maintenance(&mut self, cpu: u8, event: &Event) {
        if let Event::Tlbi { .. } = event
            && let Err(text) = self.scenario.parameters.setting.check_maintenance(self.host.machine(), cpu)
        {
            self.fail(cpu, Wrong::Program(text));
        }
    }

    /// `cpu` goes to the exception level where one looks through the page table, if it is not there.
    pub fn go_to_look(&mut self, cpu: u8) {
        let looks_at = self.scenario.parameters.setting.looks_at();
        if self.host.machine().cpus()[usize::from(cpu)].level() != looks_at {
            self.host.happen(cpu, &Event::Enter(looks_at));
            self.ledger.synchronize(cpu, self.host.machine().events());
        }
    }

    /// Looks at one address as `cpu` does, and judges what it may see.
    pub fn look(&mut self, cpu: u8, region: usize, address: u64) {
        self.access(cpu, (region, address, AccessKind::Read));
        self.note_findings(cpu, &Request::Access { region, address, kind: AccessKind::Read });
    }

    fn judge(&mut self, cpu: u8, access: (usize, u64, AccessKind), outcomes: &[Outcome], came: Option<Outcome>) {
        if let Some(came) = came.filter(|came| !outcomes.contains(came)) {
            self.fail(cpu, Wrong::Machine(format!("{came:?} came about, which is not among {outcomes:x?}")));
        }
        if let Some(wrong) = self.ledger.judge(&self.scenario, cpu, access, outcomes) {
            let (region, address, kind) = access;
            let (settled, latest) = self.ledger.contents(region);
            let content = &self.scenario.regions[region].contents[settled];
            let expected = content.expected(address, kind, &self.scenario.parameters);
            let stage = if settled == latest { "" } else { " (a change of the region is under way)" };
            let text =
                format!("{kind:?} at {address:#x} may come to {wrong:x?}; the region holds {expected:x?}{stage}");
            self.fail(cpu, Wrong::Seen(text));
        }
    }

    fn note_findings(&mut self, cpu: u8, request: &Request) {
        for finding in self.host.take_findings() {
            let is_tolerated = request.place().is_some_and(|(region, address)| {
                finding.rule == Rule::NotVisible && self.ledger.tolerates_fault(&self.scenario, cpu, region, address)
            });
            if !finding.is_lint() && !is_tolerated {
                self.fail(cpu, Wrong::Rule(Box::new(finding)));
            }
        }
    }

    /// Something is wrong; what was wrong first is what counts.
    pub(crate) fn fail(&mut self, cpu: u8, wrong: Wrong) {
        let event = self.host.machine().events();
        self.failure.get_or_insert(Failure { wrong, cpu, event });
    }

    /// All that must agree in the end.
    pub(crate) fn parts(&self) -> (&Scenario, &Ledger, &Host) {
        (&self.scenario, &self.ledger, &self.host)
    }

    fn resume(&mut self, thread: usize, reply: Reply) {
        self.answers.push((thread, reply));
        let advanced = panic::catch_unwind(AssertUnwindSafe(|| self.threads[thread].advance(reply)));
        if let Err(cause) = advanced {
            let text = cause.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| cause.downcast_ref::<String>().cloned()).unwrap_or_default();
            let cpu = self.threads[thread].cpu();
            self.fail(cpu, Wrong::Program(format!("the engine panics: {text}")));
        }
    }
}
