//! Futexes: waiting for a word of memory that a program changes.

use crate::fallible::{Arc, List};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::slice;
use core::sync::atomic::{AtomicBool, Ordering};

use hardware::lock::Lock;
use hardware::user;
use userspace::{Access, AreaFlags, Backing, Kind, Rights};

use super::copies;
use super::errno::{Answer, EAGAIN, EFAULT, EINTR, EINVAL, ERESTART, ETIMEDOUT, Errno};
use super::table::Process;
use crate::threads::dispatcher;
use crate::threads::queue;
use crate::threads::thread::{Leaving, Thread, current};

/// Which word: of an address space, or of a file that several map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key(u64, u64);

impl Key {
    /// None is before it.
    pub(super) const FIRST: Self = Self(0, 0);
}

struct Waiter {
    thread: Arc<Thread>,
    bits: u32,
    is_woken: AtomicBool,
}

/// What the word of a mutex says whose owner has died, who waits, and who has it.
pub(super) const OWNER_DIED: u32 = 0x4000_0000;
pub(super) const HAS_WAITERS: u32 = 0x8000_0000;
pub(super) const OWNER: u32 = 0x3fff_ffff;

/// Faults without progress before a word is given up.
const MOST_FAULTS: usize = 17;

type Table = BTreeMap<Key, Vec<Arc<Waiter>>>;

static TABLE: Lock<Table> = Lock::new(BTreeMap::new());

/// A word, as a program names it.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) address: u64,
    /// Without FUTEX_PRIVATE_FLAG: whoever maps the same may wait for it.
    pub(crate) is_shared: bool,
}

pub(super) fn key(process: &Process, Place { address, is_shared }: Place) -> Result<Key, Errno> {
    if !address.is_multiple_of(4) {
        return Err(EINVAL);
    }
    if address >= copies::END {
        return Err(EFAULT);
    }
    let space = process.try_space().ok_or(EFAULT)?;
    let mut key = Ok(Key(Arc::as_ptr(&space).cast::<u8>() as u64, address));
    if !is_shared {
        return key;
    }
    space.areas(&mut |area| match &area.backing {
        _ if !area.range().contains(&address) => {}
        Backing::File { file, offset } if area.flags.contains(AreaFlags::SHARED) => {
            // Numbers of inodes are no addresses of spaces: those are in the upper half.
            key = Ok(Key(file.inode.number, offset + (address - area.start)));
        }
        // What nobody can write, nobody can wake for.
        Backing::Anonymous { .. } if !area.rights.contains(Rights::WRITE) => key = Err(EFAULT),
        _ => {}
    });
    key
}

/// Reads the word, whatever it takes.
fn load(process: &Process, address: u64) -> Result<(), Errno> {
    process.space().fault(Access { address, kind: Kind::Read }).map_err(|_| EFAULT)
}

/// Enters a waiter for a word, if that is `value`. Whether it is.
fn enter(process: &Process, address: u64, key: Key, value: u32, waiter: &Arc<Waiter>) -> Result<bool, Errno> {
    for _ in 0..MOST_FAULTS {
        // The look and the entry are one: who changes the word and wakes, finds the waiter or is seen.
        let entered = TABLE.with(|table| match user::load_word(address) {
            None => None,
            Some(found) if found != value => Some(false),
            Some(_) => {
                table.entry(key).or_default().push(waiter.clone());
                Some(true)
            }
        });
        match entered {
            Some(is_so) => return Ok(is_so),
            None => load(process, address)?,
        }
    }
    Err(EFAULT)
}

/// Waits while the word is `value`, until the counter's `deadline`.
pub(crate) fn wait(process: &Process, place: Place, value: u32, bits: u32, deadline: Option<u64>) -> Answer {
    if bits == 0 {
        return Err(EINVAL);
    }
    let (key, address) = (key(process, place)?, place.address);
    let waiter = Arc::try_new(Waiter { thread: current(), bits, is_woken: AtomicBool::new(false) })?;
    if !enter(process, address, key, value, &waiter)? {
        return Err(EAGAIN);
    }
    let result = loop {
        if waiter.is_woken.load(Ordering::Acquire) {
            break Ok(0);
        }
        if waiter.thread.owner.is_interrupted() {
            break Err(EINTR);
        }
        if deadline.is_some_and(|deadline| hardware::timer::read_counter() >= deadline) {
            break Err(ETIMEDOUT);
        }
        dispatcher::leave(Leaving::Parked(deadline));
    };
    forget_waiters(slice::from_ref(&waiter));
    if waiter.is_woken.load(Ordering::Acquire) { Ok(0) } else { result }
}

