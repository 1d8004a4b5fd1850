//! `mremap`: an area shrinks, grows where it is, or moves, and its pages with it.
//!
//! ```text
//!   leaves are cut at both ends ──▶ tables of the target are at hand ──▶ the target is emptied ──▶ leaves move as they are
//!   └── refused: nothing has changed ─────────────────────────────┘
//! ```

use core::ops::Range;

use pagetable::Reserve;
use vmsa::Granule;

use crate::area::{Area, AreaFlags, Backing};
use crate::embedder::Embedder;
use crate::error::{Error, Short};
use crate::mapping::is_page;
use crate::state::{Editing, State};

/// How `mremap` may move.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Move {
    /// Not at all.
    Never,
    /// If it cannot grow where it is: MREMAP_MAYMOVE.
    May,
    /// There, if there is room: MREMAP_DONTUNMAP with an address.
    Near(u64),
    /// There; what is there goes: MREMAP_FIXED.
    To(u64),
}

/// What `mremap` asks for, in whole pages.
#[derive(Clone, Debug)]
pub(crate) struct Remap {
    pub(crate) old: Range<u64>,
    pub(crate) bytes: u64,
    pub(crate) moves: Move,
    /// MREMAP_DONTUNMAP: the old area stays, without pages.
    pub(crate) keeps: bool,
}

impl<E: Embedder> State<E> {
    /// The same of all areas that a range meets, where it is to move and keeps its size: one after the other, each as far from the
    /// first as it was. `done` says up to where they have moved.
    pub(crate) fn remap_each(
        &mut self,
        editing: &Editing<'_, E>,
        asked: &Remap,
        done: &mut u64,
        supply: &mut Reserve,
    ) -> Result<u64, Short> {
        let Remap { old, bytes, moves, keeps } = asked.clone();
        let Move::To(start) = moves else { return self.remap(editing, asked, supply) };
        // Holes are passed, but what is named first has to be there.
        let is_there = *done > old.start || self.areas.find(old.start).is_some();
        if !is_there || bytes != old.end - old.start {
            return self.remap(editing, asked, supply);
        }
        self.check_target(editing, &old, start, bytes, moves)?;
        while *done < old.end {
            let Some(part) = self.areas.parts(&(*done..old.end)).next() else { break };
            let moves = Move::To(start + (part.start - old.start));
            let one = Remap { old: part.range(), bytes: part.bytes(), moves, keeps };
            self.remap(editing, &one, supply)?;
            *done = part.end;
        }
        Ok(start)
    }

    /// Does what `mremap` asks for of one area, and says where it is then.
    pub(crate) fn remap(
        &mut self,
        editing: &Editing<'_, E>,
        asked: &Remap,
        supply: &mut Reserve,
    ) -> Result<u64, Short> {
        let Remap { old, bytes, moves, keeps } = asked.clone();
        let old_bytes = old.end - old.start;
        let Some(area) = self.areas.find(old.start) else { return Err(Error::BadAddress.into()) };
        if old.end > editing.shape.highest {
            // `munmap` refuses the pages that it shrinks by; without such pages, the old range has a hole.
            return Err(if bytes < old_bytes { Error::Invalid } else { Error::BadAddress }.into());
        }
        if let Move::To(start) | Move::Near(start) = moves {
            self.check_target(editing, &old, start, bytes, moves)?;
        } else if bytes <= old_bytes && !keeps {
            if bytes < old_bytes {
                self.remove(editing, &(old.start + bytes..old.end), supply)?;
            }
            return Ok(old.start);
        }
        // What it shrinks by first need not be of one area.
        let kept = old.start..old.start + old_bytes.min(bytes);
        if kept.end > area.end {
            return Err(Error::BadAddress.into());
        }
        // Nothing old: another mapping of what is shared.
        if old_bytes == 0 && !area.is_shared() {
            return Err(Error::Invalid.into());
        }
        if bytes > old_bytes {
            self.check_locked(area, bytes - old_bytes)?;
        }
        // Behind this check, an address of the space plus the new size is below 2^64.
        if bytes > editing.shape.highest {
            return Err(Error::NoMemory.into());
        }
        let area = area.clone();
        if let Backing::File { offset, .. } = &area.backing {
            let end = offset.checked_add(kept.start - area.start).and_then(|offset| offset.checked_add(bytes));
            end.filter(|&end| end <= i64::MAX as u64).ok_or(Error::Invalid)?;
        }
        let is_at_end = !keeps && old.end == area.end && !matches!(moves, Move::To(_) | Move::Near(_));
        if is_at_end && self.grow_in_place(editing, &area, old.start + bytes)? {
            return Ok(old.start);
        }
        if moves == Move::Never {
            return Err(Error::NoMemory.into());
        }
        self.move_to(editing, &area, asked, supply)
    }

