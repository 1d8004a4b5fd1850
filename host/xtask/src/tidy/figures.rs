//! Figures of crates and pages that may only fall: lines, circles, English. `figures.tsv` has how large each may be.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use super::finding::Finding;
use crate::outcome::Failure;

const RECORD: &str = "host/xtask/src/tidy/figures.tsv";
/// Lines; files and folders in circles; words like *what* in place of a noun, sentences over 25 words,
/// phrases that are never written, lines over 100 columns, comments that begin with "The same".
pub(crate) const NAMES: [&str; 8] = ["lines", "circles", "folders", "what", "long", "never", "wide", "same"];
/// The commits behind this one are held against the rule.
const BASE: &str = "d814e2b9";

/// The figures of each room, by their names.
#[derive(Clone, Default)]
pub(crate) struct Figures(BTreeMap<String, BTreeMap<String, usize>>);

impl Figures {
    /// A table: its first line has the figures' names, and each other line a room's name first.
    fn parse(text: &str) -> Self {
        let mut lines = text.lines().map(|line| line.split('\t'));
        let names: Vec<&str> = lines.next().into_iter().flatten().skip(1).collect();
        let row = |mut fields: std::str::Split<'_, char>| {
            let room = fields.next()?.to_string();
            let values = names.iter().zip(fields).map(|(name, value)| (name.to_string(), value.parse().unwrap_or(0)));
            Some((room, values.collect()))
        };
        Self(lines.filter_map(row).collect())
    }

    pub(crate) fn add(&mut self, room: &str, figure: &str, value: usize) {
        *self.0.entry(room.to_string()).or_default().entry(figure.to_string()).or_default() += value;
    }

    pub(crate) fn get(&self, room: &str, figure: &str) -> Option<usize> {
        self.0.get(room).map(|row| row.get(figure).copied().unwrap_or(0))
    }

    fn all(&self) -> impl Iterator<Item = (&str, &str, usize)> {
        self.0.iter().flat_map(|(room, row)| row.iter().map(move |(figure, value)| (&**room, &**figure, *value)))
    }

    /// The figures that are larger than in another table, and by how much. A room that this does not know is free.
    fn above<'f>(&'f self, other: &Self) -> Vec<(&'f str, &'f str, usize)> {
        let above = |(room, figure, value): (&'f str, &'f str, usize)| {
            Some((room, figure, value.checked_sub(other.get(room, figure)?).filter(|it| *it > 0)?))
        };
        self.all().filter_map(above).collect()
    }

    /// The record's text.
    fn table(&self) -> String {
        let row = |room: &str, fields: Vec<String>| format!("{room}\t{}\n", fields.join("\t"));
        let head = row("room", NAMES.iter().map(ToString::to_string).collect());
        let value = |values: &BTreeMap<String, usize>, name: &str| values.get(name).unwrap_or(&0).to_string();
        let rows = self.0.iter().map(|(room, values)| row(room, NAMES.iter().map(|it| value(values, it)).collect()));
        [head].into_iter().chain(rows).collect()
    }

    /// The table in columns, for people.
    pub(crate) fn aligned(&self) -> String {
        let line = |line: &str| line.split('\t').map(|it| format!("{it:<18}")).collect::<String>() + "\n";
        self.table().lines().map(line).collect()
    }
}

/// What the record has, and what is larger now.
pub(crate) fn over(root: &Path, now: &Figures) -> (Figures, Vec<Finding>) {
    let record = Figures::parse(&fs::read_to_string(root.join(RECORD)).unwrap_or_default());
    let is_new = |room: &&String| !record.0.contains_key(*room);
    let text = |room: &str, text: String| Finding { path: RECORD.into(), line: 1, text: format!("`{room}`: {text}") };
    let new =
        now.0.keys().filter(is_new).map(|it| text(it, "no row, expected one (`cargo xtask tidy` adds it)".into()));
    let above = now.above(&record).into_iter().map(|(room, figure, by)| {
        let most = record.get(room, figure).unwrap_or(0);
        text(room, format!("{} of `{figure}`, expected at most {most}", most + by))
    });
    let found = new.chain(above).collect();
    (record, found)
}

