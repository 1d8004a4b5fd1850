//! What is kept for a `catch`: where it goes back to, and the abort that ended its body.

use core::cell::Cell;

use vmsa::{Syndrome, VirtAddr};

/// An abort that was caught.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// ESR_EL1.
    pub syndrome: Syndrome,
    /// FAR_EL1: the address that was accessed.
    pub address: VirtAddr,
    /// ELR_EL1: the instruction that accessed it.
    pub instruction: VirtAddr,
    /// The stack pointer it had.
    pub stack_pointer: u64,
}

/// What `catch_faults` saves, and what the handler writes.
#[repr(C)]
pub(crate) struct Record {
    /// x19 to x30.
    pub(crate) registers: [u64; 12],
    pub(crate) stack_pointer: u64,
    /// PSTATE.DAIF.
    pub(crate) masks: u64,
    /// The record of the `catch` around this one, or null.
    pub(crate) outer: *mut Record,
    pub(crate) fault: Cell<Option<Fault>>,
}
