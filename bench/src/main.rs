//! `cargo xtask bench`: the engine beside its peers, in instructions. See `help.txt`.

mod careful;
mod case;
mod chosen;
mod contender;
mod goal;
mod measurement;
mod memory;
mod naive;
mod options;
mod ours;
mod peers;
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

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((measurement::RUN, rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return match measurement::run(rest) {
            Some(outcome) => say(&format!("{outcome}\n")),
            None => fail(BAD_INPUT, "a run is made by cargo xtask bench (see --help)"),
        };
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
    if let Err(error) = agree(&measured) {
        return fail(1, &error);
    }
    if options.is_quick {
        let cases = options.pairs.chunk_by(|one, other| one.0 == other.0).count();
        return say(&format!("{} runs of {cases} rows: all contenders agree\n", measured.len()));
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

/// All contenders of a row and granule, on tables live or not, have found the same.
fn agree(measured: &[Measurement]) -> Result<(), String> {
    for one in measured {
        let same = |other: &&Measurement| one.case.row == other.case.row && one.case.page_size == other.case.page_size;
        if let Some(other) = measured.iter().filter(same).find(|other| other.answer() != one.answer()) {
            let says = |one: &Measurement| format!("{} {} finds {}", one.case, one.contender.name(), one.outcome);
            return Err(format!("{}, but {}", says(one), says(other)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Outcome;

    #[test]
    fn contenders_that_find_something_else_are_told() {
        let outcome = Outcome { units: 4, found: 4, checksum: 0xa, frames: 2, tlbis: 0 };
        let one = |case: &str, checksum| {
            let case = Case::named(case).expect("a case");
            Measurement { case, contender: Contender::Ours, instructions: 0, outcome: Outcome { checksum, ..outcome } }
        };
        assert_eq!(agree(&[one("map-page/4k", 0xa), one("map-page/4k/live", 0xa), one("map-page/16k", 0xb)]), Ok(()));
        let differing = agree(&[one("map-page/4k", 0xa), one("map-page/4k/live", 0xb)]);
        let expected = "map-page/4k ours finds 4 4 a 2 0, but map-page/4k/live ours finds 4 4 b 2 0";
        assert_eq!(differing, Err(expected.to_string()));
    }
}
