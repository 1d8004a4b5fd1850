//! `vellum report`: one page that shows the page tables of a machine, or of two and what differs.
//!
//! ```text
//! machine ──▶ Space: runs, tables ──┬─▶ drawing: runs as text, styles ──┐
//!                check: findings ───┤                                   ├──▶ page: HTML, with its own script
//!                plan: the largest ─┘   changes: before and after ──────┘
//! ```

mod changes;
mod drawing;
mod page;

use std::fs;

use image::{Machine, Registers};

use crate::args::{MachineArguments, ReportArguments};
use crate::check::{self, Finding};
use crate::select::{self, Failure, Selection};
use crate::space::Space;
use crate::{Status, say};

/// A machine as it was read.
struct Snapshot {
    name: String,
    /// Whether a person chose the name.
    is_called: bool,
    cpus: Vec<Registers>,
    spaces: Vec<Space>,
    findings: Vec<Finding>,
}

/// Runs the command.
pub(crate) fn run(arguments: &ReportArguments) -> Result<Status, Failure> {
    // A place that cannot be written is told before a guest is stopped.
    fs::write(&arguments.output, "").map_err(|error| cannot_write(arguments, &error))?;
    let mut names = arguments.called.iter();
    let before = read(&arguments.machine, names.next())?;
    let after = match &arguments.after {
        Some(source) => {
            let machine = MachineArguments { source: source.clone(), ..arguments.machine.clone() };
            Some(read(&machine, names.next())?)
        }
        None => None,
    };
    let page = page::page(&before, after.as_ref());
    fs::write(&arguments.output, &page).map_err(|error| cannot_write(arguments, &error))?;
    say::note(format!("{} is written: open it in a browser", arguments.output.display()));
    let finds = after.as_ref().unwrap_or(&before).findings.is_empty();
    Ok(if finds { Status::Clean } else { Status::Findings })
}

fn cannot_write(arguments: &ReportArguments, error: &std::io::Error) -> Failure {
    Failure(format!("{}: {error}: name another file with -o", arguments.output.display()))
}

/// Reads all, and lets the machine go.
fn read(arguments: &MachineArguments, called: Option<&String>) -> Result<Snapshot, Failure> {
    let Selection { mut machine, roots } = select::open(arguments)?;
    let mut spaces = Vec::new();
    for root in &roots {
        spaces.push(Space::read(&mut machine, root)?);
    }
    let findings = check::check(&mut machine, &roots)?;
    let Machine { cpus, .. } = machine;
    let name = called.cloned().unwrap_or_else(|| arguments.source.to_string());
    Ok(Snapshot { name, cpus, spaces, findings, is_called: called.is_some() })
}
