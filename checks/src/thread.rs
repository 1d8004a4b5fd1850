//! A program under way: a coroutine of one CPU, be it what the CPU runs or an interrupt of it.

use std::hash::Hash;
use std::rc::Rc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use machine::seed::Digest;

use crate::cpu::Cpu;
use crate::linear::Place;
use crate::mutation::Mutation;
use crate::program::{self, Part};
use crate::request::{Asked, Reply};
use crate::scenario::Scenario;

/// Bytes of a coroutine's stack.
const STACK_BYTES: usize = 256 << 10;

/// A program under way.
pub(crate) struct Thread {
    /// None once it has ended for good.
    coroutine: Option<Coroutine<Reply, Asked, ()>>,
    part: Part,
    pub(crate) pending: Option<Asked>,
    pub(crate) digest: Digest,
}

pub(crate) fn new_stack() -> DefaultStack {
    DefaultStack::new(STACK_BYTES).expect("the host has memory for a stack")
}

impl Thread {
    /// The program of `part` at its first step. What programs hold in common is at `place`.
    pub(crate) fn new(
        scenario: &Rc<Scenario>,
        mutation: Option<Mutation>,
        part: Part,
        place: &Place,
        stack: DefaultStack,
    ) -> Self {
        let (scenario, place) = (Rc::clone(scenario), Rc::clone(place));
        let coroutine = Coroutine::with_stack(stack, move |yielder, _| {
            program::run(&Cpu::new(yielder, mutation), &scenario, part, &place);
        });
        Self { coroutine: Some(coroutine), part, pending: None, digest: Digest::new() }
    }

    /// The CPU that it runs on.
    pub(crate) const fn cpu(&self) -> u8 {
        self.part.cpu()
    }

    /// Whether it is the CPU's program, which an interrupt holds up.
    pub(crate) const fn is_program(&self) -> bool {
        !matches!(self.part, Part::Interrupt(..))
    }

    /// Gives the program its answer, and takes its next question.
    pub(crate) fn advance(&mut self, reply: Reply) {
        reply.hash(&mut self.digest);
        self.pending = match self.coroutine.as_mut().map(|coroutine| coroutine.resume(reply)) {
            Some(CoroutineResult::Yield(asked)) => Some(asked),
            Some(CoroutineResult::Return(())) | None => None,
        };
    }

    /// Ends the program where it stands; its stack can be used again, which saves asking the host for another.
    pub(crate) fn end(&mut self) -> DefaultStack {
        match self.coroutine.take() {
            None => new_stack(),
            Some(mut coroutine) => {
                coroutine.force_unwind();
                coroutine.into_stack()
            }
        }
    }
}
