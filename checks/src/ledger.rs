//! What only the programs know: who may see what at this moment. The ledger judges every access.

use std::hash::{Hash, Hasher};

use machine::machine::Outcome;
use machine::syndrome::{AccessKind, FaultKind};

use crate::calling::{Board, Calling};
use crate::content::Expected;
use crate::request::{Reply, Software};
use crate::scenario::Scenario;

/// A change of a region that is complete.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Settled {
    /// The editor's last context synchronization event before that.
    since: u64,
    /// Contents before and after.
    from: usize,
    to: usize,
    window: Option<(u64, u64)>,
}

/// Where a region stands.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Progress {
    /// The content that every CPU sees.
    settled: usize,
    /// The newest content, which a CPU may see.
    latest: usize,
    window: Option<(u64, u64)>,
    conflict: Option<(u64, u64)>,
    history: Vec<Settled>,
}

/// What the programs share and the machine does not know.
#[derive(Clone, Debug)]
pub struct Ledger {
    pool: Vec<u64>,
    lock: Option<u8>,
    /// Stands for all that was done under the lock so far.
    under_lock: u64,
    board: Board,
    /// The root table, once there is one.
    pub root: u64,
    regions: Vec<Progress>,
    /// For each CPU the number of its last context synchronization event.
    synchronized: Vec<u64>,
    /// What hardware marked: address, and whether by a write.
    marked: Vec<(u64, bool)>,
}

impl Ledger {
    /// A ledger with these free pages.
    pub(crate) fn new(scenario: &Scenario, pool: Vec<u64>) -> Self {
        let regions = vec![Progress::default(); scenario.initial.len()];
        let cpus = scenario.parameters.cpus;
        let (board, synchronized) = (Board::new(scenario.walking()), vec![0; cpus]);
        Self { pool, lock: None, under_lock: 0, board, root: 0, regions, synchronized, marked: Vec::new() }
    }

    /// Pages of the pool that are free.
    pub(crate) fn free(&self) -> usize {
        self.pool.len()
    }

    /// Whether `cpu` can go on with `what`.
    pub(crate) fn is_ready(&self, cpu: u8, what: &Software) -> bool {
        match what {
            Software::Lock => self.lock.is_none(),
            // Interrupts are masked while it is held.
            Software::Calling(Calling::Answer) if self.lock == Some(cpu) => false,
            Software::Calling(what) => self.board.is_ready(cpu, *what),
            Software::Await(region, count) => self.regions[*region].settled >= *count,
            _ => true,
        }
    }

    /// Whether an interrupt holds up the program of `cpu`.
    pub(crate) const fn is_interrupted(&self, cpu: u8) -> bool {
        self.board.is_interrupted(cpu)
    }

    /// Who holds the lock gives it away, and was told what this stands for.
    pub(crate) const fn leave(&mut self, digest: u64) {
        self.under_lock = digest;
    }

    /// `cpu` passes a context synchronization event, the `event`th event of the machine.
    pub(crate) fn synchronize(&mut self, cpu: u8, event: u64) {
        self.synchronized[usize::from(cpu)] = event;
    }

    /// Hardware has marked the leaf of `address` as accessed, and after a write as dirty.
    pub(crate) fn mark(&mut self, address: u64, is_dirty: bool) {
        self.marked.push((address, is_dirty));
    }

    /// What hardware marked so far.
    pub(crate) fn marked(&self) -> &[(u64, bool)] {
        &self.marked
    }

