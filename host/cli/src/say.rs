//! What goes to standard error: one line each, coloured only on a terminal.

use anstyle::{AnsiColor, Style};

const DIM: Style = Style::new().dimmed();
const WARN: Style = AnsiColor::Yellow.on_default();
const FAIL: Style = AnsiColor::Red.on_default().bold();

/// Something that the user should know.
pub(crate) fn note(line: impl std::fmt::Display) {
    anstream::eprintln!("{DIM}vellum: {line}{DIM:#}");
}

/// Something that is wrong with what was read.
pub(crate) fn finding(line: impl std::fmt::Display) {
    anstream::eprintln!("{WARN}vellum: {line}{WARN:#}");
}

/// Why there is no result.
pub(crate) fn failure(line: impl std::fmt::Display) {
    anstream::eprintln!("{FAIL}vellum:{FAIL:#} {line}");
}
