//! What is in a regular file: pages, where there were none zeros.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use userspace::Map;
use vmsa::PhysAddr;

use crate::errno::{EFBIG, EINTR, ENOSPC, ENXIO, EPERM, Errno};
use crate::facts::page_size;
use crate::locks::{Lock, order};
use crate::memory::frames::{self, Frame};
use crate::memory::promises;
use crate::threads::dispatcher;
use crate::threads::mutex::Mutex;

/// What may not be done any more with a file (F_ADD_SEALS): to seal it further, make it shorter or longer, write it, map it to
/// be written.
pub(crate) const SEAL_SEAL: u32 = 1;
pub(crate) const SEAL_SHRINK: u32 = 2;
pub(crate) const SEAL_GROW: u32 = 4;
pub(crate) const SEAL_WRITE: u32 = 8;
pub(crate) const SEAL_FUTURE_WRITE: u32 = 16;

/// The largest file.
const MOST_BYTES: u64 = i64::MAX as u64;

/// Pages that are looked at, or go, while the lock is held.
const AT_ONCE: usize = 32;

/// A round of a loop whose length a program chooses: others have their turn, and SIGKILL ends it.
fn check_going() -> Result<(), Errno> {
    if dispatcher::goes_on() { Ok(()) } else { Err(EINTR) }
}

struct Pages {
    bytes: u64,
    frames: Map<u64, Held>,
}

impl Pages {
    /// How many it may have.
    fn count(&self) -> u64 {
        self.bytes.div_ceil(page_size().size_bytes())
    }
}

/// A page of a file.
struct Held {
    frame: Frame,
    /// It was written, and not only made.
    is_dirty: bool,
}

/// The content of a file, memory that processes share, or a `memfd`.
pub(crate) struct Content(Lock<Pages>, AtomicU32, Mutex<()>, AtomicU64);

impl Drop for Content {
    fn drop(&mut self) {
        let mut pages = self.0.with(|pages| core::mem::take(&mut pages.frames));
        // Others have their turn meanwhile.
        pages.retain(|_, _| {
            let _ = dispatcher::goes_on();
            false
        });
        promises::take_back(*self.3.get_mut());
    }
}

impl Content {
    pub(crate) const fn new() -> Self {
        Self(
            Lock::new(order::PAGES_OF_FILE, Pages { bytes: 0, frames: Map::new() }),
            AtomicU32::new(SEAL_SEAL),
            Mutex::new(order::CONTENT, ()),
            AtomicU64::new(0),
        )
    }

    /// Promises pages of it, once, for as long as it is there. Whether that may be.
    pub(crate) fn promise(&self, pages: u64) -> bool {
        let is_promised = promises::promise(pages);
        self.3.store(if is_promised { pages } else { 0 }, Ordering::Relaxed);
        is_promised
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.with(|pages| pages.bytes)
    }

    /// Runs `body` while no other call writes, makes the file longer or shorter, makes holes in it, seals it, or maps it to be written by
    /// all: what `body` has looked at stays so until it has acted.
    /// Who waits for that can be killed.
    pub(crate) fn alone<T>(&self, body: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        self.2.with_or_end(|()| body())
    }

    pub(crate) fn seals(&self) -> u32 {
        self.1.load(Ordering::Relaxed)
    }

    pub(crate) fn set_seals(&self, seals: u32) {
        self.1.store(seals, Ordering::Relaxed);
    }

    /// Refuses a write that ends there, or that the file ends there from now on, if seals forbid it.
    pub(crate) fn check_seals(&self, end: u64, is_write: bool) -> Result<(), Errno> {
        let (seals, bytes) = (self.seals(), self.bytes());
        let is_refused = is_write && seals & (SEAL_WRITE | SEAL_FUTURE_WRITE) != 0
            || end > bytes && seals & SEAL_GROW != 0
            || !is_write && end < bytes && seals & SEAL_SHRINK != 0;
        if is_refused { Err(EPERM) } else { Ok(()) }
    }

    /// Pages that it has.
    pub(crate) fn pages(&self) -> u64 {
        self.0.with(|pages| pages.frames.len() as u64)
    }

    /// A page of it, if one was ever written or mapped.
    pub(crate) fn find(&self, index: u64) -> Option<Frame> {
        self.0.with(|pages| pages.frames.get(&index).map(|held| held.frame.clone()))
    }

