//! Random calls with boundary arguments, threads, forks and signals, and a verdict: `hostile OPERATIONS SEED NAMES…`.

use std::env;
use std::process::ExitCode;

use programs::hostile::Choice;
use programs::hostile::rounds::{self, Run};

/// Without arguments: few operations of a seed whose processes are not the machine's owner's.
const USUAL: [u64; 2] = [400, 1];

fn main() -> ExitCode {
    let words: Vec<String> = env::args().collect();
    // A process that an attacker has executed.
    if words.first().is_none_or(|name| !name.ends_with("hostile")) {
        return ExitCode::SUCCESS;
    }
    let number = |at: usize| words.get(at).map_or(Some(USUAL[at - 1]), |word| word.parse().ok());
    let (Some(operations), Some(seed)) = (number(1), number(2)) else {
        eprintln!("hostile: expected OPERATIONS SEED, whole numbers, and names of scenes, families or calls");
        return ExitCode::from(2);
    };
    if !cfg!(target_arch = "aarch64") {
        eprintln!("hostile: its calls have the numbers of arm64; nothing was called");
        return ExitCode::from(2);
    }
    let choice = Box::leak(Box::new(Choice::new(words.get(3..).unwrap_or_default())));
    let figures = words.len() > 1;
    match rounds::run(&Run { operations, seed, choice, figures }) {
        Ok(()) => {
            println!("seed {seed}, {operations} operations: no fault");
            ExitCode::SUCCESS
        }
        Err(line) => {
            println!("{line}");
            ExitCode::FAILURE
        }
    }
}