/// Takes a waiter out of the table, be it that it was moved to another word.
fn forget_waiters(all: &[Arc<Waiter>]) {
    TABLE.with(|table| {
        table.retain(|_, waiters| {
            waiters.retain(|one| !all.iter().any(|waiter| Arc::ptr_eq(one, waiter)));
            !waiters.is_empty()
        })
    });
}

/// Waits while each of several words has its value; gives which one was woken.
pub(crate) fn wait_for_any(process: &Process, words: &[(Place, u32)], deadline: Option<u64>) -> Answer {
    let thread = current();
    let new = || Arc::try_new(Waiter { thread: thread.clone(), bits: u32::MAX, is_woken: AtomicBool::new(false) });
    let mut waiters: Vec<Arc<Waiter>> = Vec::new();
    words.iter().try_for_each(|_| waiters.try_push(new()?))?;
    let woken = || waiters.iter().position(|waiter| waiter.is_woken.load(Ordering::Acquire)).map(|at| Ok(at as u64));
    let entered = words.iter().zip(&waiters).try_for_each(|((place, value), waiter)| {
        let key = key(process, *place)?;
        match enter(process, place.address, key, *value, waiter)? {
            true => Ok(()),
            false => Err(EAGAIN),
        }
    });
    let result = match entered {
        Err(error) => Err(error),
        Ok(()) => loop {
            if woken().is_some() {
                break Err(EINTR);
            }
            if thread.owner.is_interrupted() {
                break Err(ERESTART);
            }
            if deadline.is_some_and(|deadline| hardware::timer::read_counter() >= deadline) {
                break Err(ETIMEDOUT);
            }
            dispatcher::leave(Leaving::Parked(deadline));
        },
    };
    forget_waiters(&waiters);
    woken().unwrap_or(result)
}

/// Gives back what the table has of the heap: there is no process any more.
pub(crate) fn forget() {
    drop(TABLE.with(core::mem::take));
}

/// Whether there can be a word at an address, and, where several processes may have it, whether there is one.
pub(crate) fn check(process: &Process, place: Place) -> Result<(), Errno> {
    key(process, place)?;
    if place.is_shared { load(process, place.address) } else { Ok(()) }
}

/// Wakes up to `most` of those that wait for the word with one of these bits.
pub(crate) fn wake(process: &Process, place: Place, most: usize, bits: u32) -> usize {
    key(process, place).map_or(0, |key| wake_key(key, most, bits))
}

fn wake_key(key: Key, most: usize, bits: u32) -> usize {
    let mut woken = Vec::new();
    TABLE.with(|table| {
        let Some(waiters) = table.get_mut(&key) else { return };
        waiters.retain(|waiter| {
            let is_meant = woken.len() < most && waiter.bits & bits != 0;
            if is_meant {
                waiter.is_woken.store(true, Ordering::Release);
                woken.push(waiter.thread.clone());
            }
            !is_meant
        });
        if waiters.is_empty() {
            table.remove(&key);
        }
    });
    woken.iter().for_each(queue::wake);
    woken.len()
}

/// Wakes some, and has the others wait for another word, if the first is still `expected`.
pub(crate) fn requeue(
    process: &Process,
    [from, to]: [Place; 2],
    [wakes, moves]: [usize; 2],
    expected: Option<u32>,
) -> Answer {
    let (key_from, key_to) = (key(process, from)?, key(process, to)?);
    if let Some(expected) = expected {
        load(process, from.address)?;
        if user::load_word(from.address).ok_or(EFAULT)? != expected {
            return Err(EAGAIN);
        }
    }
    let woken = wake_key(key_from, wakes, u32::MAX);
    let moved = TABLE.with(|table| {
        let Some(waiters) = table.get_mut(&key_from) else { return 0 };
        let count = moves.min(waiters.len());
        let moved: Vec<_> = waiters.drain(..count).collect();
        if waiters.is_empty() {
            table.remove(&key_from);
        }
        table.entry(key_to).or_default().extend(moved);
        count
    });
    Ok((woken + moved) as u64)
}
