//! `cargo xtask check logic-mutants`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use clap::Args;
use terminal::{Ending, Watch, counted, print};

use crate::build::{self, Program};
use crate::copy::{self, Copy};
use crate::hunt::{self, Verdict};
use crate::mutants::{self, Mutant};
use crate::report::{self, Report};
use crate::run::{self, Name, Test};
use crate::sites::Site;
use crate::{equivalents, finder};

/// What stands below the options.
pub const HELP: &str = "\
Makes every mutant of the sources in a copy (target/logic-mutants), all in one build, and runs each beneath the tests that pass \
its place, the fastest first, until one fails. A mutant that lives is told with the command that repeats it. What lives is killed \
by a new test, or is the same program: then checks/logic/equivalents.tsv has its reason.

Examples:
  cargo xtask check logic-mutants --sample 200
  cargo xtask check logic-mutants --only pagetable/src/gather.rs
  cargo xtask check logic-mutants --only engine/vmsa/src/geometry.rs --list";

/// The crates that are mutated.
const CRATES: [&str; 6] =
    ["engine/vmsa", "engine/pagetable", "engine/linearmap", "engine/userspace", "machine", "bare/kerncore"];

/// Whether a check notices when the engine, the protocol of parking or the rules decide otherwise
#[derive(Args, Debug)]
pub struct Options {
    /// That many of them, drawn by --seed
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Which are drawn
    #[arg(long, value_name = "S", default_value_t = 0, requires = "sample")]
    seed: u64,
    /// Those whose name has this in it: file:line:column:kind.number; several with commas between
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    only: Vec<String>,
    /// Those that lived in an earlier hunt, whose --json this file holds: sources and tests may have changed
    #[arg(long, value_name = "FILE")]
    again: Option<PathBuf>,
    /// Name them, and what each changes, and hunt none
    #[arg(long, conflicts_with = "json")]
    list: bool,
    /// One line of JSON for each mutant, instead of tables
    #[arg(long)]
    json: bool,
    /// By the quick tests of the mutated crates alone
    #[arg(long)]
    quick: bool,
}

/// The folder of the workspace.
fn workspace() -> Result<PathBuf, String> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).map(Path::to_path_buf).ok_or_else(|| "there is no workspace".into())
}

/// Runs the check.
///
/// # Errors
/// Sources, a list or an option that make no sense.
pub fn run(options: &Options) -> Result<Ending, String> {
    let (start, workspace) = (Instant::now(), workspace()?);
    let told = |error: io::Error| format!("{}: {error}", copy::FOLDER);
    let copy = Copy::new(&workspace, &CRATES).map_err(told)?;
    let texts = copy.sources(&workspace).map_err(told)?;
    let mut sites = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| mutants::is_in_scope(path)) {
        sites.extend(finder::find(path, text)?);
    }
    let active = build::settle(&copy, &texts, &sites)?;
    let mut chosen = mutants::all(&sites, &active);
    let rows = equivalents::parse(equivalents::LIST)?;
    equivalents::hold(&rows, &chosen, &sites)?;
    let all = chosen.len();
    choose(options, &mut chosen, &sites)?;
    if options.list {
        let line = |it: &Mutant| format!("{}\t{}\n", it.name, mutants::key(it, &sites)[1..].join("\t"));
        print(chosen.iter().map(line).collect::<String>());
        return Ok(Ending::Clean);
    }
    let listed = equivalents::find(&rows, &chosen, &sites);
    let (verdicts, tests) = hunt(options, &copy, &sites, &chosen, &listed)?;
    let report = Report { sites: &sites, mutants: &chosen, verdicts: &verdicts, listed: &listed, rows: &rows };
    print(if options.json { report.json() } else { report.tell() });
    if !options.json {
        let (hunted, tests, time) = (chosen.len(), counted(tests as u64, "test"), start.elapsed().as_secs());
        print(format_args!("{hunted} of {all} mutants of {} sites, by {tests}, in {time} s\n", sites.len()));
    }
    Ok(Ending::of(report.is_good()))
}

