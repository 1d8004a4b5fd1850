//! The area that a thread has registered for its restartable sequences ([`super::rseq`]).

use core::cell::Cell;

pub(crate) struct Sequences {
    pub(super) area: Cell<Option<Area>>,
    /// It has left its CPU since its area was written.
    pub(super) has_left: Cell<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Area {
    pub(super) address: u64,
    pub(super) bytes: u32,
    pub(super) signature: u32,
}

impl Sequences {
    pub(super) const fn new() -> Self {
        Self { area: Cell::new(None), has_left: Cell::new(true) }
    }

    /// A new program has none.
    pub(super) fn forget(&self) {
        self.area.set(None);
    }

    /// A child that has memory of its own has what its parent had there.
    pub(super) fn inherit(&self, parent: &Self) {
        self.area.set(parent.area.get());
    }

    /// The thread leaves its CPU.
    pub(crate) fn note_leaving(&self) {
        self.has_left.set(true);
    }

    /// Whether [`super::rseq::resume`] is to be called.
    pub(super) fn is_due(&self) -> bool {
        self.has_left.get() && self.area.get().is_some()
    }
}
