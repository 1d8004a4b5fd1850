//! The words of a command line, with quotes as Linux has them: white space between quotes belongs to the word, and a pair
//! of quotes round the whole word or round its value is taken off.

/// A word: `name` or `name=value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// What stands before the first `=`.
    pub name: &'a str,
    /// What stands after it.
    pub value: Option<&'a str>,
}

/// The words from the front; a lone `--` ends them, as what follows is not the kernel's.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    rest: &'a str,
    unclosed: Option<&'a str>,
}

impl<'a> Words<'a> {
    /// All of `line`.
    pub const fn new(line: &'a str) -> Self {
        Self { rest: line, unclosed: None }
    }

    /// The last word given out, if a quote in it runs to the end of the line.
    pub fn unclosed_quote(&self) -> Option<&'a str> {
        self.unclosed
    }

    /// Cuts the next word off, quotes and all.
    fn cut(&mut self) -> &'a str {
        let line = self.rest.trim_ascii_start();
        let mut is_quoted = false;
        let end = line.find(|symbol: char| {
            is_quoted ^= symbol == '"';
            symbol.is_ascii_whitespace() && !is_quoted
        });
        let (word, rest) = line.split_at(end.unwrap_or(line.len()));
        self.rest = rest;
        if is_quoted {
            self.unclosed = Some(word);
        }
        word
    }
}

/// Without a quote in front and one at the end that closes it.
fn unquote(text: &str) -> &str {
    match text.strip_prefix('"') {
        Some(inner) => inner.strip_suffix('"').unwrap_or(inner),
        None => text,
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        let word = self.cut();
        if word.is_empty() || word == "--" {
            self.rest = "";
            return None;
        }
        Some(match unquote(word).split_once('=') {
            Some((name, value)) => Word { name, value: Some(unquote(value)) },
            None => Word { name: unquote(word), value: None },
        })
    }
}
