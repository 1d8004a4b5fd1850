//! What may fold again, and when: a page that is protected and released in turn is not to be folded each time.
//!
//! ```text
//! changed ──▶ recent: a few slots, each with its round ──▶ not changed for some rounds ──▶ looked at
//!                └─ too many, or a long range ──▶ scattered: one range, with the round of its youngest ──▶ looked at slot by slot
//! ```
//! All is in offsets, by slots of level 2: what a table of pages covers.

use core::ops::Range;

use vmsa::{Geometry, Granule, Level};

use crate::shape::Leaves;

/// Slots that are remembered one by one.
const RECENT: usize = 16;

/// Rounds for which a slot is left alone after its last change.
const PATIENCE: u64 = 4;

/// Rounds after which what is scattered is looked at, though some of it changes in each: what is left alone there folds, and what is
/// not folds no more often than so.
const MOST_ROUNDS: u64 = 16 * PATIENCE;

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

/// Slots that are not remembered one by one, and what lies between.
#[derive(Debug)]
struct Scattered {
    /// Whole slots, or nothing.
    slots: Range<u64>,
    /// The round in which the first of them came here.
    first: u64,
    /// The last round in which one of them changed.
    last: u64,
}

impl Scattered {
    const NONE: Self = Self { slots: 0..0, first: 0, last: 0 };

    /// Slots that changed in round `last` come here in round `now`.
    fn add(&mut self, slots: Range<u64>, now: u64, last: u64) {
        let first = if self.slots.is_empty() { now } else { self.first };
        *self = Self { slots: hull(&self.slots, &slots), first, last: self.last.max(last) };
    }

    fn is_due(&self, due: u64) -> bool {
        !self.slots.is_empty() && (self.last < due || self.first + MOST_ROUNDS < due)
    }
}

/// Both, and what lies between.
fn hull(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    match (one.is_empty(), other.is_empty()) {
        (true, _) => other.clone(),
        (_, true) => one.clone(),
        _ => one.start.min(other.start)..one.end.max(other.end),
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
    scattered: Scattered,
    /// Of what was scattered, and is due: whole slots, or nothing.
    due: Range<u64>,
    round: u64,
}

impl Healing {
    pub(crate) const fn new<G: Granule>(bounds: Range<u64>, leaves: Leaves) -> Self {
        let slot_bytes = 1 << Geometry::<G>::shift(Level::L2);
        let is_on = !matches!(leaves, Leaves::Pages);
        Self {
            bounds,
            slot_bytes,
            is_on,
            recent: [Worn::NONE; RECENT],
            latest: 0,
            scattered: Scattered::NONE,
            due: 0..0,
            round: 1,
        }
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
            self.scattered.add(first..last + self.slot_bytes, self.round, self.round);
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
            self.scattered.add(old.start..old.start + self.slot_bytes, self.round, old.round);
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

    /// What [`Self::take`] gave out is not all looked at.
    pub(crate) fn put_back(&mut self, slots: Range<u64>) {
        self.due = slots;
    }

    /// A round begins: what has not changed since the round that is returned is due.
    pub(crate) fn begin_round(&mut self) -> u64 {
        self.round += 1;
        self.round.saturating_sub(PATIENCE)
    }

    /// All is due that has changed until now: it is in so many slots at most.
    pub(crate) fn begin_drain(&mut self) -> (u64, u64) {
        self.round += 1;
        self.due = hull(&self.due, &core::mem::replace(&mut self.scattered, Scattered::NONE).slots);
        (self.round, RECENT as u64 + (self.due.end - self.due.start) / self.slot_bytes)
    }

    /// Takes out what is to be looked at next: what is remembered and has changed before round `due`, then what is scattered. Of that
    /// nothing is taken anew before all that was put back is looked at.
    pub(crate) fn take(&mut self, due: u64) -> Option<Range<u64>> {
        if let Some(place) = self.recent.iter_mut().find(|worn| worn.is_due(due)) {
            let worn = core::mem::replace(place, Worn::NONE);
            return Some(worn.start..worn.start + self.slot_bytes);
        }
        if self.due.is_empty() && self.scattered.is_due(due) {
            return Some(core::mem::replace(&mut self.scattered, Scattered::NONE).slots);
        }
        let slots = core::mem::take(&mut self.due);
        (!slots.is_empty()).then_some(slots)
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
        !self.due.is_empty() || self.scattered.is_due(due) || self.recent.iter().any(|worn| worn.is_due(due))
    }

    /// Whether anything may fold, now or in a later round.
    pub(crate) fn has_any(&self) -> bool {
        self.has_due(u64::MAX)
    }
}
