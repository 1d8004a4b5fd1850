//! Futexes whose word says which thread has them (FUTEX_LOCK_PI): who lets go hands the word to who waits first, and so does who ends.
//! There are no priorities here that an owner could inherit.
//!
//! ```text
//! 0 ──lock──▶ owner ──lock by another──▶ owner, WAITERS ──unlock──▶ the first that waits, WAITERS
//!                                                      └─the owner ends──▶ the same, OWNER_DIED
//! ```

use crate::fallible::Arc;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hardware::lock::Lock;
use hardware::{timer, user};

use super::copies;
use super::errno::{Answer, EAGAIN, EDEADLK, EPERM, ERESTART_ALWAYS, ESRCH, ETIMEDOUT, Errno};
use super::futex::{self, Key, Place};
use super::table::{self, Process};
use crate::threads::thread::{Leaving, Thread, current};
use crate::threads::{dispatcher, queue};

struct Waiter {
    thread: Arc<Thread>,
    has_it: AtomicBool,
    /// Nobody has written the word for it.
    owner_died: AtomicBool,
}

/// A word that somebody waits for.
struct Entry {
    owner: i32,
    waiters: Vec<Arc<Waiter>>,
}

static TABLE: Lock<BTreeMap<Key, Entry>> = Lock::new(BTreeMap::new());
/// Threads that have ended: who found an owner, and no end since, is seen by its end.
static ENDS: AtomicU64 = AtomicU64::new(0);

/// What came of an attempt.
enum Attempt {
    Done,
    Waits,
    /// The word has changed, or cannot be reached as it is.
    Again,
    Refused(Errno),
}

/// Makes a word another, if it is still what it was. Under the table's lock, so that it must not fault.
fn exchange(address: u64, old: u32, new: u32) -> bool {
    // SAFETY: `futex::key` takes no address above `copies::END`, and no odd one. What no leaf lets EL0 write is read-only to EL1 as well
    // (`Shape::change`). Interrupts are masked.
    unsafe { user::exchange_word(address, old, new) == Some(old) }
}

/// Whether who has a word waits, in the end, for one that `own` has.
fn comes_back(table: &BTreeMap<Key, Entry>, first: i32, own: i32) -> bool {
    let mut at = first;
    for _ in 0..=table.len() {
        let waits = |entry: &&Entry| entry.waiters.iter().any(|one| one.thread.number() == at);
        let Some(entry) = table.values().find(waits) else { return false };
        at = entry.owner;
        if at == own {
            return true;
        }
    }
    false
}

fn try_lock(key: Key, address: u64, waiter: &Arc<Waiter>, waits: bool) -> Result<Attempt, Errno> {
    let own = waiter.thread.number();
    let ends = ENDS.load(Ordering::Acquire);
    let word = copies::load_half(address)?;
    let owner = (word & futex::OWNER) as i32;
    if owner == own {
        return Ok(Attempt::Refused(EDEADLK));
    }
    let is_there = owner == 0 || table::find_thread(owner).is_ok();
    let attempt = TABLE.with(|table| {
        if ENDS.load(Ordering::Acquire) != ends {
            return Attempt::Again;
        }
        let known = table.get(&key).map(|entry| entry.owner);
        if known.is_none() && owner == 0 {
            let is_taken = exchange(address, word, word & futex::OWNER_DIED | own as u32);
            return if is_taken { Attempt::Done } else { Attempt::Again };
        }
        let owner = known.unwrap_or(owner);
        match () {
            () if !exchange(address, word, word | futex::HAS_WAITERS) => Attempt::Again,
            () if known.is_none() && !is_there => Attempt::Refused(ESRCH),
            () if !waits => Attempt::Refused(EAGAIN),
            () if comes_back(table, owner, own) => Attempt::Refused(EDEADLK),
            () => {
                let entry = table.entry(key).or_insert(Entry { owner, waiters: Vec::new() });
                entry.waiters.push(waiter.clone());
                Attempt::Waits
            }
        }
    });
    if matches!(attempt, Attempt::Again) {
        // As it may not have been there to be written.
        copies::change_half(address, Some)?;
    }
    Ok(attempt)
}

