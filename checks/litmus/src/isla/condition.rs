//! Final assertions: `1:X0 = 1 & ~(1:X2 = 0) | *x = 1`.

use std::collections::{BTreeMap, BTreeSet};

use a64::instruction::General;
use a64::registers::System;

use super::expression::{Expression, Reader};
use super::initial::Initial;
use crate::condition::{Condition, Term};
use crate::error::{Wrong, refused};
use crate::tables::PAGE;

/// Reads a condition; `labels` are those of each thread, `addressed` the registers that hold addresses at the start.
pub(super) fn parse(
    text: &str,
    initial: &Initial,
    labels: &[BTreeMap<String, u64>],
    addressed: &BTreeSet<(usize, General)>,
) -> Result<Condition, Wrong> {
    let mut source = Source { reader: Reader(text), initial, labels, addressed };
    let condition = source.either()?;
    source.reader.skip_space();
    match source.reader.0 {
        "" if condition.last_thread() < labels.len().max(1) => Ok(condition),
        "" => Err(format!("there is no thread {}", condition.last_thread()).into()),
        rest => Err(format!("`{rest}` is left over").into()),
    }
}

struct Source<'a> {
    reader: Reader<'a>,
    initial: &'a Initial,
    labels: &'a [BTreeMap<String, u64>],
    addressed: &'a BTreeSet<(usize, General)>,
}

impl Source<'_> {
    fn either(&mut self) -> Result<Condition, Wrong> {
        let mut left = self.both()?;
        while self.reader.take("|") || self.take_word("or") {
            left = Condition::Or(Box::new(left), Box::new(self.both()?));
        }
        if self.reader.take("->") {
            let denied = Condition::Not(Box::new(left));
            return Ok(Condition::Or(Box::new(denied), Box::new(self.either()?)));
        }
        Ok(left)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let mut ahead = self.reader;
        let is_next = ahead.word() == word;
        if is_next {
            self.reader = ahead;
        }
        is_next
    }

    fn both(&mut self) -> Result<Condition, Wrong> {
        let mut left = self.one()?;
        while self.reader.take("&") || self.take_word("and") {
            left = Condition::And(Box::new(left), Box::new(self.one()?));
        }
        Ok(left)
    }

    fn one(&mut self) -> Result<Condition, Wrong> {
        if self.reader.take("~") {
            return Ok(Condition::Not(Box::new(self.one()?)));
        }
        if self.reader.take("(") {
            let inner = self.either()?;
            return if self.reader.take(")") { Ok(inner) } else { Err("a `)` is missing".into()) };
        }
        if self.reader.take("*") {
            let term = self.memory()?;
            return self.equals(term, 0);
        }
        let word = self.reader.word();
        match word.parse::<usize>() {
            Ok(thread) if self.reader.take(":") => {
                let term = self.register(thread)?;
                self.equals(term, thread)
            }
            _ => match word {
                "true" => Ok(Condition::Constant(true)),
                "false" => Ok(Condition::Constant(false)),
                _ if word.is_empty() && self.reader.0.trim().is_empty() => {
                    Err("the condition ends early, expected `THREAD:REGISTER = VALUE` or another".into())
                }
                _ => Err(format!("expected a condition at `{word}{}`", self.reader.0).into()),
            },
        }
    }

    fn memory(&mut self) -> Result<Term, Wrong> {
        let place = self.reader.expression()?;
        Ok(Term::Memory(self.initial.physical(&place)?, self.initial.width(&place)))
    }

    /// `X0`, `R0`, `PC`, `ELR_EL1`, and for the first of them a part: `X0[7..0]`.
    fn register(&mut self, thread: usize) -> Result<Term, Wrong> {
        let name = self.reader.word();
        let term = register(thread, name).ok_or_else(|| format!("`{name}` is no register"))?;
        match (self.reader.slice()?, term) {
            (None, term) => Ok(term),
            (Some((high, low)), Term::Register(thread, register)) => {
                Ok(Term::Part(thread, register, u64::MAX >> (63 - (high - low)) << low))
            }
            _ => Err(refused("slice of a system register", format!("a slice of `{name}` is not supported"))),
        }
    }

    fn equals(&mut self, term: Term, thread: usize) -> Result<Condition, Wrong> {
        let is_denied = self.reader.take("!=") || self.reader.take("~");
        if !is_denied && !self.reader.take("=") {
            return Err(format!("expected `=` at `{}`", self.reader.0).into());
        }
        let condition = self.equal(term, thread)?;
        Ok(if is_denied { Condition::Not(Box::new(condition)) } else { condition })
    }

    fn equal(&mut self, term: Term, thread: usize) -> Result<Condition, Wrong> {
        if self.reader.take("*") {
            let other = self.memory()?;
            return Ok(Condition::Equal(term, other));
        }
        let mut ahead = self.reader;
        if let (Ok(other), true) = (ahead.word().parse::<usize>(), ahead.take(":")) {
            self.reader = ahead;
            let other = self.register(other)?;
            return Ok(Condition::Equal(term, other));
        }
        let value = self.reader.expression()?;
        // Where names are is our choice, so that no number can be one of their addresses but by chance.
        if let (Term::Register(thread, register), Expression::Number(PAGE.., _)) = (term, &value)
            && self.addressed.contains(&(thread, register))
        {
            return Err(refused("address as a number", "a register with an address is asked for a number"));
        }
        let labels = self.labels.get(thread).ok_or_else(|| format!("there is no thread {thread}"))?;
        let value = value.value(self.initial, labels)?;
        let (value, mask) = match term {
            Term::Part(_, _, mask) => (value << mask.trailing_zeros(), mask),
            Term::Memory(_, width) => (value, width.mask()),
            _ => (value, !0),
        };
        Ok(Condition::Equal(term, Term::Constant(value & mask)))
    }
}

/// `X0`, `R0`, `PC`, `ELR_EL1`.
fn register(thread: usize, name: &str) -> Option<Term> {
    if name == "PC" {
        return Some(Term::Place(thread));
    }
    if let Some(number) = name.strip_prefix(['X', 'R']).and_then(|number| number.parse::<u8>().ok()) {
        return (number < 31).then_some(Term::Register(thread, General(number)));
    }
    System::named(name).map(|system| Term::System(thread, system))
}
