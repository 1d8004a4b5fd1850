//! Folders: where a process is, and what is in one.

use alloc::string::String;
use alloc::vec::Vec;

use super::call::{Call, Row};
use super::input::{file, used};
use super::paths::{AT_FDCWD, inode_at};
use crate::errno::*;
use crate::fallible::{Arc, Collect, List, try_text};
use crate::files::inode::{Body, Inode};
use crate::files::open::Listed;
use crate::files::tree::path_of;
use crate::process::copies;
use crate::threads::dispatcher;

pub(super) const CALLS: &[Row] =
    calls![(17, "getcwd", getcwd), (49, "chdir", chdir), (50, "fchdir", fchdir), (61, "getdents64", getdents64)];

fn getcwd(call: &mut Call, to: u64, room: u64) -> Answer {
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

fn chdir(call: &mut Call, path: u64) -> Answer {
    let inode = inode_at(call, AT_FDCWD, path, 0)?;
    go(call, inode)
}

fn fchdir(call: &mut Call, number: i32) -> Answer {
    let inode = file(call, number)?.inode.clone();
    go(call, inode)
}

/// Entries that are looked at together.
const AT_ONCE: usize = 64;

/// What one entry tells: a number, a kind and a name.
type Entry = (u64, u32, String);

/// A folder itself and the one above.
fn first_entries(inode: &Arc<Inode>) -> Result<[Entry; 2], Errno> {
    let above = match &inode.body {
        Body::Folder(inside) => inside.with(|inside| inside.parent()),
        Body::Made(made) => made.find("..")?,
        _ => return Err(ENOTDIR),
    };
    let above = above.map_or(inode.number, |above| above.number);
    Ok([(inode.number, inode.kind(), try_text(".")?), (above, inode.kind(), try_text("..")?)])
}

/// Some of the entries behind a name, in the order of names; none at the end.
fn entries_behind(inode: &Arc<Inode>, name: &str) -> Result<Vec<Entry>, Errno> {
    let mut some = Vec::new();
    match &inode.body {
        Body::Folder(inside) => inside.with(|inside| {
            let behind = inside.names().at_least(name).filter(|(one, _)| *one != name).take(AT_ONCE);
            let mut behind = behind.map(|(name, one)| (name, one.number, one.kind()));
            behind.try_for_each(|(name, number, kind)| some.try_push((number, kind, try_text(name)?)))
        })?,
        Body::Made(made) => {
            let all = made.entries()?;
            let rank = |name: &str| name.parse::<u64>().ok();
            // What is gone was a process, a thread or a descriptor: those come in the order of their numbers, behind all else.
            let first = match all.iter().position(|(.., one)| one == name) {
                Some(place) => place + 1,
                None => all.iter().position(|(.., one)| rank(one) > rank(name)).unwrap_or(all.len()),
            };
            some.try_extend(all.into_iter().skip(if name.is_empty() { 0 } else { first }))?;
        }
        _ => return Err(ENOTDIR),
    }
    Ok(some)
}

fn getdents64(call: &mut Call, number: i32, to: u64, room: u32) -> Answer {
    let file = used(call, number)?;
    // Others that read on with this open file get what comes behind.
    file.position.list(|position, listed| {
        if listed.position != *position {
            pass(&file.inode, listed, *position)?;
        }
        list(&file.inode, to, u64::from(room), listed).inspect(|_| *position = listed.position)
    })
}

/// Goes to a position that lseek set: counted in the names that there are now.
fn pass(inode: &Arc<Inode>, listed: &mut Listed, position: u64) -> Result<(), Errno> {
    *listed = Listed { position: position.min(2), name: String::new() };
    while listed.position < position {
        let some = entries_behind(inode, &listed.name)?;
        if some.is_empty() || !dispatcher::goes_on() {
            break;
        }
        for (.., name) in some.into_iter().take((position - listed.position) as usize) {
            *listed = Listed { position: listed.position + 1, name };
        }
    }
    listed.position = position;
    Ok(())
}

/// Tells what comes behind the last name that was told, as much as there is room for.
fn list(inode: &Arc<Inode>, to: u64, room: u64, listed: &mut Listed) -> Answer {
    let mut at = to;
    loop {
        let some = match listed.position {
            first @ 0..2 => first_entries(inode)?.into_iter().skip(first as usize).try_list()?,
            _ => entries_behind(inode, &listed.name)?,
        };
        if some.is_empty() {
            return Ok(at - to);
        }
        for entry in some {
            let (bytes, position) = (entry_bytes(&entry), listed.position + 1);
            if at - to + bytes > room {
                return if at == to { Err(EINVAL) } else { Ok(at - to) };
            }
            tell(at, &entry, position)?;
            at += bytes;
            let name = if position <= 2 { String::new() } else { entry.2 };
            *listed = Listed { position, name };
        }
    }
}

/// The bytes of an entry: its head, its name, a zero, and what fills it up.
const fn entry_bytes((.., name): &Entry) -> u64 {
    (19 + name.len() as u64 + 1).next_multiple_of(8)
}

/// Writes an entry for a program, with the position behind it.
fn tell(at: u64, entry: &Entry, position: u64) -> Result<(), Errno> {
    /// The longest entry.
    const MOST: usize = 280;
    let (mut bytes, (number, kind, name)) = ([0; MOST], entry);
    let count = entry_bytes(entry);
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..16].copy_from_slice(&position.to_le_bytes());
    bytes[16..18].copy_from_slice(&(count as u16).to_le_bytes());
    bytes[18] = (kind >> 12) as u8;
    bytes[19..19 + name.len()].copy_from_slice(name.as_bytes());
    copies::write(at, &bytes[..count as usize])
}
