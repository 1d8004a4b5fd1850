//! What a program tried to do.

use vmsa::Syndrome;

/// How memory is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A load, or cache maintenance.
    Read,
    /// A store.
    Write,
    /// A fetch.
    Execute,
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
}
