//! Conditions: `exists (0:X1=1 /\ ~fault(P1:L0,x,MMU:Translation) \/ pte_x=(oa:PA(y)))`.

use std::collections::BTreeMap;

use a64::instruction::{General, Width};
use machine::syndrome::FaultKind;

use super::init::World;
use super::source::Piece;
use super::value::{descriptor_of, value};
use crate::condition::{Condition, Term};
use crate::error::At;
use crate::test::Quantifier;

/// Reads what follows the code; `labels` are those of each thread.
pub(super) fn parse(
    piece: &Piece,
    world: &World,
    labels: &[BTreeMap<String, u64>],
) -> Result<(Quantifier, Condition), At> {
    let mut source = Source { rest: &piece.text, world, labels };
    let parsed = source.whole();
    let read = &piece.text[..piece.text.len() - source.rest.len()];
    parsed.map_err(|what| At::line(piece.line + read.matches('\n').count(), what))
}

struct Source<'a> {
    rest: &'a str,
    world: &'a World,
    labels: &'a [BTreeMap<String, u64>],
}

impl<'a> Source<'a> {
    fn take(&mut self, what: &str) -> bool {
        let trimmed = self.rest.trim_start();
        match trimmed.strip_prefix(what) {
            Some(rest) => self.rest = rest,
            None => return false,
        }
        true
    }

    /// Everything up to a letter of `ends` outside parentheses, trimmed.
    fn until(&mut self, ends: &[char]) -> &'a str {
        let text = self.rest;
        let mut depth = 0;
        let mut end = text.len();
        for (at, letter) in text.char_indices() {
            if depth == 0 && (ends.contains(&letter) || text[at..].starts_with("/\\") || text[at..].starts_with("\\/"))
            {
                end = at;
                break;
            }
            depth += match letter {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
        }
        self.rest = &text[end..];
        text[..end].trim()
    }

    fn whole(&mut self) -> Result<(Quantifier, Condition), String> {
        if self.take("locations") {
            self.rest = self.rest.split_once(']').ok_or("`locations` has no `]`")?.1;
            self.take(";");
            return self.whole();
        }
        let quantifier = if self.take("exists") || self.take("~exists") {
            Quantifier::Exists
        } else if self.take("forall") {
            Quantifier::Forall
        } else {
            let found = self.rest.split_whitespace().next().unwrap_or("nothing");
            return Err(format!("`{found}` is not supported here, expected `exists`, `~exists` or `forall`"));
        };
        let condition = self.either()?;
        if !self.rest.trim().is_empty() {
            return Err(format!("`{}` is left over", self.rest.trim()));
        }
        Ok((quantifier, condition))
    }

    fn either(&mut self) -> Result<Condition, String> {
        let mut left = self.both()?;
        while self.take("\\/") {
            left = Condition::Or(Box::new(left), Box::new(self.both()?));
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Condition, String> {
        let mut left = self.one()?;
        while self.take("/\\") {
            left = Condition::And(Box::new(left), Box::new(self.one()?));
        }
        Ok(left)
    }

    fn one(&mut self) -> Result<Condition, String> {
        if self.take("~") || self.take("not ") {
            return Ok(Condition::Not(Box::new(self.one()?)));
        }
        if self.take("(") {
            let inner = self.either()?;
            return if self.take(")") { Ok(inner) } else { Err("a `)` is missing".to_owned()) };
        }
        if self.take("fault") || self.take("Fault") {
            return self.fault();
        }
        if self.take("true") {
            return Ok(Condition::Constant(true));
        }
        let place = self.until(&['=', ')']);
        if !self.take("=") {
            return Err(match place {
                "" => "expected `PLACE=VALUE` or `fault(…)`".to_owned(),
                _ => format!("expected `=` after `{place}`"),
            });
        }
        self.rest = self.rest.trim_start();
        let text = self.until(&[')']);
        self.equal(place, text)
    }

    fn equal(&self, place: &str, text: &str) -> Result<Condition, String> {
        let place = place.strip_prefix('[').and_then(|place| place.strip_suffix(']')).unwrap_or(place).trim();
        let owner = descriptor_of(place);
        let right = match text.strip_prefix("label:") {
            Some(label) => self.label(label.trim_matches('"'))?.1,
            None => Some(value(text, self.world, owner)?),
        };
        let right = Term::Constant(right.ok_or_else(|| format!("`{text}` names no label"))?);
        if let Some((thread, register)) = place.split_once(':') {
            let number = register.strip_prefix(['X', 'x', 'W', 'w']).and_then(|number| number.parse().ok());
            let number: u8 = number.filter(|it| *it < 31).ok_or_else(|| format!("`{register}` is no register"))?;
            return Ok(Condition::Equal(Term::Register(self.thread(thread)?, General(number)), right));
        }
        let (unknown, mut right) = (|name: &str| format!("`{name}` is no variable"), right);
        let left = match owner {
            Some(name) => Term::Memory(self.world.slot(name).ok_or_else(|| unknown(name))?, Width::Double),
            None => {
                let physical = self.world.physical(place).ok_or_else(|| unknown(place))?;
                // A number below zero is one of the variable's own width.
                if let (Width::Word, Term::Constant(it)) = (self.world.width(place), right) {
                    right = Term::Constant(it & u64::from(u32::MAX));
                }
                Term::Memory(physical, self.world.width(place))
            }
        };
        Ok(Condition::Equal(left, right))
    }

    fn thread(&self, text: &str) -> Result<usize, String> {
        let number = text.trim().trim_start_matches('P').parse().ok().filter(|number| *number < self.labels.len());
        number.ok_or_else(|| format!("there is no thread `{text}`"))
    }

    /// `P0:L0` or `P0`.
    fn label(&self, text: &str) -> Result<(usize, Option<u64>), String> {
        let Some((thread, label)) = text.split_once(':') else { return Ok((self.thread(text)?, None)) };
        let thread = self.thread(thread)?;
        let place = self.labels[thread].get(label.trim()).copied();
        Ok((thread, Some(place.ok_or_else(|| format!("label `{label}` is not defined"))?)))
    }

    /// `(P0:L0,x,MMU:Translation)`, of which only the thread must be given.
    fn fault(&mut self) -> Result<Condition, String> {
        if !self.take("(") {
            return Err("expected `(` after `fault`".to_owned());
        }
        let arguments = self.until(&[')']);
        if !self.take(")") {
            return Err("a `)` is missing".to_owned());
        }
        let mut parts = arguments.split(',').map(str::trim);
        let (thread, place) = self.label(parts.next().unwrap_or_default())?;
        let (mut address, mut kind) = (None, None);
        for part in parts {
            match part.strip_prefix("MMU:") {
                Some("Translation") => kind = Some(FaultKind::Translation),
                Some("Permission") => kind = Some(FaultKind::Permission),
                Some("AccessFlag") => kind = Some(FaultKind::AccessFlag),
                Some(other) => return Err(format!("fault `{other}` is not known")),
                None => address = Some(value(part, self.world, None)?),
            }
        }
        Ok(Condition::Fault { thread, place, address, kind })
    }
}
