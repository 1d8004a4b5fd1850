//! Tables for people, of measurements: Markdown, with its columns aligned.

use std::fmt::Write;

use vmsa::PageSize;

use crate::case::{Case, Row};
use crate::goal::{Goal, best_peer};
use crate::measurement::Measurement;
use crate::roster::Contender;

/// All tables.
pub(crate) fn render(all: &[Measurement]) -> String {
    let mut text = String::new();
    for page_size in PageSize::ALL {
        for is_live in [false, true] {
            let cases = cases(all).into_iter().filter(|case| case.page_size == page_size && case.is_live == is_live);
            let state = if is_live { "live" } else { "not live" };
            section(&mut text, &format!("{page_size} pages, tables {state}"), &cases.collect::<Vec<_>>(), all);
        }
    }
    let chosen: Vec<Vec<String>> = cases(all).into_iter().filter_map(|case| chosen(case, &of(all, case))).collect();
    if !chosen.is_empty() {
        let _ = writeln!(text, "## The granule chosen at run time\n\n{}", aligned(&CHOSEN, &chosen));
    }
    text
}

/// The cases that were measured, in their order.
fn cases(all: &[Measurement]) -> Vec<Case> {
    let mut cases: Vec<Case> = all.iter().map(|one| one.case).collect();
    cases.dedup();
    cases
}

fn of(all: &[Measurement], case: Case) -> Vec<Measurement> {
    all.iter().copied().filter(|one| one.case == case).collect()
}

const BESIDE: [&str; 9] = [
    "operation",
    "instructions per",
    "ours",
    "best peer",
    "plain loop",
    "ours / peer",
    "ours / plain",
    "goal",
    "TLBIs",
];
const CHOSEN: [&str; 4] = ["operation at 4K", "compiled in", "chosen", "difference (goal: below 0.5 %)"];

fn section(text: &mut String, title: &str, cases: &[Case], all: &[Measurement]) {
    if cases.is_empty() {
        return;
    }
    let head = behind(cases, all).map_or(String::new(), |line| format!("{line}\n"));
    let beside: Vec<Vec<String>> = cases.iter().flat_map(|&case| beside(case, &of(all, case), all)).collect();
    if !beside.is_empty() {
        let _ = writeln!(text, "## {title}\n\n{head}{}", aligned(&BESIDE, &beside));
    }
    let mut names = vec!["instructions per unit"];
    let shown = Contender::ALL.into_iter().filter(|one| !matches!(one, Contender::Fixed | Contender::Chosen));
    let shown: Vec<Contender> =
        shown.filter(|&one| all.iter().any(|it| it.contender == one && cases.contains(&it.case))).collect();
    names.extend(shown.iter().map(|contender| contender.name()));
    let compared = cases.iter().filter(|case| case.row != Row::Collapse && !case.row.is_of_linear_map());
    let everyone: Vec<Vec<String>> = compared.map(|&case| everyone(case, &shown, &of(all, case))).collect();
    let _ = writeln!(text, "{}", aligned(&names, &everyone));
}

/// The lines of ours beside the others.
fn beside(case: Case, here: &[Measurement], all: &[Measurement]) -> Vec<Vec<String>> {
    let find = |contender| here.iter().find(|one| one.contender == contender);
    let Some(ours) = find(Contender::Ours) else { return Vec::new() };
    let plain = if case.row.is_reading() { find(Contender::Careful) } else { find(Contender::Naive) };
    let peer = best_peer(here);
    let each = |one: Option<&Measurement>| one.map_or(String::new(), |one| number(one.each()));
    let ratio = |one: Option<&Measurement>| one.map_or(String::new(), |one| format!("{:.2}", ours.each() / one.each()));
    let instructions = vec![
        case.title(),
        case.row.unit().to_string(),
        number(ours.each()),
        peer.map_or(String::new(), |peer| format!("{} {}", number(peer.each()), peer.contender.name())),
        each(plain),
        ratio(peer),
        ratio(plain),
        verdict(ours, false),
        ours.outcome.tlbis.to_string(),
    ];
    if case.row == Row::Collapse { vec![instructions, bytes(ours, all)] } else { vec![instructions] }
}

/// The goals of a case; those of bytes stand in a line of their own.
fn verdict(ours: &Measurement, is_of_bytes: bool) -> String {
    let goals = Goal::all(ours.case).into_iter().filter(|goal| goal.is_of_bytes() == is_of_bytes);
    goals.map(|goal| goal.verdict(ours)).collect::<Vec<_>>().join("; ")
}

