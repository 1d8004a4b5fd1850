//! `cargo xtask check`: one command line for all checks on the simulated machine.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  cargo xtask check                            the engine: under 3 minutes on 2 cores
  cargo xtask check --seed 7 --minutes 30      half an hour of random runs that no other seed makes
  cargo xtask check --schedule target/checks/remap-3.schedule
  cargo xtask check litmus my-tests            a folder of yours, with a verdicts.tsv or without
  cargo xtask check zoo kvm-vmid-zero          one bug and its repair, with the story of each
  cargo xtask check code switch_translation    one piece of assembly, and what notices each of its mutants
  cargo xtask check logic-mutants --sample 200
  cargo xtask check all                        the checks that take longer than `cargo xtask test` allows
  cargo xtask check all \"hostile sources\"      one of those, by its name

Results of `all` go into checks/record.tsv; `cargo xtask test` fails if one is missing, is not `passed`, or is older than its \
files. `cargo xtask check litmus --help` and so on tell more.
On a terminal a bar shows the progress, elsewhere a line every 20 seconds, on standard error.

Exit status: 0 nothing is wrong, 1 something is, 2 the command line or a file makes no sense.";

/// Checks the engine, its users and the rules on the simulated machine
///
/// Without a name: explores every interleaving of the engine's small workloads, then runs random ones with concrete TLBs. A failure
/// is shrunk, told in words, and written as a schedule.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask check", bin_name = "cargo xtask check", term_width = 120, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
#[command(disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    check: Option<Check>,
    #[command(flatten)]
    engine: checks::command::Options,
}

#[derive(Subcommand, Debug)]
enum Check {
    #[command(long_flag = "litmus", after_help = litmus::command::HELP)]
    Litmus(litmus::command::Options),
    #[command(long_flag = "zoo", after_help = zoo::command::HELP)]
    Zoo(zoo::command::Options),
    #[command(long_flag = "code", after_help = code::command::HELP)]
    Code(code::command::Options),
    #[command(long_flag = "logic-mutants", after_help = logic::command::HELP)]
    LogicMutants(logic::command::Options),
}

fn main() -> ExitCode {
    terminal::run(|arguments: Arguments| match &arguments.check {
        None => checks::command::run(&arguments.engine),
        Some(Check::Litmus(options)) => litmus::command::run(options),
        Some(Check::Zoo(options)) => zoo::command::run(options),
        Some(Check::Code(options)) => code::command::run(options),
        Some(Check::LogicMutants(options)) => logic::command::run(options),
    })
}
