//! Locks of files, as programs ask for them.

use crate::fallible::Arc;
use core::ops::RangeInclusive;

use super::call::Call;
use crate::errno::*;
use crate::files::descriptors::Descriptor;
use crate::files::locks::{self, Held, LAST};
use crate::files::open::File;
use crate::process::copies;

/// `l_type`.
const SHARED: u16 = 0;
const EXCLUSIVE: u16 = 1;
const NONE: u16 = 2;

/// `struct flock` of arm64, but for the process at its end.
struct Wanted {
    kind: u16,
    start: i64,
    bytes: i64,
}

impl Wanted {
    fn read(from: u64, file: &File) -> Result<Self, Errno> {
        let [kinds, start, bytes] = copies::read_words(from)?;
        let origin = match kinds >> 16 & 0xffff {
            0 => 0,
            1 => file.position.get(),
            2 => file.inode.bytes(),
            _ => return Err(EINVAL),
        };
        let start = (origin as i64).checked_add(start as i64).ok_or(EOVERFLOW)?;
        Ok(Self { kind: kinds as u16, start, bytes: bytes as i64 })
    }

    /// A length below 0 is of what lies before, 0 of all that follows.
    fn range(&self) -> Result<RangeInclusive<u64>, Errno> {
        let at = |place: i64| u64::try_from(place).map_err(|_| EINVAL);
        let start = at(self.start)?;
        match self.bytes {
            0 => Ok(start..=LAST),
            1.. => Ok(start..=at(self.start.checked_add(self.bytes - 1).ok_or(EOVERFLOW)?)?),
            _ => Ok(at(self.start.saturating_add(self.bytes))?..=at(self.start - 1)?),
        }
    }
}

/// F_GETLK and F_SETLK.
pub(super) fn of_ranges(call: &Call, file: &Arc<File>, (number, command): (i32, u32), address: u64) -> Answer {
    const GET: u32 = 5;
    let wanted = Wanted::read(address, file)?;
    if wanted.kind > NONE || command == GET && wanted.kind == NONE {
        return Err(EINVAL);
    }
    let owner = call.process().files.owner();
    let is_exclusive = wanted.kind == EXCLUSIVE;
    let held = Held { owner, process: call.process().number, range: wanted.range()?, is_exclusive };
    if command == GET {
        return tell(address, locks::find(&file.inode, &held));
    }
    let may = match wanted.kind {
        SHARED => file.can_read(),
        EXCLUSIVE => file.can_write(),
        _ => true,
    };
    if !may {
        return Err(EBADF);
    }
    if wanted.kind == NONE {
        return locks::release(&file.inode, owner, held.range).map(|()| 0);
    }
    if !locks::take(&file.inode, &held)? {
        return Err(EAGAIN);
    }
    let is_same = |found: &Descriptor| Arc::ptr_eq(&found.file, file);
    if call.process().files.with(|files| files.get(number).is_ok_and(is_same)) {
        return Ok(0);
    }
    // Another thread closed it meanwhile, and nobody would give this lock up any more.
    if locks::release(&file.inode, owner, held.range).is_err() {
        locks::forget(&file.inode, owner);
    }
    Err(EBADF)
}

/// Says what is in the way.
fn tell(address: u64, found: Option<Held>) -> Answer {
    let Some(held) = found else { return copies::write(address, &NONE.to_le_bytes()).map(|()| 0) };
    let (start, last) = (*held.range.start(), *held.range.end());
    let kind = u64::from(if held.is_exclusive { EXCLUSIVE } else { SHARED });
    let bytes = if last == LAST { 0 } else { last - start + 1 };
    copies::write_words(address, &[kind, start, bytes])?;
    copies::write_half(address + 24, held.process as u32).map(|()| 0)
}
