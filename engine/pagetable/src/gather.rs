//! What must be forgotten, collected over one or many applies, and the tables that wait for it.

use vmsa::{Geometry, Granule, Level, Maintenance};

use crate::few::Few;
use crate::invalidation::{Depth, Invalidation};
use crate::platform::Platform;
use crate::regime::{Regime, Rest};
use crate::tables::{Retired, TableList};
use crate::walk::{Next, Table, next_table, walk};

/// Ranges kept apart before TLBs must forget them, beside the first.
pub(crate) const MORE_RANGES: usize = 7;
/// Unlinked subtrees kept before TLBs must forget them, beside the first.
const MORE_SUBTREES: usize = 15;

/// Collects what TLBs must forget. Until [`Gather::finish`], stores of the applies may be invisible to walkers, and TLBs
/// may hold what was there before.
///
/// Of two gathers over one range, the first is finished before the second collects: only then does a leaf without the access
/// flag tell that no TLB holds it.
#[derive(Debug)]
#[must_use = "what was changed is not complete until `finish`"]
pub struct Gather<G: Granule, R: Regime> {
    geometry: Geometry<G>,
    regime: R,
    ranges: Few<Invalidation, MORE_RANGES>,
    subtrees: Few<Table, MORE_SUBTREES>,
    /// Stores were made that walkers must see. Without one nothing is to be forgotten, and no subtree waits.
    is_pending: bool,
    issued: usize,
    retired: TableList,
}

impl<G: Granule, R: Regime> Gather<G, R> {
    #[inline(always)]
    pub(crate) fn new(geometry: Geometry<G>, regime: R) -> Self {
        Self {
            geometry,
            regime,
            ranges: Few::new(),
            subtrees: Few::new(),
            is_pending: false,
            issued: 0,
            retired: TableList::default(),
        }
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
        if self.is_pending {
            self.settle(platform);
        }
        Retired(core::mem::take(&mut self.retired))
    }

    /// TLBIs were issued that could not wait.
    pub(crate) const fn count(&mut self, issued: usize) {
        self.issued += issued;
    }

    /// Stores were made that a walker must see.
    #[inline(always)]
    pub(crate) const fn note_store(&mut self) {
        self.is_pending = true;
    }

    /// The translations of `bytes` from offset `start`, in leaves of `level`, are no longer what TLBs may hold.
    /// `is_uniform` tells that no TLB holds them in leaves of another size.
    #[inline(always)]
    pub(crate) fn forget<P: Platform>(&mut self, platform: &P, level: Level, start: u64, bytes: u64, is_uniform: bool) {
        let start = self.geometry.input(start);
        self.add(platform, Invalidation { start, bytes, stride: level, is_uniform, depth: Depth::LastLevel });
    }

    /// The slot that led to `table` is a hole; the table and those below it wait for the TLBs.
    pub(crate) fn unlink<P: Platform>(&mut self, platform: &P, table: Table, bytes: u64) {
        let start = self.geometry.input(table.start);
        // What leaves the subtree held is not looked at: pages are the smallest that it can have been.
        self.add(
            platform,
            Invalidation { start, bytes, stride: Level::L3, is_uniform: false, depth: Depth::AllLevels },
        );
        if self.subtrees.push(table).is_err() {
            self.settle(platform);
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
        let is_absorbed = self.ranges.latest_mut().is_some_and(|last| last.absorb(&what));
        if !is_absorbed && self.ranges.push(what).is_err() {
            self.settle(platform);
            self.ranges = Few::of(what);
        }
        self.is_pending = true;
    }

    /// Makes stores visible and TLBs forget the ranges, and frees the tables that waited for that.
    fn settle<P: Platform>(&mut self, platform: &P) {
        // Walkers must see the stores before TLBs forget, or a walk in between caches the old descriptor again; and a
        // mapping that was made must be visible before the caller uses it.
        platform.maintain(Maintenance::DSB_ISHST);
        if !self.ranges.is_empty() {
            self.issued += forget(platform, self.geometry, self.regime, &self.ranges);
        }
        // This PE's own fetches and walks may go on with what they had until a context synchronization event.
        R::synchronize(platform);
        if !self.subtrees.is_empty() {
            platform.wait_for_views();
        }
        self.subtrees.for_each(|&table| collect(platform, self.geometry, table, &mut self.retired));
        (self.ranges, self.subtrees, self.is_pending) = (Few::new(), Few::new(), false);
    }
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
    ranges: &Few<Invalidation, MORE_RANGES>,
) -> usize {
    let (mut issued, mut rest) = (0, Rest::Nothing);
    let mut maintain = |operation| {
        platform.maintain(operation);
        issued += 1;
    };
    complete(platform, regime, || {
        ranges.for_each(|range| rest = rest.max(regime.invalidate::<G>(range, geometry.layout(), &mut maintain)));
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
    if table.level == Level::L3 {
        return list.push(platform, table.address);
    }
    let end = table.start + ((geometry.entries(table.level) as u64) << Geometry::<G>::shift(table.level));
    let _ = walk::<G, P, ()>(platform, geometry, table, table.start, end, &mut |visit| {
        if let Some(below) = next_table(geometry, visit) {
            collect(platform, geometry, below, list);
        }
        core::ops::ControlFlow::Continue(Next::Past(visit.end))
    });
    list.push(platform, table.address);
}
