//! `--stats`: leaves by size, tables by level, and what they take.

use std::collections::BTreeMap;
use std::io::{self, Write};

use image::{Root, Span, Table};
use serde_json::{Value, json};
use vmsa::{DESCRIPTOR_BYTES, Descriptor, Level, PageSize, ptdump};

use super::Format;
use super::counted::Counted;
use crate::only::Filter;
use crate::runs::Run;

/// Sums over a page table.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Totals {
    /// Leaves by level, single and contiguous.
    pub(crate) leaves: BTreeMap<(Level, bool), u64>,
    /// Tables by level, each counted once however often it is shared.
    pub(crate) tables: BTreeMap<Level, u64>,
    pub(crate) table_bytes: u64,
    /// Descriptors that are neither zero nor valid.
    pub(crate) invalid: u64,
}

impl Totals {
    pub(crate) fn run(&mut self, run: &Run) {
        if run.is_leaf {
            *self.leaves.entry((run.level, run.descriptor.is_contiguous())).or_default() += run.count;
        } else if run.descriptor.bits() != 0 {
            self.invalid += run.count;
        }
    }

    pub(crate) fn table(&mut self, root: &Root, table: &Table) {
        if !table.is_repeated {
            *self.tables.entry(table.level).or_default() += 1;
            self.table_bytes += root.shape.entries(table.level) as u64 * DESCRIPTOR_BYTES as u64;
        }
    }

    pub(crate) fn leaf_count(&self) -> u64 {
        self.leaves.values().sum()
    }

    /// TLB entries for all of it: one may hold a whole contiguous group.
    pub(crate) fn tlb_entries(&self, page_size: PageSize) -> u64 {
        let entries = |((level, contiguous), count): (&(Level, bool), &u64)| match page_size.contiguous_shift(*level) {
            Some(shift) if *contiguous => count >> shift,
            _ => *count,
        };
        self.leaves.iter().map(entries).sum()
    }

    pub(crate) fn table_count(&self) -> u64 {
        self.tables.values().sum()
    }

    /// The sums as a record.
    pub(crate) fn record(&self) -> Value {
        let name = |level: &Level, contiguous: bool| format!("{}{}", level.number(), if contiguous { "c" } else { "" });
        let leaves: serde_json::Map<String, Value> =
            self.leaves.iter().map(|((level, contiguous), count)| (name(level, *contiguous), json!(count))).collect();
        let tables: serde_json::Map<String, Value> =
            self.tables.iter().map(|(level, count)| (name(level, false), json!(count))).collect();
        json!({
            "kind": "totals",
            "leaves": self.leaf_count(),
            "leaves_by_level": leaves,
            "tables": self.table_count(),
            "tables_by_level": tables,
            "table_bytes": self.table_bytes,
            "invalid": self.invalid,
        })
    }

    /// The sums as aligned lines.
    pub(crate) fn write(&self, root: &Root, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{:<26} {:>12} {:>14}", "leaves", "count", "maps")?;
        for ((level, contiguous), count) in &self.leaves {
            let shift = root.shape.shift(*level);
            let kind = if *level == Level::L3 { "page" } else { "block" };
            let group = if *contiguous { ", contiguous" } else { "" };
            let what = format!("{} {kind}{group}", size(1 << shift));
            writeln!(out, "  {what:<24} {count:>12} {:>14}", size(count.saturating_mul(1 << shift)))?;
        }
        writeln!(out, "  {:<24} {:>12}", "all", self.leaf_count())?;
        writeln!(out, "{:<26} {:>12} {:>14}", "tables", "count", "take")?;
        for (level, count) in &self.tables {
            let bytes = count * root.shape.entries(*level) as u64 * DESCRIPTOR_BYTES as u64;
            writeln!(out, "  {:<24} {count:>12} {:>14}", level.to_string(), bytes_as_text(bytes))?;
        }
        writeln!(out, "  {:<24} {:>12} {:>14}", "all", self.table_count(), bytes_as_text(self.table_bytes))?;
        if self.invalid > 0 {
            writeln!(out, "{:<26} {:>12}", "kept in invalid entries", self.invalid)?;
        }
        Ok(())
    }
}

/// A whole number of the largest unit.
pub(crate) fn size(bytes: u64) -> String {
    let (size, unit) = ptdump::scale(bytes);
    format!("{size}{unit}")
}

/// Bytes, for what may be less than 1 KiB.
pub(crate) fn bytes_as_text(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) { size(bytes) } else { format!("{bytes}B") }
}

/// Adds up and writes at the end.
pub(super) struct Stats<'a> {
    root: &'a Root,
    filter: &'a Filter,
    /// What the kernel counts itself.
    counted: Option<Counted>,
    out: &'a mut dyn Write,
    totals: Totals,
}

impl<'a> Stats<'a> {
    pub(super) fn new(root: &'a Root, filter: &'a Filter, counted: Option<Counted>, out: &'a mut dyn Write) -> Self {
        Self { root, filter, counted, out, totals: Totals::default() }
    }
}

impl Format for Stats<'_> {
    fn span(&mut self, span: &Span) -> io::Result<()> {
        if self.filter.shows(self.root, span) {
            self.totals.run(&Run::of(self.root, span));
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, _: &[Descriptor]) -> io::Result<()> {
        self.totals.table(self.root, table);
        if let Some(counted) = &mut self.counted {
            counted.table(self.root, table);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        let Self { root, counted, out, totals, .. } = *self;
        totals.write(root, out)?;
        counted.map_or(Ok(()), |counted| counted.write(out))
    }
}
