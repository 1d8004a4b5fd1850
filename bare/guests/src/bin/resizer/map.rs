//! The program's map: itself and the UART at their own addresses, by pages that are never resized, and the arena above them,
//! by blocks.
//!
//! ```text
//! 0        UART     image             2^39
//! |         |  text | rodata | data    |  code, code, data, data: blocks of 2 MiB, open to EL0
//! ```

use core::cell::UnsafeCell;
use core::ops::Range;

use guests::console::UART;
use hardware::platform::Hardware;
use hardware::translation::{SCTLR_MMU_ON, Translation};
use hardware::{image, registers};
use pagetable::{Change, El1, HardwareUpdates, PageTable, Refusal, Reserve, Scope, TlbFeatures};
use vmsa::registers::{MemoryTypes, TranslationControl, encode_ttbr};
use vmsa::{AddressHalf, Geometry, Granule4K, Layout, LeafSize, PageSize, PhysAddr, Stage1Attributes, VirtAddr};

/// A page table of this program's.
pub(crate) type Table = PageTable<'static, Granule4K, El1, Hardware>;

/// This machine.
// SAFETY: tables come from `TABLES`, which nothing else uses and which is mapped writable at its own address; the boot CPU alone edits; what changes while it is live is the size of the arena's leaves, and nothing more.
static HARDWARE: Hardware = unsafe { Hardware::new(0) };

const fn regime(tlb: TlbFeatures) -> El1 {
    El1 { scope: Scope::Global, tlb, hardware_updates: HardwareUpdates::None }
}

/// Of CPUs that nothing is known of: no TLBI that one might lack, and every one repeated, should one need it.
const CAUTIOUS: TlbFeatures = TlbFeatures { range: false, level_hints: false, repeat: true };

/// Where the arena is mapped.
pub(crate) const ARENA: u64 = 1 << 39;
pub(crate) const BLOCK_BYTES: u64 = 2 << 20;
pub(crate) const PAGE_BYTES: u64 = 4096;
pub(crate) const BLOCK_PAGES: usize = (BLOCK_BYTES / PAGE_BYTES) as usize;
/// Blocks of code, and blocks of data behind them.
pub(crate) const CODE_BLOCKS: usize = 2;
pub(crate) const DATA_BLOCKS: usize = 2;
pub(crate) const BLOCKS: usize = CODE_BLOCKS + DATA_BLOCKS;

/// Room for the tables of the page table.
#[repr(C, align(4096))]
struct Tables(UnsafeCell<[u8; 64 * PAGE_BYTES as usize]>);

// SAFETY: the page table alone uses it, which the boot CPU alone edits.
unsafe impl Sync for Tables {}

static TABLES: Tables = Tables(UnsafeCell::new([0; _]));

/// The arena: what is resized, mapped elsewhere than the rest of the image.
#[repr(C, align(0x20_0000))]
struct Arena(UnsafeCell<[u8; BLOCKS * BLOCK_BYTES as usize]>);

// SAFETY: no reference leads into it, and each CPU writes words of its own.
unsafe impl Sync for Arena {}

static ARENA_MEMORY: Arena = Arena(UnsafeCell::new([0; _]));

/// Where the arena is in memory.
pub(crate) fn arena() -> Range<u64> {
    let start = ARENA_MEMORY.0.get() as u64;
    start..start + BLOCKS as u64 * BLOCK_BYTES
}

const INPUT_BITS: u32 = 48;
/// AttrIndx of Normal and of Device-nGnRE memory in [`MemoryTypes::WITHOUT_TAGS`].
const NORMAL_INDEX: u8 = 0;
const DEVICE_INDEX: u8 = 4;

const COMMON: Stage1Attributes = Stage1Attributes::INNER_SHAREABLE.union(Stage1Attributes::AF);
const NORMAL: Stage1Attributes = Stage1Attributes::memory(NORMAL_INDEX).union(COMMON);
const READ_ONLY: Stage1Attributes = NORMAL.union(Stage1Attributes::READ_ONLY);
const EXECUTABLE: Stage1Attributes = READ_ONLY.union(Stage1Attributes::UXN);
const CONSTANTS: Stage1Attributes = READ_ONLY.union(Stage1Attributes::NO_EXECUTE);
const READ_WRITE: Stage1Attributes = NORMAL.union(Stage1Attributes::NO_EXECUTE);
const DEVICE: Stage1Attributes =
    Stage1Attributes::memory(DEVICE_INDEX).union(COMMON).union(Stage1Attributes::NO_EXECUTE);
const ARENA_CODE: Stage1Attributes = READ_ONLY.union(Stage1Attributes::USER);
const ARENA_DATA: Stage1Attributes = READ_WRITE.union(Stage1Attributes::USER);

/// Where a block of the arena is.
pub(crate) fn block(index: usize) -> Range<u64> {
    let start = ARENA + index as u64 * BLOCK_BYTES;
    start..start + BLOCK_BYTES
}

