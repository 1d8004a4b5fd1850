//! `mlock` and its kin: pages that are there, and stay.

use core::ops::Range;

use pagetable::Reserve;
use vmsa::Granule;

use crate::area::{Area, AreaFlags};
use crate::embedder::Embedder;
use crate::error::{Error, Short};
use crate::state::{Editing, State};

/// How areas are locked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Locking {
    /// `mlock`: pages are made now.
    Now,
    /// MLOCK_ONFAULT: they stay once they are there.
    OnFault,
    /// `munlock`.
    Not,
}

impl Locking {
    const ALL: AreaFlags = AreaFlags::LOCKED.union(AreaFlags::LOCKED_ON_FAULT);

    /// The flags of an area that is locked so.
    pub(crate) const fn flags(self) -> AreaFlags {
        match self {
            Self::Now => AreaFlags::LOCKED,
            Self::OnFault => Self::ALL,
            Self::Not => AreaFlags::empty(),
        }
    }
}

impl<E: Embedder> State<E> {
    /// Locks or unlocks the areas of a range, up to the first hole.
    pub(crate) fn lock(
        &mut self,
        editing: &Editing<'_, E>,
        range: &Range<u64>,
        how: Locking,
        supply: &mut Reserve,
    ) -> Result<(), Short> {
        let is_locked = |area: &Area<E::File>| area.flags.contains(AreaFlags::LOCKED);
        if how != Locking::Not {
            let locked = self.pages(is_locked) << E::Granule::SHIFT;
            let again: u64 = self.areas.parts(range).filter(is_locked).map(|part| part.bytes()).sum();
            // A range may have nearly as many bytes as there are numbers.
            if (locked - again).saturating_add(range.end - range.start) > self.limits.locked {
                return Err(Error::NoMemory.into());
            }
        }
        let mut at = range.start;
        while at < range.end {
            let Some(area) = self.areas.find(at) else { return Err(Error::NoMemory.into()) };
            let (part, locks) = (at..area.end.min(range.end), !area.never_locks());
            at = part.end;
            if locks {
                self.set_flags(editing, &part, (how.flags(), Locking::ALL), supply)?;
            }
            if !editing.embedder.goes_on() {
                return Err(Error::Interrupted.into());
            }
        }
        Ok(())
    }

    /// Locks or unlocks all that there is.
    pub(crate) fn lock_all(&mut self, how: Locking) -> Result<(), Error> {
        if how != Locking::Not && self.areas.bytes() > self.limits.locked {
            return Err(Error::NoMemory);
        }
        let everything = 0..u64::MAX;
        self.areas.update(&everything, |area| {
            if !area.never_locks() {
                area.flags = (area.flags - Locking::ALL) | how.flags();
            }
        });
        Ok(())
    }
}
