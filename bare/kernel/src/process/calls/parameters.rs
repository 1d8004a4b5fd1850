//! Parameters of calls: each function has the types that its call has in C, and here alone does a register become one of them.

use super::call::Call;
use crate::errno::Answer;

/// What one register holds. Beside 32 bits, its upper half means nothing.
pub(super) trait Parameter {
    fn of(register: u64) -> Self;
}

impl Parameter for u64 {
    fn of(register: u64) -> Self {
        register
    }
}

impl Parameter for u32 {
    fn of(register: u64) -> Self {
        register as Self
    }
}

impl Parameter for i32 {
    fn of(register: u64) -> Self {
        register as Self
    }
}

/// What answers a call.
pub(super) trait Function<Parameters> {
    /// Passes it its parameters, which `registers` hold from x0 on.
    fn answer(self, call: &mut Call, registers: [u64; 6]) -> Answer;
}

macro_rules! functions {
    ($(($($name:ident $kind:ident),*))*) => {$(
        impl<$($kind: Parameter,)* F: FnOnce(&mut Call, $($kind),*) -> Answer> Function<($($kind,)*)> for F {
            fn answer(self, call: &mut Call, [$($name,)* ..]: [u64; 6]) -> Answer {
                self(call, $($kind::of($name)),*)
            }
        }
    )*};
}

functions! {
    ()
    (a A)
    (a A, b B)
    (a A, b B, c C)
    (a A, b B, c C, d D)
    (a A, b B, c C, d D, e E)
    (a A, b B, c C, d D, e E, f G)
}
