//! Records of casemate's logs: `(NAME (id N) (tid N) (FIELD VALUE)… (src "FILE:LINE"))`, as S-expressions.
//!
//! A field may stand without its name and brackets. A line that begins with `!` is what casemate itself said.

use machine::trace::{Malformed, short};

/// A field: its name, unless it stands there bare, and its value.
#[derive(Clone, Copy, Debug)]
struct Field<'t> {
    name: Option<&'t str>,
    value: &'t str,
}

/// One record, and how far its fields have been read.
#[derive(Clone, Debug)]
pub(super) struct Record<'t> {
    /// Number of the line it begins on, from 1.
    pub(super) line: usize,
    /// What stands between its brackets, without its source.
    pub(super) quote: &'t str,
    /// Its `src`.
    pub(super) source: Option<&'t str>,
    /// What kind of record.
    pub(super) name: &'t str,
    fields: Vec<Field<'t>>,
    next: usize,
}

impl<'t> Record<'t> {
    /// The next field, which must be called `name` or stand there bare.
    pub(super) fn word(&mut self, name: &str) -> Result<&'t str, String> {
        let field = self.fields.get(self.next).copied();
        let expected = |found: String| format!("{found} in `{}`, expected ({name} …)", self.name);
        let value = match field {
            None => return Err(expected("nothing more".to_string())),
            Some(Field { name: Some(other), value }) if other != name => {
                return Err(expected(format!("`({other} {value})`")));
            }
            Some(field) => field.value,
        };
        self.next += 1;
        Ok(value)
    }

    /// The next field as a number: hexadecimal, with or without `0x`.
    pub(super) fn hexadecimal(&mut self, name: &str) -> Result<u64, String> {
        let word = self.word(name)?;
        let digits = word.strip_prefix("0x").unwrap_or(word);
        u64::from_str_radix(digits, 16)
            .map_err(|_| format!("`({name} {word})` in `{}`, expected a hexadecimal number of 64 bits", self.name))
    }

    /// The next field as a decimal number.
    pub(super) fn decimal(&mut self, name: &str) -> Result<u64, String> {
        let word = self.word(name)?;
        word.parse().map_err(|_| format!("`({name} {word})` in `{}`, expected a decimal number", self.name))
    }

    /// True when every field has been read.
    pub(super) fn is_read(&self) -> bool {
        self.next == self.fields.len()
    }

    /// That every field has been read.
    pub(super) fn end(&self) -> Result<(), String> {
        match self.fields.get(self.next) {
            None => Ok(()),
            Some(field) => Err(format!("`{}` in `{}`, expected nothing more", field.value, self.name)),
        }
    }
}

/// What a log holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Log<'t> {
    /// Its records, in order.
    pub(super) records: Vec<Record<'t>>,
    /// What casemate said at its end.
    pub(super) said: Option<&'t str>,
}

impl<'t> Log<'t> {
    /// Reads a log.
    ///
    /// # Errors
    /// The first line that holds neither a record nor a word of casemate's.
    pub(super) fn read(text: &'t str) -> Result<Self, Malformed> {
        let mut reader = Reader { text, at: 0, line: 1 };
        let mut log = Self::default();
        while let Some(first) = reader.peek() {
            let line = reader.line;
            let result = match first {
                b'!' => {
                    log.said = Some(reader.rest_of_line().trim_start_matches('!').trim());
                    Ok(())
                }
                _ if log.records.last().is_some_and(|it| it.line == line) => {
                    Err(String::from("a second record on the line, expected each to begin on its own"))
                }
                _ => reader.record().map(|record| log.records.push(record)),
            };
            result.map_err(|what| Malformed::new(reader.line, &what))?;
        }
        Ok(log)
    }
}

/// One word of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token<'t> {
    Open,
    Close,
    Word(&'t str),
    Quoted(&'t str),
}

/// A place in the text.
struct Reader<'t> {
    text: &'t str,
    at: usize,
    line: usize,
}

impl<'t> Reader<'t> {
    /// The next byte that is no blank.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            if !byte.is_ascii_whitespace() {
                return Some(byte);
            }
            self.line += usize::from(byte == b'\n');
            self.at += 1;
        }
    }

    fn rest_of_line(&mut self) -> &'t str {
        let rest = self.text[self.at..].lines().next().unwrap_or_default();
        self.at += rest.len();
        rest
    }

    fn token(&mut self) -> Result<Token<'t>, String> {
        let first = self.peek().ok_or_else(|| String::from("the end of the log inside a record, expected `)`"))?;
        let rest = &self.text[self.at..];
        let (token, length) = match first {
            b'(' => (Token::Open, 1),
            b')' => (Token::Close, 1),
            b'"' => {
                let inner = rest[1..].split('\n').next().unwrap_or_default();
                let end = inner.find('"').ok_or_else(|| String::from("a string without its end, expected `\"`"))?;
                (Token::Quoted(&inner[..end]), end + 2)
            }
            _ => {
                let is_end = |it: char| it.is_ascii_whitespace() || matches!(it, '(' | ')' | '"');
                let end = rest.find(is_end).unwrap_or(rest.len());
                (Token::Word(&rest[..end]), end)
            }
        };
        self.at += length;
        Ok(token)
    }

    fn record(&mut self) -> Result<Record<'t>, String> {
        let line = self.line;
        let found = self.text[self.at..].lines().next().unwrap_or_default();
        if self.token()? != Token::Open {
            return Err(format!("`{}`, expected a record `(NAME (id …) (tid …) …)`", shortened(found)));
        }
        let begin = self.at;
        let Token::Word(name) = self.token()? else {
            return Err(format!("`{}`, expected the name of a record after `(`", shortened(found)));
        };
        short(&[name])?;
        let mut record = Record { line, quote: "", source: None, name, fields: Vec::new(), next: 0 };
        let mut end = self.at;
        loop {
            match self.token()? {
                Token::Close => break,
                Token::Open => self.field(&mut record)?,
                Token::Word(value) => {
                    short(&[value])?;
                    record.fields.push(Field { name: None, value });
                }
                Token::Quoted(source) => record.source = Some(source),
            }
            // The source stands last: what is quoted ends before it.
            end = if record.source.is_none() { self.at } else { end };
        }
        record.quote = &self.text[begin..end];
        Ok(record)
    }

    /// `NAME VALUE)`, after its `(`.
    fn field(&mut self, record: &mut Record<'t>) -> Result<(), String> {
        let words = (self.token()?, self.token()?, self.token()?);
        match words {
            (Token::Word("src"), Token::Quoted(source) | Token::Word(source), Token::Close) => {
                record.source = Some(source);
            }
            (Token::Word(name), Token::Word(value), Token::Close) => {
                short(&[name, value])?;
                record.fields.push(Field { name: Some(name), value });
            }
            _ => return Err(format!("a field of `{}` that is no (NAME VALUE), expected one", record.name)),
        }
        Ok(())
    }
}

/// What a message can hold of a line that may be long.
fn shortened(line: &str) -> String {
    line.chars().take(60).collect()
}
