//! Runs pieces as they are, then each mutant of what they executed, and holds what survives against the list.

use std::collections::{BTreeMap, BTreeSet};

use a64::decode::NOP;
use a64::instruction::Instruction;

use crate::finding::Found;
use crate::lab::Lab;
use crate::mutant::{self, Mutant};
use crate::pieces::Piece;
use crate::survivors::Row;

/// An instruction that maintains something, with its mutants.
#[derive(Clone, Debug)]
pub struct Site {
    /// Physical address.
    pub place: u64,
    /// The symbol before it.
    pub symbol: String,
    /// Which of the symbol's instructions of that name it is, counted from 1.
    pub number: usize,
    /// What it is called.
    pub name: String,
    /// Its mutants.
    pub mutants: Vec<Mutant>,
}

impl Site {
    /// Where it is, for people.
    pub fn title(&self) -> String {
        format!("{} {} {}", self.symbol, self.name, self.number)
    }
}

/// What came of a piece as it is.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// Cases.
    pub cases: usize,
    /// Instructions, in all cases together.
    pub steps: u64,
    /// Physical addresses of what was executed.
    pub visited: BTreeSet<u64>,
    /// The case that went wrong.
    pub wrong: Option<(String, Found)>,
}

/// What noticed a mutant.
#[derive(Clone, Debug)]
pub struct Killed {
    /// The piece.
    pub piece: &'static str,
    /// The case.
    pub case: String,
    /// How.
    pub found: Found,
}

/// Runs every case of a piece, until one goes wrong.
pub fn run(lab: &Lab, piece: &Piece) -> Ran {
    let mut sum = Ran { cases: piece.cases.len(), ..Ran::default() };
    for case in &piece.cases {
        match case.run(lab, None) {
            Ok(ran) => {
                sum.steps += ran.steps;
                sum.visited.extend(ran.visited);
            }
            Err(found) => {
                sum.wrong = Some((case.name.clone(), found));
                return sum;
            }
        }
    }
    sum
}

/// Routines of assembly outside the part that runs at its physical address, and functions of Rust with the TLBI that ends a conflict.
const HIGH: [&str; 9] = [
    "vectors",
    "end_conflict",
    "catch_faults",
    "clean_and_invalidate_to_poc",
    "make_fetchable",
    "make_fetchable_everywhere",
    "read_translation",
    "read_translation_to_write",
    "send_event",
];

/// Every instruction of the kernel's assembly and of these functions that maintains something, run or not.
pub fn all_sites(lab: &Lab) -> Vec<Site> {
    let low = (lab.physical("image_start"), lab.physical("identity_end"));
    let high = HIGH.iter().filter_map(|name| lab.kernel.extent(name));
    std::iter::once(low).chain(high).flat_map(|(first, end)| sites(lab, first, end)).collect()
}

fn sites(lab: &Lab, first: u64, end: u64) -> Vec<Site> {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut sites = Vec::new();
    for (place, instruction) in lab.kernel.instructions(first, end) {
        let mutants = match call(lab, &instruction) {
            Some(name) => vec![Mutant { word: NOP, original: name, weakened: "nothing".to_owned() }],
            None => lab.kernel.instruction_word(place).map_or_else(Vec::new, mutant::mutants),
        };
        let Some(name) = mutants.first().map(|mutant| mutant.original.clone()) else { continue };
        let symbol = lab.kernel.name(place).0.to_owned();
        let number = counts.entry((symbol.clone(), name.clone())).or_default();
        *number += 1;
        sites.push(Site { place, symbol, number: *number, name, mutants });
    }
    sites
}

/// What a call of a routine that maintains caches is called.
fn call(lab: &Lab, instruction: &Instruction) -> Option<String> {
    let Instruction::BranchWithLink { target } = instruction else { return None };
    let (name, offset) = lab.kernel.name(*target);
    (offset == 0 && name.ends_with("_to_poc")).then(|| format!("BL {name}"))
}

/// The first of `pieces` that notices a mutant.
pub fn kill(lab: &Lab, pieces: &[&Piece], site: &Site, mutant: &Mutant) -> Option<Killed> {
    pieces.iter().find_map(|piece| {
        piece.cases.iter().find_map(|case| {
            let found = case.run(lab, Some((site.place, mutant.word))).err()?;
            Some(Killed { piece: piece.name, case: case.name.clone(), found })
        })
    })
}

/// The row that a survivor is on.
pub fn listed<'r>(rows: &'r [Row], site: &Site, weakened: &str) -> Option<&'r Row> {
    rows.iter().find(|row| {
        let is_its = row.symbol == site.symbol && row.number == site.number && row.original == site.name;
        is_its && row.weakened.iter().any(|it| it == weakened)
    })
}
