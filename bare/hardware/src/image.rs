//! The kernel's image, by the linker script's symbols. Addresses are those of the map that runs: physical before the
//! high half, high afterwards.

use core::ops::Range;
use core::ptr;

/// The address that `symbol` has where the program counter is now.
macro_rules! address_of {
    ($symbol:ident) => {{
        unsafe extern "C" {
            static $symbol: u8;
        }
        // SAFETY: the linker script defines the symbol; only its address is taken.
        ptr::addr_of!($symbol) as u64
    }};
}

macro_rules! ranges {
    ($($(#[$doc:meta])* $function:ident = $start:ident..$end:ident;)*) => {
        $($(#[$doc])*
        pub fn $function() -> Range<u64> {
            address_of!($start)..address_of!($end)
        })*
    };
}

ranges! {
    /// All of the image, with bss and the boot stacks.
    whole = image_start..image_end;
    /// The first part of the text: what runs at its physical address.
    identity_text = image_start..identity_end;
    /// The vectors, and the way into exceptions and out of them.
    vectors = identity_end..vectors_end;
    /// Everything that is executed.
    text = image_start..text_end;
    /// Read-only data, with the addresses in it that relocation writes.
    rodata = rodata_start..rodata_end;
    /// Data and bss below the boot guard: all of the kernel's.
    data = data_start..boot_guard_start;
    /// What early boot alone needs: free once the high half is reached.
    early = boot_guard_start..image_end;
    /// What no map holds, so that a boot stack that runs out faults.
    boot_guard = boot_guard_start..boot_guard_end;
    /// The boot stacks, and of the monitor what else is bss.
    above_guard = boot_guard_end..early_tables_start;
    /// Room for the tables of the first identity map: not cleared.
    early_tables = early_tables_start..image_end;
    /// What relocation reads, twice: in read-only data.
    relocations = relocations_start..relocations_end;
}

/// The address the image was linked for: where it runs in the high half.
pub fn link_address() -> u64 {
    unsafe extern "C" {
        #[link_name = "link_address"]
        static LINK_ADDRESS: u64;
    }
    // SAFETY: `relocate.s` defines it, as a constant.
    unsafe { LINK_ADDRESS }
}

/// Where an address of the running image (a function's, a static's) is in the high half.
pub fn high_address(address: u64) -> u64 {
    address - whole().start + link_address()
}
