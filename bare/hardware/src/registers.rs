//! System registers, by function. Reads are safe; what a write can break is told by who writes.

use vmsa::IdRegisters;

/// The value of a system register, by the assembler's name.
macro_rules! read_register {
    ($name:expr) => {{
        let value: u64;
        // SAFETY: reading this register has no effect on the machine.
        unsafe {
            core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nomem, nostack, preserves_flags))
        };
        value
    }};
}
pub(crate) use read_register;

macro_rules! readers {
    ($($(#[$doc:meta])* $function:ident = $name:literal;)*) => {
        $($(#[$doc])*
        pub fn $function() -> u64 {
            read_register!($name)
        })*
    };
}

readers! {
    /// MIDR_EL1: which CPU it is.
    read_midr = "midr_el1";
    /// SCTLR_EL1.
    read_sctlr = "sctlr_el1";
    /// TCR_EL1.
    read_tcr = "tcr_el1";
    /// MAIR_EL1.
    read_mair = "mair_el1";
    /// TTBR0_EL1.
    read_ttbr0 = "ttbr0_el1";
    /// TTBR1_EL1.
    read_ttbr1 = "ttbr1_el1";
}

/// MPIDR_EL1's affinity fields, as the device tree and PSCI name a CPU.
pub fn read_affinity() -> u64 {
    read_register!("mpidr_el1") & 0x0000_00ff_00ff_ffff
}

/// The ID registers that decide how page tables may look.
pub fn read_id_registers() -> IdRegisters {
    IdRegisters {
        pfr0: read_register!("id_aa64pfr0_el1"),
        isar0: read_register!("id_aa64isar0_el1"),
        isar1: read_register!("id_aa64isar1_el1"),
        mmfr0: read_register!("id_aa64mmfr0_el1"),
        mmfr1: read_register!("id_aa64mmfr1_el1"),
        // Its name is younger than some assemblers.
        mmfr2: read_register!("S3_0_C0_C7_2"),
    }
}
