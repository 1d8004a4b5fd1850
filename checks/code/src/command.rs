//! `cargo xtask check code`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use terminal::{Ending, Table, Watch, print};

use crate::kernel::Kernel;
use crate::lab::Lab;
use crate::pieces::{self, Piece};
use crate::suite::{self, Killed, Ran, Site};
use crate::survivors::{self, Row};

/// What stands below the options.
pub const HELP: &str = "\
Runs every piece of assembly that changes how a CPU translates, in every case; then every mutant: each barrier, TLBI and cache \
operation left out, and weakened in each way there is, and each call of a routine that maintains caches left out. What survives \
is held against checks/code/survivors.tsv.

A finding is a rule of the simulated machine (V1 to V12: see docs/why/simulated-machine.md), or
  fetch, access   an instruction or datum that could come from elsewhere, or fault
  cache           a line of a cache that could be in the way
  sync            a register write that was relied on before a context synchronization event
  event           an event that another CPU may have ahead of a store
  end             the code does not come to its end, or not to what it should
  unknown         an instruction or register that is not known here";

/// The kernel's own machine code, word by word from its ELF file, and mutants of it
#[derive(Args, Debug)]
pub struct Options {
    /// An ELF file; without it the kernel is built
    #[arg(long, value_name = "FILE")]
    kernel: PathBuf,
    /// These pieces alone, and each of their mutants with the case and the finding that notice it
    #[arg(value_name = "PIECE")]
    pieces: Vec<String>,
    /// The pieces, and their cases
    #[arg(long)]
    list: bool,
}

impl Options {
    fn wants(&self, piece: &Piece) -> bool {
        self.pieces.is_empty() || self.pieces.iter().any(|it| it == piece.name)
    }
}

/// Runs the check.
///
/// # Errors
/// An ELF file, a list or a name that makes no sense.
pub fn run(options: &Options) -> Result<Ending, String> {
    let (lab, pieces, rows) = prepare(options)?;
    Ok(if options.list { list(&pieces) } else { run_all(options, &lab, &pieces, &rows) })
}

/// Everything that a run needs, or what is wrong with it in one line.
fn prepare(options: &Options) -> Result<(Lab, Vec<Piece>, Vec<Row>), String> {
    let path = &options.kernel;
    let file = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let of_file = |error| format!("{}: {error}", path.display());
    let lab = Lab::new(Kernel::parse(&file).map_err(of_file)?).map_err(of_file)?;
    let pieces = pieces::all();
    let is_known = |name: &&String| pieces.iter().any(|piece| piece.name == **name);
    if let Some(name) = options.pieces.iter().find(|name| !is_known(name)) {
        let names: Vec<_> = pieces.iter().map(|piece| piece.name).collect();
        return Err(format!("no piece `{name}`; pieces are {}", names.join(", ")));
    }
    Ok((lab, pieces, survivors::parse(survivors::LIST)?))
}

fn list(pieces: &[Piece]) -> Ending {
    for piece in pieces {
        print(format_args!("{}\n", piece.name));
        piece.cases.iter().for_each(|case| print(format_args!("    {}\n", case.name)));
    }
    Ending::Clean
}

/// What came of the mutants of one piece.
#[derive(Default)]
struct Tally {
    mutants: usize,
    /// By what notices them.
    killed: BTreeMap<&'static str, usize>,
    listed: usize,
}

fn run_all(options: &Options, lab: &Lab, pieces: &[Piece], rows: &[Row]) -> Ending {
    let start = Instant::now();
    let watch = Watch::new("code", pieces.len() as u64);
    let mut ran: Vec<(&Piece, Ran)> = Vec::new();
    for piece in pieces {
        ran.push((piece, suite::run(lab, piece)));
        watch.step(piece.name.to_owned());
    }
    watch.finish();
    let mut wrong: Vec<String> = Vec::new();
    for (piece, ran) in &ran {
        wrong.extend(ran.wrong.iter().map(|(case, found)| format!("{}, {case}: {found}", piece.name)));
    }
    if !wrong.is_empty() {
        wrong.iter().for_each(|line| print(format_args!("{line}\n")));
        return Ending::Wrong;
    }
    let mut hunt = Hunt { options, lab, rows, ran: &ran, tallies: BTreeMap::new(), used: BTreeSet::new(), wrong };
    hunt.run();
    let Hunt { tallies, wrong, .. } = hunt;
    ran.retain(|(piece, _)| options.wants(piece));
    print(table(&ran, &tallies));
    wrong.iter().for_each(|line| print(format_args!("{line}\n")));
    let [mutants, listed] =
        [|it: &Tally| it.mutants, |it: &Tally| it.listed].map(|of| tallies.values().map(of).sum::<usize>());
    let seconds = start.elapsed().as_secs_f64();
    print(format_args!(
        "{mutants} mutants, {listed} of them listed as survivors with their reason, {} things wrong; {seconds:.1} s\n",
        wrong.len()
    ));
    Ending::of(wrong.is_empty())
}