/// The rows of which a peer needs fewer instructions, in a sentence.
fn behind(cases: &[Case], all: &[Measurement]) -> Option<String> {
    let behind = cases.iter().filter_map(|&case| {
        let here = of(all, case);
        let (ours, peer) = (here.iter().find(|one| one.contender == Contender::Ours)?, best_peer(&here)?);
        let (mine, theirs) = (number(ours.each()), number(peer.each()));
        (peer.each() < ours.each())
            .then(|| format!("{} ({} {theirs}, ours {mine})", case.row.name(), peer.contender.name()))
    });
    let rows: Vec<String> = behind.collect();
    (!rows.is_empty()).then(|| format!("A peer is ahead in {}.\n", rows.join(", ")))
}

/// The line of what tables take after a collapse, beside what they take for who does not collapse.
fn bytes(ours: &Measurement, all: &[Measurement]) -> Vec<String> {
    let kib = |one: &Measurement| format!("{} KiB", one.table_bytes() >> 10);
    let unfolded = Case { row: Row::ProtectPage, is_live: false, ..ours.case };
    let splitting = [Contender::Aarch64Paging, Contender::Generic];
    let others = all.iter().filter(|one| one.case == unfolded && splitting.contains(&one.contender));
    let peer = others.min_by_key(|one| one.table_bytes());
    let plain = all.iter().find(|one| one.case == unfolded && one.contender == Contender::Naive);
    let ratio = |one: Option<&Measurement>| {
        one.map_or(String::new(), |one| format!("{:.4}", ours.table_bytes() as f64 / one.table_bytes() as f64))
    };
    vec![
        "bytes of tables then".to_string(),
        "(not per: in all)".to_string(),
        kib(ours),
        peer.map_or(String::new(), |peer| format!("{} {}", kib(peer), peer.contender.name())),
        plain.map_or(String::new(), kib),
        ratio(peer),
        ratio(plain),
        verdict(ours, true),
        String::new(),
    ]
}

fn everyone(case: Case, shown: &[Contender], here: &[Measurement]) -> Vec<String> {
    let cell = |contender: &Contender| match here.iter().find(|one| one.contender == *contender) {
        Some(one) if case.is_live => format!("{}, {} TLBIs", number(one.each()), one.outcome.tlbis),
        Some(one) => number(one.each()),
        None if *contender == Contender::Careful => String::new(),
        None => contender.lacks(case).unwrap_or_default().to_string(),
    };
    std::iter::once(case.row.name().to_string()).chain(shown.iter().map(cell)).collect()
}

fn chosen(case: Case, here: &[Measurement]) -> Option<Vec<String>> {
    let each = |contender| here.iter().find(|one| one.contender == contender).map(Measurement::each);
    let (fixed, chosen) = (each(Contender::Fixed)?, each(Contender::Chosen)?);
    let difference = 100.0 * (chosen - fixed) / fixed;
    let verdict = if difference.abs() < 0.5 { "met" } else { "not met" };
    Some(vec![case.row.name().into(), number(fixed), number(chosen), format!("{difference:+.3} %: {verdict}")])
}

/// A count of instructions: more digits where it is small.
fn number(each: f64) -> String {
    match each {
        0.0..10.0 => format!("{each:.2}"),
        10.0..1000.0 => format!("{each:.1}"),
        _ => format!("{each:.0}"),
    }
}

/// A Markdown table. All columns but the first are aligned to the right.
fn aligned(head: &[&str], lines: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.max().unwrap_or(0).max(head[column].chars().count())
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        for (column, cell) in cells.enumerate() {
            let width = widths[column];
            let _ = if column == 0 { write!(text, "| {cell:<width$}") } else { write!(text, " | {cell:>width$}") };
        }
        text.push_str(" |\n");
    };
    line(&mut head.iter().copied());
    let rules: Vec<String> = widths.iter().zip(0..).map(|(width, column)| rule(*width, column)).collect();
    line(&mut rules.iter().map(String::as_str));
    for cells in lines {
        line(&mut cells.iter().map(String::as_str));
    }
    text
}

fn rule(width: usize, column: usize) -> String {
    let dashes = "-".repeat(width - 1);
    if column == 0 { format!("{dashes}-") } else { format!("{dashes}:") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let lines = [vec!["a long name".to_string(), "7".to_string()], vec!["b".to_string(), "12345".to_string()]];
        assert_eq!(
            aligned(&["name", "n"], &lines),
            "| name        |     n |\n| ----------- | ----: |\n| a long name |     7 |\n| b           | 12345 |\n"
        );
    }
}
