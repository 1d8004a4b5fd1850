//! Accesses that may fault, to see whether they do.

use vmsa::VirtAddr;

use crate::catch::{Fault, catch};
use crate::mmio;

/// Reads 8 bytes.
///
/// # Safety
///
/// If `address`, 8-byte aligned, is mapped at all, reading it has no side effect.
pub unsafe fn read(address: VirtAddr) -> Result<u64, Fault> {
    let pointer = address.bits() as *const u64;
    let body = || {
        // SAFETY: the caller vouches for the read; where it is not mapped it faults, which is what is asked.
        unsafe { pointer.read_volatile() }
    };
    // SAFETY: the body holds nothing.
    unsafe { catch(body) }
}

/// Reads 4 bytes, as device registers want to be read.
///
/// # Safety
///
/// If `address`, 4-byte aligned, is mapped at all, reading it does no harm.
pub unsafe fn read_word(address: VirtAddr) -> Result<u32, Fault> {
    let body = || {
        // SAFETY: the caller vouches for the read; where nothing answers it faults, which is what is asked.
        unsafe { mmio::read(address.bits() as usize) }
    };
    // SAFETY: the body holds nothing.
    unsafe { catch(body) }
}

/// Writes 8 bytes.
///
/// # Safety
///
/// If `address`, 8-byte aligned, turns out to be writable, nobody minds the write.
pub unsafe fn write(address: VirtAddr, value: u64) -> Result<(), Fault> {
    let pointer = address.bits() as *mut u64;
    let body = || {
        // SAFETY: the caller vouches for the write; where it is not allowed it faults, which is what is asked.
        unsafe { pointer.write_volatile(value) }
    };
    // SAFETY: the body holds nothing.
    unsafe { catch(body) }
}

/// Whether there is memory: what is written to it can be read again. It holds what it held afterwards.
///
/// # Safety
///
/// If `address`, 8-byte aligned, leads to memory, nobody else uses it.
pub unsafe fn is_memory(address: VirtAddr) -> bool {
    const PATTERN: u64 = 0x5a5a_0ff0_a5a5_f00f;
    // SAFETY: the caller's promise.
    let Ok(before) = (unsafe { read(address) }) else { return false };
    // SAFETY: the caller's promise.
    let is_written = unsafe { write(address, before ^ PATTERN) }.is_ok();
    // SAFETY: the caller's promise.
    let after = unsafe { read(address) };
    // SAFETY: the caller's promise. What was there comes back.
    let is_restored = unsafe { write(address, before) }.is_ok();
    is_written && is_restored && after == Ok(before ^ PATTERN)
}

/// Calls the instructions at `address`.
///
/// # Safety
///
/// If they can be executed they are a function that returns and does no harm, and every CPU's fetches see them.
pub unsafe fn execute(address: VirtAddr) -> Result<(), Fault> {
    // SAFETY: the caller promises that it is such a function.
    let function = unsafe { core::mem::transmute::<u64, extern "C" fn()>(address.bits()) };
    // SAFETY: the body holds nothing.
    unsafe { catch(|| function()) }
}

/// The instruction `ret`: the shortest function.
pub const RET: u32 = 0xd65f_03c0;
