//! The order of locks: a lock is taken only under locks that stand before it. Kernels built to be checked ask this at each lock.
//!
//! ```text
//! sleeping locks ──────────────▶ open locks ──────────────▶ spin locks
//! waiters sleep, owners may      waiters spin, owners stay     waiters spin, owners stay
//! interrupts are open            interrupts are open           interrupts are masked
//! ```

use core::fmt;

/// What a lock asks of its owner and of waiters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Waiters sleep, and the owner may leave its CPU.
    Sleeping,
    /// Waiters spin with interrupts open; the owner stays on its CPU.
    Open,
    /// Waiters and the owner have interrupts masked.
    Spin,
}

/// Locks that stand at one place in the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// The place in the order.
    pub rank: u8,
    /// The name, for reports.
    pub name: &'static str,
    /// Whether waiters sleep, and whether interrupts are masked.
    pub kind: Kind,
    /// Whether several may be held at once: the one at the lowest address is taken first.
    pub is_by_address: bool,
}

/// A lock: its class and its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held(pub Class, pub usize);

/// A rule that a thread or a CPU has broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// The first lock is taken under the second, which does not stand before it.
    Order(&'static str, &'static str),
    /// A lock is taken with interrupts masked that is held with interrupts open.
    Masked(&'static str),
    /// A thread leaves its CPU and has a lock whose owner stays.
    Sleep(&'static str),
    /// A thread leaves its CPU with interrupts masked.
    MaskedSleep,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order(taken, held) => write!(f, "lock order: {taken} is taken under {held}"),
            Self::Masked(taken) => write!(f, "lock order: {taken} is taken with interrupts masked"),
            Self::Sleep(held) => write!(f, "lock order: a thread leaves its CPU and has {held}"),
            Self::MaskedSleep => write!(f, "lock order: a thread leaves its CPU with interrupts masked"),
        }
    }
}

/// Whether a lock may be taken under the last one that is held.
///
/// # Errors
///
/// [`Broken::Order`], [`Broken::Masked`].
pub fn check_take(last: Option<Held>, taken: Held, is_masked: bool) -> Result<(), Broken> {
    let is_before = |last: &Held| {
        last.0.rank < taken.0.rank || last.0.rank == taken.0.rank && taken.0.is_by_address && last.1 < taken.1
    };
    match last {
        Some(last) if !is_before(&last) => Err(Broken::Order(taken.0.name, last.0.name)),
        _ if taken.0.kind != Kind::Spin && is_masked => Err(Broken::Masked(taken.0.name)),
        _ => Ok(()),
    }
}

/// Whether a thread may leave its CPU under the last lock that is held.
///
/// # Errors
///
/// [`Broken::Sleep`], [`Broken::MaskedSleep`].
pub fn check_sleep(last: Option<Held>, is_masked: bool) -> Result<(), Broken> {
    match last {
        Some(Held(class, _)) if class.kind != Kind::Sleeping => Err(Broken::Sleep(class.name)),
        _ if is_masked => Err(Broken::MaskedSleep),
        _ => Ok(()),
    }
}
