//! The monitor's own map: EL2's stage 1, every address at itself.
//!
//! ```text
//! text       read-only, executable          │ tables of both page tables   read-write
//! constants  read-only                      │ UART                         device
//! data       read-write                     │ device tree, guest's header  until the guest runs
//! stacks     read-write, a gap below each   │ window  pages of a realm's, while it is answered
//! ```

use core::ops::Range;
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering};

use common::supply::{Bump, ChangeError};
use hardware::el2::boot::{Boot, SCTLR_MMU_ON, Translation};
use hardware::el2::stack;
use hardware::lock::Lock;
use hardware::{cache, image, registers};
use kerncore::range::PhysicalRange;
use pagetable::{Change, El2, HardwareUpdates, Reserve};
use vmsa::registers::{El2Control, MemoryTypes, encode_ttbr};
use vmsa::{AddressHalf, Geometry, Granule4K, Layout, LeafSize, PageSize, PhysAddr, Stage1Attributes, VirtAddr};

use crate::tables::{self, HARDWARE, PAGE_BYTES, Table};

/// Other CPUs, of which nothing is known, walk the same tables.
const REGIME: El2 = El2 { tlb: common::ANY_CPU, hardware_updates: HardwareUpdates::None };

/// AttrIndx of Normal and of Device-nGnRE memory in [`MemoryTypes::WITHOUT_TAGS`].
const NORMAL_INDEX: u8 = 0;
const DEVICE_INDEX: u8 = 4;

const COMMON: Stage1Attributes =
    Stage1Attributes::INNER_SHAREABLE.union(Stage1Attributes::AF).union(Stage1Attributes::ONE_PRIVILEGE);
const NORMAL: Stage1Attributes = Stage1Attributes::memory(NORMAL_INDEX).union(COMMON);
const EXECUTABLE: Stage1Attributes = NORMAL.union(Stage1Attributes::READ_ONLY);
/// Constants.
pub(crate) const READ_ONLY: Stage1Attributes = EXECUTABLE.union(Stage1Attributes::XN);
/// Data.
pub(crate) const READ_WRITE: Stage1Attributes = NORMAL.union(Stage1Attributes::XN);
/// Device registers.
pub(crate) const DEVICE: Stage1Attributes =
    Stage1Attributes::memory(DEVICE_INDEX).union(COMMON).union(Stage1Attributes::XN);

/// Bits of an address that the map can hold.
const INPUT_BITS: u32 = 48;

/// The map once the MMU is on, edited under this lock.
static MAP: Lock<Option<(PhysAddr, Bump)>> = Lock::new(None);

fn geometry() -> Geometry<Granule4K> {
    Geometry::new(INPUT_BITS, Layout::Bits48, AddressHalf::Lower).expect("4 KiB pages have 48 bits")
}

fn mapped(range: Range<u64>, attributes: Stage1Attributes) -> Change<El2> {
    let to = PhysAddr::new(range.start);
    let from = VirtAddr::new(range.start)..VirtAddr::new(range.end);
    Change::Map { from, to, attributes, largest: LeafSize::LARGEST }
}

/// The whole pages that `range` has a part of.
pub(crate) fn pages(range: Range<u64>) -> Range<u64> {
    range.start & !(PAGE_BYTES - 1)..range.end.next_multiple_of(PAGE_BYTES)
}

/// Makes the map that the entry code turns on: the image, and `more`. The MMU is off.
pub(crate) fn build(boot: &mut Boot, more: &[(Range<u64>, Stage1Attributes)]) -> Result<(), ChangeError> {
    let mut pool = tables::pool(image::early_tables());
    let mut reserve = Reserve::new();
    reserve.add(&HARDWARE, pool.take_bytes(PAGE_BYTES, PAGE_BYTES)?);
    let mut table = Table::offline(&HARDWARE, geometry(), REGIME, &mut reserve)?;
    let mut gather = table.gather();
    let image = [
        (image::text(), EXECUTABLE),
        (image::rodata(), READ_ONLY),
        (image::data(), READ_WRITE),
        (image::above_guard().start..image::early_tables().end, READ_WRITE),
    ];
    let stacks = (0..stack::CPUS).map(|cpu| (stack::range(cpu), READ_WRITE));
    for (range, attributes) in image.into_iter().chain(stacks).chain(more.iter().cloned()) {
        tables::change(&mut table, mapped(range, attributes), &mut gather, &mut pool)?;
    }
    // Nothing was live, so nothing comes free.
    let retired = gather.finish(&HARDWARE);
    debug_assert_eq!(retired.count(), 0);
    let root = table.publish().root();
    let control = El2Control {
        input_bits: INPUT_BITS,
        page_size: PageSize::Size4K,
        // PS above what 48-bit descriptors hold is reserved, and above what the CPU has too.
        output_range: registers::read_id_registers().physical_range().min(5),
        sets_access_flag: false,
        manages_dirty_state: false,
        is_lpa2: false,
    };
    boot.translation = Translation {
        mair: MemoryTypes::WITHOUT_TAGS.0,
        tcr: control.encode(),
        ttbr0: encode_ttbr(Layout::Bits48, root, 0, false),
        sctlr: SCTLR_MMU_ON,
    };
    boot.early_tables_left = pool.rest().start;
    Ok(())
}

