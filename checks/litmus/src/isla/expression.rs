//! Expressions of the TOML tests: numbers, names, and functions such as `pte3(x, page_table_base)`.

use crate::error::{Wrong, refused};
use crate::words::number;

/// An expression, before names have values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Expression {
    /// With its bits, where it is written with them.
    Number(u64, Option<u32>),
    Name(String),
    /// `L0:`.
    Label(String),
    Call {
        name: String,
        arguments: Vec<(Option<String>, Expression)>,
    },
    /// `x[11..0]`, also written with a colon.
    Slice(Box<Self>, u32, u32),
    /// `a == b`; `true` for `!=`.
    Equal(Box<Self>, Box<Self>, bool),
    /// `a && b`.
    Both(Box<Self>, Box<Self>),
}

/// Reads pieces of text from the left.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a str);

impl<'a> Reader<'a> {
    pub(super) fn skip_space(&mut self) {
        self.0 = self.0.trim_start();
    }

    pub(super) fn take(&mut self, what: &str) -> bool {
        self.skip_space();
        let rest = self.0.strip_prefix(what);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// A word of letters, digits and underscores, maybe empty.
    pub(super) fn word(&mut self) -> &'a str {
        self.skip_space();
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let end = self.0.find(|letter| !is_part(letter)).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    /// A comparison, or several joined by `&&`: what an assertion about addresses is.
    pub(super) fn formula(&mut self) -> Result<Expression, Wrong> {
        let left = self.comparison()?;
        if self.take("&&") { Ok(Expression::Both(Box::new(left), Box::new(self.formula()?))) } else { Ok(left) }
    }

    fn comparison(&mut self) -> Result<Expression, Wrong> {
        if self.take("(") {
            let inner = self.formula()?;
            return if self.take(")") { Ok(inner) } else { Err("a `)` is missing".into()) };
        }
        let left = self.expression()?;
        let is_denied = self.take("!=");
        if !is_denied && !self.take("==") {
            return Err(refused("assert", format!("expected `==` or `!=` at `{}`", self.line())));
        }
        Ok(Expression::Equal(Box::new(left), Box::new(self.expression()?), is_denied))
    }

    /// The rest of the line, for a message.
    pub(super) fn line(&self) -> &'a str {
        self.0.lines().next().unwrap_or_default()
    }

    /// An expression, and the bits of it that are asked for.
    pub(super) fn expression(&mut self) -> Result<Expression, Wrong> {
        let whole = self.atom()?;
        match self.slice()? {
            Some((high, low)) => Ok(Expression::Slice(Box::new(whole), high, low)),
            None => Ok(whole),
        }
    }

    /// `[11..0]` or `[11:0]`.
    pub(super) fn slice(&mut self) -> Result<Option<(u32, u32)>, Wrong> {
        if !self.take("[") {
            return Ok(None);
        }
        let high = self.word().parse::<u32>().ok();
        let low = match self.take("..") || self.take(":") {
            true => self.word().parse::<u32>().ok(),
            false => high,
        };
        match (high, low, self.take("]")) {
            (Some(high), Some(low), true) if low <= high && high < 64 => Ok(Some((high, low))),
            _ => Err(format!("a slice is not understood at `{}`", self.line()).into()),
        }
    }

    fn atom(&mut self) -> Result<Expression, Wrong> {
        let start = self.0.trim();
        if self.take("-") {
            let Expression::Number(number, bits) = self.atom()? else {
                return Err("expected a number after `-`".into());
            };
            return Ok(Expression::Number(number.wrapping_neg(), bits));
        }
        let word = self.word();
        if word.is_empty() {
            return Err(format!("expected an expression at `{start}`").into());
        }
        if word.starts_with(|letter: char| letter.is_ascii_digit()) {
            let bits = word.strip_prefix("0x").map(|digits| digits.len() as u32 * 4);
            let bits = bits.or(word.strip_prefix("0b").map(|digits| digits.len() as u32));
            let number = number(word).ok_or_else(|| format!("`{word}` is no number"))?;
            return Ok(Expression::Number(number, bits));
        }
        if self.0.starts_with(':') {
            self.0 = &self.0[1..];
            return Ok(Expression::Label(word.to_owned()));
        }
        if !self.take("(") {
            return Ok(Expression::Name(word.to_owned()));
        }
        let mut arguments = Vec::new();
        while !self.take(")") {
            if !arguments.is_empty() && !self.take(",") {
                return Err(format!("expected `,` or `)` at `{}`", self.0).into());
            }
            arguments.push(self.argument()?);
        }
        Ok(Expression::Call { name: word.to_owned(), arguments })
    }

    fn argument(&mut self) -> Result<(Option<String>, Expression), Wrong> {
        let mut ahead = *self;
        let name = ahead.word();
        if ahead.take("=") && !ahead.0.starts_with('=') {
            *self = ahead;
            return Ok((Some(name.to_owned()), self.expression()?));
        }
        Ok((None, self.expression()?))
    }
}

/// Reads one expression that is the whole of `text`.
pub(super) fn parse(text: &str) -> Result<Expression, Wrong> {
    let mut reader = Reader(text);
    let expression = reader.expression()?;
    reader.skip_space();
    if reader.0.is_empty() { Ok(expression) } else { Err(format!("`{}` is left over", reader.0).into()) }
}

impl Expression {
    /// True when it depends on where names are.
    pub(super) fn is_address(&self) -> bool {
        match self {
            Self::Number(..) => false,
            Self::Name(_) | Self::Label(_) => true,
            Self::Call { arguments, .. } => arguments.iter().any(|(_, argument)| argument.is_address()),
            Self::Slice(inner, ..) => inner.is_address(),
            Self::Equal(left, right, _) | Self::Both(left, right) => left.is_address() || right.is_address(),
        }
    }
}
