//! What a walk finds: one step after the other, by the route that led there.

use super::entry::Entry;
use super::holders::{Cpus, Holders};
use crate::descriptor::Hierarchy;
use crate::syndrome::FaultKind;

/// How far a walk has come.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// CPUs whose walkers may see every value on the way.
    pub(crate) walkers: Cpus,
    /// Holders that left the context before a value on the way was stored.
    pub(crate) hidden: Holders,
    pub(crate) is_current: bool,
    pub(crate) is_through: bool,
}

impl Route {
    pub(crate) fn from(walkers: Cpus) -> Self {
        Self { walkers, hidden: Holders::none(), is_current: true, is_through: false }
    }
}

/// One thing that a walk may find.
pub(crate) struct Seen<'a> {
    pub(crate) found: Found,
    /// Physical address of the descriptor.
    pub(crate) word: u64,
    pub(crate) route: &'a Route,
}

impl Seen<'_> {
    /// True for this entry, where TLBs may hold it.
    pub(crate) fn is(&self, entry: &Entry) -> bool {
        matches!(self.found, Found::Entry { entry: other, is_untranslated: false } if other == *entry)
    }
}

/// An entry, or the fault that stands in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    Entry {
        entry: Entry,
        /// nT: used, but not cached.
        is_untranslated: bool,
    },
    Fault {
        kind: FaultKind,
        level: i8,
        is_stage2: bool,
        is_on_walk: bool,
        intermediate: u64,
        /// It comes from an old value of that very descriptor.
        is_old: bool,
    },
}

/// A table about to be walked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Start {
    /// Address of its first entry: intermediate physical beneath a stage 2.
    pub(crate) table: u64,
    pub(crate) is_located: bool,
    pub(crate) level: i8,
    /// Input address of its first entry.
    pub(crate) base: u64,
    pub(crate) hierarchy: Hierarchy,
}

pub(crate) type Sink<'s> = &'s mut dyn FnMut(&Seen<'_>);