/// Takes the map over from the entry code, which has turned it on.
pub(crate) fn start(boot: &Boot) {
    let root = vmsa::registers::decode_ttbr(Layout::Bits48, boot.translation.ttbr0);
    let pool = tables::pool(boot.early_tables_left..image::early_tables().end);
    MAP.with(|map| *map = Some((root, pool)));
}

fn edit(change: Change<El2>) -> Result<(), ChangeError> {
    MAP.with(|map| {
        let (root, pool) = map.as_mut().expect("the map is started before it is edited");
        let mut table = Table::live(&HARDWARE, geometry(), REGIME, *root)?;
        let mut gather = table.gather();
        let changed = tables::change(&mut table, change, &mut gather, pool);
        // Tables that come free stay unused: what is mapped for a while is little.
        let _unused = gather.finish(&HARDWARE);
        changed
    })
}

/// Maps whole pages that are not mapped.
pub(crate) fn add(range: Range<u64>, attributes: Stage1Attributes) -> Result<(), ChangeError> {
    edit(mapped(range, attributes))
}

/// Takes whole pages out of the map.
///
/// # Safety
///
/// Nothing holds a reference into them, and no CPU's monitor uses them.
pub(crate) unsafe fn remove(range: Range<u64>) -> Result<(), ChangeError> {
    edit(Change::Unmap { from: VirtAddr::new(range.start)..VirtAddr::new(range.end) })
}

/// Pages that the window can show at a time: half of what a table maps, so that its table stays when they go.
pub(crate) const WINDOW_PAGES: u64 = 256;
/// Where the window is: in the last 2 MiB that the map can hold, where no memory is that it maps at itself.
const WINDOW: u64 = (1 << INPUT_BITS) - (2 << 20);

/// Pages of the guest's in the monitor's map. The guest may be writing them.
pub(crate) struct Window<'w>(&'w [AtomicU64]);

impl Window<'_> {
    /// The word at `index`.
    pub(crate) fn read(&self, index: usize) -> u64 {
        self.0[index].load(Ordering::Relaxed)
    }

    pub(crate) fn write(&self, index: usize, word: u64) {
        self.0[index].store(word, Ordering::Relaxed);
    }

    pub(crate) fn fill(&self, word: u64) {
        self.0.iter().for_each(|place| place.store(word, Ordering::Relaxed));
    }
}

/// Runs `body` with pages of the guest's, [`WINDOW_PAGES`] at most. One caller at a time, who sees that they are the guest's.
pub(crate) fn with_window<R>(pages: PhysicalRange, body: impl FnOnce(&Window) -> R) -> Result<R, ChangeError> {
    let bytes = pages.size_bytes();
    assert!(bytes <= WINDOW_PAGES * PAGE_BYTES);
    let from = VirtAddr::new(WINDOW)..VirtAddr::new(WINDOW + bytes);
    edit(Change::Map { from: from.clone(), to: pages.start, attributes: READ_WRITE, largest: LeafSize::PAGE })?;
    let lines = WINDOW as usize..(WINDOW + bytes) as usize;
    // A guest may have written past the caches, where a clean line would hide it.
    cache::clean_and_invalidate(lines.clone());
    // SAFETY: mapped just now, of the guest's memory, to which the monitor has no other way; what the guest does there
    // meanwhile is to atomic words. The borrow ends before the pages go.
    let words = unsafe { slice::from_raw_parts(WINDOW as *const AtomicU64, (bytes / 8) as usize) };
    let result = body(&Window(words));
    // It may read past the caches, too.
    cache::clean_and_invalidate(lines);
    edit(Change::Unmap { from })?;
    Ok(result)
}
