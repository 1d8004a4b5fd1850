//! What a test asks of its final states.

use a64::instruction::{General, Width};
use a64::interpreter::Core;
use a64::registers::System;
use machine::syndrome::FaultKind;

/// Something with a value in a final state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Term {
    /// A constant.
    Constant(u64),
    /// A general-purpose register of a thread.
    Register(usize, General),
    /// Where a thread ended.
    Place(usize),
    /// A system register of a thread.
    System(usize, System),
    /// Memory, by physical address.
    Memory(u64, Width),
}

/// A predicate over final states.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Condition {
    /// Always or never.
    Constant(bool),
    /// Equality.
    Equal(Term, Term),
    /// A thread took a fault: at this instruction, for this page, of this kind, where given.
    Fault {
        /// Thread.
        thread: usize,
        /// Address of the instruction.
        place: Option<u64>,
        /// An address in the page.
        address: Option<u64>,
        /// Why.
        kind: Option<FaultKind>,
    },
    /// Not.
    Not(Box<Self>),
    /// Both.
    And(Box<Self>, Box<Self>),
    /// Either.
    Or(Box<Self>, Box<Self>),
}

/// A final state.
#[derive(Clone, Copy)]
pub struct End<'a> {
    /// The threads.
    pub cores: &'a [Core],
    /// Memory: a word by physical address.
    pub word: &'a dyn Fn(u64) -> u64,
}

impl Term {
    fn value(&self, end: &End<'_>) -> u64 {
        match *self {
            Self::Constant(value) => value,
            Self::Register(thread, register) => end.cores[thread].general(register),
            Self::Place(thread) => end.cores[thread].place(),
            Self::System(thread, register) => end.cores[thread].system(register),
            Self::Memory(address, width) => (end.word)(address & !7) >> ((address & 7) * 8) & width.mask(),
        }
    }
}

impl Condition {
    /// True when it holds in `end`.
    pub fn holds(&self, end: &End<'_>) -> bool {
        match self {
            Self::Constant(value) => *value,
            Self::Equal(left, right) => left.value(end) == right.value(end),
            Self::Fault { thread, place, address, kind } => end.cores[*thread].taken().iter().any(|taken| {
                place.is_none_or(|place| place == taken.place)
                    && address.is_none_or(|address| address >> 12 == taken.address >> 12)
                    && kind.is_none_or(|kind| kind == taken.kind)
            }),
            Self::Not(inner) => !inner.holds(end),
            Self::And(left, right) => left.holds(end) && right.holds(end),
            Self::Or(left, right) => left.holds(end) || right.holds(end),
        }
    }

    /// The greatest thread that it speaks of.
    pub fn last_thread(&self) -> usize {
        let of_term = |term: &Term| match term {
            Term::Register(thread, _) | Term::Place(thread) | Term::System(thread, _) => *thread,
            Term::Constant(_) | Term::Memory(..) => 0,
        };
        match self {
            Self::Constant(_) => 0,
            Self::Equal(left, right) => of_term(left).max(of_term(right)),
            Self::Fault { thread, .. } => *thread,
            Self::Not(inner) => inner.last_thread(),
            Self::And(left, right) | Self::Or(left, right) => left.last_thread().max(right.last_thread()),
        }
    }
}
