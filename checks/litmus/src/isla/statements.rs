//! The language of `page_table_setup`: statements as data.

use super::expression::{Expression, Reader};
use crate::error::{At, Wrong, refused};
use crate::tables::Stage;
use crate::words;

/// What kind of address a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Virtual,
    Intermediate,
    Physical,
}

/// What an address is mapped to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    Invalid,
    To(Expression),
    Table(Expression),
    Raw(Expression),
}

/// Fields of a descriptor by the manual's names.
pub(super) type Fields = Vec<(String, u64)>;

/// One mapping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mapping {
    pub(super) from: Expression,
    pub(super) target: Target,
    /// Fields that are not the default.
    pub(super) fields: Fields,
    pub(super) level: u8,
    /// The name of the walk.
    pub(super) walk: Option<String>,
    /// `?->`: it may come to be, but is not so at the start.
    pub(super) is_maybe: bool,
}

/// A statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Statement {
    Declare {
        kind: Kind,
        names: Vec<String>,
        align: u64,
    },
    Option {
        name: String,
        value: bool,
    },
    /// What addresses must fulfil.
    Assert(Expression),
    Identity(Expression),
    Map(Mapping),
    Memory {
        place: Expression,
        value: Expression,
    },
    Table {
        stage: Stage,
        name: String,
        place: Expression,
        statements: Vec<(usize, Statement)>,
    },
    /// The pages of a table that stands elsewhere.
    Pages(String),
}

/// A statement and the tables that it stands in, the innermost last.
pub(super) struct Placed<'a> {
    pub(super) line: usize,
    pub(super) statement: &'a Statement,
    pub(super) scopes: Vec<String>,
}

/// A table's own statement comes before what it holds.
pub(super) fn flatten<'a>(statements: &'a [(usize, Statement)], scopes: &[String], all: &mut Vec<Placed<'a>>) {
    for (line, statement) in statements {
        all.push(Placed { line: *line, statement, scopes: scopes.to_vec() });
        if let Statement::Table { name, statements, .. } = statement {
            flatten(statements, &[scopes, std::slice::from_ref(name)].concat(), all);
        }
    }
}

/// Reads all statements; `line` is that of the first letter.
pub(super) fn parse(text: &str, line: usize) -> Result<Vec<(usize, Statement)>, At> {
    let without: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let text = without.join("\n");
    let mut source = Source { all: &text, reader: Reader(&text), first: line };
    let statements = source.block(false)?;
    Ok(statements)
}

struct Source<'a> {
    all: &'a str,
    reader: Reader<'a>,
    first: usize,
}

