//! A run as text: everything that is needed to repeat it.
//!
//! ```text
//! vellum schedule 1
//! workload unmap-page
//! seed 3
//! mutant engine/pagetable/src/gather.rs:147:22 DSB ISH deleted
//! without 0.2 1.0
//! tlb 77
//! run 0x12 1x3 0x4
//! ```
//! `mutant`, `without` (steps left out, as CPU.number) and `tlb` (seed of concrete TLBs) are optional.

use std::fmt;

use crate::suite::Trial;
use crate::workloads::{self, Workload};

/// A schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Name of the workload.
    pub workload: &'static str,
    /// Its seed.
    pub seed: u64,
    /// The mutant, as it prints.
    pub mutant: Option<String>,
    /// Steps left out.
    pub without: Vec<(usize, usize)>,
    /// Seed of concrete TLBs.
    pub tlb: Option<u64>,
    /// Which thread makes each step: programs, one for each CPU, then interrupts.
    pub choices: Vec<u8>,
}

const HEAD: &str = "vellum schedule 1";
/// Steps of a run at most.
const MOST_STEPS: usize = 10_000_000;

impl Schedule {
    /// Reads a schedule; the error says in which line what is wrong.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        match lines.next() {
            Some((_, line)) if line.trim() == HEAD => {}
            Some((number, line)) => return Err((number, format!("`{}`, expected `{HEAD}`", shortened(line)))),
            None => return Err((1, format!("an empty file, expected `{HEAD}`"))),
        }
        let (mut workload, mut has_run) = (None, false);
        let mut schedule =
            Self { workload: "", seed: 0, mutant: None, without: Vec::new(), tlb: None, choices: Vec::new() };
        let mut told: Vec<&str> = Vec::new();
        for (number, line) in lines {
            let (key, value) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
            let wrong = |what: String| (number, what);
            if told.contains(&key) {
                return Err((number, format!("a second line `{key}`, expected one")));
            }
            told.push(key);
            match key {
                "workload" => {
                    let found = Workload::find(value.trim()).ok_or_else(|| wrong(no_workload(value)))?;
                    workload = Some(found.name);
                }
                "seed" => schedule.seed = parse_number(value).map_err(wrong)?,
                "tlb" => schedule.tlb = Some(parse_number(value).map_err(wrong)?),
                "mutant" => schedule.mutant = Some(value.to_string()),
                "without" => schedule.without = parse_pairs(value, '.').map_err(wrong)?,
                "run" => {
                    has_run = true;
                    for (thread, count) in parse_pairs(value, 'x').map_err(wrong)? {
                        if thread > 7 || count > MOST_STEPS - schedule.choices.len() {
                            let most = format!("expected threads 0 to 7 and at most {MOST_STEPS} steps in all");
                            return Err((number, format!("`{thread}x{count}`, {most}")));
                        }
                        schedule.choices.extend(std::iter::repeat_n(thread as u8, count));
                    }
                }
                _ => {
                    let known = "expected workload, seed, mutant, without, tlb or run";
                    return Err((number, format!("`{}`, {known}", shortened(key))));
                }
            }
        }
        let last = text.lines().count().max(1);
        schedule.workload = workload.ok_or((last, "no line `workload NAME`".to_string()))?;
        if has_run { Ok(schedule) } else { Err((last, "no line `run THREADxSTEPS…`".to_string())) }
    }

    /// The trial that it is a schedule of.
    pub fn trial(&self) -> Option<Trial> {
        Some(Trial { workload: Workload::find(self.workload)?, seed: self.seed })
    }
}

fn no_workload(name: &str) -> String {
    let known: Vec<&str> = workloads::ALL.iter().map(|it| it.name).collect();
    format!("no workload `{}`, expected one of {}", shortened(name), known.join(", "))
}

/// What a message quotes of a line that anybody may have written.
fn shortened(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

fn parse_number(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("`{}`, expected a number of 64 bits", shortened(text)))
}

fn parse_pairs(text: &str, between: char) -> Result<Vec<(usize, usize)>, String> {
    let pair = |word: &str| {
        let (one, other) = word.split_once(between)?;
        Some((one.parse().ok()?, other.parse().ok()?))
    };
    let words = text.split_whitespace();
    words
        .map(|word| pair(word).ok_or_else(|| format!("`{}`, expected NUMBER{between}NUMBER", shortened(word))))
        .collect()
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}\nworkload {}\nseed {}", self.workload, self.seed)?;
        if let Some(mutant) = &self.mutant {
            writeln!(f, "mutant {mutant}")?;
        }
        if !self.without.is_empty() {
            write!(f, "without")?;
            self.without.iter().try_for_each(|(cpu, number)| write!(f, " {cpu}.{number}"))?;
            writeln!(f)?;
        }
        if let Some(tlb) = self.tlb {
            writeln!(f, "tlb {tlb}")?;
        }
        write!(f, "run")?;
        for block in self.choices.chunk_by(|one, other| one == other) {
            write!(f, " {}x{}", block[0], block.len())?;
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_read() {
        let schedule = Schedule {
            workload: "unmap-page",
            seed: 3,
            mutant: Some("a.rs:1:2 ISB deleted".into()),
            without: vec![(0, 2), (1, 0)],
            tlb: Some(77),
            choices: vec![0, 0, 1, 0],
        };
        assert_eq!(Schedule::parse(&schedule.to_string()), Ok(schedule));
    }

    #[test]
    fn errors_say_where() {
        let error = |text: &str| Schedule::parse(text).expect_err("accepted");
        assert_eq!(error("").0, 1);
        assert_eq!(error("vellum schedule 2"), (1, "`vellum schedule 2`, expected `vellum schedule 1`".into()));
        assert_eq!(error("vellum schedule 1\nworkload x").0, 2);
        assert_eq!(error("vellum schedule 1\nworkload remap\n\nrun 0y1"), (4, "`0y1`, expected NUMBERxNUMBER".into()));
        assert_eq!(error("vellum schedule 1\nworkload remap\nrun 9x1").0, 3);
        assert_eq!(error("vellum schedule 1\nworkload remap\n").1, "no line `run THREADxSTEPS…`");
        assert!(error("vellum schedule 1\nworkload x").1.contains("no workload `x`, expected one of map-page, "));
        let twice = "vellum schedule 1\nworkload remap\nseed 1\nseed 2\nrun 0x1";
        assert_eq!(error(twice), (4, "a second line `seed`, expected one".into()));
        let long = "vellum schedule 1\nworkload remap\nrun 0x6000000 1x6000000";
        assert_eq!(error(long), (3, "`1x6000000`, expected threads 0 to 7 and at most 10000000 steps in all".into()));
        assert!(error(&format!("vellum schedule 1\n\u{1b}{}", "x".repeat(1 << 20))).1.starts_with(r"`\u{1b}x"));
        assert!(error(&"x".repeat(1 << 20)).1.len() < 120);
    }
}
