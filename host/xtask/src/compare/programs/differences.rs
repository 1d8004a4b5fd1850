//! Which lines of a program differ between two kernels.

use std::fmt;

use super::told::{End, Told};

/// A line, or an end, that one kernel has and the other has not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Difference {
    pub(super) is_ours: bool,
    pub(super) line: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.is_ours { '+' } else { '-' }, self.line)
    }
}

/// Lines of each side that are aligned; what is beyond must be equal line for line.
const MOST_ALIGNED: usize = 2000;

/// All that differs, in the order of the lines; the ends come last.
pub(super) fn of(theirs: &Told, ours: &Told) -> Vec<Difference> {
    let mut found = lines(&theirs.lines, &ours.lines);
    if theirs.end != ours.end {
        found.push(Difference { is_ours: false, line: describe(&theirs.end) });
        found.push(Difference { is_ours: true, line: describe(&ours.end) });
    }
    found
}

fn describe(end: &End) -> String {
    match end {
        End::With(status) => format!("(ended with status {status})"),
        End::Never(last) if last.is_empty() => "(did not end, and nothing ended it)".into(),
        End::Never(last) => format!("(did not end, and nothing ended it; the kernel's last line: {last})"),
    }
}

fn lines(theirs: &[String], ours: &[String]) -> Vec<Difference> {
    let is_same = |(one, other): &(&String, &String)| one == other;
    let head = theirs.iter().zip(ours).take_while(is_same).count();
    let (theirs, ours) = (&theirs[head..], &ours[head..]);
    let tail = theirs.iter().rev().zip(ours.iter().rev()).take_while(is_same).count();
    let (theirs, ours) = (&theirs[..theirs.len() - tail], &ours[..ours.len() - tail]);
    let difference = |is_ours: bool, line: &String| Difference { is_ours, line: line.clone() };
    if theirs.len().max(ours.len()) > MOST_ALIGNED {
        let all = theirs.iter().map(|line| difference(false, line));
        return all.chain(ours.iter().map(|line| difference(true, line))).collect();
    }
    let common = common(theirs, ours);
    let (mut left, mut right) = (0, 0);
    let mut found = Vec::new();
    while left < theirs.len() || right < ours.len() {
        if left < theirs.len() && right < ours.len() && theirs[left] == ours[right] {
            (left, right) = (left + 1, right + 1);
        } else if right == ours.len() || left < theirs.len() && common[left + 1][right] >= common[left][right + 1] {
            found.push(difference(false, &theirs[left]));
            left += 1;
        } else {
            found.push(difference(true, &ours[right]));
            right += 1;
        }
    }
    found
}

/// `common[i][j]`: the length of the longest sequence that the lines from `i` and from `j` on have in common.
fn common(theirs: &[String], ours: &[String]) -> Vec<Vec<u32>> {
    let mut table = vec![vec![0; ours.len() + 1]; theirs.len() + 1];
    for left in (0..theirs.len()).rev() {
        for right in (0..ours.len()).rev() {
            table[left][right] = match theirs[left] == ours[right] {
                true => table[left + 1][right + 1] + 1,
                false => table[left + 1][right].max(table[left][right + 1]),
            };
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &str, status: i32) -> Told {
        Told { lines: lines.split_whitespace().map(String::from).collect(), end: End::With(status) }
    }

    fn shown(theirs: &Told, ours: &Told) -> Vec<String> {
        of(theirs, ours).iter().map(Difference::to_string).collect()
    }

    #[test]
    fn lines_and_ends() {
        assert_eq!(shown(&told("a b c", 0), &told("a b c", 0)), [""; 0]);
        assert_eq!(
            shown(&told("a b c d", 0), &told("a x c", 1)),
            ["- b", "+ x", "- d", "- (ended with status 0)", "+ (ended with status 1)"]
        );
        let never = Told { lines: vec![], end: End::Never("panic".into()) };
        assert_eq!(
            shown(&told("", 0), &never)[1],
            "+ (did not end, and nothing ended it; the kernel's last line: panic)"
        );
    }

    #[test]
    fn many_lines_that_differ_are_told_one_by_one() {
        let many = |prefix: char| Told {
            lines: (0..=MOST_ALIGNED).map(|number| format!("{prefix}{number}")).collect(),
            end: End::With(0),
        };
        assert_eq!(of(&many('a'), &many('b')).len(), 2 * (MOST_ALIGNED + 1));
    }
}
