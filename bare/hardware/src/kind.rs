//! The kinds of exception, at every level.

/// The four kinds of exception.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Caused by an instruction.
    Synchronous,
    /// An IRQ.
    Irq,
    /// An FIQ.
    Fiq,
    /// An asynchronous error.
    SError,
}

impl Kind {
    /// By the index of its vector.
    pub(crate) const fn of(index: u64) -> Self {
        match index & 0b11 {
            0 => Self::Synchronous,
            1 => Self::Irq,
            2 => Self::Fiq,
            _ => Self::SError,
        }
    }
}
