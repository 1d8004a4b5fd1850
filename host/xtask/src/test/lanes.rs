//! Two lanes of one queue. Cargo is often one compiler or one test, and most boots are of one CPU: side by side they keep two cores at
//! work.
//!
//! ```text
//! steps: the first … the last │ boots: the first … the last
//! one lane →                                     ← the other
//! ```
//!
//! Whichever comes to the other's kind helps with it.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
};

use super::{
    boot,
    boots::boot::Boot,
    outcome::Outcome,
    report::Report,
    steps::{self, Step},
    table,
};
use crate::{
    boot::{Programs, emulator::Emulator},
    outcome::Failure,
};

/// What a lane takes.
enum Job {
    Step(Step),
    /// A boot, with its number.
    Boot(usize, Boot),
}

/// What a boot left in its place of README's table, with the boot's number.
type Cell = (usize, (table::Place, Option<String>));

/// What the lanes share.
struct Lanes<'run> {
    emulator: &'run Emulator,
    report: &'run Report,
    queue: Mutex<VecDeque<Job>>,
    /// Built by the first boot; another that comes meanwhile waits.
    kernel: OnceLock<Result<Programs, Failure>>,
    cells: Mutex<Vec<Cell>>,
}

/// Runs all of them; gives what came of the boots that have a place in README's table, in their order.
pub(crate) fn run(
    steps: Vec<Step>,
    boots: Vec<Boot>,
    emulator: &Emulator,
    report: &Report,
) -> Vec<(table::Place, Option<String>)> {
    let boots = boots.into_iter().enumerate().map(|(number, boot)| Job::Boot(number, boot));
    let lanes = Lanes {
        emulator,
        report,
        queue: Mutex::new(steps.into_iter().map(Job::Step).chain(boots).collect()),
        kernel: OnceLock::new(),
        cells: Mutex::default(),
    };
    thread::scope(|scope| {
        scope.spawn(|| lanes.run(VecDeque::pop_front));
        scope.spawn(|| lanes.run(VecDeque::pop_back));
    });
    let mut cells = lanes.cells.into_inner().unwrap_or_else(PoisonError::into_inner);
    cells.sort_by_key(|(number, _)| *number);
    cells.into_iter().map(|(_, cell)| cell).collect()
}

impl Lanes<'_> {
    /// Works until nothing is left.
    fn run(&self, take: fn(&mut VecDeque<Job>) -> Option<Job>) {
        // The lock is not held while the job runs.
        let next = || take(&mut locked(&self.queue));
        while let Some(job) = next() {
            match job {
                Job::Step(step) => self.report.run(&step.name, |say| steps::run(&step, self.emulator, say)),
                Job::Boot(number, boot) => self.boot(number, boot),
            }
        }
    }

    fn boot(&self, number: usize, boot: Boot) {
        let kernel = self.kernel.get_or_init(|| self.build());
        let mut cell = None;
        self.report.run(&boot.name, |_| {
            let outcome = boot::run(&boot, self.emulator, kernel);
            cell = outcome.cell.clone();
            outcome
        });
        if let Some(place) = boot.place {
            locked(&self.cells).push((number, (place, cell)));
        }
    }

    /// The kernel and the monitor, for all boots.
    fn build(&self) -> Result<Programs, Failure> {
        let mut built = None;
        self.report.run("kernel", |say| {
            let programs = built.insert(boot::prepare(self.emulator, say));
            let outcome = programs.clone().map_or_else(|why| Outcome::stopped("kernel", why), |_| Outcome::passed(""));
            Outcome { repeat: Some("cargo xtask run".into()), ..outcome }
        });
        built.expect("a step runs its work")
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
