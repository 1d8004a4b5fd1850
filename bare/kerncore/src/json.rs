//! JSON that is written as it is told, a line at a time, into anything that takes text.
//!
//! By hand: writers of JSON either want a heap or a buffer of the line's length, and this is one comma and one quote.

use core::fmt::{self, Display, Formatter, Write};

/// An object that is being written.
pub struct Object<'o, 'f> {
    out: &'o mut Formatter<'f>,
    is_empty: bool,
}

/// An object with these fields: what it displays.
pub fn object(fields: impl Fn(&mut Object<'_, '_>) -> fmt::Result) -> impl Display {
    fmt::from_fn(move |out| {
        out.write_char('{')?;
        let mut object = Object { out, is_empty: true };
        fields(&mut object)?;
        object.out.write_char('}')
    })
}

/// Text between quotation marks.
pub fn text(text: impl Display) -> impl Display {
    fmt::from_fn(move |out| {
        out.write_char('"')?;
        write!(Escaped(out), "{text}")?;
        out.write_char('"')
    })
}

/// A list of what `items` gives.
pub fn list<T: Display, I: IntoIterator<Item = T>>(items: impl Fn() -> I) -> impl Display {
    fmt::from_fn(move |out| {
        out.write_char('[')?;
        for (number, item) in items().into_iter().enumerate() {
            write!(out, "{}{item}", if number > 0 { "," } else { "" })?;
        }
        out.write_char(']')
    })
}

impl Object<'_, '_> {
    /// A field whose value displays as JSON: a number, a truth, [`text`], [`list`] or [`object`].
    pub fn field(&mut self, name: &str, value: impl Display) -> fmt::Result {
        let comma = if core::mem::take(&mut self.is_empty) { "" } else { "," };
        write!(self.out, "{comma}\"{name}\":{value}")
    }

    /// A field of text.
    pub fn text(&mut self, name: &str, value: impl Display) -> fmt::Result {
        self.field(name, text(value))
    }
}

/// Writes what JSON has in text as it is, and the rest by its number (RFC 8259, 7).
struct Escaped<'o, 'f>(&'o mut Formatter<'f>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| match character {
            '"' | '\\' => write!(self.0, "\\{character}"),
            ..' ' => write!(self.0, "\\u{:04x}", u32::from(character)),
            _ => self.0.write_char(character),
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn an_object_has_its_fields_with_commas_between() {
        let numbers = [1, 2, 3];
        let line = object(|all| {
            all.text("name", format_args!("a \"b\" \\ {}", '\n'))?;
            all.field("truth", true)?;
            all.field("numbers", list(|| numbers.iter().map(|number| object(move |one| one.field("n", number)))))?;
            all.field("none", list(|| [0_u8; 0]))
        });
        let expected = "{\"name\":\"a \\\"b\\\" \\\\ \\u000a\",\"truth\":true,\"numbers\":[{\"n\":1},{\"n\":2},{\"n\":3}],\"none\":[]}";
        assert_eq!(line.to_string(), expected);
        assert_eq!(object(|_| Ok(())).to_string(), "{}");
    }
}
