//! One list of ranges becomes what is wanted of it: planned whole, then made.
//!
//! ```text
//! a page that is a leaf, or of a group that may end in place? ─ yes ─▶ made without a plan
//! every CPU tolerates that a leaf changes size ─▶ planned and made in place
//! planned without a licence ─▶ made        a leaf would change size: one CPU ─▶ made in a window     else ─▶ others are parked
//! ```
//! What a list takes is counted range by range, on the map as it is. To make one range what is wanted takes no table from
//! another, so that the sum is enough for all. One change alone needs no count: its plan refuses it before the first store.

use core::ops::{ControlFlow, Range};
use core::slice;

use pagetable::{Change, El1, Licence, PageTable, Platform, Refusal, Reserve, View};
use vmsa::{Descriptor, Granule, VirtAddr};

use crate::counters::Counted;
use crate::embedder::Embedder;
use crate::refused::{NotParked, Refused};
use crate::resized::Resized;
use crate::standing::Way;
use crate::state::State;
use crate::wanted::{Context, Wanted};

/// What is asked for.
pub(crate) struct Asked<'a> {
    pub(crate) ranges: &'a [Range<VirtAddr>],
    pub(crate) wanted: Wanted,
    /// Ranges of which something else is wanted: mostly none.
    pub(crate) others: &'a [(&'a [Range<VirtAddr>], Wanted)],
    pub(crate) context: Context,
    /// The map.
    pub(crate) within: &'a Range<VirtAddr>,
}

/// Tables of the map that a change took, and those that it left.
#[derive(Clone, Copy, Default)]
struct Tables {
    taken: usize,
    left: usize,
}

/// Whether a range is one page, be it anywhere.
fn is_page<G: Granule>(range: &Range<VirtAddr>) -> bool {
    range.end.bits().wrapping_sub(range.start.bits()) == G::SIZE_BYTES
}

impl Asked<'_> {
    /// Each range, and what is wanted of it.
    #[inline(always)]
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Range<VirtAddr>, Wanted)> {
        let others = self.others.iter().flat_map(|(ranges, wanted)| ranges.iter().map(|range| (range, *wanted)));
        self.ranges.iter().map(|range| (range, self.wanted)).chain(others)
    }

    /// Whether some of it is led elsewhere.
    #[inline(always)]
    fn leads(&self) -> bool {
        let leads = |wanted: Wanted| matches!(wanted, Wanted::Leading { .. });
        leads(self.wanted) || self.others.iter().any(|(_, wanted)| leads(*wanted))
    }

    /// What is led elsewhere is mapped or hidden throughout: the engine would map holes as well.
    fn check_holes<G: Granule, P: Platform>(&self, view: &View<'_, G, El1, P>) -> Result<(), Refusal> {
        for (range, _) in self.each().filter(|(_, wanted)| matches!(wanted, Wanted::Leading { .. })) {
            let hole = view.for_each(range.clone(), |entry| match entry.lookup.descriptor {
                Descriptor::INVALID => ControlFlow::Break(entry.input.max(range.start)),
                _ => ControlFlow::Continue(()),
            })?;
            if let ControlFlow::Break(at) = hole {
                return Err(Refusal::NotMapped(at.bits()));
            }
        }
        Ok(())
    }

    /// Refuses it unless `reserve` holds the tables that it takes at most, or whatever else the engine refuses it for.
    fn check<G: Granule, P: Platform>(
        &self,
        table: &mut PageTable<'_, G, El1, P>,
        licence: Option<&Licence<'_>>,
        reserve: &Reserve,
    ) -> Result<(), Refusal> {
        let mut tables = 0;
        self.each().try_for_each(|(range, wanted)| {
            let (mut sum, mut most) = (0, 0);
            wanted.each_change(range, &mut |change| {
                let needed = table.plan(slice::from_ref(change), licence)?.tables_needed();
                (sum, most) = (sum + needed, most.max(needed));
                Ok(())
            })?;
            // A page is of one leaf: what the first of two changes splits, the second finds split.
            tables += if is_page::<G>(range) { most } else { sum };
            Ok(())
        })?;
        let lacking = tables.saturating_sub(reserve.count());
        if lacking > 0 { Err(Refusal::ReserveShortBy(lacking)) } else { Ok(()) }
    }

    /// Makes it what is wanted; how many tables that took within the map, and how many it left. It was checked on this map, or is one
    /// change.
    fn make<G: Granule, P: Platform>(
        &self,
        table: &mut PageTable<'_, G, El1, P>,
        platform: &P,
        licence: Option<&Licence<'_>>,
        reserve: &mut Reserve,
    ) -> Result<Tables, Refusal> {
        let (mut gather, mut taken) = (table.gather(), 0);
        let made = self.each().try_for_each(|(range, wanted)| {
            let tables = reserve.count();
            let made = wanted.each_change(range, &mut |change: &Change<El1>| {
                table.plan(slice::from_ref(change), licence)?.apply(reserve, &mut gather)
            });
            taken += if self.is_within(range) { tables - reserve.count() } else { 0 };
            made
        });
        if made.is_ok() {
            // Behind all of the list: another range of it may need a table that one has emptied.
            let absent = self.each().filter(|(_, wanted)| *wanted == Wanted::Absent);
            absent.for_each(|(range, _)| self.leave_no_empty_table(table, range, &mut gather));
        }
        // One gather for the list, so that barriers are paid once.
        let retired = gather.finish(platform);
        // Of the map alone: what retires a table elsewhere is refused there.
        let left = retired.count();
        reserve.refill(platform, retired);
        made.map(|()| Tables { taken, left })
    }

    /// Whether a range is of the map; others heal by nobody.
    fn is_within(&self, range: &Range<VirtAddr>) -> bool {
        let distance = |at: VirtAddr| at.bits().wrapping_sub(self.within.start.bits());
        distance(range.start) < distance(self.within.end)
    }

    /// Both.
    fn check_and_make<G: Granule, P: Platform>(
        &self,
        table: &mut PageTable<'_, G, El1, P>,
        platform: &P,
        licence: Option<&Licence<'_>>,
        reserve: &mut Reserve,
    ) -> Result<Tables, Refusal> {
        if self.ranges.len() > 1 || !self.wanted.is_one_change() || !self.others.is_empty() {
            self.check(table, licence, reserve)?;
        }
        self.make(table, platform, licence, reserve)
    }
}

