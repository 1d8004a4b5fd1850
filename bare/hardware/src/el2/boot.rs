//! From the entry code to Rust, and the registers of EL2's own translation.

use core::cell::UnsafeCell;

/// What the entry code found, and what it is to turn on.
#[repr(C)]
pub struct Boot {
    /// The physical address in x0 at entry: the device tree, if the loader keeps to the boot protocol.
    pub device_tree: u64,
    /// The exception level of entry: 2, or the monitor cannot run.
    pub exception_level: u64,
    /// The physical address the image was loaded at, where it stays.
    pub load_address: u64,
    /// Written by `build_monitor_map`: bytes of the device tree that are mapped, 0 if there is none.
    pub device_tree_bytes: u64,
    /// Written by `build_monitor_map`: the first of the image's early tables that it did not use.
    pub early_tables_left: u64,
    /// Written by `build_monitor_map`: what the entry code turns on, on this CPU and later on others.
    pub translation: Translation,
}

/// The registers that make up EL2's translation (HCR_EL2.E2H = 0).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translation {
    /// MAIR_EL2.
    pub mair: u64,
    /// TCR_EL2.
    pub tcr: u64,
    /// TTBR0_EL2.
    pub ttbr0: u64,
    /// SCTLR_EL2.
    pub sctlr: u64,
}

impl Translation {
    /// All zeros.
    pub const NONE: Self = Self { mair: 0, tcr: 0, ttbr0: 0, sctlr: 0 };
}

/// SCTLR_EL2 with the MMU on: the RES1 bits of Armv8.0, and M, C, I, SA, and WXN, for no page is both.
pub const SCTLR_MMU_ON: u64 = 0x30c5_0830 | 1 << 19 | 1 << 12 | 1 << 3 | 1 << 2 | 1;

#[repr(transparent)]
struct Record(UnsafeCell<Boot>);

// SAFETY: the entry code hands it to one function at a time, before any other CPU runs.
unsafe impl Sync for Record {}

#[unsafe(export_name = "monitor_boot_record")]
static BOOT_RECORD: Record = Record(UnsafeCell::new(Boot {
    device_tree: 0,
    exception_level: 0,
    load_address: 0,
    device_tree_bytes: 0,
    early_tables_left: 0,
    translation: Translation::NONE,
}));

/// Hands the monitor's functions to the assembly and the vectors.
///
/// `build_map` runs with the MMU off and fills [`Boot::translation`]; `main` runs in that map on the first CPU,
/// `secondary` on every other one, with its number; `handle_exit` answers the guest, `report_own` ends the machine.
#[macro_export]
macro_rules! monitor_entry_points {
    (
        build_map: $build:path,
        main: $main:path,
        secondary: $secondary:path,
        handle_exit: $exit:path,
        report_own: $report:path $(,)?
    ) => {
        const _: () = {
            #[unsafe(no_mangle)]
            extern "C" fn build_monitor_map(boot: &mut $crate::el2::boot::Boot) {
                let build: fn(&mut $crate::el2::boot::Boot) = $build;
                build(boot);
            }
            #[unsafe(no_mangle)]
            extern "C" fn monitor_main(boot: &$crate::el2::boot::Boot) -> ! {
                let main: fn(&$crate::el2::boot::Boot) -> ! = $main;
                main(boot)
            }
            #[unsafe(no_mangle)]
            extern "C" fn monitor_secondary(index: usize) -> ! {
                let secondary: fn(usize) -> ! = $secondary;
                secondary(index)
            }
            #[unsafe(no_mangle)]
            extern "C" fn handle_guest_exit(exit: &mut $crate::el2::exit::Exit) {
                let handle: fn(&mut $crate::el2::exit::Exit) = $exit;
                handle(exit);
            }
            #[unsafe(no_mangle)]
            extern "C" fn report_own_exception(exception: &$crate::el2::exit::OwnException) -> ! {
                let report: fn(&$crate::el2::exit::OwnException) -> ! = $report;
                report(exception)
            }
        };
    };
}
