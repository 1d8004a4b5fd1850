//! Memory that is mapped already: moved, advised, locked, looked at.

use alloc::vec::Vec;

use hardware::user::without_tag;
use userspace::{Advice, AreaFlags, Backing, Kind, Locking, Move, Rights};

use super::call::{Call, Row};
use crate::errno::*;
use crate::facts::page_size;
use crate::fallible::List;
use crate::files::inode::Body;
use crate::process::copies;
use crate::threads::dispatcher;

pub(super) const CALLS: &[Row] = calls![
    (216, "mremap", mremap),
    (227, "msync", msync),
    (228, "mlock", mlock),
    (229, "munlock", munlock),
    (230, "mlockall", mlockall),
    (231, "munlockall", munlockall),
    (232, "mincore", mincore),
    (233, "madvise", madvise),
    (284, "mlock2", mlock2),
];

fn mremap(call: &mut Call, start: u64, old_bytes: u64, bytes: u64, flags: u64, to: u64) -> Answer {
    const MAYMOVE: u64 = 1;
    const FIXED: u64 = 2;
    const DONTUNMAP: u64 = 4;
    let start = without_tag(start);
    if flags & !(MAYMOVE | FIXED | DONTUNMAP) != 0 || flags & (FIXED | DONTUNMAP) != 0 && flags & MAYMOVE == 0 {
        return Err(EINVAL);
    }
    let moves = match flags {
        _ if flags & FIXED != 0 => Move::To(to),
        _ if flags & DONTUNMAP != 0 && to != 0 => Move::Near(to),
        _ if flags & MAYMOVE != 0 => Move::May,
        _ => Move::Never,
    };
    call.process().space().remap(start, old_bytes, bytes, moves, flags & DONTUNMAP != 0).map_err(Errno::from)
}

fn msync(call: &mut Call, start: u64, bytes: u64, flags: u32) -> Answer {
    const ASYNC: u32 = 1;
    const INVALIDATE: u32 = 2;
    const SYNC: u32 = 4;
    let start = without_tag(start);
    let is_both = flags & ASYNC != 0 && flags & SYNC != 0;
    if flags & !(ASYNC | INVALIDATE | SYNC) != 0 || is_both || !start.is_multiple_of(page_size().size_bytes()) {
        return Err(EINVAL);
    }
    // In whole pages there may be none, which is fine.
    let bytes = in_pages(bytes);
    if start.checked_add(bytes).is_none() {
        return Err(ENOMEM);
    }
    call.process().space().sync(start, bytes, flags & INVALIDATE != 0).map(|()| 0).map_err(Errno::from)
}

fn lock(call: &Call, start: u64, bytes: u64, how: Locking) -> Answer {
    let start = without_tag(start);
    let (space, first) = (call.process().space(), start & !(page_size().size_bytes() - 1));
    check_lock(call, how)?;
    let bytes = in_pages(bytes.wrapping_add(start - first));
    space.lock(first, bytes, how)?;
    let mut has_rights = true;
    if how == Locking::Now {
        let range = first..first + bytes;
        space.areas(&mut |area| {
            has_rights &= !area.rights.is_empty() || area.end <= range.start || range.end <= area.start;
        });
    }
    // What cannot be had is locked all the same.
    if has_rights { Ok(0) } else { Err(ENOMEM) }
}

/// Refuses locks of who may have none.
fn check_lock(call: &Call, how: Locking) -> Result<(), Errno> {
    let is_refused = how != Locking::Not && call.process().limits_of_memory().locked == 0;
    if is_refused { Err(EPERM) } else { Ok(()) }
}

/// A size in whole pages; the largest are none, as Linux counts.
fn in_pages(bytes: u64) -> u64 {
    bytes.wrapping_add(page_size().size_bytes() - 1) & !(page_size().size_bytes() - 1)
}

fn mlock(call: &mut Call, start: u64, bytes: u64) -> Answer {
    lock(call, start, bytes, Locking::Now)
}

fn mlock2(call: &mut Call, start: u64, bytes: u64, flags: u32) -> Answer {
    const ONFAULT: u32 = 1;
    match flags {
        0 => lock(call, start, bytes, Locking::Now),
        ONFAULT => lock(call, start, bytes, Locking::OnFault),
        _ => Err(EINVAL),
    }
}

fn munlock(call: &mut Call, start: u64, bytes: u64) -> Answer {
    lock(call, start, bytes, Locking::Not)
}

