//! Reading and writing.

use alloc::sync::Arc;

use super::{Call, Row};
use crate::facts::page_size;
use crate::files::inode::Body;
use crate::files::open::{File, O_APPEND, O_NONBLOCK};
use crate::files::pipe::Pipe;
use crate::process::copies;
use crate::process::errno::*;
use crate::process::resources::FILE_BYTES;
use crate::process::signals::{Info, SIGPIPE, SIGXFSZ};
use crate::threads::waiters::wait;

pub(super) const CALLS: &[Row] = &[
    (62, "lseek", lseek),
    (63, "read", read),
    (64, "write", write),
    (65, "readv", readv),
    (66, "writev", writev),
    (67, "pread64", pread),
    (68, "pwrite64", pwrite),
    (69, "preadv", preadv),
    (70, "pwritev", pwritev),
    (71, "sendfile", sendfile),
    (75, "vmsplice", vmsplice),
];

/// Bytes that go through the kernel at once.
const PART: usize = 4096;
/// The same of `/proc/self/pagemap`.
const PAGEMAP_PART: u64 = 64 << 10;
/// Buffers of one call, and bytes of one.
const MOST_BUFFERS: u64 = 1024;
const MOST_BYTES: u64 = 0x7fff_f000;

pub(super) fn file(call: &Call, number: u64) -> Result<Arc<File>, Errno> {
    call.process().files.with(|files| files.get(number).map(|found| found.file.clone()))
}

fn lseek(call: &mut Call) -> Answer {
    let [number, offset, whence, ..] = call.arguments;
    let file = file(call, number)?;
    if matches!(file.inode.body, Body::Pipe(_) | Body::Secret(_)) {
        return Err(ESPIPE);
    }
    if let Body::Device(_) = file.inode.body {
        return if file.path.contains("console") { Err(ESPIPE) } else { Ok(0) };
    }
    let bytes = file.inode.bytes().max(file.text.with(|text| text.len() as u64));
    file.position.with(|position| {
        let from = match whence {
            0 => 0,
            1 => *position,
            2 => bytes,
            // SEEK_DATA and SEEK_HOLE: all is data, up to the end.
            3 | 4 if offset >= bytes => return Err(ENXIO),
            3 => 0,
            4 => {
                *position = bytes;
                return Ok(bytes);
            }
            _ => return Err(EINVAL),
        };
        *position = from.checked_add_signed(offset as i64).filter(|at| *at <= i64::MAX as u64).ok_or(EINVAL)?;
        Ok(*position)
    })
}

/// Reads at `offset`, or where the file stands.
fn read_at(file: &File, to: u64, bytes: u64, offset: Option<u64>) -> Answer {
    if !file.can_read() {
        return Err(EBADF);
    }
    let bytes = bytes.min(MOST_BYTES);
    match &file.inode.body {
        Body::Folder(_) => Err(EISDIR),
        Body::Pipe(_) | Body::Secret(_) if offset.is_some() => Err(ESPIPE),
        Body::Secret(_) => Err(EINVAL),
        Body::Pipe(pipe) => read_pipe(file, pipe, to, bytes),
        Body::Device(device) => {
            let (mut part, mut done) = ([0; 256], 0);
            while done < bytes {
                let count = device.read(&mut part[..(bytes - done).min(256) as usize]);
                if count == 0 {
                    break;
                }
                copies::write(to + done, &part[..count])?;
                done += count as u64;
            }
            Ok(done)
        }
        Body::Regular(content) => positioned(file, offset, |at| {
            let mut place = to;
            content.read(at, bytes, |part| {
                copies::write(place, part)?;
                place += part.len() as u64;
                Ok(())
            })
        }),
        Body::Made(made) if made.kind() == crate::files::inode::S_IFDIR => Err(EISDIR),
        Body::Made(made) => positioned(file, offset, |at| {
            if let Some(part) = made.part(at, bytes.min(PAGEMAP_PART)) {
                let part = part?;
                return copies::write(to, &part).map(|()| part.len() as u64);
            }
            file.text.with(|text| {
                if at == 0 {
                    *text = made.text();
                }
                let rest = text.get(at as usize..).unwrap_or_default();
                let part = &rest[..rest.len().min(bytes as usize)];
                copies::write(to, part).map(|()| part.len() as u64)
            })
        }),
        Body::Link(_) => Err(EINVAL),
    }
}

