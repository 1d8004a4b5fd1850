//! The translations that the kernel switches between, made by the engine as the kernel makes them: the first identity map
//! with the lower half alone, and the kernel's own map with both halves.

use std::cell::Cell;
use std::collections::BTreeSet;

use pagetable::{Change, El1, HardwareUpdates, Memory, PageTable, Refusal, Reserve, Scope, TlbFeatures};
use vmsa::registers::{MemoryTypes, TranslationControl, encode_ttbr};
use vmsa::{
    AddressHalf, Geometry, Granule, Granule4K, Granule16K, Granule64K, Layout, LeafSize, PageSize, PhysAddr,
    Stage1Attributes, VirtAddr,
};

use crate::kernel::{Kernel, LOAD};

/// RAM, tables included.
pub const RAM: std::ops::Range<u64> = 0x4000_0000..0xc000_0000;
/// The console.
pub const UART: u64 = 0x0900_0000;
/// The page of the board, which the lower half of the kernel's maps has, too.
pub const BOARD: u64 = 0x5000_0000;
/// Input bits of the lower half, as in the kernel.
const LOWER_BITS: u32 = 48;
/// SCTLR_EL1 with the MMU on: RES1 bits, M, C, I, SA.
pub const SCTLR_MMU_ON: u64 = SCTLR_MMU_OFF | 1 << 12 | 1 << 3 | 1 << 2 | 1;
/// SCTLR_EL1 with the MMU off: the RES1 bits of Armv8.0.
pub const SCTLR_MMU_OFF: u64 = 0x30d0_0800;

const NORMAL: Stage1Attributes =
    Stage1Attributes::memory(0).union(Stage1Attributes::INNER_SHAREABLE).union(Stage1Attributes::AF);
const EXECUTABLE: Stage1Attributes = NORMAL.union(Stage1Attributes::READ_ONLY).union(Stage1Attributes::UXN);
const READ_ONLY: Stage1Attributes = NORMAL.union(Stage1Attributes::READ_ONLY).union(Stage1Attributes::NO_EXECUTE);
const READ_WRITE: Stage1Attributes = NORMAL.union(Stage1Attributes::NO_EXECUTE);
const DEVICE: Stage1Attributes = Stage1Attributes::memory(4)
    .union(Stage1Attributes::INNER_SHAREABLE)
    .union(Stage1Attributes::AF)
    .union(Stage1Attributes::NO_EXECUTE);

/// Page size, layout, bits of the upper half; 0 bits for the first identity map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    /// Granule of both halves.
    pub page_size: PageSize,
    /// Where descriptors keep output-address bits above 47.
    pub layout: Layout,
    /// Bits of the upper half; 0 if it is off.
    pub upper_bits: u32,
}

const fn shape(page_size: PageSize, layout: Layout, upper_bits: u32) -> Shape {
    Shape { page_size, layout, upper_bits }
}

/// The first identity maps, which know neither width nor layout.
pub const EARLY: [Shape; 3] = [
    shape(PageSize::Size4K, Layout::Bits48, 0),
    shape(PageSize::Size16K, Layout::Bits48, 0),
    shape(PageSize::Size64K, Layout::Bits48, 0),
];

/// The kernel's maps: for each page size the widths at which the start level changes, and the wide layouts.
pub const CHOSEN: [Shape; 11] = [
    shape(PageSize::Size4K, Layout::Bits48, 36),
    shape(PageSize::Size4K, Layout::Bits48, 39),
    shape(PageSize::Size4K, Layout::Bits48, 48),
    shape(PageSize::Size4K, Layout::Lpa2, 52),
    shape(PageSize::Size16K, Layout::Bits48, 36),
    shape(PageSize::Size16K, Layout::Bits48, 47),
    shape(PageSize::Size16K, Layout::Bits48, 48),
    shape(PageSize::Size16K, Layout::Lpa2, 52),
    shape(PageSize::Size64K, Layout::Bits48, 42),
    shape(PageSize::Size64K, Layout::Bits48, 48),
    shape(PageSize::Size64K, Layout::Lpa, 52),
];

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let layout = match self.layout {
            Layout::Bits48 => "",
            Layout::Lpa => " LPA",
            Layout::Lpa2 => " LPA2",
        };
        match self.upper_bits {
            0 => write!(f, "{}K early", self.page_size.size_bytes() >> 10),
            bits => write!(f, "{}K {bits}{layout}", self.page_size.size_bytes() >> 10),
        }
    }
}

/// Where page tables are built, and where the next one goes.
#[derive(Debug)]
pub struct Tables {
    /// Descriptors.
    pub memory: Memory,
    next: Cell<u64>,
}

impl Tables {
    /// Tables from a physical address on.
    pub fn new(first: u64) -> Self {
        Self { memory: Memory::new(), next: Cell::new(first) }
    }

    fn supply<G: Granule>(&self, reserve: &mut Reserve, count: usize) {
        for _ in 0..count {
            let table = self.next.get().next_multiple_of(G::SIZE_BYTES);
            self.next.set(table + G::SIZE_BYTES);
            reserve.add(&self.memory, PhysAddr::new(table));
        }
    }
}

/// What `switch_translation` loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translation {
    /// MAIR_EL1, TCR_EL1, TTBR0_EL1, TTBR1_EL1, SCTLR_EL1: x0 to x4, and five words of the structure in memory.
    pub registers: [u64; 5],
}

