//! `madvise`: what a program knows of its memory, area by area.

use core::ops::{ControlFlow, Range};
use core::slice;

use pagetable::{Change, Reserve};
use vmsa::{Granule, Stage1Attributes};

use crate::area::{Area, AreaFlags, Backing, Rights};
use crate::embedder::Embedder;
use crate::error::{Error, Short};
use crate::shape::{Leaf, Note, WRITABLE};
use crate::state::{Editing, State, for_each_leaf_if, make_single};

/// What `madvise` may say. To populate is [`crate::AddressSpace::populate`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Advice {
    /// MADV_NORMAL.
    Normal,
    /// MADV_RANDOM.
    Random,
    /// MADV_SEQUENTIAL.
    Sequential,
    /// MADV_WILLNEED.
    WillNeed,
    /// MADV_DONTNEED: pages go; who looks again finds zeros, or the file.
    DontNeed,
    /// MADV_DONTNEED_LOCKED: those that are locked too.
    DontNeedLocked,
    /// MADV_FREE: pages may go until they are written again.
    Free,
    /// MADV_COLD, MADV_PAGEOUT.
    Cold,
    /// Nothing counts as accessed any more, and what is locked neither: what is written to `clear_refs`.
    Unaccessed,
    /// MADV_DONTFORK.
    DontFork,
    /// MADV_DOFORK.
    DoFork,
    /// MADV_WIPEONFORK.
    WipeOnFork,
    /// MADV_KEEPONFORK.
    KeepOnFork,
    /// MADV_DONTDUMP.
    DontDump,
    /// MADV_DODUMP.
    DoDump,
    /// MADV_HUGEPAGE.
    Huge,
    /// MADV_NOHUGEPAGE.
    NotHuge,
}

impl Advice {
    /// The flags that it sets and clears.
    const fn flags(self) -> Option<(AreaFlags, AreaFlags)> {
        let (none, order) = (AreaFlags::empty(), AreaFlags::SEQUENTIAL.union(AreaFlags::RANDOM));
        Some(match self {
            Self::Normal => (none, order),
            Self::Random => (AreaFlags::RANDOM, order),
            Self::Sequential => (AreaFlags::SEQUENTIAL, order),
            Self::DontFork => (AreaFlags::DONT_FORK, none),
            Self::DoFork => (none, AreaFlags::DONT_FORK),
            Self::WipeOnFork => (AreaFlags::WIPE_ON_FORK, none),
            Self::KeepOnFork => (none, AreaFlags::WIPE_ON_FORK),
            Self::DontDump => (AreaFlags::DONT_DUMP, none),
            Self::DoDump => (none, AreaFlags::DONT_DUMP),
            Self::Huge => (AreaFlags::HUGE, AreaFlags::NOT_HUGE),
            Self::NotHuge => (AreaFlags::NOT_HUGE, AreaFlags::HUGE),
            Self::WillNeed | Self::DontNeed | Self::DontNeedLocked | Self::Free | Self::Cold | Self::Unaccessed => {
                return None;
            }
        })
    }

    /// Whether it means something for an area.
    fn suits<F: Clone + PartialEq>(self, area: &Area<F>) -> bool {
        let is_anonymous = matches!(area.backing, Backing::Anonymous { .. });
        let is_locked = area.flags.contains(AreaFlags::LOCKED);
        match self {
            Self::Free => is_anonymous && !is_locked,
            Self::DontNeed | Self::Cold => !is_locked,
            Self::WipeOnFork => is_anonymous,
            Self::KeepOnFork => !area.flags.contains(AreaFlags::DROPPABLE),
            _ => true,
        }
    }
}

impl<E: Embedder> State<E> {
    /// Takes advice about a range. A hole is an error in the end, but what lies behind it has taken the advice then.
    pub(crate) fn advise(
        &mut self,
        editing: &Editing<'_, E>,
        range: &Range<u64>,
        advice: Advice,
        supply: &mut Reserve,
    ) -> Result<(), Short> {
        let (mut at, mut has_hole) = (range.start, false);
        while let Some(area) = self.areas.next(at).filter(|area| area.start.max(at) < range.end) {
            has_hole |= area.start > at;
            let part = area.start.max(at)..area.end.min(range.end);
            if !advice.suits(area) {
                return Err(Error::Invalid.into());
            }
            at = part.end;
            self.advise_part(editing, &part, advice, supply)?;
            if !editing.embedder.goes_on() {
                return Err(Error::Interrupted.into());
            }
        }
        if has_hole || at < range.end { Err(Error::NoMemory.into()) } else { Ok(()) }
    }

