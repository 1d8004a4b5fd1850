//! Descriptors: opening, closing, duplicating, and what is set on them.

use crate::fallible::Arc;
use core::sync::atomic::Ordering;

use super::call::{Call, Row};
use super::input::{file, used};
use super::paths::start;
use crate::errno::*;
use crate::files::descriptors::Descriptor;
use crate::files::device::Device;
use crate::files::inode::{Body, Inode, S_IFLNK, Writing};
use crate::files::open::*;
use crate::files::pipe::{self, Pipe};
use crate::files::tree::{Place, fit};
use crate::memory::mapped::Path;
use crate::process::copies;
use crate::threads::dispatcher;
use crate::threads::waiters::wait;

pub(super) const CALLS: &[Row] = calls![
    (23, "dup", dup),
    (24, "dup3", dup3),
    (25, "fcntl", fcntl),
    (29, "ioctl", ioctl),
    (46, "ftruncate", ftruncate),
    (47, "fallocate", fallocate),
    (56, "openat", openat),
    (57, "close", close),
    (59, "pipe2", super::piping::pipe2),
    (81, "sync", nothing),
    (82, "fsync", fsync),
    (83, "fdatasync", fsync),
    (213, "readahead", readahead),
    (223, "fadvise64", fadvise64),
    (436, "close_range", close_range),
];

/// Done as soon as it is asked for: files are in memory alone.
fn nothing(_: &mut Call) -> Answer {
    Ok(0)
}

fn fsync(call: &mut Call, number: i32) -> Answer {
    let file = used(call, number)?;
    if matches!(file.inode.body, Body::Regular(_) | Body::Folder(_)) { Ok(0) } else { Err(EINVAL) }
}

/// All that there is has been read.
fn readahead(call: &mut Call, number: i32) -> Answer {
    let file = used(call, number)?;
    match &file.inode.body {
        _ if !file.can_read() => Err(EBADF),
        Body::Regular(_) => Ok(0),
        _ => Err(EINVAL),
    }
}

fn fadvise64(call: &mut Call, number: i32, _: u64, bytes: u64, advice: u32) -> Answer {
    /// POSIX_FADV_NOREUSE.
    const LAST: u32 = 5;
    match &used(call, number)?.inode.body {
        Body::Pipe(_) => Err(ESPIPE),
        _ if advice > LAST || bytes > i64::MAX as u64 => Err(EINVAL),
        _ => Ok(0),
    }
}

fn openat(call: &mut Call, folder: i32, path: u64, flags: u32, mode: u32) -> Answer {
    let path = copies::read_path(path)?;
    if path.is_empty() {
        return Err(ENOENT);
    }
    // Before anything is made or emptied: nobody else gets this number.
    let number = call.process().files.with(|files| files.keep(0))?;
    let file = open_path(call, folder, &path, (flags, mode));
    let opened = file.map(|file| Descriptor { file, closes_on_exec: flags & O_CLOEXEC != 0 });
    call.process().files.with(|files| files.settle(number, opened))
}

/// Opens what a path names, and makes it where that is asked for.
fn open_path(call: &Call, folder: i32, path: &str, (flags, mode): (u32, u32)) -> Result<Arc<File>, Errno> {
    let from = start(call, folder, path)?;
    let follows = flags & O_NOFOLLOW == 0 && flags & (O_CREAT | O_EXCL) != O_CREAT | O_EXCL;
    let mode = mode & !call.process().umask.load(Ordering::Relaxed);
    let ((inode, writing), place) = loop {
        let place = crate::files::tree::walk(&from, path, follows)?;
        match open(call, &place, flags, mode) {
            // Another has made it since the walk: it is opened.
            Err(EEXIST) if flags & O_EXCL == 0 => {}
            other => break (other?, place),
        }
    };
    let full = Path::new(place.path(&inode)?)?;
    let kept = flags & !(O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_DIRECTORY);
    let large = if flags & O_PATH == 0 { O_LARGEFILE } else { 0 };
    match &inode.clone().body {
        Body::Pipe(pipe) if flags & O_PATH == 0 => open_fifo(pipe, || File::new(inode, kept | large, full), flags),
        _ => Ok(File::opened(inode, kept | large, full, writing.filter(|_| flags & O_ACCMODE != 0))?),
    }
}

/// Opens a pipe by its name: who reads waits for who writes, and the other way round, be it that the other has gone again.
fn open_fifo(pipe: &Pipe, open: impl FnOnce() -> Result<Arc<File>, Errno>, flags: u32) -> Result<Arc<File>, Errno> {
    if !pipe.is_named {
        // By `/proc/self/fd`: both ends have been there, and whoever has gone does not come again.
        return open();
    }
    let is_writer = flags & O_ACCMODE == O_WRONLY;
    let (there, before) = pipe.others(is_writer);
    if flags & O_NONBLOCK != 0 && is_writer && there == 0 {
        return Err(ENXIO);
    }
    let file = open()?;
    if flags & (O_NONBLOCK | O_RDWR) == 0 {
        // Who was there before may have met this end already, and gone.
        let is_met = |(others, ever): (u32, u32)| others > 0 || ever != before || there > 0;
        wait(&[&pipe.waiters], None, || is_met(pipe.others(is_writer)).then_some(())).map_err(|_| ERESTART)?;
    }
    Ok(file)
}

