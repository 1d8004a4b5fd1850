//! The committed list of mutants that are the same program, each with its reason. It is exact both ways: a mutant that
//! lives must be on it, and one that is on it must live.

use std::collections::HashSet;

use crate::mutants::{Mutant, key};
use crate::sites::Site;

/// The list.
pub(crate) const LIST: &str = include_str!("../equivalents.tsv");
/// Where it is.
pub(crate) const PATH: &str = "checks/logic/equivalents.tsv";
/// Of how many mutants one may be equivalent.
pub(crate) const SHARE: usize = 20;

/// One row.
pub(crate) struct Row {
    pub(crate) line: usize,
    key: [String; 4],
}

/// Reads a list. The error is a row that is not understood, with its line.
pub(crate) fn parse(text: &str) -> Result<Vec<Row>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(at, line)| row(at + 1, line)).collect()
}

fn row(line: usize, text: &str) -> Result<Row, String> {
    let columns: Vec<&str> = text.split('\t').collect();
    let &[file, function, before, after, reason] = columns.as_slice() else {
        let count = columns.len();
        return Err(format!("{PATH}:{line}: {count} columns, expected file, function, before, after, reason"));
    };
    if reason.trim().is_empty() {
        return Err(format!("{PATH}:{line}: no reason is given"));
    }
    Ok(Row { line, key: [file, function, before, after].map(str::to_owned) })
}

/// Holds the list against all mutants. The error is a row that is about none, or a list that is too long.
pub(crate) fn hold(rows: &[Row], mutants: &[Mutant], sites: &[Site]) -> Result<(), String> {
    let keys: HashSet<[String; 4]> = mutants.iter().map(|it| key(it, sites)).collect();
    let stale: Vec<String> =
        rows.iter().filter(|row| !keys.contains(&row.key)).map(|row| row.line.to_string()).collect();
    if !stale.is_empty() {
        return Err(format!("{PATH}:{}: no mutant is such; the sources may have changed", stale.join(", ")));
    }
    if rows.len() * SHARE > mutants.len() {
        return Err(format!("{PATH}: {} rows, more than one of {SHARE} mutants", rows.len()));
    }
    Ok(())
}

/// For each mutant the row that is about it.
pub(crate) fn find(rows: &[Row], mutants: &[Mutant], sites: &[Site]) -> Vec<Option<usize>> {
    let row = |mutant| {
        let key = key(mutant, sites);
        rows.iter().position(|row| row.key == key)
    };
    mutants.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{finder, mutants};

    #[test]
    fn rows_have_five_columns_and_a_reason() {
        assert_eq!(parse("# a comment\n\na.rs\tf\ta < b\ta <= b\twhy\n").map(|it| it[0].line), Ok(3));
        for (text, what) in [("a.rs\tf\ta\tb", "4 columns"), ("a.rs\tf\ta\tb\t ", "no reason")] {
            assert!(parse(text).is_err_and(|error| error.contains(what)), "{text}");
        }
        parse(LIST).map(|_| ()).expect("the committed list");
    }

    #[test]
    fn a_row_outlives_lines_that_move_and_no_others() {
        let rows = parse("a.rs\tf\tx - y #2\tx + y\twhy\n").expect("a good list");
        let found = |text: &str| {
            let sites = finder::find("a.rs", text).expect("Rust");
            let mutants = mutants::all(&sites, &vec![true; sites.len()]);
            find(&rows, &mutants, &sites)
        };
        assert_eq!(found("fn f() -> T { g(x - y, x - y) }"), [None, Some(0)]);
        assert_eq!(found("\n\nfn f() -> T { g(x - y,\nx - y) }"), [None, Some(0)]);
        assert_eq!(found("fn f() -> T { g(x - y) }"), [None]);
        let sites = finder::find("a.rs", "fn f() -> T { g(x - y) }").expect("Rust");
        let error = hold(&rows, &mutants::all(&sites, &[true]), &sites);
        assert!(error.is_err_and(|error| error.contains("no mutant is such")));
    }
}
