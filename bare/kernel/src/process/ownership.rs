//! Futexes whose word says which thread has them (FUTEX_LOCK_PI): who lets go hands the word to who waits first, and so does who ends.
//! There are no priorities here that an owner could inherit.
//!
//! ```text
//! 0 ──lock──▶ owner ──lock by another──▶ owner, WAITERS ──unlock──▶ the first that waits, WAITERS
//!                                                      └─the owner ends──▶ the same, OWNER_DIED
//! ```

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hardware::{timer, user};
use userspace::Map;

use super::copies;
use super::futex::{self, Key, Place};
use super::numbers;
use super::table::Process;
use crate::errno::{Answer, EAGAIN, EDEADLK, ENOMEM, EPERM, ERESTART_ALWAYS, ESRCH, ETIMEDOUT, Errno};
use crate::fallible::{Arc, NoMemory};
use crate::locks::{Lock, order};
use crate::threads::thread::{Leaving, Thread, current};
use crate::threads::{dispatcher, queue};

/// Threads that wait, each for a word that the next one has: where there are more, one more may not wait. As Linux's
/// kernel.max_lock_depth.
const LONGEST_CHAIN: usize = 1024;
/// Of those, how many are looked at before others get the table.
const STEPS: usize = 8;

struct Waiter {
    thread: Arc<Thread>,
    /// Who came first waits longest. Written once, under the table's lock.
    ticket: AtomicU64,
    has_it: AtomicBool,
    /// Nobody has written the word for it.
    owner_died: AtomicBool,
}

/// A word that somebody waits for.
struct Entry {
    owner: i32,
    /// By ticket.
    waiters: Map<u64, Arc<Waiter>>,
}

/// Words, and who waits for whom. Each look and each change takes a few steps, however many there are.
struct Table {
    words: Map<Key, Entry>,
    /// Which word a thread waits for.
    awaited: Map<i32, Key>,
    tickets: u64,
}

impl Table {
    const fn new() -> Self {
        Self { words: Map::new(), awaited: Map::new(), tickets: 0 }
    }

    /// One more waits for a word that `owner` has.
    fn enter(&mut self, key: Key, owner: i32, waiter: &Arc<Waiter>) -> Result<(), NoMemory> {
        self.tickets += 1;
        waiter.ticket.store(self.tickets, Ordering::Relaxed);
        let result = self.try_enter(key, owner, waiter);
        if result.is_err() {
            self.leave(key, waiter);
        }
        result
    }

    fn try_enter(&mut self, key: Key, owner: i32, waiter: &Arc<Waiter>) -> Result<(), NoMemory> {
        if !self.words.contains_key(&key) {
            self.words.insert(key, Entry { owner, waiters: Map::new() })?;
        }
        if let Some(entry) = self.words.get_mut(&key) {
            entry.waiters.insert(self.tickets, waiter.clone())?;
        }
        self.awaited.insert(waiter.thread.number(), key).map(drop)
    }

    /// One waits no longer, if it still did.
    fn leave(&mut self, key: Key, waiter: &Waiter) {
        let Some(entry) = self.words.get_mut(&key) else { return };
        if entry.waiters.remove(&waiter.ticket.load(Ordering::Relaxed)).is_some() {
            self.awaited.remove(&waiter.thread.number());
        }
        self.settle(key);
    }

    /// Gives a word to who has waited for it longest.
    fn hand_over(&mut self, key: Key, owner_died: bool) -> Option<Arc<Thread>> {
        let entry = self.words.get_mut(&key)?;
        let ticket = *entry.waiters.first()?.0;
        let next = entry.waiters.remove(&ticket)?;
        entry.owner = next.thread.number();
        self.awaited.remove(&entry.owner);
        self.settle(key);
        next.owner_died.store(owner_died, Ordering::Relaxed);
        next.has_it.store(true, Ordering::Release);
        Some(next.thread.clone())
    }

    /// Forgets a word that nobody waits for.
    fn settle(&mut self, key: Key) {
        if self.words.get(&key).is_some_and(|entry| entry.waiters.is_empty()) {
            self.words.remove(&key);
        }
    }

    /// The next word on the way from one that is waited for: the one that its owner waits for.
    fn next(&self, key: Key, own: i32) -> Next {
        match self.words.get(&key) {
            None => Next::End,
            Some(entry) if entry.owner == own => Next::Own,
            Some(entry) => self.awaited.get(&entry.owner).map_or(Next::End, |next| Next::Word(*next)),
        }
    }
}

