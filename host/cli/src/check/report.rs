//! Findings for a person, and for a program.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use image::Root;
use serde_json::json;

use super::finding::Finding;
use super::kinds::Rank;
use super::physical::bytes;

/// How many places of a kind are told without `--all`.
const TOLD: usize = 10;

/// Kinds with their risk and where to read, the worst first, each with its places.
pub(super) fn text(findings: &[Finding], roots: &[Root], all: bool, out: &mut dyn Write) -> io::Result<()> {
    for kind in findings.chunk_by(|one, next| one.kind == next.kind) {
        let about = kind[0].kind.about();
        let (style, rank) = rank(about.rank);
        let total: u64 = kind.iter().map(|finding| finding.bytes).fold(0, u64::saturating_add);
        let places = if kind.len() == 1 { "1 place".to_owned() } else { format!("{} places", kind.len()) };
        let style = styled(style);
        writeln!(
            out,
            "{style}{rank:<6}{style:#} {}: {} ({places}, {})",
            kind[0].kind.name(),
            about.title,
            bytes(total)
        )?;
        writeln!(out, "       {}. Read: {}", about.risk, about.read)?;
        let told = if all { kind.len() } else { TOLD };
        for finding in kind.iter().take(told) {
            place(finding, roots, out)?;
        }
        if kind.len() > told {
            writeln!(out, "  … and {} more (--all)", kind.len() - told)?;
        }
        writeln!(out)?;
    }
    summary(findings, out)
}

fn place(finding: &Finding, roots: &[Root], out: &mut dyn Write) -> io::Result<()> {
    let end = finding.input.wrapping_add(finding.bytes);
    let root = if roots.len() > 1 {
        format!(" [{} {}]", finding.root, roots[finding.root].regime.register())
    } else {
        String::new()
    };
    let count = if finding.count > 1 { format!(" ({}×)", finding.count) } else { String::new() };
    let other = match (finding.other_input(), finding.other) {
        (Some(input), Some((_, root))) if root != finding.root => format!(" at {input:#x} of root {root}"),
        (Some(input), _) => format!(" at {input:#x}"),
        (None, _) => String::new(),
    };
    let size = bytes(finding.bytes);
    writeln!(out, "  {:#018x}-{end:#018x} {size:>9}  {}{other}{count}{root}", finding.input, finding.what)
}

fn summary(findings: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    if findings.is_empty() {
        return writeln!(out, "clean: nothing found");
    }
    let of = |rank: Rank| findings.iter().filter(|finding| finding.kind.about().rank == rank).count();
    let (danger, risk, cost) = (of(Rank::Danger), of(Rank::Risk), of(Rank::Cost));
    writeln!(out, "{} findings: {danger} danger, {risk} risk, {cost} cost", findings.len())
}

/// One record a line.
pub(super) fn json(findings: &[Finding], roots: &[Root], out: &mut dyn Write) -> io::Result<()> {
    for finding in findings {
        let about = finding.kind.about();
        let root = &roots[finding.root];
        let record = json!({
            "kind": finding.kind.name(),
            "rank": rank(about.rank).1,
            "register": root.regime.register(),
            "root": format!("{:#x}", root.address.bits()),
            "input": format!("{:#x}", finding.input),
            "end": format!("{:#x}", finding.input.wrapping_add(finding.bytes)),
            "count": finding.count,
            "what": finding.what,
            "other": finding.other_input().map(|input| format!("{input:#x}")),
            "risk": about.risk,
            "read": about.read,
        });
        writeln!(out, "{record}")?;
    }
    Ok(())
}

fn rank(rank: Rank) -> (Style, &'static str) {
    match rank {
        Rank::Danger => (AnsiColor::Red.on_default().bold(), "danger"),
        Rank::Risk => (AnsiColor::Yellow.on_default().bold(), "risk"),
        Rank::Cost => (AnsiColor::Cyan.on_default(), "cost"),
    }
}

/// Colour only where standard output is a terminal that wants it.
fn styled(style: Style) -> Style {
    match anstream::AutoStream::choice(&io::stdout()) {
        anstream::ColorChoice::Never => Style::new(),
        _ => style,
    }
}
