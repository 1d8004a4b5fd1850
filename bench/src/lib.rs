//! `cargo xtask bench`: the engine beside its peers, in instructions. See `help.txt`.

mod careful;
mod case;
mod chosen;
pub mod contender;
mod goal;
mod linear;
mod measurement;
pub mod memory;
mod naive;
mod options;
mod ours;
mod record;
mod region;
mod results;
mod roster;
mod rows;
mod table;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use case::Case;
use measurement::Measurement;
use options::{Command, Options};
use roster::Contender;

/// Exit statuses besides 0 and 1.
const BAD_INPUT: u8 = 2;
const HOST_LACKS: u8 = 3;

/// The command line.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == measurement::RUN) {
        return run(&arguments, |case, contender, scale| contender.run(case, scale));
    }
    match options::parse() {
        Ok(Command::Help) => say(include_str!("help.txt")),
        Ok(Command::Table) => match record::write_table() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &error),
        },
        Ok(Command::List(pairs)) => say(&list(&pairs)),
        Ok(Command::Measure(options)) => bench(&options),
        Err(error) => fail(BAD_INPUT, &format!("{error} (see --help)")),
    }
}

/// The whole of a program that has one contender, compiled for one case: a run of it.
pub fn run_one<C: contender::Contender>() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    run(&arguments, |case, _, scale| Some(rows::run::<C>(case, scale)))
}

/// A run, as its command line names it.
fn run(arguments: &[String], outcome: impl Fn(Case, Contender, rows::Scale) -> Option<rows::Outcome>) -> ExitCode {
    let asked = arguments.split_first().filter(|(first, _)| *first == measurement::RUN);
    let outcome = asked
        .and_then(|(_, rest)| measurement::asked(rest))
        .and_then(|(case, contender, scale)| outcome(case, contender, scale));
    match outcome {
        Some(outcome) => say(&format!("{outcome}\n")),
        None => fail(BAD_INPUT, "a run is made by cargo xtask bench (see --help)"),
    }
}

/// Prints; a reader that has gone away is no error.
fn say(text: &str) -> ExitCode {
    let _ = write!(io::stdout(), "{text}");
    ExitCode::SUCCESS
}

fn fail(status: u8, line: &str) -> ExitCode {
    eprintln!("cargo xtask bench: {line}");
    ExitCode::from(status)
}

fn list(pairs: &[(Case, Contender)]) -> String {
    let mut cases: Vec<Case> = pairs.iter().map(|(case, _)| *case).collect();
    cases.dedup();
    let names = |case| pairs.iter().filter(move |(one, _)| *one == case).map(|(_, contender)| contender.name());
    cases.into_iter().map(|case| format!("{case:<24} {}\n", names(case).collect::<Vec<_>>().join(" "))).collect()
}

fn bench(options: &Options) -> ExitCode {
    let Some(valgrind) = (if options.is_quick { Some(String::new()) } else { measurement::valgrind() }) else {
        return fail(HOST_LACKS, "valgrind counts the instructions, and is not here: apt-get install valgrind");
    };
    let measured = match measure_all(options) {
        Ok(measured) => measured,
        Err(error) => return fail(1, &error),
    };
    if let Err(error) = measurement::agree(&measured) {
        return fail(1, &error);
    }
    if options.is_quick {
        let cases = options.pairs.chunk_by(|one, other| one.0 == other.0).count();
        return say(&format!("{} runs of {cases} rows: all contenders agree\n", measured.len()));
    }
    if options.is_bound {
        return bound(&measured);
    }
    if options.is_json {
        return say(&format!("{:#}\n", results::to_json(&measured)));
    }
    if options.is_recorded
        && let Err(error) = record::write(&valgrind, &measured)
    {
        return fail(1, &error);
    }
    say(&table::render(&measured))
}

/// Tells what misses its bound.
fn bound(measured: &[Measurement]) -> ExitCode {
    let recorded = match record::read() {
        Ok((_, recorded)) => recorded,
        Err(error) => return fail(1, &error),
    };
    let missed = goal::missed(measured, &recorded);
    for line in &missed {
        say(&format!("missed: {line}\n"));
    }
    say(&format!("{} rows, {} bounds missed\n", measured.len(), missed.len()));
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn measure_all(options: &Options) -> Result<Vec<Measurement>, String> {
    let is_shown = io::stderr().is_terminal();
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{bar:40} {percent}%  {msg}");
    let bar = ProgressBar::with_draw_target(Some(options.pairs.len() as u64), target)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut measured = Vec::new();
    for &(case, contender) in &options.pairs {
        bar.set_message(format!("{case} {}", contender.name()));
        measured.push(measurement::measure(case, contender, options.is_quick)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(measured)
}
