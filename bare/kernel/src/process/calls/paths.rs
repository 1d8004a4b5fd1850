//! Names of files: made, taken away, followed.

use crate::fallible::{Arc, try_text};
use core::sync::atomic::Ordering;

use super::call::{Call, Row};
use super::input::{file, used};
use crate::clock::SECOND;
use crate::errno::*;
use crate::files::device::Device;
use crate::files::inode::{Body, Inode, S_IFCHR, S_IFIFO, S_IFMT, S_IFREG, Writing, now};
use crate::files::pipe::Pipe;
use crate::files::tree::{Place, fit, walk};
use crate::process::copies;

pub(super) const CALLS: &[Row] = calls![
    (33, "mknodat", mknodat),
    (34, "mkdirat", mkdirat),
    (35, "unlinkat", unlinkat),
    (36, "symlinkat", symlinkat),
    (37, "linkat", linkat),
    (38, "renameat", renameat),
    (45, "truncate", truncate),
    (48, "faccessat", faccessat),
    (52, "fchmod", fchmod),
    (53, "fchmodat", fchmodat),
    (54, "fchownat", fchownat),
    (55, "fchown", fchown),
    (78, "readlinkat", readlinkat),
    (88, "utimensat", utimensat),
    (276, "renameat2", renameat2),
    (439, "faccessat2", faccessat2),
];

/// The folder that the process is in.
pub(super) const AT_FDCWD: i32 = -100;
pub(super) const AT_SYMLINK_NOFOLLOW: u32 = 0x100;
const AT_REMOVEDIR: u32 = 0x200;
const AT_SYMLINK_FOLLOW: u32 = 0x400;
pub(super) const AT_EMPTY_PATH: u32 = 0x1000;

/// AT_EACCESS, which every access is.
const AT_EFFECTIVE: u32 = 0x200;

/// Refuses flags that a call does not know.
pub(super) fn check_flags(flags: u32, known: u32) -> Result<(), Errno> {
    if flags & !known == 0 { Ok(()) } else { Err(EINVAL) }
}

/// Where a walk begins.
pub(super) fn start(call: &Call, folder: i32, path: &str) -> Result<Arc<Inode>, Errno> {
    if path.starts_with('/') || folder == AT_FDCWD {
        return Ok(call.process().folder());
    }
    let inode = file(call, folder)?.inode.clone();
    if inode.is_folder() { Ok(inode) } else { Err(ENOTDIR) }
}

pub(super) fn walk_at(call: &Call, folder: i32, path: &str, follows: bool) -> Result<Place, Errno> {
    walk(&start(call, folder, path)?, path, follows)
}

/// What a call names by a folder, a path and flags.
pub(super) fn inode_at(call: &Call, folder: i32, path: u64, flags: u32) -> Result<Arc<Inode>, Errno> {
    let path = if path == 0 && flags & AT_EMPTY_PATH != 0 { Default::default() } else { copies::read_path(path)? };
    if path.is_empty() && flags & AT_EMPTY_PATH != 0 {
        return match folder {
            AT_FDCWD => Ok(call.process().folder()),
            _ => Ok(file(call, folder)?.inode.clone()),
        };
    }
    walk_at(call, folder, &path, flags & AT_SYMLINK_NOFOLLOW == 0)?.found()
}

fn mknodat(call: &mut Call, folder: i32, path: u64, mode: u32, device: u32) -> Answer {
    let place = walk_at(call, folder, &copies::read_path(path)?, false)?;
    let permissions = mode & !call.process().umask.load(Ordering::Relaxed);
    let inode = match mode & S_IFMT {
        0 | S_IFREG => fit(Inode::regular(permissions))?,
        S_IFIFO => fit(Pipe::new(true).and_then(|pipe| Inode::new(Body::Pipe(pipe), permissions)))?,
        S_IFCHR => {
            call.check_root()?;
            let number = (device >> 8 & 0xfff, device & 0xff);
            fit(Inode::new(Body::Device(Device::find(number).ok_or(EPERM)?), permissions))?
        }
        _ => return Err(EPERM),
    };
    place.create(&inode).map(|()| 0)
}

fn mkdirat(call: &mut Call, folder: i32, path: u64, mode: u32) -> Answer {
    let place = walk_at(call, folder, &copies::read_path(path)?, false)?;
    place.create_folder(mode & !call.process().umask.load(Ordering::Relaxed)).map(|()| 0)
}

fn unlinkat(call: &mut Call, folder: i32, path: u64, flags: u32) -> Answer {
    if flags & !AT_REMOVEDIR != 0 {
        return Err(EINVAL);
    }
    let path = copies::read_path(path)?;
    let place = walk_at(call, folder, &path, false)?;
    let last = path.trim_end_matches('/').rsplit('/').next();
    if flags != 0 && last == Some(".") { Err(EINVAL) } else { place.remove(flags != 0).map(|()| 0) }
}

fn symlinkat(call: &mut Call, to: u64, folder: i32, path: u64) -> Answer {
    let (to, path) = (copies::read_path(to)?, copies::read_path(path)?);
    if to.is_empty() {
        return Err(ENOENT);
    }
    walk_at(call, folder, &path, false)?.create(&fit(Inode::new(Body::Link(to), 0o777))?).map(|()| 0)
}

