//! Locks of files: of ranges, for who shares a table of descriptors (F_SETLK) or an open file (F_OFD_SETLK), and of whole files (`flock`).
//!
//! ```text
//! asked for ──another's in the way?──▶ refused, or waits ──▶ cut out of what the owner has ──▶ had, merged with its neighbours
//! ```

use alloc::vec::Vec;
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicUsize, Ordering};

use userspace::Map;

use super::inode::Inode;
use crate::fallible::List;
use crate::locks::{OpenLock, order};
use crate::process::errno::{EDEADLK, ENOLCK, Errno};
use crate::threads::waiters::{Interrupted, Waiters, wait};

/// Where a range ends that goes to the end of all files.
pub(crate) const LAST: u64 = i64::MAX as u64;
/// Locks that a file may have: all of them are looked at for each.
const MOST: usize = 1 << 14;
/// Owners that are looked at, each waiting for the next.
const LONGEST_CHAIN: usize = 10;

/// Who has a lock: what is at this address, and so there is only one of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// Who shares these descriptors.
    Table(usize),
    /// Who shares this open file.
    File(usize),
}

impl Owner {
    pub(crate) fn table<T>(table: &T) -> Self {
        Self::Table(core::ptr::from_ref(table) as usize)
    }

    pub(crate) fn file<T>(file: &T) -> Self {
        Self::File(core::ptr::from_ref(file) as usize)
    }
}

/// A lock.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) owner: Owner,
    /// The process that asked for it.
    pub(crate) process: i32,
    pub(crate) range: RangeInclusive<u64>,
    /// Nobody else may have one that meets it.
    pub(crate) is_exclusive: bool,
}

impl Held {
    fn meets(&self, other: &Self) -> bool {
        self.range.start() <= other.range.end() && other.range.start() <= self.range.end()
    }

    /// Whether another may not have this as well.
    fn is_in_the_way(&self, other: &Self) -> bool {
        self.owner != other.owner && self.meets(other) && (self.is_exclusive || other.is_exclusive)
    }
}

/// Which locks: those of ranges and those of whole files do not see each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Ranges,
    Whole,
}

struct State {
    held: Map<(u64, Kind), Vec<Held>>,
    /// Who waits for whom.
    waiting: Vec<(Owner, Owner)>,
}

static ALL: OpenLock<State> = OpenLock::new(order::LOCKS, State { held: Map::new(), waiting: Vec::new() });
/// Files that have locks: mostly none has.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static CHANGED: Waiters = Waiters::new();

impl State {
    /// Changes the locks of a file, if there is room for two more.
    fn change(&mut self, key: (u64, Kind), change: impl FnOnce(&mut Vec<Held>)) -> Result<(), Errno> {
        if !self.held.contains_key(&key) {
            self.held.insert(key, Vec::new()).map_err(|_| ENOLCK)?;
        }
        let Some(all) = self.held.get_mut(&key) else { return Err(ENOLCK) };
        let has_room = all.try_reserve(2).is_ok();
        if has_room {
            change(all);
        }
        if all.is_empty() {
            self.held.remove(&key);
        }
        self.settle();
        if has_room { Ok(()) } else { Err(ENOLCK) }
    }

    /// What is to be so after each change.
    fn settle(&self) {
        COUNT.store(self.held.len(), Ordering::Relaxed);
    }

    fn in_the_way(&self, key: (u64, Kind), wanted: &Held) -> Option<&Held> {
        self.held.get(&key)?.iter().find(|held| held.is_in_the_way(wanted))
    }

    /// Whether who is waited for waits, in the end, for `owner`.
    fn comes_back(&self, owner: Owner, first: Owner) -> bool {
        let mut at = first;
        (0..LONGEST_CHAIN).any(|_| match self.waiting.iter().find(|(who, _)| *who == at) {
            Some((_, next)) => {
                at = *next;
                at == owner
            }
            None => false,
        })
    }

    fn stop_waiting(&mut self, owner: Owner) {
        self.waiting.retain(|(who, _)| *who != owner);
        if self.waiting.is_empty() {
            self.waiting = Vec::new();
        }
    }
}

