//! Files that are made shorter or longer, get holes, and are sealed: each as one step for who writes them or maps them ([`Content::alone`]).

use core::ops::Range;

use userspace::{AreaFlags, Backing, Rights};

use super::amounts::check_file_limit;
use super::call::Call;
use crate::errno::*;
use crate::facts::page_size;
use crate::fallible::Arc;
use crate::files::content::{Content, SEAL_FUTURE_WRITE, SEAL_GROW, SEAL_SEAL, SEAL_SHRINK, SEAL_WRITE};
use crate::files::inode::{Body, Inode};
use crate::memory::mapped::{Mapped, Path};
use crate::process::family;
use crate::threads::dispatcher;

/// F_ADD_SEALS: none can be taken back.
pub(super) fn add_seals(inode: &Arc<Inode>, seals: u32) -> Answer {
    const KNOWN: u32 = SEAL_SEAL | SEAL_SHRINK | SEAL_GROW | SEAL_WRITE | SEAL_FUTURE_WRITE;
    let Body::Regular(content) = &inode.body else { return Err(EINVAL) };
    if seals & !KNOWN != 0 {
        return Err(EINVAL);
    }
    content.alone(|| {
        if content.seals() & SEAL_SEAL != 0 {
            return Err(EPERM);
        }
        if seals & SEAL_WRITE != 0 && may_be_written_by_all(inode) {
            return Err(EBUSY);
        }
        content.set_seals(content.seals() | seals);
        Ok(0)
    })
}

/// Whether a program maps it to be written by all, or may do so by `mprotect`.
fn may_be_written_by_all(inode: &Arc<Inode>) -> bool {
    let mut is_written = false;
    family::for_each_space(|space| {
        space.areas(&mut |area| {
            let is_it = matches!(&area.backing, Backing::File { file, .. } if Arc::ptr_eq(&file.inode, inode));
            is_written |= is_it && area.flags.contains(AreaFlags::SHARED) && area.most.contains(Rights::WRITE);
        });
    });
    is_written
}

/// Refuses to make a file longer than the process may.
fn check_limit(call: &Call, content: &Content, bytes: u64) -> Result<(), Errno> {
    if bytes > content.bytes() { check_file_limit(call, bytes).map(drop) } else { Ok(()) }
}

/// Makes a file so long. What is cut off of it is mapped nowhere from then on.
pub(super) fn resize(call: &Call, inode: &Arc<Inode>, content: &Content, bytes: u64) -> Result<(), Errno> {
    content.alone(|| {
        check_limit(call, content, bytes)?;
        content.check_seals(bytes, false)?;
        let is_shorter = bytes < content.bytes();
        content.resize(bytes)?;
        if is_shorter {
            forget_pages(inode, bytes.div_ceil(page_size().size_bytes())..u64::MAX, false);
        }
        Ok(())
    })
}

/// Has pages for a range of a file, which is made longer for that, unless it `keeps_size`.
pub(super) fn allocate(call: &Call, content: &Content, range: Range<u64>, keeps_size: bool) -> Result<(), Errno> {
    content.alone(|| {
        check_limit(call, content, range.end)?;
        let is_beyond = range.end > content.bytes();
        if is_beyond {
            content.check_seals(range.end, false)?;
        }
        content.fill(range.clone())?;
        if is_beyond && !keeps_size { content.resize(range.end) } else { Ok(()) }
    })
}

/// Makes a hole in a file: whole pages go, and what is left of others is zeros.
pub(super) fn punch(inode: &Arc<Inode>, content: &Content, offset: u64, bytes: u64) -> Result<(), Errno> {
    content.alone(|| {
        content.check_seals(0, true)?;
        let (page, end) = (page_size().size_bytes(), offset.saturating_add(bytes));
        let (first, last) = (offset.div_ceil(page), end / page);
        if first >= last {
            content.clear(offset, bytes);
            return Ok(());
        }
        content.clear(offset, first * page - offset);
        content.clear(last * page, end - last * page);
        let mut at = first;
        while at < last {
            let (gone, end) = content.take(at..last);
            forget_pages(inode, at..end, true);
            drop(gone);
            at = end;
        }
        Ok(())
    })
}

/// Has no program map what were pages of a file.
fn forget_pages(inode: &Arc<Inode>, pages: Range<u64>, keeps_copies: bool) {
    let file = Mapped { inode: inode.clone(), path: Path::Fixed("") };
    family::for_each_space(|space| {
        space.forget_file(&file, pages.clone(), keeps_copies);
        // What is cut off is mapped nowhere in the end, whoever is to end.
        let _ = dispatcher::goes_on();
    });
}
