//! The same fault made in our engine: one call of its platform left out or weakened, while it does the same work.

use std::collections::BTreeSet;
use std::fmt;

use checks::explore::random;
use checks::mutation::{Mutation, Site};
use checks::parameters::Parameters;
use checks::prepare::Prepared;
use checks::suite;
use checks::workloads::Workload;
use machine::registers::Ets;

use crate::cell::{Cell, Cells};
use crate::verdict::Misses;

/// A fault of the engine's that is an animal's: `WORKLOAD [asid] [range] [hints] [hardware] | [FILE] CALL CHANGE | RULE`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counterpart {
    workload: &'static str,
    flags: Vec<String>,
    /// The call's class and what is done to it, as `cargo xtask check --mutants` prints them.
    change: String,
    rule: String,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Killed {
    /// The workload and its flags.
    pub work: String,
    /// The call and what was done to it.
    pub change: String,
    /// What it had to be caught by.
    pub rule: String,
    /// Call sites of the engine that were changed.
    pub sites: BTreeSet<String>,
    /// Cells and call sites, each run with the fault and without.
    pub runs: u64,
    /// Nothing is found without the fault.
    pub is_silent: bool,
    /// What is not as the file says.
    pub misses: Misses,
}

impl Counterpart {
    /// Reads one.
    ///
    /// # Errors
    /// What stands there instead.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('|').map(str::trim).collect();
        let [work, change, rule] = parts[..] else {
            return Err(format!("`{text}`, expected `WORKLOAD [FLAG…] | CALL CHANGE | RULE`"));
        };
        let mut words = work.split_whitespace();
        let name = words.next().unwrap_or_default();
        let workload = Workload::find(name).ok_or_else(|| format!("`{name}` is no workload of the checks"))?.name;
        let flags: Vec<String> = words.map(str::to_owned).collect();
        match flags.iter().find(|flag| !["asid", "range", "hints", "hardware"].contains(&flag.as_str())) {
            Some(flag) => Err(format!("`{flag}`, expected asid, range, hints or hardware")),
            None => Ok(Self { workload, flags, change: change.to_owned(), rule: rule.to_owned() }),
        }
    }

    fn work(&self) -> String {
        [self.workload].into_iter().chain(self.flags.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
    }

    fn parameters(&self, cell: Cell) -> Parameters {
        let has = |flag: &str| self.flags.iter().any(|it| it == flag);
        let mut parameters = Parameters::PLAIN;
        parameters.bbm = cell.bbm;
        parameters.ets = [Ets::None, Ets::None, Ets::Ets2, Ets::Ets3][usize::from(cell.ets)];
        parameters.is_global = !has("asid");
        (parameters.tlb.range, parameters.tlb.level_hints) = (has("range"), has("hints"));
        parameters.hardware = (has("hardware"), has("hardware"));
        parameters
    }

    fn prepare(&self, cell: Cell, mutation: Option<Mutation>) -> Option<Prepared> {
        let workload = Workload::find(self.workload)?;
        Some(Prepared::new(workload.scenario_with(0, self.parameters(cell), &[]), mutation))
    }

    /// The mutants of the engine that it means in `cell`; the engine itself must be silent there.
    fn mutants(&self, cell: Cell) -> Result<Vec<Mutation>, String> {
        let prepared = self.prepare(cell, None).ok_or("no such workload")?;
        let (ran, calls) = suite::survey(&prepared);
        if let Some(caught) = ran.caught {
            return Err(format!("the engine itself fails: {}", caught.failure));
        }
        let all = calls
            .into_iter()
            .filter(|(site, _)| site.file().contains("pagetable"))
            .flat_map(|(site, class)| class.changes().into_iter().map(move |change| Mutation { site, class, change }));
        let is_meant = |it: &Mutation| {
            let change = format!("{} {}", it.class, it.change);
            self.change == change || self.change == format!("{} {change}", file(it.site))
        };
        let meant: Vec<Mutation> = all.filter(is_meant).collect();
        if meant.is_empty() { Err(String::from("the engine makes no such call")) } else { Ok(meant) }
    }
}

impl fmt::Display for Counterpart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.work(), self.change)
    }
}

/// Runs the mutants of a counterpart in each of `cells`.
pub fn hunt(counterpart: &Counterpart, cells: &Cells) -> Killed {
    let (change, rule) = (counterpart.change.clone(), counterpart.rule.clone());
    let mut killed = Killed { work: counterpart.work(), change, rule, is_silent: true, ..Killed::default() };
    for cell in Cell::all().filter(|cell| cells.contains(*cell)) {
        if let Err(what) = hunt_in(counterpart, cell, &mut killed) {
            killed.misses.add(format!("engine, {counterpart}: {what}"), cell);
        }
    }
    killed
}

fn hunt_in(counterpart: &Counterpart, cell: Cell, killed: &mut Killed) -> Result<(), String> {
    let mutants = counterpart.mutants(cell).inspect_err(|_| killed.is_silent = false)?;
    for mutation in mutants {
        killed.sites.insert(place(mutation.site));
        killed.runs += 2;
        let prepared = counterpart.prepare(cell, Some(mutation)).ok_or("no such workload")?;
        let caught = random::replay(&prepared, &[]).caught;
        let label = caught.as_ref().map(|it| it.failure.label());
        if label != Some(&counterpart.rule) {
            let found = label.unwrap_or("nothing");
            return Err(format!("{}: {} expected, {found} found", place(mutation.site), counterpart.rule));
        }
    }
    Ok(())
}

/// `gather.rs:151`
fn place(site: Site) -> String {
    format!("{}:{}", file(site), site.line())
}

fn file(site: Site) -> &'static str {
    site.file().rsplit('/').next().unwrap_or_default()
}
