//! Who a program runs as: users and groups.

use crate::fallible::{Arc, List};
use alloc::vec::Vec;

use super::call::{Call, Row};
use crate::errno::*;
use crate::process::copies;
use crate::process::users::{ALL_CAPABILITIES, Ids, KEEP};

pub(super) const CALLS: &[Row] = calls![
    (90, "capget", capget),
    (91, "capset", capset),
    (144, "setgid", set_one),
    (146, "setuid", set_one),
    (147, "setresuid", set_three),
    (148, "getresuid", get_three),
    (149, "setresgid", set_three),
    (150, "getresgid", get_three),
    (158, "getgroups", getgroups),
    (159, "setgroups", setgroups),
    (174, "getuid", getuid),
    (175, "geteuid", geteuid),
    (176, "getgid", getgid),
    (177, "getegid", getegid),
];

/// The most groups.
const MOST_GROUPS: u32 = 65536;

fn getuid(call: &mut Call) -> Answer {
    Ok(call.process().users.with(|users| users.user.real).into())
}

fn geteuid(call: &mut Call) -> Answer {
    Ok(call.process().users.with(|users| users.user.effective).into())
}

fn getgid(call: &mut Call) -> Answer {
    Ok(call.process().users.with(|users| users.group.real).into())
}

fn getegid(call: &mut Call) -> Answer {
    Ok(call.process().users.with(|users| users.group.effective).into())
}

/// Changes the users, or the groups where the call is about those.
fn change<T>(call: &Call, of_groups: &[u64], change: impl FnOnce(&mut Ids, bool) -> T) -> T {
    let is_of_groups = of_groups.contains(&call.frame.registers[8]);
    let changed = call.process().users.with(|users| {
        let is_root = users.is_root();
        change(if is_of_groups { &mut users.group } else { &mut users.user }, is_root)
    });
    // Root alone may lock as much as there is.
    call.process().limit_memory();
    changed
}

fn set_one(call: &mut Call, id: u32) -> Answer {
    if id == KEEP {
        return Err(EINVAL);
    }
    change(call, &[144], |ids, is_root| ids.set(id, is_root)).map(|()| 0)
}

fn set_three(call: &mut Call, real: u32, effective: u32, saved: u32) -> Answer {
    change(call, &[149], |ids, is_root| ids.set_three([real, effective, saved], is_root)).map(|()| 0)
}

fn get_three(call: &mut Call, real: u64, effective: u64, saved: u64) -> Answer {
    let ids = change(call, &[150], |ids, _| [ids.real, ids.effective, ids.saved]);
    [real, effective, saved].into_iter().zip(ids).try_for_each(|(to, id)| copies::write_half(to, id)).map(|()| 0)
}

fn getgroups(call: &mut Call, room: i32, to: u64) -> Answer {
    let groups = call.process().users.with(|users| users.groups.clone());
    let room = usize::try_from(room).map_err(|_| EINVAL)?;
    if room > 0 {
        let groups = groups.as_ref().map_or(&[][..], |groups| groups);
        if room < groups.len() {
            return Err(EINVAL);
        }
        copies::places(to, 4, groups.len())?.zip(groups).try_for_each(|(at, group)| copies::write_half(at, *group))?;
    }
    Ok(groups.map_or(0, |groups| groups.len()) as u64)
}

fn setgroups(call: &mut Call, count: u32, from: u64) -> Answer {
    call.check_root()?;
    if count > MOST_GROUPS {
        return Err(EINVAL);
    }
    let mut groups: Vec<u32> = Vec::new();
    groups.try_reserve_exact(count as usize).map_err(|_| ENOMEM)?;
    for at in 0..u64::from(count) {
        groups.try_push(copies::read_half(from + 4 * at)?)?;
    }
    groups.sort_unstable();
    let groups = Some(Arc::try_new(groups)?);
    let before = call.process().users.with(|users| core::mem::replace(&mut users.groups, groups));
    drop(before);
    Ok(0)
}

/// The versions of the words behind the head; the last is told to who asks for another.
const VERSIONS: [u32; 3] = [0x1998_0330, 0x2007_1026, 0x2008_0522];

/// The head: which version is spoken, and which process is meant. Whether it has two words of each kind.
fn read_head(head: u64) -> Result<bool, Errno> {
    let version = copies::read_half(head)?;
    if !VERSIONS.contains(&version) {
        copies::write_half(head, VERSIONS[2])?;
        return Err(EINVAL);
    }
    let number = copies::read_half(head + 4)? as i32;
    match number {
        ..0 => Err(EINVAL),
        0 => Ok(version != VERSIONS[0]),
        number => crate::process::numbers::find_thread(number).map(|_| version != VERSIONS[0]),
    }
}

/// Who is root may everything, and nobody else anything: effective, permitted, inheritable.
fn capget(call: &mut Call, head: u64, to: u64) -> Answer {
    let has_two = match read_head(head) {
        // Who only asks for the version is told.
        Err(EINVAL) if to == 0 => return Ok(0),
        other => other?,
    };
    let users = call.process().users.with(|users| users.clone());
    let of = |is_root: bool| if is_root { ALL_CAPABILITIES } else { 0 };
    let [effective, permitted] =
        [users.is_root(), [users.user.real, users.user.saved].contains(&0) || users.is_root()].map(of);
    for part in 0..1 + u64::from(has_two) {
        let word = |all: u64| u64::from((all >> (32 * part)) as u32);
        copies::write_half(to + 12 * part, word(effective) as u32)?;
        copies::write_half(to + 12 * part + 4, word(permitted) as u32)?;
        copies::write_half(to + 12 * part + 8, 0)?;
    }
    Ok(0)
}

/// Taken, and changes nothing.
fn capset(call: &mut Call, head: u64, from: u64) -> Answer {
    let has_two = read_head(head)?;
    let own = call.process().number;
    let number = copies::read_half(head + 4)? as i32;
    if number != 0 && number != own {
        return Err(EPERM);
    }
    let mut words = [0; 24];
    copies::read(&mut words[..if has_two { 24 } else { 12 }], from).map(|()| 0)
}
