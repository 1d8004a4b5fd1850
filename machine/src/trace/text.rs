//! A trace that was read, line by line.

use alloc::string::String;
use alloc::vec::Vec;

use super::line::{self, Act, HEAD, MEMORY_END, printable};
use super::names::number;
use crate::memory::KnownMemory;
use crate::registers::Features;

/// CPUs of a machine at most.
pub const MOST_CPUS: usize = 64;

/// A line that makes no sense.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// Its number, from 1.
    pub line: usize,
    /// What stands there, and what was expected: one line without control characters.
    pub what: String,
}

impl Malformed {
    /// A message for that line, with control characters as escapes.
    pub(super) fn new(line: usize, what: &str) -> Self {
        Self { line, what: printable(what).collect() }
    }
}

/// One event of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// Number of the line, from 1.
    pub number: usize,
    /// The CPU that acts.
    pub cpu: u8,
    /// What it does.
    pub act: Act,
}

/// A line as a story quotes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told<'t> {
    /// What stands there, without its comment.
    pub quote: &'t str,
    /// Its comment: where in the source it comes from, say.
    pub comment: Option<&'t str>,
}

impl<'t> Told<'t> {
    fn of(line: &'t str) -> Self {
        let (quote, comment) = line.split_once('#').map_or((line, None), |(quote, it)| (quote, Some(it.trim())));
        Self { quote: quote.trim(), comment: comment.filter(|it| !it.is_empty()) }
    }
}

/// A trace that was read.
#[derive(Clone, Debug)]
pub struct Trace<'t> {
    /// The text's lines.
    pub text: Vec<Told<'t>>,
    /// What the ID registers of each CPU announce.
    pub cpus: Vec<Features>,
    /// What memory holds before the first event.
    pub memory: KnownMemory,
    /// The events, in order.
    pub lines: Vec<Line>,
    /// What whoever reads the verdict should know of the reading.
    pub notes: Vec<String>,
}

impl<'t> Trace<'t> {
    /// Reads a trace.
    ///
    /// # Errors
    /// The first line that makes no sense.
    pub fn read(text: &'t str) -> Result<Self, Malformed> {
        let text = line::without_mark(text);
        let told = text.lines().map(Told::of).collect();
        let (cpus, memory) = (Vec::new(), KnownMemory::default());
        let mut trace = Self { text: told, cpus, memory, lines: Vec::new(), notes: Vec::new() };
        let mut seen_head = false;
        for (number, line) in (1..).zip(text.lines()) {
            let result = trace.add_line(number, line, &mut seen_head);
            result.map_err(|what| Malformed::new(number, &what))?;
        }
        let last = trace.text.len().max(1);
        let at_end = |what: String| Err(Malformed { line: last, what });
        match (seen_head, trace.cpus.is_empty()) {
            (false, _) => at_end(alloc::format!("an empty trace, expected `{HEAD}`")),
            (_, true) => at_end(String::from("no line `cpu 0 …`, expected one for each CPU")),
            _ => Ok(trace),
        }
    }

    /// The text of a line, without its comment.
    pub fn quote(&self, number: usize) -> &'t str {
        self.told(number).quote
    }

    /// The comment of a line, if it has one: where in the source it comes from, say.
    pub fn comment(&self, number: usize) -> Option<&'t str> {
        self.told(number).comment
    }

    fn told(&self, number: usize) -> Told<'t> {
        self.text.get(number.wrapping_sub(1)).copied().unwrap_or_default()
    }

    fn add_line(&mut self, number: usize, line: &str, seen_head: &mut bool) -> Result<(), String> {
        line::words(line).try_for_each(line::short_word)?;
        // There may be millions of words in it: they are never all at hand.
        let mut words = line::words(line);
        if *seen_head && words.next().is_some_and(|it| it.eq_ignore_ascii_case("memory")) {
            return self.add_memory(words);
        }
        let words: Vec<&str> = line::words(line).collect();
        match words.as_slice() {
            [] => Ok(()),
            _ if !*seen_head => {
                *seen_head = true;
                line::head(&words)
            }
            [word, rest @ ..] if word.eq_ignore_ascii_case("cpu") => self.add_cpu(rest),
            _ => self.add_event(number, &words),
        }
    }

    fn add_cpu(&mut self, words: &[&str]) -> Result<(), String> {
        if !self.lines.is_empty() {
            return Err(String::from("a `cpu` line after the first event, expected it before"));
        }
        let (number, features) = line::cpu(words)?;
        let next = self.cpus.len();
        if next == MOST_CPUS {
            return Err(alloc::format!("CPU {number}, expected {MOST_CPUS} CPUs at most"));
        }
        if number != next as u64 {
            return Err(alloc::format!("CPU {number}, expected CPU {next}: they are told in order"));
        }
        self.cpus.push(features);
        Ok(())
    }

    /// `memory ADDRESS VALUE…`: consecutive words.
    fn add_memory<'w>(&mut self, words: impl Iterator<Item = &'w str>) -> Result<(), String> {
        if !self.lines.is_empty() {
            return Err(String::from("a `memory` line after the first event, expected it before"));
        }
        let mut words = words.peekable();
        let Some(first) = words.next() else {
            return Err(String::from("`memory`, expected `memory ADDRESS VALUE…`"));
        };
        if words.peek().is_none() {
            return Err(String::from("`memory` without a value, expected `memory ADDRESS VALUE…`"));
        }
        let mut address = line::word_address(first)?;
        for value in words {
            if address >= MEMORY_END {
                return Err(alloc::format!("`{value}` would lie at {address:#x}, expected words below 2^52"));
            }
            if !self.memory.learn(address, number(value)?) {
                return Err(alloc::format!("the word at {address:#x} is told twice, expected once"));
            }
            address += 8;
        }
        Ok(())
    }

    fn add_event(&mut self, number: usize, words: &[&str]) -> Result<(), String> {
        let (cpu, act) = line::event(words)?;
        if cpu >= self.cpus.len() as u64 {
            return Err(match self.cpus.len() {
                0 => String::from("an event before any `cpu` line, expected `cpu 0 …` first"),
                count => alloc::format!("CPU {cpu}, expected one of the {count} that have a `cpu` line"),
            });
        }
        if let Act::Unknown { register, value, .. } = act
            && register.starts_with("tcr2")
            && value & line::TCR2_PERMISSIONS != 0
        {
            let note =
                "permissions are read from descriptors alone: what registers add to them (PIE, POE) is not known";
            self.notes.extend((!self.notes.iter().any(|it| it == note)).then(|| String::from(note)));
        }
        self.lines.push(Line { number, cpu: cpu as u8, act });
        Ok(())
    }
}
