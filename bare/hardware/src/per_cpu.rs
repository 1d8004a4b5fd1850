//! What each CPU reaches through TPIDR_EL1: the little that vectors and `catch` need before they can call anything.

use core::arch::asm;
use core::cell::Cell;
use core::ptr;

use crate::caught;
use crate::conflict::record::Record;
use crate::frame::Frame;

/// CPUs that are supported.
pub const MAX_CPUS: usize = 8;

/// One CPU's own data. Lines of 64 bytes, so that CPUs do not share any.
#[repr(C, align(64))]
pub struct PerCpu {
    /// The top of the stack for exceptions in exception handlers.
    pub(crate) emergency_stack: Cell<u64>,
    /// The innermost `catch` that runs on this CPU, or null.
    pub(crate) catch: Cell<*mut caught::Record>,
    /// Where the vectors save what EL0 has.
    pub(crate) user: Cell<*mut Frame>,
    /// The stack pointer of who has entered EL0.
    pub(crate) kernel_stack: Cell<u64>,
    index: Cell<u32>,
    /// What its handler of TLB conflict aborts keeps.
    pub(crate) conflict: Record,
}

// SAFETY: a `PerCpu` is touched by its own CPU alone once that CPU runs, and by the CPU that starts it before then.
unsafe impl Sync for PerCpu {}

#[unsafe(export_name = "per_cpu")]
static ALL: [PerCpu; MAX_CPUS] = [const {
    PerCpu {
        emergency_stack: Cell::new(0),
        catch: Cell::new(ptr::null_mut()),
        user: Cell::new(ptr::null_mut()),
        kernel_stack: Cell::new(0),
        index: Cell::new(0),
        conflict: Record::new(),
    }
}; MAX_CPUS];

/// Prepares the data of CPU `index`, below [`MAX_CPUS`], which does not run yet or is this CPU; gives its address, for
/// TPIDR_EL1. A TLB conflict abort may come again `patience` times at the same place; with 0 the first is unexpected.
pub fn prepare(index: usize, emergency_stack: u64, patience: u64) -> u64 {
    let cpu = &ALL[index];
    cpu.emergency_stack.set(emergency_stack);
    cpu.catch.set(ptr::null_mut());
    cpu.index.set(index as u32);
    cpu.conflict.patience.set(patience);
    ptr::from_ref(cpu) as u64
}

/// Makes the prepared data at `address` this CPU's.
///
/// # Safety
///
/// `address` comes from [`prepare`] for this CPU, and no `catch` is running.
pub unsafe fn install(address: u64) {
    // SAFETY: nothing but this module, the vectors and `catch` uses TPIDR_EL1.
    unsafe { asm!("msr tpidr_el1, {}", in(reg) address, options(nostack, preserves_flags)) };
}

/// This CPU's data.
pub(crate) fn this() -> &'static PerCpu {
    let address: *const PerCpu;
    // SAFETY: reading TPIDR_EL1 has no effect.
    unsafe { asm!("mrs {}, tpidr_el1", out(reg) address, options(nomem, nostack, preserves_flags)) };
    // SAFETY: the entry code and `install` put the address of an element of `ALL` there before any Rust runs.
    unsafe { &*address }
}

/// This CPU's number, 0 for the boot CPU.
#[inline(always)]
pub fn index() -> usize {
    let index = this().index.get() as usize;
    // SAFETY: 0, or what `prepare` has found a CPU's data by.
    unsafe { core::hint::assert_unchecked(index < MAX_CPUS) };
    index
}
