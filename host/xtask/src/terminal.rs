//! Standard output as a person sees it: colours on a terminal, a reader that may go away, and commands to type.

use std::{
    env,
    ffi::OsStr,
    fmt,
    io::{self, IsTerminal, Write},
    process::Command,
};

use anstyle::{AnsiColor, Style};

pub(crate) const PLAIN: Style = Style::new();
pub(crate) const TITLE: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(crate) const RED: Style = AnsiColor::Red.on_default().bold();

/// Text in a style, if colours are wanted.
pub(crate) fn painted(text: &str, style: Style, is_coloured: bool) -> String {
    if is_coloured && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

/// Colour is for a terminal whose owner has not declined it (no-color.org).
pub(crate) fn wants_colour() -> bool {
    io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints to standard output. A reader that has gone away (`| head`) is no error.
pub(crate) fn print(text: impl fmt::Display) {
    let _ = write!(io::stdout(), "{text}");
}

/// A command as a person would type it.
pub(crate) fn typed(command: &Command) -> String {
    let words: Vec<String> = std::iter::once(command.get_program()).chain(command.get_args()).map(quoted).collect();
    words.join(" ")
}

/// A word, in single quotes where a shell would take it apart.
pub(crate) fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=,./:+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_a_shell_would_split_are_quoted() {
        assert_eq!(quoted("-smp".as_ref()), "-smp");
        assert_eq!(quoted("a b".as_ref()), "'a b'");
        assert_eq!(quoted("it's".as_ref()), r"'it'\''s'");
        assert_eq!(quoted("".as_ref()), "''");
    }
}
