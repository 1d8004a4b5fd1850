//! The calls of a program that are about memory, one by one: what their arguments mean, and which steps they take.

use core::ops::{ControlFlow, Range};
use core::sync::atomic::Ordering;

use vmsa::Granule;

use crate::access::{Access, Kind};
use crate::advice::Advice;
use crate::area::{Area, AreaFlags, Rights};
use crate::embedder::Embedder;
use crate::error::{Error, Fault};
use crate::locking::Locking;
use crate::looking::Page;
use crate::mapping::{Request, Source, Wished, is_page, pages_of, round_up};
use crate::parts::part_of;
use crate::remapping::{Move, Remap};
use crate::shape::{Leaf, Note};
use crate::space::AddressSpace;
use crate::state::{for_each_leaf_if, leaf_at};

impl<E: Embedder> AddressSpace<E> {
    /// `mmap`: maps, and says where.
    pub fn map(&self, request: Request<E::File>) -> Result<u64, Error> {
        let wished = self.wish(request.clone())?;
        let start = self.with_tables(|state, editing, supply| state.map(editing, &wished, supply))?;
        let range = start..start + wished.bytes;
        if request.populates {
            // Pages that cannot be had are for faults to tell of.
            let _ = self.touch(&range, |area| Ok(natural(area)), no_memory);
        }
        self.populate_if_locked(&range);
        Ok(start)
    }

    /// What a request asks for, if that means something.
    fn wish(&self, request: Request<E::File>) -> Result<Wished<E::File>, Error> {
        let Request { place, bytes, rights, flags, .. } = request;
        if bytes == 0 {
            return Err(Error::Invalid);
        }
        // More than all addresses is no memory, whatever it is to be of.
        let bytes = round_up::<E::Granule>(bytes)?;
        if bytes > self.shape().highest {
            return Err(Error::NoMemory);
        }
        let is_shared = flags.contains(AreaFlags::SHARED);
        let (file, most) = match request.source {
            Source::Anonymous if is_shared => {
                let pages = bytes >> E::Granule::SHIFT;
                let file = self.embedder().shared_memory(pages).ok_or(Error::NoMemory)?;
                (Some((file, 0)), Rights::all())
            }
            Source::Anonymous => (None, Rights::all()),
            Source::File { .. } if flags.contains(AreaFlags::GROWS_DOWN) => return Err(Error::Invalid),
            Source::File { file, offset, most } => {
                if !is_page::<E::Granule>(offset) {
                    return Err(Error::Invalid);
                }
                offset.checked_add(bytes).filter(|&end| i64::try_from(end).is_ok()).ok_or(Error::Overflow)?;
                // What is private may be written, whatever the file was opened for.
                (Some((file, offset)), if is_shared { most } else { most | Rights::WRITE })
            }
        };
        if !most.contains(rights) {
            return Err(Error::Denied);
        }
        Ok(Wished { place, bytes, rights, most, flags, file })
    }

    /// `munmap`.
    pub fn unmap(&self, start: u64, bytes: u64) -> Result<(), Error> {
        let range = pages_of::<E::Granule>(start, bytes)?;
        if bytes == 0 || range.end > self.shape().highest {
            return Err(Error::Invalid);
        }
        self.with_tables(|state, editing, supply| state.remove(editing, &range, supply))
    }

    /// `mprotect`.
    pub fn protect(&self, start: u64, bytes: u64, rights: Rights) -> Result<(), Error> {
        if !is_page::<E::Granule>(start) {
            return Err(Error::Invalid);
        }
        let bytes = round_up::<E::Granule>(bytes)?;
        let end = start.checked_add(bytes).ok_or(Error::NoMemory)?;
        self.with_tables(|state, editing, supply| state.protect(editing, &(start..end), rights, supply))
    }