    /// Records what `cpu` does, and answers.
    pub(crate) fn happen(&mut self, cpu: u8, what: &Software) -> Reply {
        match what {
            Software::Take => return self.pool.pop().map_or(Reply::Refused(0), Reply::Word),
            Software::Give(page) => self.pool.push(*page),
            Software::Lock => {
                self.lock = Some(cpu);
                return Reply::Word(self.under_lock);
            }
            Software::Unlock => self.lock = None,
            Software::Begin { region, window, conflict } => {
                let it = &mut self.regions[*region];
                it.latest += 1;
                it.window = around(it.window, *window);
                it.conflict = around(it.conflict, *conflict);
            }
            Software::Withdraw(region) => {
                let it = &mut self.regions[*region];
                (it.latest, it.window, it.conflict) = (it.settled, None, None);
            }
            Software::Calling(what) => return self.board.happen(cpu, *what).map_or(Reply::Done, Reply::Word),
            Software::Settle(region) => {
                let it = &mut self.regions[*region];
                let since = self.synchronized[usize::from(cpu)];
                it.history.push(Settled { since, from: it.settled, to: it.latest, window: it.window.take() });
                it.settled = it.latest;
                it.conflict = None;
            }
            Software::Settled(region) => return Reply::Word(self.regions[*region].settled as u64),
            Software::Latest(region) => return Reply::Word(self.regions[*region].latest as u64),
            Software::Publish(root) => self.root = *root,
            Software::Await(..) | Software::Complain(_) => {}
        }
        Reply::Done
    }

    /// What `region` is to hold now, by number of its content: settled, and the newest.
    pub(crate) fn contents(&self, region: usize) -> (usize, usize) {
        (self.regions[region].settled, self.regions[region].latest)
    }

    /// Whether a fault is no surprise: in a window, or where nothing that a TLB may hold was before, until the accessing
    /// CPU has synchronized.
    pub(crate) fn tolerates_fault(&self, scenario: &Scenario, cpu: u8, region: usize, address: u64) -> bool {
        let it = &self.regions[region];
        let contents = &scenario.regions[region].contents;
        let parameters = &scenario.parameters;
        let has_hole = |from: usize, to: usize| {
            contents[from..=to].iter().any(|it| is_uncacheable(it.expected(address, AccessKind::Read, parameters)))
        };
        let is_late = |settled: &Settled| {
            settled.since > self.synchronized[usize::from(cpu)]
                && (is_within(settled.window, address) || has_hole(settled.from, settled.to))
        };
        is_within(it.window, address) || has_hole(it.settled, it.latest) || it.history.iter().any(is_late)
    }

    /// The first outcome that must not be.
    pub(crate) fn judge(
        &self,
        scenario: &Scenario,
        cpu: u8,
        (region, address, kind): (usize, u64, AccessKind),
        outcomes: &[Outcome],
    ) -> Option<Outcome> {
        let it = &self.regions[region];
        let contents = &scenario.regions[region].contents[it.settled..=it.latest];
        let parameters = &scenario.parameters;
        let may_fault = self.tolerates_fault(scenario, cpu, region, address);
        let is_allowed = |outcome: &Outcome| {
            let expected = match outcome {
                Outcome::Translated(output) => Expected::Output(*output),
                Outcome::Fault(fault) => Expected::Fault(fault.kind),
            };
            contents.iter().any(|content| content.expected(address, kind, parameters) == expected)
                || may_fault && is_uncacheable(expected)
                || expected == Expected::Fault(FaultKind::Conflict) && is_within(it.conflict, address)
        };
        outcomes.iter().copied().find(|outcome| !is_allowed(outcome))
    }
}

/// Both stretches, and what is between them.
fn around(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (one, other) {
        (Some((first, last)), Some((from, to))) => Some((first.min(from), last.max(to))),
        (one, other) => one.or(other),
    }
}

fn is_within(window: Option<(u64, u64)>, address: u64) -> bool {
    window.is_some_and(|(first, last)| first <= address && address <= last)
}

/// What no TLB holds: no valid descriptor, or none that was accessed. (IWZCBG)
const fn is_uncacheable(expected: Expected) -> bool {
    matches!(expected, Expected::Fault(FaultKind::Translation | FaultKind::AccessFlag))
}

/// What happened long ago and what no CPU will ask for again makes no difference.
impl Hash for Ledger {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pool.hash(state);
        (self.lock, self.under_lock, self.board).hash(state);
        self.marked.hash(state);
        for region in &self.regions {
            (region.settled, region.latest, region.window, region.conflict).hash(state);
            for settled in &region.history {
                for synchronized in &self.synchronized {
                    (settled.since > *synchronized).hash(state);
                }
            }
        }
    }
}
