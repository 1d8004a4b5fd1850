//! Whether an animal is caught where its file says so, and silent where it was repaired.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::animal::{Animal, Version};
use crate::cell::{Cell, Cells, describe};
use crate::engine::{self, Killed};
use crate::error::Error;
use crate::orders::{Explored, Found, Program};

/// What came of an animal.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// For each cell what its buggy version was found by.
    pub found: BTreeMap<Cell, BTreeSet<Found>>,
    /// Cells in which the rules are known not to find what they should.
    pub holes: Vec<Cell>,
    /// Versions and cells that were run.
    pub runs: u64,
    /// Traces that were judged.
    pub traces: u64,
    /// Nothing is found in the fixed version.
    pub is_silent: bool,
    /// The story of the first finding.
    pub story: Option<String>,
    /// The engine's mutants.
    pub engine: Vec<Killed>,
    /// What is not as the file says.
    pub misses: Misses,
}

/// What is not as a file says, each with the cells where that is so.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Misses(Vec<(String, Vec<Cell>)>);

impl Misses {
    pub(crate) fn add(&mut self, what: String, cell: Cell) {
        match self.0.iter_mut().find(|(known, _)| *known == what) {
            Some((_, cells)) => cells.push(cell),
            None => self.0.push((what, vec![cell])),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Each in words.
    pub fn told(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(what, cells)| match describe(cells) {
            place if place.is_empty() => format!("in every cell: {what}"),
            place => format!("at{place}: {what}"),
        })
    }
}

/// Runs both versions of an animal, and its counterparts in the engine, in all of `cells`.
///
/// # Errors
/// A line that makes no sense.
pub fn run(animal: &Animal, cells: &Cells) -> Result<Verdict, Error> {
    let mut verdict = Verdict { is_silent: true, ..Verdict::default() };
    for cell in Cell::all().filter(|cell| cells.contains(*cell)) {
        for version in Version::BOTH {
            let explored = Program::new(animal, version, cell)?.explore()?;
            verdict.add(animal, version, cell, explored);
        }
    }
    for counterpart in &animal.engine {
        let killed = engine::hunt(counterpart, cells);
        verdict.engine.push(killed);
    }
    Ok(verdict)
}

/// Threads that run animals.
const KEEPERS: usize = 2;

/// Runs animals, in their order; `tell` hears of each that is done.
///
/// # Errors
/// A line that makes no sense.
pub fn run_all(animals: &[Animal], cells: &Cells, tell: &(dyn Fn(&Animal) + Sync)) -> Result<Vec<Verdict>, Error> {
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..KEEPERS {
            scope.spawn(|| {
                while let Some((number, animal)) = take(&next, animals) {
                    let verdict = run(animal, cells);
                    tell(animal);
                    verdicts.lock().unwrap_or_else(PoisonError::into_inner).insert(number, verdict);
                }
            });
        }
    });
    verdicts.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

fn take<'a>(next: &AtomicUsize, animals: &'a [Animal]) -> Option<(usize, &'a Animal)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    animals.get(number).map(|animal| (number, animal))
}

impl Verdict {
    fn add(&mut self, animal: &Animal, version: Version, cell: Cell, explored: Explored) {
        self.runs += 1;
        self.traces += explored.traces;
        let expected = |is_hole| {
            let all = animal.expected(cell).filter(move |(_, it)| version == Version::Buggy && it.is_hole == is_hole);
            all.map(|(at, it)| Found { at: at.clone(), rule: it.rule.clone() }).collect::<BTreeSet<_>>()
        };
        let (expected, holes) = (expected(false), expected(true));
        let found: BTreeSet<Found> = explored.found.keys().cloned().collect();
        self.is_silent &= version == Version::Buggy || found.is_empty();
        let mut miss = |what: String| self.misses.add(format!("{}: {what}", version.name()), cell);
        for (it, (_, story)) in explored.found.iter().filter(|(it, _)| !expected.contains(it)) {
            let what = if holes.contains(it) { "found, which the file calls a hole" } else { "found, not expected" };
            miss(format!("{} at line {} {what}:\n{story}", it.rule, it.at.line));
        }
        for it in expected.difference(&found) {
            miss(format!("{} expected at line {}, not found", it.rule, it.at.line));
        }
        if version == Version::Buggy {
            self.holes.extend((!holes.is_empty()).then_some(cell));
            self.story = self.story.take().or_else(|| explored.found.into_values().next().map(|(_, story)| story));
            self.found.insert(cell, found);
        }
    }

    /// Everything that is not as the file says, in words.
    pub fn misses(&self) -> Vec<String> {
        let engine = self.engine.iter().flat_map(|it| it.misses.told());
        self.misses.told().chain(engine).collect()
    }

    /// By what the buggy version was found, in one line: `V2 bbm 0, V11 bbm 1, legal bbm 2 3`.
    pub fn summary(&self) -> String {
        let told = |(cell, found): (&Cell, &BTreeSet<Found>)| {
            let rules: BTreeSet<&str> = found.iter().map(|it| it.rule.as_str()).collect();
            let is_hole = rules.is_empty() && self.holes.contains(cell);
            let rules = rules.into_iter().collect::<Vec<_>>().join(" or ");
            (*cell, if is_hole { String::from("hole") } else { rules })
        };
        summary(self.found.iter().map(told))
    }
}

/// What was found in which cells, in one line; nothing found is legal.
pub(crate) fn summary(found: impl Iterator<Item = (Cell, String)>) -> String {
    let mut kinds: Vec<(String, Vec<Cell>)> = Vec::new();
    for (cell, name) in found {
        let name = if name.is_empty() { String::from("legal") } else { name };
        match kinds.iter_mut().find(|(known, _)| *known == name) {
            Some((_, cells)) => cells.push(cell),
            None => kinds.push((name, vec![cell])),
        }
    }
    let is_one = kinds.len() == 1;
    let told = |(name, cells): &(String, Vec<Cell>)| match is_one {
        true => name.clone(),
        false => format!("{name}{}", describe(cells)),
    };
    kinds.iter().map(told).collect::<Vec<_>>().join(", ")
}
