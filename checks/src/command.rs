//! `cargo xtask check`: the engine on the simulated machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use terminal::{Ending, Watch, print};

use crate::check::{self, Found, Orders, Progress, Sum};
use crate::mutants::Survey;
use crate::mutation::Mutation;
use crate::schedule::Schedule;
use crate::suite::Trial;
use crate::{equivalents, shrink, story};

/// What a person asked for.
#[derive(Args, Debug)]
pub struct Options {
    /// Seed of the random runs
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Random runs for that many minutes
    #[arg(long, value_name = "N", value_parser = minutes, conflicts_with = "events")]
    minutes: Option<Duration>,
    /// Random events
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    events: u64,
    /// Repeat a schedule, and tell what happens
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "minutes", "events"])]
    schedule: Option<PathBuf>,
    /// Take every call of the platform from the engine in turn, and print which workload notices
    #[arg(long, conflicts_with_all = ["schedule", "seed", "minutes", "events"])]
    mutants: bool,
}

/// Runs the check.
///
/// # Errors
/// A schedule that makes no sense, or a build that cannot unwind.
pub fn run(options: &Options) -> Result<Ending, String> {
    let schedule = options.schedule.as_deref().map(|path| Ok::<_, String>((path, read(path)?))).transpose()?;
    crate::require_unwinding()?;
    match schedule {
        Some((path, (schedule, trial))) => repeat(path, &schedule, trial),
        None if options.mutants => Ok(hunt()),
        None => Ok(explore(options)),
    }
}

/// The value of `--minutes`.
fn minutes(text: &str) -> Result<Duration, String> {
    let minutes = text.parse().ok().filter(|minutes| (0.0..=1e6).contains(minutes));
    minutes.map(|minutes: f64| Duration::from_secs_f64(minutes * 60.0)).ok_or("expected 0 to 1000000 minutes".into())
}

fn explore(options: &Options) -> Ending {
    let orders = Orders { seed: options.seed, drawn: 2, events: options.events, time: options.minutes };
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
    print(summary(&sum, start.elapsed()));
    match found {
        None => Ending::Clean,
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
fn report(found: &Found, mutation: Option<Mutation>) -> Ending {
    std::panic::set_hook(Box::new(|_| {}));
    let (schedule, _) = shrink::shrink(found.trial, mutation, &found.caught, found.tlb);
    let (text, _) = story::tell(&schedule, found.trial, mutation);
    print(format_args!("FAILED\n{text}"));
    let path = format!("target/checks/{}-{}.schedule", schedule.workload, schedule.seed);
    let written = fs::create_dir_all("target/checks").and_then(|()| fs::write(&path, schedule.to_string()));
    match written {
        Ok(()) => print(format_args!("repeat: cargo xtask check --schedule {path}\n")),
        Err(error) => print(format_args!("{path}: {error}; the schedule is\n{schedule}")),
    }
    Ending::Wrong
}

/// Reads a schedule.
fn read(path: &Path) -> Result<(Schedule, Trial), String> {
    let name = path.display();
    let bytes = fs::read(path).map_err(|error| format!("{name}: {error}"))?;
    let parsed = Schedule::parse(&String::from_utf8_lossy(&bytes));
    let schedule = parsed.map_err(|(line, what)| format!("{name}:{line}: {what}"))?;
    let trial = schedule.trial().ok_or_else(|| format!("{name}: no such workload"))?;
    Ok((schedule, trial))
}

/// Repeats a schedule.
fn repeat(path: &Path, schedule: &Schedule, trial: Trial) -> Result<Ending, String> {
    std::panic::set_hook(Box::new(|_| {}));
    let find = |name: &String| {
        let mutant = Survey::new()?.mutants().into_iter().find(|it| it.to_string() == *name);
        mutant.ok_or_else(|| format!("{}: no mutant `{name}` (the engine may have changed)", path.display()))
    };
    let mutation = schedule.mutant.as_ref().map(find).transpose()?;
    let (text, failure) = story::tell(schedule, trial, mutation);
    print(text);
    Ok(Ending::of(failure.is_none()))
}

/// Hunts every mutant, and prints the table of mutants and killers.
fn hunt() -> Ending {
    std::panic::set_hook(Box::new(|_| {}));
    let survey = match Survey::new() {
        Ok(survey) => survey,
        Err(error) => {
            print(format_args!("the engine itself fails: {error}\n"));
            return Ending::Wrong;
        }
    };
    let count = survey.mutants().len();
    let (watch, alive) = (Watch::new("mutants", count as u64), AtomicUsize::new(0));
    let verdicts = survey.hunt_all(&|verdict| {
        alive.fetch_add(usize::from(verdict.killer.is_none()), Ordering::Relaxed);
        watch.step(format!("{count} mutants, {} alive", alive.load(Ordering::Relaxed)));
    });
    watch.finish();
    let mut is_good = true;
    for verdict in &verdicts {
        let reason = equivalents::reason(&verdict.mutation);
        is_good &= verdict.killer.is_none() == reason.is_some();
        print(format_args!("{verdict}\n"));
        match (reason, &verdict.killer) {
            (Some(reason), None) => print(format_args!("    equivalent: {reason}\n")),
            (Some(_), Some(_)) => {
                print("    error: listed as equivalent in checks/src/equivalents.rs, but killed: remove the row\n")
            }
            (None, _) => {}
        }
    }
    let mutants: Vec<Mutation> = verdicts.iter().map(|verdict| verdict.mutation).collect();
    for row in equivalents::stale(&mutants) {
        print(format_args!("error: no mutant is such any more: {row} (checks/src/equivalents.rs)\n"));
        is_good = false;
    }
    let killed = verdicts.iter().filter(|verdict| verdict.killer.is_some()).count();
    print(format_args!("{killed} of {count} mutants killed, of {} calls\n", survey.count_calls()));
    Ending::of(is_good)
}
