//! Conditions: `exists (0:X1=1 /\ ~fault(P1:L0,x,MMU:Translation) \/ pte_x=(oa:PA(y)))`.

use std::collections::BTreeMap;

use a64::instruction::{General, Width};
use a64::interpreter::Cause;
use machine::syndrome::FaultKind;

use super::init::{Initial, Place};
use super::source::Piece;
use super::token::{Token, Tokens};
use super::value::{Value, thread};
use crate::condition::{Condition, Term};
use crate::error::{At, Wrong, refused};
use crate::tables::PAGE;
use crate::test::Quantifier;

/// Reads what follows the code; `labels` are those of each thread.
pub(super) fn parse(
    piece: &Piece,
    initial: &Initial,
    labels: &[BTreeMap<String, u64>],
) -> Result<(Quantifier, Condition), At> {
    let mut source = Source { tokens: Tokens::read(&piece.text, piece.line)?, initial, labels };
    source.whole().map_err(|wrong| At::line(source.tokens.line(), wrong))
}

struct Source<'a> {
    tokens: Tokens<'a>,
    initial: &'a Initial,
    labels: &'a [BTreeMap<String, u64>],
}

impl Source<'_> {
    /// `locations […] filter … exists …;`, of which only one part must be there.
    fn whole(&mut self) -> Result<(Quantifier, Condition), Wrong> {
        let has_locations = self.tokens.take_word(&["locations"]);
        if has_locations {
            while !self.tokens.take("]") {
                if self.tokens.is_at_end() {
                    return Err("`locations` has no `]`".into());
                }
                self.tokens.step();
            }
            self.tokens.take(";");
        }
        let filter = if self.tokens.take_word(&["filter"]) { Some(self.either()?) } else { None };
        let is_denied = self.tokens.take("~");
        let quantifier = match self.tokens.peek(0) {
            None if has_locations && filter.is_none() => return Ok((Quantifier::Forall, Condition::Constant(true))),
            Some(Token::Word("exists")) => Quantifier::Exists,
            Some(Token::Word("forall")) if !is_denied => Quantifier::Forall,
            _ => {
                let found = self.tokens.next_text();
                return Err(format!("{found} is not supported here, expected `exists`, `~exists` or `forall`").into());
            }
        };
        self.tokens.step();
        let condition = self.either()?;
        self.tokens.take(";");
        if !self.tokens.is_at_end() {
            return Err(format!("{} is left over", self.tokens.next_text()).into());
        }
        // An execution that the filter drops neither shows nor denies anything.
        let condition = match (filter, quantifier) {
            (None, _) => condition,
            (Some(filter), Quantifier::Exists) => Condition::And(Box::new(filter), Box::new(condition)),
            (Some(filter), Quantifier::Forall) => implies(filter, condition),
        };
        Ok((quantifier, condition))
    }

    fn either(&mut self) -> Result<Condition, Wrong> {
        let mut left = self.both()?;
        while self.tokens.take("\\/") {
            left = Condition::Or(Box::new(left), Box::new(self.both()?));
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Condition, Wrong> {
        let mut left = self.implication()?;
        while self.tokens.take("/\\") {
            left = Condition::And(Box::new(left), Box::new(self.implication()?));
        }
        Ok(left)
    }

    fn implication(&mut self) -> Result<Condition, Wrong> {
        let left = self.one()?;
        if self.tokens.take("=>") { Ok(implies(left, self.implication()?)) } else { Ok(left) }
    }

    fn one(&mut self) -> Result<Condition, Wrong> {
        if self.tokens.take("~") || self.tokens.take_word(&["not"]) {
            return Ok(Condition::Not(Box::new(self.one()?)));
        }
        if self.tokens.take("(") {
            let inner = self.either()?;
            self.tokens.expect(")")?;
            return Ok(inner);
        }
        if self.tokens.take_word(&["fault", "Fault"]) {
            return self.fault();
        }
        if self.tokens.take_word(&["true"]) {
            return Ok(Condition::Constant(true));
        }
        if self.tokens.take_word(&["false"]) {
            return Ok(Condition::Constant(false));
        }
        self.comparison()
    }

    /// `0:X1=1`, `[x]<>2`, `x[1]=3`, `x={1,2}`, `0:X1=[x]`.
    fn comparison(&mut self) -> Result<Condition, Wrong> {
        if !matches!(self.tokens.peek(0), Some(Token::Word(_) | Token::Number(_) | Token::Sign("["))) {
            return Err(format!("expected `PLACE=VALUE` or `fault(…)` at {}", self.tokens.next_text()).into());
        }
        let place = Place::read(&mut self.tokens)?;
        let index = self.index()?;
        let is_denied = self.tokens.take("<>") || self.tokens.take("!=");
        if !is_denied && !self.tokens.take("=") && !self.tokens.take("==") {
            return Err(format!("expected `=` at {}", self.tokens.next_text()).into());
        }
        let condition = if self.tokens.take("{") { self.list(&place)? } else { self.equal(&place, index)? };
        Ok(if is_denied { Condition::Not(Box::new(condition)) } else { condition })
    }

    /// `[1]` behind the name of an array.
    fn index(&mut self) -> Result<u64, Wrong> {
        if !self.tokens.is_sign(0, "[") {
            return Ok(0);
        }
        self.tokens.step();
        let Some(Token::Number(index)) = self.tokens.peek(0) else { return Err("an index is no number".into()) };
        self.tokens.step();
        self.tokens.expect("]")?;
        u64::try_from(index).ok().filter(|it| *it < PAGE / 8).ok_or_else(|| format!("`{index}` is no index").into())
    }

    fn list(&mut self, place: &Place) -> Result<Condition, Wrong> {
        let mut all = Condition::Constant(true);
        for index in 0.. {
            if self.tokens.take("}") {
                break;
            }
            all = Condition::And(Box::new(all), Box::new(self.equal(place, index)?));
            self.tokens.take(",");
        }
        Ok(all)
    }

    fn equal(&mut self, place: &Place, index: u64) -> Result<Condition, Wrong> {
        // `[x]`, `*x` and `1:X0` are what is there, `x` is an address.
        let is_place = self.tokens.is_sign(0, "[")
            || self.tokens.take("*")
            || matches!(self.tokens.peek(0), Some(Token::Number(_))) && self.tokens.is_sign(1, ":");
        if is_place {
            let other = Place::read(&mut self.tokens)?;
            return Ok(Condition::Equal(self.term(place, index, None)?, self.term(&other, 0, None)?));
        }
        let value = Value::read(&mut self.tokens)?;
        let owner = if let Place::Slot(name) = place { Some(name.as_str()) } else { None };
        let bits = match &value {
            Value::Label(of, label) => self.label(*of, label)?,
            other => other.bits(&self.initial.variables, owner)?,
        };
        let term = self.term(place, index, Some(&value))?;
        let mask = match term {
            Term::Memory(_, width) => width.mask(),
            Term::Part(_, _, mask) => mask,
            _ => !0,
        };
        Ok(Condition::Equal(term, Term::Constant(bits & mask)))
    }

    /// What is at `place`, as far as `value` asks for it.
    fn term(&self, place: &Place, index: u64, value: Option<&Value>) -> Result<Term, Wrong> {
        let unknown = |name: &str| Wrong::from(format!("`{name}` is no variable"));
        match place {
            Place::Register(thread, number) => {
                let (of, register) = (self.thread(*thread)?, General(*number as u8));
                // A number below zero has 32 bits unless the register is said to have more.
                let is_short = matches!(value, Some(Value::Number(number)) if *number < 0);
                let is_short = is_short && !self.initial.is_double(*thread, *number);
                Ok(match (is_short, value.map_or(!0, Value::mask)) {
                    (true, _) => Term::Part(of, register, Width::Word.mask()),
                    (false, u64::MAX) => Term::Register(of, register),
                    (false, mask) => Term::Part(of, register, mask),
                })
            }
            Place::Slot(name) => {
                Ok(Term::Memory(self.initial.variables.slot(name).ok_or_else(|| unknown(name))?, Width::Double))
            }
            Place::Variable(name) => {
                let physical = self.initial.variables.physical(name).ok_or_else(|| unknown(name))?;
                let is_number = value.is_none_or(|value| matches!(value, Value::Number(_)));
                let width = if is_number { self.initial.width(name) } else { Width::Double };
                Ok(Term::Memory(physical + index * width.bytes(), width))
            }
        }
    }

    fn thread(&self, number: usize) -> Result<usize, Wrong> {
        if number < self.labels.len() { Ok(number) } else { Err(format!("there is no thread `{number}`").into()) }
    }

    fn label(&self, of: usize, label: &str) -> Result<u64, Wrong> {
        let place = self.labels[self.thread(of)?].get(label).copied();
        place.ok_or_else(|| format!("label `{label}` is not defined").into())
    }

    /// `(P0:L0,x,MMU:Translation)`, of which only the thread must be given.
    fn fault(&mut self) -> Result<Condition, Wrong> {
        self.tokens.expect("(")?;
        let word = self.tokens.word()?;
        let of = thread(word).ok_or_else(|| format!("there is no thread `{word}`"))?;
        let of = self.thread(of)?;
        let label = if self.tokens.take(":") { Some(self.tokens.word()?) } else { None };
        let place = label.map(|label| self.label(of, label)).transpose()?;
        let (mut address, mut cause) = (None, None);
        while self.tokens.take(",") {
            let word = self.tokens.word()?;
            match word {
                "SupervisorCall" => cause = Some(Cause::Call),
                "UndefinedInstruction" => cause = Some(Cause::Undefined),
                "MMU" | "D-MMU" => {
                    self.tokens.expect(":")?;
                    cause = Some(Cause::Access(kind(self.tokens.word()?)?));
                }
                "I-MMU" | "TagCheck" | "PacCheck" => {
                    return Err(refused(format!("fault {word}"), format!("fault `{word}` is not known here")));
                }
                _ => {
                    let value = Value::of_word(word, &mut self.tokens)?;
                    // A descriptor is a word, a variable has a page.
                    let mask = if matches!(value, Value::Slot(_)) { !7 } else { !(PAGE - 1) };
                    address = Some((value.bits(&self.initial.variables, None)?, mask));
                }
            }
        }
        self.tokens.expect(")")?;
        Ok(Condition::Fault { thread: of, place, address, cause })
    }
}

fn implies(left: Condition, right: Condition) -> Condition {
    Condition::Or(Box::new(Condition::Not(Box::new(left))), Box::new(right))
}

fn kind(name: &str) -> Result<FaultKind, Wrong> {
    Ok(match name {
        "Translation" => FaultKind::Translation,
        "Permission" => FaultKind::Permission,
        "AccessFlag" => FaultKind::AccessFlag,
        _ => return Err(refused(format!("fault MMU:{name}"), format!("fault `{name}` is not known"))),
    })
}
