//! Random calls with boundary arguments, threads, forks and signals, and a verdict: `hostile OPERATIONS|MINUTESm SEED NAMES…`.

use std::env;
use std::process::ExitCode;

use programs::hostile::Choice;
use programs::hostile::rounds::{self, Run, Until};

/// Without arguments: few operations of a seed whose processes are not the machine's owner's.
const USUAL: [&str; 2] = ["400", "1"];

fn main() -> ExitCode {
    let words: Vec<String> = env::args().collect();
    // A process that an attacker has executed.
    if words.first().is_none_or(|name| !name.ends_with("hostile")) {
        return ExitCode::SUCCESS;
    }
    let word = |at: usize| words.get(at).map_or(USUAL[at - 1], String::as_str);
    let (Some(until), Ok(seed)) = (Until::new(word(1)), word(2).parse()) else {
        eprintln!(
            "hostile: expected OPERATIONS or MINUTESm, SEED, whole numbers, and names of scenes, families or calls"
        );
        return ExitCode::from(2);
    };
    if !cfg!(target_arch = "aarch64") {
        eprintln!("hostile: its calls have the numbers of arm64; nothing was called");
        return ExitCode::from(2);
    }
    let choice = Box::leak(Box::new(Choice::new(words.get(3..).unwrap_or_default())));
    let figures = words.len() > 1;
    match rounds::run(&Run { until, seed, choice, figures }) {
        Ok(()) => {
            println!("seed {seed}, {until}: no fault");
            ExitCode::SUCCESS
        }
        Err(line) => {
            println!("{line}");
            ExitCode::FAILURE
        }
    }
}