/// Where a way leads on.
enum Next {
    Word(Key),
    End,
    /// To a word of the thread that began.
    Own,
}

static TABLE: Lock<Table> = Lock::new(order::OWNERSHIP, Table::new());
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

/// Whether a thread that waits for a word waits for itself in the end, or for too many. Others get the table in between: of two threads
/// that close a circle, one sees what both wait for.
fn is_deadlock(first: Key, own: i32) -> bool {
    let (mut at, mut waiting) = (first, 0);
    loop {
        let ended = TABLE.with(|table| {
            (0..STEPS).find_map(|_| match table.next(at, own) {
                Next::End => Some(false),
                Next::Own => Some(true),
                Next::Word(next) => {
                    (at, waiting) = (next, waiting + 1);
                    (waiting > LONGEST_CHAIN).then_some(true)
                }
            })
        });
        if let Some(is_deadlock) = ended {
            return is_deadlock;
        }
    }
}

fn try_lock(key: Key, address: u64, waiter: &Arc<Waiter>, waits: bool) -> Result<Attempt, Errno> {
    let own = waiter.thread.number();
    let ends = ENDS.load(Ordering::Acquire);
    let word = copies::load_half(address)?;
    let owner = (word & futex::OWNER) as i32;
    if owner == own {
        return Ok(Attempt::Refused(EDEADLK));
    }
    let is_there = owner == 0 || numbers::find_thread(owner).is_ok();
    let attempt = TABLE.with(|table| {
        if ENDS.load(Ordering::Acquire) != ends {
            return Attempt::Again;
        }
        let known = table.words.get(&key).map(|entry| entry.owner);
        if known.is_none() && owner == 0 {
            let is_taken = exchange(address, word, word & futex::OWNER_DIED | own as u32);
            return if is_taken { Attempt::Done } else { Attempt::Again };
        }
        let owner = known.unwrap_or(owner);
        match () {
            () if !exchange(address, word, word | futex::HAS_WAITERS) => Attempt::Again,
            () if known.is_none() && !is_there => Attempt::Refused(ESRCH),
            () if !waits => Attempt::Refused(EAGAIN),
            () => match table.enter(key, owner, waiter) {
                Ok(()) => Attempt::Waits,
                Err(NoMemory) => Attempt::Refused(ENOMEM),
            },
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
    let waiter = Arc::try_new(Waiter { thread: current(), ticket: AtomicU64::new(0), has_it, owner_died })?;
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
    let is_deadlock = is_deadlock(key, waiter.thread.number());
    let result = loop {
        if waiter.has_it.load(Ordering::Acquire) {
            break Ok(0);
        }
        if is_deadlock {
            break Err(EDEADLK);
        }
        if waiter.thread.owner.is_interrupted() {
            break Err(ERESTART_ALWAYS);
        }
        if deadline.is_some_and(|deadline| timer::read_counter() >= deadline) {
            break Err(ETIMEDOUT);
        }
        dispatcher::leave(Leaving::Parked(deadline));
    };
    TABLE.with(|table| table.leave(key, &waiter));
    if !waiter.has_it.load(Ordering::Acquire) {
        return result;
    }
    if waiter.owner_died.load(Ordering::Relaxed) {
        let own = waiter.thread.number() as u32 | futex::HAS_WAITERS | futex::OWNER_DIED;
        copies::change_half(address, |_| Some(own))?;
    }
    Ok(0)
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
            let first = table.words.get(&key).and_then(|entry| entry.waiters.first());
            let next = first.map(|(_, next)| next.thread.number() as u32);
            let new = next.map_or(0, |next| next | futex::HAS_WAITERS);
            exchange(address, word, new).then(|| table.hand_over(key, false))
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
    let own = thread.number();
    // From here on nobody comes to wait for it.
    TABLE.with(|_| ENDS.fetch_add(1, Ordering::AcqRel));
    // Some words at a time: others get the table in between.
    let mut at = Some(Key::FIRST);
    while let Some(from) = at {
        let woken = TABLE.with(|table| {
            let mut words = table.words.at_least(&from);
            let had = words.by_ref().take(STEPS).find(|(_, entry)| entry.owner == own).map(|(key, _)| *key);
            at = had.or_else(|| words.next().map(|(key, _)| *key));
            had.and_then(|key| table.hand_over(key, true))
        });
        woken.iter().for_each(queue::wake);
    }
}

/// Gives back what the table has of the heap: there is no process any more.
pub(super) fn forget() {
    drop(TABLE.with(|table| core::mem::replace(table, Table::new())));
}
