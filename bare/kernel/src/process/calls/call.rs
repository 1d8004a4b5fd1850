//! One system call: how it is made, and its row in the table.

use hardware::exception::Frame;

use crate::errno::{Answer, EPERM, Errno};
use crate::fallible::Arc;
use crate::process::table::Process;
use crate::threads::thread::Thread;

/// The call has set all registers itself.
pub(super) const NO_ANSWER: Errno = Errno(0);

/// One call: its number, its name, and what it does.
pub(super) type Row = (u64, &'static str, fn(&mut Call, [u64; 6]) -> Answer);

/// A call that is being made.
pub(crate) struct Call<'c> {
    pub(crate) thread: &'c Arc<Thread>,
    pub(crate) frame: &'c mut Frame,
    /// What every thread of a program goes on with, a new one too.
    pub(crate) body: fn(Frame),
}

impl Call<'_> {
    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.thread.task().process
    }

    /// Refuses to others than root what is the whole machine's.
    pub(super) fn check_root(&self) -> Result<(), Errno> {
        if self.process().users.with(|users| users.is_root()) { Ok(()) } else { Err(EPERM) }
    }

    /// Refuses to others than root what is another user's: when its threads run.
    pub(super) fn check_owner(&self, thread: &Thread) -> Result<(), Errno> {
        let theirs = thread.task().process.users.with(|users| users.user);
        let is_own = |own: u32| own == theirs.effective || own == theirs.real;
        if is_own(self.process().users.with(|users| users.user.effective)) { Ok(()) } else { self.check_root() }
    }
}
