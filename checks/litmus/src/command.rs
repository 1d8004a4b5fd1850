//! `cargo xtask check litmus`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use terminal::{Ending, Watch, print};

use crate::judge;
use crate::suite::{self, Done, Item, Sum};

/// What stands below the options.
pub const HELP: &str = "\
Without a path the published tests that come with the project run, and the results are held against their tables. Other tests \
are isla's TOML with page-table setup, and herd's .litmus. A folder may bring a verdicts.tsv, whose form is that of \
checks/litmus/data/*/verdicts.tsv; without one, what is found is printed and nothing is wrong.

A file that has a meaning which is not known here is refused, and never run with another one. The last line counts how many \
ran, and how many were refused by what stood in the way: \"447 run, 2 refused (variant memtag: 2)\".

Each test runs on CPUs without and with FEAT_ETS2, through every interleaving and everything that walkers and TLBs may do. \
Accesses of one CPU are in program order; what is weak beyond walks and TLBs is never reached (see CAVEATS.md).";

/// Litmus tests of arm64 virtual memory, published ones or yours
#[derive(Args, Debug)]
pub struct Options {
    /// Tests to run in place of those of the project
    #[arg(value_name = "FILE or FOLDER")]
    paths: Vec<PathBuf>,
    /// Also print the steps that reach the condition, or break it, where every execution should fulfil it
    #[arg(long)]
    story: bool,
}

/// Runs the check.
///
/// # Errors
/// A file or a table that makes no sense.
pub fn run(options: &Options) -> Result<Ending, String> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let paths = if options.paths.is_empty() { vec![ours] } else { options.paths.clone() };
    let items = suite::collect(&paths).map_err(|error| error.to_string())?;
    Ok(run_all(options, &items))
}

fn run_all(options: &Options, items: &[Item]) -> Ending {
    let start = Instant::now();
    let (watch, mut sum, mut is_unreadable) = (Watch::new("litmus", items.len() as u64), Sum::default(), false);
    let width = items.iter().map(|item| name(item).chars().count()).max().unwrap_or(0);
    for item in items {
        let done = suite::run(item);
        let shows = !options.paths.is_empty();
        watch.suspend(|| report(options, item, &done, shows.then_some(width)));
        is_unreadable |= done.test.is_err() && item.listed.is_none();
        sum.add(item, &done);
        watch.step(name(item));
    }
    watch.finish();
    print(summary(&sum, start.elapsed().as_secs_f64()));
    match sum.wrong {
        0 => Ending::Clean,
        _ if is_unreadable => Ending::BadInput,
        _ => Ending::Wrong,
    }
}

fn name(item: &Item) -> String {
    item.path.file_stem().unwrap_or_default().to_string_lossy().trim_end_matches(".litmus").to_owned()
}

/// Prints what is wrong; and for tests that were asked for by name, what was found.
fn report(options: &Options, item: &Item, done: &Done, width: Option<usize>) {
    if let (Some(width), Some(ran)) = (width, &done.ran) {
        let flag = if done.has_flag() { "   break-before-make expected" } else { "" };
        let states = ran[0].explored.states + ran[1].explored.states;
        let [without, with] = done.results();
        print(format_args!("{:width$}   {without:10} with ETS2: {with:10} {states:>8} states{flag}\n", name(item)));
    }
    done.wrong.iter().for_each(|line| print(format_args!("{line}\n")));
    let (true, Ok(test), Some(ran)) = (options.story, &done.test, &done.ran) else { return };
    for (kind, ran) in ["without FEAT_ETS2", "with FEAT_ETS2"].iter().zip(ran) {
        if let Some(story) = ran.story() {
            print(format_args!("  {kind}: {}\n{}", ran.result, judge::tell(test, story)));
        }
    }
    if let Some(finding) = ran[1].explored.unbroken.as_ref() {
        print(format_args!("{finding}\n"));
    }
}

fn summary(sum: &Sum, seconds: f64) -> String {
    let Sum { verdicts: [forbidden, required, reached, weaker], contradicted, wrong, states, .. } = sum;
    let published = forbidden + required + reached + weaker + contradicted;
    let verdicts = format!(
        "published verdicts: {forbidden} forbidden and never reached, {required} required and always so, {reached} allowed \
         and reached, {weaker} allowed and never reached, {contradicted} contradicted\n"
    );
    let verdicts = if published == 0 { "" } else { &verdicts };
    let wrong = match (wrong, published) {
        (0, 0) => "no verdicts.tsv says what they should be\n".to_owned(),
        (0, _) => "all are as their table says\n".to_owned(),
        (1, _) => "1 cannot be read, or is not as its table says\n".to_owned(),
        _ => format!("{wrong} cannot be read, or are not as their table says\n"),
    };
    format!("litmus tests: {states} states, {seconds:.1} s\n{verdicts}{wrong}{sum}\n")
}
