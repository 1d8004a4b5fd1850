//! A Rust file taken apart: its lines, and its tokens in one flat list, comments and documentation left out.
//!
//! ```text
//! fn f() { g("}") }    →    fn  f  (  )  {  g  (  "}"  )  }
//!                                        |_______________^   `{` knows its `}`
//! ```

use std::{collections::HashSet, ops::Range};

use proc_macro2::{Delimiter, LineColumn, TokenStream, TokenTree};

/// One token and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    /// Counted from 1.
    pub(crate) line: usize,
    /// In characters, from 0.
    column: usize,
    last_line: usize,
    last_column: usize,
}

/// What a token is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Word(String),
    Mark(char),
    Literal,
    /// An opening bracket, and the index of its closing one.
    Open(char, usize),
    Close(char),
}

/// A source file.
#[derive(Debug)]
pub(crate) struct Source {
    /// From the workspace's root, with `/`.
    pub(crate) path: String,
    pub(crate) lines: Vec<String>,
    pub(crate) tokens: Vec<Token>,
    /// Indices of tokens that are compiled for tests only.
    test_tokens: Vec<Range<usize>>,
}

impl Source {
    /// Takes `text` apart. The error says where it is not Rust.
    pub(crate) fn new(path: &str, text: &str) -> Result<Source, (usize, String)> {
        let stream: TokenStream =
            text.parse().map_err(|error: proc_macro2::LexError| (error.span().start().line, error.to_string()))?;
        let lines: Vec<String> = text.lines().map(str::to_string).collect();
        let mut tokens = Vec::new();
        flatten(stream, &lines, &mut tokens);
        let test_tokens = test_items(&tokens);
        let source = Source { path: path.to_string(), lines, tokens, test_tokens };
        // The lexer keeps every text it has seen, for spans that are not needed any more.
        proc_macro2::extra::invalidate_current_thread_spans();
        Ok(source)
    }

    /// The word at `index`, if there is one.
    pub(crate) fn word(&self, index: usize) -> Option<&str> {
        match &self.tokens.get(index)?.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(crate) fn is_mark(&self, index: usize, mark: char) -> bool {
        self.tokens.get(index).is_some_and(|token| token.kind == Kind::Mark(mark))
    }

    /// Whether `::` stands at `index`.
    pub(crate) fn is_separator(&self, index: usize) -> bool {
        self.is_mark(index, ':') && self.is_mark(index + 1, ':')
    }

    /// Whether an opening `bracket` stands at `index`.
    pub(crate) fn opens(&self, index: usize, bracket: char) -> bool {
        matches!(self.tokens.get(index).map(|token| &token.kind), Some(Kind::Open(open, _)) if *open == bracket)
    }

    /// Whether the tokens from `index` on are these words and marks.
    pub(crate) fn reads(&self, index: usize, expected: &[&str]) -> bool {
        expected.iter().enumerate().all(|(offset, expected)| {
            self.tokens.get(index + offset).is_some_and(|token| match &token.kind {
                Kind::Word(word) => word == expected,
                Kind::Mark(mark) | Kind::Open(mark, _) | Kind::Close(mark) => *expected == mark.to_string(),
                Kind::Literal => false,
            })
        })
    }

    /// Whether the token at `index` is compiled for tests only.
    pub(crate) fn is_test(&self, index: usize) -> bool {
        self.test_tokens.iter().any(|range| range.contains(&index))
    }

    /// The lines on which a text stands in code or comments, but not in a string.
    pub(crate) fn lines_with(&self, needle: &str) -> Vec<usize> {
        let in_literal = |line: usize, column: usize| {
            self.tokens.iter().any(|token| {
                token.kind == Kind::Literal
                    && (token.line, token.column) <= (line, column)
                    && (line, column) < (token.last_line, token.last_column)
            })
        };
        let mut found = Vec::new();
        for (number, line) in (1..).zip(&self.lines) {
            let columns = line.match_indices(needle).map(|(at, _)| line[..at].chars().count());
            if columns.into_iter().any(|column| !in_literal(number, column)) {
                found.push(number);
            }
        }
        found
    }
}

/// Documentation arrives as attributes that stand where the comment stands: comments are not code.
fn flatten(stream: TokenStream, lines: &[String], tokens: &mut Vec<Token>) {
    let mut documentation = HashSet::new();
    for tree in stream {
        let span = tree.span();
        let (start, end) = (span.start(), span.end());
        let place = (start.line, start.column);
        if documentation.contains(&place) {
            continue;
        }
        if matches!(&tree, TokenTree::Punct(mark) if mark.as_char() == '#') && starts_comment(lines, start) {
            documentation.insert(place);
            continue;
        }
        match tree {
            TokenTree::Ident(word) => tokens.push(token(Kind::Word(word.to_string()), start, end)),
            TokenTree::Punct(mark) => tokens.push(token(Kind::Mark(mark.as_char()), start, end)),
            TokenTree::Literal(_) => tokens.push(token(Kind::Literal, start, end)),
            TokenTree::Group(group) => {
                let brackets = match group.delimiter() {
                    Delimiter::Parenthesis => Some(('(', ')')),
                    Delimiter::Brace => Some(('{', '}')),
                    Delimiter::Bracket => Some(('[', ']')),
                    Delimiter::None => None,
                };
                let opening = tokens.len();
                if let Some((open, _)) = brackets {
                    tokens.push(token(Kind::Open(open, 0), start, group.span_open().end()));
                }
                flatten(group.stream(), lines, tokens);
                if let Some((open, close)) = brackets {
                    tokens[opening].kind = Kind::Open(open, tokens.len());
                    tokens.push(token(Kind::Close(close), group.span_close().start(), end));
                }
            }
        }
    }
}

fn token(kind: Kind, start: LineColumn, end: LineColumn) -> Token {
    Token { kind, line: start.line, column: start.column, last_line: end.line, last_column: end.column }
}

fn starts_comment(lines: &[String], at: LineColumn) -> bool {
    lines.get(at.line - 1).is_some_and(|line| line.chars().nth(at.column) == Some('/'))
}

/// The items behind `#[cfg(test)]`, up to their closing brace or semicolon.
fn test_items(tokens: &[Token]) -> Vec<Range<usize>> {
    let is_word = |index: usize, word: &str| tokens.get(index).is_some_and(|t| t.kind == Kind::Word(word.into()));
    let mut items = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if token.kind != Kind::Mark('#') || !is_word(index + 2, "cfg") || !is_word(index + 4, "test") {
            continue;
        }
        let mut at = index + 1;
        let end = loop {
            match tokens.get(at).map(|token| &token.kind) {
                Some(Kind::Open('{', close)) => break close + 1,
                Some(Kind::Open(_, close)) => at = close + 1,
                Some(Kind::Mark(';')) | None => break at + 1,
                Some(_) => at += 1,
            }
        };
        items.push(index..end);
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new("x.rs", text).expect("Rust")
    }

