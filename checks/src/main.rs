//! `cargo xtask check`: the engine on the simulated machine. See `help.txt`.
#![forbid(unsafe_code)]

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use checks::check::{self, Found, Orders, Progress, Sum};
use checks::mutants::Survey;
use checks::mutation::Mutation;
use checks::schedule::Schedule;
use checks::{shrink, story};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lexopt::prelude::*;

const HELP: &str = include_str!("help.txt");
/// Exit status for a command line or a schedule that makes no sense.
const BAD_INPUT: u8 = 2;

/// What a person asked for.
#[derive(Default)]
struct Options {
    seed: u64,
    minutes: Option<f64>,
    events: Option<u64>,
    schedule: Option<String>,
    mutants: bool,
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
    match &options.schedule {
        Some(path) => repeat(path),
        None if options.mutants => hunt(),
        None => run(&options),
    }
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("minutes") => options.minutes = Some(parser.value()?.parse()?),
            Long("events") => options.events = Some(parser.value()?.parse()?),
            Long("schedule") => options.schedule = Some(parser.value()?.string()?),
            Long("mutants") => options.mutants = true,
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    if options.minutes.is_some_and(|minutes| !(0.0..=1e6).contains(&minutes)) {
        return Err("--minutes is 0 to 1000000".into());
    }
    Ok(Some(options))
}

/// Prints; a reader that has gone away is no error.
fn say(text: impl std::fmt::Display) {
    let _ = write!(io::stdout(), "{text}");
}

fn bad_input(text: &str) -> ExitCode {
    eprintln!("checks: {text}");
    ExitCode::from(BAD_INPUT)
}

fn bar(length: u64) -> ProgressBar {
    let target = if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style =
        ProgressStyle::with_template("{bar:40} {percent}%  {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(length), target).with_style(style)
}

fn run(options: &Options) -> ExitCode {
    let orders = Orders {
        seed: options.seed,
        drawn: 2,
        events: options.events.unwrap_or(1_000_000),
        time: options.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0)),
    };
    let start = Instant::now();
    let progress = Progress::default();
    let bar = bar(1000);
    let (sum, found) = thread::scope(|scope| {
        let worker = scope.spawn(|| check::check(&orders, &progress));
        while !worker.is_finished() {
            show(&bar, &progress);
            thread::park_timeout(Duration::from_millis(100));
        }
        worker.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
    });
    bar.finish_and_clear();
    say(summary(&sum, start.elapsed()));
    match found {
        None => ExitCode::SUCCESS,
        Some(found) => report(&found, None),
    }
}

fn show(bar: &ProgressBar, progress: &Progress) {
    bar.set_position(progress.thousandths.load(Ordering::Relaxed));
    let [schedules, states, events] =
        [&progress.schedules, &progress.states, &progress.events].map(|count| count.load(Ordering::Relaxed));
    bar.set_message(format!("{schedules} schedules, {states} states, {events} events"));
}

fn summary(sum: &Sum, time: Duration) -> String {
    let Sum { explored, long, random, .. } = sum;
    let mut text = format!(
        "every interleaving of {} scenarios ({} more were too large): {} schedules, {} states, {} events\n",
        sum.covered, sum.given_up, explored.schedules, explored.states, explored.events,
    );
    if long.schedules > 0 {
        text += &format!("long ones at random: {} schedules, {} events\n", long.schedules, long.events);
    }
    if random.schedules > 0 {
        let speed = random.events as f64 / sum.random_time.as_secs_f64().max(1e-9);
        text += &format!(
            "random, with concrete TLBs: {} schedules, {} events, {speed:.0} events per second and core\n",
            random.schedules, random.events
        );
    }
    text + &format!("{:.1} s\n", time.as_secs_f64())
}

/// Shrinks a failure, tells it, writes its schedule, and prints the command that repeats it.
fn report(found: &Found, mutation: Option<Mutation>) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let (schedule, _) = shrink::shrink(found.trial, mutation, &found.caught, found.tlb);
    let (text, _) = story::tell(&schedule, found.trial, mutation);
    say(format_args!("FAILED\n{text}"));
    let path = format!("target/checks/{}-{}.schedule", schedule.workload, schedule.seed);
    let written = fs::create_dir_all("target/checks").and_then(|()| fs::write(&path, schedule.to_string()));
    match written {
        Ok(()) => say(format_args!("repeat: cargo xtask check --schedule {path}\n")),
        Err(error) => say(format_args!("{path}: {error}; the schedule is\n{schedule}")),
    }
    ExitCode::FAILURE
}

/// Repeats a schedule.
fn repeat(path: &str) -> ExitCode {
    let text = match fs::read_to_string(Path::new(path)) {
        Ok(text) => text,
        Err(error) => return bad_input(&format!("{path}: {error}")),
    };
    let schedule = match Schedule::parse(&text) {
        Ok(schedule) => schedule,
        Err((line, what)) => return bad_input(&format!("{path}:{line}: {what}")),
    };
    let Some(trial) = schedule.trial() else { return bad_input(&format!("{path}: no such workload")) };
    std::panic::set_hook(Box::new(|_| {}));
    let mutation = match &schedule.mutant {
        None => None,
        Some(name) => match Survey::new().map(|survey| survey.mutants().into_iter().find(|it| it.to_string() == *name))
        {
            Ok(Some(mutation)) => Some(mutation),
            Ok(None) => return bad_input(&format!("{path}: no mutant `{name}` (the engine may have changed)")),
            Err(error) => return bad_input(&error),
        },
    };
    let (text, failure) = story::tell(&schedule, trial, mutation);
    say(text);
    if failure.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Hunts every mutant, and prints the table of mutants and killers.
fn hunt() -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let survey = match Survey::new() {
        Ok(survey) => survey,
        Err(error) => {
            say(format_args!("the engine itself fails: {error}\n"));
            return ExitCode::FAILURE;
        }
    };
    let count = survey.mutants().len();
    let (bar, alive) = (bar(count as u64), AtomicUsize::new(0));
    let verdicts = survey.hunt_all(&|verdict| {
        alive.fetch_add(usize::from(verdict.killer.is_none()), Ordering::Relaxed);
        bar.set_message(format!("{count} mutants, {} alive", alive.load(Ordering::Relaxed)));
        bar.inc(1);
    });
    bar.finish_and_clear();
    verdicts.iter().for_each(|verdict| say(format_args!("{verdict}\n")));
    let killed = verdicts.iter().filter(|verdict| verdict.killer.is_some()).count();
    say(format_args!("{killed} of {count} mutants killed, of {} calls\n", survey.count_calls()));
    if killed == count { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
