//! `cargo xtask check`: the engine on the simulated machine. See `help.txt`.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use checks::check::{self, Found, Orders, Progress, Sum};
use checks::mutants::Survey;
use checks::mutation::Mutation;
use checks::schedule::Schedule;
use checks::suite::Trial;
use checks::watch::Watch;
use checks::{shrink, story};
use lexopt::prelude::*;

const HELP: &str = include_str!("help.txt");
/// Exit status for a command line or a schedule that makes no sense.
const BAD_INPUT: u8 = 2;

/// What a person asked for.
#[derive(Default)]
struct Options {
    seed: Option<u64>,
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
    let schedule = match options.schedule.as_deref().map(read).transpose() {
        Ok(schedule) => schedule,
        Err(error) => return bad_input(&error),
    };
    if let Err(error) = checks::require_unwinding() {
        return bad_input(error);
    }
    match (schedule, &options.schedule) {
        (Some((schedule, trial)), Some(path)) => repeat(path, &schedule, trial),
        _ if options.mutants => hunt(),
        _ => run(&options),
    }
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seed") => options.seed = Some(number("--seed", &parser.value()?, "a number of 64 bits")?),
            Long("minutes") => options.minutes = Some(number("--minutes", &parser.value()?, "a number of minutes")?),
            Long("events") => options.events = Some(number("--events", &parser.value()?, "a number of 64 bits")?),
            Long("schedule") => options.schedule = Some(parser.value()?.string()?),
            Long("mutants") => options.mutants = true,
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    if options.minutes.is_some_and(|minutes| !(0.0..=1e6).contains(&minutes)) {
        return Err("--minutes is 0 to 1000000".into());
    }
    if options.minutes.is_some() && options.events.is_some() {
        return Err("--minutes and --events both say how long the random runs are, expected one".into());
    }
    let is_whole = options.minutes.is_none() && options.events.is_none() && options.seed.is_none();
    match (options.schedule.is_some(), options.mutants) {
        (true, true) => Err("--schedule and --mutants are two different checks".into()),
        (true, false) | (false, true) if !is_whole => {
            Err("--seed, --minutes and --events go with neither --schedule nor --mutants".into())
        }
        _ => Ok(Some(options)),
    }
}

/// The value of an option.
fn number<T: FromStr>(option: &str, value: &OsStr, expected: &str) -> Result<T, lexopt::Error> {
    let parsed = value.to_str().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| format!("{option} `{}`, expected {expected}", value.to_string_lossy()).into())
}

/// Prints; a reader that has gone away is no error.
fn say(text: impl std::fmt::Display) {
    let _ = write!(io::stdout(), "{text}");
}

fn bad_input(text: &str) -> ExitCode {
    eprintln!("checks: {text}");
    ExitCode::from(BAD_INPUT)
}

fn run(options: &Options) -> ExitCode {
    let orders = Orders {
        seed: options.seed.unwrap_or_default(),
        drawn: 2,
        events: options.events.unwrap_or(1_000_000),
        time: options.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0)),
    };
    let start = Instant::now();
    let progress = Progress::default();
    let watch = Watch::new("checks", 1000);
    let (sum, found) = thread::scope(|scope| {
        let worker = scope.spawn(|| check::check(&orders, &progress));
        while !worker.is_finished() {
            show(&watch, &progress);
            thread::park_timeout(Duration::from_millis(100));
        }
        worker.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
    });
    watch.finish();
    say(summary(&sum, start.elapsed()));
    match found {
        None => ExitCode::SUCCESS,
        Some(found) => report(&found, None),
    }
}

fn show(watch: &Watch, progress: &Progress) {
    let [schedules, states, events] =
        [&progress.schedules, &progress.states, &progress.events].map(|count| count.load(Ordering::Relaxed));
    let message = format!("{schedules} schedules, {states} states, {events} events");
    watch.at(progress.thousandths.load(Ordering::Relaxed), message);
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

/// Reads a schedule.
fn read(path: &str) -> Result<(Schedule, Trial), String> {
    let bytes = fs::read(Path::new(path)).map_err(|error| format!("{path}: {error}"))?;
    let parsed = Schedule::parse(&String::from_utf8_lossy(&bytes));
    let schedule = parsed.map_err(|(line, what)| format!("{path}:{line}: {what}"))?;
    let trial = schedule.trial().ok_or_else(|| format!("{path}: no such workload"))?;
    Ok((schedule, trial))
}

/// Repeats a schedule.
fn repeat(path: &str, schedule: &Schedule, trial: Trial) -> ExitCode {
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
    let (text, failure) = story::tell(schedule, trial, mutation);
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
    let (watch, alive) = (Watch::new("mutants", count as u64), AtomicUsize::new(0));
    let verdicts = survey.hunt_all(&|verdict| {
        alive.fetch_add(usize::from(verdict.killer.is_none()), Ordering::Relaxed);
        watch.step(format!("{count} mutants, {} alive", alive.load(Ordering::Relaxed)));
    });
    watch.finish();
    verdicts.iter().for_each(|verdict| say(format_args!("{verdict}\n")));
    let killed = verdicts.iter().filter(|verdict| verdict.killer.is_some()).count();
    say(format_args!("{killed} of {count} mutants killed, of {} calls\n", survey.count_calls()));
    if killed == count { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
