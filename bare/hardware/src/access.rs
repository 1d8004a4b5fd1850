//! Accesses to data that Rust does not make by itself: each is one instruction, or one loop of two.

use core::arch::asm;

use crate::registers::read_register;

/// Whether this CPU has atomic instructions (FEAT_LSE).
pub fn has_atomics() -> bool {
    read_register!("id_aa64isar0_el1") >> 20 & 15 >= 2
}

/// Bytes that DC ZVA clears, if it may be used.
pub fn zeroed_bytes() -> Option<u64> {
    let register = read_register!("dczid_el0");
    (register >> 4 & 1 == 0).then_some(4 << (register & 15))
}

/// Adds 1 to the word at `address` by LDXR and STXR; gives what was there.
///
/// # Safety
///
/// The word is mapped writable, aligned, and the caller's.
pub unsafe fn add_exclusive(address: u64) -> u64 {
    let before: u64;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "2: ldxr {before}, [{address}]",
            "add {after}, {before}, #1",
            "stxr {status:w}, {after}, [{address}]",
            "cbnz {status:w}, 2b",
            address = in(reg) address,
            before = out(reg) before,
            after = out(reg) _,
            status = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
    before
}

/// The same by LDADD.
///
/// # Safety
///
/// As for [`add_exclusive`], and [`has_atomics`].
pub unsafe fn add_atomic(address: u64) -> u64 {
    let before: u64;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            ".arch_extension lse",
            "ldadd {one}, {before}, [{address}]",
            address = in(reg) address,
            one = in(reg) 1u64,
            before = out(reg) before,
            options(nostack, preserves_flags),
        );
    }
    before
}

/// Clears the block that holds `address`, by DC ZVA.
///
/// # Safety
///
/// The block is mapped writable, as Normal memory, and the caller's; [`zeroed_bytes`] says how large it is.
pub unsafe fn zero_block(address: u64) {
    // SAFETY: the caller's promise.
    unsafe { asm!("dc zva, {}", in(reg) address, options(nostack, preserves_flags)) };
}

/// What [`zero_blocks`] clears: so many that its loop costs little, and no more than a small page has.
pub const BLOCKS_AT_ONCE: u64 = 64;

/// Clears [`BLOCKS_AT_ONCE`] blocks of `block_bytes` from `address` on, the first of them.
///
/// # Safety
///
/// As of [`zero_block`], of all of them.
pub unsafe fn zero_blocks(address: u64, block_bytes: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            ".rept {rounds}",
            "dc zva, {at}",
            "add {at}, {at}, {bytes}",
            ".endr",
            "dc zva, {at}",
            at = inout(reg) address => _,
            bytes = in(reg) block_bytes,
            rounds = const BLOCKS_AT_ONCE - 1,
            options(nostack, preserves_flags),
        );
    }
}

/// Reads 8 bytes by one load, aligned or not.
///
/// # Safety
///
/// They are mapped, as Normal memory.
pub unsafe fn read_unaligned(address: u64) -> u64 {
    let value: u64;
    // SAFETY: the caller's promise.
    unsafe { asm!("ldr {}, [{}]", out(reg) value, in(reg) address, options(nostack, preserves_flags, readonly)) };
    value
}
