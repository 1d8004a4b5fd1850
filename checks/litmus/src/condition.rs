//! What a test asks of its final states.

use a64::instruction::{General, Width};
use a64::interpreter::{Cause, Core};
use a64::registers::System;

/// Something with a value in a final state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Term {
    /// A constant.
    Constant(u64),
    /// A general-purpose register of a thread.
    Register(usize, General),
    /// Some of its bits.
    Part(usize, General, u64),
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
    /// A thread took an exception: at this instruction, for this address, for this cause, where given.
    Fault {
        /// Thread.
        thread: usize,
        /// Address of the instruction.
        place: Option<u64>,
        /// An address, and the bits of it that count.
        address: Option<(u64, u64)>,
        /// Why.
        cause: Option<Cause>,
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
            Self::Part(thread, register, mask) => end.cores[thread].general(register) & mask,
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
            Self::Fault { thread, place, address, cause } => end.cores[*thread].taken().iter().any(|taken| {
                let is_there = |(address, mask)| taken.address.is_some_and(|it| it & mask == address & mask);
                place.is_none_or(|place| place == taken.place)
                    && address.is_none_or(is_there)
                    && cause.is_none_or(|cause| cause == taken.cause)
            }),
            Self::Not(inner) => !inner.holds(end),
            Self::And(left, right) => left.holds(end) && right.holds(end),
            Self::Or(left, right) => left.holds(end) || right.holds(end),
        }
    }

    /// The greatest thread that it speaks of.
    pub fn last_thread(&self) -> usize {
        let of_term = |term: &Term| match term {
            Term::Register(thread, _) | Term::Part(thread, ..) | Term::Place(thread) | Term::System(thread, _) => {
                *thread
            }
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
