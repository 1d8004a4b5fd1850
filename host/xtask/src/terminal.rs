//! Standard output as a person sees it: colours on a terminal, a reader that may go away, and commands to type.

use std::{
    env,
    ffi::OsStr,
    fmt,
    io::{self, IsTerminal, Write},
    process::Command,
};

/// A colour, or how a line stands out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Colour {
    Plain,
    Title,
    Dim,
    Green,
    Yellow,
    Red,
}

impl Colour {
    /// The SGR parameters (ECMA-48, 8.3.117).
    fn parameters(self) -> &'static str {
        match self {
            Colour::Plain => "",
            Colour::Title => "1;36",
            Colour::Dim => "2",
            Colour::Green => "32",
            Colour::Yellow => "33",
            Colour::Red => "1;31",
        }
    }
}

/// Text in a colour, if colours are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Painted<'t> {
    pub(crate) text: &'t str,
    pub(crate) colour: Colour,
    pub(crate) is_coloured: bool,
}

impl fmt::Display for Painted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_coloured && self.colour != Colour::Plain && !self.text.is_empty() {
            write!(f, "\x1b[{}m{}\x1b[0m", self.colour.parameters(), self.text)
        } else {
            f.write_str(self.text)
        }
    }
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
