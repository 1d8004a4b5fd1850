//! `vellum check`: what is dangerous, wrong or wasteful in page tables.

pub(crate) mod finding;
pub(crate) mod kinds;
mod physical;
mod report;
mod tables;

use std::io::{BufWriter, Write};

use image::{Machine, Obstacle, Regime, Root, Span, Table, Visitor};
use terminal::Ending;
use vmsa::{Descriptor, Permissions, Rights, Stage1Attributes};

use crate::args::CheckArguments;
use crate::leaf;
use crate::progress::Progress;
use crate::runs::{Run, Runs};
use crate::select::{self, Failure, Selection};

use finding::{Finding, Findings};
use kinds::Kind;

/// Runs the command.
pub(crate) fn run(arguments: &CheckArguments) -> Result<Ending, Failure> {
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
    let counts = |finding: &Finding| match arguments.fail_from {
        Some(rank) => finding.kind.about().rank <= rank,
        None => arguments.fail_on.is_empty() || arguments.fail_on.contains(&finding.kind),
    };
    Ok(if findings.iter().any(counts) { Ending::Wrong } else { Ending::Clean })
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
        checker.root(&roots[..number]);
        machine.walk(root, 0, u64::MAX, &mut checker)?;
        checker.finish();
    }
    let memory = if machine.tells_memory { machine.memory.ranges() } else { &[] };
    mapped.check(roots, memory, &mut all);
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
    /// What the registers say, beside those of the roots before it.
    fn root(&mut self, before: &[Root]) {
        let shape = self.root.shape;
        let mut find = |kind, what: &str| {
            let bytes = shape.last() - shape.base() + 1;
            self.findings.add(Finding::new(kind, self.number, shape.base(), bytes, 1, what));
        };
        if let Some(first) = before.iter().find(|first| first.is_same_place(self.root)) {
            find(Kind::Disagree, &first.disagreement(self.root));
        }
        if let Some(what) = too_long(self.root, self.root.address.bits()) {
            find(Kind::OutputSize, &format!("the root has {what}: a fault of level 0"));
        }
    }

    fn run(&mut self, run: &Run) {
        if !run.is_leaf {
            return;
        }
        let permissions = self.root.permissions(run.descriptor, run.inherited);
        self.mapped.add(self.root, self.number, run, permissions);
        let Some(permissions) = permissions else { return };
        let (input, bytes) = (run.input, run.bytes(self.root));
        for (kind, what) in leaf_kinds(self.root, run.descriptor, &permissions) {
            self.findings.add(Finding::new(kind, self.number, input, bytes, run.count, &what));
        }
    }

    fn finish(mut self) {
        if let Some(run) = self.runs.finish() {
            self.run(&run);
        }
    }
}

/// What is wrong with a leaf by itself.
fn leaf_kinds(root: &Root, leaf: Descriptor, permissions: &Permissions) -> Vec<(Kind, String)> {
    let (privileged, user) = (permissions.privileged, permissions.unprivileged);
    let who = privileged_name(root);
    let mut all = Vec::new();
    let executor = if privileged.contains(Rights::EXECUTE) { who } else { "EL0" };
    if (privileged | user).contains(Rights::EXECUTE) && leaf::is_device(root, leaf) {
        all.push((Kind::DeviceExecutable, format!("{executor} executes it")));
    }
    // Stage 2 gives a guest its memory to do as it likes: what the guest's own stage 1 permits is another question.
    if !root.is_stage1() {
        return all;
    }
    let bits = Stage1Attributes::from_bits_retain(leaf.bits());
    let is_user = leaf::is_user(permissions) || user.contains(Rights::EXECUTE);
    if leaf::is_wx(privileged) {
        all.push((Kind::Wx, format!("{who} writes and executes it")));
    } else if leaf::is_wx(user) {
        all.push((Kind::UserWx, "EL0 writes and executes it".to_owned()));
    }
    if user.contains(Rights::EXECUTE) && privileged.contains(Rights::WRITE) && !user.contains(Rights::WRITE) {
        all.push((Kind::UserExecutes, format!("EL0 executes what {who} alone writes")));
    } else if is_user && !bits.contains(Stage1Attributes::NOT_GLOBAL) {
        all.push((Kind::UserGlobal, "EL0 reaches it in every address space".to_owned()));
    }
    // Of a process's pages the access flag tells which are in use.
    if !is_user && !bits.contains(Stage1Attributes::AF) && root.sets_access_flag == Some(false) {
        all.push((Kind::AccessFlag, "AF is clear and HA = 0: the first access faults".to_owned()));
    }
    all
}

/// Who has the rights of the privileged.
fn privileged_name(root: &Root) -> &'static str {
    match root.regime {
        Regime::Stage2 => "the guest",
        _ => root.regime.register().rsplit('_').next().unwrap_or_default(),
    }
}

/// What is wrong with an output address, if it has more bits than registers allow.
fn too_long(root: &Root, address: u64) -> Option<String> {
    let bits = root.output_bits.filter(|bits| address >> bits != 0)?;
    Some(format!("an address above the {bits} bits of IPS and PARange"))
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
            self.mapped.table(self.root, self.number, table);
            tables::check(self.root, self.number, table, descriptors, self.findings);
        }
    }

    fn obstacle(&mut self, table: &Table, obstacle: Obstacle) {
        let (kind, what) = match obstacle {
            Obstacle::Outside => (Kind::Outside, "the table is outside memory"),
            Obstacle::Unmapped => (Kind::Unmapped, "stage 2 does not map the table"),
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
