//! A plan for a person, side by side, and for a program.

use std::fmt::{self, Write as _};
use std::slice;

use serde_json::{Value, json};
use terminal::{Table, counted};
use vmsa::{Layout, Level};

use super::build::{Column, Protected};
use super::memory::{Memory, Now};
use super::shape::Shape;
use crate::args::Policy;
use crate::dump::{bytes_as_text, size};

/// Bytes of tables, of many with one decimal.
pub(super) fn taken(bytes: u64) -> String {
    match bytes {
        0..10_000_000 => size(bytes),
        10_000_000..10_000_000_000 => format!("{:.1}M", bytes as f64 / (1 << 20) as f64),
        _ => format!("{:.1}G", bytes as f64 / (1 << 30) as f64),
    }
}

const GIB: u64 = 1 << 30;
/// Shares of memory whose TLB entries are told, in hundredths.
const SHARES: [u64; 3] = [50, 90, 100];

/// A table for each page size, a column for each policy.
pub(super) fn text(memory: &Memory, columns: &[Column]) -> String {
    let mut text = String::new();
    if let Some(now) = &memory.now {
        let mut table = Table::new("  ").right(&[1]);
        as_it_is(now).into_iter().for_each(|row| table.row(row));
        let _ = writeln!(text, "{} {}:\n{table}", memory.name, now_in_words(now));
    }
    for of_size in by_page_size(columns) {
        let mut table = Table::new("  ").right(&[1, 2, 3]);
        side_by_side(of_size).into_iter().for_each(|row| table.row(row));
        let _ = writeln!(text, "{}, {}\n{table}", memory.name, heading(of_size));
        if let Some(error) = memory.now.as_ref().and_then(|now| Error::of(now, of_size)) {
            let _ = writeln!(text, "  {error}\n");
        }
    }
    text
}

/// The columns of one page size are told together.
pub(super) fn by_page_size(columns: &[Column]) -> impl Iterator<Item = &[Column]> {
    columns.chunk_by(|one, next| one.shape.page_size == next.shape.page_size)
}

pub(super) fn now_in_words(now: &Now) -> String {
    format!("as it is now, {} pages", now.root.shape.page_size)
}

pub(super) fn heading(of_size: &[Column]) -> String {
    let Column { shape, bits, layout, .. } = &of_size[0];
    let layout = match layout {
        Layout::Bits48 => "",
        Layout::Lpa => ", 52-bit outputs (LPA)",
        Layout::Lpa2 => ", LPA2 descriptors",
    };
    format!("{} pages, {bits} bits of address{layout}: {} to map", shape.page_size, size(shape.mapped()))
}

/// A row for each figure, a cell for each column; rows of which no column has anything are left out.
struct Rows<'c> {
    columns: &'c [Column],
    rows: Vec<Vec<String>>,
}

const NONE: &str = "-";

impl Rows<'_> {
    fn row(&mut self, name: &str, of: impl Fn(&Column) -> String) {
        let cells: Vec<String> = self.columns.iter().map(of).collect();
        if cells.iter().any(|cell| cell != NONE) {
            self.rows.push([vec![name.to_owned()], cells].concat());
        }
    }

    fn protected(&mut self, name: &str, of: impl Fn(&Protected) -> String) {
        self.row(name, |column| column.protected.as_ref().map_or(NONE.to_owned(), &of));
    }

    fn healed(&mut self, name: &str, of: impl Fn(u64, &Shape) -> String) {
        self.protected(name, |protected| {
            protected.healed.as_ref().map_or(NONE.to_owned(), |(folds, shape)| of(*folds, shape))
        });
    }
}

