//! The rows of `--forget all`, as they come: on standard output, and in a file, from which a run of hours that was interrupted goes
//! on. Its columns stand between tabulators.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::select::Failure;

/// What stands where no rule found a site missing.
const NOT_FOUND: &str = "not found";

/// One site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Row {
    /// Functions may share a name, and never their place.
    pub(super) place: u64,
    pub(super) what: String,
    pub(super) name: String,
    /// How often the machine was shown it where nothing was forgotten.
    pub(super) count: u64,
    pub(super) rules: Vec<String>,
}

impl Row {
    fn verdict(&self) -> String {
        if self.rules.is_empty() { NOT_FOUND.to_owned() } else { self.rules.join(", ") }
    }

    /// A line that was cut off is none.
    fn parse(line: &str) -> Option<Self> {
        let mut columns = line.split('\t');
        let place = image::number(columns.next()?).ok()?;
        let (what, name, count) = (columns.next()?.to_owned(), columns.next()?.to_owned(), columns.next()?);
        let verdict = columns.next()?;
        let rules = verdict.split(", ").filter(|it| *it != NOT_FOUND).map(str::to_owned).collect();
        Some(Self { place, what, name, count: count.parse().ok()?, rules })
    }
}

/// All rows so far.
#[derive(Default, Debug)]
pub(crate) struct Table {
    rows: Vec<Row>,
    file: Option<(PathBuf, File)>,
}

impl Table {
    /// The rows that are in `path` already; where no such file is, none.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure(format!("--table {}: {error}", path.display()));
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let rows = text.lines().filter_map(Row::parse).collect();
        Ok(Self { rows, file: Some((path.to_owned(), file)) })
    }

    pub(super) fn has(&self, place: u64) -> bool {
        self.rows.iter().any(|row| row.place == place)
    }

    pub(super) fn add(&mut self, row: Row) -> Result<(), Failure> {
        let Row { place, what, name, count, .. } = &row;
        writeln!(io::stdout(), "{what:14} {name:50} {count:>8}  {}", row.verdict())?;
        if let Some((path, file)) = &mut self.file {
            let line = format!("{place:#x}\t{what}\t{name}\t{count}\t{}\n", row.verdict());
            let written = file.write_all(line.as_bytes());
            written.map_err(|error| Failure(format!("--table {}: {error}", path.display())))?;
        }
        self.rows.push(row);
        Ok(())
    }

    /// How many sites are found, and how many there are.
    pub(super) fn count(&self) -> (usize, usize) {
        (self.rows.iter().filter(|row| !row.rules.is_empty()).count(), self.rows.len())
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process};

    use super::*;

    #[test]
    fn a_table_goes_on_where_it_was_interrupted() {
        let path = env::temp_dir().join(format!("vellum-table-{}", process::id()));
        let row = |place: u64, name: &str, rules: &[&str]| Row {
            place,
            what: "dsb ish".to_owned(),
            name: name.to_owned(),
            count: 7,
            rules: rules.iter().map(|it| (*it).to_owned()).collect(),
        };
        let (one, two) = (row(0x1008, "flush+0x8", &["V1", "V3"]), row(0x2008, "flush+0x8", &[]));
        let mut table = Table::open(&path).expect("a new file");
        table.add(one.clone()).expect("a row");
        table.add(two.clone()).expect("a row");
        let again = Table::open(&path).expect("the same file");
        fs::write(&path, "0x3000\tdsb ish\tcut+0x0\t7").expect("a file");
        let cut = Table::open(&path).expect("a file");
        fs::remove_file(&path).expect("a file");
        assert_eq!((again.rows.as_slice(), again.count()), (&[one, two][..], (1, 2)));
        assert!(again.has(0x2008) && !again.has(0x1000));
        assert!(!cut.has(0x3000));
    }
}
