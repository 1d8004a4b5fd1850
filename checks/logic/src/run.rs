//! Runs tests, each in a process of its own: with a mutant, or recording which sites they pass.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::build::Program;

/// Address space of a test, in KiB: a mutant that collects without end is stopped.
const MEMORY: u64 = 8 << 20;
/// Seconds of a CPU that every test may take, beside ten times what it takes without a mutant: whole ones are counted.
const SECONDS: f64 = 0.9;
/// Seconds of a CPU within which a test ends that is quick.
pub(crate) const QUICK: f64 = 3.0;
/// Those of a test that must end, without a mutant.
pub(crate) const AT_LAST: f64 = 3000.0;

/// A test, how long it takes, and the sites that it passes.
pub(crate) struct Test {
    pub(crate) program: usize,
    pub(crate) name: String,
    pub(crate) seconds: f64,
    pub(crate) sites: Vec<bool>,
}

/// The number of a test's program, and its name there.
pub(crate) type Name = (usize, String);

/// How a test ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Passed,
    Failed,
    OutOfTime,
}

/// Runs a test. `seconds` is the time of a CPU that it may take.
pub(crate) fn run(program: &Program, test: &str, seconds: f64, environment: (&str, &str)) -> Result<End, String> {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v $0; ulimit -t $1; shift; exec \"$@\"", &MEMORY.to_string()]);
    command.arg(seconds.ceil().to_string()).arg(&program.path);
    command.args(["--exact", test, "--test-threads", "1", "--quiet"]);
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    // Random tests take the same way each time, or a mutant would be killed by luck.
    command.env("PROPTEST_RNG_SEED", "1").env("RUST_BACKTRACE", "0").env(environment.0, environment.1);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("sh cannot be run: {error}"))?;
    let (start, most) = (Instant::now(), Duration::from_secs_f64(60.0 + 20.0 * seconds));
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < most => thread::park_timeout(Duration::from_millis(1)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(End::OutOfTime);
            }
        }
    };
    Ok(match status.code() {
        Some(0) => End::Passed,
        Some(_) => End::Failed,
        None if is_out_of_time(&status) => End::OutOfTime,
        None => End::Failed,
    })
}

#[cfg(unix)]
fn is_out_of_time(status: &std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    // SIGKILL and SIGXCPU.
    matches!(status.signal(), Some(9 | 24))
}

#[cfg(not(unix))]
fn is_out_of_time(_: &std::process::ExitStatus) -> bool {
    false
}

/// The limit for a test with a mutant.
pub(crate) fn limit(test: &Test) -> f64 {
    SECONDS + 10.0 * test.seconds
}

/// The program and the name of every test.
pub(crate) fn names(programs: &[Program]) -> Result<Vec<Name>, String> {
    let mut names = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        names.extend(list(program)?.into_iter().map(|name| (number, name)));
    }
    Ok(names)
}

/// Every test that ends within `most` seconds of a CPU, with what it passes, the fastest first; and the others. What an
/// earlier run has left in `cache` is taken where nothing was built since. `tell` hears of each.
pub(crate) fn record(
    programs: &[Program],
    names: &[Name],
    (cache, sites, most): (&Path, usize, f64),
    tell: &(dyn Fn(&str) + Sync),
) -> Result<(Vec<Test>, Vec<Name>), String> {
    let stamp = stamp(programs, names);
    if let Some(known) = fs::read_to_string(cache).ok().and_then(|text| read(&text, &stamp, sites)) {
        return Ok(known);
    }
    let tests = in_parallel(names.len(), &|number| {
        let (program, name) = &names[number];
        let file = cache.with_extension(number.to_string());
        let _ = fs::remove_file(&file);
        let start = Instant::now();
        let ended = run(&programs[*program], name, most, ("LOGIC_RECORD", &file.to_string_lossy()))?;
        let is_slow = ended == End::OutOfTime && most < AT_LAST;
        if ended != End::Passed && !is_slow {
            return Err(format!("{} {name} does not pass without a mutant", programs[*program].name));
        }
        let mut passed = vec![false; sites];
        for site in fs::read(&file).unwrap_or_default().chunks_exact(4) {
            passed[u32::from_le_bytes([site[0], site[1], site[2], site[3]]) as usize] = true;
        }
        let _ = fs::remove_file(&file);
        tell(name);
        let seconds = start.elapsed().as_secs_f64();
        Ok((!is_slow).then(|| Test { program: *program, name: name.clone(), seconds, sites: passed }))
    });
    let tests = tests.into_iter().collect::<Result<Vec<Option<Test>>, String>>()?;
    let slow: Vec<Name> =
        names.iter().zip(&tests).filter(|(_, it)| it.is_none()).map(|(name, _)| name.clone()).collect();
    let mut tests: Vec<Test> = tests.into_iter().flatten().collect();
    tests.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let _ = fs::write(cache, write(&tests, &slow, &stamp));
    Ok((tests, slow))
}

fn list(program: &Program) -> Result<Vec<String>, String> {
    let mut command = Command::new(&program.path);
    command.args(["--list", "--format", "terse"]).current_dir(&program.folder);
    let output = command.output().map_err(|error| format!("{}: {error}", program.path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // Those of `widths` run all the others in processes of their own, which would each come to the limit of time.
    let names = text.lines().filter_map(|line| line.strip_suffix(": test")).filter(|it| !it.starts_with("widths::"));
    Ok(names.map(str::to_string).collect())
}

/// What changes when a program is built anew, or others are asked for.
fn stamp(programs: &[Program], names: &[Name]) -> String {
    let time = |program: &Program| fs::metadata(&program.path).and_then(|it| it.modified()).ok();
    let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |it| it.as_nanos());
    let built: String = programs.iter().map(|it| format!("{} {};", it.name, time(it).map_or(0, since))).collect();
    names.iter().fold(built, |text, (program, name)| format!("{text}{program} {name};"))
}

fn write(tests: &[Test], slow: &[Name], stamp: &str) -> String {
    let one = |test: &Test| {
        let passed = (0..test.sites.len()).filter(|site| test.sites[*site]);
        json!([test.program, test.name, test.seconds, passed.collect::<Vec<_>>()])
    };
    json!({ "stamp": stamp, "tests": tests.iter().map(one).collect::<Vec<_>>(), "slow": slow }).to_string()
}

fn read(text: &str, stamp: &str, sites: usize) -> Option<(Vec<Test>, Vec<Name>)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let one = |test: &Value| {
        let mut passed = vec![false; sites];
        for site in test[3].as_array()? {
            *passed.get_mut(site.as_u64()? as usize)? = true;
        }
        let (program, name, seconds) = (test[0].as_u64()? as usize, test[1].as_str()?.into(), test[2].as_f64()?);
        Some(Test { program, name, seconds, sites: passed })
    };
    let slow = |name: &Value| Some((name[0].as_u64()? as usize, name[1].as_str()?.into()));
    if value["stamp"] != stamp {
        return None;
    }
    let tests = value["tests"].as_array()?.iter().map(one).collect::<Option<_>>()?;
    Some((tests, value["slow"].as_array()?.iter().map(slow).collect::<Option<_>>()?))
}

/// Does `count` things on every core; the answers are in order.
pub(crate) fn in_parallel<T: Send>(count: usize, work: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let workers = thread::available_parallelism().map_or(2, |it| it.get());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let answer = work(number);
                    if let Ok(mut done) = done.lock() {
                        done.push((number, answer));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, answer)| answer).collect()
}
