//! What is put into the guest's memory, and looked up there, before it runs.

use core::slice;

use common::supply::ChangeError;
use hardware::cache;
use hardware::el2::probe;
use hardware::lock::Lock;
use kerncore::devicetree::{self, CopyError, Edits, MachineDescription};
use kerncore::range::PhysicalRange;
use moncore::options::{self, Options};
use vmsa::PhysAddr;

use crate::map::{self, pages};
use crate::memory::{GuestMemory, Summary};
use crate::problem::NotStarted;

/// A guest that can be entered, as plain values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guest {
    /// The physical address of its first instruction.
    pub(crate) entry: PhysAddr,
    /// Where its device tree goes: where the machine's was.
    pub(crate) tree: PhysicalRange,
    pub(crate) memory: Summary,
}

/// Offsets in the header of an Image, in bytes, and its length (the arm64 boot protocol).
const TEXT_OFFSET: usize = 8;
const IMAGE_SIZE: usize = 16;
const MAGIC: usize = 56;
const HEADER_BYTES: usize = 64;

/// Finds the guest's Image where the command line says it is.
pub(crate) fn find(options: &Options) -> Result<PhysicalRange, NotStarted> {
    let start = options.guest.expect("options without a guest are refused");
    let failed = |error| NotStarted::Tables("the monitor's map", error);
    let page = pages(start.bits()..start.bits() + HEADER_BYTES as u64);
    map::add(page.clone(), map::READ_ONLY).map_err(failed)?;
    // SAFETY: just mapped, and memory if it is what it is said to be. A person who names a device has it read.
    let words: [Option<u64>; HEADER_BYTES / 8] =
        core::array::from_fn(|word| unsafe { probe::read(start.bits() + 8 * word as u64) });
    // SAFETY: the header was copied.
    unsafe { map::remove(page) }.map_err(failed)?;
    if words.contains(&None) {
        return Err(NotStarted::Image("nothing is there, expected an arm64 Image", start));
    }
    let number = |at: usize| words[at / 8].unwrap_or_default();
    if number(MAGIC) as u32 != u32::from_le_bytes(*b"ARM\x64") {
        return Err(NotStarted::Image("no arm64 Image is there", start));
    }
    if number(TEXT_OFFSET) != 0 {
        return Err(NotStarted::Image("its text_offset is not 0, expected an Image for any 2 MiB boundary", start));
    }
    match number(IMAGE_SIZE) {
        0 => Err(NotStarted::Image("its image_size is 0, expected the memory it takes", start)),
        size => Ok(PhysicalRange::from_size(start, size)),
    }
}

/// Bytes that a device tree may have: QEMU's for 8 CPUs has 9 KiB.
const TREE_BYTES: usize = 64 << 10;

/// The guest's device tree, until it is put into the guest's memory.
static TREE: Lock<([u8; TREE_BYTES], usize)> = Lock::new(([0; TREE_BYTES], 0));

/// Makes the guest's device tree from the machine's: without the monitor's memory and without its words.
pub(crate) fn write_tree(
    blob: &'static [u8],
    machine: &MachineDescription,
    memory: &GuestMemory,
) -> Result<(), NotStarted> {
    let edits = Edits { bootargs: options::guest_part(machine.bootargs), hidden: memory.hidden };
    TREE.with(|(bytes, length)| {
        *length = devicetree::copy(blob, &edits, bytes).map_err(NotStarted::Tree)?;
        // It goes where the machine's was, and nobody has said what lies behind that.
        if *length > blob.len() {
            return Err(NotStarted::Tree(CopyError::NoRoom(blob.len())));
        }
        Ok(())
    })
}

/// Puts the guest's device tree where the machine's was, and takes that out of the monitor's map.
///
/// # Safety
///
/// The map holds the machine's device tree, and nothing borrows from it any more.
pub(crate) unsafe fn hand_over_tree(guest: &Guest) -> Result<(), NotStarted> {
    let failed = |error: ChangeError| NotStarted::Tables("the monitor's map", error);
    let range = guest.tree.start.bits()..guest.tree.end.bits();
    let page_range = pages(range.clone());
    // SAFETY: the caller's promise.
    unsafe { map::remove(page_range.clone()) }.map_err(failed)?;
    map::add(page_range.clone(), map::READ_WRITE).map_err(failed)?;
    TREE.with(|(bytes, length)| {
        // SAFETY: mapped just now, as long as the machine's tree, which is no shorter; the guest does not run yet.
        let to = unsafe { slice::from_raw_parts_mut(range.start as *mut u8, *length) };
        to.copy_from_slice(&bytes[..*length]);
        // The guest reads it with its MMU off, past the caches.
        cache::clean(range.start as usize..range.start as usize + *length);
    });
    // SAFETY: the borrow above has ended.
    unsafe { map::remove(page_range) }.map_err(failed)
}