/// A row for each figure, the first of them with the names of the policies.
pub(super) fn side_by_side(columns: &[Column]) -> Vec<Vec<String>> {
    let mut rows = Rows { columns, rows: Vec::new() };
    let page_size = columns[0].shape.page_size;
    let number = |number: u64| if number == 0 { NONE.to_owned() } else { number.to_string() };
    let bytes = |tables: u64| if tables == 0 { NONE.to_owned() } else { taken(tables << page_size.shift()) };
    rows.row("", |column| column.policy.name().to_owned());
    for leaf in leaf_sizes(columns) {
        let of = |shape: &Shape| shape.leaves.iter().find(|(size, _)| *size == leaf).map_or(0, |(_, count)| *count);
        let name = format!("leaves of {} ({leaf})", size(leaf.size_bytes(page_size)));
        rows.row(&name, |column| number(of(&column.shape)));
    }
    for level in Level::ALL {
        let of = |shape: &Shape| shape.tables.iter().find(|(at, _)| *at == level).map_or(0, |(_, count)| *count);
        rows.row(&format!("tables of {level}"), |column| bytes(of(&column.shape)));
    }
    rows.row("tables", |column| taken(column.shape.table_bytes()));
    rows.row("kept for atomic context", |column| bytes(column.reserve));
    rows.row("loads of a walk", |column| match column.shape.loads() {
        (fewest, most, _) if fewest == most => fewest.to_string(),
        (fewest, most, average) => format!("{fewest} to {most} ({}.{:02})", average / 100, average % 100),
    });
    rows.row("TLB entries for 1G", |column| column.shape.tlb_entries(GIB.min(column.shape.mapped())).to_string());
    for share in SHARES {
        rows.row(&format!("TLB entries for {share}% of memory"), |column| covering(&column.shape, share).to_string());
    }
    if let Some(pages) = columns.iter().filter_map(|column| column.protected.as_ref()).map(|of| of.pages).max() {
        rows.protected(&format!("with {} read-only: splits", counted(pages, "page")), |of| of.splits.to_string());
        rows.protected("  leaves", |of| of.shape.leaf_count().to_string());
        rows.protected("  tables", |of| taken(of.shape.table_bytes()));
        rows.protected("  TLB entries for 90% of memory", |of| covering(&of.shape, 90).to_string());
    }
    rows.healed("released and healed: folds", |folds, _| folds.to_string());
    rows.healed("  tables", |_, shape| taken(shape.table_bytes()));
    rows.rows
}

/// TLB entries for so many hundredths of memory.
pub(super) fn covering(shape: &Shape, share: u64) -> u64 {
    shape.tlb_entries((u128::from(shape.mapped()) * u128::from(share) / 100) as u64)
}

/// Every size that a leaf of some column has, from the largest.
fn leaf_sizes(columns: &[Column]) -> Vec<vmsa::LeafSize> {
    let mut sizes: Vec<_> =
        columns.iter().flat_map(|column| column.shape.leaves.iter().map(|(size, _)| *size)).collect();
    sizes.sort_by(|one, other| other.cmp(one));
    sizes.dedup();
    sizes
}

pub(super) fn as_it_is(now: &Now) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> =
        leaves_now(now).into_iter().map(|(name, value)| vec![format!("leaves of {name}"), value.to_string()]).collect();
    for (level, count) in &now.totals.tables {
        rows.push(vec![format!("tables of {level}"), size(count << now.root.shape.page_size.shift())]);
    }
    rows.push(vec!["tables".to_owned(), bytes_as_text(now.totals.table_bytes)]);
    rows
}

/// Leaves as the kernel has them: of a contiguous group each member.
fn leaves_now(now: &Now) -> Vec<(String, u64)> {
    let leaves = now.totals.leaves.iter();
    let name = |level: Level, contiguous: bool| {
        let group = if contiguous { ", contiguous" } else { "" };
        format!("{}{group}", size(1 << now.root.shape.shift(level)))
    };
    leaves.map(|((level, contiguous), count)| (name(*level, *contiguous), *count)).collect()
}

/// What the plan misses of what a kernel has.
pub(super) struct Error {
    policy: Policy,
    /// As it is now, and as it is planned; a contiguous group is one leaf.
    tables: (u64, u64),
    leaves: (u64, u64),
}

