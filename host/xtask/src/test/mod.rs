//! `cargo xtask test`: runs every step and ends with the line `N passed, N failed, N skipped`.
//!
//! ```text
//! steps.rs: cargo and tidy       \
//!                                 lanes.rs → outcomes → report.rs → lines, the sum
//! boots.rs → boot.rs: QEMU       /
//! ```

mod boot;
mod boots;
mod expect;
mod found;
mod guests;
mod lanes;
mod libtest;
mod linux;
mod outcome;
mod report;
mod skips;
mod steps;
mod table;

use std::env;

use clap::Parser;
use fs_err as fs;

use crate::{
    boot::emulator::{self, Emulator},
    cargo, fetch,
    outcome::{Failure, Status},
    terminal,
};
use outcome::Outcome;
use report::Report;
use skips::Skips;

const EXAMPLES: &str = "Examples:
  cargo xtask test               every step: formatting, clippy, tidy, host tests, docs, boots
  cargo xtask test 'boot 16k'    the boots with 16K pages
  cargo xtask test tidy fmt      two filters: a step that matches either runs
  cargo xtask test boot --qemu 11
                                 the boots in another QEMU

Each skip is named with its reason. With CI set in the environment, a skip that
host/xtask/skips.txt does not list is a failure. A boot that fails prints the one `cargo xtask
run` command that repeats it.

Exit status: 0 nothing failed, 1 something failed, 2 an option is wrong or no step matches.";

/// Runs every step, and ends with the line "N passed, N failed, N skipped"
#[derive(Clone, PartialEq, Eq, Debug, Default, Parser)]
#[command(no_binary_name = true, after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Parts of names of steps
    filters: Vec<String>,
    /// The whole matrix of boots too, some thousands
    #[arg(long = "all")]
    wants_all: bool,
    /// The names of all steps
    #[arg(long = "list")]
    wants_list: bool,
    /// Only the boots of README's table, which is written anew
    #[arg(long = "table")]
    wants_table: bool,
    /// Fetches missing kernels, QEMUs and chromium, counts a skip as a failure, and tries a clone
    /// without builds
    #[arg(long = "full")]
    wants_full: bool,
    /// QEMU for all boots that name none: host, 7.2, 11 or a path
    #[arg(long = "qemu", value_name = "VERSION or PATH", default_value = "host", value_parser = emulator::parse)]
    emulator: Emulator,
}

impl Options {
    fn want(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter))
    }
}

/// Entry of `cargo xtask test`.
pub(crate) fn main(options: Options) -> Result<Status, Failure> {
    let mut steps = steps::all(&cargo::metadata()?, options.wants_full);
    steps.retain(|step| options.want(&step.name));
    let mut boots = boots::all(options.wants_all);
    let places = boots.iter().filter(|boot| boot.place.is_some()).count();
    boots.retain(|boot| options.want(&boot.name));
    if options.wants_table {
        steps.clear();
        boots.retain(|boot| boot.place.is_some());
    }
    if steps.is_empty() && boots.is_empty() {
        let line = format!("no test matches `{}` (see cargo xtask test --list)", options.filters.join("`, `"));
        return Err(Failure::bad_input(line));
    }
    if options.wants_list {
        let names = steps.iter().map(|step| &step.name).chain(boots.iter().map(|boot| &boot.name));
        names.for_each(|name| terminal::print(format_args!("{name}\n")));
        return Ok(Status::Passed);
    }
    let emulator = options.emulator;
    if options.wants_full {
        fetch::missing()?;
        emulator.ensure()?;
    }
    let report = Report::new(if options.wants_full { Skips::Listed(vec![]) } else { skips()? });
    let cells = lanes::run(steps, boots, &emulator, &report);
    // A table is made of all its boots or not at all.
    if !cells.is_empty() && cells.len() == places {
        let table = table::render(&boots::boot::PAGE_SIZES, &cells);
        let work = if options.wants_table { table::write } else { table::check };
        report
            .run("README table", |_| work(&table).unwrap_or_else(|failure| Outcome::stopped("README table", failure)));
    }
    Ok(report.finish())
}

/// In CI only the skips of the committed list are allowed.
fn skips() -> Result<Skips, Failure> {
    if env::var_os("CI").is_none_or(|value| value.is_empty() || value == "false") {
        return Ok(Skips::All);
    }
    let path = cargo::workspace().join(skips::LIST);
    let text = fs::read_to_string(&path)?;
    skips::parse(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_part_of_a_name() {
        let boot = Options { filters: vec!["boot 16k".into(), "fmt".into()], ..Options::default() };
        assert!(boot.want("boot 16k, 4 CPUs") && boot.want("fmt") && !boot.want("boot 4k, 1 CPU"));
        assert!(Options::default().want("anything"));
    }
}