fn mlockall(call: &mut Call, flags: u32) -> Answer {
    const CURRENT: u32 = 1;
    const FUTURE: u32 = 2;
    const ONFAULT: u32 = 4;
    if flags & !(CURRENT | FUTURE | ONFAULT) != 0 || flags & (CURRENT | FUTURE) == 0 {
        return Err(EINVAL);
    }
    let how = if flags & ONFAULT != 0 { Locking::OnFault } else { Locking::Now };
    check_lock(call, how)?;
    let future = if flags & FUTURE != 0 { how } else { Locking::Not };
    call.process().space().lock_all(how, flags & CURRENT != 0, future).map(|()| 0).map_err(Errno::from)
}

fn munlockall(call: &mut Call) -> Answer {
    call.process().space().lock_all(Locking::Not, true, Locking::Not).map(|()| 0).map_err(Errno::from)
}

fn mincore(call: &mut Call, start: u64, bytes: u64, to: u64) -> Answer {
    /// Pages that are told of at once.
    const PART: u64 = 4096;
    let start = without_tag(start);
    let page = page_size().size_bytes();
    if !start.is_multiple_of(page) {
        return Err(EINVAL);
    }
    if start.checked_add(bytes).is_none_or(|end| end > copies::END) {
        return Err(ENOMEM);
    }
    let pages = bytes.div_ceil(page);
    copies::check(to, pages as usize)?;
    for first in (0..pages).step_by(PART as usize) {
        let count = (pages - first).min(PART);
        let (mut found, mut put) = (Vec::new(), Ok(()));
        let space = call.process().space();
        let told = space.residency(start + first * page, count * page, &mut |is_there| {
            put = put.and_then(|()| found.try_push(u8::from(is_there)))
        });
        put?;
        // What is told of lies before the first hole.
        copies::write(to + first, &found)?;
        told?;
        if !dispatcher::goes_on() {
            return Err(EINTR);
        }
    }
    Ok(0)
}

fn madvise(call: &mut Call, start: u64, bytes: u64, what: u32) -> Answer {
    let start = without_tag(start);
    let advice = match what {
        0 => Advice::Normal,
        1 => Advice::Random,
        2 => Advice::Sequential,
        3 => Advice::WillNeed,
        4 => Advice::DontNeed,
        8 => Advice::Free,
        10 => Advice::DontFork,
        11 => Advice::DoFork,
        14 => Advice::Huge,
        15 => Advice::NotHuge,
        16 => Advice::DontDump,
        17 => Advice::DoDump,
        18 => Advice::WipeOnFork,
        19 => Advice::KeepOnFork,
        20 | 21 => Advice::Cold,
        // Nobody merges what is alike: MADV_MERGEABLE and MADV_UNMERGEABLE change nothing.
        12 | 13 => return Ok(call.process().space().sync(start, bytes, false).map(|()| 0)?),
        24 => Advice::DontNeedLocked,
        9 => return remove(call, start, bytes),
        22 => return populate(call, start, bytes, Kind::Read),
        23 => return populate(call, start, bytes, Kind::Write),
        _ => return Err(EINVAL),
    };
    call.process().space().advise(start, bytes, advice).map(|()| 0).map_err(Errno::from)
}

/// MADV_REMOVE: zeros in the file, for all who map it.
fn remove(call: &Call, start: u64, asked: u64) -> Answer {
    let bytes = in_pages(asked);
    let is_sound = start.is_multiple_of(page_size().size_bytes()) && bytes >= asked;
    let end = start.checked_add(bytes).filter(|_| is_sound).ok_or(EINVAL)?;
    let (mut at, mut has_hole, mut parts, mut put) = (start, false, Vec::new(), Ok(()));
    call.process().space().areas(&mut |area| {
        if at < area.end.min(end) && area.start < end {
            has_hole |= area.start > at;
            put = put.and_then(|()| parts.try_push((area.clone(), area.start.max(at))));
            at = area.end.min(end);
        }
    });
    put?;
    for (area, first) in parts {
        let Backing::File { file, offset } = &area.backing else { return Err(EINVAL) };
        if area.flags.contains(AreaFlags::LOCKED) {
            return Err(EINVAL);
        }
        if !area.flags.contains(AreaFlags::SHARED) || !area.most.contains(Rights::WRITE) {
            return Err(EACCES);
        }
        if let Body::Regular(content) = &file.inode.body {
            let at = *offset + (first - area.start);
            super::lengths::punch(&file.inode, content, at, area.end.min(end) - first)?;
        }
    }
    if has_hole || at < end { Err(ENOMEM) } else { Ok(0) }
}

fn populate(call: &Call, start: u64, bytes: u64, kind: Kind) -> Answer {
    call.process().space().populate(start, bytes, kind).map(|()| 0).map_err(Errno::from)
}
