//! Expressions of the TOML tests: numbers, names, and functions such as `pte3(x, page_table_base)`.

use std::collections::BTreeMap;

use super::setup::Initial;
use crate::error::{Wrong, refused};
use crate::tables::{Leaf, Stage};
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

    /// Its value. `labels` are those of the thread that it stands with.
    pub(super) fn value(&self, initial: &Initial, labels: &BTreeMap<String, u64>) -> Result<u64, Wrong> {
        match self {
            Self::Number(number, _) => Ok(*number),
            Self::Name(name) => {
                let known = initial.names.get(name).copied();
                let known = known.or_else(|| initial.tables.get(name).map(|table| table.root));
                known.or_else(|| labels.get(name).copied()).ok_or_else(|| format!("`{name}` has no value").into())
            }
            Self::Label(name) => {
                labels.get(name).copied().ok_or_else(|| format!("label `{name}` is not defined").into())
            }
            Self::Call { name, arguments } => {
                let call = Call { name, arguments, initial, labels };
                call.value()
            }
            Self::Slice(inner, high, low) => {
                Ok(inner.value(initial, labels)? >> low & (u64::MAX >> (63 - (high - low))))
            }
            Self::Equal(left, right, is_denied) => {
                Ok(u64::from((left.value(initial, labels)? == right.value(initial, labels)?) != *is_denied))
            }
            Self::Both(left, right) => Ok(left.value(initial, labels)? & right.value(initial, labels)?),
        }
    }
}

struct Call<'a> {
    name: &'a str,
    arguments: &'a [(Option<String>, Expression)],
    initial: &'a Initial,
    labels: &'a BTreeMap<String, u64>,
}

