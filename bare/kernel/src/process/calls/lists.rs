//! Reading and writing by lists of buffers.

use alloc::vec::Vec;

use super::amounts::MOST_BYTES;
use super::call::{Call, Row};
use super::input::{file, read_at, used, write_at};
use super::piping::How;
use super::{piping, regular};
use crate::errno::*;
use crate::fallible::List;
use crate::files::inode::Body;
use crate::files::open::O_NONBLOCK;
use crate::files::pipe;
use crate::process::copies;

pub(super) const CALLS: &[Row] = calls![(65, "readv", readv), (66, "writev", writev), (75, "vmsplice", vmsplice),];

/// Buffers of one call.
const MOST_BUFFERS: u32 = 1024;

/// Where a list is, and how many buffers it has.
type Place = (u64, u32);

/// The buffers of a list, all of which are looked at before anything is done.
fn buffers((list, count): Place) -> Result<Vec<[u64; 2]>, Errno> {
    if count > MOST_BUFFERS {
        return Err(EINVAL);
    }
    let mut all: Vec<[u64; 2]> = Vec::new();
    for index in 0..u64::from(count) {
        all.try_push(copies::read_words(list + 16 * index)?)?;
    }
    if all.iter().any(|[_, bytes]| *bytes > i64::MAX as u64) {
        return Err(EINVAL);
    }
    let mut room = MOST_BYTES;
    for [address, bytes] in &mut all {
        copies::check(*address, *bytes as usize)?;
        // What lies beyond what one call moves is as if it were not there.
        *bytes = room.min(*bytes);
        room -= *bytes;
    }
    Ok(all)
}

/// Gives `each` the buffers of a list, one after the other, and how many bytes were done before.
fn for_each_buffer(list: Place, mut each: impl FnMut(u64, u64, u64) -> Answer) -> Answer {
    let mut done = 0;
    for [address, bytes] in buffers(list)? {
        match each(address, bytes, done) {
            Ok(part) => {
                done += part;
                if part < bytes {
                    break;
                }
            }
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}

fn readv(call: &mut Call, number: i32, list: u64, count: u32) -> Answer {
    let file = file(call, number)?;
    if let (Body::Regular(content), true) = (&file.inode.body, file.can_read()) {
        return regular::read(&file, content, &buffers((list, count))?, None);
    }
    // What has been read is not kept from the program until there is more.
    for_each_buffer((list, count), |address, bytes, done| read_at(&file, address, bytes, None, done == 0))
}

fn writev(call: &mut Call, number: i32, list: u64, count: u32) -> Answer {
    let (file, list) = (file(call, number)?, (list, count));
    if let (Body::Regular(content), true) = (&file.inode.body, file.can_write()) {
        return regular::write(call, &file, content, &buffers(list)?, None);
    }
    if let (Body::Pipe(pipe), true) = (&file.inode.body, file.can_write()) {
        let all = buffers(list)?;
        let bytes = all.iter().fold(0u64, |sum, [_, bytes]| sum.saturating_add(*bytes));
        // As one, as others see it.
        if bytes <= pipe::ATOMIC as u64 {
            let (mut gathered, mut done) = ([0; pipe::ATOMIC], 0);
            for [address, bytes] in all {
                copies::read(&mut gathered[done..done + bytes as usize], address)?;
                done += bytes as usize;
            }
            let fill = |_, part: &mut [u8]| {
                part.copy_from_slice(&gathered[..bytes as usize]);
                Ok(())
            };
            return piping::write(call, &file, pipe, bytes, piping::WHOLE, fill);
        }
    }
    for_each_buffer(list, |address, bytes, _| write_at(call, &file, address, bytes, None))
}

/// Between a pipe and memory. What goes in is copied: what a program writes over it afterwards does not show.
fn vmsplice(call: &mut Call, number: i32, list: u64, count: u32, flags: u32) -> Answer {
    const KNOWN: u32 = 0xf;
    const NONBLOCK: u32 = 2;
    if flags & !KNOWN != 0 {
        return Err(EINVAL);
    }
    let file = used(call, number)?;
    let Body::Pipe(pipe) = &file.inode.body else { return Err(EBADF) };
    let waits = flags & NONBLOCK == 0;
    for_each_buffer((list, count), |address, bytes, done| match (file.can_write(), bytes.min(MOST_BYTES)) {
        // A pipe that has something already is not waited for.
        (true, _) if done > 0 => Err(EAGAIN),
        (true, bytes) if copies::is_secret(address, bytes) => Err(EFAULT),
        (true, bytes) => {
            let how = How { waits, is_whole: false };
            piping::write(call, &file, pipe, bytes, how, |done, part| copies::read(part, address + done))
        }
        (false, bytes) => piping::read(pipe, address, bytes, waits && file.flags() & O_NONBLOCK == 0 && done == 0),
    })
}
