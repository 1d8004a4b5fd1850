//! Every store of a descriptor that a walker may see, and the barriers and TLBIs that order it.
//!
//! ```text
//! link a table        fill it · DSB ISHST · store its descriptor
//! break-before-make   clear bit 0 · DSB ISHST · TLBI · DSB ISH · ISB · store · DSB ISHST · ISB
//! nT                  set nT · DSB ISHST · TLBI · DSB ISH · ISB · store · (the Gather makes TLBs forget again)
//! in place            store · (the Gather makes TLBs forget)
//! ```
//! No ISB where the CPU translates by other tables than these.

use vmsa::{Descriptor, Granule, Level, Maintenance};

use super::{Edit, Editor};
use crate::fill::build;
use crate::gather::{collect, forget};
use crate::invalidation::{Depth, Invalidation};
use crate::pieces::Pieces;
use crate::platform::{Platform, Slot};
use crate::regime::{Fields, HardwareUpdates, Regime, marks};
use crate::walk::Visit;

/// A table that is to take the place of a leaf, and the leaf that it was built of.
#[derive(Clone, Copy)]
pub(super) struct Built {
    pub(super) leaf: Descriptor,
    pub(super) table: Descriptor,
}

impl<'e, G: Granule, R: Regime, P: Platform> Editor<'e, G, R, P> {
    /// `leaf` with what hardware has marked in `now`.
    pub(super) fn marked_as(&self, leaf: Descriptor, now: Descriptor) -> Descriptor {
        marks::marked_since(self.regime, leaf, leaf, now)
    }

    /// Writes what no TLB holds a copy of, or what a window hides.
    #[inline(always)]
    #[track_caller]
    pub(super) fn write(&self, slot: Slot, new: Descriptor) {
        self.platform.store(slot, new);
    }

    /// What TLBs do not hold becomes a leaf or a table: there is nothing to forget.
    #[track_caller]
    pub(crate) fn make(&mut self, slot: Slot, new: Descriptor) {
        self.write(slot, new);
        self.note_store();
    }

    /// Break-before-make of one descriptor: `make` stores what follows, given what was broken.
    ///
    /// ```text
    ///   bit 0 cleared     TLBs have forgotten        stored       walkers see it
    ///  ──────┼──────────────────────┼───────────────────┼───────────────┼──────▶
    ///        │ some still translate │ every access faults               │ all translate again
    /// ```
    /// What hardware marks it marks before TLBs have forgotten, so that the broken descriptor is read after that: its marks are
    /// final then.
    pub(super) fn exchange_broken(&mut self, visit: &Visit, depth: Depth, make: impl FnOnce(&mut Self, Descriptor)) {
        if self.is_live {
            self.break_leaf(visit.slot);
            self.forget_now(visit, depth);
        }
        make(self, self.platform.load(visit.slot));
        if self.is_live {
            self.close_window();
        }
    }

    /// Breaks a descriptor by clearing bit 0 alone, so that its other bits, those that hardware wrote included, stay
    /// readable.
    pub(super) fn break_leaf(&self, slot: Slot) {
        let broken = |leaf: Descriptor| Descriptor::new(leaf.bits() & !Descriptor::VALID);
        self.writer().replace(slot, self.platform.load(slot), broken);
    }

    /// Makes every TLB forget what was broken or made uncacheable, before anything is made in its place.
    pub(super) fn forget_now(&mut self, visit: &Visit, depth: Depth) {
        // Walkers must see the break before TLBs forget, or a walk in between caches the old leaf again.
        self.platform.maintain(Maintenance::DSB_ISHST);
        let is_leaf = depth == Depth::LastLevel;
        let stride = if is_leaf { visit.level } else { Level::L3 };
        let is_uniform = is_leaf && self.gather.is_uniform(visit.start, visit.end);
        let (start, bytes) = (self.geometry.input(visit.start), visit.end - visit.start);
        let broken = Invalidation { start, bytes, stride, is_uniform, depth };
        self.gather.count(forget(self.platform, self.geometry, self.regime, core::iter::once(broken)));
        // This PE has not forgotten until a context synchronization event (RBLDZX).
        R::synchronize(self.platform);
    }

    /// Ends a break-before-make window.
    pub(super) fn close_window(&self) {
        // Until walkers see what was made, every access to it faults.
        self.platform.maintain(Maintenance::DSB_ISHST);
        // Without it this PE may still act on the fault that a fetch from the broken leaf would have taken.
        R::synchronize(self.platform);
    }

    /// The descriptor of a new table that holds `pieces`, in the slot of `visit`. Without as many
    /// tables in the reserve there is none, and nobody may store anything in its stead: the plan counted, so that only what
    /// others wrote into the tables since can bring this about.
    pub(super) fn build(&mut self, visit: &Visit, pieces: &Pieces) -> Option<Descriptor> {
        if self.reserve.count() < self.terms.tables_below(visit, pieces) {
            return None;
        }
        let table = build(self.platform, self.geometry, self.reserve, visit.level, visit.start, pieces)?;
        if self.is_live {
            // A walker that saw the table's descriptor before its content would walk what was in the memory before.
            self.platform.maintain(Maintenance::DSB_ISHST);
        }
        Some(table)
    }