    /// Whether an area may move there.
    fn check_target(
        &self,
        editing: &Editing<'_, E>,
        old: &Range<u64>,
        start: u64,
        bytes: u64,
        moves: Move,
    ) -> Result<(), Error> {
        let end = start.checked_add(bytes).filter(|&end| end <= editing.shape.highest).ok_or(Error::Invalid)?;
        if !is_page::<E::Granule>(start) || old.start < end && start < old.end {
            return Err(Error::Invalid);
        }
        if matches!(moves, Move::To(_)) && start < editing.shape.lowest_fixed {
            return Err(Error::NotPermitted);
        }
        Ok(())
    }

    /// Has an area end at `end`, if there is room behind it. Refused if the program may not have more.
    fn grow_in_place(&mut self, editing: &Editing<'_, E>, area: &Area<E::File>, end: u64) -> Result<bool, Error> {
        let more = area.end..end;
        let guard = editing.shape.guard_bytes;
        let above =
            self.areas.next(area.end).map_or(editing.shape.highest, |above| crate::areas::guarded_start(above, guard));
        let grown = Area { start: more.start, end, backing: area.backing.after(area.bytes()), ..area.clone() };
        self.check_limits(&grown, &more)?;
        if end > above {
            return Ok(false);
        }
        self.reserve_areas(editing, 1)?;
        let is_accounted = area.flags.contains(AreaFlags::ACCOUNTED);
        if is_accounted && !editing.embedder.commit((end - area.end) >> E::Granule::SHIFT) {
            return Err(Error::NoMemory);
        }
        self.areas.insert(grown);
        Ok(true)
    }

    /// Moves the first of what is old, and makes it as large as is asked.
    fn move_to(
        &mut self,
        editing: &Editing<'_, E>,
        area: &Area<E::File>,
        asked: &Remap,
        supply: &mut Reserve,
    ) -> Result<u64, Short> {
        let Remap { old, bytes, moves, keeps } = asked.clone();
        let kept = old.start..old.end.min(old.start + bytes);
        let is_anonymous = matches!(area.backing, Backing::Anonymous { .. });
        let start = match moves {
            Move::To(start) => start,
            Move::Near(hint) => self.find_near(editing, hint, bytes, is_anonymous)?,
            Move::Never | Move::May => self.find_room(editing, bytes, is_anonymous)?,
        };
        let target = start..start + bytes;
        let mut moved =
            Area { start, end: target.end, backing: area.backing.after(old.start - area.start), ..area.clone() };
        // For a moment there are both, and what is cut out of others.
        self.check_room(editing, &old, 2 + self.areas.cuts(&target))?;
        let old_bytes = if keeps { 0 } else { kept.end - kept.start };
        if bytes > old_bytes {
            self.check_limits(&Area { end: start + bytes - old_bytes, ..moved.clone() }, &target)?;
        }
        for range in [&kept, &target, &old] {
            self.cut_leaves(editing, range, supply)?;
        }
        let (from, to) = (kept.start.into()..kept.end.into(), start.into());
        let needed = self.table(editing).tables_to_move(from, to)?;
        if supply.count() < needed {
            return Err(Short::Tables(needed - supply.count()));
        }
        let is_accounted = area.flags.contains(AreaFlags::ACCOUNTED);
        if is_accounted && !editing.embedder.commit(bytes >> E::Granule::SHIFT) {
            return Err(Error::NoMemory.into());
        }
        // Nothing lacks from here on: leaves end where the ranges do, and the tables are at hand.
        self.remove_checked(editing, &target, supply)?;
        // A hole that a fault has found there may be in a table that comes free with the pages.
        self.version += 1;
        let has_pages = self.move_pages(editing, &kept, start, supply)?;
        if let Backing::Anonymous { origin } = &mut moved.backing {
            // What nobody has touched is as if it had been mapped there.
            *origin = if has_pages { *origin } else { start };
        }
        self.areas.insert(moved);
        if has_pages {
            self.fold_all(editing, &target, supply);
        }
        if keeps {
            self.areas.update(&kept, |area| area.flags -= AreaFlags::LOCKED | AreaFlags::LOCKED_ON_FAULT);
        } else if old.start < old.end {
            self.remove_checked(editing, &old, supply)?;
        }
        Ok(start)
    }

    /// Moves the pages of a range to where `start` is. Whether there were any.
    fn move_pages(
        &mut self,
        editing: &Editing<'_, E>,
        old: &Range<u64>,
        start: u64,
        supply: &mut Reserve,
    ) -> Result<bool, Short> {
        let mut table = self.table(editing);
        let mut gather = table.gather();
        let moved = table.move_leaves(old.start.into()..old.end.into(), start.into(), supply, &mut gather);
        supply.refill(&editing.platform, gather.finish(&editing.platform));
        Ok(moved?)
    }
}
