//! How large the boot CPU's first stacks are. Those of the high half are the kernel's.

/// Bytes of the boot CPU's stack until the high half.
pub const BOOT_BYTES: usize = 64 << 10;
/// Bytes of its exception stack until then.
pub const BOOT_EXCEPTION_BYTES: usize = 8 << 10;
/// Bytes of its emergency stack until then.
pub const BOOT_EMERGENCY_BYTES: usize = 4 << 10;
