//! The right to change a live leaf in a way that needs break-before-make.

use core::marker::PhantomData;

/// Why a live leaf may change size, memory type or grouping. Without one such a change is refused.
///
/// A licence borrows what makes it true, so it cannot outlive it. Tables that are not live need none.
#[derive(Debug)]
pub struct Licence<'guard> {
    guard: PhantomData<&'guard ()>,
}

impl<'guard> Licence<'guard> {
    /// Break-before-make: the leaf is invalid for a moment (its *window*), in which every access to it faults.
    ///
    /// By making this licence the caller states, for as long as `guard` is held, that
    /// - no CPU accesses what the leaf maps during the window, or each one retries the fault it takes;
    /// - the changing CPU runs `apply` with exceptions masked, and reaches its code, stack, vectors and the descriptors
    ///   it writes through other leaves.
    pub const fn break_before_make<T: ?Sized>(guard: &'guard T) -> Self {
        let _ = guard;
        Self { guard: PhantomData }
    }
}
