//! From the entry code to Rust, and from the identity map to the high half.

use core::cell::UnsafeCell;

use crate::translation::Translation;

/// What the entry code found, and what it is to turn on.
#[repr(C)]
pub struct Boot {
    /// The physical address in x0 at entry: the device tree, if the loader keeps to the boot protocol.
    pub device_tree: u64,
    /// The exception level of entry, 1 or 2.
    pub exception_level: u64,
    /// CNTVCT_EL0 near entry.
    pub counter: u64,
    /// The physical address the image was loaded at.
    pub load_address: u64,
    /// Written by `build_identity_map`: bytes of the device tree that are mapped, 0 if there is none.
    pub device_tree_bytes: u64,
    /// Written by `build_identity_map`: what of the image's early tables it did not use.
    pub early_tables_left: u64,
    /// Written by `build_identity_map`: what the entry code turns on.
    pub translation: Translation,
}

#[repr(transparent)]
struct Record(UnsafeCell<Boot>);

// SAFETY: the entry code hands it to one function at a time, before any other CPU runs.
unsafe impl Sync for Record {}

#[unsafe(export_name = "boot_record")]
static BOOT_RECORD: Record = Record(UnsafeCell::new(Boot {
    device_tree: 0,
    exception_level: 0,
    counter: 0,
    load_address: 0,
    device_tree_bytes: 0,
    early_tables_left: 0,
    translation: Translation::NONE,
}));

/// Where [`leave_identity_map`] goes.
#[derive(Clone, Copy)]
pub struct Destination {
    /// The high address of the function.
    pub entry: extern "C" fn(u64) -> !,
    /// Its argument.
    pub argument: u64,
    /// The high address of the end of its stack.
    pub stack: u64,
    /// The high address of the end of its exception stack.
    pub exception_stack: u64,
}

unsafe extern "C" {
    #[link_name = "leave_identity_map"]
    fn leave_identity_map_raw(
        translation: *const Translation,
        entry: u64,
        argument: u64,
        stack: u64,
        exception_stack: u64,
        image: u64,
    ) -> !;
}

/// Switches to `translation`, relocates the image for its link address and goes to the high half.
///
/// # Safety
///
/// This CPU runs in the identity map, alone. `translation` maps the image at its link address, its identity text at its
/// physical address, and both stacks. Nothing that is used afterwards holds an address of the identity map.
pub unsafe fn leave_identity_map(translation: &Translation, destination: Destination) -> ! {
    let entry = crate::image::high_address(destination.entry as usize as u64);
    let Destination { argument, stack, exception_stack, .. } = destination;
    let image = crate::image::link_address();
    // SAFETY: the caller's promise.
    unsafe { leave_identity_map_raw(translation, entry, argument, stack, exception_stack, image) }
}

/// Hands the kernel's functions to the assembly and the vectors.
///
/// `build_identity_map` runs with the MMU off and fills [`Boot::translation`]; `identity_main` runs in that map; both
/// run at physical addresses, on the boot stack. `handle_interrupt` and `report_exception` run on an exception stack.
#[macro_export]
macro_rules! entry_points {
    (
        build_identity_map: $build:path,
        identity_main: $main:path,
        handle_interrupt: $interrupt:path,
        report_exception: $report:path $(,)?
    ) => {
        const _: () = {
            #[unsafe(no_mangle)]
            extern "C" fn build_identity_map(boot: &mut $crate::boot::Boot) {
                let build: fn(&mut $crate::boot::Boot) = $build;
                build(boot);
            }
            #[unsafe(no_mangle)]
            extern "C" fn identity_main(boot: &$crate::boot::Boot) -> ! {
                let main: fn(&$crate::boot::Boot) -> ! = $main;
                main(boot)
            }
            #[unsafe(no_mangle)]
            extern "C" fn handle_interrupt() {
                let handle: fn() = $interrupt;
                handle();
            }
            #[unsafe(no_mangle)]
            extern "C" fn report_exception(exception: &$crate::exception::Exception) -> ! {
                let report: fn(&$crate::exception::Exception) -> ! = $report;
                report(exception)
            }
        };
    };
}
