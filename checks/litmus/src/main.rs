//! `cargo xtask check --litmus`. See `help.txt`.
#![forbid(unsafe_code)]

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lexopt::prelude::*;
use litmus::judge;
use litmus::suite::{self, Done, Item, Sum};

const HELP: &str = include_str!("help.txt");
/// Exit status for a command line or a file that makes no sense.
const BAD_INPUT: u8 = 2;

/// What a person asked for.
#[derive(Default)]
struct Options {
    paths: Vec<PathBuf>,
    story: bool,
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
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let paths = if options.paths.is_empty() { vec![ours] } else { options.paths.clone() };
    match suite::collect(&paths) {
        Ok(items) => run(&options, &items),
        Err(error) => bad_input(&error.to_string()),
    }
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("litmus") => {}
            Long("story") => options.story = true,
            Long("help") | Short('h') => return Ok(None),
            Value(path) => options.paths.push(path.into()),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(options))
}

/// Prints; a reader that has gone away is no error.
fn say(text: impl std::fmt::Display) {
    let _ = write!(io::stdout(), "{text}");
}

fn bad_input(text: &str) -> ExitCode {
    eprintln!("litmus: {text}");
    ExitCode::from(BAD_INPUT)
}

fn bar(length: usize) -> ProgressBar {
    let target = if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style =
        ProgressStyle::with_template("{bar:40} {pos}/{len}  {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(length as u64), target).with_style(style)
}

fn run(options: &Options, items: &[Item]) -> ExitCode {
    let start = Instant::now();
    let (bar, mut sum, mut is_unreadable) = (bar(items.len()), Sum::default(), false);
    let width = items.iter().map(|item| name(item).chars().count()).max().unwrap_or(0);
    for item in items {
        bar.set_message(name(item));
        let done = suite::run(item);
        let shows = !options.paths.is_empty();
        bar.suspend(|| report(options, item, &done, shows.then_some(width)));
        is_unreadable |= done.test.is_err() && item.listed.is_none();
        sum.add(item, &done);
        bar.inc(1);
    }
    bar.finish_and_clear();
    say(summary(&sum, start.elapsed().as_secs_f64()));
    match sum.wrong {
        0 => ExitCode::SUCCESS,
        _ if is_unreadable => ExitCode::from(BAD_INPUT),
        _ => ExitCode::FAILURE,
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
        say(format_args!("{:width$}   {without:10} with ETS2: {with:10} {states:>8} states{flag}\n", name(item)));
    }
    done.wrong.iter().for_each(|line| say(format_args!("{line}\n")));
    let (true, Ok(test), Some(ran)) = (options.story, &done.test, &done.ran) else { return };
    for (kind, ran) in ["without FEAT_ETS2", "with FEAT_ETS2"].iter().zip(ran) {
        if let Some(story) = ran.story() {
            say(format_args!("  {kind}: {}\n{}", ran.result, judge::tell(test, story)));
        }
    }
    if let Some(finding) = ran[1].explored.unbroken.as_ref() {
        say(format_args!("{finding}\n"));
    }
}

fn summary(sum: &Sum, seconds: f64) -> String {
    let Sum { run, unread, verdicts: [forbidden, required, reached, weaker], contradicted, wrong, states } = sum;
    let counted = |count: usize| format!("{count} litmus test{}", if count == 1 { "" } else { "s" });
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
    format!("{} run, {unread} not; {states} states, {seconds:.1} s\n{verdicts}{wrong}", counted(*run))
}
