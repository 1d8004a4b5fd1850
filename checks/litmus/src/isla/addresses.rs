//! Which addresses names get: pages in the order of their declaration, moved where an assertion asks for that.

use std::collections::BTreeMap;

use super::expression::Expression;
use super::initial::Initial;
use super::statements::{Kind, Mapping, Placed, Statement, Target};
use crate::error::{At, Wrong, refused};
use crate::layout;
use crate::tables::{PAGE, size};

/// How often an assertion may undo what another one did.
const TRIES: usize = 8;

/// Gives every name an address; `symbolic` names are virtual. Whatever a block leads to is aligned to its size.
pub(super) fn place(initial: &mut Initial, all: &[Placed<'_>], symbolic: &[String]) -> Result<(), At> {
    let mut aligns: BTreeMap<&str, u64> = BTreeMap::new();
    let mut order: Vec<(&str, Kind)> = symbolic.iter().map(|name| (name.as_str(), Kind::Virtual)).collect();
    for placed in all {
        match placed.statement {
            Statement::Declare { kind, names, align } => {
                order.extend(names.iter().map(|name| (name.as_str(), *kind)));
                names.iter().for_each(|name| raise(&mut aligns, name, *align));
            }
            Statement::Map(Mapping { target: Target::To(Expression::Name(name)), level, .. }) => {
                let kind = if initial.kinds.contains_key(name) { None } else { Some(Kind::Physical) };
                order.extend(kind.map(|kind| (name.as_str(), kind)));
                raise(&mut aligns, name, if *level == 3 { 1 } else { size(*level) });
            }
            _ => {}
        }
    }
    let mut next = [layout::VIRTUAL, layout::INTERMEDIATE, layout::PHYSICAL];
    for (name, kind) in order {
        if !initial.names.contains_key(name) {
            let next = &mut next[kind as usize];
            let address = next.next_multiple_of(aligns.get(name).copied().unwrap_or(1));
            initial.names.insert(name.to_owned(), address);
            initial.kinds.insert(name.to_owned(), kind);
            *next = address + PAGE;
        }
    }
    for _ in 0..TRIES {
        for placed in all {
            if let Statement::Assert(asserted) = placed.statement {
                fulfil(initial, asserted).map_err(|wrong| At::line(placed.line, wrong))?;
            }
        }
    }
    for placed in all {
        match placed.statement {
            Statement::Assert(asserted) if initial.value(asserted) != Ok(1) => {
                let wrong = refused("assert", "no addresses were found that fulfil this");
                return Err(At::line(placed.line, wrong));
            }
            // Names of one declaration are different addresses.
            Statement::Declare { names, .. } => {
                let mut addresses: Vec<u64> = names.iter().map(|name| initial.names[name]).collect();
                addresses.sort_unstable();
                addresses.dedup();
                if addresses.len() < names.len() {
                    return Err(At::line(placed.line, refused("assert", "two of these names have one address")));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn raise<'a>(aligns: &mut BTreeMap<&'a str, u64>, name: &'a str, align: u64) {
    let known = aligns.entry(name).or_insert(1);
    *known = (*known).max(align);
}

/// Moves a name of `asserted`, if that is not fulfilled: the right one of two, or the left one where the right is none.
fn fulfil(initial: &mut Initial, asserted: &Expression) -> Result<(), Wrong> {
    let (left, right, is_denied) = match asserted {
        Expression::Both(left, right) => {
            fulfil(initial, left)?;
            return fulfil(initial, right);
        }
        Expression::Equal(left, right, is_denied) => (left, right, *is_denied),
        _ => return Err(refused("assert", "such an assertion is not understood")),
    };
    if initial.value(asserted)? == 1 {
        return Ok(());
    }
    let (value, other) = (initial.value(left)?, initial.value(right)?);
    match (part(initial, right), part(initial, left)) {
        (Some((name, high, low)), _) => move_to(initial, &name, high, low, if is_denied { other ^ 1 } else { value }),
        (None, Some((name, high, low))) => {
            move_to(initial, &name, high, low, if is_denied { value ^ 1 } else { other })
        }
        (None, None) => {}
    }
    Ok(())
}

/// The name that an expression is about, and which of its bits; a page of its own makes two whole addresses different.
fn part(initial: &Initial, expression: &Expression) -> Option<(String, u32, u32)> {
    let (inner, high, low) = match expression {
        Expression::Slice(inner, high, low) => (&**inner, *high, *low),
        other => (other, 63, 0),
    };
    match inner {
        Expression::Name(name) if initial.names.contains_key(name) => Some((name.clone(), high, low)),
        _ => None,
    }
}

fn move_to(initial: &mut Initial, name: &str, high: u32, low: u32, value: u64) {
    if let Some(address) = initial.names.get_mut(name) {
        let mask = u64::MAX >> (63 - (high - low)) << low;
        *address = *address & !mask | value << low & mask;
    }
}
