//! Where things are in the high half. All of it but the linear map lies in the last 32 GiB, which every number of input
//! bits from 36 has, so these addresses are the same in every boot.
//!
//! ```text
//! 2^64 - 2^N    the linear map: half of the input space, whatever its width N
//! -32 GiB       what is together in virtual addresses alone
//! -2 GiB        the image, at its link address; above it stacks and devices, within 512 MiB, so that 64 KiB pages need
//!               one table for all of them
//! -1.5 GiB      the self-checks' own range, on a boundary of every block that fits, and with 4 KiB pages in the image's
//!               own level 2 table
//! ```

use core::ops::Range;

use vmsa::VirtAddr;

/// See [`crate::memory::vmalloc`].
pub(crate) const VMALLOC: Range<u64> = 0xffff_fff8_0000_0000..0xffff_ffff_0000_0000;
/// Text that comes at run time, from which a branch reaches the image, and back: see [`crate::memory::executable`].
pub(crate) const CODE: Range<u64> = 0xffff_ffff_8400_0000..0xffff_ffff_8800_0000;
/// The stacks: see [`crate::cpus::stacks`].
pub(crate) const STACKS: Range<u64> = 0xffff_ffff_8800_0000..0xffff_ffff_8c00_0000;
/// Device registers: see [`crate::memory::devices`].
pub(crate) const DEVICES: Range<u64> = 0xffff_ffff_8c00_0000..0xffff_ffff_9000_0000;
/// The stacks of threads: see [`crate::process::stacks`].
pub(crate) const THREADS: Range<u64> = 0xffff_ffff_9000_0000..0xffff_ffff_a000_0000;
/// What the self-checks map. At most a block of the 64 KiB granule.
pub(crate) const CHECKS: Range<u64> = 0xffff_ffff_a000_0000..0xffff_ffff_c000_0000;

/// The part of the high half that is not the linear map, in words.
pub(crate) fn name(address: VirtAddr) -> Option<&'static str> {
    let address = address.bits();
    let image = hardware::image::link_address();
    let places = [
        (VMALLOC, "an area of virtual addresses, or its guard"),
        (image..CODE.start, "image"),
        (CODE, "text that came at run time, or room for it"),
        (STACKS, "stacks"),
        (DEVICES, "devices"),
        (THREADS, "stacks of threads, and their guards"),
        (CHECKS, "self-checks"),
    ];
    places.into_iter().find(|(range, _)| range.contains(&address)).map(|(_, name)| name)
}
