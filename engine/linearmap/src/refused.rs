//! Why the map is not changed. Whatever the reason, every page of every range is as it was.

use core::fmt;

use pagetable::Refusal;

/// Other CPUs cannot be parked: who did not answer, by the kernel's number, or nobody where it parks none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotParked(pub Option<usize>);

/// Why nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The engine refuses: something is not mapped, or no page begins there.
    Change(Refusal),
    /// [`crate::Pages::allocate`] has no more tables; so many more are needed.
    OutOfTables(usize),
    /// In atomic context the reserve is all that there is, and it lacks so many tables.
    ReserveDry(usize),
    /// A leaf would change size, which some CPU does not tolerate, and CPUs cannot be parked.
    NotParked(NotParked),
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Change(refusal)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(refusal) => refusal.fmt(f),
            Self::OutOfTables(lacking) => write!(f, "no memory for {lacking} more tables"),
            Self::ReserveDry(lacking) => write!(f, "the reserve for atomic context lacks {lacking} tables"),
            Self::NotParked(NotParked(Some(cpu))) => write!(f, "CPU {cpu} did not answer a call to park"),
            Self::NotParked(NotParked(None)) => f.write_str("some CPU does not tolerate it, and none can be parked"),
        }
    }
}

impl core::error::Error for Refused {}
