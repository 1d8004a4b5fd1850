//! What a program passes: never trusted. Every address is looked at, every copy may fault, and a fault that the address space
//! has no answer to is EFAULT.

use alloc::string::String;
use alloc::vec::Vec;

use hardware::user;
use userspace::{AreaFlags, Fault, Kind};

use super::pressure;
use crate::errno::{E2BIG, EFAULT, EINTR, EINVAL, ENAMETOOLONG, Errno};
use crate::facts::page_size;
use crate::fallible::List;
use crate::memory::failing;
use crate::threads::dispatcher;
use crate::threads::thread::current;

/// The longest path.
pub(crate) const LONGEST_PATH: usize = 4096;
/// Where the addresses of programs end.
pub(crate) const END: u64 = 1 << 48;

/// Whether a program may name these addresses at all.
pub(crate) fn check(address: u64, bytes: usize) -> Result<(), Errno> {
    named(address, bytes).map(drop)
}

/// The address that a program names, if it may name so many bytes from there on: with a tag where it has asked for that.
fn named(address: u64, bytes: usize) -> Result<u64, Errno> {
    let address = without_tag(address);
    address.checked_add(bytes as u64).filter(|end| *end <= END).map(|_| address).ok_or(EFAULT)
}

/// An address that a program passes, without its tag where it has asked for those.
pub(crate) fn without_tag(address: u64) -> u64 {
    let has_tags = || current().task().process.wishes.with(|wishes| wishes.has_tags);
    if address >= END && has_tags() { user::without_tag(address) } else { address }
}

/// Whether a range meets memory that nobody but accesses of the program's own may reach.
pub(crate) fn is_secret(start: u64, bytes: u64) -> bool {
    let (end, mut is_secret) = (start.saturating_add(bytes), false);
    current().task().process.space().areas(&mut |area| {
        is_secret |= area.flags.contains(AreaFlags::SECRET) && area.start < end && start < area.end;
    });
    is_secret
}

/// Copies part by part, each within a page; `copy` gives how many bytes of a part are left.
fn copy(
    address: u64,
    bytes: usize,
    kind: Kind,
    mut copy: impl FnMut(u64, core::ops::Range<usize>) -> usize,
) -> Result<(), Errno> {
    let address = named(address, bytes)?;
    let page = page_size().size_bytes();
    let (mut done, mut is_again) = (0, false);
    while done < bytes {
        // What is less than a page is copied whatever comes: the last words of a thread are.
        if !dispatcher::goes_on() && done as u64 >= page {
            return Err(EINTR);
        }
        let at = address + done as u64;
        let count = (bytes - done).min((page - at % page) as usize);
        let left = copy(at, done..done + count);
        is_again &= left == count;
        done += count - left;
        if left > 0 {
            reach(userspace::Access { address: address + done as u64, kind }, is_again)?;
            is_again = true;
        }
    }
    Ok(())
}

/// Makes what an access lacks. Another thread may take it away before the access is made, `is_again` and again: then this thread lets
/// others run and goes on, until the access is made, cannot be made, or the thread has to end.
pub(super) fn reach(access: userspace::Access, is_again: bool) -> Result<(), Errno> {
    let thread = current();
    let process = &thread.task().process;
    if is_again {
        if process.is_ending() || thread.task().is_over() || thread.task().is_killed() {
            return Err(EFAULT);
        }
        dispatcher::give_way_if_over();
    }
    // What a fault lacks is for `pressure`: none fails because a program has asked for it.
    let fails = failing::exchange(0);
    let mended = process.space().fault(access);
    failing::exchange(fails);
    match mended {
        Ok(()) => thread.count_fault(),
        Err(Fault::OutOfMemory) if !process.is_ending() => pressure::free_memory(),
        Err(_) => return Err(EFAULT),
    }
    Ok(())
}

/// Reads what is at an address.
pub(crate) fn read(to: &mut [u8], from: u64) -> Result<(), Errno> {
    copy(from, to.len(), Kind::Read, |at, part| user::copy_from(&mut to[part], at))
}

/// Writes there.
pub(crate) fn write(to: u64, from: &[u8]) -> Result<(), Errno> {
    copy(to, from.len(), Kind::Write, |at, part| user::copy_to(at, &from[part]))
}

/// The addresses of so many things of `bytes` each, if a program may name them all.
pub(crate) fn places(start: u64, bytes: usize, count: usize) -> Result<impl Iterator<Item = u64>, Errno> {
    check(start, bytes.saturating_mul(count))?;
    Ok((start..).step_by(bytes).take(count))
}

/// Writes zeros.
pub(crate) fn clear(to: u64, bytes: u64) -> Result<(), Errno> {
    const ZEROS: [u8; 512] = [0; 512];
    check(to, bytes as usize)?;
    let mut at = to;
    while at < to + bytes {
        let count = (to + bytes - at).min(ZEROS.len() as u64);
        write(at, &ZEROS[..count as usize])?;
        at += count;
    }
    Ok(())
}