impl Call<'_> {
    fn value(&self) -> Result<u64, Wrong> {
        let shift = || Ok::<u32, Wrong>(self.at(1)?.min(64) as u32);
        match self.name {
            "extz" => Ok(self.at(0)? & ones(self.length()?)),
            "exts" => self.signed(),
            "page" => Ok(self.at(0)? >> 12 & ones(36)),
            "asid" | "vmid" => Ok(self.at(0)? << 48),
            "ttbr" => self.ttbr(),
            "bvand" => Ok(self.at(0)? & self.at(1)?),
            "bvor" => Ok(self.at(0)? | self.at(1)?),
            "bvxor" => Ok(self.at(0)? ^ self.at(1)?),
            "bvlshr" => Ok(self.at(0)?.checked_shr(shift()?).unwrap_or(0)),
            "bvshl" => Ok(self.at(0)?.checked_shl(shift()?).unwrap_or(0)),
            "index" => self.index(),
            "offset" => Ok(self.index()? * 8),
            "pa" => self.initial.physical_by(self.at(0)?, self.table(1)?),
            "pa_to_ipa" | "ipa_to_pa" | "pa_to_va" | "va_to_pa" | "ipa_to_va" | "va_to_ipa" => self.at(0),
            _ => self.of_table(),
        }
    }

    /// How many bits an extension leaves.
    fn length(&self) -> Result<u32, Wrong> {
        Ok(self.at(1)?.min(64) as u32)
    }

    fn signed(&self) -> Result<u64, Wrong> {
        let Some((None, Expression::Number(number, Some(bits)))) = self.arguments.first() else {
            return Err(refused("function exts", "`exts` of what is written without its bits is not supported"));
        };
        let bits = (*bits).clamp(1, 64);
        let number = (number << (64 - bits)) as i64 >> (64 - bits);
        Ok(number as u64 & ones(self.length()?))
    }

    fn ttbr(&self) -> Result<u64, Wrong> {
        self.only(&["asid", "vmid", "base", "CnP"])?;
        let id = self.named("asid").or_else(|| self.named("vmid")).unwrap_or(Ok(0))?;
        let base = self.named("base").unwrap_or_else(|| Err("ttbr needs base=".into()))?;
        Ok(id << 48 | base | self.named("CnP").unwrap_or(Ok(0))? & 1)
    }

    /// The index in its table of level `level=` of the address `va=` or `ipa=`.
    fn index(&self) -> Result<u64, Wrong> {
        self.only(&["level", "va", "ipa"])?;
        let address = self.named("va").or_else(|| self.named("ipa"));
        match (address, self.named("level")) {
            (Some(address), Some(level)) => {
                let level = level.ok().filter(|level| *level <= 3).ok_or("a level is 0 to 3")?;
                Ok(address? >> (12 + 9 * (3 - level)) & 511)
            }
            _ => Err(self.unknown()),
        }
    }

    /// `pte3`, `desc3`, `mkdesc3`, `s2mkdesc3`, `table3` and their kin of other levels.
    fn of_table(&self) -> Result<u64, Wrong> {
        let split = self.name.len().saturating_sub(1);
        let (name, level) = self.name.split_at_checked(split).ok_or_else(|| self.unknown())?;
        let level: u8 = level.parse().ok().filter(|level| *level <= 3).ok_or_else(|| self.unknown())?;
        match name {
            "pte" => self.slot(level),
            "desc" => Ok(self.initial.memory.get(&self.slot(level)?).copied().unwrap_or(0)),
            "mkdesc" => self.made(Stage::One, level),
            "s2mkdesc" => self.made(Stage::Two, level),
            "table" => {
                let Some((None, Expression::Name(walk))) = self.arguments.first() else { return Err(self.unknown()) };
                let walk = self.initial.walks.get(walk).ok_or_else(|| format!("no walk is called `{walk}`"))?;
                let found = walk.get(usize::from(level)).copied();
                found.ok_or_else(|| format!("the walk has no level {level}").into())
            }
            _ => Err(self.unknown()),
        }
    }

    fn made(&self, stage: Stage, level: u8) -> Result<u64, Wrong> {
        if let Some(table) = self.named("table") {
            self.only(&["table"])?;
            return Ok(table? | 3);
        }
        let output = self.named("oa").ok_or_else(|| format!("{} needs oa= or table=", self.name))??;
        let (mut leaf, mut is_valid) = (Leaf::data(stage), true);
        for (field, value) in self.arguments {
            let (Some(field), value) = (field, value.value(self.initial, self.labels)?) else {
                return Err(self.unknown());
            };
            match field.as_str() {
                "oa" => {}
                "Valid" => is_valid = value & 1 == 1,
                _ => {
                    leaf = leaf.with(stage, field, value).ok_or_else(|| {
                        refused(format!("attribute {field}"), format!("attribute `{field}` of {value} is not known"))
                    })?;
                }
            }
        }
        let descriptor = leaf.descriptor(level, output);
        Ok(if is_valid { descriptor } else { descriptor & !1 })
    }

    fn slot(&self, level: u8) -> Result<u64, Wrong> {
        let (input, name) = (self.at(0)?, self.table(1)?);
        let slot = self.initial.tables[name].slot(&self.initial.memory, input, level);
        slot.ok_or_else(|| {
            refused("table that is not there", format!("`{name}` has no table of level {level} for {input:#x}"))
        })
    }

    /// The page table that an argument names, or whose root it is the address of.
    fn table(&self, index: usize) -> Result<&str, Wrong> {
        if let Some((None, Expression::Name(name))) = self.arguments.get(index)
            && let Some((name, _)) = self.initial.tables.get_key_value(name)
        {
            return Ok(name);
        }
        if let Some((None, Expression::Name(name))) = self.arguments.get(index)
            && !self.initial.names.contains_key(name)
        {
            return Err(format!("no page table is called `{name}`").into());
        }
        let root = self.at(index)?;
        let found = self.initial.tables.iter().find(|it| it.1.root == root);
        found.map(|it| it.0.as_str()).ok_or_else(|| format!("{root:#x} is no page table").into())
    }

    fn at(&self, index: usize) -> Result<u64, Wrong> {
        match self.arguments.get(index) {
            Some((None, argument)) => argument.value(self.initial, self.labels),
            _ => Err(format!("{} lacks an argument", self.name).into()),
        }
    }

    fn named(&self, name: &str) -> Option<Result<u64, Wrong>> {
        let argument = self.arguments.iter().find(|(it, _)| it.as_deref() == Some(name))?;
        Some(argument.1.value(self.initial, self.labels))
    }

    /// An argument by another name is refused.
    fn only(&self, names: &[&str]) -> Result<(), Wrong> {
        let is_known = |name: &Option<String>| name.as_deref().is_some_and(|name| names.contains(&name));
        if self.arguments.iter().all(|it| is_known(&it.0)) { Ok(()) } else { Err(self.unknown()) }
    }

    fn unknown(&self) -> Wrong {
        let what = format!("function `{}` with these arguments is not known", self.name);
        refused(format!("function {}", self.name), what)
    }
}

/// So many ones, from the lowest bit.
const fn ones(bits: u32) -> u64 {
    if bits == 0 { 0 } else { u64::MAX >> (64 - bits) }
}