    /// `mremap`: `old_bytes` from `start` on become `bytes`, at another place if `moves` says so; where they are then. With `keeps`
    /// (MREMAP_DONTUNMAP) the old area stays, and has no pages. What moves to a given place and keeps its size may be of several
    /// areas, each of which moves by itself: an error leaves those moved that came before.
    pub fn remap(&self, start: u64, old_bytes: u64, bytes: u64, moves: Move, keeps: bool) -> Result<u64, Error> {
        let (old_bytes, bytes) = (round_up::<E::Granule>(old_bytes), round_up::<E::Granule>(bytes));
        let (Ok(old_bytes), Ok(bytes)) = (old_bytes, bytes) else { return Err(Error::Invalid) };
        // With a target, a size beyond the address space is invalid; without one, there is no memory for it.
        let has_target = keeps || matches!(moves, Move::To(_) | Move::Near(_));
        let is_no_size = bytes == 0 || has_target && bytes > self.shape().highest;
        let keeps_wrongly = keeps && (moves == Move::Never || bytes != old_bytes);
        if is_no_size || keeps_wrongly || !is_page::<E::Granule>(start) {
            return Err(Error::Invalid);
        }
        let asked = Remap { old: start..start.saturating_add(old_bytes), bytes, moves, keeps };
        // Parts that are moved stay moved if another lacks tables.
        let mut done = asked.old.start;
        let at = self.with_tables(|state, editing, supply| state.remap_each(editing, &asked, &mut done, supply))?;
        self.populate_if_locked(&(at..at + bytes));
        Ok(at)
    }

    /// `madvise`.
    pub fn advise(&self, start: u64, bytes: u64, advice: Advice) -> Result<(), Error> {
        let range = pages_of::<E::Granule>(start, bytes)?;
        let advised = self.with_tables(|state, editing, supply| state.advise(editing, &range, advice, supply));
        if advice == Advice::Free {
            // Behind it, however far it came: who looks before finds it, or this.
            self.has_lazy.store(true, Ordering::Release);
        }
        advised
    }

    /// MADV_POPULATE_READ and MADV_POPULATE_WRITE: makes pages as accesses of this kind do.
    pub fn populate(&self, start: u64, bytes: u64, kind: Kind) -> Result<(), Error> {
        let range = pages_of::<E::Granule>(start, bytes)?;
        // Hardware lets everybody read who may write or execute; whoever asks for reads must have been promised them.
        let promised = |area: &Area<E::File>| match kind {
            Kind::Read if !area.rights.contains(Rights::READ) => Err(Fault::Denied),
            kind => Ok(Some(kind)),
        };
        self.touch(&range, promised, |fault| match fault {
            Fault::Unmapped | Fault::OutOfMemory => Error::NoMemory,
            Fault::Denied => Error::Invalid,
            Fault::Beyond => Error::BadAddress,
        })
    }

    /// `mincore`: tells `sink` of each page whether it is in memory. The lock is held.
    pub fn residency(&self, start: u64, bytes: u64, mut sink: impl FnMut(bool)) -> Result<(), Error> {
        let range = pages_of::<E::Granule>(start, bytes)?;
        self.with_tables(|state, editing, _| state.residency(editing, &range, &mut sink))
    }

    /// `mlock`, `mlock2`, `munlock`: of all pages that the bytes touch.
    pub fn lock(&self, start: u64, bytes: u64, how: Locking) -> Result<(), Error> {
        let first = start & !(E::Granule::SIZE_BYTES - 1);
        let bytes = bytes.checked_add(start - first).ok_or(Error::Invalid)?;
        let range = pages_of::<E::Granule>(first, bytes)?;
        self.with_tables(|state, editing, supply| state.lock(editing, &range, how, supply))?;
        if how != Locking::Now {
            return Ok(());
        }
        // What may be dropped is not locked, and not made either.
        let is_droppable = |area: &Area<E::File>| area.flags.contains(AreaFlags::DROPPABLE);
        let kept = |area: &Area<E::File>| if is_droppable(area) { None } else { natural(area) };
        self.touch(
            &range,
            |area| Ok(kept(area)),
            |fault| match fault {
                Fault::OutOfMemory => Error::Again,
                _ => Error::NoMemory,
            },
        )
    }

