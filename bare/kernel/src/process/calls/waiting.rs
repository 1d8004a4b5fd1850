//! Waiting for several files at once.

use crate::fallible::{Arc, Collect, List};
use alloc::vec::Vec;

use hardware::timer::read_counter;

use super::call::{Call, Row};
use super::time::{deadline, write_time};
use crate::clock::nanoseconds;
use crate::errno::*;
use crate::files::counter::MOST as MOST_COUNTED;
use crate::files::inode::Body;
use crate::files::open::{File, O_PATH};
use crate::process::copies;
use crate::process::resources::FILES;
use crate::threads::waiters::{Interrupted, Waiters, wait};

pub(super) const CALLS: &[Row] = calls![(72, "pselect6", pselect6), (73, "ppoll", ppoll)];

const IN: u16 = 1;
const OUT: u16 = 4;
const ERR: u16 = 8;
const HUP: u16 = 16;
const NVAL: u16 = 32;
/// What is said beside IN, and beside OUT.
const IN_TOO: u16 = IN | 0x40;
const OUT_TOO: u16 = OUT | 0x100;
/// Files of one call.
const MOST: u64 = 1024;

/// What may be done with a file without waiting.
fn ready(file: &File) -> u16 {
    match &file.inode.body {
        _ if file.flags() & O_PATH != 0 => NVAL,
        Body::Pipe(pipe) => pipe.state.with(|state| {
            let mut found = 0;
            if file.can_read() {
                found |= if state.held == 0 { 0 } else { IN_TOO };
                found |= if state.writers == 0 { HUP } else { 0 };
            }
            if file.can_write() {
                found |= if state.held < state.room { OUT_TOO } else { 0 };
                found |= if state.readers == 0 { ERR } else { 0 };
            }
            found
        }),
        Body::Counter(counter) => match counter.value() {
            0 => OUT,
            MOST_COUNTED => IN,
            _ => IN | OUT,
        },
        _ => IN_TOO | OUT_TOO,
    }
}

/// Waits until something of what is wanted is so; gives what is so of each.
fn poll(wanted: &[(Option<Arc<File>>, u16)], until: Option<u64>) -> Result<Vec<u16>, Errno> {
    let waiters = wanted.iter().filter_map(|(file, _)| match &file.as_ref()?.inode.body {
        Body::Pipe(pipe) => Some(&pipe.waiters),
        Body::Counter(counter) => Some(&counter.waiters),
        _ => None,
    });
    let waiters: Vec<&Waiters> = waiters.try_list()?;
    let mut found = Vec::new();
    found.try_resize(wanted.len(), 0)?;
    let one = |(file, events): &(Option<Arc<File>>, u16)| match file {
        Some(file) => ready(file) & events,
        None => *events,
    };
    let look = || {
        found.iter_mut().zip(wanted).for_each(|(found, wanted)| *found = one(wanted));
        found.iter().any(|events| *events != 0).then_some(())
    };
    match wait(&waiters, until, look) {
        Ok(()) | Err(Interrupted::Time) => Ok(found),
        Err(Interrupted::Signal) => Err(EINTR),
    }
}

/// Puts a mask in force for the time of a wait.
fn mask(call: &Call, set: u64, bytes: u64) -> Result<(), Errno> {
    if set == 0 {
        return Ok(());
    }
    if bytes != 8 {
        return Err(EINVAL);
    }
    let [mask] = copies::read_words(set)?;
    let task = call.thread.task();
    task.saved_mask.set(Some(task.mask()));
    task.set_mask(mask);
    Ok(())
}

fn find(call: &Call, number: i32) -> Option<Arc<File>> {
    call.process().files.with(|files| files.get(number).ok().map(|found| found.file.clone()))
}

/// Ends a wait: the mask is again what it was, but for a handler that comes of it, and the program is told what time is left.
fn finish(call: &Call, time: u64, until: Option<u64>, answer: Answer) -> Answer {
    let task = call.thread.task();
    if answer != Err(EINTR)
        && let Some(mask) = task.saved_mask.take()
    {
        task.set_mask(mask);
    }
    if let Some(until) = until {
        // Who cannot be told goes on all the same.
        let _ = write_time(time, nanoseconds(until.saturating_sub(read_counter())));
    }
    answer
}

fn ppoll(call: &mut Call, list: u64, count: u32, time: u64, set: u64, bytes: u64) -> Answer {
    if u64::from(count) > call.process().limits.with(|limits| limits.0[FILES][0]).min(MOST) {
        return Err(EINVAL);
    }
    let until = if time == 0 { None } else { Some(deadline(time, false)?) };
    let mut wanted = Vec::new();
    for index in 0..u64::from(count) {
        let [word] = copies::read_words(list + 8 * index)?;
        let (number, events) = (word as i32, (word >> 32) as u16);
        wanted.try_push(match find(call, number) {
            _ if number < 0 => (None, 0),
            None => (None, NVAL),
            Some(file) => (Some(file), events | ERR | HUP | NVAL),
        })?;
    }
    mask(call, set, bytes)?;
    let answer = poll(&wanted, until).and_then(|found| {
        for (index, events) in (0..).zip(&found) {
            copies::write(list + 8 * index + 6, &events.to_le_bytes())?;
        }
        Ok(found.iter().filter(|events| **events != 0).count() as u64)
    });
    finish(call, time, until, answer)
}

/// The numbers of the bits that are set.
fn ones(bits: u64) -> impl Iterator<Item = u64> {
    (0..64).filter(move |bit| bits >> bit & 1 != 0)
}

fn pselect6(call: &mut Call, count: i32, reads: u64, writes: u64, errors: u64, time: u64, pair: u64) -> Answer {
    if (count) < 0 {
        return Err(EINVAL);
    }
    // What no number is given to yet is not looked at.
    let room = call.process().files.with(|files| files.numbers().max().map_or(0, |most| most as u64 + 1));
    let count = u64::from(count as u32).min(room.next_power_of_two().max(64));
    let until = if time == 0 { None } else { Some(deadline(time, false)?) };
    let words = count.div_ceil(64);
    // What counts for each set: what is told of errors alone is told by no file here.
    let sets = [(reads, IN | HUP | ERR | NVAL), (writes, OUT | ERR | NVAL), (errors, NVAL)];
    // The words of each set, and what stands for each of their bits, in order.
    let (mut asked, mut wanted) = (Vec::new(), Vec::new());
    for (set, events) in sets.into_iter().filter(|(set, _)| *set != 0) {
        for word in 0..words {
            let [bits] = copies::read_words(set + 8 * word)?;
            let bits = if count - 64 * word < 64 { bits & ((1 << (count % 64)) - 1) } else { bits };
            asked.try_push(bits)?;
            for bit in ones(bits) {
                wanted.try_push((Some(find(call, (word * 64 + bit) as i32).ok_or(EBADF)?), events))?;
            }
        }
    }
    if pair != 0 {
        let [set, bytes] = copies::read_words(pair)?;
        mask(call, set, bytes)?;
    }
    let answer = poll(&wanted, until).and_then(|found| {
        let (mut asked, mut told) = (asked.iter(), found.iter());
        for (set, _) in sets.into_iter().filter(|(set, _)| *set != 0) {
            for (word, bits) in (0..words).zip(asked.by_ref()) {
                let is_told = |_: &u64| told.next().is_some_and(|events| *events != 0);
                let bits = ones(*bits).filter(is_told).fold(0, |all, bit| all | 1 << bit);
                copies::write_words(set + 8 * word, &[bits])?;
            }
        }
        Ok(found.iter().filter(|events| **events != 0).count() as u64)
    });
    finish(call, time, until, answer)
}
