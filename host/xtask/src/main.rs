//! Every developer command: `cargo xtask run`, `test`, `check`, `audit`, `compare`, `demo`, `bench`, `tidy`, `api`, `fetch`, `dist`.
//!
//! Standard output carries only what was asked for (the kernel's text, a test's result); whatever else there is to
//! say goes to standard error, one line each.
#![forbid(unsafe_code)]

mod api;
mod audit;
mod bare;
mod bench;
mod boot;
mod cargo;
mod check;
mod compare;
mod demo;
mod dist;
mod fetch;
mod help;
mod outcome;
mod terminal;
mod test;
mod tidy;
mod toolchain;

use std::{ffi::OsString, process::ExitCode};

use outcome::{Failure, Status};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match dispatch(&arguments) {
        Ok(status) => status.into(),
        Err(failure) => {
            eprintln!("cargo xtask: {failure}");
            failure.status.into()
        }
    }
}

/// The command is the first argument; all that follows belongs to it.
fn dispatch(arguments: &[OsString]) -> Result<Status, Failure> {
    let Some((command, rest)) = arguments.split_first() else {
        return Err(Failure::bad_input(
            "no command given; commands are run, test, check, audit, compare, demo, bench, tidy, api, fetch and dist (see cargo xtask --help)",
        ));
    };
    match command.to_str() {
        Some("run") => boot::main(rest),
        Some("test") => test::main(rest),
        Some("check") => check::main(rest),
        Some("audit") => audit::main(rest),
        Some("compare") => compare::main(rest),
        Some("demo") => demo::main(rest),
        Some("bench") => bench::main(rest),
        Some("tidy") => tidy::main(rest),
        Some("api") => api::main(rest),
        Some("fetch") => fetch::main(rest),
        Some("dist") => dist::main(rest),
        Some("--help" | "-h" | "help") => Ok(help::show(help::OVERVIEW)),
        _ => Err(Failure::bad_input(format!(
            "no command `{}`; commands are run, test, check, audit, compare, demo, bench, tidy, api, fetch and dist (see cargo xtask --help)",
            command.display()
        ))),
    }
}