impl Error {
    /// Of that column of the kernel's own page size that comes closest.
    pub(super) fn of(now: &Now, of_size: &[Column]) -> Option<Self> {
        let (shape, tables) = (&now.root.shape, now.totals.table_count());
        let is_alike =
            |column: &&Column| (column.shape.page_size, column.shape.start) == (shape.page_size, shape.start);
        let error = |column: &Column| Self {
            policy: column.policy,
            tables: (tables, column.shape.table_count()),
            leaves: (now.totals.tlb_entries(shape.page_size), column.shape.leaf_count()),
        };
        let misses = |error: &Self| (error.tables.0.abs_diff(error.tables.1), error.leaves.0.abs_diff(error.leaves.1));
        of_size.iter().filter(is_alike).map(error).min_by_key(misses)
    }

    /// By how much the second misses the first.
    fn percent((now, planned): (u64, u64)) -> f64 {
        100.0 * now.abs_diff(planned) as f64 / now.max(1) as f64
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((tables, planned_tables), (leaves, planned_leaves)) = (self.tables, self.leaves);
        write!(f, "as it is now it has {tables} tables and {leaves} leaves, a contiguous group being one; ")?;
        write!(f, "the plan for {} has {planned_tables} and {planned_leaves}: ", self.policy.name())?;
        write!(f, "{:.1} % and {:.1} % off", Self::percent(self.tables), Self::percent(self.leaves))
    }
}

/// A record for each column, and what it misses of a kernel's map.
pub(super) fn json(memory: &Memory, columns: &[Column]) -> String {
    let mut text = String::new();
    for column in columns {
        let mut record = record(memory, column);
        if let Some(error) = memory.now.as_ref().and_then(|now| Error::of(now, slice::from_ref(column))) {
            record["now"] = json!({
                "tables": error.tables.0,
                "tables_percent_off": Error::percent(error.tables),
                "leaves": error.leaves.0,
                "leaves_percent_off": Error::percent(error.leaves),
            });
        }
        let _ = writeln!(text, "{record}");
    }
    text
}

fn record(memory: &Memory, column: &Column) -> Value {
    let protected = column.protected.as_ref().map(|of| {
        let healed = of.healed.as_ref().map(|(folds, shape)| {
            json!({ "folds": folds, "leaves": leaves(shape), "tables": shape.table_count(), "table_bytes": shape.table_bytes() })
        });
        json!({
            "pages": of.pages,
            "splits": of.splits,
            "leaves": leaves(&of.shape),
            "tables": of.shape.table_count(),
            "table_bytes": of.shape.table_bytes(),
            "healed": healed,
        })
    });
    let shape = &column.shape;
    let by_level = |(level, count): &(Level, u64)| json!({ "level": level.number(), "tables": count });
    let entries = |share: u64| (share.to_string(), json!(covering(shape, share)));
    json!({
        "kind": "plan",
        "memory": memory.name,
        "page_size": shape.page_size.to_string(),
        "policy": column.policy.name(),
        "virtual_bits": column.bits,
        "layout": format!("{:?}", column.layout),
        "mapped_bytes": shape.mapped(),
        "leaves": leaves(shape),
        "tables": shape.table_count(),
        "table_bytes": shape.table_bytes(),
        "tables_by_level": shape.tables.iter().map(by_level).collect::<Vec<_>>(),
        "reserve": column.reserve,
        "loads": { "fewest": shape.loads().0, "most": shape.loads().1, "hundredths_on_average": shape.loads().2 },
        "tlb_entries_for_percent": SHARES.into_iter().map(entries).collect::<serde_json::Map<_, _>>(),
        "protected": protected,
    })
}

/// As the kernel's own report has them.
fn leaves(shape: &Shape) -> Vec<Value> {
    let leaf = |(size, count): &(vmsa::LeafSize, u64)| {
        json!({
            "level": size.level.number(),
            "contiguous": size.contiguous,
            "bytes": size.size_bytes(shape.page_size),
            "leaves": count,
        })
    };
    shape.leaves.iter().map(leaf).collect()
}
