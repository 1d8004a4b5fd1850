//! `vellum check`: what is dangerous, wrong or wasteful in page tables.

pub(crate) mod finding;
mod physical;
mod report;
mod tables;

use std::io::{BufWriter, Write};

use image::{Machine, Obstacle, Root, Span, Table, Visitor};
use vmsa::Descriptor;

use crate::Status;
use crate::args::CheckArguments;
use crate::leaf;
use crate::progress::Progress;
use crate::runs::{Run, Runs};
use crate::select::{self, Failure, Selection};

use finding::{Finding, Findings, Kind};

/// Runs the command.
pub(crate) fn run(arguments: &CheckArguments) -> Result<Status, Failure> {
    let Selection { mut machine, roots } = select::open(&arguments.machine)?;
    let findings = check(&mut machine, &roots)?;
    // A stopped guest goes on before anything is printed.
    drop(machine);
    let mut out = BufWriter::new(std::io::stdout().lock());
    let written = match arguments.json {
        true => report::json(&findings, &roots, &mut out),
        false => report::text(&findings, &roots, arguments.all, &mut out),
    };
    written.and_then(|()| out.flush()).or_else(terminal::unless_unread)?;
    let counts = |finding: &Finding| arguments.fail_on.is_empty() || arguments.fail_on.contains(&finding.kind);
    Ok(if findings.iter().any(counts) { Status::Findings } else { Status::Clean })
}

/// All findings, ranked.
pub(crate) fn check(machine: &mut Machine, roots: &[Root]) -> Result<Vec<Finding>, Failure> {
    let mut all = Findings::default();
    let mut mapped = physical::Mapped::default();
    for (number, root) in roots.iter().enumerate() {
        let mut checker = Checker {
            root,
            number,
            findings: &mut all,
            mapped: &mut mapped,
            progress: Progress::of_tables(),
            runs: Runs::default(),
        };
        machine.walk(root, 0, u64::MAX, &mut checker)?;
        checker.finish();
    }
    mapped.check(roots, &mut all);
    Ok(all.ranked())
}

/// Looks at one page table.
struct Checker<'a> {
    root: &'a Root,
    number: usize,
    findings: &'a mut Findings,
    mapped: &'a mut physical::Mapped,
    progress: Progress,
    runs: Runs,
}

impl Checker<'_> {
    fn run(&mut self, run: &Run) {
        if !run.is_leaf {
            return;
        }
        let permissions = self.root.permissions(run.descriptor, run.inherited);
        self.mapped.add(self.root, self.number, run, permissions);
        let Some(permissions) = permissions else { return };
        let mut find = |kind, what: &str| {
            let (input, bytes) = (run.input, run.bytes(self.root));
            self.findings.add(Finding::new(kind, self.number, input, bytes, run.count, what));
        };
        if leaf::is_wx(permissions.privileged) {
            find(
                Kind::Wx,
                if self.root.is_stage1() { "EL1 writes and executes it" } else { "the guest writes and executes it" },
            );
        } else if leaf::is_wx(permissions.unprivileged) {
            find(Kind::UserWx, "EL0 writes and executes it");
        }
    }

    fn finish(mut self) {
        if let Some(run) = self.runs.finish() {
            self.run(&run);
        }
    }
}

impl Visitor for Checker<'_> {
    fn span(&mut self, span: &Span) {
        if let Some(run) = self.runs.span(self.root, span) {
            self.run(&run);
        }
    }

    fn table(&mut self, table: &Table, descriptors: &[Descriptor]) {
        self.progress.table(table.input);
        if !table.is_repeated {
            tables::check(self.root, self.number, table, descriptors, self.findings);
        }
    }

    fn obstacle(&mut self, table: &Table, obstacle: Obstacle) {
        let (kind, what) = match obstacle {
            Obstacle::Outside => (Kind::Outside, "the table is outside memory"),
            Obstacle::Loop => (Kind::Loop, "the table leads to itself"),
            Obstacle::Repeated => (Kind::Shared, "the table is shared too often to be walked again"),
        };
        let bytes = self.root.shape.reach(table.level);
        let what = format!("{what}: {} at {:#x}", table.level, table.address.bits());
        self.findings.add(Finding::new(kind, self.number, table.input, bytes, 1, &what));
    }
}

#[cfg(test)]
mod tests;