fn geometry() -> Geometry<Granule4K> {
    Geometry::new(INPUT_BITS, Layout::Bits48, AddressHalf::Lower).expect("4 KiB pages have 48 bits")
}

/// The page table, and what it is built with.
pub(crate) struct Map {
    pub(crate) table: Table,
    reserve: Reserve,
}

impl Map {
    /// Makes the map. The MMU is off.
    pub(crate) fn build() -> Result<Self, Refusal> {
        let mut reserve = Reserve::new();
        let tables = TABLES.0.get() as u64..TABLES.0.get().wrapping_add(1) as u64;
        tables.step_by(PAGE_BYTES as usize).for_each(|table| reserve.add(&HARDWARE, PhysAddr::new(table)));
        let mut table = Table::offline(&HARDWARE, geometry(), regime(CAUTIOUS), &mut reserve)?;
        let mut gather = table.gather();
        let own = |range: Range<u64>, attributes| (range.clone(), range.start, attributes, LeafSize::PAGE);
        let uart = UART as u64;
        let (arena, end) = (arena(), image::whole().end);
        let part = |first: usize, count: usize, attributes| {
            let range = block(first).start..block(first + count).start;
            (range, arena.start + first as u64 * BLOCK_BYTES, attributes, LeafSize::LARGEST)
        };
        for (range, to, attributes, largest) in [
            own(uart..uart + PAGE_BYTES, DEVICE),
            own(image::text(), EXECUTABLE),
            own(image::rodata(), CONSTANTS),
            own(image::rodata().end..arena.start, READ_WRITE),
            own(arena.end..end, READ_WRITE),
            part(0, CODE_BLOCKS, ARENA_CODE),
            part(CODE_BLOCKS, DATA_BLOCKS, ARENA_DATA),
        ] {
            let from = VirtAddr::new(range.start)..VirtAddr::new(range.end);
            let changes = [Change::Map { from, to: PhysAddr::new(to), attributes, largest }];
            table.plan(&changes, None)?.apply(&mut reserve, &mut gather)?;
        }
        // Nothing was live, so nothing comes free.
        let retired = gather.finish(&HARDWARE);
        debug_assert_eq!(retired.count(), 0);
        Ok(Self { table: table.publish(), reserve })
    }

    /// What every CPU's registers are to hold.
    pub(crate) fn translation(&self) -> Translation {
        let control = TranslationControl {
            lower_bits: INPUT_BITS,
            upper_bits: INPUT_BITS,
            lower_page_size: PageSize::Size4K,
            upper_page_size: PageSize::Size4K,
            // IPS above what 48-bit descriptors hold is reserved, and above what the CPU has too.
            output_range: registers::read_id_registers().physical_range().min(5),
            is_lower_off: false,
            is_upper_off: true,
            has_wide_asids: false,
            sets_access_flag: false,
            manages_dirty_state: false,
            is_lpa2: false,
        };
        Translation {
            mair: MemoryTypes::WITHOUT_TAGS.0,
            tcr: control.encode(),
            ttbr0: encode_ttbr(Layout::Bits48, self.table.root(), 0, false),
            ttbr1: 0,
            sctlr: SCTLR_MMU_ON,
        }
    }

    /// From now on TLBs are told to forget by what every CPU has.
    pub(crate) fn use_features(&mut self, tlb: TlbFeatures) {
        let table = Table::live(&HARDWARE, geometry(), regime(tlb), self.table.root());
        self.table = table.expect("the root and the geometry are those that there were");
    }

    /// How many leaves a block of the arena has.
    pub(crate) fn leaves(&self, index: usize) -> usize {
        let range = block(index);
        let (mut at, mut count) = (range.start, 0);
        while let Some(leaf) = self.table.view().translate(VirtAddr::new(at)).filter(|_| at < range.end) {
            at += leaf.size.size_bytes(PageSize::Size4K);
            count += 1;
        }
        count
    }

    /// Makes a change of live leaves: `begin` comes before the first store, `meanwhile` before the first TLBI that the change
    /// needs to settle, `end` once every TLB has forgotten.
    pub(crate) fn resize(
        &mut self,
        change: Change<El1>,
        licence: &pagetable::Licence<'_>,
        begin: impl FnOnce(),
        meanwhile: impl FnOnce(),
        end: impl FnOnce(),
    ) -> Result<(), Refusal> {
        let mut gather = self.table.gather();
        let changes = [change];
        let mut plan = self.table.plan(&changes, Some(licence))?;
        if let Some(lacking @ 1..) = plan.tables_needed().checked_sub(self.reserve.count()) {
            return Err(Refusal::ReserveShortBy(lacking));
        }
        begin();
        plan.apply(&mut self.reserve, &mut gather)?;
        meanwhile();
        let mut retired = gather.finish(&HARDWARE);
        while let Some(table) = retired.take(&HARDWARE) {
            self.reserve.add(&HARDWARE, table);
        }
        end();
        Ok(())
    }
}