/// What is at a place, or is made there, and that nobody runs it, if it is opened to be written.
fn open(call: &Call, place: &Place, flags: u32, mode: u32) -> Result<(Arc<Inode>, Option<Writing>), Errno> {
    let (accesses, writes) = (flags & O_PATH == 0, flags & (O_ACCMODE | O_TRUNC) != 0);
    let fresh = |inode: Arc<Inode>| {
        let writing = if writes { Some(Writing::begin(&inode)?) } else { None };
        Ok((inode, writing))
    };
    if flags & O_TMPFILE == O_TMPFILE {
        if flags & O_ACCMODE == 0 {
            return Err(EINVAL);
        }
        if !place.found()?.is_folder() {
            return Err(ENOTDIR);
        }
        let inode = fit(Inode::regular(mode))?;
        // It has no name, and, but with O_EXCL, may get one.
        inode.attributes.with(|attributes| (attributes.links, attributes.may_be_named) = (0, flags & O_EXCL == 0));
        return fresh(inode);
    }
    if flags & O_CREAT != 0 && accesses {
        if place.wants_folder {
            return Err(EISDIR);
        }
        match &place.inode {
            Some(_) if flags & O_EXCL != 0 => return Err(EEXIST),
            Some(_) => {}
            None => {
                let opened = fresh(fit(Inode::regular(mode))?)?;
                place.create(&opened.0)?;
                return Ok(opened);
            }
        }
    }
    let inode = place.found()?;
    let is_folder = inode.is_folder();
    if !accesses {
        return if flags & O_DIRECTORY != 0 && !is_folder { Err(ENOTDIR) } else { Ok((inode, None)) };
    }
    match () {
        () if inode.kind() == S_IFLNK => Err(ELOOP),
        () if is_folder && (writes || flags & O_CREAT != 0) => Err(EISDIR),
        () if flags & O_DIRECTORY != 0 && !is_folder => Err(ENOTDIR),
        () if matches!(inode.body, Body::Device(Device::Terminal)) => Err(ENXIO),
        () => {
            let opened = fresh(inode)?;
            let inode = &opened.0;
            if let (Body::Regular(content), true) = (&inode.body, flags & O_TRUNC != 0) {
                super::lengths::resize(call, inode, content, 0)?;
                inode.note_written();
            }
            Ok(opened)
        }
    }
}

fn close(call: &mut Call, number: i32) -> Answer {
    let closed = call.process().files.with(|files| files.take(number))?;
    closed.file.give_up_locks(call.process().files.owner());
    drop(closed);
    Ok(0)
}

fn close_range(call: &mut Call, first: u32, last: u32, flags: u32) -> Answer {
    const CLOEXEC: u32 = 4;
    if first > last || flags & !(CLOEXEC | 2) != 0 {
        return Err(EINVAL);
    }
    let room = call.process().files.with(|files| files.room());
    for number in first as usize..room.min(last as usize + 1) {
        let number = number as i32;
        let closed = call.process().files.with(|files| match flags & CLOEXEC {
            0 => files.take(number).ok(),
            _ => {
                if let Ok(found) = files.get_mut(number) {
                    found.closes_on_exec = true;
                }
                None
            }
        });
        closed.iter().for_each(|closed| closed.file.give_up_locks(call.process().files.owner()));
        drop(closed);
        if !dispatcher::goes_on() {
            return Err(EINTR);
        }
    }
    Ok(0)
}

fn dup(call: &mut Call, number: i32) -> Answer {
    let file = file(call, number)?;
    call.process().files.with(|files| files.add(0, Descriptor { file, closes_on_exec: false }))
}

fn dup3(call: &mut Call, from: i32, to: i32, flags: u32) -> Answer {
    if from == to || flags & !O_CLOEXEC != 0 {
        return Err(EINVAL);
    }
    let file = file(call, from)?;
    let descriptor = Descriptor { file, closes_on_exec: flags != 0 };
    let before = call.process().files.with(|files| files.set(to as u32 as usize, descriptor))?;
    before.iter().for_each(|closed| closed.file.give_up_locks(call.process().files.owner()));
    drop(before);
    Ok(u64::from(to as u32))
}

