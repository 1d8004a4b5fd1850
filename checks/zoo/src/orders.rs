//! Every order in which the CPUs of a program may come to its lines, each of them a trace, and what is found first in each.
//!
//! A state that was met before (the machine, the names, how far each CPU is) is not gone on from again.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};

use machine::trace::{HEAD, Judge, Trace};

use crate::case::{Act, Case, Place, Repetition, Step, Version};
use crate::configuration::Configuration;
use crate::error::Error;
use crate::expression::{Names, evaluate, expand};

/// What is found first in some order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Found {
    /// The line of the case.
    pub at: Place,
    /// The rule's label.
    pub rule: String,
}

/// What came of one version in one configuration.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// What is found first in each order in which anything is, with a trace that shows it and the story.
    pub found: BTreeMap<Found, (String, String)>,
    /// The trace of an order in which nothing is found.
    pub silent: Option<String>,
    /// Traces that were judged.
    pub traces: u64,
}

/// One version of a case in one configuration.
pub struct Program<'a> {
    case: &'a Case,
    /// The lines before the first event.
    head: Vec<(String, Option<&'a Step>)>,
    names: Names,
    stretches: Vec<Stretch<'a>>,
}

/// Steps between two marks; one list of them, or one for each CPU.
type Stretch<'a> = Vec<Vec<&'a Step>>;

/// How far a program has come.
#[derive(Clone)]
struct State<'a> {
    lines: Vec<(String, Option<&'a Step>)>,
    names: Names,
    stretch: usize,
    /// Steps that are done of each list of the stretch.
    done: Vec<usize>,
}

impl<'a> Program<'a> {
    /// A version of `case` on CPUs of `configuration`. Errors: an expression that has no value.
    pub fn new(case: &'a Case, version: Version, configuration: Configuration) -> Result<Self, Error> {
        let title = format!("# {}, {}, {configuration}", case.name, version.name());
        let head = vec![(HEAD.to_owned(), None), (title, None)];
        let mut program = Self { case, head, names: Names::new(), stretches: Vec::new() };
        let steps = case.steps.iter().filter(|step| step.only.is_none_or(|only| only == version));
        let (mut cpus, mut common, mut memory, mut events) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for step in steps {
            match &step.act {
                Act::Cpu(words) => cpus.push((format!("cpu {}", words.join(" ")), Some(step))),
                Act::Cpus(words) => common.push(words.join(" ")),
                Act::Memory(_) => memory.append(&mut lines(step, &program.names)?),
                Act::Let(None, name, value) => {
                    let value = evaluate(value, &program.names).map_err(|what| error(step, what))?;
                    program.names.insert(name.clone(), value);
                }
                _ => events.push(step),
            }
        }
        common.push(configuration.to_string());
        cpus.iter_mut().for_each(|(line, _): &mut (String, _)| *line += &format!(" {}", common.join(" ")));
        program.head.append(&mut cpus);
        program.head.append(&mut memory);
        program.stretches = stretches(&events)?;
        Ok(program)
    }

    /// Judges every order. Errors: a line that makes no sense, or CPUs that wait for ever.
    pub fn explore(&self) -> Result<Explored, Error> {
        let mut search = Search { program: self, seen: HashSet::new(), explored: Explored::default() };
        let start = State { lines: self.head.clone(), names: self.names.clone(), stretch: 0, done: Vec::new() };
        search.visit(start)?;
        Ok(search.explored)
    }

    fn start_of(&self, stretch: usize) -> Vec<usize> {
        self.stretches.get(stretch).map_or(Vec::new(), |lists| vec![0; lists.len()])
    }

    /// The states after one step of anybody; after the whole stretch where there is but one list.
    fn next(&self, state: &State<'a>) -> Result<Vec<State<'a>>, Error> {
        let Some(lists) = self.stretches.get(state.stretch) else { return Ok(Vec::new()) };
        let mut next = Vec::new();
        for (number, list) in lists.iter().enumerate() {
            let mut after = state.clone();
            let mut has_moved = false;
            while let Some(step) = list.get(after.done[number]) {
                if (has_moved && lists.len() > 1) || !after.make(step)? {
                    break;
                }
                after.done[number] += 1;
                has_moved = true;
            }
            next.extend(has_moved.then_some(after));
        }
        let is_over = state.done.iter().zip(lists).all(|(done, list)| *done == list.len());
        if is_over {
            let (lines, names, stretch) = (state.lines.clone(), state.names.clone(), state.stretch + 1);
            return Ok(vec![State { lines, names, stretch, done: self.start_of(stretch) }]);
        }
        match next.is_empty() {
            true => Err(self.stuck(state, lists)),
            false => Ok(next),
        }
    }

    fn stuck(&self, state: &State<'a>, lists: &Stretch<'a>) -> Error {
        let waiting = lists.iter().zip(&state.done).find_map(|(list, done)| list.get(*done));
        let what = String::from("every CPU waits for ever, expected one that goes on");
        match waiting {
            Some(step) => error(step, what),
            None => Error { file: self.case.name.clone(), line: 0, what },
        }
    }
}

fn error(step: &Step, what: String) -> Error {
    Error { file: step.at.file.clone(), line: step.at.line, what }
}

/// Steps from mark to mark: between `together` and `then` a list for each CPU, elsewhere one for all.
fn stretches<'a>(steps: &[&'a Step]) -> Result<Vec<Stretch<'a>>, Error> {
    let mut stretches = vec![vec![Vec::new()]];
    let mut is_together = false;
    for step in steps {
        let last = stretches.len() - 1;
        match step.act {
            Act::Together | Act::Then => {
                if is_together == (step.act == Act::Together) {
                    return Err(error(step, String::from("expected `together` and `then` in turn")));
                }
                is_together = !is_together;
                stretches.push(if is_together { Vec::new() } else { vec![Vec::new()] });
            }
            _ if is_together => {
                let list =
                    stretches[last].iter_mut().find(|list: &&mut Vec<&Step>| list[0].act.cpu() == step.act.cpu());
                match list {
                    Some(list) => list.push(step),
                    None => stretches[last].push(vec![step]),
                }
            }
            _ => stretches[last][0].push(step),
        }
    }
    Ok(stretches)
}