/// Runs `body` where the file stands, which is then further on, or at `offset`.
fn positioned(file: &File, offset: Option<u64>, body: impl FnOnce(u64) -> Answer) -> Answer {
    if let Some(offset) = offset {
        return body(offset);
    }
    // Others that have the file open with this one wait: what they write comes behind.
    file.position.with(|position| body(*position).inspect(|done| *position += done))
}

fn read_pipe(file: &File, pipe: &Pipe, to: u64, bytes: u64) -> Answer {
    let mut part = [0; PART];
    let most = (bytes as usize).min(PART);
    let is_open = file.flags() & O_NONBLOCK != 0;
    if most == 0 {
        return Ok(0);
    }
    let mut done = 0;
    while done < bytes {
        let most = most.min((bytes - done) as usize);
        let taken = match pipe.take(&mut part[..most]) {
            Some(taken) => taken,
            None if done > 0 => break,
            None if is_open => return Err(EAGAIN),
            None => wait(&[&pipe.waiters], None, || pipe.take(&mut part[..most])).map_err(|_| ERESTART)?,
        };
        if taken == 0 {
            break;
        }
        copies::write(to + done, &part[..taken])?;
        done += taken as u64;
    }
    Ok(done)
}

fn write_at(call: &Call, file: &File, from: u64, bytes: u64, offset: Option<u64>) -> Answer {
    if !file.can_write() {
        return Err(EBADF);
    }
    let bytes = bytes.min(MOST_BYTES);
    match &file.inode.body {
        Body::Pipe(_) | Body::Secret(_) if offset.is_some() => Err(ESPIPE),
        Body::Secret(_) => Err(EINVAL),
        Body::Pipe(pipe) => write_pipe(call, file, pipe, (from, bytes), true),
        Body::Device(device) => {
            let (mut part, mut done) = ([0; PART], 0);
            while done < bytes {
                let count = (bytes - done).min(PART as u64) as usize;
                copies::read(&mut part[..count], from + done)?;
                if !device.write(&part[..count]) {
                    return Err(ENOSPC);
                }
                done += count as u64;
            }
            Ok(done)
        }
        Body::Regular(content) => content.write_alone(|| {
            let end = (file.flags() & O_APPEND != 0).then(|| content.bytes());
            if let (Some(end), None) = (end, offset) {
                file.position.with(|position| *position = end);
            }
            let written = positioned(file, offset, |at| {
                let mut place = from;
                content.check_seals(at.saturating_add(bytes), true)?;
                let bytes =
                    bytes.min(check_file_limit(call, at.saturating_add(u64::from(bytes > 0)))?.saturating_sub(at));
                content.write(at, bytes, |part| {
                    copies::read(part, place)?;
                    place += part.len() as u64;
                    Ok(())
                })
            });
            file.inode.note_written();
            written
        }),
        Body::Made(made) if made.is_memory() => positioned(file, offset, |at| {
            let mut part = [0; PART];
            let part = &mut part[..bytes.min(PART as u64) as usize];
            copies::read(part, from)?;
            made.write_part(at, part)
        }),
        // What can be set is said in a word.
        Body::Made(made) => {
            let mut word = [0; 64];
            let word = &mut word[..bytes.min(64) as usize];
            copies::read(word, from)?;
            made.write(word).map(|()| bytes)
        }
        Body::Folder(_) | Body::Link(_) => Err(EBADF),
    }
}

/// RLIMIT_FSIZE; who makes a file longer is told by SIGXFSZ.
pub(super) fn check_file_limit(call: &Call, bytes: u64) -> Result<u64, Errno> {
    let [limit, _] = call.process().limits.with(|limits| limits.0[FILE_BYTES]);
    if bytes <= limit {
        return Ok(limit);
    }
    call.thread.task().pending.add(SIGXFSZ, Info::of_kernel());
    Err(EFBIG)
}

/// Waits until all is in the pipe, or with `is_whole` not set, until something is.
fn write_pipe(call: &Call, file: &File, pipe: &Pipe, (from, bytes): (u64, u64), is_whole: bool) -> Answer {
    let is_open = file.flags() & O_NONBLOCK != 0;
    let (mut part, mut done) = ([0; PART], 0);
    while done < bytes {
        let count = (bytes - done).min(PART as u64) as usize;
        copies::read(&mut part[..count], from + done)?;
        let put = match pipe.put(&part[..count]) {
            Some(put) => put,
            None if (is_open || !is_whole) && done > 0 => break,
            None if is_open => return Err(EAGAIN),
            None => match wait(&[&pipe.waiters], None, || pipe.put(&part[..count])) {
                Ok(put) => put,
                Err(_) if done > 0 => break,
                Err(_) => return Err(ERESTART),
            },
        };
        let Some(put) = put else {
            call.thread.task().pending.add(SIGPIPE, Info::of_kernel());
            return if done > 0 { Ok(done) } else { Err(EPIPE) };
        };
        done += put as u64;
    }
    Ok(done)
}