/// Writes the record anew: each figure as small as it is now, lines in hundreds.
pub(crate) fn lower(root: &Path, record: &Figures, now: &Figures) -> Result<(), Failure> {
    let mut lower = Figures::default();
    for (room, figure, value) in now.all() {
        let value = if figure == "lines" { value.next_multiple_of(100) } else { value };
        lower.add(room, figure, record.get(room, figure).unwrap_or(value).min(value));
    }
    let path = root.join(RECORD);
    fs::write(&path, lower.table()).map_err(|error| Failure::file(&path, &error))
}

/// How many commits raised a figure of the record and say why, and those that do not; `None` where git does not know.
pub(crate) fn raised(root: &Path) -> Option<(usize, Vec<Finding>)> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    git(&["merge-base", "--is-ancestor", BASE, "HEAD"])?;
    let (mut reasons, mut found) = (0, Vec::new());
    for commit in git(&["log", "--format=%h", &format!("{BASE}..HEAD"), "--", RECORD])?.lines() {
        let [before, after] =
            ["^", ""].map(|it| Figures::parse(&git(&["show", &format!("{commit}{it}:{RECORD}")]).unwrap_or_default()));
        let message = git(&["log", "-1", "--format=%B", commit])?;
        for expected in unsaid(&before, &after, &message, &mut reasons) {
            let text = format!("commit {commit} raises a figure, expected `{expected}, because …` in its message");
            found.push(Finding { path: RECORD.into(), line: 1, text });
        }
    }
    Some((reasons, found))
}

/// What a message lacks that should say why figures are raised.
fn unsaid(before: &Figures, after: &Figures, message: &str, reasons: &mut usize) -> Vec<String> {
    let mut expected: Vec<String> = Vec::new();
    for (room, figure, by) in after.above(before) {
        let name = if figure == "lines" { room.to_string() } else { format!("{room} {figure}") };
        expected.push(format!("budget: {name} +{by}"));
    }
    let all = expected.len();
    expected.retain(|it| !message.lines().any(|line| line.starts_with(&format!("{it}, because "))));
    *reasons += all - expected.len();
    expected
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "room\tlines\tcircles\tfolders\twhat\tlong\tnever\twide\tsame\na\t100\t0\t0\t7\t0\t0\t0\t0\n";

    #[test]
    fn figures_fall_or_say_why() {
        let before = Figures::parse(BEFORE);
        let after = Figures::parse("room\tlines\twhat\na\t300\t8\nb\t9\t9\n");
        let message = "a: more\n\nbudget: a +200, because it reads.\nbudget: a what +2, because of it\n";
        let mut reasons = 0;
        assert_eq!(unsaid(&before, &after, message, &mut reasons), ["budget: a what +1"]);
        assert_eq!((reasons, unsaid(&after, &before, "", &mut reasons).len()), (1, 0));
        assert_eq!(before.table(), BEFORE);
    }

    #[test]
    fn the_record_is_held_and_lowered() {
        let root = std::env::temp_dir().join(format!("vellum-figures-{}", std::process::id()));
        fs::create_dir_all(root.join(RECORD).parent().expect("a folder")).expect("a folder");
        fs::write(root.join(RECORD), BEFORE).expect("a file");
        let mut now = Figures::default();
        let all = [("a", "lines", 101), ("a", "what", 6), ("b", "lines", 1)];
        all.into_iter().for_each(|(room, it, value)| now.add(room, it, value));
        let (record, found) = over(&root, &now);
        assert!(found.len() == 2 && found[0].text.starts_with("`b`: no row"), "{found:?}");
        assert_eq!(found[1].text, "`a`: 101 of `lines`, expected at most 100");
        lower(&root, &record, &now).expect("a file");
        let text = fs::read_to_string(root.join(RECORD)).expect("a file");
        fs::remove_dir_all(&root).expect("removed");
        assert_eq!(text.lines().nth(1), Some("a\t100\t0\t0\t6\t0\t0\t0\t0"));
        assert_eq!(text.lines().nth(2), Some("b\t100\t0\t0\t0\t0\t0\t0\t0"));
    }
}
