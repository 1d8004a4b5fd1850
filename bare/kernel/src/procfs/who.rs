//! Whose folder of `/proc` a place is in.

use alloc::string::String;

use crate::errno::{ENOENT, Errno};
use crate::fallible::{Arc, NoMemory, try_format};
use crate::files::open::File;
use crate::process::table::{self, Process};
use crate::threads::thread::Thread;

/// Whose folder: a process', or that of one of its threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Who {
    pub(super) process: i32,
    pub(super) thread: Option<i32>,
}

impl Who {
    pub(super) const fn process(process: i32) -> Self {
        Self { process, thread: None }
    }

    pub(super) fn find(self) -> Result<Arc<Process>, Errno> {
        table::find(self.process)
    }

    /// The thread whose folder it is.
    pub(super) fn thread(self) -> Result<Option<Arc<Thread>>, Errno> {
        let Some(number) = self.thread else { return Ok(None) };
        self.find()?.thread(number).map(Some).ok_or(ENOENT)
    }

    pub(super) fn path(self) -> Result<String, NoMemory> {
        match self.thread {
            None => try_format!("/proc/{}", self.process),
            Some(thread) => try_format!("/proc/{}/task/{thread}", self.process),
        }
    }

    pub(super) fn open_file(self, which: usize) -> Result<Arc<File>, Errno> {
        self.find()?.files.with(|files| files.get(which as i32).map(|found| found.file.clone()))
    }
}
