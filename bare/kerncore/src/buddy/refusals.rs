//! Why the page allocator does not do what it is asked for. Nothing has changed then.

use thiserror::Error;
use vmsa::PhysAddr;

use super::MAX_ORDER;
use crate::range::PhysicalRange;

/// Why memory was not taken in; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AddError {
    /// It does not begin and end with a page.
    #[error("{0} was not added, expected whole pages")]
    Misaligned(PhysicalRange),
    /// Part of it has no frames in the layout.
    #[error("{0} was not added, expected memory that the allocator was laid out for")]
    Outside(PhysicalRange),
    /// Part of it was added before, be it free now or given out.
    #[error("{0} was not added, expected memory that is new to the allocator")]
    Known(PhysicalRange),
}

/// Why memory was not taken out; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RemoveError {
    /// It does not begin and end with a page.
    #[error("{0} was not removed, expected whole pages")]
    Misaligned(PhysicalRange),
    /// The first page of it that is not free is given out.
    #[error("{0} was not removed, expected a free page, but it is given out")]
    Given(PhysAddr),
    /// The first page of it that is not free is not the allocator's.
    #[error("{0} was not removed, expected memory that the allocator has")]
    Foreign(PhysAddr),
}

/// Why nothing was freed; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FreeError {
    /// There is no such order.
    #[error("order {0} was not freed, expected {most} at most", most = MAX_ORDER)]
    NoSuchOrder(usize),
    /// No block of this order was given out there: never, or freed since, or with another order.
    #[error("{0} was not freed, expected a block of order {1} that is given out")]
    NotGiven(PhysAddr, usize),
}

/// The notes have another length than the layout wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{found} words for the allocator's notes, expected {expected}")]
pub struct WrongLength {
    /// What `Layout::words` says.
    pub expected: usize,
    /// What was passed.
    pub found: usize,
}
