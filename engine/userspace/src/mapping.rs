//! `mmap` and `munmap`: areas come and go, whole or in part.

use core::ops::Range;

use pagetable::Reserve;
use vmsa::{Geometry, Granule, Level};

use crate::area::{Area, AreaFlags, Backing, Rights};
use crate::embedder::Embedder;
use crate::error::{Error, Short};
use crate::state::{Editing, State};

/// Where a mapping is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Wherever there is room.
    Anywhere,
    /// There, if there is room.
    Near(u64),
    /// There; what is there goes: MAP_FIXED.
    Fixed(u64),
    /// There, if nothing is: MAP_FIXED_NOREPLACE.
    FixedNoReplace(u64),
}

/// What is mapped.
#[derive(Clone, Debug)]
pub enum Source<F> {
    /// Zeros: MAP_ANONYMOUS.
    Anonymous,
    /// A file.
    File {
        /// The file.
        file: F,
        /// From where on, in bytes.
        offset: u64,
        /// What it was opened for: more may not be asked for, now or later.
        most: Rights,
    },
}

/// What `mmap` asks for.
#[derive(Clone, Debug)]
pub struct Request<F> {
    /// Where.
    pub place: Place,
    /// How many bytes; a part of a page is a page.
    pub bytes: u64,
    /// What a program may do.
    pub rights: Rights,
    /// What is mapped.
    pub source: Source<F>,
    /// SHARED, GROWS_DOWN, NO_RESERVE, LOCKED, SECRET, DROPPABLE.
    pub flags: AreaFlags,
    /// Pages are made now: MAP_POPULATE.
    pub populates: bool,
}

/// A request whose arguments are sound: what is to be mapped, once it is known where.
pub(crate) struct Wished<F> {
    pub(crate) place: Place,
    pub(crate) bytes: u64,
    pub(crate) rights: Rights,
    pub(crate) most: Rights,
    pub(crate) flags: AreaFlags,
    /// `None`: zeros of its own.
    pub(crate) file: Option<(F, u64)>,
}

impl<F: Clone + PartialEq> Wished<F> {
    fn area(&self, start: u64) -> Area<F> {
        let backing = match &self.file {
            Some((file, offset)) => Backing::File { file: file.clone(), offset: *offset },
            None => Backing::Anonymous { origin: start },
        };
        let Self { bytes, rights, most, flags, .. } = *self;
        Area { start, end: start + bytes, rights, most, flags, backing }
    }
}

/// A size in whole pages.
pub(crate) fn round_up<G: Granule>(bytes: u64) -> Result<u64, Error> {
    bytes.checked_next_multiple_of(G::SIZE_BYTES).ok_or(Error::NoMemory)
}

/// Whether an address is the start of a page.
pub(crate) const fn is_page<G: Granule>(address: u64) -> bool {
    address & (G::SIZE_BYTES - 1) == 0
}

/// The range of whole pages that a call names by its first address and its size, if it is one.
pub(crate) fn pages_of<G: Granule>(start: u64, bytes: u64) -> Result<Range<u64>, Error> {
    if !is_page::<G>(start) {
        return Err(Error::Invalid);
    }
    let bytes = bytes.checked_next_multiple_of(G::SIZE_BYTES).ok_or(Error::Invalid)?;
    Ok(start..start.checked_add(bytes).ok_or(Error::Invalid)?)
}

impl<E: Embedder> State<E> {
    /// Maps, and says where.
    pub(crate) fn map(
        &mut self,
        editing: &Editing<'_, E>,
        wished: &Wished<E::File>,
        supply: &mut Reserve,
    ) -> Result<u64, Short> {
        let start = self.choose(editing, wished)?;
        let mut area = wished.area(start);
        let range = area.range();
        area.flags |= if area.flags.contains(AreaFlags::DROPPABLE) { AreaFlags::empty() } else { self.future };
        self.check_room(editing, &range, 1)?;
        self.check_limits(&area, &range)?;
        self.cut_leaves(editing, &range, supply)?;
        let pages = area.bytes() >> E::Granule::SHIFT;
        if area.is_data() && !area.flags.contains(AreaFlags::NO_RESERVE) {
            if !editing.embedder.commit(pages) {
                return Err(Error::NoMemory.into());
            }
            area.flags |= AreaFlags::ACCOUNTED;
        }
        self.remove_checked(editing, &range, supply)?;
        self.areas.insert(area);
        Ok(start)
    }

    /// Where a request is to be mapped.
    fn choose(&self, editing: &Editing<'_, E>, wished: &Wished<E::File>) -> Result<u64, Error> {
        let (shape, bytes) = (editing.shape, wished.bytes);
        let fits = |start: u64| start.checked_add(bytes).is_some_and(|end| end <= shape.highest);
        match wished.place {
            Place::Fixed(start) | Place::FixedNoReplace(start) => {
                if !fits(start) {
                    return Err(Error::NoMemory);
                }
                if !is_page::<E::Granule>(start) {
                    return Err(Error::Invalid);
                }
                if start < shape.lowest_fixed {
                    return Err(Error::NotPermitted);
                }
                let replaces = matches!(wished.place, Place::Fixed(_));
                if !replaces && !self.areas.is_free(&(start..start + bytes)) {
                    return Err(Error::Exists);
                }
                Ok(start)
            }
            Place::Near(hint) => self.find_near(editing, hint, bytes, wished.file.is_none()),
            Place::Anywhere => self.find_room(editing, bytes, wished.file.is_none()),
        }
    }

