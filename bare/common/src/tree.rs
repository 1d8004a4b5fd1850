//! The device tree that a loader has left, at an address that may be anything.

use core::slice;

use hardware::{cache, image};
use kerncore::devicetree;
use kerncore::range::PhysicalRange;
use vmsa::PhysAddr;

/// The boot protocol's limit.
const MOST_BYTES: u64 = 2 << 20;
/// Bits of an address that every first map can hold.
const ADDRESS_BITS: u32 = 48;

/// Where the image is, while it runs at its physical address.
pub fn image_range() -> PhysicalRange {
    let image = image::whole();
    PhysicalRange::new(PhysAddr::new(image.start), PhysAddr::new(image.end))
}

/// The device tree at an address that may be anything; `None` if there is none that could be. The MMU is off. `read` reads 8
/// bytes, or finds that nothing answers.
pub fn find(address: u64, read: impl FnOnce(u64) -> Option<u64>) -> Option<PhysicalRange> {
    if address == 0 || !address.is_multiple_of(8) || address >> ADDRESS_BITS != 0 {
        return None;
    }
    // The boot protocol has the image cleaned to memory, not the device tree: a loader may have left it in a cache,
    // which this read looks past.
    cache::clean(address as usize..address as usize + 8);
    let bytes = devicetree::claimed_size_bytes(&read(address)?.to_le_bytes()).ok()?.into();
    let range = PhysicalRange::from_size(PhysAddr::new(address), bytes);
    (bytes <= MOST_BYTES && !range.overlaps(&image_range())).then_some(range)
}

/// The bytes of a device tree that [`find`] has found; none where there are 0.
///
/// # Safety
///
/// It is mapped for reading at its physical address, and nobody writes it while it is borrowed.
pub unsafe fn blob(address: u64, bytes: u64) -> &'static [u8] {
    match bytes {
        0 => &[],
        // SAFETY: the caller's promise.
        bytes => unsafe { slice::from_raw_parts(address as *const u8, bytes as usize) },
    }
}
