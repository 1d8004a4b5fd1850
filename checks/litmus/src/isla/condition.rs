//! Final assertions: `1:X0 = 1 & ~(1:X2 = 0) | *x = 1`.

use std::collections::BTreeMap;

use a64::instruction::{General, Width};
use a64::registers::System;

use super::expression::{Expression, Reader};
use super::setup::World;
use crate::condition::{Condition, Term};

/// Reads a condition; `labels` are those of each thread.
pub(super) fn parse(text: &str, world: &World, labels: &[BTreeMap<String, u64>]) -> Result<Condition, String> {
    let mut source = Source { reader: Reader(text), world, labels };
    let condition = source.either()?;
    source.reader.skip_space();
    match source.reader.0 {
        "" if condition.last_thread() < labels.len().max(1) => Ok(condition),
        "" => Err(format!("there is no thread {}", condition.last_thread())),
        rest => Err(format!("`{rest}` is left over")),
    }
}

struct Source<'a> {
    reader: Reader<'a>,
    world: &'a World,
    labels: &'a [BTreeMap<String, u64>],
}

impl Source<'_> {
    fn either(&mut self) -> Result<Condition, String> {
        let mut left = self.both()?;
        while self.reader.take("|") {
            left = Condition::Or(Box::new(left), Box::new(self.both()?));
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Condition, String> {
        let mut left = self.one()?;
        while self.reader.take("&") {
            left = Condition::And(Box::new(left), Box::new(self.one()?));
        }
        Ok(left)
    }

    fn one(&mut self) -> Result<Condition, String> {
        if self.reader.take("~") {
            return Ok(Condition::Not(Box::new(self.one()?)));
        }
        if self.reader.take("(") {
            let inner = self.either()?;
            return if self.reader.take(")") { Ok(inner) } else { Err("a `)` is missing".to_owned()) };
        }
        if self.reader.take("*") {
            let place = self.reader.expression()?;
            let place = Term::Memory(self.world.physical(&place)?, Width::Double);
            return self.equals(place, 0);
        }
        let word = self.reader.word();
        match word.parse::<usize>() {
            Ok(thread) if self.reader.take(":") => {
                let name = self.reader.word();
                let term = register(thread, name).ok_or_else(|| format!("`{name}` is no register"))?;
                self.equals(term, thread)
            }
            _ => match word {
                "true" => Ok(Condition::Constant(true)),
                "false" => Ok(Condition::Constant(false)),
                _ if word.is_empty() && self.reader.0.trim().is_empty() => {
                    Err("the condition ends early, expected `THREAD:REGISTER = VALUE` or another".to_owned())
                }
                _ => Err(format!("expected a condition at `{word}{}`", self.reader.0)),
            },
        }
    }

    fn equals(&mut self, term: Term, thread: usize) -> Result<Condition, String> {
        if !self.reader.take("=") {
            return Err(format!("expected `=` at `{}`", self.reader.0));
        }
        let value: Expression = self.reader.expression()?;
        let labels = self.labels.get(thread).ok_or_else(|| format!("there is no thread {thread}"))?;
        Ok(Condition::Equal(term, Term::Constant(value.value(self.world, labels)?)))
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
