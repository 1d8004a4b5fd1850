//! `cargo xtask check --zoo`. See `help.txt`.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use terminal::{Ending, Table, Watch, counted, print};
use zoo::Error;
use zoo::case::{Case, Version};
use zoo::configuration::{Configuration, Configurations};
use zoo::folder;
use zoo::orders::Program;
use zoo::page;
use zoo::verdict::{self, Verdict};

/// What a person asked for.
#[derive(Parser)]
#[command(name = "zoo", override_help = include_str!("help.txt"))]
struct Options {
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[arg(long, value_name = "N")]
    bbm: Option<String>,
    #[arg(long, value_name = "N")]
    ets: Option<String>,
    #[arg(long, value_name = "VERSION", value_parser = version, requires = "names")]
    trace: Option<Version>,
    #[arg(long)]
    list: bool,
    #[arg(long)]
    page: bool,
}

fn main() -> ExitCode {
    terminal::run(|options: Options| {
        checks::require_unwinding()?;
        let cases = folder::find(&options.names).map_err(|error| error.to_string())?;
        let configurations = configurations(&options)?;
        let done = match options.trace {
            _ if options.list => Ok(list(&cases)),
            _ if options.page => {
                print(page::page(&cases));
                Ok(Ending::Clean)
            }
            Some(version) => match &cases[..] {
                [case] => print_trace(case, version, &configurations),
                _ => return Err("--trace, expected with the name of one case (see --help)".into()),
            },
            None => run(&options, &cases, &configurations),
        };
        done.map_err(|error| error.to_string())
    })
}

/// The value of `--trace`.
fn version(name: &str) -> Result<Version, String> {
    Version::BOTH.into_iter().find(|it| it.name() == name).ok_or_else(|| "expected buggy or fixed".into())
}

fn configurations(options: &Options) -> Result<Configurations, String> {
    let mut configurations = Configurations::default();
    if let Some(bbm) = &options.bbm {
        configurations.narrow(&format!("bbm={bbm}"))?;
    }
    if let Some(ets) = &options.ets {
        configurations.narrow(&format!("ets={}", ets.replace("none", "0")))?;
    }
    Ok(configurations)
}

fn list(cases: &[Case]) -> Ending {
    let mut table = Table::new("");
    cases.iter().for_each(|it| table.row([&it.name, &it.happened]));
    print(table);
    Ending::Clean
}

/// Prints one case as a trace: of a buggy one an order in which something is found, if there is one.
fn print_trace(case: &Case, version: Version, configurations: &Configurations) -> Result<Ending, Error> {
    if let Some(configuration) = Configuration::all().find(|it| configurations.contains(*it)) {
        let explored = Program::new(case, version, configuration)?.explore()?;
        let found = explored.found.into_values().next().map(|(trace, _)| trace);
        print(found.or(explored.silent).unwrap_or_default());
    }
    Ok(Ending::Clean)
}

fn run(options: &Options, cases: &[Case], configurations: &Configurations) -> Result<Ending, Error> {
    // A mutant of the engine may panic, which is a finding: the default hook would print it across the table.
    std::panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    let watch = Watch::new("zoo", cases.len() as u64);
    let verdicts = verdict::run_all(cases, configurations, &|case| {
        watch.step(case.name.clone());
    })?;
    watch.finish();
    let done: Vec<(&Case, Verdict)> = cases.iter().zip(verdicts).collect();
    print(table(&done));
    let misses = done.iter().flat_map(|(case, verdict)| verdict.misses().into_iter().map(|it| (&case.name, it)));
    let misses: Vec<(&String, String)> = misses.collect();
    for (case, verdict) in done.iter().filter(|_| !options.names.is_empty()) {
        tell(case, verdict);
    }
    misses.iter().for_each(|(name, miss)| print(format_args!("\nMISS {name}, {miss}\n")));
    print(summary(&done, misses.len(), start.elapsed().as_secs_f64()));
    Ok(Ending::of(misses.is_empty()))
}

fn table(done: &[(&Case, Verdict)]) -> Table {
    let mut table = Table::new("").right(&[3]);
    table.row(["case", "buggy, found by", "fixed", "runs"]);
    done.iter().flat_map(|(case, verdict)| rows(case, verdict)).for_each(|row| table.row(row));
    table
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
    print(format_args!("\n{}: {}\n{}\n", case.name, case.happened, case.story));
    if let Some(legal) = &case.legal {
        print(format_args!("Legal elsewhere: {legal}\n"));
    }
    if let Some(story) = &verdict.story {
        print(format_args!("{story}\n"));
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
