//! A program's thread, as the dispatcher and waits see it.

use core::cell::Cell;

use super::signals::{SIGKILL, Signal};
use super::stacks::Stack;
use super::task::Task;
use super::{alarms, sending, space};
use crate::fallible::{Arc, try_box};
use crate::threads::dispatcher::{self, interrupts_open};
use crate::threads::thread::{Body, Owner, Thread};

impl Task {
    /// A thread for it, which does not run yet, with SIMD registers of zeros; none if there is no memory for its stack.
    pub(crate) fn thread(mut self, number: i32, thread_pointer: u64, body: Body) -> Option<Arc<Thread>> {
        let stack = Stack::take()?;
        let end = stack.end();
        self.stack = Cell::new(Some(stack));
        let owner = try_box(self).ok()?;
        // SAFETY: the stack is its own until `end`.
        unsafe { Thread::new(number, owner, end, dispatcher::begin, thread_pointer, body) }.ok()
    }
}

impl Owner for Task {
    fn is_interrupted(&self) -> bool {
        let (open, of_process) = (self.open(), self.process.pending.set());
        self.pending.set() & open != 0
            || of_process & open != 0 && self.takes_one_of(of_process & open)
            || self.process.is_ending()
            || self.is_over()
    }

    fn is_dying(&self) -> bool {
        if self.process.is_ending() || self.is_over() {
            return true;
        }
        let waiting = (self.pending.set() | self.process.pending.set()) & !self.mask();
        waiting & SIGKILL.bit() != 0
            || waiting != 0
                && self.process.actions.with(|actions| Signal::all(waiting).any(|one| actions[one.index()].ends(one)))
    }

    fn is_held(&self) -> bool {
        if self.process.stops.by().is_none() || self.process.is_ending() || self.is_over() {
            return false;
        }
        sending::tell_once_left(&self.process);
        !self.is_killed()
    }

    fn enter(&self) {
        // It has none any more where it tells others of its end.
        let before = self.process.try_space().map_or_else(space::leave, space::enter);
        if let Some(before) = before {
            interrupts_open(|| drop(before));
        }
    }

    fn leave(&self) {
        self.sequences.note_leaving();
    }

    fn tick(&self, number: i32) {
        alarms::tick(&self.process, number);
    }

    fn has_run(&self, number: i32) {
        alarms::fire_by_running(self.process.number, number);
    }

    fn end(&self) {
        if let Some(stack) = self.stack.take() {
            stack.give();
        }
    }
}
