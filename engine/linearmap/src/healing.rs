//! What may fold again, and when: a page that is protected and released in turn is not to be folded each time.
//!
//! ```text
//! changed ──▶ recent: a few slots, each with its round ──▶ not changed for some rounds ──▶ looked at
//!                └─ too many, or a long range ──▶ scattered: one range, looked at slot by slot ──┘
//! ```
//! All is in offsets, by slots of level 2: what a table of pages covers.

use core::ops::Range;

use vmsa::{Geometry, Granule, Level};

use crate::shape::Leaves;

/// Slots that are remembered one by one.
const RECENT: usize = 16;

/// Rounds for which a slot is left alone after its last change.
const PATIENCE: u64 = 4;

/// A slot that has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Worn {
    start: u64,
    round: u64,
}

impl Worn {
    /// A place for one: no slot begins there, and it is older than any.
    const NONE: Self = Self { start: u64::MAX, round: 0 };

    const fn is_due(self, due: u64) -> bool {
        self.start != Self::NONE.start && self.round < due
    }
}

/// What may fold again.
#[derive(Debug)]
pub(crate) struct Healing {
    /// The linear map.
    bounds: Range<u64>,
    slot_bytes: u64,
    /// Leaves may fold at all.
    is_on: bool,
    recent: [Worn; RECENT],
    /// The place of the last that was remembered: often the next.
    latest: usize,
    /// Whole slots, or nothing.
    scattered: Range<u64>,
    round: u64,
}

impl Healing {
    pub(crate) const fn new<G: Granule>(bounds: Range<u64>, leaves: Leaves) -> Self {
        let slot_bytes = 1 << Geometry::<G>::shift(Level::L2);
        let is_on = !matches!(leaves, Leaves::Pages);
        Self { bounds, slot_bytes, is_on, recent: [Worn::NONE; RECENT], latest: 0, scattered: 0..0, round: 1 }
    }

    /// Pages from `start` to `end` have changed.
    #[inline(always)]
    pub(crate) fn note(&mut self, start: u64, end: u64) {
        let (start, end) = (start.max(self.bounds.start), end.min(self.bounds.end));
        if start >= end || !self.is_on {
            return;
        }
        let (first, last) = (self.slot(start), self.slot(end - 1));
        if first != last {
            self.scatter(first..last + self.slot_bytes);
            self.remember(last);
        }
        self.remember(first);
    }

    const fn slot(&self, at: u64) -> u64 {
        at & !(self.slot_bytes - 1)
    }

    /// A slot has changed. Who was remembered longest makes room.
    #[inline]
    fn remember(&mut self, start: u64) {
        if self.recent[self.latest].start != start {
            self.latest = self.place_for(start);
        }
        let old = core::mem::replace(&mut self.recent[self.latest], Worn { start, round: self.round });
        if old.start != start && old != Worn::NONE {
            self.scatter(old.start..old.start + self.slot_bytes);
        }
    }

    /// The place that a slot has, or else that of the oldest.
    fn place_for(&self, start: u64) -> usize {
        let (mut place, mut oldest) = (0, u64::MAX);
        for (number, worn) in self.recent.iter().enumerate() {
            if worn.start == start {
                return number;
            }
            if worn.round < oldest {
                (place, oldest) = (number, worn.round);
            }
        }
        place
    }

    /// What lies between is looked at with it: what is whole there is passed leaf by leaf.
    pub(crate) fn scatter(&mut self, slots: Range<u64>) {
        self.scattered = match self.scattered.is_empty() {
            true => slots,
            false => self.scattered.start.min(slots.start)..self.scattered.end.max(slots.end),
        };
    }

    /// A round begins: what has not changed since the round that is returned is due.
    pub(crate) fn begin_round(&mut self) -> u64 {
        self.round += 1;
        self.round.saturating_sub(PATIENCE)
    }

    /// All is due that has changed until now: it is in so many slots at most.
    pub(crate) fn begin_drain(&mut self) -> (u64, u64) {
        self.round += 1;
        (self.round, RECENT as u64 + (self.scattered.end - self.scattered.start) / self.slot_bytes)
    }

    /// Takes out what is to be looked at next: what is remembered and has changed before round `due`, then what is scattered, which has
    /// no round and is always due.
    pub(crate) fn take(&mut self, due: u64) -> Option<Range<u64>> {
        if let Some(place) = self.recent.iter_mut().find(|worn| worn.is_due(due)) {
            let worn = core::mem::replace(place, Worn::NONE);
            return Some(worn.start..worn.start + self.slot_bytes);
        }
        let scattered = core::mem::take(&mut self.scattered);
        (!scattered.is_empty()).then_some(scattered)
    }

    /// Whether the slot at `at` is to be left alone for now: it is remembered, and what was due of that was taken out before.
    pub(crate) fn is_fresh(&self, at: u64) -> bool {
        let slot = self.slot(at);
        self.recent.iter().any(|worn| worn.start == slot)
    }

    /// Where the slot at `at` ends.
    pub(crate) const fn slot_end(&self, at: u64) -> u64 {
        self.slot(at) + self.slot_bytes
    }

    /// Whether [`Self::take`] would find anything.
    pub(crate) fn has_due(&self, due: u64) -> bool {
        !self.scattered.is_empty() || self.recent.iter().any(|worn| worn.is_due(due))
    }
}