    fn advise_part(
        &mut self,
        editing: &Editing<'_, E>,
        part: &Range<u64>,
        advice: Advice,
        supply: &mut Reserve,
    ) -> Result<(), Short> {
        if let Some((set, clear)) = advice.flags() {
            return self.set_flags(editing, part, (set, clear), supply);
        }
        if advice == Advice::Free {
            self.take_back_writing(editing, part, supply)?;
        }
        match advice {
            Advice::DontNeed | Advice::DontNeedLocked => {
                self.version += 1;
                self.remove_pages(editing, part, supply)
            }
            Advice::Free | Advice::Cold | Advice::Unaccessed => {
                self.cut_leaves(editing, part, supply)?;
                let mut at = part.start;
                while at < part.end {
                    let end = self.portion(editing, &(at..part.end))?;
                    self.age(editing, &(at..end), advice == Advice::Free, supply)?;
                    at = end;
                    if !editing.embedder.goes_on() {
                        return Err(Error::Interrupted.into());
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Has nothing in a range count as accessed any more, and if it is left to be taken, as written neither.
    fn age(
        &self,
        editing: &Editing<'_, E>,
        range: &Range<u64>,
        is_free: bool,
        supply: &mut Reserve,
    ) -> Result<(), Short> {
        let from = range.start.into()..range.end.into();
        // What is clean from now on is written again before it counts.
        let clean = is_free.then(|| Change::Clean { from: from.clone() });
        let mut table = self.table(editing);
        let (mut gather, licence) = (table.gather(), editing.licence());
        // One after the other: a plan has no two changes of one page.
        let changed = clean.into_iter().chain([Change::Age { from }]).try_for_each(|change| {
            table.plan(slice::from_ref(&change), Some(&licence)).and_then(|mut plan| plan.apply(supply, &mut gather))
        });
        supply.refill(&editing.platform, gather.finish(&editing.platform));
        Ok(changed?)
    }

    /// What a child once had too, and nobody but this program has any more, may be written again: only what may be can be left to be taken.
    fn take_back_writing(
        &self,
        editing: &Editing<'_, E>,
        part: &Range<u64>,
        supply: &mut Reserve,
    ) -> Result<(), Short> {
        if !self.areas.find(part.start).is_some_and(|area| area.rights.contains(Rights::WRITE)) {
            return Ok(());
        }
        let (mut at, mut table) = (part.start, self.table(editing));
        loop {
            let was_shared = |leaf: &Leaf| {
                let _ = editing.embedder.goes_on();
                leaf.has(Note::OWN) && !leaf.has(WRITABLE)
            };
            let found = for_each_leaf_if::<E, _>(&table, &(at..part.end), was_shared, |page, leaf| {
                match (editing.embedder.goes_on(), editing.embedder.is_sole(leaf.frame)) {
                    (false, _) => ControlFlow::Break(None),
                    (true, true) => ControlFlow::Break(Some(page)),
                    (true, false) => ControlFlow::Continue(()),
                }
            })?;
            let Some(page) = found else { return Ok(()) };
            let page = page.ok_or(Error::Interrupted)?;
            make_single::<E>(&mut table, editing, page, supply)?;
            // A leaf by itself by now, for which one store is enough.
            let _ = table.protect_page(page.into(), WRITABLE, Stage1Attributes::empty(), None);
            at = page + E::Granule::SIZE_BYTES;
        }
    }

    /// Sets and clears flags of the areas of a range.
    pub(crate) fn set_flags(
        &mut self,
        editing: &Editing<'_, E>,
        range: &Range<u64>,
        (set, clear): (AreaFlags, AreaFlags),
        supply: &mut Reserve,
    ) -> Result<(), Short> {
        if self.areas.parts(range).all(|area| (area.flags - clear) | set == area.flags) {
            return Ok(());
        }
        self.check_room(editing, range, 0)?;
        self.cut_leaves(editing, range, supply)?;
        self.areas.update(range, |area| area.flags = (area.flags - clear) | set);
        Ok(())
    }
}
