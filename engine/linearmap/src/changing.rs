//! One list of ranges becomes what is wanted of it: planned whole, then made.
//!
//! ```text
//! planned without a licence? ─ yes ─▶ made
//!    └─ a leaf would change size: the way that the system's standing gives
//!          in place ─▶ made     one CPU ─▶ made in a window     else ─▶ others are parked, made
//! ```
//! What the list takes is counted range by range, on the map as it is. To make one range what is wanted takes no table from
//! another, so that the sum is enough for all.

use core::ops::Range;
use core::slice;

use pagetable::{Change, El1, Licence, PageTable, Platform, Refusal, Reserve};
use vmsa::{Granule, VirtAddr};

use crate::counters::Counted;
use crate::embedder::Embedder;
use crate::refused::{NotParked, Refused};
use crate::standing::Way;
use crate::state::State;
use crate::wanted::{Context, Wanted};

/// What is asked for.
pub(crate) struct Asked<'a> {
    pub(crate) ranges: &'a [Range<VirtAddr>],
    pub(crate) wanted: Wanted,
    pub(crate) context: Context,
}

impl Asked<'_> {
    /// The tables that it takes at most, or why the engine refuses it.
    fn tables<G: Granule, P: Platform>(
        &self,
        table: &mut PageTable<'_, G, El1, P>,
        licence: Option<&Licence<'_>>,
    ) -> Result<usize, Refusal> {
        let mut tables = 0;
        for range in self.ranges {
            let (mut sum, mut most) = (0, 0);
            for change in self.wanted.changes(range).iter().flatten() {
                let needed = table.plan(slice::from_ref(change), licence)?.tables_needed();
                (sum, most) = (sum + needed, most.max(needed));
            }
            // A page is of one leaf: what the first of two changes splits, the second finds split.
            let is_page = range.end.bits().wrapping_sub(range.start.bits()) == G::SIZE_BYTES;
            tables += if is_page { most } else { sum };
        }
        Ok(tables)
    }

    /// Makes it what is wanted; how many tables that took. It was planned on this map.
    fn make<G: Granule, P: Platform>(
        &self,
        table: &mut PageTable<'_, G, El1, P>,
        platform: &P,
        licence: Option<&Licence<'_>>,
        reserve: &mut Reserve,
    ) -> Result<usize, Refusal> {
        let (mut gather, tables) = (table.gather(), reserve.count());
        let mut make = |change: &Change<El1>| table.plan(slice::from_ref(change), licence)?.apply(reserve, &mut gather);
        let changes = self.ranges.iter().flat_map(|range| self.wanted.changes(range)).flatten();
        let made = changes.into_iter().try_for_each(|change| make(&change));
        // One gather for the list, so that barriers are paid once. What is edited leaves no table behind.
        let used = tables - reserve.count();
        reserve.refill(platform, gather.finish(platform));
        made.map(|()| used)
    }
}

/// Makes one change if that takes neither a table nor a licence, with one plan: the most frequent one. Says whether it is made.
fn is_made_in_place<G: Granule, P: Platform>(
    table: &mut PageTable<'_, G, El1, P>,
    platform: &P,
    change: &Change<El1>,
) -> Result<bool, Refusal> {
    let mut plan = match table.plan(slice::from_ref(change), None) {
        Ok(plan) if plan.tables_needed() == 0 => plan,
        Ok(_) | Err(Refusal::NeedsLicence(_)) => return Ok(false),
        Err(refusal) => return Err(refusal),
    };
    let (mut gather, mut none) = (plan.gather(), Reserve::new());
    plan.apply(&mut none, &mut gather)?;
    // What is edited leaves no table behind.
    none.refill(platform, gather.finish(platform));
    Ok(true)
}

impl<G: Granule> State<G> {
    /// Makes what is asked for, with tables from `supply`, or in atomic context from the reserve. After an error nothing has
    /// changed; [`Refused::OutOfTables`] says what `supply` lacks.
    pub(crate) fn change<E: Embedder<Granule = G>>(
        &mut self,
        embedder: &E,
        asked: &Asked<'_>,
        supply: &mut Reserve,
    ) -> Result<(), Refused> {
        let counted = Counted::new(embedder.platform());
        let made = self.change_counted(embedder, &counted, asked, supply);
        self.counters.add(&counted);
        self.counters.splits += made? as u64;
        self.counters.changes += 1;
        self.counters.atomic += u64::from(asked.context == Context::Atomic);
        for range in asked.ranges {
            if let Some((start, end)) = self.map.geometry.offsets(range.start.bits(), range.end.bits()) {
                self.healing.note(start, end);
            }
        }
        Ok(())
    }

    fn change_counted<E: Embedder<Granule = G>>(
        &mut self,
        embedder: &E,
        counted: &Counted<'_, E::Platform>,
        asked: &Asked<'_>,
        supply: &mut Reserve,
    ) -> Result<usize, Refused> {
        let mut table = self.table(counted)?;
        if let ([range], Some((set, clear))) = (asked.ranges, asked.wanted.attributes())
            && asked.wanted != Wanted::Default
            && range.end.bits().wrapping_sub(range.start.bits()) == G::SIZE_BYTES
            && table.protect_page(range.start, set, clear)
        {
            return Ok(0);
        }
        if let [range] = asked.ranges
            && let [Some(change), None] = asked.wanted.changes(range)
            && is_made_in_place(&mut table, counted, &change)?
        {
            return Ok(0);
        }
        let (way, planned) = self.standing.way();
        let (way, needed) = match asked.tables(&mut table, None) {
            Err(Refusal::NeedsLicence(_)) => (Some(way), asked.tables(&mut table, Some(&planned))?),
            planned => (None, planned?),
        };
        let (reserve, lacks): (_, fn(usize) -> Refused) = match asked.context {
            Context::MayWait => (supply, Refused::OutOfTables),
            Context::Atomic => (&mut self.reserve, Refused::ReserveDry),
        };
        if needed > reserve.count() {
            return Err(lacks(needed - reserve.count()));
        }
        // A kernel that never runs the change has not parked anybody for it.
        let mut made = Err(Refused::NotParked(NotParked(None)));
        let mut make = |licence: Option<&Licence<'_>>| {
            made = asked.make(&mut table, counted, licence, reserve).map_err(Refused::Change);
        };
        match way {
            None => make(None),
            Some(Way::InPlace) => make(Some(&planned)),
            Some(Way::Window) => {
                self.counters.windows += 1;
                embedder.in_window(&mut |licence| make(Some(licence)));
            }
            Some(Way::Park) => {
                embedder.park(&mut |licence| make(Some(licence))).map_err(Refused::NotParked)?;
                self.counters.parked += 1;
            }
        }
        made
    }
}
