//! Futexes: waiting for a word of memory that a program changes.

use crate::fallible::{Arc, List, NoMemory};
use crate::locks::{OpenLock, order};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use core::{mem, slice};

use hardware::user;
use userspace::{Access, AreaFlags, Backing, Kind, Map, Rights};

use super::copies;
use super::table::Process;
use crate::errno::{Answer, EAGAIN, EFAULT, EINTR, EINVAL, ENOMEM, ERESTART, ETIMEDOUT, Errno};
use crate::threads::dispatcher;
use crate::threads::queue;
use crate::threads::thread::{Leaving, current};

mod line;

pub(super) use line::Key;
use line::{Line, Waiter};

/// What the word of a mutex says whose owner has died, who waits, and who has it.
pub(super) const OWNER_DIED: u32 = 0x4000_0000;
pub(super) const HAS_WAITERS: u32 = 0x8000_0000;
pub(super) const OWNER: u32 = 0x3fff_ffff;

type Table = Map<Key, Line>;

static TABLE: OpenLock<Table> = OpenLock::new(order::FUTEX, Map::new());

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

/// Does something to words and waiters as one step, which no other call of a futex sees half done. `step` gives up where a word is
/// not there: then it is made to be, and all begins anew.
fn as_one<T>(address: u64, kind: Kind, mut step: impl FnMut(&mut Table) -> Option<T>) -> Result<T, Errno> {
    let mut is_again = false;
    loop {
        if let Some(done) = TABLE.with(&mut step) {
            return Ok(done);
        }
        copies::reach(Access { address, kind }, is_again)?;
        is_again = true;
    }
}

/// Enters a waiter for a word, if that is `value`. Whether it is.
fn enter(address: u64, value: u32, waiter: &Arc<Waiter>) -> Result<bool, Errno> {
    // The look and the entry are one: who changes the word and wakes, finds the waiter or is seen.
    as_one(address, Kind::Read, |table| {
        let is_so = user::load_word(address)? == value;
        Some(if is_so { add(table, waiter).map(|()| true) } else { Ok(false) })
    })?
    .map_err(Errno::from)
}

fn add(table: &mut Table, waiter: &Arc<Waiter>) -> Result<(), NoMemory> {
    waiters_of(table, waiter.key.get()).map(|waiters| waiters.push(waiter.clone()))
}

/// Who waits for a word, be it nobody yet.
fn waiters_of(table: &mut Table, key: Key) -> Result<&mut Line, NoMemory> {
    if !table.contains_key(&key) {
        table.insert(key, Line::default())?;
    }
    table.get_mut(&key).ok_or(NoMemory)
}

fn forget_empty(table: &mut Table, key: Key) {
    if table.get(&key).is_some_and(Line::is_empty) {
        table.remove(&key);
    }
}

