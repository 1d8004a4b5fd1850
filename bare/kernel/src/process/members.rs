//! The threads of a process: their names, and the one that goes on without the others.

use alloc::string::String;

use super::table::{Process, wake};
use crate::errno::{EINTR, Errno};
use crate::fallible::Arc;
use crate::threads::dispatcher;
use crate::threads::thread::Thread;
use crate::threads::waiters::wait;

impl Process {
    /// Has all its threads end but this one, of which it is told as of no other; waits until they have.
    pub(super) fn go_on_alone(&self, thread: &Thread) -> Result<(), Errno> {
        let others = || self.threads().filter(|one| !core::ptr::eq(&**one, thread));
        let is_alone = || {
            // Another thread may have been the first to ask for this.
            if self.life.with(|life| life.go_on_alone(thread, thread.task().is_over())) {
                others().for_each(|one| _ = self.life.with(|life| life.leave(&one.task().is_over)));
            }
            let is_alone = self.life.with(|life| life.is_alone(thread));
            if !is_alone {
                wake(others());
            }
            is_alone.then_some(())
        };
        // Signals come later: there is no way back.
        while wait(&[&self.waiters], None, is_alone).is_err() {
            if self.is_ending() || thread.task().is_over() {
                return Err(EINTR);
            }
            dispatcher::give_way();
        }
        Ok(())
    }

    /// Passes `body` what a thread is called; the first has its process' name.
    pub(crate) fn with_name<T>(&self, thread: Option<&Arc<Thread>>, body: impl FnOnce(&str) -> T) -> T {
        match thread {
            Some(thread) if thread.number() != self.number => thread.task().name.with(|name| body(name)),
            _ => self.image.with(|image| body(&image.name)),
        }
    }

    pub(crate) fn set_name(&self, thread: Option<&Arc<Thread>>, name: String) {
        match thread {
            Some(thread) if thread.number() != self.number => thread.task().name.with(|place| *place = name),
            _ => self.image.with(|image| image.name = name),
        }
    }
}
