//! Expressions of the TOML tests: numbers, names, and functions such as `pte3(x, page_table_base)`.

use std::collections::BTreeMap;

use super::setup::World;
use crate::tables::{Leaf, PAGE, Stage};

/// An expression, before names have values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Expression {
    Number(u64),
    Name(String),
    Call { name: String, arguments: Vec<(Option<String>, Expression)> },
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

    /// An expression.
    pub(super) fn expression(&mut self) -> Result<Expression, String> {
        let start = self.0.trim();
        let word = self.word();
        if word.is_empty() {
            return Err(format!("expected an expression at `{start}`"));
        }
        if word.starts_with(|letter: char| letter.is_ascii_digit()) {
            return number(word).map(Expression::Number).ok_or_else(|| format!("`{word}` is no number"));
        }
        if !self.take("(") {
            return Ok(Expression::Name(word.to_owned()));
        }
        let mut arguments = Vec::new();
        while !self.take(")") {
            if !arguments.is_empty() && !self.take(",") {
                return Err(format!("expected `,` or `)` at `{}`", self.0));
            }
            arguments.push(self.argument()?);
        }
        Ok(Expression::Call { name: word.to_owned(), arguments })
    }

    fn argument(&mut self) -> Result<(Option<String>, Expression), String> {
        let mut ahead = *self;
        let name = ahead.word();
        if ahead.take("=") && !ahead.0.starts_with('=') {
            *self = ahead;
            return Ok((Some(name.to_owned()), self.expression()?));
        }
        Ok((None, self.expression()?))
    }
}

/// `0x10`, `0b1`, `12`.
pub(super) fn number(word: &str) -> Option<u64> {
    if let Some(digits) = word.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    match word.strip_prefix("0b") {
        Some(digits) => u64::from_str_radix(digits, 2).ok(),
        None => word.parse().ok(),
    }
}

/// Reads one expression that is the whole of `text`.
pub(super) fn parse(text: &str) -> Result<Expression, String> {
    let mut reader = Reader(text);
    let expression = reader.expression()?;
    reader.skip_space();
    if reader.0.is_empty() { Ok(expression) } else { Err(format!("`{}` is left over", reader.0)) }
}

impl Expression {
    /// Its value. `labels` are those of the thread that it stands with.
    pub(super) fn value(&self, world: &World, labels: &BTreeMap<String, u64>) -> Result<u64, String> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Name(name) => {
                let known = world.names.get(name).copied();
                let known = known.or_else(|| world.tables.get(name).map(|table| table.root));
                known.or_else(|| labels.get(name).copied()).ok_or_else(|| format!("`{name}` has no value"))
            }
            Self::Call { name, arguments } => {
                let call = Call { name, arguments, world, labels };
                call.value()
            }
        }
    }
}

struct Call<'a> {
    name: &'a str,
    arguments: &'a [(Option<String>, Expression)],
    world: &'a World,
    labels: &'a BTreeMap<String, u64>,
}

impl Call<'_> {
    fn value(&self) -> Result<u64, String> {
        match self.name {
            "extz" | "exts" => self.at(0),
            "page" => Ok(self.at(0)? / PAGE),
            "asid" | "vmid" => Ok(self.at(0)? << 48),
            "ttbr" => {
                let id = self.named("asid").or_else(|| self.named("vmid")).unwrap_or(Ok(0))?;
                Ok(id << 48 | self.named("base").unwrap_or_else(|| Err("ttbr needs base=".to_owned()))?)
            }
            "pa_to_ipa" | "ipa_to_pa" | "pa_to_va" | "va_to_pa" => self.at(0),
            _ => self.of_table(),
        }
    }

    /// `pte3`, `desc3`, `mkdesc3`, `s2mkdesc3`, `table3` and their kin of other levels.
    fn of_table(&self) -> Result<u64, String> {
        let (name, level) = self.name.split_at(self.name.len() - 1);
        let level: u8 = level.parse().ok().filter(|level| *level <= 3).ok_or_else(|| self.unknown())?;
        match name {
            "pte" => self.slot(level),
            "desc" => Ok(self.world.memory.get(&self.slot(level)?).copied().unwrap_or(0)),
            "mkdesc" => self.made(Stage::One, level),
            "s2mkdesc" => self.made(Stage::Two, level),
            "table" => {
                let Some((None, Expression::Name(walk))) = self.arguments.first() else { return Err(self.unknown()) };
                let walk = self.world.walks.get(walk).ok_or_else(|| format!("no walk is called `{walk}`"))?;
                walk.get(usize::from(level)).copied().ok_or_else(|| format!("the walk has no level {level}"))
            }
            _ => Err(self.unknown()),
        }
    }

    fn made(&self, stage: Stage, level: u8) -> Result<u64, String> {
        if let Some(table) = self.named("table") {
            return Ok(table? | 3);
        }
        let output = self.named("oa").ok_or_else(|| format!("{} needs oa= or table=", self.name))??;
        let data = Leaf::data(stage);
        let leaf = match self.named("AP").or_else(|| self.named("S2AP")) {
            Some(access) => data.with_access(access?),
            None => data,
        };
        Ok(leaf.descriptor(level, output))
    }

    fn slot(&self, level: u8) -> Result<u64, String> {
        let input = self.at(0)?;
        let Some((None, Expression::Name(name))) = self.arguments.get(1) else { return Err(self.unknown()) };
        let table = self.world.tables.get(name).ok_or_else(|| format!("no page table is called `{name}`"))?;
        table
            .slot(&self.world.memory, input, level)
            .ok_or_else(|| format!("`{name}` has no table of level {level} for {input:#x}"))
    }

    fn at(&self, index: usize) -> Result<u64, String> {
        match self.arguments.get(index) {
            Some((None, argument)) => argument.value(self.world, self.labels),
            _ => Err(format!("{} lacks an argument", self.name)),
        }
    }

    fn named(&self, name: &str) -> Option<Result<u64, String>> {
        let argument = self.arguments.iter().find(|(it, _)| it.as_deref() == Some(name))?;
        Some(argument.1.value(self.world, self.labels))
    }

    fn unknown(&self) -> String {
        format!("function `{}` with these arguments is not known", self.name)
    }
}