    /// Where from `offset` on the first page is that was written or mapped, or the first that was not: the end is none. ENXIO without one.
    pub(crate) fn seek(&self, offset: u64, is_data: bool) -> Result<u64, Errno> {
        let page = page_size().size_bytes();
        let end = Some(self.bytes()).filter(|end| offset < *end).ok_or(ENXIO)?;
        if is_data {
            let found = self.0.with(|pages| pages.frames.at_least(&(offset / page)).next().map(|(index, _)| *index));
            let at = offset.max(found.ok_or(ENXIO)? * page);
            return Some(at).filter(|at| *at < end).ok_or(ENXIO);
        }
        let mut first = offset / page;
        loop {
            // Pages side by side, as many as are looked at under the lock at once.
            let is_next = |(at, index): &(usize, &u64)| **index == first + *at as u64;
            let met = self.0.with(|pages| {
                pages
                    .frames
                    .at_least(&first)
                    .map(|(index, _)| index)
                    .take(AT_ONCE)
                    .enumerate()
                    .take_while(is_next)
                    .count()
            });
            first += met as u64;
            if met < AT_ONCE {
                return Ok(offset.max(first * page).min(end));
            }
            check_going()?;
        }
    }

    /// The page of this number, made if there is none; `None` without memory.
    pub(crate) fn frame(&self, index: u64) -> Option<Frame> {
        if let Some(frame) = self.find(index) {
            return Some(frame);
        }
        let fresh = Frame::zeroed_for_call()?;
        // Another may have made one meanwhile: the first stays.
        self.0.with(|pages| {
            if let Some(known) = pages.frames.get(&index) {
                return Some(known.frame.clone());
            }
            pages.frames.insert(index, Held { frame: fresh.clone(), is_dirty: false }).ok()?;
            Some(fresh.clone())
        })
    }

    /// A page is written, or may be by a program that maps it.
    pub(crate) fn mark_dirty(&self, index: u64) {
        self.0.with(|pages| {
            if let Some(held) = pages.frames.get_mut(&index) {
                held.is_dirty = true;
            }
        });
    }

    /// Whether a page was written.
    pub(crate) fn is_dirty(&self, index: u64) -> bool {
        self.0.with(|pages| pages.frames.get(&index).is_some_and(|held| held.is_dirty))
    }

    /// The frame for a mapping, which then has it; the error is whether the file ends before.
    pub(crate) fn mapped(&self, index: u64) -> Result<PhysAddr, bool> {
        if let Some(frame) = self.resident(index) {
            return Ok(frame);
        }
        if self.0.with(|pages| index >= pages.count()) {
            return Err(true);
        }
        let fresh = Held { frame: Frame::zeroed().ok_or(false)?, is_dirty: false };
        // Another may have made one meanwhile, or the file shorter.
        self.0.with(|pages| {
            if index >= pages.count() {
                return Err(true);
            }
            let frame = fresh.frame.0;
            if let Some(known) = pages.frames.insert(index, fresh).map_err(|_| false)? {
                // That one stays: programs have it mapped.
                let frame = known.frame.0;
                pages.frames.insert(index, known).map_err(|_| false)?;
                frames::share(frame);
                return Ok(frame);
            }
            frames::share(frame);
            Ok(frame)
        })
    }

    /// The frame of a page that it has, for a mapping, which then has it.
    fn resident(&self, index: u64) -> Option<PhysAddr> {
        self.0.with(|pages| {
            let held = pages.frames.get(&index).filter(|_| index < pages.count())?;
            frames::share(held.frame.0);
            Some(held.frame.0)
        })
    }

    /// The same of each of these pages that it has, with its number.
    pub(crate) fn for_each_resident(&self, range: Range<u64>, mut sink: impl FnMut(u64, PhysAddr)) {
        self.0.with(|pages| {
            let range = range.start..range.end.min(pages.count());
            let those = pages.frames.at_least(&range.start).take_while(|(index, _)| range.contains(index));
            for (index, held) in those {
                frames::share(held.frame.0);
                sink(*index, held.frame.0);
            }
        });
    }

    /// Gives `sink` the bytes from `offset` on, part by part; how many there were. `sink` says whether it goes on.
    pub(crate) fn read(
        &self,
        offset: u64,
        most: u64,
        mut sink: impl FnMut(&[u8]) -> Result<(), Errno>,
    ) -> Result<u64, Errno> {
        let page = page_size().size_bytes();
        let mut at = offset;
        // Where the file ends is looked at with each page: it may be made shorter meanwhile, and what is gone is not read as zeros.
        let look = |at: u64| {
            self.0.with(|pages| {
                let end = pages.bytes.min(offset.saturating_add(most));
                (at < end).then(|| (end, pages.frames.get(&(at / page)).map(|held| held.frame.clone())))
            })
        };
        while let Some((end, found)) = look(at) {
            let (first, last) = (at % page, (at % page + (end - at)).min(page));
            let frame = found.as_ref().map_or(frames::zero_frame(), |frame| frame.0);
            match sink(&frames::bytes(&frame)[first as usize..last as usize]) {
                Err(error) if at == offset => return Err(error),
                Err(_) => break,
                Ok(()) => at += last - first,
            }
            if !dispatcher::goes_on() {
                break;
            }
        }
        Ok(at.saturating_sub(offset))
    }