/// Moves bytes of a file; up to the end of the first page where a program has no more.
fn as_far_as_goes(file: &File, address: u64, bytes: u64, each: impl Fn(u64) -> Answer) -> Answer {
    let page = page_size().size_bytes();
    let first = page - address % page;
    match each(bytes) {
        Err(EFAULT) if first < bytes && matches!(file.inode.body, Body::Regular(_)) => each(first),
        other => other,
    }
}

fn read(call: &mut Call) -> Answer {
    let [number, to, bytes, ..] = call.arguments;
    let file = file(call, number)?;
    as_far_as_goes(&file, to, bytes, |bytes| read_at(&file, to, bytes, None))
}

fn write(call: &mut Call) -> Answer {
    let [number, from, bytes, ..] = call.arguments;
    let file = file(call, number)?;
    as_far_as_goes(&file, from, bytes, |bytes| write_at(call, &file, from, bytes, None))
}

fn offset(value: u64) -> Result<Option<u64>, Errno> {
    if value > i64::MAX as u64 { Err(EINVAL) } else { Ok(Some(value)) }
}

fn pread(call: &mut Call) -> Answer {
    let [number, to, bytes, at, ..] = call.arguments;
    read_at(&*file(call, number)?, to, bytes, offset(at)?)
}

fn pwrite(call: &mut Call) -> Answer {
    let [number, from, bytes, at, ..] = call.arguments;
    write_at(call, &*file(call, number)?, from, bytes, offset(at)?)
}

/// Gives `each` the buffers of a list, one after the other, and how many bytes were done before.
fn for_each_buffer(call: &Call, mut each: impl FnMut(u64, u64, u64) -> Answer) -> Answer {
    let [_, list, count, ..] = call.arguments;
    if count > MOST_BUFFERS {
        return Err(EINVAL);
    }
    let mut done = 0;
    for index in 0..count {
        let [address, bytes] = copies::read_words(list + 16 * index)?;
        if bytes > i64::MAX as u64 {
            return Err(EINVAL);
        }
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

fn readv(call: &mut Call) -> Answer {
    let file = file(call, call.arguments[0])?;
    for_each_buffer(call, |address, bytes, _| read_at(&file, address, bytes, None))
}

fn writev(call: &mut Call) -> Answer {
    let file = file(call, call.arguments[0])?;
    for_each_buffer(call, |address, bytes, _| write_at(call, &file, address, bytes, None))
}

fn preadv(call: &mut Call) -> Answer {
    let (file, at) = (file(call, call.arguments[0])?, offset(call.arguments[3])?.unwrap_or(0));
    for_each_buffer(call, |address, bytes, done| read_at(&file, address, bytes, Some(at + done)))
}

fn pwritev(call: &mut Call) -> Answer {
    let (file, at) = (file(call, call.arguments[0])?, offset(call.arguments[3])?.unwrap_or(0));
    for_each_buffer(call, |address, bytes, done| write_at(call, &file, address, bytes, Some(at + done)))
}

/// Between a pipe and memory. What goes in is copied: what a program writes over it afterwards does not show.
fn vmsplice(call: &mut Call) -> Answer {
    const KNOWN: u64 = 0xf;
    let [number, _, _, flags, ..] = call.arguments;
    if flags & !KNOWN != 0 {
        return Err(EINVAL);
    }
    let file = file(call, number)?;
    let Body::Pipe(pipe) = &file.inode.body else { return Err(EBADF) };
    for_each_buffer(call, |address, bytes, done| match file.can_write() {
        // A pipe that has something already is not waited for.
        true if done > 0 => Err(EAGAIN),
        true if copies::is_secret(address, bytes) => Err(EFAULT),
        true => write_pipe(call, &file, pipe, (address, bytes), false),
        false => read_pipe(&file, pipe, address, bytes),
    })
}

/// There is no way from file to file but through a program: who asks for one takes the long way by itself.
fn sendfile(_: &mut Call) -> Answer {
    Err(EINVAL)
}
