//! Words, numbers and signs of initial values and conditions, each with its line.

use crate::error::{At, Wrong, refused};
use crate::words;

/// A piece that has no parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token<'a> {
    Number(i128),
    Word(&'a str),
    /// What stands between quotation marks.
    Quoted(&'a str),
    Sign(&'static str),
}

/// Longer signs come before those that they begin with.
const SIGNS: [&str; 23] = [
    "/\\", "\\/", "=>", "==", "!=", "<>", "=", "~", "(", ")", "[", "]", "{", "}", ",", ";", ":", "&", "+", "*", "%",
    "`", "|",
];

/// Tokens, and how far they are read.
#[derive(Clone, Debug)]
pub(super) struct Tokens<'a> {
    all: Vec<(usize, Token<'a>)>,
    at: usize,
    last: usize,
}

impl<'a> Tokens<'a> {
    /// The tokens of `text`, whose first letter is in `line`.
    pub(super) fn read(text: &'a str, line: usize) -> Result<Self, At> {
        let (mut all, mut rest, mut line) = (Vec::new(), text, line);
        while let Some(letter) = rest.chars().next() {
            if letter.is_whitespace() {
                line += usize::from(letter == '\n');
                rest = &rest[letter.len_utf8()..];
                continue;
            }
            let (token, length) = token(rest).map_err(|wrong| At::line(line, wrong))?;
            all.push((line, token));
            rest = &rest[length..];
        }
        Ok(Self { all, at: 0, last: line })
    }

    /// The line of the next token, or of the end.
    pub(super) fn line(&self) -> usize {
        self.all.get(self.at).map_or(self.last, |it| it.0)
    }

    /// The token so many tokens on.
    pub(super) fn peek(&self, ahead: usize) -> Option<Token<'a>> {
        self.all.get(self.at + ahead).map(|it| it.1)
    }

    pub(super) fn is_sign(&self, ahead: usize, sign: &str) -> bool {
        matches!(self.peek(ahead), Some(Token::Sign(it)) if it == sign)
    }

    pub(super) fn step(&mut self) {
        self.at += 1;
    }

    pub(super) fn take(&mut self, sign: &str) -> bool {
        let is_next = self.is_sign(0, sign);
        self.at += usize::from(is_next);
        is_next
    }

    pub(super) fn take_word(&mut self, words: &[&str]) -> bool {
        let is_next = matches!(self.peek(0), Some(Token::Word(word)) if words.contains(&word));
        self.at += usize::from(is_next);
        is_next
    }

    pub(super) fn expect(&mut self, sign: &str) -> Result<(), Wrong> {
        if self.take(sign) { Ok(()) } else { Err(format!("expected `{sign}` at {}", self.next_text()).into()) }
    }

    pub(super) fn word(&mut self) -> Result<&'a str, Wrong> {
        match self.peek(0) {
            Some(Token::Word(word)) => {
                self.step();
                Ok(word)
            }
            _ => Err(format!("expected a name at {}", self.next_text()).into()),
        }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.all.len()
    }

    /// How the next token is written, for a message.
    pub(super) fn next_text(&self) -> String {
        match self.peek(0) {
            None => "the end".to_owned(),
            Some(Token::Number(number)) => format!("`{number}`"),
            Some(Token::Word(text) | Token::Quoted(text)) => format!("`{text}`"),
            Some(Token::Sign(text)) => format!("`{text}`"),
        }
    }
}

fn token(text: &str) -> Result<(Token<'_>, usize), Wrong> {
    if let Some(quoted) = text.strip_prefix('"') {
        let end = quoted.find('"').ok_or("a quotation mark has no other")?;
        return Ok((Token::Quoted(&quoted[..end]), end + 2));
    }
    let is_below_zero = text.starts_with('-');
    let digits = &text[usize::from(is_below_zero)..];
    if digits.starts_with(|letter: char| letter.is_ascii_digit()) {
        let end = digits.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(digits.len());
        let number = words::number(&digits[..end])
            .map(i128::from)
            .ok_or_else(|| format!("`{}` is no number", &digits[..end]))?;
        let number = if is_below_zero { -number } else { number };
        return Ok((Token::Number(number), end + usize::from(is_below_zero)));
    }
    if let Some(sign) = SIGNS.into_iter().find(|sign| text.starts_with(sign)) {
        return Ok((Token::Sign(sign), sign.len()));
    }
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_/.$-".contains(letter);
    let mut end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    // `/` is a part of names, and begins `/\`.
    if text[end..].starts_with('\\') && text[..end].ends_with('/') {
        end -= 1;
    }
    if end == 0 {
        let letter = text.chars().next().unwrap_or(' ');
        return Err(refused(format!("`{letter}`"), format!("`{letter}` is not understood here")));
    }
    Ok((Token::Word(&text[..end]), end))
}
