//! Bytes that go from file to file, and not through a program: `sendfile`, `splice`, `tee`.

use crate::fallible::Arc;

use super::amounts::{MOST_BYTES, PART, check_file_limit, check_position};
use super::call::{Call, Row};
use super::input::file;
use super::piping;
use super::piping::How;
use crate::errno::*;
use crate::files::device::Device;
use crate::files::inode::Body;
use crate::files::open::{File, O_APPEND, O_NONBLOCK};
use crate::files::pipe::Pipe;
use crate::process::copies;
use crate::threads::dispatcher;

pub(super) const CALLS: &[Row] = calls![(71, "sendfile", sendfile), (76, "splice", splice), (77, "tee", tee)];

/// Flags of `splice` and `tee`: SPLICE_F_MOVE, NONBLOCK, MORE, GIFT.
const KNOWN: u32 = 0xf;
const NONBLOCK: u32 = 2;

fn readable(call: &Call, number: i32) -> Result<Arc<File>, Errno> {
    file(call, number).and_then(|file| if file.can_read() { Ok(file) } else { Err(EBADF) })
}

fn writable(call: &Call, number: i32) -> Result<Arc<File>, Errno> {
    file(call, number).and_then(|file| if file.can_write() { Ok(file) } else { Err(EBADF) })
}

/// Where in a file something begins: at an offset that the program keeps, or where the file stands.
struct At {
    kept: u64,
    offset: u64,
}

impl At {
    fn read(file: &File, kept: u64) -> Result<Self, Errno> {
        let offset = match kept {
            0 => file.position.get(),
            kept => copies::read_words::<1>(kept)?[0],
        };
        if offset > i64::MAX as u64 { Err(EINVAL) } else { Ok(Self { kept, offset }) }
    }

    /// Goes on by what was done.
    fn go_on(&self, file: &File, done: u64) -> Result<(), Errno> {
        match self.kept {
            0 => {
                file.position.set(self.offset + done);
                Ok(())
            }
            kept => copies::write_words(kept, &[self.offset + done]),
        }
    }
}

/// Reads what a regular file has at an offset; 0 at its end.
fn fetch(file: &File, offset: u64, to: &mut [u8]) -> Result<usize, Errno> {
    let Body::Regular(content) = &file.inode.body else { return Err(EINVAL) };
    let mut done = 0;
    content.read(offset, to.len() as u64, |part| {
        to[done..done + part.len()].copy_from_slice(part);
        done += part.len();
        Ok(())
    })?;
    Ok(done)
}

/// Writes to a file that is no pipe, at an offset where it has offsets.
fn store(call: &Call, file: &File, offset: u64, from: &[u8]) -> Answer {
    match &file.inode.body {
        Body::Regular(content) => content.alone(|| {
            content.check_seals(offset + from.len() as u64, true)?;
            let most = check_file_limit(call, offset + 1)?.saturating_sub(offset).min(from.len() as u64);
            let mut done = 0;
            let written = content.write(offset, most, |part| {
                part.copy_from_slice(&from[done..done + part.len()]);
                done += part.len();
                Ok(())
            });
            file.inode.note_written();
            written
        }),
        Body::Device(Device::Full) => Err(ENOSPC),
        Body::Device(device) => {
            device.write(from);
            Ok(from.len() as u64)
        }
        _ => Err(EINVAL),
    }
}

fn put(call: &Call, file: &File, pipe: &Pipe, from: &[u8]) -> Answer {
    let how = How { waits: true, is_whole: false };
    piping::write(call, file, pipe, from.len() as u64, how, |done, part| {
        part.copy_from_slice(&from[done as usize..][..part.len()]);
        Ok(())
    })
}

