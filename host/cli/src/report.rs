//! `vellum report`: one page that shows the page tables of a machine, or of two and what differs.
//!
//! ```text
//! machine ──▶ Space: runs, tables ──┬─▶ drawing: runs as text, styles ──┐
//!                check: findings ───┤                                   ├──▶ shown: HTML, with its own script
//!                plan: the largest ─┘   changes: before and after ──────┘
//! ```

mod changes;
mod drawing;
mod shown;

use image::{Machine, Registers};

use crate::args::{MachineArguments, ReportArguments};
use crate::check::{self, finding::Finding};
use crate::select::{self, Failure, Selection};
use crate::space::Space;
use crate::{Status, page};

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
    page::claim(&arguments.output)?;
    let mut names = arguments.called.iter();
    let before = read(&arguments.machine, names.next())?;
    let after = match &arguments.after {
        Some(source) => {
            let machine = MachineArguments { source: source.clone(), ..arguments.machine.clone() };
            Some(read(&machine, names.next())?)
        }
        None => None,
    };
    page::write(&arguments.output, &shown::page(&before, after.as_ref()))?;
    let finds = after.as_ref().unwrap_or(&before).findings.is_empty();
    Ok(if finds { Status::Clean } else { Status::Findings })
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