impl<G: Granule> State<G> {
    /// Makes what is asked for, with spare tables and those of `supply`, or in atomic context from the reserve. After an error nothing
    /// has changed; [`Refused::OutOfTables`] says what `supply` lacks. Compiled for each of its two callers: who asks for one thing alone,
    /// as nearly everybody does, does not pay for lists of others.
    #[inline(always)]
    pub(crate) fn change<E: Embedder<Granule = G>>(
        &mut self,
        embedder: &E,
        asked: &Asked<'_>,
        supply: &mut Reserve,
    ) -> Result<(), Refused> {
        let counted = Counted::new(embedder.platform());
        let mut table = self.table(&counted);
        asked.check_once()?;
        if asked.leads() {
            asked.check_holes(&table.view())?;
        }
        let tolerated = self.standing.census().tolerated();
        let free = tolerated.as_ref().filter(|_| !embedder.announces());
        let is_made = asked.others.is_empty()
            && matches!(asked.ranges, [page] if is_page::<G>(page) && asked.wanted.is_made_of_page(&mut table, page.start, free));
        let made = if is_made {
            Ok(Tables::default())
        } else {
            let made = self.change_by_plan(embedder, &counted, &mut table, asked, supply);
            if asked.context == Context::MayWait {
                self.spill(&counted, supply);
            }
            self.note_reserve();
            made
        };
        self.counters.add(&counted);
        let Tables { taken, left } = made?;
        self.counters.splits += taken as u64;
        self.counters.folds += left as u64;
        self.counters.changes += 1;
        self.counters.atomic += u64::from(asked.context == Context::Atomic);
        asked.each().for_each(|(range, wanted)| {
            if let Some((start, end)) = self.map.geometry.offsets(range.start.bits(), range.end.bits()) {
                self.healing.note(start, end);
                self.counters.note_moved(wanted, end - start);
            }
        });
        Ok(())
    }

    fn change_by_plan<'c, E: Embedder<Granule = G>>(
        &mut self,
        embedder: &E,
        counted: &'c Counted<'c, E::Platform>,
        table: &mut PageTable<'c, G, El1, Counted<'c, E::Platform>>,
        asked: &Asked<'_>,
        supply: &mut Reserve,
    ) -> Result<Tables, Refused> {
        let reserve = match asked.context {
            Context::Atomic => &mut self.reserve,
            Context::MayWait => {
                // What was allocated is what lacks beside the spare ones.
                while let Some(table) = supply.take(counted) {
                    self.spare.add(counted, table);
                }
                &mut self.spare
            }
        };
        let refused = |refusal| match (refusal, asked.context) {
            (Refusal::ReserveShortBy(lacking), Context::MayWait) => Refused::OutOfTables(lacking),
            (Refusal::ReserveShortBy(lacking), Context::Atomic) => Refused::ReserveDry(lacking),
            (refusal, _) => Refused::Change(refusal),
        };
        let (way, planned) = self.standing.way();
        // Where resizes are announced, what needs no licence is told apart.
        let announces = embedder.announces();
        let free = if way == Way::InPlace && !announces { Some(&planned) } else { None };
        match asked.check_and_make(table, counted, free, reserve) {
            Err(Refusal::NeedsLicence(_)) => asked.check(table, Some(&planned), reserve).map_err(refused)?,
            made => return made.map_err(refused),
        }
        // A kernel that never runs the change has not parked anybody for it.
        let mut made = Err(Refused::NotParked(NotParked(None)));
        let mut make = |licence: &Licence<'_>| {
            let is_heard = announces && licence.is_in_place();
            let resized = if is_heard { Resized::split_by(&table.view(), asked.each()) } else { Resized::NONE };
            let mut make = || {
                // It was planned by a break, which to lead elsewhere alone may need, and which this licence may not be for.
                let checked = if asked.leads() { asked.check(table, Some(licence), reserve) } else { Ok(()) };
                made = checked.and_then(|()| asked.make(table, counted, Some(licence), reserve)).map_err(refused);
            };
            if resized.leaves().is_empty() { make() } else { embedder.announce(resized.leaves(), &mut make) }
        };
        match way {
            Way::InPlace => make(&planned),
            Way::Window => {
                embedder.in_window(&mut make);
                self.counters.windows += u64::from(made.is_ok());
            }
            Way::Park => {
                embedder.park(&mut make).map_err(Refused::NotParked)?;
                self.counters.parked += u64::from(made.is_ok());
            }
        }
        made
    }
}
