//! Reading and writing.

use crate::fallible::Arc;

use super::amounts::{PART, check_range};
use super::call::{Call, Row};
use super::{piping, regular};
use crate::errno::*;
use crate::facts::page_size;
use crate::files::device::Device;
use crate::files::inode::Body;
use crate::files::open::{File, O_NONBLOCK, O_PATH};
use crate::files::text::Text;
use crate::process::copies;
use crate::threads::dispatcher;

pub(super) const CALLS: &[Row] = calls![
    (62, "lseek", lseek),
    (63, "read", read),
    (64, "write", write),
    (67, "pread64", pread),
    (68, "pwrite64", pwrite)
];

/// The same of `/proc/self/pagemap`.
const PAGEMAP_PART: u64 = 64 << 10;

pub(super) fn file(call: &Call, number: i32) -> Result<Arc<File>, Errno> {
    call.process().files.with(|files| files.get(number).map(|found| found.file.clone()))
}

/// The same where it was opened for more than its path.
pub(super) fn used(call: &Call, number: i32) -> Result<Arc<File>, Errno> {
    file(call, number).and_then(|file| if file.flags() & O_PATH == 0 { Ok(file) } else { Err(EBADF) })
}

fn lseek(call: &mut Call, number: i32, offset: u64, whence: u32) -> Answer {
    let file = used(call, number)?;
    if matches!(file.inode.body, Body::Pipe(_) | Body::Secret(_)) {
        return Err(ESPIPE);
    }
    if let Body::Device(_) | Body::Counter(_) = file.inode.body {
        return if file.path.contains("console") { Err(ESPIPE) } else { Ok(0) };
    }
    file.position.with(|position| {
        let from = match (whence, &file.inode.body) {
            (0, _) => 0,
            (1, _) => *position,
            // Where a text ends nobody knows before it is read.
            (_, Body::Made(_)) => return Err(EINVAL),
            (2, _) => file.inode.bytes(),
            // SEEK_DATA and SEEK_HOLE.
            (3 | 4, Body::Regular(content)) => {
                *position = content.seek(offset, whence == 3)?;
                return Ok(*position);
            }
            _ => return Err(EINVAL),
        };
        *position = from.checked_add_signed(offset as i64).filter(|at| *at <= i64::MAX as u64).ok_or(EINVAL)?;
        Ok(*position)
    })
}

/// Refuses an offset where a file has no places.
fn check_place(file: &File, offset: Option<u64>) -> Result<(), Errno> {
    let has_places =
        !matches!(file.inode.body, Body::Pipe(_) | Body::Secret(_) | Body::Counter(_)) || file.flags() & O_PATH != 0;
    if offset.is_none() || has_places { Ok(()) } else { Err(ESPIPE) }
}

/// Reads at `offset`, or where the file stands; an empty pipe is waited for only if `waits`.
pub(super) fn read_at(file: &File, to: u64, bytes: u64, offset: Option<u64>, waits: bool) -> Answer {
    check_place(file, offset)?;
    if !file.can_read() {
        return Err(EBADF);
    }
    let (asked, bytes) = (bytes, check_range(to, bytes, offset)?);
    match &file.inode.body {
        Body::Folder(_) => Err(EISDIR),
        Body::Secret(_) => Err(EINVAL),
        Body::Pipe(pipe) => piping::read(pipe, to, bytes, waits && file.flags() & O_NONBLOCK == 0),
        Body::Device(device) => give(to, bytes, |part| device.read(part)),
        Body::Regular(content) => regular::read(file, content, &[[to, asked]], offset),
        Body::Made(made) if made.kind() == crate::files::inode::S_IFDIR => Err(EISDIR),
        Body::Made(made) => positioned(file, offset, |at| {
            if let Some(part) = made.part(at, bytes.min(PAGEMAP_PART)) {
                let part = part?;
                return copies::write(to, &part).map(|()| part.len() as u64);
            }
            file.text.with_or_end(|text| {
                if at == 0 {
                    *text = made.text();
                }
                if text.is_cut() { Err(ENOMEM) } else { read_text(text, at, to, bytes) }
            })
        }),
        Body::Counter(counter) => super::counters::read(file, counter, to, bytes),
        Body::Link(_) => Err(EINVAL),
    }
}