/// The lines of a trace that a step is: several if it is repeated.
fn lines<'a>(step: &'a Step, names: &Names) -> Result<Vec<(String, Option<&'a Step>)>, Error> {
    let (start, words) = match &step.act {
        Act::Memory(words) => (String::from("memory"), words),
        Act::Event(cpu, words) => (cpu.to_string(), words),
        _ => return Ok(Vec::new()),
    };
    let of = |names: &Names| {
        let words: Result<Vec<String>, String> = words.iter().map(|word| expand(word, names)).collect();
        let comment = step.comment.as_ref().map_or(String::new(), |it| format!("  # {it}"));
        words
            .map(|words| (format!("{start} {}{comment}", words.join(" ")), Some(step)))
            .map_err(|what| error(step, what))
    };
    let Some(Repetition { name, first, end }) = &step.repeated else { return Ok(vec![of(names)?]) };
    let bound = |text| evaluate(text, names).map_err(|what| error(step, what));
    let numbers = bound(first)?..bound(end)?;
    let mut names = names.clone();
    numbers
        .map(|number| {
            names.insert(name.clone(), number);
            of(&names)
        })
        .collect()
}

impl<'a> State<'a> {
    /// Makes a step, if its CPU need not wait.
    fn make(&mut self, step: &'a Step) -> Result<bool, Error> {
        let value = |text, names: &Names| evaluate(text, names).map_err(|what| error(step, what));
        match &step.act {
            Act::Await(_, until) => return Ok(value(until, &self.names)? != 0),
            Act::Let(_, name, text) => {
                let value = value(text, &self.names)?;
                self.names.insert(name.clone(), value);
            }
            _ => self.lines.append(&mut lines(step, &self.names)?),
        }
        Ok(true)
    }

    fn text(&self) -> String {
        self.lines.iter().flat_map(|(line, _)| [line, "\n"]).collect()
    }
}

struct Search<'a, 'p> {
    program: &'p Program<'a>,
    seen: HashSet<u64>,
    explored: Explored,
}

impl<'a> Search<'a, '_> {
    fn visit(&mut self, mut state: State<'a>) -> Result<(), Error> {
        if state.stretch == 0 && state.done.is_empty() {
            state.done = self.program.start_of(0);
        } else if !self.goes_on(&state)? {
            return Ok(());
        }
        let next = self.program.next(&state)?;
        if next.is_empty() {
            self.explored.silent.get_or_insert_with(|| state.text());
        }
        next.into_iter().try_for_each(|state| self.visit(state))
    }

    /// Judges what happened so far: nothing is found, and the state is new.
    fn goes_on(&mut self, state: &State<'a>) -> Result<bool, Error> {
        self.explored.traces += 1;
        let text = state.text();
        let place = |number: usize| state.lines.get(number.wrapping_sub(1)).and_then(|(_, step)| *step);
        let malformed = |it: machine::trace::Malformed| match place(it.line) {
            Some(step) => error(step, it.what),
            None => Error { file: self.program.case.name.clone(), line: 0, what: it.what },
        };
        let trace = Trace::read(&text).map_err(malformed)?;
        let mut judge = Judge::new(&trace, false);
        while judge.findings().is_empty() && judge.step().map_err(malformed)? {}
        if let Some(finding) = judge.findings().first() {
            let at = judge
                .line_of(finding.event)
                .and_then(place)
                .map_or(Place { file: String::new(), line: 0 }, |it| it.at.clone());
            let found = Found { at, rule: finding.rule.label().to_owned() };
            let story = judge.story(finding).to_string();
            self.explored.found.entry(found).or_insert((text.clone(), story));
            return Ok(false);
        }
        let mut digest = DefaultHasher::new();
        (state.stretch, &state.done, &state.names, judge.machine().digest()).hash(&mut digest);
        Ok(self.seen.insert(digest.finish()))
    }
}
