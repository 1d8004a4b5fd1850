//! One JSON record a line: `root` first, then one for each run, then `totals`. Addresses and descriptors are strings in
//! hexadecimal, for a JSON number loses bits above 53.

use std::io::{self, Write};

use image::{Root, Span, Table};
use serde_json::{Value, json};
use vmsa::{Descriptor, Level, Permissions, Rights, ptdump};

use super::{Format, Totals};
use crate::leaf;
use crate::only::Filter;
use crate::runs::{Run, Runs};

/// Writes records.
pub(super) struct Json<'a> {
    root: &'a Root,
    filter: &'a Filter,
    out: &'a mut dyn Write,
    runs: Runs,
    totals: Totals,
}

impl<'a> Json<'a> {
    pub(super) fn new(root: &'a Root, filter: &'a Filter, out: &'a mut dyn Write) -> io::Result<Self> {
        let shape = root.shape;
        let header = json!({
            "kind": "root",
            "register": root.regime.register(),
            "address": hex(root.address.bits()),
            "page_size": shape.page_size.to_string(),
            "input_bits": shape.input_bits,
            "layout": format!("{:?}", shape.layout),
            "start_level": shape.start.number(),
            "mair": root.memory.map(|memory| hex(memory.0)),
            "permissions": if root.control.is_direct() { "by bits" } else { "by registers" },
            "one_privilege": root.control.has_one_privilege,
            "identifier": root.identifier,
            "origin": root.origin.to_string(),
        });
        writeln!(out, "{header}")?;
        Ok(Self { root, filter, out, runs: Runs::default(), totals: Totals::default() })
    }

    fn write(&mut self, run: Option<Run>) -> io::Result<()> {
        match run {
            Some(run) => writeln!(self.out, "{}", record(self.root, &run)),
            None => Ok(()),
        }
    }
}

/// The record of a run.
fn record(root: &Root, run: &Run) -> Value {
    let end = run.input.wrapping_add(run.bytes(root));
    let (size, unit) = ptdump::scale(1 << root.shape.shift(run.level));
    if !run.is_leaf {
        return json!({
            "kind": "invalid",
            "input": hex(run.input),
            "end": hex(end),
            "level": run.level.number(),
            "entries": run.count,
            "descriptor": hex(run.descriptor.bits()),
        });
    }
    let permissions = root.permissions(run.descriptor, run.inherited);
    let permits = |has: fn(&Permissions) -> bool| permissions.as_ref().map(has);
    json!({
        "kind": "leaves",
        "input": hex(run.input),
        "end": hex(end),
        "output": hex(run.output),
        "same_output": run.repeats,
        "level": run.level.number(),
        "size": format!("{size}{unit}"),
        "leaves": run.count,
        "descriptor": hex(run.descriptor.bits()),
        "attributes": hex(run.attributes(root)),
        "table_attributes": hex(run.inherited.bits()),
        "block": run.level != Level::L3,
        "contiguous": run.descriptor.is_contiguous(),
        "privileged": permissions.map(|of| of.privileged.to_string()),
        "unprivileged": permissions.map(|of| of.unprivileged.to_string()),
        "writes": permits(|of| of.privileged.contains(Rights::WRITE)),
        "executes": permits(|of| of.privileged.contains(Rights::EXECUTE)),
        "user": permits(leaf::is_user),
        "user_writes": permits(|of| of.unprivileged.contains(Rights::WRITE)),
        "user_executes": permits(|of| of.unprivileged.contains(Rights::EXECUTE)),
        "memory": leaf::memory_name(root, run.descriptor),
    })
}

fn hex(number: u64) -> String {
    format!("{number:#x}")
}

impl Format for Json<'_> {
    fn span(&mut self, span: &Span) -> io::Result<()> {
        if !self.filter.shows(self.root, span) {
            let run = self.runs.finish();
            return self.write(run);
        }
        if span.descriptor.bits() != 0 {
            self.totals.run(&Run::of(self.root, span));
        }
        let run = self.runs.span(self.root, span);
        self.write(run)
    }

    fn table(&mut self, table: &Table, _: &[Descriptor]) -> io::Result<()> {
        self.totals.table(self.root, table);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        let run = self.runs.finish();
        self.write(run)?;
        let totals = self.totals.record();
        writeln!(self.out, "{totals}")
    }
}