/// Writes what `fill` makes of part after part, as far as a program has memory: no part is of two pages.
pub(super) fn give(to: u64, bytes: u64, mut fill: impl FnMut(&mut [u8]) -> usize) -> Answer {
    const PART: u64 = 256;
    copies::check(to, bytes as usize)?;
    let (mut part, mut done) = ([0; PART as usize], 0);
    while done < bytes {
        if !dispatcher::goes_on() {
            return if done > 0 { Ok(done) } else { Err(EINTR) };
        }
        let room = (PART - (to + done) % PART).min(bytes - done);
        let count = fill(&mut part[..room as usize]);
        match copies::write(to + done, &part[..count]) {
            Err(error) if done == 0 => return Err(error),
            Ok(()) if count > 0 => done += count as u64,
            _ => break,
        }
    }
    Ok(done)
}

/// Writes what stands at an offset of a text to an address, part by part.
fn read_text(text: &Text, offset: u64, to: u64, bytes: u64) -> Answer {
    let mut done = 0;
    while done < bytes {
        let part = text.at(offset + done);
        let part = &part[..part.len().min((bytes - done) as usize)];
        if part.is_empty() {
            break;
        }
        copies::write(to + done, part)?;
        done += part.len() as u64;
        if !dispatcher::goes_on() {
            return Err(EINTR);
        }
    }
    Ok(done)
}

/// Runs `body` where the file stands, which is then further on, or at `offset`.
fn positioned(file: &File, offset: Option<u64>, body: impl FnOnce(u64) -> Answer) -> Answer {
    if let Some(offset) = offset {
        return body(offset);
    }
    // Others that have the file open with this one wait: what they write comes behind.
    file.position.with(|position| body(*position).inspect(|done| *position += done))
}

pub(super) fn write_at(call: &Call, file: &File, from: u64, bytes: u64, offset: Option<u64>) -> Answer {
    check_place(file, offset)?;
    if !file.can_write() {
        return Err(EBADF);
    }
    let (asked, bytes) = (bytes, check_range(from, bytes, offset)?);
    match &file.inode.body {
        Body::Secret(_) => Err(EINVAL),
        Body::Pipe(pipe) => {
            piping::write(call, file, pipe, bytes, piping::WHOLE, |done, part| copies::read(part, from + done))
        }
        // Nobody looks at what goes there.
        Body::Device(device @ (Device::Null | Device::Zero | Device::Full)) => {
            copies::check(from, bytes as usize)?;
            if *device == Device::Full { Err(ENOSPC) } else { Ok(bytes) }
        }
        Body::Device(device) => {
            let (mut part, mut done) = ([0; PART], 0);
            while done < bytes {
                let count = (bytes - done).min(PART as u64) as usize;
                match copies::read(&mut part[..count], from + done) {
                    Err(error) if done == 0 => return Err(error),
                    Err(_) => break,
                    Ok(()) => device.write(&part[..count]),
                }
                done += count as u64;
                if !dispatcher::goes_on() {
                    break;
                }
            }
            Ok(done)
        }
        Body::Regular(content) => regular::write(call, file, content, &[[from, asked]], offset),
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
        Body::Counter(counter) => super::counters::write(file, counter, from, bytes),
        Body::Folder(_) | Body::Link(_) => Err(EBADF),
    }
}

/// Moves bytes of a file; up to the end of the first page where a program has no more.
fn as_far_as_goes(file: &File, address: u64, bytes: u64, each: impl Fn(u64) -> Answer) -> Answer {
    let page = page_size().size_bytes();
    let first = page - address % page;
    match each(bytes) {
        Err(EFAULT) if first < bytes && matches!(file.inode.body, Body::Regular(_)) => {
            // What lies beyond all addresses is refused as a whole.
            copies::check(address, bytes as usize)?;
            each(first)
        }
        other => other,
    }
}

fn read(call: &mut Call, number: i32, to: u64, bytes: u64) -> Answer {
    let file = file(call, number)?;
    as_far_as_goes(&file, to, bytes, |bytes| read_at(&file, to, bytes, None, true))
}

fn write(call: &mut Call, number: i32, from: u64, bytes: u64) -> Answer {
    let file = file(call, number)?;
    as_far_as_goes(&file, from, bytes, |bytes| write_at(call, &file, from, bytes, None))
}

fn offset(value: u64) -> Result<Option<u64>, Errno> {
    if value > i64::MAX as u64 { Err(EINVAL) } else { Ok(Some(value)) }
}

fn pread(call: &mut Call, number: i32, to: u64, bytes: u64, at: u64) -> Answer {
    let at = offset(at)?;
    read_at(&*file(call, number)?, to, bytes, at, true)
}

fn pwrite(call: &mut Call, number: i32, from: u64, bytes: u64, at: u64) -> Answer {
    let at = offset(at)?;
    write_at(call, &*file(call, number)?, from, bytes, at)
}
