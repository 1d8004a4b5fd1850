//! The recorded results: `bench/results/`, the numbers and the table made of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::measurement::Measurement;
use crate::{results, table};

const NUMBERS: &str = "instructions.tsv";
const TABLE: &str = "table.md";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results")
}

/// Writes the numbers, and the table made of them.
pub(crate) fn write(valgrind: &str, measured: &[Measurement]) -> Result<(), String> {
    let rustc = Command::new("rustc").arg("--version").current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let rustc = rustc.map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&output.stdout).into());
    let remarks = [
        "repeat: cargo xtask bench --record".to_string(),
        format!("host: {}, {}, {}", std::env::consts::ARCH, rustc.trim(), valgrind),
    ];
    save(NUMBERS, &results::to_text(&remarks, measured))?;
    write_table()
}

/// Writes the table that is made of the recorded numbers.
pub(crate) fn write_table() -> Result<(), String> {
    let (remarks, measured) = read()?;
    save(TABLE, &page(&remarks, &measured))
}

/// The recorded remarks and numbers.
pub(crate) fn read() -> Result<(Vec<String>, Vec<Measurement>), String> {
    let path = folder().join(NUMBERS);
    let told = |what: String| format!("{}: {what}", path.display());
    let text = fs::read_to_string(&path).map_err(|error| told(error.to_string()))?;
    results::parse(&text).map_err(|line| told(format!("line {line} is no result; record anew")))
}

fn save(name: &str, text: &str) -> Result<(), String> {
    let path = folder().join(name);
    let written = fs::create_dir_all(folder()).and_then(|()| fs::write(&path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// The page of tables.
fn page(remarks: &[String], measured: &[Measurement]) -> String {
    let head =
        "# The engine beside its peers\n\nMade of instructions.tsv by `cargo xtask bench --record`; do not edit.";
    format!("{head} Host instructions.\n\n{}\n\n{}", remarks.join("  \n"), table::render(measured))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::agree;

    #[test]
    fn the_table_is_made_of_the_numbers() {
        let read = |name| fs::read_to_string(folder().join(name)).expect("a recorded file");
        let (remarks, measured) = results::parse(&read(NUMBERS)).expect("numbers that make sense");
        assert!(page(&remarks, &measured) == read(TABLE), "table.md differs: cargo xtask bench --table");
        agree(&measured).expect("recorded contenders agree");
    }
}