/// Moves up to `bytes` bytes, a part at a time, until `each` moves less than it may; how many it moved.
fn in_parts(bytes: u64, mut each: impl FnMut(u64, &mut [u8]) -> Answer) -> Answer {
    let (mut part, mut done) = ([0; PART], 0);
    while done < bytes {
        let most = (bytes - done).min(PART as u64) as usize;
        match each(done, &mut part[..most]) {
            Ok(moved) => {
                done += moved;
                if moved < most as u64 || !dispatcher::goes_on() {
                    break;
                }
            }
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}

fn sendfile(call: &mut Call, to: i32, from: i32, kept: u64, bytes: u64) -> Answer {
    // The place is looked at before the files are.
    if kept != 0 {
        copies::read_words::<1>(kept)?;
    }
    let from = readable(call, from)?;
    let at = At::read(&from, kept)?;
    let to = writable(call, to)?;
    if bytes > i64::MAX as u64 || to.flags() & O_APPEND != 0 {
        return Err(EINVAL);
    }
    let place = At::read(&to, 0)?;
    [at.offset, place.offset].into_iter().try_for_each(|offset| check_position(offset, bytes))?;
    let done = in_parts(bytes.min(MOST_BYTES), |done, part| {
        let count = fetch(&from, at.offset + done, part)?;
        match &to.inode.body {
            Body::Pipe(pipe) => put(call, &to, pipe, &part[..count]),
            _ => store(call, &to, place.offset + done, &part[..count]),
        }
    })?;
    at.go_on(&from, done)?;
    if !matches!(to.inode.body, Body::Pipe(_)) {
        place.go_on(&to, done)?;
    }
    Ok(done)
}

/// Whether a call waits for a pipe.
fn waits(file: &File, flags: u32) -> bool {
    flags & NONBLOCK == 0 && file.flags() & O_NONBLOCK == 0
}

fn splice(call: &mut Call, from: i32, kept_from: u64, to: i32, kept_to: u64, bytes: u64, flags: u32) -> Answer {
    if bytes == 0 {
        return Ok(0);
    }
    if flags & !KNOWN != 0 {
        return Err(EINVAL);
    }
    let (from, to) = (file(call, from)?, file(call, to)?);
    let (asked, bytes) = (bytes, bytes.min(MOST_BYTES));
    let check = || if from.can_read() && to.can_write() { Ok(()) } else { Err(EBADF) };
    match (&from.inode.body, &to.inode.body) {
        (Body::Pipe(_), _) if kept_from != 0 => Err(ESPIPE),
        (_, Body::Pipe(_)) if kept_to != 0 => Err(ESPIPE),
        (Body::Pipe(source), Body::Pipe(_)) => {
            check()?;
            move_or_copy(call, [&from, &to], bytes.min(source.room() as u64), flags, true)
        }
        (Body::Pipe(source), _) => {
            check()?;
            let place = At::read(&to, kept_to)?;
            if to.flags() & O_APPEND != 0 {
                return Err(EINVAL);
            }
            check_position(place.offset, asked)?;
            // What there is goes, and nothing more is waited for.
            let part = |done: u64, part: &mut [u8]| {
                let count = source.look(0, part);
                let moved = store(call, &to, place.offset + done, &part[..count])?;
                source.take(&mut part[..moved as usize]);
                Ok(moved)
            };
            let done = piping::with_source(source, waits(&from, flags), || in_parts(bytes, part))?;
            place.go_on(&to, done)?;
            Ok(done)
        }
        (_, Body::Pipe(pipe)) => {
            check()?;
            let at = At::read(&from, kept_from)?;
            check_position(at.offset, bytes.min(pipe.room() as u64))?;
            let part = |done: u64, part: &mut [u8]| match fetch(&from, at.offset + done, part)? {
                0 => Ok(0),
                count => piping::put(call, pipe, &part[..count]),
            };
            let done =
                piping::with_target(pipe, waits(&to, flags), || in_parts(bytes.min(pipe.free().max(1) as u64), part))?;
            at.go_on(&from, done)?;
            Ok(done)
        }
        _ => Err(EINVAL),
    }
}

fn tee(call: &mut Call, from: i32, to: i32, bytes: u64, flags: u32) -> Answer {
    if flags & !KNOWN != 0 {
        return Err(EINVAL);
    }
    if bytes == 0 {
        return Ok(0);
    }
    let (from, to) = (file(call, from)?, file(call, to)?);
    let is_pipe = |file: &File| matches!(file.inode.body, Body::Pipe(_));
    if !from.can_read() || !to.can_write() {
        return Err(EBADF);
    }
    if !is_pipe(&from) || !is_pipe(&to) { Err(EINVAL) } else { move_or_copy(call, [&from, &to], bytes, flags, false) }
}

/// From pipe to pipe; what is only copied stays.
fn move_or_copy(call: &Call, [from, to]: [&Arc<File>; 2], bytes: u64, flags: u32, moves: bool) -> Answer {
    let (Body::Pipe(source), Body::Pipe(target)) = (&from.inode.body, &to.inode.body) else { return Err(EINVAL) };
    if core::ptr::eq(source, target) {
        return Err(EINVAL);
    }
    piping::move_or_copy(call, [source, target], bytes, [waits(from, flags), waits(to, flags)], moves)
}
