//! What the vectors of EL1 save.

/// The registers of what was interrupted, as `vectors.s` saves them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Frame {
    /// x0 to x30.
    pub registers: [u64; 31],
    /// SP_EL0: the thread's stack pointer.
    pub stack_pointer: u64,
    /// ELR_EL1.
    pub return_address: u64,
    /// SPSR_EL1.
    pub status: u64,
    /// ESR_EL1.
    pub syndrome: u64,
    /// FAR_EL1.
    pub fault_address: u64,
}
