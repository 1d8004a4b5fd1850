//! A verdict as text, and as JSON, one record a line.

use std::io::{self, Write};

use machine::finding::Finding;
use machine::trace::{Judge, Trace};
use serde_json::json;

/// The first finding, or all, beyond the first `told`; at the end a line that sums up, and what is to be known of the reading.
pub(super) fn text(
    judge: &Judge<'_>,
    trace: &Trace<'_>,
    path: &str,
    is_all: bool,
    (told, is_end): (&mut usize, bool),
    out: &mut dyn Write,
) -> io::Result<()> {
    for finding in shown(judge, is_all).skip(*told) {
        let line = judge.line_of(finding.event).unwrap_or_default();
        writeln!(out, "{path}:{line}: {}\n", judge.story(finding))?;
        *told += 1;
    }
    if !is_end {
        return Ok(());
    }
    let (lints, violations): (Vec<&Finding>, Vec<&Finding>) = judge.findings().iter().partition(|it| it.is_lint());
    let counted = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let judged = counted(judge.steps(), "event");
    // What comes after a line that cannot have happened is not judged.
    let lines = if judge.is_over() { judged } else { format!("judged only as far as it makes sense: {judged}") };
    let needless = if lints.is_empty() { String::new() } else { format!(", {} not needed", lints.len()) };
    let hidden = violations.len().saturating_sub(1);
    let more = if hidden == 0 || is_all { "" } else { "; the first is told, --all tells every one" };
    match violations.len() {
        0 => writeln!(out, "{path}: {lines}, no rule is broken{needless}"),
        count => writeln!(out, "{path}: {lines}, {}{needless}{more}", counted(count, "violation")),
    }?;
    if let Some((line, fault)) = judge.faults().first() {
        let count = judge.faults().len();
        writeln!(out, "  accesses that can only fault: {count}; the first, at line {line}, takes {fault}")?;
    }
    trace.notes.iter().try_for_each(|note| writeln!(out, "  {note}"))
}

/// One record for each finding.
pub(super) fn json(
    judge: &Judge<'_>,
    path: &str,
    is_all: bool,
    told: &mut usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    for finding in shown(judge, is_all).skip(*told) {
        writeln!(out, "{}", record(judge, path, finding))?;
        *told += 1;
    }
    Ok(())
}

fn record(judge: &Judge<'_>, path: &str, finding: &Finding) -> serde_json::Value {
    let cpus: Vec<u8> = (0..64).filter(|cpu| finding.cpus >> cpu & 1 == 1).collect();
    json!({
        "file": path,
        "line": judge.line_of(finding.event),
        "cpu": finding.cpu,
        "rule": finding.rule.label(),
        "title": finding.rule.to_string(),
        "is_lint": finding.is_lint(),
        "address": format!("{:#x}", finding.address),
        "cached": finding.cached.map(|entry| entry.to_string()),
        "cached_on": cpus,
        "story": judge.story(finding).to_string(),
    })
}

/// Every finding, or the first violation and everything that was not needed.
fn shown<'j>(judge: &'j Judge<'_>, is_all: bool) -> impl Iterator<Item = &'j Finding> {
    let first = judge.findings().iter().position(|it| !it.is_lint());
    let is_shown = move |at: usize, it: &Finding| is_all || it.is_lint() || Some(at) == first;
    judge.findings().iter().enumerate().filter(move |(at, it)| is_shown(*at, it)).map(|(_, it)| it)
}
