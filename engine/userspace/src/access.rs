//! What a program tried to do.

use vmsa::Syndrome;

use crate::area::{Area, Backing};
use crate::atomic::is_atomic;

/// How memory is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A load, or cache maintenance.
    Read,
    /// A store.
    Write,
    /// A load and a store in one, of which the CPU has told the load: a first write to private memory without a file behind it, a
    /// load elsewhere, so that what a program sees of its faults there stays what it is.
    Atomic,
    /// A fetch.
    Execute,
}

impl Kind {
    /// What the access is in this area.
    pub(crate) fn in_area<F: Clone + PartialEq>(self, area: &Area<F>) -> Self {
        let is_first_write = || area.is_data() && matches!(area.backing, Backing::Anonymous { .. });
        match self {
            Self::Atomic if is_first_write() => Self::Write,
            Self::Atomic => Self::Read,
            other => other,
        }
    }
}

/// An access that faulted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// The address, without a tag.
    pub address: u64,
    /// What was done there.
    pub kind: Kind,
}

impl Access {
    /// The access that an abort tells of, at `address`; `None` if the syndrome is of no abort. Cache maintenance reports a
    /// write whatever it does: it is a read, so that it neither copies a page nor is refused on text.
    #[inline]
    pub const fn of(syndrome: Syndrome, address: u64) -> Option<Self> {
        let kind = if syndrome.is_instruction_abort() {
            Kind::Execute
        } else if !syndrome.is_data_abort() {
            return None;
        } else if syndrome.is_write() && !syndrome.is_maintenance() {
            Kind::Write
        } else {
            Kind::Read
        };
        Some(Self { address, kind })
    }

    /// The same, made by this A64 instruction: a hint, since the word may be of another that stood there once. The worst it does is
    /// to have a page made that is only read.
    #[must_use]
    pub fn made_by(self, instruction: u32) -> Self {
        let kind = if self.kind == Kind::Read && is_atomic(instruction) { Kind::Atomic } else { self.kind };
        Self { kind, ..self }
    }
}
