//! `cargo xtask bench`: the engine beside its peers, in instructions. See `help.txt`.

mod case;
mod contender;
mod memory;
mod naive;
mod ours;
mod region;
mod roster;
mod rows;
mod runner;

use std::process::ExitCode;

fn main() -> ExitCode {
    runner::main()
}