struct Hunt<'a> {
    options: &'a Options,
    lab: &'a Lab,
    rows: &'a [Row],
    ran: &'a [(&'a Piece, Ran)],
    tallies: BTreeMap<&'static str, Tally>,
    /// Lines of the list that a survivor was on, with the survivor.
    used: BTreeSet<(usize, String)>,
    wrong: Vec<String>,
}

impl Hunt<'_> {
    fn run(&mut self) {
        let options = self.options;
        let sites = suite::all_sites(self.lab);
        let watch = Watch::new("mutants", sites.len() as u64);
        for site in &sites {
            watch.step(site.symbol.clone());
            let those: Vec<&Piece> =
                self.ran.iter().filter(|(_, ran)| ran.visited.contains(&site.place)).map(|it| it.0).collect();
            match those.first() {
                Some(owner) if options.wants(owner) => watch.suspend(|| self.site(owner.name, site, &those)),
                Some(_) => {}
                None if suite::listed(self.rows, site, "never run").is_some() => {
                    self.note_listed(site, "never run");
                }
                None => self.wrong.push(format!("{}: {} is in no piece", site.title(), site.name)),
            }
        }
        watch.finish();
        if self.options.pieces.is_empty() {
            self.check_list();
        }
    }

    fn site(&mut self, owner: &'static str, site: &Site, pieces: &[&Piece]) {
        for mutant in &site.mutants {
            let killed = suite::kill(self.lab, pieces, site, mutant);
            let row = suite::listed(self.rows, site, &mutant.weakened);
            if !self.options.pieces.is_empty() {
                print(line(site, &mutant.weakened, killed.as_ref(), row));
            }
            let tally = self.tallies.entry(owner).or_default();
            tally.mutants += 1;
            match (killed, row) {
                (Some(killed), None) => *tally.killed.entry(killed.found.finding.label()).or_default() += 1,
                (None, Some(_)) => {
                    tally.listed += 1;
                    self.note_listed(site, &mutant.weakened);
                }
                (Some(_), Some(row)) => {
                    let what = format!("{} to {} is killed, and yet listed as a survivor", site.name, mutant.weakened);
                    self.wrong.push(format!("{}:{}: {what}", survivors::PATH, row.line));
                    self.note_listed(site, &mutant.weakened);
                }
                (None, None) => {
                    let what = format!("{} to {}: nothing notices", site.name, mutant.weakened);
                    self.wrong.push(format!("{}: {what}", site.title()));
                }
            }
        }
    }

    fn note_listed(&mut self, site: &Site, weakened: &str) {
        if let Some(row) = suite::listed(self.rows, site, weakened) {
            self.used.insert((row.line, weakened.to_owned()));
        }
    }

    /// Each mutant on the list must exist.
    fn check_list(&mut self) {
        for row in self.rows {
            for weakened in row.weakened.iter().filter(|it| !self.used.contains(&(row.line, (*it).clone()))) {
                let what = format!("{} has no mutant {} to {weakened}", row.symbol, row.original);
                self.wrong.push(format!("{}:{}: {what}", survivors::PATH, row.line));
            }
        }
    }
}

fn line(site: &Site, weakened: &str, killed: Option<&Killed>, row: Option<&Row>) -> String {
    let what = match (killed, row) {
        (Some(killed), _) => {
            let first = killed.found.to_string();
            let first = first.lines().next().unwrap_or_default().to_owned();
            format!("{:8} {}: {first}", killed.found.finding.label(), killed.case)
        }
        (None, Some(row)) => format!("{:8} {}", "listed", row.reason),
        (None, None) => "SURVIVES".to_owned(),
    };
    format!("{:44} to {weakened:16} {what}\n", site.title())
}

fn table(ran: &[(&Piece, Ran)], tallies: &BTreeMap<&'static str, Tally>) -> Table {
    let mut table = Table::new("").right(&[1, 2, 3, 4]);
    table.row(["piece", "cases", "instructions", "mutants", "listed", "killed by"]);
    let none = Tally::default();
    for (piece, ran) in ran {
        let tally = tallies.get(piece.name).unwrap_or(&none);
        let killed: Vec<String> = tally.killed.iter().map(|(label, count)| format!("{label} {count}")).collect();
        let [cases, mutants, listed] = [ran.cases, tally.mutants, tally.listed].map(|it| it.to_string());
        table.row([piece.name.to_owned(), cases, ran.steps.to_string(), mutants, listed, killed.join(", ")]);
    }
    table
}