/// Hunts the mutants in three rounds, each of what is left of the one before: by the quick tests of the crates that are
/// mutated, by their other tests, by the tests of the crates above. Of a sample what is listed as equivalent is left to the
/// first round, and hunted by all when all mutants are. The number of tests is told too.
fn hunt(
    options: &Options,
    copy: &Copy,
    sites: &[Site],
    mutants: &[Mutant],
    listed: &[Option<usize>],
) -> Result<(Vec<Verdict>, usize), String> {
    let mut verdicts: Vec<Verdict> = mutants.iter().map(|_| Verdict::NotRun).collect();
    let mut left: Vec<usize> = (0..mutants.len()).collect();
    let files = mutants.iter().map(|it| sites[it.site].file.as_str());
    let (mut count, mut programs, mut names) = (0, build::near(copy, files)?, Vec::new());
    for round in 1..=3 {
        if round == 3 {
            programs = build::far(copy)?;
        }
        if round != 2 {
            names = run::names(&programs)?;
        }
        let (tests, others) = record(&programs, &names, copy, sites.len(), round)?;
        (count, names) = (count + tests.len(), others);
        let hunted: Vec<&Mutant> = left.iter().map(|it| &mutants[*it]).collect();
        for (number, verdict) in left.iter().zip(hunt_all(&hunted, sites, &programs, &tests)?) {
            if !matches!(verdict, Verdict::NotRun) {
                verdicts[*number] = verdict;
            }
        }
        let is_over = |it: usize| !verdicts[it].is_alive() || options.sample.is_some() && listed[it].is_some();
        left.retain(|it| !is_over(*it));
        if left.is_empty() || options.quick {
            break;
        }
    }
    Ok((verdicts, count))
}

fn record(
    programs: &[Program],
    names: &[Name],
    copy: &Copy,
    sites: usize,
    round: usize,
) -> Result<(Vec<Test>, Vec<Name>), String> {
    let watch = Watch::new("tests without a mutant", names.len() as u64);
    let most = if round == 1 { run::QUICK } else { run::AT_LAST };
    let cache = copy.root.join(format!("tests-{round}.json"));
    let tests = run::record(programs, names, (&cache, sites, most), &|test| watch.step(test.into()));
    watch.finish();
    tests
}

fn hunt_all(mutants: &[&Mutant], sites: &[Site], programs: &[Program], tests: &[Test]) -> Result<Vec<Verdict>, String> {
    let (watch, alive) = (Watch::new("mutants of logic", mutants.len() as u64), AtomicUsize::new(0));
    let verdicts = hunt::hunt(mutants, sites, programs, tests, &|mutant, verdict| {
        let lives = usize::from(verdict.is_alive());
        // At once: a hunt that is given up has told what it knew.
        if verdict.is_alive() {
            watch.suspend(|| eprintln!("alive: {}", mutant.name));
        }
        let alive = alive.fetch_add(lives, Ordering::Relaxed) + lives;
        watch.step(format!("{} mutants, {alive} alive", mutants.len()));
    });
    watch.finish();
    verdicts
}

/// Those that were asked for.
fn choose(options: &Options, mutants: &mut Vec<Mutant>, sites: &[Site]) -> Result<(), String> {
    if !options.only.is_empty() {
        mutants.retain(|it| options.only.iter().any(|text| it.name.contains(text)));
        if mutants.is_empty() {
            return Err(format!("no mutant's name has `{}` in it (see --list)", options.only.join("` or `")));
        }
    }
    if let Some(path) = &options.again {
        let alive = report::alive(path)?;
        mutants.retain(|it| alive.contains(&mutants::key(it, sites)));
    }
    if let Some(count) = options.sample {
        mutants::sample(mutants, sites, count, options.seed);
    }
    Ok(())
}
