//! `page_table_multiarch`: 4K tables of the host's own format, as it chooses that by the target.

use memory_addr::{PhysAddr, VirtAddr};
#[cfg(target_arch = "aarch64")]
use page_table_multiarch::aarch64::A64PageTable as Table;
#[cfg(not(target_arch = "aarch64"))]
use page_table_multiarch::x86_64::X64PageTable as Table;
use page_table_multiarch::{MappingFlags, PagingHandler};

use bench::contender::{Contender, Found};
use bench::memory::{give_frame, take_frame};

const PAGE: u64 = 4096;

/// The arena, at its own addresses.
struct Arena;

impl PagingHandler for Arena {
    fn alloc_frames(count: usize, _: usize) -> Option<PhysAddr> {
        (count == 1).then(|| PhysAddr::from_usize(take_frame(PAGE) as usize))
    }

    fn dealloc_frames(frame: PhysAddr, _: usize) {
        give_frame(frame.as_usize() as u64);
    }

    fn phys_to_virt(address: PhysAddr) -> VirtAddr {
        VirtAddr::from_usize(address.as_usize())
    }
}

/// Its page table.
pub(crate) struct Multiarch(Table<Arena>);

const WRITABLE: MappingFlags = MappingFlags::READ.union(MappingFlags::WRITE);

impl Contender for Multiarch {
    const SPLITS: bool = false;

    fn new() -> Self {
        Self(Table::try_new().expect("a root"))
    }

    fn map(&mut self, from: u64, bytes: u64, to: u64, leaf_bytes: u64) {
        let output = |input: VirtAddr| PhysAddr::from_usize(input.as_usize() - from as usize + to as usize);
        let input = VirtAddr::from_usize(from as usize);
        let mapped = self.0.cursor().map_region(input, output, bytes as usize, WRITABLE, leaf_bytes > PAGE);
        mapped.expect("it maps");
    }

    fn protect(&mut self, page: u64, is_read_only: bool) {
        let flags = if is_read_only { MappingFlags::READ } else { WRITABLE };
        self.0.cursor().protect(VirtAddr::from_usize(page as usize), flags).expect("it protects");
    }

    fn translate(&self, inputs: &[u64]) -> u64 {
        inputs.iter().fold(0, |mixed, &input| {
            mixed
                ^ self.0.query(VirtAddr::from_usize(input as usize)).map_or(0, |(output, ..)| output.as_usize() as u64)
        })
    }

    fn unmap(&mut self, from: u64, bytes: u64, _: u64) {
        let input = VirtAddr::from_usize(from as usize);
        self.0.cursor().unmap_region(input, bytes as usize).expect("it unmaps");
    }

    fn find(&self, input: u64) -> Option<Found> {
        let (output, flags, _) = self.0.query(VirtAddr::from_usize(input as usize)).ok()?;
        Some(Found { output: output.as_usize() as u64, is_read_only: !flags.contains(MappingFlags::WRITE) })
    }
}
