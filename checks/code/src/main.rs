//! `cargo xtask check --code`. See `help.txt`.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use code::kernel::Kernel;
use code::lab::Lab;
use code::pieces::{self, Piece};
use code::suite::{self, Killed, Ran, Site};
use code::survivors::{self, Row};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lexopt::prelude::*;

const HELP: &str = include_str!("help.txt");
/// Exit status for a command line or a file that makes no sense.
const BAD_INPUT: u8 = 2;

/// What a person asked for.
#[derive(Default)]
struct Options {
    kernel: Option<PathBuf>,
    pieces: Vec<String>,
    list: bool,
}

impl Options {
    fn wants(&self, piece: &Piece) -> bool {
        self.pieces.is_empty() || self.pieces.iter().any(|it| it == piece.name)
    }
}

fn main() -> ExitCode {
    let options = match parse() {
        Ok(Some(options)) => options,
        Ok(None) => {
            say(HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => return bad_input(&format!("{error} (see --help)")),
    };
    match prepare(&options) {
        Ok((_, pieces, _)) if options.list => {
            list(&pieces);
            ExitCode::SUCCESS
        }
        Ok((lab, pieces, rows)) => run(&options, &lab, &pieces, &rows),
        Err(error) => bad_input(&error),
    }
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("code") => {}
            Long("kernel") => options.kernel = Some(parser.value()?.into()),
            Long("list") => options.list = true,
            Long("help") | Short('h') => return Ok(None),
            Value(piece) => options.pieces.push(piece.string()?),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(options))
}

/// Everything that a run needs, or what is wrong with it in one line.
fn prepare(options: &Options) -> Result<(Lab, Vec<Piece>, Vec<Row>), String> {
    let path = options.kernel.as_ref().ok_or("no --kernel FILE (see --help)")?;
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

/// Prints; a reader that has gone away is no error.
fn say(text: impl std::fmt::Display) {
    let _ = write!(io::stdout(), "{text}");
}

fn bad_input(text: &str) -> ExitCode {
    eprintln!("code: {text}");
    ExitCode::from(BAD_INPUT)
}

fn list(pieces: &[Piece]) {
    for piece in pieces {
        say(format_args!("{}\n", piece.name));
        piece.cases.iter().for_each(|case| say(format_args!("    {}\n", case.name)));
    }
}

fn bar(length: usize) -> ProgressBar {
    let target = if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style =
        ProgressStyle::with_template("{bar:40} {pos}/{len}  {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(length as u64), target).with_style(style)
}

/// What came of the mutants of one piece.
#[derive(Default)]
struct Tally {
    mutants: usize,
    /// By what notices them.
    killed: BTreeMap<&'static str, usize>,
    listed: usize,
}

fn run(options: &Options, lab: &Lab, pieces: &[Piece], rows: &[Row]) -> ExitCode {
    let start = Instant::now();
    let bar = bar(pieces.len());
    let mut ran: Vec<(&Piece, Ran)> = Vec::new();
    for piece in pieces {
        bar.set_message(piece.name);
        ran.push((piece, suite::run(lab, piece)));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut wrong: Vec<String> = Vec::new();
    for (piece, ran) in &ran {
        wrong.extend(ran.wrong.iter().map(|(case, found)| format!("{}, {case}: {found}", piece.name)));
    }
    if !wrong.is_empty() {
        wrong.iter().for_each(|line| say(format_args!("{line}\n")));
        return ExitCode::FAILURE;
    }
    let mut hunt = Hunt { options, lab, rows, ran: &ran, tallies: BTreeMap::new(), used: BTreeSet::new(), wrong };
    hunt.run();
    let Hunt { tallies, wrong, .. } = hunt;
    ran.retain(|(piece, _)| options.wants(piece));
    say(table(&ran, &tallies));
    wrong.iter().for_each(|line| say(format_args!("{line}\n")));
    let [mutants, listed] =
        [|it: &Tally| it.mutants, |it: &Tally| it.listed].map(|of| tallies.values().map(of).sum::<usize>());
    let seconds = start.elapsed().as_secs_f64();
    say(format_args!(
        "{mutants} mutants, {listed} of them listed as survivors with their reason, {} things wrong; {seconds:.1} s\n",
        wrong.len()
    ));
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
        let bar = bar(sites.len());
        for site in &sites {
            bar.set_message(site.symbol.clone());
            bar.inc(1);
            let those: Vec<&Piece> =
                self.ran.iter().filter(|(_, ran)| ran.visited.contains(&site.place)).map(|it| it.0).collect();
            match those.first() {
                Some(owner) if options.wants(owner) => bar.suspend(|| self.site(owner.name, site, &those)),
                Some(_) => {}
                None if suite::listed(self.rows, site, "never run").is_some() => {
                    self.note_listed(site, "never run");
                }
                None => self.wrong.push(format!("{}: {} is in no piece", site.title(), site.name)),
            }
        }
        bar.finish_and_clear();
        if self.options.pieces.is_empty() {
            self.check_list();
        }
    }

    fn site(&mut self, owner: &'static str, site: &Site, pieces: &[&Piece]) {
        for mutant in &site.mutants {
            let killed = suite::kill(self.lab, pieces, site, mutant);
            let row = suite::listed(self.rows, site, &mutant.weakened);
            if !self.options.pieces.is_empty() {
                say(line(site, &mutant.weakened, killed.as_ref(), row));
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

fn table(ran: &[(&Piece, Ran)], tallies: &BTreeMap<&'static str, Tally>) -> String {
    let mut rows = vec![["piece", "cases", "instructions", "mutants", "listed", "killed by"].map(str::to_owned)];
    let none = Tally::default();
    for (piece, ran) in ran {
        let tally = tallies.get(piece.name).unwrap_or(&none);
        let killed: Vec<String> = tally.killed.iter().map(|(label, count)| format!("{label} {count}")).collect();
        let [cases, mutants, listed] = [ran.cases, tally.mutants, tally.listed].map(|it| it.to_string());
        rows.push([piece.name.to_owned(), cases, ran.steps.to_string(), mutants, listed, killed.join(", ")]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let [first, numbers @ ..] = [0, 1, 2, 3, 4].map(width);
    let mut text = String::new();
    for [name, cases, steps, mutants, listed, killed] in &rows {
        let [a, b, c, d] = numbers;
        text += &format!("{name:first$}  {cases:>a$}  {steps:>b$}  {mutants:>c$}  {listed:>d$}  {killed}\n");
    }
    text
}