fn fcntl(call: &mut Call, number: i32, command: u32, argument: u64) -> Answer {
    const SETTABLE: u32 = O_APPEND | O_NONBLOCK;
    let file = file(call, number)?;
    let files = &call.process().files;
    match command {
        // Of a path it can be asked what concerns its number: F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC.
        _ if file.flags() & O_PATH != 0 && !matches!(command, 0..=3 | 1030) => Err(EBADF),
        // F_DUPFD, F_DUPFD_CLOEXEC
        0 | 1030 => {
            let descriptor = Descriptor { file, closes_on_exec: command == 1030 };
            let least = argument as u32 as usize;
            files.with(|files| if least >= files.most { Err(EINVAL) } else { files.add(least, descriptor) })
        }
        1 => files.with(|files| files.get(number).map(|found| found.closes_on_exec.into())),
        2 => files.with(|files| {
            files.get_mut(number)?.closes_on_exec = argument & 1 != 0;
            Ok(0)
        }),
        3 => Ok(file.flags().into()),
        4 => {
            file.set_flags(SETTABLE, argument as u32);
            Ok(0)
        }
        5 | 6 => super::locks::of_ranges(call, &file, (number, command), argument),
        // F_GETOWN: nobody is told of what comes.
        9 => Ok(0),
        // F_SETPIPE_SZ, F_GETPIPE_SZ
        1031 | 1032 => match &file.inode.body {
            Body::Pipe(pipe) if command == 1031 => {
                let bytes = argument as usize;
                if bytes > pipe::MOST_FOR_ALL && bytes > pipe.room() {
                    call.check_root()?;
                }
                pipe.set_room(bytes).map(|room| room as u64)
            }
            Body::Pipe(pipe) => Ok(pipe.room() as u64),
            _ => Err(EBADF),
        },
        // F_ADD_SEALS, F_GET_SEALS
        1033 if !file.can_write() => Err(EPERM),
        1033 => super::lengths::add_seals(&file.inode, u32::try_from(argument).map_err(|_| EINVAL)?),
        1034 => match &file.inode.body {
            Body::Regular(content) => Ok(content.seals().into()),
            _ => Err(EINVAL),
        },
        _ => Err(EINVAL),
    }
}

fn ioctl(call: &mut Call, number: i32, request: u32, argument: u64) -> Answer {
    const FIONREAD: u32 = 0x541b;
    const FIONBIO: u32 = 0x5421;
    const FIONCLEX: u32 = 0x5450;
    const FIOCLEX: u32 = 0x5451;
    let file = used(call, number)?;
    match (&file.inode.body, request) {
        (Body::Pipe(pipe), FIONREAD) => {
            copies::write_half(argument, pipe.held() as u32)?;
            Ok(0)
        }
        (_, FIONBIO) => {
            let flag = if copies::read_half(argument)? == 0 { 0 } else { O_NONBLOCK };
            file.set_flags(O_NONBLOCK, flag);
            Ok(0)
        }
        (Body::Regular(content), FIONREAD) => {
            let rest = content.bytes().wrapping_sub(file.position.get());
            copies::write_half(argument, rest as u32).map(|()| 0)
        }
        (_, FIONCLEX | FIOCLEX) => call.process().files.with(|files| {
            files.get_mut(number)?.closes_on_exec = request == FIOCLEX;
            Ok(0)
        }),
        _ => Err(ENOTTY),
    }
}

fn ftruncate(call: &mut Call, number: i32, bytes: u64) -> Answer {
    if bytes > i64::MAX as u64 {
        return Err(EINVAL);
    }
    let file = used(call, number)?;
    if !file.can_write() {
        return Err(EINVAL);
    }
    let content = match &file.inode.body {
        Body::Regular(content) => content,
        Body::Secret(secrets) => return if secrets.resize(bytes) { Ok(0) } else { Err(EINVAL) },
        _ => return Err(EINVAL),
    };
    super::lengths::resize(call, &file.inode, content, bytes)?;
    file.inode.note_written();
    Ok(0)
}

fn fallocate(call: &mut Call, number: i32, mode: u32, offset: u64, bytes: u64) -> Answer {
    const KEEP_SIZE: u32 = 1;
    const PUNCH_HOLE: u32 = 2 | KEEP_SIZE;
    let file = used(call, number)?;
    if !file.can_write() {
        return Err(EBADF);
    }
    const LARGEST: u64 = i64::MAX as u64;
    if bytes == 0 || bytes > LARGEST || offset > LARGEST {
        return Err(EINVAL);
    }
    let end = offset + bytes;
    match (&file.inode.body, mode) {
        (Body::Regular(_), _) if end > LARGEST => Err(EFBIG),
        (Body::Regular(content), 0 | KEEP_SIZE) => {
            super::lengths::allocate(call, content, offset..end, mode == KEEP_SIZE).map(|()| 0)
        }
        (Body::Regular(content), PUNCH_HOLE) => super::lengths::punch(&file.inode, content, offset, bytes).map(|()| 0),
        (Body::Pipe(_), _) => Err(ESPIPE),
        (Body::Folder(_), _) => Err(EISDIR),
        _ => Err(EOPNOTSUPP),
    }
}
