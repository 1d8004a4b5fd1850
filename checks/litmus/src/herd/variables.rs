//! Where variables lie: each has a page, a frame, and a descriptor that leads from one to the other.

use std::collections::BTreeMap;

use crate::layout;
use crate::tables::PAGE;

/// The variables of a test, in order, and the addresses of their descriptors.
#[derive(Clone, Debug)]
pub(super) struct Variables {
    pub(super) names: Vec<String>,
    pub(super) slots: BTreeMap<String, u64>,
}

impl Variables {
    fn number(&self, name: &str) -> Option<u64> {
        self.names.iter().position(|other| other == name).map(|number| number as u64)
    }

    /// The virtual address of a variable.
    pub(super) fn address(&self, name: &str) -> Option<u64> {
        self.number(name).map(|number| layout::VIRTUAL + number * PAGE)
    }

    /// The physical address of a variable, by its descriptor's default.
    pub(super) fn physical(&self, name: &str) -> Option<u64> {
        self.number(name).map(|number| layout::PHYSICAL + number * PAGE)
    }

    /// The address of a variable's descriptor.
    pub(super) fn slot(&self, name: &str) -> Option<u64> {
        self.slots.get(name).copied()
    }
}
