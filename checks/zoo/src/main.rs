//! `cargo xtask check --zoo`. See `help.txt`.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use checks::watch::Watch;
use lexopt::prelude::*;
use zoo::Error;
use zoo::case::{self, Case, Version};
use zoo::configuration::{Configuration, Configurations};
use zoo::orders::Program;
use zoo::page;
use zoo::verdict::{self, Verdict};

const HELP: &str = include_str!("help.txt");
/// Exit status for a command line or a file that makes no sense.
const BAD_INPUT: u8 = 2;

/// What a person asked for.
#[derive(Default)]
struct Options {
    names: Vec<String>,
    configurations: Configurations,
    trace: Option<Version>,
    list: bool,
    page: bool,
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
    if let Err(error) = checks::require_unwinding() {
        return bad_input(error);
    }
    let done = case::find(&options.names).and_then(|cases| match options.trace {
        _ if options.list => Ok(list(&cases)),
        _ if options.page => {
            say(page::page(&cases));
            Ok(ExitCode::SUCCESS)
        }
        Some(version) => print_trace(&cases, version, &options.configurations),
        None => run(&options, &cases),
    });
    done.unwrap_or_else(|error| bad_input(&error.to_string()))
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("zoo") => {}
            Long("list") => options.list = true,
            Long("page") => options.page = true,
            Long("bbm") => options.configurations.narrow(&format!("bbm={}", parser.value()?.string()?))?,
            Long("ets") => {
                options.configurations.narrow(&format!("ets={}", parser.value()?.string()?.replace("none", "0")))?
            }
            Long("trace") => {
                let name = parser.value()?.string()?;
                let version = Version::BOTH.into_iter().find(|it| it.name() == name);
                options.trace = Some(version.ok_or_else(|| format!("--trace `{name}`, expected buggy or fixed"))?);
            }
            Long("help") | Short('h') => return Ok(None),
            Value(name) => options.names.push(name.string()?),
            other => return Err(other.unexpected()),
        }
    }
    if options.trace.is_some() && options.names.len() != 1 {
        return Err("--trace, expected with the name of one case".into());
    }
    Ok(Some(options))
}

/// Prints; a reader that has gone away is no error.
fn say(text: impl std::fmt::Display) {
    let _ = write!(io::stdout(), "{text}");
}

fn bad_input(text: &str) -> ExitCode {
    eprintln!("zoo: {text}");
    ExitCode::from(BAD_INPUT)
}

fn list(cases: &[Case]) -> ExitCode {
    let width = width(cases.iter().map(|it| it.name.as_str()));
    cases.iter().for_each(|it| say(format_args!("{:width$}  {}\n", it.name, it.happened)));
    ExitCode::SUCCESS
}

/// Prints one case as a trace: of a buggy one an order in which something is found, if there is one.
fn print_trace(cases: &[Case], version: Version, configurations: &Configurations) -> Result<ExitCode, Error> {
    let configuration = Configuration::all().find(|it| configurations.contains(*it));
    if let (Some(case), Some(configuration)) = (cases.first(), configuration) {
        let explored = Program::new(case, version, configuration)?.explore()?;
        let found = explored.found.into_values().next().map(|(trace, _)| trace);
        say(found.or(explored.silent).unwrap_or_default());
    }
    Ok(ExitCode::SUCCESS)
}

fn run(options: &Options, cases: &[Case]) -> Result<ExitCode, Error> {
    // A mutant of the engine may panic, which is a finding: the default hook would print it across the table.
    std::panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    let watch = Watch::new("zoo", cases.len() as u64);
    let verdicts = verdict::run_all(cases, &options.configurations, &|case| {
        watch.step(case.name.clone());
    })?;
    watch.finish();
    let done: Vec<(&Case, Verdict)> = cases.iter().zip(verdicts).collect();
    say(table(&done));
    let misses = done.iter().flat_map(|(case, verdict)| verdict.misses().into_iter().map(|it| (&case.name, it)));
    let misses: Vec<(&String, String)> = misses.collect();
    for (case, verdict) in done.iter().filter(|_| !options.names.is_empty()) {
        tell(case, verdict);
    }
    misses.iter().for_each(|(name, miss)| say(format_args!("\nMISS {name}, {miss}\n")));
    say(summary(&done, misses.len(), start.elapsed().as_secs_f64()));
    Ok(if misses.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn width<'a>(column: impl Iterator<Item = &'a str>) -> usize {
    column.map(|it| it.chars().count()).max().unwrap_or(0)
}

fn table(done: &[(&Case, Verdict)]) -> String {
    let rows: Vec<[String; 4]> = done.iter().flat_map(|(case, verdict)| rows(case, verdict)).collect();
    let head = ["case", "buggy, found by", "fixed", "runs"].map(String::from);
    let widths = [0, 1, 2].map(|column| width(rows.iter().chain([&head]).map(|row| row[column].as_str())));
    let line = |[name, found, fixed, runs]: &[String; 4]| {
        let [first, second, third] = widths;
        format!("{name:first$}  {found:second$}  {fixed:third$}  {runs:>5}\n")
    };
    [&head].into_iter().chain(&rows).map(line).collect()
}

/// A row about a case, and one for each of its counterparts in the engine.
fn rows(case: &Case, verdict: &Verdict) -> Vec<[String; 4]> {
    let fixed = |is_silent| if is_silent { String::from("silent") } else { String::from("MISS") };
    let own = [case.name.clone(), verdict.summary(), fixed(verdict.is_silent), verdict.runs.to_string()];
    let engine = verdict.engine.iter().map(|killed| {
        [format!("  our engine: {}", killed.work), killed.summary(), fixed(killed.is_silent), killed.runs.to_string()]
    });
    [own].into_iter().chain(engine).collect()
}

fn tell(case: &Case, verdict: &Verdict) {
    say(format_args!("\n{}: {}\n{}\n", case.name, case.happened, case.story));
    if let Some(legal) = &case.legal {
        say(format_args!("Legal elsewhere: {legal}\n"));
    }
    if let Some(story) = &verdict.story {
        say(format_args!("{story}\n"));
    }
}

fn summary(done: &[(&Case, Verdict)], misses: usize, seconds: f64) -> String {
    let sum = |of: fn(&Verdict) -> u64| done.iter().map(|(_, verdict)| of(verdict)).sum::<u64>();
    let (runs, traces) = (sum(|it| it.runs), sum(|it| it.traces));
    let mutants = sum(|it| it.engine.iter().map(|killed| killed.runs / 2).sum());
    let holes = done.iter().filter(|(_, verdict)| !verdict.holes.is_empty()).count() as u64;
    let holes = match holes {
        0 => String::new(),
        _ => format!("{} where the rules have a known hole\n", counted(holes, "case")),
    };
    format!(
        "\n{}, {} of buggy and fixed, {}; {} of the engine's mutants\n{holes}misses: {misses}, {seconds:.1} s\n",
        counted(done.len() as u64, "case"),
        counted(runs, "configuration"),
        counted(traces, "trace"),
        counted(mutants, "run"),
    )
}

/// `1 case`, `2 cases`
fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