    /// Has `source` fill the bytes from `offset` on, part by part; how many it filled. The file grows with them.
    pub(crate) fn write(
        &self,
        offset: u64,
        bytes: u64,
        mut source: impl FnMut(&mut [u8]) -> Result<(), Errno>,
    ) -> Result<u64, Errno> {
        let page = page_size().size_bytes();
        let end = offset.checked_add(bytes).filter(|end| *end <= MOST_BYTES).ok_or(EFBIG)?;
        let mut at = offset;
        while at < end {
            let (first, last) = (at % page, (at % page + (end - at)).min(page));
            let filled = self
                .frame(at / page)
                .ok_or(ENOSPC)
                .and_then(|frame| source(&mut frames::bytes(&frame.0)[first as usize..last as usize]));
            match filled {
                Err(error) if at == offset => return Err(error),
                Err(_) => break,
                Ok(()) => self.mark_dirty(at / page),
            }
            at += last - first;
            self.0.with(|pages| pages.bytes = pages.bytes.max(at));
            if !dispatcher::goes_on() {
                break;
            }
        }
        Ok(at - offset)
    }

    /// Makes what lies in these bytes zeros.
    pub(crate) fn clear(&self, offset: u64, bytes: u64) {
        let page = page_size().size_bytes();
        let end = offset.saturating_add(bytes).min(self.bytes());
        let mut at = offset;
        while at < end {
            let next = (at + 1).next_multiple_of(page).min(end);
            if let Some(frame) = self.find(at / page) {
                frames::bytes(&frame.0)[(at % page) as usize..][..(next - at) as usize].fill(0);
            }
            at = next;
        }
    }

    /// Takes pages out of it, some at once: a hole, and where it goes on.
    pub(crate) fn take(&self, indices: Range<u64>) -> ([Option<Frame>; AT_ONCE], u64) {
        let mut taken = [const { None }; AT_ONCE];
        let mut end = indices.end;
        self.0.with(|pages| {
            for place in &mut taken {
                let next = pages.frames.at_least(&indices.start).next().map(|(index, _)| *index);
                let Some(index) = next.filter(|index| indices.contains(index)) else { return };
                *place = pages.frames.remove(&index).map(|held| held.frame);
                end = index + 1;
            }
        });
        let is_all = taken.last().is_some_and(Option::is_none);
        (taken, if is_all { indices.end } else { end })
    }

    /// Has a page wherever one of these bytes is: `fallocate`. For who is [`Self::alone`].
    pub(crate) fn fill(&self, bytes: Range<u64>) -> Result<(), Errno> {
        let page = page_size().size_bytes();
        let indices = bytes.start / page..bytes.end.div_ceil(page);
        if !frames::has_room(indices.end - indices.start) {
            return Err(ENOSPC);
        }
        for index in indices {
            self.frame(index).ok_or(ENOSPC)?;
            check_going()?;
        }
        Ok(())
    }

    /// Makes it so long; what is cut off is gone, what is added is zero.
    pub(crate) fn resize(&self, bytes: u64) -> Result<(), Errno> {
        if bytes > MOST_BYTES {
            return Err(EFBIG);
        }
        let page = page_size().size_bytes();
        let is_shorter = self.0.with(|pages| {
            let is_shorter = bytes < pages.bytes;
            pages.bytes = bytes;
            // A page that goes as a whole stays as it is: who reads it meanwhile has found it before.
            if is_shorter
                && !bytes.is_multiple_of(page)
                && let Some(last) = pages.frames.get(&(bytes / page))
            {
                frames::bytes(&last.frame.0)[(bytes % page) as usize..].fill(0);
            }
            is_shorter
        });
        // Nobody finds pages beyond the end. SIGKILL leaves none of them there: a longer file would show them again.
        let mut first = if is_shorter { bytes.div_ceil(page) } else { u64::MAX };
        while first < u64::MAX {
            let (cut, next) = self.take(first..u64::MAX);
            drop(cut);
            first = next;
            let _ = dispatcher::goes_on();
        }
        Ok(())
    }
}