    /// `mlockall`, `munlockall`: all areas that there are, if `has_current`, and what areas to come are to be.
    pub fn lock_all(&self, how: Locking, has_current: bool, future: Locking) -> Result<(), Error> {
        self.with_tables(|state, _, _| {
            if has_current {
                state.lock_all(how)?;
            }
            state.future = future.flags();
            Ok(())
        })?;
        if has_current && how == Locking::Now {
            let mut at = 0;
            while let Some(range) = self.with(|state| state.areas.next(at).map(Area::range)) {
                at = range.end;
                if self.touch(&range, |area| Ok(natural(area)), no_memory) == Err(Error::Interrupted) {
                    return Err(Error::Interrupted);
                }
            }
        }
        Ok(())
    }

    /// `msync`: what programs write is in the files at once, so that it is only asked whether it can be done. With `invalidates`
    /// (MS_INVALIDATE) nothing of it may be locked.
    pub fn sync(&self, start: u64, bytes: u64, invalidates: bool) -> Result<(), Error> {
        let range = pages_of::<E::Granule>(start, bytes)?;
        self.with(|state| {
            let mut at = range.start;
            for area in state.areas.parts(&range) {
                if !self.embedder().goes_on() {
                    return Err(Error::Interrupted);
                }
                if invalidates && area.flags.contains(AreaFlags::LOCKED) {
                    return Err(Error::Busy);
                }
                at = if area.start == at { area.end } else { at };
            }
            if at < range.end { Err(Error::NoMemory) } else { Ok(()) }
        })
    }

    /// Gives `sink` every page of a range that is mapped, in order of address. The lock is held. Less, where the thread is to end.
    pub fn pages(&self, range: Range<u64>, sink: impl FnMut(&Page)) {
        self.pages_if(&range, |_| true, sink);
    }

    /// Gives `sink` those that count a reference ([`Page::is_counted`]), as [`Self::pages`] does: zeros that were only read are passed
    /// over, however many.
    pub fn counted_pages(&self, range: Range<u64>, sink: impl FnMut(&Page)) {
        self.pages_if(&range, |leaf| leaf.has(Note::COUNTED), sink);
    }

