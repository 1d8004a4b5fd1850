//! What is asked of the walks, and what may be left out of an answer. Every event asks several questions, and a question
//! that is precise visits a few words; its naive form visits all and must find the same, which debug builds check.

use super::entry::{Entry, SpaceId};
use super::found::{Found, Seen};
use super::places::Place;

/// Asks for the entries whose walk used one particular thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Through {
    /// This value of this word.
    Word(u64, u64),
    /// This stale entry.
    Record(Entry),
}

/// Asks for nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Only {
    /// This entry.
    Entry(Entry),
    /// Entries whose descriptor is this word.
    Word(u64),
    /// Leaves, and faults in their place.
    Leaves,
}

/// Which addresses a question is about, and how much it wants to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) through: Option<Through>,
    /// What does not come through it is not asked for.
    pub(crate) is_only_through: bool,
    pub(crate) wants_faults: bool,
    /// Tables below this level are not walked.
    pub(crate) deepest: i8,
    /// Only page tables whose entries may answer the same lookups as those of this one.
    pub(crate) near: Option<SpaceId>,
    /// Only this page table.
    pub(crate) within: Option<SpaceId>,
    /// Only descriptors of the addresses themselves, not those of their contiguous sets.
    pub(crate) is_exact: bool,
    /// Nothing but this.
    pub(crate) only: Option<Only>,
    /// Each answer of stage 2 computed anew: what quick answers are held against.
    pub(crate) is_naive: bool,
}

impl Question {
    /// Which entries may answer for `first..=last`?
    pub(crate) const fn about(first: u64, last: u64) -> Self {
        let (through, near, within, only) = (None, None, None, None);
        let (wants_faults, is_only_through, is_exact, is_naive) = (false, false, false, false);
        Self { first, last, through, is_only_through, wants_faults, deepest: 3, near, within, is_exact, only, is_naive }
    }

    /// Which entries are there at all?
    pub(crate) const EVERYWHERE: Self = Self::about(0, u64::MAX);

    /// Who may walk to `entry`?
    pub(crate) const fn of(entry: &Entry) -> Self {
        let (first, last) = if entry.size_log2 < entry.own_log2 {
            (entry.start, entry.last())
        } else {
            (entry.own_start, entry.own_last())
        };
        Self { deepest: entry.level, is_exact: true, only: Some(Only::Entry(*entry)), ..Self::about(first, last) }
    }

    /// Which entries, and faults, come from `word` at this place?
    pub(crate) const fn at(word: u64, place: &Place) -> Self {
        Self {
            wants_faults: true,
            deepest: place.level,
            near: Some(place.space),
            is_exact: true,
            only: Some(Only::Word(word)),
            ..Self::about(place.start, place.last)
        }
    }

    /// The same, with nothing left out that the answer does not need.
    pub(crate) const fn naive(&self) -> Self {
        Self { is_exact: false, only: None, is_only_through: false, is_naive: true, ..*self }
    }

    /// True when an entry may be asked for that comes from `descriptor` at `word` of a table of `level`.
    pub(super) const fn wants(&self, level: i8, word: u64, descriptor: u64) -> bool {
        match &self.only {
            Some(Only::Entry(only)) => only.level == level && only.descriptor == descriptor,
            Some(Only::Word(only)) => *only == word,
            Some(Only::Leaves) | None => true,
        }
    }

    /// False when stage 2's `second` cannot be part of the one entry that is asked for.
    pub(super) fn wants_joined(&self, second: &Entry) -> bool {
        match &self.only {
            Some(Only::Entry(only)) => {
                only.second.is_some_and(|it| it.level == second.level && it.own_log2 == second.own_log2)
            }
            _ => true,
        }
    }

    /// False when what was found is not asked for.
    pub(super) fn takes(&self, seen: &Seen<'_>) -> bool {
        match (&self.only, &seen.found) {
            (Some(Only::Entry(only)), Found::Entry { entry, .. }) => only == entry,
            (Some(Only::Word(word)), _) => *word == seen.word,
            _ => true,
        }
    }

    /// False when nothing of `space` is asked for.
    pub(super) const fn is_about(&self, space: SpaceId) -> bool {
        match (&self.only, self.within) {
            (_, Some(one)) if one != space => false,
            (Some(Only::Entry(only)), _) => only.space == space,
            _ => true,
        }
    }
}
