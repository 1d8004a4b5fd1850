//! `vellum diff`: two dumps, what changed between them, and what it cost in leaves and bytes.

mod compare;
pub(crate) mod parse;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use image::Source;

use crate::args::{DiffArguments, MachineArguments};
use crate::dump::{bytes_as_text, size};
use crate::select::Failure;
use crate::{dump, say};
use terminal::{Ending, Table};
use vmsa::PageSize;

use compare::{Change, compare};
use parse::{Section, Sums, other_granule, parse};

/// Runs the command.
pub(crate) fn run(arguments: &DiffArguments) -> Result<Ending, Failure> {
    let before = load(&arguments.before, arguments)?;
    let after = load(&arguments.after, arguments)?;
    if before.len() != after.len() {
        let (before, after) = (before.len(), after.len());
        let todo = "save both with `vellum dump --json` and the same --part";
        return Err(Failure(format!("{before} page tables before, {after} after: {todo}")));
    }
    let mut text = String::new();
    let mut differs = false;
    for (one, other) in before.iter().zip(&after) {
        let changes = compare(&one.regions, &other.regions);
        let sums = (one.totals(), other.totals());
        differs |= !changes.is_empty() || sums.0 != sums.1;
        if before.len() > 1 {
            let _ = writeln!(text, "# {}", other.name);
        }
        text += &report(&sums, &changes, arguments.limit);
    }
    terminal::try_print(&text)?;
    Ok(if differs { Ending::Wrong } else { Ending::Clean })
}

/// The page tables of a saved dump, text or JSON, or of a machine.
fn load(name: &str, arguments: &DiffArguments) -> Result<Vec<Section>, Failure> {
    let text = match name.parse::<Source>() {
        Ok(source) if !Path::new(name).exists() => {
            let mut kept = Vec::new();
            dump::to_json(&MachineArguments::of(source), &mut kept)?;
            String::from_utf8(kept)?
        }
        _ => fs::read_to_string(name).map_err(|error| Failure::file(name, &error))?,
    };
    let page_size = arguments.granule.unwrap_or(PageSize::Size4K);
    let sections = parse(&text, page_size).map_err(|line| Failure(format!("{name}: {line}")))?;
    if let (None, Some(other)) = (arguments.granule, other_granule(&sections)) {
        let other = other.to_string().to_lowercase();
        say::note(format!("{name} is taken for one of 4K pages: if its pages are larger, say so (--granule {other})"));
    }
    Ok(sections)
}

fn report(sums: &(Sums, Sums), changes: &[Change], limit: usize) -> String {
    let mut text = String::new();
    for change in changes.iter().take(limit) {
        let bytes = (change.last - change.input).saturating_add(1);
        let _ = writeln!(
            text,
            "{:#018x}-{:#018x} {:>9}  {}",
            change.input,
            change.last.wrapping_add(1),
            size(bytes),
            change.kind()
        );
        for (sign, entry) in [('-', &change.before), ('+', &change.after)] {
            if let Some(entry) = entry {
                let _ = writeln!(text, "  {sign} {entry}");
            }
        }
    }
    if changes.len() > limit {
        let _ = writeln!(text, "… and {} more (--limit)", changes.len() - limit);
    }
    if changes.is_empty() {
        text += "no difference\n";
    }
    text + &costs(sums)
}

/// Leaves and tables before and after.
fn costs((one, other): &(Sums, Sums)) -> String {
    let mut table = Table::new("  ");
    table.row(["", "before", "after", "change"].map(str::to_owned));
    let mut row = |name: String, before: u64, after: u64, show: fn(u64) -> String| {
        let sign = if after < before { "-" } else { "+" };
        let change = if after == before { "=".to_owned() } else { format!("{sign}{}", show(after.abs_diff(before))) };
        table.row([name, show(before), show(after), change]);
    };
    row("leaves".to_owned(), one.leaves.values().sum(), other.leaves.values().sum(), |n| n.to_string());
    let mut kinds: Vec<&(u64, bool)> = one.leaves.keys().chain(other.leaves.keys()).collect();
    kinds.sort();
    kinds.dedup();
    for kind in kinds {
        let name = format!("  {}{}", size(kind.0), if kind.1 { ", contiguous" } else { "" });
        let of = |totals: &Sums| totals.leaves.get(kind).copied().unwrap_or(0);
        row(name, of(one), of(other), |n| n.to_string());
    }
    row("mapped".to_owned(), one.mapped, other.mapped, bytes_as_text);
    row("tables".to_owned(), one.tables, other.tables, |n| n.to_string());
    row("bytes of tables".to_owned(), one.table_bytes, other.table_bytes, bytes_as_text);
    table.to_string()
}

#[cfg(test)]
mod tests;
