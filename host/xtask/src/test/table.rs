//! README's table of what boots: what the boots of a run said, row by row, between two markers.

use std::fs;

use super::Outcome;
use crate::{boot::transcript::Transcript, cargo, outcome::Failure};

/// What stands before and after the table.
const START: &str = "<!-- table: made by `cargo xtask test --table` -->\n";
const END: &str = "<!-- end of table -->\n";

/// A place in the table: the row's name, and the number of the column.
pub(crate) type Place = (String, usize);

/// What the kernel says that it took, in a few words; `None` for a boot that did not come so far.
pub(crate) fn cell(transcript: &Transcript) -> Option<String> {
    let after = |start: &str| transcript.section("chosen").find_map(|line| line.strip_prefix(start));
    let (size, why) = after("page size: ")?.split_once(" (")?;
    if why.contains(" has no ") {
        return Some(format!("lacks it: {size} instead"));
    }
    let bits = after("virtual addresses: ")?.split_once(' ')?.0;
    let layout = after("descriptors: ")?.split_once(',').map_or("", |(layout, _)| layout);
    Some(if layout.is_empty() { format!("{bits} bits") } else { format!("{bits} bits, {layout}") })
}

/// The memory that the kernel found: what the least of it is.
pub(crate) fn memory(transcript: &Transcript) -> Option<String> {
    let line = transcript.lines().find(|line| line.starts_with("check every page of memory"))?;
    Some(line.split_once(" pages, ")?.1.split_once(' ')?.0.to_string())
}

/// The table, from what was in its places; `None` while a place is empty.
pub(crate) fn render(columns: &[&str], cells: &[(Place, Option<String>)]) -> Option<String> {
    let mut rows: Vec<(&str, Vec<Option<&str>>)> = Vec::new();
    for ((name, column), text) in cells {
        if !rows.iter().any(|row| row.0 == name) {
            rows.push((name, vec![None; columns.len()]));
        }
        let row = rows.iter_mut().find(|row| row.0 == name)?;
        *row.1.get_mut(*column)? = text.as_deref();
    }
    let mut text = format!("| | {} |\n|---{}|\n", columns.join(" | "), "|---".repeat(columns.len()));
    for (name, cells) in rows {
        let cells: Option<Vec<&str>> = cells.into_iter().collect();
        text.push_str(&format!("| {name} | {} |\n", cells?.join(" | ")));
    }
    Some(text)
}

/// Whether README has this table.
pub(crate) fn check(table: Option<&str>) -> Outcome {
    let Some(table) = table else { return Outcome::skipped("README table", "a boot of it failed or was skipped") };
    let readme = cargo::workspace().join("README.md");
    match fs::read_to_string(&readme) {
        Err(error) => Outcome::failed(Failure::file(&readme, &error).line),
        Ok(text) if parts(&text).is_some_and(|(_, old, _)| old == table) => Outcome::passed(""),
        Ok(_) => Outcome {
            repeat: Some("cargo xtask test --table".into()),
            ..Outcome::failed(format!("README.md has another table than these boots make:\n{table}"))
        },
    }
}

/// Writes the table into README.
pub(crate) fn write(table: Option<&str>) -> Outcome {
    let Some(table) = table else { return Outcome::failed("no table was made: a boot of it failed or was skipped") };
    let readme = cargo::workspace().join("README.md");
    let written = fs::read_to_string(&readme).and_then(|text| match parts(&text) {
        Some((before, _, after)) => fs::write(&readme, format!("{before}{table}{after}")),
        None => Err(std::io::Error::other(format!("there is no line {}", START.trim()))),
    });
    written.map_or_else(|error| Outcome::failed(Failure::file(&readme, &error).line), |()| Outcome::passed("written"))
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

    const CHOSEN: &str = "# chosen\npage size: 64K (x)\nvirtual addresses: 52 bits (x)\ndescriptors: LPA, 52-bit x\n";

    #[test]
    fn a_cell_tells_what_was_taken() {
        let told = |text: &str| cell(&Transcript::new(text.as_bytes()));
        assert_eq!(told(CHOSEN).as_deref(), Some("52 bits, LPA"));
        assert_eq!(told(&CHOSEN.replace("LPA, 52-bit x", "48-bit addresses (x)")).as_deref(), Some("52 bits"));
        assert_eq!(
            told(&CHOSEN.replace("(x)", "(the CPU has no 16K granule)")).as_deref(),
            Some("lacks it: 64K instead")
        );
        assert_eq!(told("panic: x\n"), None);
    }

    #[test]
    fn a_table_has_every_place_or_is_none() {
        let place = |row: &str, column, text: Option<&str>| ((row.to_string(), column), text.map(str::to_string));
        let mut cells = vec![place("b", 1, Some("4")), place("a", 0, Some("1")), place("b", 0, Some("3"))];
        assert_eq!(render(&["x", "y"], &cells), None);
        cells.push(place("a", 1, Some("2")));
        let expected = "| | x | y |\n|---|---|---|\n| b | 3 | 4 |\n| a | 1 | 2 |\n";
        assert_eq!(render(&["x", "y"], &cells).as_deref(), Some(expected));
        cells[1].1 = None;
        assert_eq!(render(&["x", "y"], &cells), None);
    }

    #[test]
    fn readme_has_a_place_for_it() {
        let text = fs::read_to_string(cargo::workspace().join("README.md")).expect("a README");
        assert!(parts(&text).is_some());
    }
}
