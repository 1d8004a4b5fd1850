//! Waiting for several files at once.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::time::deadline;
use super::{Call, Row};
use crate::files::inode::Body;
use crate::files::open::File;
use crate::process::copies;
use crate::process::errno::*;
use crate::threads::waiters::{Interrupted, Waiters, wait};

pub(super) const CALLS: &[Row] = &[(72, "pselect6", pselect6), (73, "ppoll", ppoll)];

const IN: u16 = 1;
const OUT: u16 = 4;
const ERR: u16 = 8;
const HUP: u16 = 16;
const NVAL: u16 = 32;
/// Files of one call.
const MOST: u64 = 1024;

/// What may be done with a file without waiting.
fn ready(file: &File) -> u16 {
    match &file.inode.body {
        Body::Pipe(pipe) => pipe.state.with(|state| {
            let mut found = 0;
            if file.can_read() {
                found |= if state.bytes.is_empty() { 0 } else { IN };
                found |= if state.writers == 0 { HUP } else { 0 };
            }
            if file.can_write() {
                found |= if state.bytes.len() < crate::files::pipe::ROOM { OUT } else { 0 };
                found |= if state.readers == 0 { ERR } else { 0 };
            }
            found
        }),
        _ => IN | OUT,
    }
}

/// Waits until something of what is wanted is so; gives what is so of each.
fn poll(wanted: &[(Option<Arc<File>>, u16)], until: Option<u64>) -> Result<Vec<u16>, Errno> {
    let waiters: Vec<&Waiters> = wanted
        .iter()
        .filter_map(|(file, _)| match &file.as_ref()?.inode.body {
            Body::Pipe(pipe) => Some(&pipe.waiters),
            _ => None,
        })
        .collect();
    let look = || {
        let one = |(file, events): &(Option<Arc<File>>, u16)| match file {
            Some(file) => ready(file) & (events | ERR | HUP),
            None => *events,
        };
        wanted.iter().map(one).collect::<Vec<u16>>()
    };
    let found = wait(&waiters, until, || Some(look()).filter(|found| found.iter().any(|events| *events != 0)));
    match found {
        Ok(found) => Ok(found),
        Err(Interrupted::Time) => Ok(alloc::vec![0; wanted.len()]),
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

fn find(call: &Call, number: u64) -> Option<Arc<File>> {
    call.process().files.with(|files| files.get(number).ok().map(|found| found.file.clone()))
}

fn ppoll(call: &mut Call) -> Answer {
    let [list, count, time, set, bytes, _] = call.arguments;
    if count > MOST {
        return Err(EINVAL);
    }
    let until = if time == 0 { None } else { Some(deadline(time, false, false)?) };
    let mut wanted = Vec::new();
    for index in 0..count {
        let [word] = copies::read_words(list + 8 * index)?;
        let (number, events) = (word as i32, (word >> 32) as u16);
        wanted.push(match find(call, number as u64) {
            _ if number < 0 => (None, 0),
            None => (None, NVAL),
            Some(file) => (Some(file), events),
        });
    }
    mask(call, set, bytes)?;
    let found = poll(&wanted, until)?;
    for (index, events) in (0..).zip(&found) {
        copies::write(list + 8 * index + 6, &events.to_le_bytes())?;
    }
    Ok(found.iter().filter(|events| **events != 0).count() as u64)
}

fn pselect6(call: &mut Call) -> Answer {
    let [count, reads, writes, errors, time, pair] = call.arguments;
    if count > MOST {
        return Err(EINVAL);
    }
    let until = if time == 0 { None } else { Some(deadline(time, false, false)?) };
    let words = count.div_ceil(64);
    let sets = [(reads, IN), (writes, OUT), (errors, 0)];
    let mut wanted = Vec::new();
    let mut places = Vec::new();
    for (set, events) in sets.into_iter().filter(|(set, _)| *set != 0) {
        for word in 0..words {
            let [bits] = copies::read_words(set + 8 * word)?;
            for bit in (0..64).filter(|bit| bits >> bit & 1 != 0 && word * 64 + bit < count) {
                let file = find(call, word * 64 + bit).ok_or(EBADF)?;
                wanted.push((Some(file), events));
                places.push((set, word, bit, events));
            }
        }
    }
    if pair != 0 {
        let [set, bytes] = copies::read_words(pair)?;
        mask(call, set, bytes)?;
    }
    let found = poll(&wanted, until)?;
    for (set, _) in sets.into_iter().filter(|(set, _)| *set != 0) {
        for word in 0..words {
            let bits = places.iter().zip(&found).filter(|((one, at, ..), _)| (*one, *at) == (set, word));
            let is_so = |wanted: u16, found: u16| match wanted {
                IN => found & (IN | HUP | ERR) != 0,
                OUT => found & (OUT | ERR) != 0,
                _ => false,
            };
            let bits = bits.filter(|((.., events), found)| is_so(*events, **found));
            copies::write_words(set + 8 * word, &[bits.fold(0, |all, ((_, _, bit, _), _)| all | 1 << bit)])?;
        }
    }
    Ok(found.iter().filter(|events| **events != 0).count() as u64)
}