/// Takes a range out of what an owner has: of one lock two parts may be left, for which there is room.
fn cut(all: &mut Vec<Held>, owner: Owner, range: &RangeInclusive<u64>) {
    let (first, last) = (*range.start(), *range.end());
    let mut behind = None;
    all.retain_mut(|held| {
        let (start, end) = (*held.range.start(), *held.range.end());
        if held.owner != owner || end < first || last < start {
            return true;
        }
        if start < first && end > last {
            behind = Some(Held { range: last + 1..=end, ..held.clone() });
        }
        held.range = if start < first { start..=first - 1 } else { last.saturating_add(1)..=end };
        start < first || end > last
    });
    if let Some(behind) = behind {
        insert(all, behind);
    }
}

/// Adds a lock in the order of where they begin.
fn insert(all: &mut Vec<Held>, new: Held) {
    let place = all.partition_point(|held| held.range.start() <= new.range.start());
    // The comparison leaves the compiler no way to a list that grows: see `change`.
    if all.len() < all.capacity() && place <= all.len() {
        all.insert(place, new);
    }
}

/// Puts a lock to those that an owner has: with those of its kind beside it one, in the order of where they begin.
fn put(all: &mut Vec<Held>, mut new: Held) {
    cut(all, new.owner, &new.range);
    all.retain(|held| {
        let is_beside = held.range.end().saturating_add(1) == *new.range.start()
            || new.range.end().saturating_add(1) == *held.range.start();
        let merges = held.owner == new.owner && held.is_exclusive == new.is_exclusive && is_beside;
        if merges {
            new.range = *held.range.start().min(new.range.start())..=*held.range.end().max(new.range.end());
        }
        !merges
    });
    insert(all, new);
}

/// What is in the way of a lock.
pub(crate) fn find(inode: &Inode, kind: Kind, wanted: &Held) -> Option<Held> {
    ALL.with(|all| all.in_the_way((inode.number, kind), wanted).cloned())
}

/// Takes a lock: `Ok(false)` if it would have to wait and may not.
pub(crate) fn take(inode: &Inode, kind: Kind, wanted: &Held, waits: bool) -> Result<bool, Errno> {
    let key = (inode.number, kind);
    if kind == Kind::Whole {
        // It is given up first, whatever comes of it.
        forget(inode, kind, wanted.owner);
    }
    let try_once = || {
        ALL.with(|all| {
            all.stop_waiting(wanted.owner);
            let Some(other) = all.in_the_way(key, wanted).map(|held| held.owner) else {
                if all.held.get(&key).is_some_and(|held| held.len() >= MOST) {
                    return Some(Err(ENOLCK));
                }
                return Some(all.change(key, |held| put(held, wanted.clone())).map(|()| true));
            };
            if !waits {
                return Some(Ok(false));
            }
            let is_of_a_table = kind == Kind::Ranges && matches!(wanted.owner, Owner::Table(_));
            if is_of_a_table && all.comes_back(wanted.owner, other) {
                return Some(Err(EDEADLK));
            }
            let put = all.waiting.try_push((wanted.owner, other));
            put.err().map(|_| Err(ENOLCK))
        })
    };
    let taken = wait(&[&CHANGED], None, try_once);
    ALL.with(|all| all.stop_waiting(wanted.owner));
    // It may have been exclusive before, and be shared now.
    CHANGED.wake_all();
    match taken {
        Ok(taken) => taken,
        Err(Interrupted::Signal | Interrupted::Time) => Err(crate::process::errno::ERESTART),
    }
}

/// Gives up what an owner has of a range.
pub(crate) fn release(inode: &Inode, owner: Owner, range: RangeInclusive<u64>) -> Result<(), Errno> {
    ALL.with(|all| all.change((inode.number, Kind::Ranges), |held| cut(held, owner, &range)))?;
    CHANGED.wake_all();
    Ok(())
}

/// Gives up all that an owner has of a file, which takes no memory.
pub(crate) fn forget(inode: &Inode, kind: Kind, owner: Owner) {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    ALL.with(|all| {
        if let Some(held) = all.held.get_mut(&(inode.number, kind)) {
            held.retain(|one| one.owner != owner);
            if held.is_empty() {
                all.held.remove(&(inode.number, kind));
            }
        }
        all.settle();
    });
    CHANGED.wake_all();
}