/// Takes a word, until the counter's `deadline`.
pub(crate) fn lock(process: &Process, place: Place, deadline: Option<u64>, waits: bool) -> Answer {
    let (key, address) = (futex::key(process, place)?, place.address);
    let (has_it, owner_died) = (AtomicBool::new(false), AtomicBool::new(false));
    let waiter = Arc::try_new(Waiter { thread: current(), has_it, owner_died })?;
    loop {
        match try_lock(key, address, &waiter, waits)? {
            Attempt::Done => return Ok(0),
            Attempt::Refused(error) => return Err(error),
            Attempt::Waits => break,
            // Another goes on, or this thread's end is awaited.
            Attempt::Again if waiter.thread.owner.is_interrupted() => return Err(ERESTART_ALWAYS),
            Attempt::Again => dispatcher::give_way_if_over(),
        }
    }
    let result = loop {
        if waiter.has_it.load(Ordering::Acquire) {
            break Ok(0);
        }
        if waiter.thread.owner.is_interrupted() {
            break Err(ERESTART_ALWAYS);
        }
        if deadline.is_some_and(|deadline| timer::read_counter() >= deadline) {
            break Err(ETIMEDOUT);
        }
        dispatcher::leave(Leaving::Parked(deadline));
    };
    TABLE.with(|table| {
        let Some(entry) = table.get_mut(&key) else { return };
        entry.waiters.retain(|one| !Arc::ptr_eq(one, &waiter));
        if entry.waiters.is_empty() {
            table.remove(&key);
        }
    });
    if !waiter.has_it.load(Ordering::Acquire) {
        return result;
    }
    if waiter.owner_died.load(Ordering::Relaxed) {
        let own = waiter.thread.number() as u32 | futex::HAS_WAITERS | futex::OWNER_DIED;
        copies::change_half(address, |_| Some(own))?;
    }
    Ok(0)
}

/// Gives a word to who has waited for it longest.
fn hand_over(table: &mut BTreeMap<Key, Entry>, key: Key, owner_died: bool) -> Option<Arc<Thread>> {
    let entry = table.get_mut(&key)?;
    let next = entry.waiters.remove(0);
    entry.owner = next.thread.number();
    if entry.waiters.is_empty() {
        table.remove(&key);
    }
    next.owner_died.store(owner_died, Ordering::Relaxed);
    next.has_it.store(true, Ordering::Release);
    Some(next.thread.clone())
}

/// Lets go of a word.
pub(crate) fn unlock(process: &Process, place: Place) -> Answer {
    let (key, address) = (futex::key(process, place)?, place.address);
    let own = current().number() as u32;
    loop {
        let word = copies::load_half(address)?;
        if word & futex::OWNER != own {
            return Err(EPERM);
        }
        let done = TABLE.with(|table| {
            let next = table.get(&key).and_then(|entry| entry.waiters.first()).map(|next| next.thread.number() as u32);
            let new = next.map_or(0, |next| next | futex::HAS_WAITERS);
            exchange(address, word, new).then(|| hand_over(table, key, false))
        });
        if let Some(next) = done {
            next.iter().for_each(queue::wake);
            return Ok(0);
        }
        copies::change_half(address, Some)?;
    }
}

/// A thread has ended, and can be found no more: what it had is for who waits.
pub(super) fn leave(thread: &Thread) {
    let woken: Vec<_> = TABLE.with(|table| {
        ENDS.fetch_add(1, Ordering::AcqRel);
        let had = table.iter().filter(|(_, entry)| entry.owner == thread.number()).map(|(key, _)| *key);
        let had: Vec<Key> = had.collect();
        had.into_iter().filter_map(|key| hand_over(table, key, true)).collect()
    });
    woken.iter().for_each(queue::wake);
}

/// Gives back what the table has of the heap: there is no process any more.
pub(super) fn forget() {
    drop(TABLE.with(core::mem::take));
}
