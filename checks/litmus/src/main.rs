//! `cargo xtask check --litmus`. See `help.txt`.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use litmus::judge;
use litmus::suite::{self, Done, Item, Sum};
use terminal::{Ending, Watch, print};

/// What a person asked for.
#[derive(Parser)]
#[command(name = "litmus", override_help = include_str!("help.txt"))]
struct Options {
    #[arg(value_name = "FILE or FOLDER")]
    paths: Vec<PathBuf>,
    #[arg(long)]
    story: bool,
}

fn main() -> ExitCode {
    terminal::run(|options: Options| {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
        let paths = if options.paths.is_empty() { vec![ours] } else { options.paths.clone() };
        let items = suite::collect(&paths).map_err(|error| error.to_string())?;
        Ok(run(&options, &items))
    })
}

fn run(options: &Options, items: &[Item]) -> Ending {
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
