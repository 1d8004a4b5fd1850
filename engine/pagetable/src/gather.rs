//! What must be forgotten, collected over one or many applies, and the tables that wait for it.
//!
//! ```text
//! an apply stores a descriptor     a DSB is owed: walkers may not see the descriptor yet
//! it changes a leaf                … and a range of TLBIs: joins the range before, or waits beside up to seven others
//! it unlinks a table               … and the table waits: walks may be in the table until walk caches have forgotten
//!
//! finish     DSB ISHST ─▶ TLBIs of all ranges ─▶ DSB ISH ─▶ ISB ─▶ no view is in a table ─▶ the tables are `Retired`
//!
//! a ninth range      up to 512 TLBIs so far: the eight are forgotten now, and make room
//!                    beyond 512: what all ranges lie between is `scattered`, and one TLBI of everything stands for them, at the end
//! ```

use vmsa::{Geometry, Granule, Level, Maintenance};

use crate::backlog::Backlog;
use crate::change::Change;
use crate::invalidation::{Depth, Invalidation, MOST_TLBIS};
use crate::platform::{Platform, Slot};
use crate::regime::{Regime, Rest};
use crate::tables::{Retired, TableList};
use crate::walk::{Table, table_below};

/// Ranges kept apart before TLBs must forget them, beside the first.
pub(crate) const MORE_RANGES: usize = 7;
/// Unlinked subtrees kept before TLBs must forget them, beside the first.
const MORE_SUBTREES: usize = 15;

/// Collects what TLBs must forget. Until [`Gather::finish`], stores of the applies may be invisible to walkers, and TLBs
/// may hold what was there before.
///
/// Where changes meet what an earlier plan of the same gather has left to forget, that is forgotten first. Of two gathers over
/// one range, the first is finished before the second collects: it knows nothing of what the first left.
#[derive(Debug)]
#[must_use = "what was changed is not complete until `finish`"]
pub struct Gather<G: Granule, R: Regime> {
    geometry: Geometry<G>,
    regime: R,
    /// What stores that walkers must see have left to be forgotten. `None`: no store was made since the gather was last empty, and
    /// not even a DSB is owed.
    waiting: Option<Waiting>,
    issued: usize,
    /// How many of them were issued for ranges since the gather was last empty.
    issued_for_ranges: usize,
    retired: TableList,
}

/// What waits for the TLBs. As long as it waits, TLBs and walk caches may hold what was there before the stores, so that nothing
/// else may be made in the same place: [`Gather::complete_overlaps`] sees to that.
#[derive(Debug, Default)]
struct Waiting {
    ranges: Backlog<Invalidation, MORE_RANGES>,
    subtrees: Backlog<Table, MORE_SUBTREES>,
    /// What ranges lie between that were too many to be kept apart, as input addresses: everything will be forgotten for them.
    scattered: Option<(u64, u64)>,
    /// Between these offsets TLBs may hold leaves of another size than the tables do, so that a level hint would miss them.
    resized: Option<(u64, u64)>,
}

impl<G: Granule, R: Regime> Gather<G, R> {
    #[inline(always)]
    pub(crate) fn new(geometry: Geometry<G>, regime: R) -> Self {
        Self { geometry, regime, waiting: None, issued: 0, issued_for_ranges: 0, retired: TableList::default() }
    }

    /// TLBIs issued so far.
    pub const fn issued(&self) -> usize {
        self.issued
    }

    /// Completes everything so far: stores become visible, TLBs forget, and the tables that were unlinked come free. The
    /// gather is empty then, and may collect again.
    ///
    /// The platform is asked to wait for every [`crate::View`] that may be in a table that comes free
    /// ([`Platform::wait_for_views`]).
    #[inline]
    pub fn finish<P: Platform>(&mut self, platform: &P) -> Retired {
        if self.waiting.is_some() {
            self.complete_waiting(platform);
        }
        // Also where nothing waits: what a list was expected to take counts for no later one.
        self.issued_for_ranges = 0;
        Retired(core::mem::take(&mut self.retired))
    }

    /// Completes what has been collected so far, before what follows is stored. Tables that come free wait for [`Self::finish`].
    pub(crate) fn complete<P: Platform>(&mut self, platform: &P) {
        self.complete_waiting(platform);
    }

    /// TLBIs were issued that could not wait.
    pub(crate) const fn count(&mut self, issued: usize) {
        self.issued += issued;
    }

