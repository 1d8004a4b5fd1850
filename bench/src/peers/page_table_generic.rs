//! `page-table-generic`: any granule, any format of descriptors; here Arm's.

use std::cell::Cell;
use std::marker::PhantomData;

use page_table_generic::{
    FrameAllocator, MapConfig, PageTable, PageTableEntry, PhysAddr, TableMeta, UnmapConfig, VirtAddr,
};
use vmsa::{Granule, PageSize};

use bench::contender::{Contender, Found};
use bench::memory::{give_frame, take_frame};

const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
const VALID: u64 = 0b01;
const TABLE: u64 = 0b11;
const READ_ONLY: u64 = 1 << 7;
/// Inner shareable, accessed, never executable, memory type 0.
const DATA: u64 = 0b11 << 53 | 1 << 10 | 0b11 << 8;

thread_local! {
    static TLBIS: Cell<u64> = const { Cell::new(0) };
}

/// A descriptor. Its configuration is its attribute bits.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
struct Entry(u64);

impl PageTableEntry for Entry {
    type PteConfig = u64;

    fn new_page(to: PhysAddr, attributes: u64, is_huge: bool) -> Self {
        Self(to.as_usize() as u64 | attributes | if is_huge { VALID } else { TABLE })
    }

    fn new_table(to: PhysAddr) -> Self {
        Self(to.as_usize() as u64 | TABLE)
    }

    fn paddr(&self, _: bool) -> PhysAddr {
        PhysAddr::from_usize((self.0 & ADDRESS) as usize)
    }

    fn config(&self, _: bool) -> u64 {
        self.0 & !ADDRESS & !TABLE
    }

    fn present(&self) -> bool {
        self.0 & VALID != 0
    }

    fn huge(&self, is_dir: bool) -> bool {
        is_dir && self.0 & TABLE == VALID
    }

    fn unused(&self) -> bool {
        self.0 == 0
    }

    fn clear(&mut self) {
        self.0 = 0;
    }
}

/// The arena, at its own addresses.
#[derive(Clone)]
struct Arena<G>(PhantomData<G>);

impl<G: Granule + Send + Sync> FrameAllocator for Arena<G> {
    fn alloc_frame(&self) -> Option<PhysAddr> {
        Some(PhysAddr::from_usize(take_frame(G::SIZE_BYTES) as usize))
    }

    fn dealloc_frame(&self, frame: PhysAddr) {
        give_frame(frame.as_usize() as u64);
    }

    fn phys_to_virt(&self, address: PhysAddr) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(address.as_usize())
    }
}

/// The shape of a 48-bit page table.
#[derive(Clone, Copy)]
struct Shape<G, const LIVE: bool>(PhantomData<G>);

impl<G: Granule + Send + Sync, const LIVE: bool> TableMeta for Shape<G, LIVE> {
    type P = Entry;
    const PAGE_SIZE: usize = G::SIZE_BYTES as usize;
    const LEVEL_BITS: &[usize] = match G::PAGE_SIZE {
        PageSize::Size4K => &[9, 9, 9, 9],
        PageSize::Size16K => &[1, 11, 11, 11],
        PageSize::Size64K => &[6, 13, 13],
    };
    const MAX_BLOCK_LEVEL: usize = match G::PAGE_SIZE {
        PageSize::Size4K => 3,
        _ => 2,
    };

    fn flush(_: Option<VirtAddr>) {
        if LIVE {
            TLBIS.set(TLBIS.get() + 1);
        }
    }
}

/// Its page table, live or not.
pub(crate) struct Generic<G: Granule + Send + Sync, const LIVE: bool>(PageTable<Shape<G, LIVE>, Arena<G>>);

fn input(address: u64) -> VirtAddr {
    VirtAddr::from_usize(address as usize)
}

impl<G: Granule + Send + Sync, const LIVE: bool> Contender for Generic<G, LIVE> {
    fn new() -> Self {
        Self(PageTable::new(Arena(PhantomData)).expect("a root"))
    }

    fn map(&mut self, from: u64, bytes: u64, to: u64, leaf_bytes: u64) {
        let mapped = self.0.map(&MapConfig {
            vaddr: input(from),
            paddr: PhysAddr::from_usize(to as usize),
            size: bytes as usize,
            pte: DATA,
            allow_huge: leaf_bytes > G::SIZE_BYTES,
            flush: false,
        });
        mapped.expect("it maps");
    }

    fn protect(&mut self, page: u64, is_read_only: bool) {
        let attributes = DATA | if is_read_only { READ_ONLY } else { 0 };
        self.0.protect_region(input(page), G::SIZE_BYTES as usize, attributes).expect("it protects");
    }

    fn translate(&self, inputs: &[u64]) -> u64 {
        inputs.iter().fold(0, |mixed, &address| {
            mixed ^ self.0.translate_phys(input(address)).map_or(0, |output| output.as_usize() as u64)
        })
    }

    fn unmap(&mut self, from: u64, bytes: u64, _: u64) {
        let config = UnmapConfig { start_vaddr: input(from), size: bytes as usize, flush: LIVE };
        self.0.unmap_with_config(&config).expect("it unmaps");
    }

    fn find(&self, address: u64) -> Option<Found> {
        let (output, attributes, _) = self.0.query(input(address)).ok()?;
        Some(Found { output: output.as_usize() as u64, is_read_only: attributes & READ_ONLY != 0 })
    }

    fn tlbis(&self) -> u64 {
        TLBIS.get()
    }
}
