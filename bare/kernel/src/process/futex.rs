//! Futexes: waiting for a word of memory that a program changes.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use hardware::lock::Lock;
use hardware::user;
use userspace::{Access, AreaFlags, Backing, Kind};

use super::copies;
use super::errno::{Answer, EAGAIN, EFAULT, EINTR, EINVAL, ETIMEDOUT, Errno};
use super::table::Process;
use crate::threads::dispatcher;
use crate::threads::queue;
use crate::threads::thread::{Leaving, Thread, current};

/// Which word: of an address space, or of a file that several map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key(u64, u64);

struct Waiter {
    thread: Arc<Thread>,
    bits: u32,
    is_woken: AtomicBool,
}

type Table = BTreeMap<Key, Vec<Arc<Waiter>>>;

static TABLE: Lock<Table> = Lock::new(BTreeMap::new());

fn key(process: &Process, address: u64) -> Result<Key, Errno> {
    if !address.is_multiple_of(4) {
        return Err(EINVAL);
    }
    if address >= copies::END {
        return Err(EFAULT);
    }
    let space = process.try_space().ok_or(EFAULT)?;
    let mut key = Key(Arc::as_ptr(&space).cast::<u8>() as u64, address);
    space.areas(&mut |area| {
        if let (true, Backing::File { file, offset }) = (area.range().contains(&address), &area.backing)
            && area.flags.contains(AreaFlags::SHARED)
        {
            // Numbers of inodes are no addresses of spaces: those are in the upper half.
            key = Key(file.inode.number, offset + (address - area.start));
        }
    });
    Ok(key)
}

/// Reads the word, whatever it takes.
fn load(process: &Process, address: u64) -> Result<(), Errno> {
    process.space().fault(Access { address, kind: Kind::Read }).map_err(|_| EFAULT)
}

/// Waits while the word is `value`, until the counter's `deadline`.
pub(crate) fn wait(process: &Process, address: u64, value: u32, bits: u32, deadline: Option<u64>) -> Answer {
    if bits == 0 {
        return Err(EINVAL);
    }
    let key = key(process, address)?;
    let waiter = Arc::new(Waiter { thread: current(), bits, is_woken: AtomicBool::new(false) });
    for attempt in 0.. {
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
            Some(true) => break,
            Some(false) => return Err(EAGAIN),
            None if attempt > 16 => return Err(EFAULT),
            None => load(process, address)?,
        }
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
    // It may have been moved to another word.
    TABLE.with(|table| {
        table.retain(|_, waiters| {
            waiters.retain(|one| !Arc::ptr_eq(one, &waiter));
            !waiters.is_empty()
        })
    });
    if waiter.is_woken.load(Ordering::Acquire) { Ok(0) } else { result }
}

/// Gives back what the table has of the heap: there is no process any more.
pub(crate) fn forget() {
    drop(TABLE.with(core::mem::take));
}

/// Whether there can be a word at an address, and, where several processes may have it, whether there is one.
pub(crate) fn check(process: &Process, address: u64, is_shared: bool) -> Result<(), Errno> {
    key(process, address)?;
    if is_shared { load(process, address) } else { Ok(()) }
}

/// Wakes up to `most` of those that wait for the word with one of these bits.
pub(crate) fn wake(process: &Process, address: u64, most: usize, bits: u32) -> usize {
    key(process, address).map_or(0, |key| wake_key(key, most, bits))
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
    [from, to]: [u64; 2],
    [wakes, moves]: [usize; 2],
    expected: Option<u32>,
) -> Answer {
    let (key_from, key_to) = (key(process, from)?, key(process, to)?);
    if let Some(expected) = expected {
        load(process, from)?;
        if user::load_word(from).ok_or(EFAULT)? != expected {
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