/// Waits while the word is `value`, until the counter's `deadline`.
pub(crate) fn wait(process: &Process, place: Place, value: u32, bits: u32, deadline: Option<u64>) -> Answer {
    if bits == 0 {
        return Err(EINVAL);
    }
    let waiter = Waiter::new(current(), bits, key(process, place)?)?;
    if !enter(place.address, value, &waiter)? {
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

/// Takes waiters out of the table, be it that they were moved to another word.
fn forget_waiters(all: &[Arc<Waiter>]) {
    for waiter in all {
        TABLE.with(|table| {
            let key = waiter.key.get();
            if let Some(waiters) = table.get_mut(&key) {
                waiters.remove(waiter);
                forget_empty(table, key);
            }
        });
    }
}

/// Waits while each of several words has its value; gives which one was woken.
pub(crate) fn wait_for_any(process: &Process, words: &[(Place, u32)], deadline: Option<u64>) -> Answer {
    let thread = current();
    let mut waiters: Vec<Arc<Waiter>> = Vec::new();
    for (place, _) in words {
        waiters.try_push(Waiter::new(thread.clone(), u32::MAX, key(process, *place)?)?)?;
    }
    let woken = || waiters.iter().position(|waiter| waiter.is_woken.load(Ordering::Acquire)).map(|at| Ok(at as u64));
    let entered = words.iter().zip(&waiters).try_for_each(|((place, value), waiter)| {
        match enter(place.address, *value, waiter)? {
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
    drop(TABLE.with(mem::take));
}

/// Whether there can be a word at an address, and, where several processes may have it, whether there is one.
pub(crate) fn check(process: &Process, place: Place) -> Result<(), Errno> {
    key(process, place)?;
    let access = Access { address: place.address, kind: Kind::Read };
    if place.is_shared { copies::reach(access, false) } else { Ok(()) }
}

/// Wakes up to `most` of those that wait for the word with one of these bits.
pub(crate) fn wake(process: &Process, place: Place, most: usize, bits: u32) -> usize {
    key(process, place).map_or(0, |key| wake_key(key, most, bits))
}

fn wake_key(key: Key, most: usize, bits: u32) -> usize {
    let mut woken = Woken::default();
    TABLE.with(|table| woken.take(table, key, most, bits));
    woken.wake()
}

/// Waiters that were taken out of the table, and are to be woken: to take them takes no memory.
#[derive(Default)]
struct Woken {
    last: Option<Arc<Waiter>>,
    count: usize,
}

impl Woken {
    /// Takes up to `most` waiters that have one of these bits out of the table.
    fn take(&mut self, table: &mut Table, key: Key, most: usize, bits: u32) {
        let Some(waiters) = table.get_mut(&key) else { return };
        let is_meant = |waiter: &Waiter| waiter.bits & bits != 0;
        waiters.take(most, is_meant, |waiter| {
            self.count += 1;
            waiter.is_woken.store(true, Ordering::Release);
            waiter.before.set(self.last.replace(waiter.clone()));
        });
        forget_empty(table, key);
    }

    /// Wakes them, who came first first; how many there were.
    fn wake(mut self) -> usize {
        let mut first = None;
        while let Some(waiter) = self.last {
            self.last = waiter.before.replace(first);
            first = Some(waiter);
        }
        while let Some(waiter) = first {
            first = waiter.before.take();
            queue::wake(&waiter.thread);
        }
        self.count
    }
}

/// Wakes some, and has the others wait for another word, if the first is still `expected`.
pub(crate) fn requeue(
    process: &Process,
    [from, to]: [Place; 2],
    [wakes, moves]: [usize; 2],
    expected: Option<u32>,
) -> Answer {
    let keys = [key(process, from)?, key(process, to)?];
    let mut woken = Woken::default();
    let moved = as_one(from.address, Kind::Read, |table| {
        if let Some(expected) = expected
            && user::load_word(from.address)? != expected
        {
            return Some(Err(EAGAIN));
        }
        // Nobody is woken unless there is memory to move the others.
        let has_room = waiters_of(table, keys[1]).is_ok();
        if has_room {
            woken.take(table, keys[0], wakes, u32::MAX);
        }
        let moved = if has_room { Ok(move_waiters(table, keys, moves)) } else { Err(ENOMEM) };
        forget_empty(table, keys[1]);
        Some(moved)
    })??;
    Ok((woken.wake() + moved) as u64)
}

/// Has up to `most` who wait for one word wait for another, which is in the table; how many.
fn move_waiters(table: &mut Table, [from, to]: [Key; 2], most: usize) -> usize {
    let Some(mut rest) = table.get_mut(&from).map(mem::take) else { return 0 };
    let (mut moved, mut count) = (Line::default(), 0);
    rest.take(
        most,
        |_| true,
        |waiter| {
            waiter.key.set(to);
            moved.push(waiter);
            count += 1;
        },
    );
    // Where both are one word, those that were moved stand behind the others.
    for (key, line) in [(from, rest), (to, moved)] {
        if let Some(waiters) = table.get_mut(&key) {
            waiters.append(line);
        }
    }
    forget_empty(table, from);
    count
}

/// Changes the second word, wakes up to so many of those who wait for the first, and, if what the second was says so, up to so many of
/// those who wait for the second.
pub(crate) fn change_and_wake(
    process: &Process,
    [place, other]: [Place; 2],
    most: [usize; 2],
    change: impl Fn(u32) -> u32,
    is_so: impl Fn(u32) -> Result<bool, Errno>,
) -> Answer {
    let (keys, address) = ([key(process, place)?, key(process, other)?], other.address);
    let mut woken = Woken::default();
    as_one(address, Kind::Write, |table| {
        let old = user::load_word(address)?;
        // SAFETY: `key` takes no address above `copies::END`, and no odd one. What no leaf lets EL0 write is read-only to EL1 as well
        // (`Shape::change`). Who has the lock stays on its CPU.
        let found = unsafe { user::exchange_word(address, old, change(old)) }?;
        if found != old {
            // Others change it: they get their turn, too.
            return None;
        }
        let is_so = match is_so(old) {
            Ok(is_so) => is_so,
            Err(error) => return Some(Err(error)),
        };
        woken.take(table, keys[0], most[0], u32::MAX);
        if is_so {
            woken.take(table, keys[1], most[1], u32::MAX);
        }
        Some(Ok(()))
    })??;
    Ok(woken.wake() as u64)
}
