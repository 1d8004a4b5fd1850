//! Locks of ranges of files, for everybody who shares a table of descriptors (F_SETLK).
//!
//! ```text
//! asked for ──another's in the way?──▶ refused
//!                        └─▶ cut out of the owner's locks ──▶ had, merged with its neighbours
//! ```

use alloc::vec::Vec;
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicUsize, Ordering};

use userspace::Map;

use super::inode::Inode;
use crate::errno::{ENOLCK, Errno};
use crate::locks::{OpenLock, order};

/// Where a range ends that goes to the end of all files.
pub(crate) const LAST: u64 = i64::MAX as u64;
/// Locks that a file may have: all of them are looked at for each.
const MOST: usize = 1 << 14;

/// The owner of a lock: the table of descriptors at this address, or 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner(usize);

impl Owner {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn table<T>(table: &T) -> Self {
        Self(core::ptr::from_ref(table) as usize)
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

struct State {
    /// By the numbers of files.
    held: Map<u64, Vec<Held>>,
}

static ALL: OpenLock<State> = OpenLock::new(order::LOCKS, State { held: Map::new() });
/// Files that have locks: mostly none has.
static COUNT: AtomicUsize = AtomicUsize::new(0);

impl State {
    /// Changes the locks of a file, if there is room for two more.
    fn change(&mut self, key: u64, change: impl FnOnce(&mut Vec<Held>)) -> Result<(), Errno> {
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

    fn in_the_way(&self, key: u64, wanted: &Held) -> Option<&Held> {
        self.held.get(&key)?.iter().find(|held| held.is_in_the_way(wanted))
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
pub(crate) fn find(inode: &Inode, wanted: &Held) -> Option<Held> {
    ALL.with(|all| all.in_the_way(inode.number, wanted).cloned())
}

/// Takes a lock: `Ok(false)` if another's is in the way.
pub(crate) fn take(inode: &Inode, wanted: &Held) -> Result<bool, Errno> {
    let key = inode.number;
    ALL.with(|all| {
        if all.in_the_way(key, wanted).is_some() {
            return Ok(false);
        }
        if all.held.get(&key).is_some_and(|held| held.len() >= MOST) {
            return Err(ENOLCK);
        }
        all.change(key, |held| put(held, wanted.clone())).map(|()| true)
    })
}

/// Gives up what an owner has of a range.
pub(crate) fn release(inode: &Inode, owner: Owner, range: RangeInclusive<u64>) -> Result<(), Errno> {
    ALL.with(|all| all.change(inode.number, |held| cut(held, owner, &range)))
}

/// Gives up all that an owner has of a file, which takes no memory.
pub(crate) fn forget(inode: &Inode, owner: Owner) {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    ALL.with(|all| {
        if let Some(held) = all.held.get_mut(&inode.number) {
            held.retain(|one| one.owner != owner);
            if held.is_empty() {
                all.held.remove(&inode.number);
            }
        }
        all.settle();
    });
}