    /// Stores were made that a walker must see.
    #[inline(always)]
    pub(crate) fn note_store(&mut self) {
        self.wait();
    }

    #[inline(always)]
    fn wait(&mut self) -> &mut Waiting {
        self.waiting.get_or_insert_with(Waiting::default)
    }

    /// Leaves from offset `start` to `end` have changed size, and TLBs have not forgotten.
    pub(crate) fn note_resize(&mut self, start: u64, end: u64) {
        let resized = &mut self.wait().resized;
        let (from, to) = resized.unwrap_or((start, end));
        *resized = Some((from.min(start), to.max(end)));
    }

    /// Whether TLBs hold leaves from offset `start` to `end` in the size that they have, so that a level hint finds them.
    #[inline(always)]
    pub(crate) fn is_uniform(&self, start: u64, end: u64) -> bool {
        let resized = self.waiting.as_ref().and_then(|waiting| waiting.resized);
        resized.is_none_or(|(from, to)| end <= from || to <= start)
    }

    /// The translations of `bytes` from offset `start`, in leaves of `level`, are no longer what TLBs may hold.
    #[inline(always)]
    pub(crate) fn forget<P: Platform>(&mut self, platform: &P, level: Level, start: u64, bytes: u64) {
        let is_uniform = self.is_uniform(start, start + bytes);
        let start = self.geometry.input(start);
        self.add(platform, Invalidation { start, bytes, stride: level, is_uniform, depth: Depth::LastLevel });
    }

    /// Changes are about to be made: what TLBs have yet to forget where they are made is forgotten before. What is made in its
    /// place would be live beside it, and a leaf that is invalid by now would be taken for one that no TLB holds.
    #[inline(always)]
    pub(crate) fn complete_overlaps<P: Platform>(&mut self, platform: &P, changes: &[Change<R>]) {
        let waits_for = |change: &Change<R>| {
            let (from, to) = change.offsets(self.geometry);
            self.waits_for(from, to)
        };
        if self.waiting.is_some() && changes.iter().any(waits_for) {
            self.complete_waiting(platform);
        }
        // If they are scattered, everything will have to be forgotten anyway.
        if changes.len() > MOST_TLBIS {
            self.issued_for_ranges = MOST_TLBIS;
        }
    }

    /// The same, of one change between these offsets.
    pub(crate) fn complete_overlap<P: Platform>(&mut self, platform: &P, from: u64, to: u64) {
        if self.waits_for(from, to) {
            self.complete_waiting(platform);
        }
    }

    #[inline(never)]
    fn waits_for(&self, from: u64, to: u64) -> bool {
        let Some(waiting) = &self.waiting else { return false };
        if waiting.scattered.is_some_and(|(start, end)| from < end && start < to) {
            return true;
        }
        waiting.ranges.iter().any(|range| {
            let start = range.start.wrapping_sub(self.geometry.base());
            from < to && start < to && from < start + range.bytes
        })
    }

    /// The slot that led to `table` is a hole; the table and those below it wait for the TLBs.
    pub(crate) fn unlink<P: Platform>(&mut self, platform: &P, table: Table, bytes: u64) {
        let start = self.geometry.input(table.start);
        // What leaves the subtree held is not looked at: pages are the smallest that it can have been.
        self.add(
            platform,
            Invalidation { start, bytes, stride: Level::L3, is_uniform: false, depth: Depth::AllLevels },
        );
        if self.wait().subtrees.push(table).is_err() {
            self.complete_waiting(platform);
            self.retire(platform, table);
        }
    }

    /// A table came free that was never live.
    pub(crate) fn retire<P: Platform>(&mut self, platform: &P, table: Table) {
        // A view that came before the table was unlinked may be in it, and is not to meet the links of a list.
        platform.wait_for_views();
        collect(platform, self.geometry, table, &mut self.retired);
    }

    #[inline(always)]
    fn add<P: Platform>(&mut self, platform: &P, what: Invalidation) {
        let ranges = &mut self.wait().ranges;
        let is_absorbed = ranges.latest_mut().is_some_and(|last| last.absorb(&what));
        if !is_absorbed && ranges.push(what).is_err() {
            self.make_room(platform);
            self.wait().ranges = Backlog::of(what);
        }
    }

