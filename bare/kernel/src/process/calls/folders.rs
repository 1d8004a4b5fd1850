//! Folders: where a process is, and what is in one.

use alloc::string::String;
use alloc::vec::Vec;

use super::input::{file, used};
use super::paths::inode_at;
use super::{Call, Row};
use crate::fallible::{Arc, List, try_text};
use crate::files::inode::{Body, Inode};
use crate::files::open::File;
use crate::files::tree::path_of;
use crate::process::copies;
use crate::process::errno::*;

pub(super) const CALLS: &[Row] =
    &[(17, "getcwd", getcwd), (49, "chdir", chdir), (50, "fchdir", fchdir), (61, "getdents64", getdents64)];

const AT_FDCWD: u64 = -100_i32 as u32 as u64;

fn getcwd(call: &mut Call) -> Answer {
    let [to, room, ..] = call.arguments;
    let path = path_of(&call.process().folder())?;
    if room < path.len() as u64 + 1 {
        return Err(ERANGE);
    }
    copies::write(to, path.as_bytes())?;
    copies::write(to + path.len() as u64, &[0])?;
    Ok(path.len() as u64 + 1)
}

fn go(call: &Call, inode: Arc<Inode>) -> Answer {
    if !inode.is_folder() {
        return Err(ENOTDIR);
    }
    let before = call.process().folder.with(|folder| core::mem::replace(folder, inode));
    drop(before);
    Ok(0)
}

fn chdir(call: &mut Call) -> Answer {
    let inode = inode_at(call, AT_FDCWD, call.arguments[0], 0)?;
    go(call, inode)
}

fn fchdir(call: &mut Call) -> Answer {
    let inode = file(call, call.arguments[0])?.inode.clone();
    go(call, inode)
}

/// Entries that are looked at together.
const AT_ONCE: usize = 64;

/// What a folder holds from a place on: numbers, kinds and names; some of it, and nothing at its end.
fn entries(inode: &Arc<Inode>, first: usize) -> Result<Vec<(u64, u32, String)>, Errno> {
    let mut all = Vec::new();
    let above = match &inode.body {
        Body::Folder(inside) => inside.with(|inside| inside.parent()),
        Body::Made(made) => made.find("..")?,
        _ => return Err(ENOTDIR),
    };
    let above = above.map_or(inode.number, |above| above.number);
    for (number, name) in [(inode.number, "."), (above, "..")].into_iter().skip(first) {
        all.try_push((number, inode.kind(), try_text(name)?))?;
    }
    let first = first.saturating_sub(2);
    match &inode.body {
        Body::Folder(inside) => inside.with(|inside| {
            let mut some = inside.names().iter().skip(first).take(AT_ONCE);
            some.try_for_each(|(name, one)| all.try_push((one.number, one.kind(), try_text(name)?)))
        })?,
        Body::Made(made) => all.try_extend(made.entries()?.into_iter().skip(first))?,
        _ => return Err(ENOTDIR),
    }
    Ok(all)
}

fn getdents64(call: &mut Call) -> Answer {
    let [number, to, room, ..] = call.arguments;
    let file = used(call, number)?;
    // Others that read on with this open file get what comes behind.
    file.position.with(|position| list(&file, to, room, position))
}

fn list(file: &File, to: u64, room: u64, place: &mut u64) -> Answer {
    /// The longest entry: its head, a name, and what fills it up.
    const MOST: usize = 280;
    let first = *place;
    let (mut at, mut position, mut is_full) = (to, first, false);
    while !is_full {
        let some = entries(&file.inode, position as usize)?;
        if some.is_empty() {
            break;
        }
        for (number, kind, name) in some {
            let bytes = (19 + name.len() as u64 + 1).next_multiple_of(8);
            is_full = at.wrapping_sub(to) + bytes > u64::from(room as u32);
            if is_full && position == first {
                return Err(EINVAL);
            }
            if is_full {
                break;
            }
            position += 1;
            let mut entry = [0; MOST];
            entry[..8].copy_from_slice(&number.to_le_bytes());
            entry[8..16].copy_from_slice(&position.to_le_bytes());
            entry[16..18].copy_from_slice(&(bytes as u16).to_le_bytes());
            entry[18] = (kind >> 12) as u8;
            entry[19..19 + name.len()].copy_from_slice(name.as_bytes());
            copies::write(at, &entry[..bytes as usize])?;
            at += bytes;
        }
    }
    *place = position;
    Ok(at - to)
}
