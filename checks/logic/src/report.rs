//! What is told at the end: survivors, and the tables by kind and by file.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use terminal::Table;

use crate::equivalents::{PATH, Row};
use crate::hunt::Verdict;
use crate::mutants::{Mutant, key};
use crate::sites::Site;

/// Mutants of one kind or file.
#[derive(Clone, Copy, Default)]
struct Count {
    killed: usize,
    by_time: usize,
    equivalent: usize,
    lives: usize,
}

/// A hunt that has ended.
pub(crate) struct Report<'r> {
    pub(crate) sites: &'r [Site],
    pub(crate) mutants: &'r [Mutant],
    pub(crate) verdicts: &'r [Verdict],
    /// The row of the list that is about each mutant.
    pub(crate) listed: &'r [Option<usize>],
    pub(crate) rows: &'r [Row],
}

impl Report<'_> {
    fn each(&self) -> impl Iterator<Item = (&Mutant, &Site, &Verdict, Option<usize>)> {
        let both = self.mutants.iter().zip(self.verdicts).zip(self.listed);
        both.map(|((mutant, verdict), row)| (mutant, &self.sites[mutant.site], verdict, *row))
    }

    /// Whether nothing is wrong: what lives is on the list, and what is on it lives.
    pub(crate) fn is_good(&self) -> bool {
        self.each().all(|(.., verdict, row)| row.is_some() == verdict.is_alive())
    }

    /// What is wrong, and the tables.
    pub(crate) fn tell(&self) -> String {
        let mut text = String::new();
        for (mutant, site, verdict, row) in self.each() {
            let change = format!("{} → {}", site.before, site.after[mutant.variant - 1]);
            let place = format!("{}:{}:{} in {}: {change}", site.file, site.line, site.column, site.function);
            match (verdict, row) {
                (Verdict::Lives | Verdict::NotRun, None) => {
                    let why = if let Verdict::NotRun = verdict { " (no test runs it)" } else { "" };
                    text +=
                        &format!("LIVES{why}: {place}\n    cargo xtask check logic-mutants --only {:?}\n", mutant.name);
                }
                (Verdict::Killed(killer) | Verdict::ByTime(killer), Some(row)) => {
                    let line = self.rows[row].line;
                    text += &format!("{PATH}:{line}: not equivalent, killed by {killer}: {place}\n");
                }
                (Verdict::ByTime(killer), None) => text += &format!("by time, {killer}: {place}\n"),
                _ => {}
            }
        }
        text + &self.table("kind", &|site| site.kind.into()) + &self.table("file", &|site| site.file.clone())
    }

    fn table(&self, name: &str, of: &dyn Fn(&Site) -> String) -> String {
        let mut counts: BTreeMap<String, Count> = BTreeMap::new();
        for (_, site, verdict, row) in self.each() {
            for name in [of(site), "~".into()] {
                let count = counts.entry(name).or_default();
                let place = match (verdict, row) {
                    (Verdict::Killed(_), _) => &mut count.killed,
                    (Verdict::ByTime(_), _) => &mut count.by_time,
                    (_, Some(_)) => &mut count.equivalent,
                    (_, None) => &mut count.lives,
                };
                *place += 1;
            }
        }
        let mut table = Table::new("").right(&[1, 2, 3, 4, 5]);
        table.row([name, "mutants", "killed", "by time", "equivalent", "lives"]);
        for (name, Count { killed, by_time, equivalent, lives }) in counts {
            let name = if name == "~" { "all".into() } else { name };
            let numbers = [killed + by_time + equivalent + lives, killed, by_time, equivalent, lives];
            table.row([name].into_iter().chain(numbers.map(|it| it.to_string())));
        }
        format!("{table}\n")
    }

    /// The same, a mutant a line.
    pub(crate) fn json(&self) -> String {
        let one = |(mutant, site, verdict, row): (&Mutant, &Site, &Verdict, Option<usize>)| {
            let [file, function, before, after] = key(mutant, self.sites);
            let (end, killer) = match verdict {
                Verdict::Killed(killer) => ("killed", Some(killer)),
                Verdict::ByTime(killer) => ("by time", Some(killer)),
                Verdict::Lives | Verdict::NotRun if row.is_some() => ("equivalent", None),
                Verdict::Lives => ("lives", None),
                Verdict::NotRun => ("not run", None),
            };
            let (name, kind, is_const) = (&mutant.name, site.kind, site.is_const);
            let it = json!({ "name": name, "kind": kind, "file": file, "line": site.line, "function": function,
                "before": before, "after": after, "is_const": is_const, "end": end, "killer": killer });
            format!("{it}\n")
        };
        self.each().map(one).collect()
    }
}

/// The keys of what an earlier report, written by `--json`, says was alive and on no list. The error names the file and line.
pub(crate) fn alive(path: &Path) -> Result<HashSet<[String; 4]>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let one = |(at, line): (usize, &str)| -> Result<Option<[String; 4]>, String> {
        let it: Value = serde_json::from_str(line).unwrap_or_default();
        let told = |name: &str| it[name].as_str().map(str::to_owned);
        let key = || Some([told("file")?, told("function")?, told("before")?, told("after")?]);
        match (it["end"].as_str(), key()) {
            (Some("lives" | "not run"), Some(key)) => Ok(Some(key)),
            (Some(_), Some(_)) => Ok(None),
            _ => Err(format!("{}:{}: no mutant, expected a line of --json", path.display(), at + 1)),
        }
    };
    text.lines().enumerate().filter_map(|it| one(it).transpose()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lived_in_an_earlier_report_is_found() {
        let path = std::env::temp_dir().join(format!("logic-report-{}", std::process::id()));
        let line = |name: &str, end: &str| {
            format!("{}\n", json!({ "file": "a.rs", "function": "f", "before": name, "after": "true", "end": end }))
        };
        let ends = ["killed", "by time", "equivalent", "lives", "not run"];
        fs::write(&path, ends.map(|end| line(end, end)).concat()).expect("a file");
        let names: HashSet<String> = alive(&path).expect("a report").into_iter().map(|[_, _, name, _]| name).collect();
        assert_eq!(names, ["lives", "not run"].map(str::to_owned).into());
        fs::write(&path, "LIVES: a.rs\n").expect("a file");
        assert!(alive(&path).is_err_and(|error| error.ends_with(":1: no mutant, expected a line of --json")));
        fs::remove_file(&path).expect("the file");
    }
}
