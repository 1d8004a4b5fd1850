//! `cargo xtask check zoo`.

use std::time::Instant;

use clap::Args;
use terminal::{Ending, Table, Watch, counted, print};

use crate::Error;
use crate::case::{Case, Version};
use crate::configuration::{Configuration, Configurations};
use crate::folder;
use crate::orders::Program;
use crate::page;
use crate::verdict::{self, Verdict};

/// What stands below the options.
pub const HELP: &str = "\
The buggy version of each case must be caught by the rule and at the step that its file states, the fixed one must be silent, at \
every BBM level and with every FEAT_ETS. Where a bug has a counterpart in the engine, the engine with that fault must be caught \
too, and the engine as it is must not. docs/zoo.md tells what each bug was, and how cases are written.

Examples:
  cargo xtask check zoo                        every case
  cargo xtask check zoo kvm-stage2-live --trace buggy > bug.trace; vellum judge bug.trace";

/// Bugs that real kernels, hypervisors and firmware had in translation tables and TLBs, and their repairs
#[derive(Args, Debug)]
pub struct Options {
    /// These cases alone, with the story of each; a path may name a case of your own
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// At this BBM level alone: 0 to 3
    #[arg(long, value_name = "N")]
    bbm: Option<String>,
    /// With this FEAT_ETS alone: none, 2 or 3
    #[arg(long, value_name = "N")]
    ets: Option<String>,
    /// Print the case as a trace, buggy or fixed: at BBM level 0 and without FEAT_ETS, unless told
    #[arg(long, value_name = "VERSION", value_parser = version, requires = "names")]
    trace: Option<Version>,
    /// Names, and where each happened
    #[arg(long)]
    list: bool,
    /// The same as docs/zoo.md has them
    #[arg(long)]
    page: bool,
}

/// Runs the check.
///
/// # Errors
/// A case or an option that makes no sense.
pub fn run(options: &Options) -> Result<Ending, String> {
    checks::require_unwinding()?;
    let cases = folder::find(&options.names).map_err(|error| error.to_string())?;
    let configurations = configurations(options)?;
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
        None => run_all(options, &cases, &configurations),
    };
    done.map_err(|error| error.to_string())
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

fn run_all(options: &Options, cases: &[Case], configurations: &Configurations) -> Result<Ending, Error> {
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
