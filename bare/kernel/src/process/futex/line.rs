//! Who waits for one word, in the order in which they came: to enter and to leave takes no memory, and as long however many there are.

use core::cell::Cell;
use core::mem;
use core::sync::atomic::AtomicBool;

use crate::fallible::{Arc, NoMemory};
use crate::threads::thread::Thread;

/// Which word: of an address space, or of a file that several map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::process) struct Key(pub(super) u64, pub(super) u64);

impl Key {
    /// None is before it.
    pub(in crate::process) const FIRST: Self = Self(0, 0);
}

pub(super) struct Waiter {
    pub(super) thread: Arc<Thread>,
    pub(super) bits: u32,
    pub(super) is_woken: AtomicBool,
    /// What it waits for, while it is in a line.
    pub(super) key: Cell<Key>,
    is_in_line: Cell<bool>,
    /// Its neighbours in the line. Of those that were taken out together, the one before: whoever took them has it.
    pub(super) before: Cell<Option<Arc<Waiter>>>,
    behind: Cell<Option<Arc<Waiter>>>,
}

// SAFETY: whoever reaches a cell has the table's lock, or has taken the waiter out of it.
unsafe impl Sync for Waiter {}
// SAFETY: as above.
unsafe impl Send for Waiter {}

impl Waiter {
    pub(super) fn new(thread: Arc<Thread>, bits: u32, key: Key) -> Result<Arc<Self>, NoMemory> {
        Arc::try_new(Self {
            thread,
            bits,
            is_woken: AtomicBool::new(false),
            key: Cell::new(key),
            is_in_line: Cell::new(false),
            before: Cell::new(None),
            behind: Cell::new(None),
        })
    }
}

#[derive(Default)]
pub(super) struct Line {
    first: Option<Arc<Waiter>>,
    last: Option<Arc<Waiter>>,
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn push(&mut self, waiter: Arc<Waiter>) {
        waiter.is_in_line.set(true);
        let before = self.last.replace(waiter.clone());
        match &before {
            Some(before) => before.behind.set(Some(waiter.clone())),
            None => self.first = Some(waiter.clone()),
        }
        waiter.before.set(before);
    }

    /// Takes a waiter out, if it is in this line.
    pub(super) fn remove(&mut self, waiter: &Waiter) {
        if !waiter.is_in_line.replace(false) {
            return;
        }
        let (before, behind) = (waiter.before.take(), waiter.behind.take());
        match &before {
            Some(before) => before.behind.set(behind.clone()),
            None => self.first = behind.clone(),
        }
        match behind {
            Some(behind) => behind.before.set(before),
            None => self.last = before,
        }
    }

    /// Has all of another line stand behind these.
    pub(super) fn append(&mut self, other: Self) {
        let Some(first) = other.first else { return };
        let before = mem::replace(&mut self.last, other.last);
        match &before {
            Some(before) => before.behind.set(Some(first.clone())),
            None => self.first = Some(first.clone()),
        }
        first.before.set(before);
    }

    /// Takes out waiters for which `is_meant` holds, up to `most`, and gives them to `sink`.
    pub(super) fn take(&mut self, most: usize, is_meant: impl Fn(&Waiter) -> bool, mut sink: impl FnMut(Arc<Waiter>)) {
        let (mut next, mut left) = (self.first.clone(), most);
        while left > 0
            && let Some(waiter) = next
        {
            next = waiter.behind.take();
            waiter.behind.set(next.clone());
            if is_meant(&waiter) {
                self.remove(&waiter);
                sink(waiter);
                left -= 1;
            }
        }
    }
}
