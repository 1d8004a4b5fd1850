//! README's table of what boots: what the boots of a run said, row by row, between two markers.

use fs_err as fs;

use super::outcome::Outcome;
use crate::{boot::transcript::Transcript, cargo, outcome::Failure};

/// What stands before and after the table.
const START: &str = "<!-- table: made by `cargo xtask test --table` -->\n";
const END: &str = "<!-- end of table -->\n";

/// A place in the table: the row's name, and the number of the column.
pub(crate) type Place = (String, usize);

/// What the kernel says that it took, in a few words; `None` for a boot that did not come so far.
pub(crate) fn cell(transcript: &Transcript) -> Option<String> {
    let chosen = transcript.data("chosen");
    let (size, bits) = (chosen["page_size"].as_str()?, chosen["virtual_bits"].as_u64()?);
    Some(match chosen["descriptors"].as_str()? {
        _ if !chosen["page_size_lacking"].is_null() => format!("lacks it: {size} instead"),
        "48 bits" => format!("{bits} bits"),
        wide => format!("{bits} bits, {wide}"),
    })
}

/// The memory that the kernel found: what the least of it is.
pub(crate) fn memory(transcript: &Transcript) -> Option<String> {
    let line = transcript.lines().find(|line| line.starts_with("check every page of memory"))?;
    Some(line.split_once(" pages, ")?.1.split_once(' ')?.0.to_string())
}

/// The table, from what was in its places: its rows that have a place empty are told by their names alone.
pub(crate) fn render(columns: &[&str], cells: &[(Place, Option<String>)]) -> Table {
    let mut rows: Vec<(&str, Vec<Option<&str>>)> = Vec::new();
    for ((name, column), text) in cells {
        if !rows.iter().any(|row| row.0 == name) {
            rows.push((name, vec![None; columns.len()]));
        }
        let row = rows.iter_mut().find(|row| row.0 == name).and_then(|row| row.1.get_mut(*column));
        row.into_iter().for_each(|place| *place = text.as_deref());
    }
    let mut table = Table {
        head: format!("| | {} |\n|---{}|\n", columns.join(" | "), "|---".repeat(columns.len())),
        rows: Vec::new(),
    };
    for (name, cells) in rows {
        let cells: Option<Vec<&str>> = cells.into_iter().collect();
        let row = cells.map(|cells| format!("| {name} | {} |\n", cells.join(" | "))).ok_or(format!("| {name} |"));
        table.rows.push(row);
    }
    table
}

/// The table that a run made.
pub(crate) struct Table {
    head: String,
    /// Each as a line; or, of one whose boots did not all pass, how its line begins.
    rows: Vec<Result<String, String>>,
}

impl Table {
    /// The table, with the rows that were not made as they stand in `old`; `None` if one does not.
    fn over(&self, old: &str) -> Option<String> {
        let row = |row: &Result<String, String>| match row {
            Ok(line) => Some(line.clone()),
            Err(start) => old.lines().find(|line| line.starts_with(start)).map(|line| format!("{line}\n")),
        };
        self.rows.iter().map(row).collect::<Option<String>>().map(|rows| self.head.clone() + &rows)
    }

    fn kept(&self) -> usize {
        self.rows.iter().filter(|row| row.is_err()).count()
    }
}

/// Whether README has this table. A row whose boots were skipped is not held.
pub(crate) fn check(table: &Table) -> Result<Outcome, Failure> {
    let kept = table.kept();
    if kept == table.rows.len() {
        return Ok(Outcome::skipped("README table", "no row of it has all its boots"));
    }
    let text = fs::read_to_string(cargo::workspace().join("README.md"))?;
    let old = parts(&text).map_or("", |(_, old, _)| old);
    Ok(match table.over(old) {
        Some(new) if new == old && kept == 0 => Outcome::passed(""),
        Some(new) if new == old => Outcome::passed(format!("{kept} rows were not held")),
        new => Outcome {
            repeat: Some("cargo xtask test --table".into()),
            ..Outcome::failed(format!(
                "README.md has another table than these boots make:\n{}",
                new.unwrap_or_default()
            ))
        },
    })
}

/// Writes the table into README. A row whose boots were skipped stays as it is.
pub(crate) fn write(table: &Table) -> Result<Outcome, Failure> {
    let readme = cargo::workspace().join("README.md");
    let text = fs::read_to_string(&readme)?;
    let parted = parts(&text).and_then(|(before, old, after)| Some((before, table.over(old)?, after)));
    let Some((before, table_itself, after)) = parted else {
        return Ok(Outcome::failed("a boot of a row that is not there yet failed or was skipped"));
    };
    fs::write(&readme, format!("{before}{table_itself}{after}"))?;
    Ok(Outcome::passed(format!("written, {} rows as they were", table.kept())))
}

/// What stands before the table (its marker too), the table, and the rest.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find(START)? + START.len();
    let end = start + text[start..].find(END)?;
    Some((&text[..start], &text[start..end], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHOSEN: &str =
        "# chosen\n{\"section\":\"chosen\",\"page_size\":\"64K\",\"virtual_bits\":52,\"descriptors\":\"LPA\"}\n";

    #[test]
    fn a_cell_tells_what_was_taken() {
        let told = |text: &str| cell(&Transcript::new(text.as_bytes()));
        assert_eq!(told(CHOSEN).as_deref(), Some("52 bits, LPA"));
        assert_eq!(told(&CHOSEN.replace("LPA", "48 bits")).as_deref(), Some("52 bits"));
        assert_eq!(
            told(&CHOSEN.replace("64K\"", "64K\",\"page_size_lacking\":\"16K\"")).as_deref(),
            Some("lacks it: 64K instead")
        );
        assert_eq!(told("panic: x\n"), None);
    }

    #[test]
    fn a_row_has_every_place_or_stays_as_it_was() {
        let place = |row: &str, column, text: Option<&str>| ((row.to_string(), column), text.map(str::to_string));
        let mut cells = vec![place("b", 1, Some("4")), place("a", 0, Some("1")), place("b", 0, Some("3"))];
        let head = "| | x | y |\n|---|---|---|\n";
        assert_eq!(render(&["x", "y"], &cells).over(""), None);
        let kept = render(&["x", "y"], &cells).over("| a | 7 | 8 |\n| b | 9 | 9 |\n");
        assert_eq!(kept, Some(format!("{head}| b | 3 | 4 |\n| a | 7 | 8 |\n")));
        cells.push(place("a", 1, Some("2")));
        let made = render(&["x", "y"], &cells);
        assert_eq!((made.kept(), made.over("")), (0, Some(format!("{head}| b | 3 | 4 |\n| a | 1 | 2 |\n"))));
        cells[1].1 = None;
        assert_eq!(render(&["x", "y"], &cells).kept(), 1);
    }

    #[test]
    fn readme_has_a_place_for_it() {
        let text = fs::read_to_string(cargo::workspace().join("README.md")).expect("a README");
        assert!(parts(&text).is_some());
    }
}
