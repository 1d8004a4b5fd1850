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

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use machine::barrier::Barrier;
use machine::event::Event;
use machine::finding::Rule;
use machine::machine::Outcome;
use machine::seed::Digest;
use machine::syndrome::AccessKind;

use crate::cpu::Cpu;
use crate::failure::{Failure, Wrong};
use crate::hardware;
use crate::host::Host;
use crate::ledger::Ledger;
use crate::mutation::{Class, Mutation, Site};
use crate::program::{self, Part};
use crate::request::{Asked, Reply, Request, Software};
use crate::scenario::Scenario;
use crate::sharing::Sharing;

/// More events than any program needs: a mutant that turns in circles ends here.
const MOST_EVENTS: u64 = 600_000;
/// Bytes of a coroutine's stack.
const STACK_BYTES: usize = 256 << 10;

/// A program under way.
struct Thread {
    /// None once it has ended for good.
    coroutine: Option<Coroutine<Reply, Asked, ()>>,
    pending: Option<Asked>,
    /// What it was told so far: programs are deterministic, so this is where it stands.
    replies: Vec<Reply>,
    digest: Digest,
}

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
    replies: Vec<usize>,
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
        let threads =
            parts.iter().map(|part| Thread::new(&start.scenario, start.mutation, *part, new_stack())).collect();
        let mut run = Self {
            scenario: Rc::clone(&start.scenario),
            host: start.host.clone(),
            ledger: start.ledger.clone(),
            threads,
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

    /// What is known of shared words.
    pub fn sharing_mut(&mut self) -> &mut Sharing {
        &mut self.sharing
    }

    /// What `cpu` will do next.
    pub fn pending(&self, cpu: usize) -> Option<&Request> {
        self.threads[cpu].pending.as_ref().map(|asked| &asked.request)
    }

    /// CPUs that can go on, as bits.
    pub fn ready(&self) -> u8 {
        let is_ready = |(cpu, thread): &(usize, &Thread)| match &thread.pending {
            Some(Asked { request: Request::Software(what), .. }) => self.ledger.is_ready(*cpu as u8, what),
            pending => pending.is_some(),
        };
        self.threads.iter().enumerate().filter(is_ready).fold(0, |bits, (cpu, _)| bits | 1 << cpu)
    }

    /// Lets `cpu` make its step, and then all that concerns nobody else.
    pub fn step(&mut self, cpu: usize) {
        self.execute(cpu);
        while self.failure.is_none() && self.is_private(cpu) {
            self.execute(cpu);
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
        let replies = self.threads.iter().map(|thread| thread.replies.len()).collect();
        Mark { host: self.host.clone(), ledger: self.ledger.clone(), replies }
    }

    /// Programs at their first step again, and then led to where `mark` was made, by the replies of this run.
    pub fn go_back(&mut self, mark: &Mark, start: &Start, parts: &[Part]) {
        for ((thread, part), count) in self.threads.iter_mut().zip(parts).zip(&mark.replies) {
            let replies = std::mem::take(&mut thread.replies);
            let stack = thread.end();
            *thread = Thread::new(&start.scenario, start.mutation, *part, stack);
            for reply in replies.into_iter().take(*count) {
                thread.advance(reply);
            }
        }
        self.host = mark.host.clone();
        self.ledger = mark.ledger.clone();
        self.failure = None;
    }

    fn is_private(&self, cpu: usize) -> bool {
        match self.threads[cpu].pending.as_ref().map(|asked| &asked.request) {
            Some(Request::Load(word)) => !self.sharing.is_shared(*word),
            Some(Request::Event(Event::Store { address, .. })) => self.host.machine().is_plain(*address),
            Some(Request::Software(what)) => {
                matches!(what, Software::Complain(_) | Software::Publish(_) | Software::Settled(_))
            }
            _ => false,
        }
    }

    fn execute(&mut self, cpu: usize) {
        let Some(asked) = self.threads[cpu].pending.take() else { return };
        let number = cpu as u8;
        let reply = self.happen(number, &asked);
        if let Some(log) = &mut self.log {
            let event = self.host.machine().events();
            log.push(Told { event, cpu: number, asked: asked.clone(), reply });
        }
        self.note_findings(number, &asked.request);
        if self.events() > MOST_EVENTS {
            self.fail(number, Wrong::Endless(MOST_EVENTS));
        }
        if self.failure.is_none() {
            self.resume(cpu, reply);
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
                let (outcomes, came) = self.host.access(cpu, *address, *kind);
                self.judge(cpu, (*region, *address, *kind), &outcomes, came);
                Reply::Done
            }
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
        let (outcomes, came) = self.host.access(cpu, address, AccessKind::Read);
        self.judge(cpu, (region, address, AccessKind::Read), &outcomes, came);
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
            let is_tolerated = match request {
                Request::Access { region, address, .. } => {
                    finding.rule == Rule::NotVisible
                        && self.ledger.tolerates_fault(&self.scenario, cpu, *region, *address)
                }
                _ => false,
            };
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

    fn resume(&mut self, cpu: usize, reply: Reply) {
        let advanced = panic::catch_unwind(AssertUnwindSafe(|| self.threads[cpu].advance(reply)));
        if let Err(cause) = advanced {
            let text = cause.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| cause.downcast_ref::<String>().cloned()).unwrap_or_default();
            self.fail(cpu as u8, Wrong::Program(format!("the engine panics: {text}")));
        }
    }
}

fn new_stack() -> DefaultStack {
    DefaultStack::new(STACK_BYTES).expect("the host has memory for a stack")
}

impl Thread {
    fn new(scenario: &Rc<Scenario>, mutation: Option<Mutation>, part: Part, stack: DefaultStack) -> Self {
        let scenario = Rc::clone(scenario);
        let coroutine = Coroutine::with_stack(stack, move |yielder, _| {
            program::run(&Cpu::new(yielder, mutation), &scenario, part);
        });
        Self { coroutine: Some(coroutine), pending: None, replies: Vec::new(), digest: Digest::new() }
    }

    /// Gives the program its answer, and takes its next question.
    fn advance(&mut self, reply: Reply) {
        self.replies.push(reply);
        reply.hash(&mut self.digest);
        self.pending = match self.coroutine.as_mut().map(|coroutine| coroutine.resume(reply)) {
            Some(CoroutineResult::Yield(asked)) => Some(asked),
            Some(CoroutineResult::Return(())) | None => None,
        };
    }

    /// Ends the program where it stands; its stack can be used again, which saves asking the host for another.
    fn end(&mut self) -> DefaultStack {
        match self.coroutine.take() {
            None => new_stack(),
            Some(mut coroutine) => {
                coroutine.force_unwind();
                coroutine.into_stack()
            }
        }
    }
}
