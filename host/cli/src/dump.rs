//! `vellum dump`: page tables as text, as JSON, as tables, as sums.

mod counted;
mod json;
mod stage2;
mod stats;
mod tables;
mod text;

use std::io::{self, BufWriter, Write};

use image::{Machine, Obstacle, Root, Source, Span, Table, Visitor};
use terminal::{Ending, unless_unread};
use vmsa::Descriptor;

use crate::args::{DumpArguments, How, MachineArguments};
use crate::only::Filter;
use crate::progress::Progress;
use crate::select::{self, Failure, Selection};
use crate::{markers, say};

pub(crate) use stats::Totals;
pub(crate) use stats::{bytes_as_text, size};

/// How a dump is written.
pub(crate) trait Format {
    fn span(&mut self, span: &Span) -> io::Result<()>;
    fn table(&mut self, table: &Table, descriptors: &[Descriptor]) -> io::Result<()>;
    /// The walk is over.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Runs the command.
pub(crate) fn run(arguments: &DumpArguments) -> Result<Ending, Failure> {
    let Selection { mut machine, roots } = select::open(&arguments.machine)?;
    let range = arguments.range.unwrap_or((0, u64::MAX));
    let is_live = matches!(arguments.machine.source, Source::Gdb(_)) && arguments.machine.access.ram.is_none();
    let mut findings = 0;
    if is_live {
        // A stopped guest must not wait for whoever reads our output.
        let mut kept = Vec::new();
        findings += dump_all(&mut machine, &roots, range, &arguments.how, &mut kept)?;
        drop(machine);
        print(|out| out.write_all(&kept))?;
    } else {
        let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        let done = dump_all(&mut machine, &roots, range, &arguments.how, &mut out);
        findings += done?;
        out.flush().or_else(unless_unread)?;
    }
    Ok(if findings == 0 { Ending::Clean } else { Ending::Wrong })
}

/// Dumps the page tables of a machine as JSON, into memory.
pub(crate) fn to_json(machine: &MachineArguments, out: &mut Vec<u8>) -> Result<(), Failure> {
    let Selection { mut machine, roots } = select::open(machine)?;
    let how = How { json: true, ..How::default() };
    dump_all(&mut machine, &roots, (0, u64::MAX), &how, out)?;
    Ok(())
}

fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    write(&mut out).and_then(|()| out.flush()).or_else(unless_unread)?;
    Ok(())
}

fn dump_all(
    machine: &mut Machine,
    roots: &[Root],
    range: (u64, u64),
    arguments: &How,
    out: &mut dyn Write,
) -> Result<usize, Failure> {
    let mut findings = 0;
    for root in roots {
        if roots.len() > 1 && !arguments.json {
            writeln!(out, "# {root}").or_else(unless_unread)?;
        } else {
            say::note(root);
        }
        findings += dump_root(machine, root, range, arguments, out)?;
    }
    Ok(findings)
}

fn dump_root(
    machine: &mut Machine,
    root: &Root,
    range: (u64, u64),
    arguments: &How,
    out: &mut dyn Write,
) -> Result<usize, Failure> {
    let filter = Filter { levels: arguments.level.clone(), only: arguments.only.clone() };
    let marked = markers::of(arguments.markers.as_deref(), machine, root)?;
    let marked = markers::borrow(&marked);
    let format: Box<dyn Format + '_> = if arguments.json {
        Box::new(json::Json::new(root, &filter, out)?)
    } else if arguments.tables {
        Box::new(tables::Tables::new(root, &filter, out))
    } else if arguments.stats {
        Box::new(stats::Stats::new(root, &filter, counted::Counted::read(machine, root, range), out))
    } else if root.is_stage1() {
        Box::new(text::Text::new(root, range, &filter, &marked, out))
    } else {
        Box::new(stage2::Stage2Text::new(root, range, &filter, out))
    };
    let mut dumper = Dumper { format, progress: Progress::of_tables(), obstacles: Vec::new(), failed: None };
    let walked = machine.walk(root, range.0, range.1, &mut dumper);
    let Dumper { format, obstacles, failed, .. } = dumper;
    // A write that failed has stopped the walk: its reason is the one to tell.
    if let Some(error) = failed {
        unless_unread(error)?;
        return Ok(obstacles.len());
    }
    walked?;
    format.finish().or_else(unless_unread)?;
    report(&obstacles);
    Ok(obstacles.len())
}

/// Feeds a walk to a format, and keeps what a walk cannot return: the first failed write.
struct Dumper<'a> {
    format: Box<dyn Format + 'a>,
    progress: Progress,
    obstacles: Vec<(Table, Obstacle)>,
    failed: Option<io::Error>,
}

impl Dumper<'_> {
    fn keep(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
            // Nobody reads what follows.
            image::interrupt::request();
        }
    }
}

impl Visitor for Dumper<'_> {
    fn span(&mut self, span: &Span) {
        if self.failed.is_none() {
            let result = self.format.span(span);
            self.keep(result);
        }
    }

    fn table(&mut self, table: &Table, descriptors: &[Descriptor]) {
        self.progress.table(table.input);
        let result = self.format.table(table, descriptors);
        self.keep(result);
    }

    fn obstacle(&mut self, table: &Table, obstacle: Obstacle) {
        self.obstacles.push((*table, obstacle));
    }
}

/// Tells the first obstacles by name, and the rest by number.
fn report(obstacles: &[(Table, Obstacle)]) {
    const TOLD: usize = 10;
    for (table, obstacle) in obstacles.iter().take(TOLD) {
        let what = match obstacle {
            Obstacle::Outside => "is outside memory",
            Obstacle::Unmapped => "is not mapped by stage 2",
            Obstacle::Loop => "leads to itself",
            Obstacle::Repeated => "is shared too often",
        };
        let (level, address) = (table.level, table.address);
        say::finding(format!("table of {level} at {address} for {:#018x} {what}: shown as a hole", table.input));
    }
    if obstacles.len() > TOLD {
        say::finding(format!(
            "{} more tables are outside memory, not mapped, lead to themselves or are shared",
            obstacles.len() - TOLD
        ));
    }
}