impl Source<'_> {
    fn line(&self) -> usize {
        let read = &self.all[..self.all.len() - self.reader.0.len()];
        self.first + read.matches('\n').count()
    }

    fn block(&mut self, is_inner: bool) -> Result<Vec<(usize, Statement)>, At> {
        let mut statements = Vec::new();
        loop {
            while self.reader.take(";") {}
            self.reader.skip_space();
            let line = self.line();
            if is_inner && self.reader.take("}") {
                return Ok(statements);
            }
            if self.reader.0.is_empty() {
                return if is_inner { Err(At::line(line, "a `}` is missing")) } else { Ok(statements) };
            }
            let statement = self.statement()?;
            let needs_end = !matches!(statement, Statement::Table { .. });
            statements.push((line, statement));
            if needs_end && !self.reader.take(";") {
                return Err(At::line(self.line(), format!("expected `;` before `{}`", self.rest())));
            }
        }
    }

    fn rest(&self) -> &str {
        self.reader.0.lines().next().unwrap_or_default()
    }

    fn statement(&mut self) -> Result<Statement, At> {
        let line = self.line();
        let wrong = |what: Wrong| At::line(line, what);
        if self.reader.take("*") {
            let place = self.reader.expression().map_err(wrong)?;
            return match self.reader.take("=") {
                true => Ok(Statement::Memory { place, value: self.reader.expression().map_err(wrong)? }),
                false => Err(wrong("expected `=`".into())),
            };
        }
        let mut ahead = self.reader;
        let keyword = ahead.word();
        let before = std::mem::replace(&mut self.reader, ahead);
        match keyword {
            "virtual" | "physical" | "intermediate" => self.declare(keyword, 1),
            "aligned" => {
                let align = self.reader.word();
                let align = words::number(align).ok_or_else(|| wrong(format!("`{align}` is no number").into()))?;
                let kind = self.reader.word();
                self.declare(kind, align)
            }
            "option" => {
                let name = self.reader.word().to_owned();
                self.reader.take("=");
                let value = match self.reader.word() {
                    "true" => true,
                    "false" => false,
                    other => {
                        return Err(wrong(format!("option `{name}` is `{other}`, expected `true` or `false`").into()));
                    }
                };
                Ok(Statement::Option { name, value })
            }
            "assert" => self.reader.formula().map(Statement::Assert).map_err(wrong),
            "let" => Err(wrong(refused("let", "`let` is not supported"))),
            "identity" => {
                let place = self.reader.expression().map_err(wrong)?;
                if self.reader.take("with") {
                    self.attributes().map_err(wrong)?;
                }
                Ok(Statement::Identity(place))
            }
            "s1table" => self.table(Stage::One),
            "s2table" => self.table(Stage::Two),
            _ => {
                self.reader = before;
                self.mapping().map_err(wrong)
            }
        }
    }

    fn declare(&mut self, keyword: &str, align: u64) -> Result<Statement, At> {
        let kind = match keyword {
            "virtual" => Kind::Virtual,
            "intermediate" => Kind::Intermediate,
            "physical" => Kind::Physical,
            _ => return Err(At::line(self.line(), format!("`{keyword}` is no kind of address"))),
        };
        let mut names = Vec::new();
        loop {
            match self.reader.word() {
                "" => return Ok(Statement::Declare { kind, names, align }),
                name => names.push(name.to_owned()),
            }
        }
    }

    fn table(&mut self, stage: Stage) -> Result<Statement, At> {
        let line = self.line();
        let name = self.reader.word().to_owned();
        self.reader.skip_space();
        if self.reader.0.starts_with(';') {
            return Ok(Statement::Pages(name));
        }
        let place = self.reader.expression().map_err(|what| At::line(line, what))?;
        if !self.reader.take("{") {
            return Err(At::line(line, "expected `{`"));
        }
        Ok(Statement::Table { stage, name, place, statements: self.block(true)? })
    }

    fn mapping(&mut self) -> Result<Statement, Wrong> {
        let from = self.reader.expression()?;
        let is_maybe = self.reader.take("?->");
        if !is_maybe && !self.reader.take("|->") {
            return Err(format!("expected `|->` or `?->` at `{}`", self.rest()).into());
        }
        let target = match self.reader.expression()? {
            Expression::Name(name) if name == "invalid" => Target::Invalid,
            Expression::Call { name, mut arguments } if name == "table" && arguments.len() == 1 => {
                Target::Table(arguments.remove(0).1)
            }
            Expression::Call { name, mut arguments } if name == "raw" && arguments.len() == 1 => {
                Target::Raw(arguments.remove(0).1)
            }
            other => Target::To(other),
        };
        let mut mapping = Mapping { from, target, fields: Fields::new(), level: 3, walk: None, is_maybe };
        loop {
            let mut ahead = self.reader;
            match ahead.word() {
                "with" => {
                    self.reader = ahead;
                    mapping.fields = self.attributes()?;
                }
                "at" => {
                    self.reader = ahead;
                    self.reader.word();
                    let level = self.reader.word();
                    mapping.level = level.parse().ok().filter(|it| (1..=3).contains(it)).ok_or("a level is 1 to 3")?;
                }
                "as" => {
                    self.reader = ahead;
                    mapping.walk = Some(self.reader.word().to_owned());
                }
                _ => return Ok(Statement::Map(mapping)),
            }
        }
    }

    /// `[AP = 0b11, AF = 0b0] and default`, or `default`: what stands behind `and` is for stage 2 where that is implied.
    fn attributes(&mut self) -> Result<Fields, Wrong> {
        let first = self.fields()?;
        if self.reader.take("and") && !self.fields()?.is_empty() {
            return Err(refused("attributes of two stages", "attributes of a second stage are not supported"));
        }
        Ok(first)
    }

    fn fields(&mut self) -> Result<Fields, Wrong> {
        let mut fields = Fields::new();
        if !self.reader.take("[") {
            return match self.reader.word() {
                "default" | "code" | "data" => Ok(fields),
                other => Err(refused(format!("attributes {other}"), format!("attributes `{other}` are not known"))),
            };
        }
        while !self.reader.take("]") {
            let name = self.reader.word();
            let value = if self.reader.take("=") { words::number(self.reader.word()) } else { None };
            fields.push((name.to_owned(), value.ok_or_else(|| format!("attribute `{name}` has no value"))?));
            if !self.reader.take(",") && !self.reader.0.trim_start().starts_with(']') {
                return Err(format!("expected `,` or `]` at `{}`", self.rest()).into());
            }
        }
        Ok(fields)
    }
}
