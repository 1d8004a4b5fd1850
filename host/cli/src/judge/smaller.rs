//! A trace that breaks the same rule with fewer lines: whatever can go without the finding going, goes, large parts first.

use machine::finding::Rule;
use machine::trace::{Judge, Trace};

/// What must still be found: the rule, and the line where it is broken, without its comment.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Kept<'t> {
    rule: Rule,
    line: &'t str,
}

/// Lines of the head stay: what the CPUs are is part of what is judged.
const HEAD: [&str; 2] = ["vellum trace", "cpu "];

/// The lines that are left of `text`, if a rule is broken in it; of the strict ones too where that `is_strict`. `progress` hears how many
/// there are, again and again.
pub(super) fn smaller<'t>(text: &'t str, is_strict: bool, progress: &mut dyn FnMut(usize)) -> Option<Vec<&'t str>> {
    let lines: Vec<&str> = text.lines().collect();
    let (kept, last) = first_finding(&lines, is_strict)?;
    // What comes after the finding is no part of its story.
    let mut lines = lines[..last].to_vec();
    let mut part = lines.len().div_ceil(2);
    loop {
        let before = lines.len();
        let mut start = 0;
        while start < lines.len() {
            let end = (start + part).min(lines.len());
            let stays = |line: &&str| HEAD.iter().any(|head| line.starts_with(head));
            let heads = lines[start..end].iter().filter(|line| stays(line)).copied();
            let fewer: Vec<&str> =
                lines[..start].iter().copied().chain(heads).chain(lines[end..].iter().copied()).collect();
            match first_finding(&fewer, is_strict) {
                Some((found, last)) if found == kept && fewer.len() < lines.len() => lines = fewer[..last].to_vec(),
                _ => start = end,
            }
            progress(lines.len());
        }
        // One by one as long as that helps: a line may be needed by one that goes later.
        match part {
            1 if lines.len() == before => return Some(lines),
            _ => part = part.div_ceil(2).max(1),
        }
    }
}

/// The first finding, and how many lines lead up to it. Nothing for what is no trace.
fn first_finding<'t>(lines: &[&'t str], is_strict: bool) -> Option<(Kept<'t>, usize)> {
    let text = lines.join("\n") + "\n";
    let trace = Trace::read(&text).ok()?;
    let mut judge = Judge::new(&trace, false);
    if is_strict {
        judge.be_strict();
    }
    while judge.step().ok()? {
        if let Some(finding) = judge.findings().first() {
            let number = judge.line_of(finding.event)?;
            let line = lines[number - 1].split('#').next().unwrap_or_default().trim();
            return Some((Kept { rule: finding.rule, line }, number));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_finding_does_not_need_goes() {
        let text = include_str!("../../../../docs/trace/unmap-no-tlbi.trace");
        let noise = "0 store 0x90000000 0x1\n0 dsb ish\n0 isb\n".repeat(50);
        let (head, rest) = text.split_once("\n0 ").expect("events");
        let noisy = format!("{head}\n{noise}0 {rest}0 store 0x90000000 0x2\n");
        let least = smaller(&noisy, false, &mut |_| {}).expect("a finding");
        assert!(!least.contains(&"0 store 0x90000000 0x1") && least.len() < text.lines().count(), "{least:#?}");
        let found = |lines: &[&str]| first_finding(lines, false).map(|(kept, _)| kept.rule);
        assert_eq!(found(&least), found(&noisy.lines().collect::<Vec<_>>()));
        // No line is left that could go.
        for at in (0..least.len()).filter(|at| !HEAD.iter().any(|head| least[*at].starts_with(head))) {
            let fewer: Vec<&str> = least.iter().enumerate().filter(|it| it.0 != at).map(|it| *it.1).collect();
            assert_eq!(found(&fewer), None, "{}", least[at]);
        }
    }

    #[test]
    fn what_only_the_strict_find_is_kept_for_them() {
        const FREED: &str = "0 free frame 0x80001000 0x1000";
        let text = format!("{}{FREED}\n", include_str!("../../../../docs/trace/break-before-make.trace"));
        assert_eq!(smaller(&text, false, &mut |_| {}), None);
        let least = smaller(&text, true, &mut |_| {}).expect("the page is mapped still");
        assert!(least.last() == Some(&FREED) && least.len() < text.lines().count(), "{least:#?}");
    }

    #[test]
    fn a_trace_without_a_finding_has_no_smaller_one() {
        assert_eq!(smaller(include_str!("../../../../docs/trace/unmap.trace"), false, &mut |_| {}), None);
        assert_eq!(smaller("nonsense\n", false, &mut |_| {}), None);
    }
}