/// Reads words of 64 bits.
pub(crate) fn read_words<const N: usize>(from: u64) -> Result<[u64; N], Errno> {
    let mut words = [0; N];
    for (at, word) in places(from, 8, N)?.zip(words.iter_mut()) {
        let mut bytes = [0; 8];
        read(&mut bytes, at)?;
        *word = u64::from_le_bytes(bytes);
    }
    Ok(words)
}

/// Writes words of 64 bits.
pub(crate) fn write_words(to: u64, words: &[u64]) -> Result<(), Errno> {
    places(to, 8, words.len())?.zip(words).try_for_each(|(at, word)| write(at, &word.to_le_bytes()))
}

/// Writes a word of 32 bits.
pub(crate) fn write_half(to: u64, value: u32) -> Result<(), Errno> {
    write(to, &value.to_le_bytes())
}

/// Reads a word of 32 bits.
pub(crate) fn read_half(from: u64) -> Result<u32, Errno> {
    let mut bytes = [0; 4];
    read(&mut bytes, from)?;
    Ok(u32::from_le_bytes(bytes))
}

/// Reads a word of 32 bits, which is all in one page, by one access.
pub(crate) fn load_half(from: u64) -> Result<u32, Errno> {
    if !from.is_multiple_of(4) {
        return Err(EINVAL);
    }
    let mut word = 0;
    copy(from, size_of::<u32>(), Kind::Read, |at, part| {
        let found = user::load_word(at);
        word = found.unwrap_or(word);
        if found.is_some() { 0 } else { part.len() }
    })?;
    Ok(word)
}

/// Makes a word of 32 bits what `change` makes of it, in one access as other CPUs see it; what it was.
pub(crate) fn change_half(at: u64, mut change: impl FnMut(u32) -> Option<u32>) -> Result<u32, Errno> {
    loop {
        let old = load_half(at)?;
        let Some(new) = change(old) else { return Ok(old) };
        let mut found = old;
        copy(at, size_of::<u32>(), Kind::Write, |at, part| {
            // SAFETY: `copy` takes no address above `END`, and `load_half` no odd one. What no leaf lets EL0 write is read-only to EL1 as
            // well (`Shape::change`). A thread leaves its CPU by its own calls alone.
            let exchanged = unsafe { user::exchange_word(at, old, new) };
            found = exchanged.unwrap_or(found);
            if exchanged.is_some() { 0 } else { part.len() }
        })?;
        if found == old {
            return Ok(old);
        }
    }
}

/// Reads bytes up to a zero, which is not among them; the first `most` where there is none among those.
pub(crate) fn read_start(from: u64, most: usize) -> Result<Vec<u8>, Errno> {
    let mut text = Vec::new();
    while text.len() < most {
        let mut byte = [0];
        read(&mut byte, from + text.len() as u64)?;
        match byte {
            [0] => break,
            [byte] => text.try_push(byte)?,
        }
    }
    Ok(text)
}

/// Reads bytes up to a zero, which is not among them; no more than `most`.
pub(crate) fn read_bytes(from: u64, most: usize) -> Result<Option<Vec<u8>>, Errno> {
    let mut text = Vec::new();
    let mut part = [0; 64];
    while text.len() < most {
        let at = from + text.len() as u64;
        let count = part.len().min(64 - (at % 64) as usize);
        read(&mut part[..count], at)?;
        match part[..count].iter().position(|byte| *byte == 0) {
            Some(end) => {
                text.try_extend_from(&part[..end])?;
                return Ok(Some(text));
            }
            None => text.try_extend_from(&part[..count])?,
        }
    }
    Ok(None)
}

/// Reads a path.
pub(crate) fn read_path(from: u64) -> Result<String, Errno> {
    let bytes = read_bytes(from, LONGEST_PATH)?.ok_or(ENAMETOOLONG)?;
    String::from_utf8(bytes).map_err(|_| EINVAL)
}

/// Reads a list of texts that a null pointer ends, each shorter than `longest`, at most `room` bytes of them together.
pub(crate) fn read_texts(from: u64, longest: usize, room: usize) -> Result<Vec<Vec<u8>>, Errno> {
    let mut texts = Vec::new();
    let (mut at, mut left) = (from, room);
    if from == 0 {
        return Ok(texts);
    }
    loop {
        let [text] = read_words(at)?;
        if text == 0 {
            return Ok(texts);
        }
        if !dispatcher::goes_on() {
            return Err(EINTR);
        }
        let text = read_bytes(text, longest)?.filter(|text| text.len() < longest).ok_or(E2BIG)?;
        left = left.checked_sub(text.len() + 9).ok_or(E2BIG)?;
        texts.try_push(text)?;
        at += 8;
    }
}
