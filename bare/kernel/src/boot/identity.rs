//! The first identity map, made with the MMU off: the image and the device tree, and nothing else.
//!
//! Everything here runs on Device memory: no lock, no compare-and-exchange, no formatting but in a dying machine. The
//! entry code drops what the caches hold of the tables before it turns the MMU on.

use core::ops::Range;

use common::supply::Bump;
use common::tree;
use hardware::boot::Boot;
use hardware::platform::Hardware;
use hardware::{image, probe, registers};
use kerncore::choice::default_page_size;
use kerncore::range::PhysicalRange;
use vmsa::{AddressHalf, Layout, PageSize, PhysAddr, VirtAddr};

use crate::console;
use crate::memory::devices::whole_pages;
use crate::memory::tables::{AnyTable, CAUTIOUS, DEVICE, EXECUTABLE, LOWER_BITS, READ_ONLY, READ_WRITE, Shape, map};

/// The shape of the first identity map.
pub(super) fn early_shape(page_size: PageSize) -> Shape {
    Shape { page_size, lower_bits: LOWER_BITS, upper_bits: LOWER_BITS, layout: Layout::Bits48 }
}

/// Makes the map that the entry code will turn on.
pub(crate) fn build_identity_map(boot: &mut Boot) {
    let cpu = registers::read_id_registers();
    let page_size = default_page_size(&cpu);
    let device_tree = find_device_tree(boot);
    let mut tables = Bump::new(image::early_tables(), page_size);
    // SAFETY: the MMU is off, so physical addresses are what is accessed; the tables come from memory that is there for
    // them.
    let hardware = unsafe { Hardware::new(0) };
    // Read-only data holds addresses that are written once more on the way to the high half.
    let image = [
        (image::text(), EXECUTABLE),
        (image::rodata(), READ_WRITE),
        (image::data(), READ_WRITE),
        (image::above_guard().start..image::early_tables().end, READ_WRITE),
    ];
    // For last words, should something go wrong before the device tree has told where to say them.
    let guess = PhysicalRange::from_size(PhysAddr::new(common::console::FALLBACK), page_size.size_bytes());
    let blob = device_tree.map(|range| (pages(range, page_size), READ_ONLY));
    let is_free = |range: &PhysicalRange| {
        let is_tree = |tree: PhysicalRange| whole_pages(tree, page_size).overlaps(range);
        !tree::image_range().overlaps(range) && !device_tree.is_some_and(is_tree)
    };
    let guess = Some(guess).filter(is_free).map(|range| (pages(range, page_size), DEVICE));
    console::set_guess_mapped(guess.is_some());
    let parts = image.into_iter().chain(blob).chain(guess).filter(|(range, _)| !range.is_empty());
    let mut changes = parts.map(|(range, attributes)| map(range.clone(), range.start, attributes));
    let shape = early_shape(page_size);
    match AnyTable::build(hardware, shape, AddressHalf::Lower, CAUTIOUS, &mut changes, &mut tables) {
        Ok(identity) => boot.translation = shape.translation(&cpu, identity.root(), None),
        Err(error) => panic!("identity map of {:#x?}: {error}", image::whole()),
    }
    boot.device_tree_bytes = device_tree.map_or(0, |range| range.size_bytes());
    boot.early_tables_left = tables.rest().start;
}

fn pages(range: PhysicalRange, page_size: PageSize) -> Range<u64> {
    let pages = whole_pages(range, page_size);
    pages.start.bits()..pages.end.bits()
}

/// The device tree that the loader tells of, if one is there.
fn find_device_tree(boot: &Boot) -> Option<PhysicalRange> {
    // SAFETY: with the MMU off a read of 8 bytes of RAM has no side effect, and of nothing faults. A loader that points
    // to a device breaks the boot protocol.
    tree::find(boot.device_tree, |address| unsafe { probe::read(VirtAddr::new(address)) }.ok())
}