fn linkat(call: &mut Call, folder: i32, path: u64, to_folder: i32, to: u64, flags: u32) -> Answer {
    check_flags(flags, AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)?;
    let nofollow = if flags & AT_SYMLINK_FOLLOW == 0 { AT_SYMLINK_NOFOLLOW } else { 0 };
    let inode = inode_at(call, folder, path, flags & AT_EMPTY_PATH | nofollow)?;
    let to = walk_at(call, to_folder, &copies::read_path(to)?, false)?;
    if inode.is_folder() {
        return Err(if to.inode.is_some() { EEXIST } else { EPERM });
    }
    to.link(&inode).map(|()| 0)
}

fn renameat(call: &mut Call, folder: i32, path: u64, to_folder: i32, to: u64) -> Answer {
    renameat2(call, folder, path, to_folder, to, 0)
}

fn renameat2(call: &mut Call, folder: i32, path: u64, to_folder: i32, to: u64, flags: u32) -> Answer {
    const NO_REPLACE: u32 = 1;
    const EXCHANGE: u32 = 2;
    let from = walk_at(call, folder, &copies::read_path(path)?, false)?;
    let to = walk_at(call, to_folder, &copies::read_path(to)?, false)?;
    match flags {
        0 | NO_REPLACE => from.rename(&to, flags == 0).map(|()| 0),
        EXCHANGE => from.exchange(&to).map(|()| 0),
        _ => Err(EINVAL),
    }
}

fn truncate(call: &mut Call, path: u64, bytes: u64) -> Answer {
    if bytes > i64::MAX as u64 {
        return Err(EINVAL);
    }
    let inode = inode_at(call, AT_FDCWD, path, 0)?;
    match &inode.body {
        Body::Regular(content) => {
            let _writing = Writing::begin(&inode)?;
            super::lengths::resize(call, &inode, content, bytes)?;
        }
        Body::Folder(_) => return Err(EISDIR),
        _ => return Err(EINVAL),
    }
    inode.note_written();
    Ok(0)
}

fn faccessat(call: &mut Call, folder: i32, path: u64, mode: u32) -> Answer {
    faccessat2(call, folder, path, mode, 0)
}

/// Everyone may everything, but execute what nobody may.
fn faccessat2(call: &mut Call, folder: i32, path: u64, mode: u32, flags: u32) -> Answer {
    const EXECUTE: u32 = 1;
    if mode & !7 != 0 {
        return Err(EINVAL);
    }
    check_flags(flags, AT_EFFECTIVE | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    let inode = inode_at(call, folder, path, flags)?;
    let permissions = inode.attributes.with(|attributes| attributes.mode);
    if mode & EXECUTE != 0 && permissions & 0o111 == 0 && !inode.is_folder() {
        return Err(EACCES);
    }
    Ok(0)
}

fn set_mode(inode: &Inode, mode: u32) -> Answer {
    inode.attributes.with(|attributes| attributes.mode = mode & 0o7777);
    Ok(0)
}

fn fchmod(call: &mut Call, number: i32, mode: u32) -> Answer {
    set_mode(&used(call, number)?.inode, mode)
}

fn fchmodat(call: &mut Call, folder: i32, path: u64, mode: u32) -> Answer {
    set_mode(&*inode_at(call, folder, path, 0)?, mode)
}

fn set_owner(inode: &Inode, user: u32, group: u32) -> Answer {
    inode.attributes.with(|attributes| {
        for (place, value) in [(&mut attributes.user, user), (&mut attributes.group, group)] {
            if value != u32::MAX {
                *place = value;
            }
        }
    });
    Ok(0)
}

fn fchown(call: &mut Call, number: i32, user: u32, group: u32) -> Answer {
    set_owner(&used(call, number)?.inode, user, group)
}

fn fchownat(call: &mut Call, folder: i32, path: u64, user: u32, group: u32, flags: u32) -> Answer {
    check_flags(flags, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    set_owner(&*inode_at(call, folder, path, flags)?, user, group)
}

fn readlinkat(call: &mut Call, folder: i32, path: u64, to: u64, room: i32) -> Answer {
    if room <= 0 {
        return Err(EINVAL);
    }
    let inode = inode_at(call, folder, path, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    let text = match &inode.body {
        Body::Link(text) => try_text(text)?,
        Body::Made(made) => made.link()?,
        _ => return Err(EINVAL),
    };
    let part = &text.as_bytes()[..text.len().min(room as usize)];
    copies::write(to, part)?;
    Ok(part.len() as u64)
}

fn utimensat(call: &mut Call, folder: i32, path: u64, times: u64, flags: u32) -> Answer {
    const NOW: u64 = 0x3fff_ffff;
    const OMIT: u64 = 0x3fff_fffe;
    let words = if times == 0 { [0, NOW, 0, NOW] } else { copies::read_words(times)? };
    let parts = [words[1], words[3]];
    if parts == [OMIT; 2] {
        return Ok(0);
    }
    check_flags(flags, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    let inode = match path {
        0 if flags != 0 => return Err(EINVAL),
        0 => used(call, folder)?.inode.clone(),
        _ => inode_at(call, folder, path, flags)?,
    };
    if !parts.iter().all(|part| *part < SECOND || [NOW, OMIT].contains(part)) {
        return Err(EINVAL);
    }
    let now = now();
    inode.attributes.with(|attributes| {
        let places = [&mut attributes.accessed, &mut attributes.modified];
        for (place, time) in places.into_iter().zip(words.chunks_exact(2)) {
            *place = match time[1] {
                NOW => now,
                OMIT => *place,
                // The first and the last second have no parts.
                _ if [1 << 63, i64::MAX as u64].contains(&time[0]) => [time[0], 0],
                nanoseconds => [time[0], nanoseconds],
            };
        }
        attributes.changed = now;
    });
    Ok(0)
}