impl Shape {
    /// Builds the map of this shape. Errors: what the engine refuses.
    pub fn build(self, kernel: &Kernel, tables: &Tables) -> Result<Translation, String> {
        let built = match self.page_size {
            PageSize::Size4K => self.build_as::<Granule4K>(kernel, tables),
            PageSize::Size16K => self.build_as::<Granule16K>(kernel, tables),
            PageSize::Size64K => self.build_as::<Granule64K>(kernel, tables),
        };
        let (lower, upper) = built?;
        let control = TranslationControl {
            lower_bits: LOWER_BITS,
            upper_bits: if upper.is_some() { self.upper_bits } else { LOWER_BITS },
            lower_page_size: self.page_size,
            upper_page_size: self.page_size,
            output_range: if self.layout == Layout::Bits48 { 5 } else { 6 },
            is_lower_off: false,
            is_upper_off: upper.is_none(),
            has_wide_asids: true,
            sets_access_flag: false,
            manages_dirty_state: false,
            is_lpa2: self.layout == Layout::Lpa2,
        };
        let ttbr = |root| encode_ttbr(self.layout, root, 0, false);
        let registers =
            [MemoryTypes::WITHOUT_TAGS.0, control.encode(), ttbr(lower), upper.map_or(0, ttbr), SCTLR_MMU_ON];
        Ok(Translation { registers })
    }

    fn build_as<G: Granule>(self, kernel: &Kernel, tables: &Tables) -> Result<(PhysAddr, Option<PhysAddr>), String> {
        let at = |name| kernel.physical(name);
        let parts = [
            (at("image_start")?, at("text_end")?, EXECUTABLE),
            (at("rodata_start")?, at("rodata_end")?, READ_ONLY),
            (at("data_start")?, at("boot_guard_start")?, READ_WRITE),
            (at("boot_guard_end")?, at("image_end")?, READ_WRITE),
        ];
        let root = |half, changes: &[_], scope| {
            let bits = if half == AddressHalf::Lower { LOWER_BITS } else { self.upper_bits };
            build::<G>(tables, bits, self.layout, half, scope, changes)
        };
        if self.upper_bits == 0 {
            // Read-only data holds addresses that are written once more on the way to the high half.
            let writable = |it: Stage1Attributes| if it == READ_ONLY { READ_WRITE } else { it };
            let mut changes = parts.map(|(from, to, attributes)| map(from..to, from, writable(attributes))).to_vec();
            changes.push(map(UART..UART + G::SIZE_BYTES, UART, DEVICE));
            changes.push(map(at("image_end")?..RAM.end, at("image_end")?, READ_WRITE));
            return Ok((root(AddressHalf::Lower, &changes, Scope::Global)?, None));
        }
        let text = at("image_start")?..at("identity_end")?;
        let board = BOARD..BOARD + G::SIZE_BYTES;
        let lower = [(text, EXECUTABLE), (board, READ_WRITE)]
            .map(|(part, attributes)| map(part.clone(), part.start, attributes.union(Stage1Attributes::NOT_GLOBAL)));
        let base = u64::MAX << self.upper_bits;
        let mut changes =
            parts.map(|(from, to, attributes)| map(from..to, from - LOAD + kernel.link, attributes)).to_vec();
        let (text, rodata) = (parts[0].0, parts[1].1);
        let linear = [(RAM.start..text, READ_WRITE), (text..rodata, READ_ONLY), (rodata..RAM.end, READ_WRITE)];
        changes.extend(linear.map(|(part, attributes)| map(part.clone(), base + (part.start - RAM.start), attributes)));
        let lower = root(AddressHalf::Lower, &lower, Scope::Asid(0))?;
        Ok((lower, Some(root(AddressHalf::Upper, &changes, Scope::Global)?)))
    }
}

fn map(physical: std::ops::Range<u64>, at: u64, attributes: Stage1Attributes) -> Change<El1> {
    let (from, to) = (VirtAddr::new(at), PhysAddr::new(physical.start));
    let end = VirtAddr::new(at.wrapping_add(physical.end - physical.start));
    Change::Map { from: from..end, to, attributes, largest: LeafSize::LARGEST }
}

fn build<G: Granule>(
    tables: &Tables,
    bits: u32,
    layout: Layout,
    half: AddressHalf,
    scope: Scope,
    changes: &[Change<El1>],
) -> Result<PhysAddr, String> {
    let refused = |refusal: Refusal| format!("page table of {bits} bits: {refusal}");
    let geometry = Geometry::<G>::new(bits, layout, half).map_err(|error| format!("{bits} bits: {error:?}"))?;
    let tlb = TlbFeatures { range: false, level_hints: false, repeat: true };
    let regime = El1 { scope, tlb, hardware_updates: HardwareUpdates::None };
    let mut reserve = Reserve::new();
    tables.supply::<G>(&mut reserve, 1);
    let mut table = PageTable::<G, _, _>::offline(&tables.memory, geometry, regime, &mut reserve).map_err(refused)?;
    let mut gather = table.gather();
    for change in changes {
        let changes = [change.clone()];
        let mut plan = table.plan(&changes, None).map_err(refused)?;
        let missing = plan.tables_needed().saturating_sub(reserve.count());
        tables.supply::<G>(&mut reserve, missing);
        plan.apply(&mut reserve, &mut gather).map_err(refused)?;
    }
    // Nothing was live, so nothing comes free.
    let _ = gather.finish(&tables.memory);
    Ok(table.publish().root())
}

/// Descriptors that `memory` holds and that were not in `before`, by physical address; without zeros, which is what
/// memory holds anyway.
pub fn written(memory: &Memory, before: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let descriptors = memory.descriptors();
    let all = descriptors.iter().map(|(slot, descriptor)| (slot.address().bits(), descriptor.bits()));
    all.filter(|(address, value)| *value != 0 && !before.contains(address)).collect()
}