    /// Where so many bytes are free: there, or anywhere.
    pub(crate) fn find_near(
        &self,
        editing: &Editing<'_, E>,
        hint: u64,
        bytes: u64,
        is_anonymous: bool,
    ) -> Result<u64, Error> {
        let start = (hint & !(E::Granule::SIZE_BYTES - 1)).max(editing.shape.lowest);
        let end = start.checked_add(bytes).filter(|&end| end <= editing.shape.highest);
        match end {
            Some(end) if self.is_room(editing, &(start..end)) => Ok(start),
            _ => self.find_room(editing, bytes, is_anonymous),
        }
    }

    /// Whether a range is free, and no stack is closer above than its guard.
    fn is_room(&self, editing: &Editing<'_, E>, range: &Range<u64>) -> bool {
        let guard = editing.shape.guard_bytes;
        let above = self.areas.next(range.start);
        above.is_none_or(|above| range.end <= crate::areas::guarded_start(above, guard))
    }

    /// Where so many bytes are free: the highest place below the ceiling, or else the lowest above a third of all.
    /// Blocks of anonymous memory are at addresses of blocks, if there is room for one more: as on Linux.
    pub(crate) fn find_room(&self, editing: &Editing<'_, E>, bytes: u64, is_anonymous: bool) -> Result<u64, Error> {
        let (shape, block) = (editing.shape, 1 << Geometry::<E::Granule>::shift(Level::L2));
        if bytes > shape.highest {
            return Err(Error::NoMemory);
        }
        if is_anonymous && bytes.is_multiple_of(block) {
            let wide = self.areas.find_room(shape.lowest, self.ceiling, bytes + block, shape.guard_bytes);
            if let Some(start) = wide {
                return Ok((start + block) & !(block - 1));
            }
        }
        let below = self.areas.find_room(shape.lowest, self.ceiling, bytes, shape.guard_bytes);
        let above = || {
            let third = (shape.highest / 3).next_multiple_of(E::Granule::SIZE_BYTES);
            self.areas.find_room_above(third, shape.highest, bytes, shape.guard_bytes)
        };
        below.or_else(above).ok_or(Error::NoMemory)
    }

    /// Refuses so many bytes more of an area that is locked, if the program may not lock as many.
    pub(crate) fn check_locked(&self, area: &Area<E::File>, more: u64) -> Result<(), Error> {
        let is_locked = |area: &Area<E::File>| area.flags.contains(AreaFlags::LOCKED);
        if self.limits.locked == u64::MAX || !is_locked(area) {
            return Ok(());
        }
        let has: u64 = self.areas.iter().filter(|area| is_locked(area)).map(Area::bytes).sum();
        if more > self.limits.locked.saturating_sub(has) { Err(Error::Again) } else { Ok(()) }
    }

    /// Refuses an area that is more than a program may have, if what lies in `replaced` goes.
    pub(crate) fn check_limits(&self, area: &Area<E::File>, replaced: &Range<u64>) -> Result<(), Error> {
        let limits = &self.limits;
        let exceeds = |limit: u64, is_counted: &dyn Fn(&Area<E::File>) -> bool| {
            if limit == u64::MAX || !is_counted(area) {
                return false;
            }
            let goes: u64 = self.areas.parts(replaced).filter(|part| is_counted(part)).map(|part| part.bytes()).sum();
            let has = self.areas.iter().filter(|area| is_counted(area)).map(Area::bytes).sum::<u64>();
            has - goes + area.bytes() > limit
        };
        if exceeds(limits.locked, &|area| area.flags.contains(AreaFlags::LOCKED)) {
            return Err(Error::Again);
        }
        let is_data = |area: &Area<E::File>| area.is_data() && !area.flags.contains(AreaFlags::GROWS_DOWN);
        let is_more = exceeds(limits.address_space, &|_| true) || exceeds(limits.data, &is_data);
        if is_more { Err(Error::NoMemory) } else { Ok(()) }
    }

    /// Removes whatever is in a range.
    pub(crate) fn remove(
        &mut self,
        editing: &Editing<'_, E>,
        range: &Range<u64>,
        supply: &mut Reserve,
    ) -> Result<(), Short> {
        self.check_room(editing, range, 0)?;
        self.remove_checked(editing, range, supply)
    }

    /// The same where there is room for what is cut.
    pub(crate) fn remove_checked(
        &mut self,
        editing: &Editing<'_, E>,
        range: &Range<u64>,
        supply: &mut Reserve,
    ) -> Result<(), Short> {
        if self.areas.is_free(range) {
            return Ok(());
        }
        self.version += 1;
        self.remove_pages(editing, range, supply)?;
        let accounted = self.areas.parts(range).filter(|part| part.flags.contains(AreaFlags::ACCOUNTED));
        let pages = accounted.map(|part| part.bytes() >> E::Granule::SHIFT).sum();
        editing.embedder.uncommit(pages);
        self.areas.remove(range);
        self.remove_tables(editing, range, supply)
    }
}
