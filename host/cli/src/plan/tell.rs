//! A plan for a person, side by side, and for a program.

use std::fmt::Write as _;

use serde_json::{Value, json};
use terminal::{Table, counted};
use vmsa::{Level, PageSize};

use super::build::{Column, Protected};
use super::memory::{Memory, Now};
use super::shape::Shape;
use crate::dump::{bytes_as_text, size};

/// Bytes of tables, of many with one decimal.
fn taken(bytes: u64) -> String {
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
        let _ = writeln!(text, "{} as it is now, {} pages:\n{}", memory.name, now.root.shape.page_size, as_it_is(now));
    }
    for of_size in columns.chunk_by(|one, next| one.shape.page_size == next.shape.page_size) {
        let (first, page_size) = (&of_size[0].shape, of_size[0].shape.page_size);
        let _ = writeln!(
            text,
            "{}, {page_size} pages, {} bits of address: {} to map",
            memory.name,
            of_size[0].bits,
            size(first.mapped())
        );
        let _ = writeln!(text, "{}", side_by_side(of_size, page_size));
        if let Some(line) = memory.now.as_ref().and_then(|now| against(now, of_size)) {
            let _ = writeln!(text, "{line}\n");
        }
    }
    text
}

/// A row for each figure, a cell for each column; rows of which no column has anything are left out.
struct Rows<'c> {
    columns: &'c [Column],
    table: Table,
}

const NONE: &str = "-";

impl Rows<'_> {
    fn row(&mut self, name: &str, of: impl Fn(&Column) -> String) {
        let cells: Vec<String> = self.columns.iter().map(of).collect();
        if cells.iter().any(|cell| cell != NONE) {
            self.table.row([vec![name.to_owned()], cells].concat());
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

fn side_by_side(columns: &[Column], page_size: PageSize) -> Table {
    let mut rows = Rows { columns, table: Table::new("  ").right(&[1, 2, 3]) };
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
        rows.protected("  leaves", |of| of.shape.leaves.iter().map(|(_, count)| count).sum::<u64>().to_string());
        rows.protected("  tables", |of| taken(of.shape.table_bytes()));
        rows.protected("  TLB entries for 90% of memory", |of| covering(&of.shape, 90).to_string());
    }
    rows.healed("released and healed: folds", |folds, _| folds.to_string());
    rows.healed("  tables", |_, shape| taken(shape.table_bytes()));
    rows.table
}

/// TLB entries for so many hundredths of memory.
fn covering(shape: &Shape, share: u64) -> u64 {
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

fn as_it_is(now: &Now) -> Table {
    let mut table = Table::new("  ").right(&[1]);
    for (name, value) in leaves_now(now) {
        table.row([format!("leaves of {name}"), value.to_string()]);
    }
    for (level, count) in &now.totals.tables {
        table.row([format!("tables of {level}"), size(count << now.root.shape.page_size.shift())]);
    }
    table.row(["tables".to_owned(), bytes_as_text(now.totals.table_bytes)]);
    table
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

/// The column of the kernel's own page size that comes closest to what it has, and by how much it misses that.
fn against(now: &Now, columns: &[Column]) -> Option<String> {
    if columns[0].shape.page_size != now.root.shape.page_size {
        return None;
    }
    let (tables, start) = (now.totals.table_count(), now.root.shape.start);
    let misses = |column: &Column| column.shape.table_count().abs_diff(tables);
    let closest = columns.iter().filter(|column| column.shape.start == start).min_by_key(|column| misses(column))?;
    let (planned, policy) = (closest.shape.table_count(), closest.policy.name());
    let error = 100.0 * misses(closest) as f64 / tables.max(1) as f64;
    Some(format!("  as it is now it has {tables} tables; the plan for {policy} has {planned}: {error:.1} % off"))
}

/// A record for each column.
pub(super) fn json(memory: &Memory, columns: &[Column]) -> String {
    let mut text = String::new();
    for column in columns {
        let _ = writeln!(text, "{}", record(memory, column));
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