    fn words(source: &Source) -> Vec<&str> {
        (0..source.tokens.len()).filter_map(|index| source.word(index)).collect()
    }

    #[test]
    fn comments_documentation_and_strings_are_not_code() {
        let source = source(
            "//! head unsafe\n/// doc unsafe\nfn f(/* unsafe */) { // unsafe\n g(\"unsafe\", r#\"unsafe\"#, 'u') }\n\
             /** unsafe */ struct S;",
        );
        assert_eq!(words(&source), ["fn", "f", "g", "struct", "S"]);
    }

    #[test]
    fn brackets_know_their_partners() {
        let source = source("fn f() { if x { y } }");
        let open = source.tokens.iter().position(|token| matches!(token.kind, Kind::Open('{', _)));
        let last = source.tokens.len() - 1;
        assert_eq!(source.tokens[open.expect("a brace")].kind, Kind::Open('{', last));
        assert_eq!(source.tokens[last].kind, Kind::Close('}'));
    }

    #[test]
    fn test_items_are_known() {
        let source = source("fn a() {} #[cfg(test)] mod tests { fn b() {} } fn c() {} #[cfg(test)] use d; fn e() {}");
        let tested = |word: &str| {
            let index = (0..source.tokens.len()).find(|&index| source.word(index) == Some(word));
            source.is_test(index.expect("the word"))
        };
        assert_eq!(["a", "b", "c", "d", "e"].map(tested), [false, true, false, true, false]);
    }

    #[test]
    fn text_is_found_outside_strings_only() {
        let source = source("// fix me\nlet a = \"fix me\n fix me\";\n/// fix me\nlet é = \"é\"; // fix me\n");
        assert_eq!(source.lines_with("fix me"), [1, 4, 5]);
    }

    #[test]
    fn what_is_not_rust_is_an_error() {
        assert!(Source::new("x.rs", "fn f() {\n").is_err());
    }
}