    /// The table that was built of the leaf at `visit`, built anew if hardware has marked the leaf since, which is `now`. It is
    /// not patched: what is yet to land in it would land on what walkers mark in it from then on.
    pub(super) fn build_again(
        &mut self,
        visit: &Visit,
        built: Built,
        now: Descriptor,
        pieces: impl FnOnce(&Visit) -> Pieces,
    ) -> Descriptor {
        let leaf = self.marked_as(built.leaf, now);
        match visit.with(built.table).table(self.geometry) {
            Some(table) if leaf != built.leaf => {
                collect(self.platform, self.geometry, table, &mut self.reserve.0);
                // As many tables as have just been given back. Were there fewer, the leaf would stay.
                self.build(visit, &pieces(&visit.with(leaf))).unwrap_or(leaf)
            }
            _ => built.table,
        }
    }

    #[inline(always)]
    pub(crate) fn writer(&self) -> Writer<'e, P> {
        Writer::new(self.platform, self.regime, self.is_live)
    }

    #[inline(always)]
    pub(crate) fn note_store(&mut self) {
        if self.is_live {
            self.gather.note_store();
        }
    }

    #[inline(always)]
    pub(crate) fn forget(&mut self, level: Level, start: u64, end: u64) {
        if self.is_live && start < end {
            self.gather.forget(self.platform, level, start, end - start);
        }
    }
}

/// Replaces descriptors of a page table, and loses no mark.
///
/// Where hardware marks leaves by itself, it may do so between our load and our store: a plain store would take the mark back,
/// and with it the news that the page was written. An exchange fails then, and what was marked is edited instead. Where
/// hardware writes nothing, or cannot reach the tables, a store does.
pub(crate) struct Writer<'p, P: Platform> {
    pub(super) platform: &'p P,
    /// Whether hardware writes into leaves.
    pub(crate) is_marked: bool,
    /// Whether hardware may walk the tables.
    pub(super) is_live: bool,
}

impl<'p, P: Platform> Writer<'p, P> {
    #[inline(always)]
    pub(crate) fn new<R: Regime>(platform: &'p P, regime: R, is_live: bool) -> Self {
        Self { platform, is_marked: regime.hardware_updates() > HardwareUpdates::None, is_live }
    }

    /// Whether hardware may write what is replaced.
    #[inline(always)]
    pub(crate) const fn exchanges(&self) -> bool {
        self.is_live && self.is_marked
    }

    /// Replaces `old`, unless hardware has written it meanwhile.
    #[inline(always)]
    pub(super) fn swap(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        if self.exchanges() {
            return self.platform.exchange(slot, old, new);
        }
        self.platform.store(slot, new);
        Ok(())
    }

    /// Replaces a descriptor that hardware may write meanwhile.
    #[inline(always)]
    pub(crate) fn replace(&self, slot: Slot, mut old: Descriptor, new: impl Fn(Descriptor) -> Descriptor) {
        while let Err(actual) = self.swap(slot, old, new(old)) {
            old = actual;
        }
    }

    /// Writes what takes the place of a hole, of which no TLB holds anything.
    #[inline(always)]
    pub(crate) fn make(&self, slot: Slot, new: Descriptor) {
        self.platform.store(slot, new);
    }

    /// Writes two leaves side by side at a slot of an even number, of which hardware writes neither meanwhile.
    #[inline(always)]
    pub(super) fn set_pair(&self, slot: Slot, leaves: [Descriptor; 2]) {
        self.platform.store_pair(slot, leaves);
    }

    /// Makes `new` of the leaf `old` by `edit`, or what `edit` makes of what hardware has written meanwhile. What stands there now; and whether
    /// TLBs may hold a copy of the old leaf that matters: not without the access flag, and not if hardware ignores what changed.
    #[inline(always)]
    pub(crate) fn set<A: Fields>(
        &self,
        slot: Slot,
        mut old: Descriptor,
        mut new: Descriptor,
        edit: Edit,
    ) -> (Descriptor, bool) {
        if !self.is_live {
            self.platform.store(slot, new);
            return (new, true);
        }
        while let Err(actual) = self.swap(slot, old, new) {
            (old, new) = (actual, edit.apply(actual));
        }
        (new, self.is_stale::<A>(old, new))
    }

    /// Whether TLBs may hold a copy of `old` that matters where `new` stands now.
    #[inline(always)]
    pub(crate) fn is_stale<A: Fields>(&self, old: Descriptor, new: Descriptor) -> bool {
        let is_cached = old.bits() & A::ACCESS_FLAG != 0 || self.is_marked;
        is_cached && (old.bits() ^ new.bits()) & !A::IGNORED != 0
    }
}