    /// No more ranges can be kept apart: they are forgotten. Once that has taken more TLBIs than it is worth, everything will be
    /// forgotten instead, and once for all that are yet to come.
    #[inline(never)]
    fn make_room<P: Platform>(&mut self, platform: &P) {
        if self.issued_for_ranges < MOST_TLBIS {
            return self.complete_waiting(platform);
        }
        let base = self.geometry.base();
        let waiting = self.waiting.get_or_insert_default();
        for range in core::mem::take(&mut waiting.ranges).iter() {
            let start = range.start.wrapping_sub(base);
            let (from, to) = waiting.scattered.unwrap_or((start, start));
            waiting.scattered = Some((from.min(start), to.max(start + range.bytes)));
        }
    }

    /// Makes stores visible and TLBs forget the ranges, and frees the tables that waited for that.
    fn complete_waiting<P: Platform>(&mut self, platform: &P) {
        let Some(Waiting { ranges, subtrees, scattered, .. }) = &self.waiting else { return };
        let (geometry, regime) = (self.geometry, self.regime);
        let issued = match scattered {
            Some(_) => {
                let everything = Invalidation::everything(geometry.base());
                complete_stores(platform, geometry, regime, core::iter::once(everything))
            }
            None => complete_stores(platform, geometry, regime, ranges.iter().copied()),
        };
        self.issued += issued;
        self.issued_for_ranges += issued;
        if !subtrees.is_empty() {
            platform.wait_for_views();
        }
        subtrees.iter().for_each(|&table| collect(platform, self.geometry, table, &mut self.retired));
        self.waiting = None;
    }
}

/// Makes stores visible and TLBs forget `ranges`; how many TLBIs that took.
#[inline(always)]
pub(crate) fn complete_stores<G: Granule, R: Regime, P: Platform>(
    platform: &P,
    geometry: Geometry<G>,
    regime: R,
    ranges: impl Iterator<Item = Invalidation> + Clone,
) -> usize {
    // Walkers must see the stores before TLBs forget, or a walk in between caches the old descriptor again; and a mapping
    // that was made must be visible before the caller uses it.
    platform.maintain(Maintenance::DSB_ISHST);
    let issued = match ranges.clone().next() {
        Some(_) => forget(platform, geometry, regime, ranges),
        None => 0,
    };
    // This PE's own fetches and walks may go on with what they had until a context synchronization event.
    R::synchronize(platform);
    issued
}

/// The TLBIs of `ranges` and the barriers that complete them; how many TLBIs there were.
///
/// What both stages translate at once is forgotten when stage 2 is forgotten for good, its repetition included: until then a
/// walk may combine stage 1 with it once more.
#[inline(always)]
pub(crate) fn forget<G: Granule, R: Regime, P: Platform>(
    platform: &P,
    geometry: Geometry<G>,
    regime: R,
    ranges: impl Iterator<Item = Invalidation> + Clone,
) -> usize {
    let (mut issued, mut rest) = (0, Rest::Nothing);
    let mut maintain = |operation| {
        platform.maintain(operation);
        issued += 1;
    };
    complete(platform, regime, || {
        let forget = |range| rest = rest.max(regime.invalidate::<G>(&range, geometry.layout(), &mut maintain));
        ranges.clone().for_each(forget);
    });
    if rest == Rest::Combined {
        complete(platform, regime, || regime.invalidate_combined(&mut maintain));
    }
    issued
}

/// Issues TLBIs and the barrier that completes them; twice where CPUs need that.
#[track_caller]
#[inline(always)]
fn complete<R: Regime, P: Platform>(platform: &P, regime: R, mut invalidate: impl FnMut()) {
    for _ in 0..if regime.must_repeat() { 2 } else { 1 } {
        invalidate();
        // Until the TLBIs are complete on every PE, the old translation is still in use, and its memory and tables with it.
        platform.maintain(Maintenance::DSB_ISH);
    }
}

/// Threads a table and all tables below it onto a list.
pub(crate) fn collect<G: Granule, P: Platform>(
    platform: &P,
    geometry: Geometry<G>,
    table: Table,
    list: &mut TableList,
) {
    if table.level != Level::L3 {
        for index in 0..G::ENTRIES {
            let descriptor = platform.load(Slot::new(table.address, index));
            match table_below(geometry, table.level, table.start, descriptor) {
                // Nothing is below a table of pages.
                Some(below) if below.level == Level::L3 => list.push(platform, below.address),
                Some(below) => collect(platform, geometry, below, list),
                None => {}
            }
        }
    }
    list.push(platform, table.address);
}
