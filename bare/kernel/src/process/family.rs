//! What is so of several processes at once: whose children they are, their groups, and that each address space is known.

use core::sync::atomic::Ordering;

use super::space::Space;
use super::table::{INIT, Process, all, find};
use crate::fallible::Arc;
use crate::locks::order;
use crate::threads::mutex::Mutex;
use crate::threads::parted::Parted;

/// Had by whoever changes which processes there are, whose children they are, and their groups: what was looked at stays so until it has been
/// acted on.
pub(crate) static FAMILY: Mutex<()> = Mutex::new(order::FAMILY, ());

/// Had in part while an address space is made of another, and is not in the table yet.
static SPACES: Parted<()> = Parted::new(order::SPACES, ());

/// Gives `each` all address spaces. None is copied meanwhile, so that there is none that has what was there before and is not given.
pub(crate) fn for_each_space(each: impl FnMut(Arc<dyn Space>)) {
    SPACES.with(|()| all().filter_map(|process| process.try_space()).for_each(each));
}

/// Runs `body`, which copies an address space and puts the process that has the copy into the table.
pub(crate) fn with_new_space<T>(body: impl FnOnce() -> T) -> T {
    SPACES.with_part(hardware::per_cpu::index(), |()| body())
}

impl Process {
    /// Whose its children become when it is over.
    pub(super) fn reaper(&self) -> i32 {
        let mut parent = self.parent();
        while let Ok(process) = find(parent) {
            if process.is_reaper.load(Ordering::Relaxed) && !process.is_ending() {
                return parent;
            }
            parent = process.parent();
        }
        INIT
    }

    /// Its children.
    pub(crate) fn children(&self) -> impl Iterator<Item = Arc<Process>> {
        all().filter(|process| process.parent() == self.number)
    }
}
