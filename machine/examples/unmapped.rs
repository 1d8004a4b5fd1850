//! Time and peak memory of judging traces in which many pages are unmapped and then given away, and of one long `memory`
//! line: `cargo run --release -p machine --example unmapped -- [PAGES] [WORDS]`. Each runs in a process of its own.

use std::process::{Command, ExitCode};

use machine::trace::{Judge, Trace};

#[allow(dead_code, reason = "it uses a part of what tests use")]
#[path = "../tests/common/unmapped.rs"]
mod unmapped;
use unmapped::Shape;

/// What a trace may take.
const SECONDS: f64 = 5.0;
const SHAPE_MIB: u64 = 500;
const LINE_MIB: u64 = 400;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(default, |it| it.parse().expect("a number"));
    let (pages, words) = (number(0, 131_072), number(1, 10_000_000));
    if let Some(case) = arguments.get(2) {
        judge(pages, words, case.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }
    println!(
        "{pages} pages, processor time, with that of writing the trace; within {SECONDS} s and {SHAPE_MIB} MiB, the line {LINE_MIB} MiB"
    );
    let mut is_within = true;
    for case in 0..=Shape::all(pages).len() {
        let program = std::env::current_exe().expect("this program");
        let run = Command::new(program).args([pages.to_string(), words.to_string(), case.to_string()]).output();
        let told = String::from_utf8(run.expect("it runs").stdout).expect("text");
        print!("{told}");
        is_within &= told.trim_end().ends_with("within");
    }
    if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn judge(pages: u64, words: u64, case: usize) {
    let shape = Shape::all(pages).get(case).copied();
    let (name, text, most, expected) = match shape {
        Some(it) => {
            let shared = if it.is_shared { "shared" } else { "" };
            let name = format!(
                "{:<10} {shared:<6} {:<14} {:<9}",
                format!("{:?}", it.order),
                format!("{:?}", it.by),
                format!("{:?}", it.tlbi)
            );
            (name, it.trace(), SHAPE_MIB, it.findings())
        }
        None => (format!("a memory line of {words} words"), long_line(words), LINE_MIB, 0),
    };
    let trace = Trace::read(&text).expect("a trace");
    let mut judge = Judge::new(&trace, false);
    while judge.step().expect("it makes sense") {}
    let (seconds, peak) = (processor_seconds(), peak_mib());
    let found = judge.findings().len() as u64;
    assert_eq!(found, expected, "{name}");
    let is_within = seconds.is_none_or(|it| it < SECONDS) && peak.is_none_or(|it| it < most);
    let peak = peak.map_or("?".into(), |it| it.to_string());
    let seconds = seconds.unwrap_or(f64::NAN);
    println!(
        "{name:<44} {seconds:>7.2} s {peak:>5} MiB {found:>7} found  {}",
        if is_within { "within" } else { "BEYOND" }
    );
}

/// Leaves of tables of the last level, linked and walked.
fn long_line(words: u64) -> String {
    let mut text = String::from("vellum trace 1\ncpu 0\nmemory 0x80000000");
    (0..words).for_each(|it| text += &format!(" {:#x}", 0x60_0000_0000_0703 | it << 12));
    text.shrink_to_fit();
    text + "\n0 isb\n"
}

/// Processor time of this process so far, where the system tells; in ticks of 10 ms.
fn processor_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(|it| it.parse::<u64>());
    ticks.sum::<Result<u64, _>>().ok().map(|ticks| ticks as f64 / 100.0)
}

/// The most memory that this process ever had, where the system tells.
fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib / 1024)
}