    fn pages_if(&self, range: &Range<u64>, is_wanted: impl Fn(&Leaf) -> bool, mut sink: impl FnMut(&Page)) {
        let _ = self.with_tables(|state, editing, _| {
            let table = state.table(editing);
            let tell = |page, leaf| {
                sink(&Page::new(page, &leaf));
                if editing.embedder.goes_on() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let is_wanted = |leaf: &Leaf| {
                let _ = editing.embedder.goes_on();
                is_wanted(leaf)
            };
            for_each_leaf_if::<E, ()>(&table, range, is_wanted, tell)?;
            Ok(())
        });
    }

    /// Takes at most `pages` that MADV_FREE has left to be taken; how many it took.
    pub fn take_lazy(&self, pages: usize) -> usize {
        let (mut at, mut taken) = (0, 0);
        // No lock is waited for where there was nothing.
        let has_lazy = self.has_lazy.load(Ordering::Relaxed) && self.has_lazy.swap(false, Ordering::Acquire);
        while has_lazy && taken < pages {
            let found = self.with_tables(|state, editing, supply| state.take_lazy(editing, at, supply));
            let Ok(Some((page, is_taken))) = found else { break };
            // As long as something is found there may be more.
            self.has_lazy.store(true, Ordering::Release);
            at = page + E::Granule::SIZE_BYTES;
            taken += usize::from(is_taken);
        }
        taken
    }

    /// These pages of a file are no longer what they were: what was mapped of them is mapped no longer. What has been copied by now goes as
    /// well, as where the file ends before, unless `keeps_copies`, as where a hole is made in it.
    pub fn forget_file(&self, file: &E::File, pages: Range<u64>, keeps_copies: bool) {
        let which = (&pages, keeps_copies);
        let _ = self.with_tables(|state, editing, supply| state.forget_file(editing, file, which, supply));
    }

    /// The heap begins at `start`, and has nothing yet.
    pub fn set_heap(&self, start: u64) {
        self.with(|state| state.heap = start..start);
    }

    /// The heap, up to the break.
    pub fn heap(&self) -> Range<u64> {
        // With any part: who changes it has the whole.
        self.with_part(0, |state, _| state.heap.clone())
    }

    /// `brk`: moves the break, and says where it is then.
    pub fn set_break(&self, wanted: u64) -> u64 {
        let moved = self.with_tables(|state, editing, supply| state.set_break(editing, wanted, supply));
        let heap = self.heap();
        if moved == Ok(wanted)
            && let Ok(first) = round_up::<E::Granule>(heap.start)
        {
            self.populate_if_locked(&(first..heap.end));
        }
        heap.end
    }

    /// Makes the pages of a range as accesses do of the kind that `kind` says for each area, up to the first that cannot be had, which is
    /// the error that `error` says.
    fn touch(
        &self,
        range: &Range<u64>,
        kind: impl Fn(&Area<E::File>) -> Result<Option<Kind>, Fault>,
        error: impl Fn(Fault) -> Error,
    ) -> Result<(), Error> {
        let mut at = range.start;
        while at < range.end {
            // As above.
            let part = self.with_part(0, |state, _| state.areas.parts(&(at..range.end)).next());
            let part = part.filter(|part| part.start == at).ok_or_else(|| error(Fault::Unmapped))?;
            at = part.end;
            let kind = kind(&part).map_err(&error)?;
            // Nobody makes its pages but accesses of the program's own.
            if kind.is_some() && part.flags.contains(AreaFlags::SECRET) {
                return Err(error(Fault::Denied));
            }
            let mut page = if kind.is_some() { part.start } else { part.end };
            while page < part.end && self.embedder().goes_on() {
                self.fault(Access { address: page, kind: kind.unwrap_or(Kind::Read) }).map_err(&error)?;
                page = self.end_of_block(page);
            }
            if !self.embedder().goes_on() {
                return Err(Error::Interrupted);
            }
        }
        Ok(())
    }

    /// The address behind the block that maps a page: an access that can be made there, can be made all over it. Behind the page, if no
    /// block does.
    fn end_of_block(&self, page: u64) -> u64 {
        let whole = self.with_part(part_of::<E::Granule>(page), |state, _| {
            let editing = self.editing();
            let table = state.table(&editing);
            // Of pages alone, the next look tells.
            state
                .has_folios()
                .then(|| leaf_at::<E>(&table.view(), page))
                .flatten()
                .filter(|(leaf, _)| leaf.is_of_block())
        });
        whole.map_or(page + E::Granule::SIZE_BYTES, |(_, whole)| whole.end)
    }

    /// Makes the pages of areas that are locked, as far as that goes.
    fn populate_if_locked(&self, range: &Range<u64>) {
        let locked = AreaFlags::LOCKED | AreaFlags::LOCKED_ON_FAULT;
        let is_locked = |area: &Area<E::File>| area.flags & locked == AreaFlags::LOCKED;
        let _ = self.touch(range, |area| Ok(if is_locked(area) { natural(area) } else { None }), no_memory);
    }
}

/// What a fault comes to where nobody is told of it.
fn no_memory(_: Fault) -> Error {
    Error::NoMemory
}

/// The access by which a page of an area is made if nobody says which: a write where a write would copy; none where none is allowed.
fn natural<F: Clone + PartialEq>(area: &Area<F>) -> Option<Kind> {
    if area.is_data() {
        return Some(Kind::Write);
    }
    (!area.rights.is_empty()).then_some(Kind::Read)
}
