//! `x86_64`: its own format, mapped page by page, as its interface is.

use x86_64::structures::paging::mapper::{CleanUp, MapToError, TranslateResult, UnmapError};
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, Mapper, OffsetPageTable, Page, PageSize, PageTable, PageTableFlags, PhysFrame,
    Size1GiB, Size2MiB, Size4KiB, Translate,
};
use x86_64::{PhysAddr, VirtAddr};

use bench::contender::{Contender, Found};
use bench::memory::{give_frame, take_frame, take_zeroed_frame};

/// The arena, at its own addresses.
struct Arena;

// SAFETY: a frame of the arena is nobody else's.
unsafe impl FrameAllocator<Size4KiB> for Arena {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        Some(PhysFrame::containing_address(PhysAddr::new(take_frame(Size4KiB::SIZE))))
    }
}

impl FrameDeallocator<Size4KiB> for Arena {
    unsafe fn deallocate_frame(&mut self, frame: PhysFrame) {
        give_frame(frame.start_address().as_u64());
    }
}

/// Its page table.
pub(crate) struct X86_64(OffsetPageTable<'static>);

const READ_ONLY: PageTableFlags = PageTableFlags::PRESENT.union(PageTableFlags::NO_EXECUTE);
const WRITABLE: PageTableFlags = READ_ONLY.union(PageTableFlags::WRITABLE);

impl X86_64 {
    fn map_each<S: PageSize>(&mut self, from: u64, bytes: u64, to: u64) -> Result<(), MapToError<S>>
    where
        OffsetPageTable<'static>: Mapper<S>,
    {
        let first = Page::containing_address(VirtAddr::new(from));
        let frame = PhysFrame::containing_address(PhysAddr::new(to));
        for number in 0..bytes / S::SIZE {
            // SAFETY: nothing is reached through this page table.
            let mapped = unsafe { self.0.map_to(first + number, frame + number, WRITABLE, &mut Arena) };
            mapped?.ignore();
        }
        Ok(())
    }

    fn unmap_each<S: PageSize>(&mut self, from: u64, bytes: u64) -> Result<(), UnmapError>
    where
        OffsetPageTable<'static>: Mapper<S>,
    {
        let first = Page::<S>::containing_address(VirtAddr::new(from));
        for number in 0..bytes / S::SIZE {
            self.0.unmap(first + number)?.1.ignore();
        }
        let pages = Page::containing_address(VirtAddr::new(from));
        let range = Page::range_inclusive(pages, pages + (bytes / Size4KiB::SIZE - 1));
        // SAFETY: each table is of this page table alone.
        unsafe { self.0.clean_up_addr_range(range, &mut Arena) };
        Ok(())
    }
}

impl Contender for X86_64 {
    const SPLITS: bool = false;

    fn new() -> Self {
        let root = std::ptr::with_exposed_provenance_mut::<PageTable>(take_zeroed_frame(Size4KiB::SIZE) as usize);
        // SAFETY: the frame is of the arena, zeroed, and never given back.
        let root = unsafe { &mut *root };
        // SAFETY: every frame of the arena is at its own address.
        Self(unsafe { OffsetPageTable::new(root, VirtAddr::zero()) })
    }

    fn map(&mut self, from: u64, bytes: u64, to: u64, leaf_bytes: u64) {
        match leaf_bytes {
            Size4KiB::SIZE => self.map_each::<Size4KiB>(from, bytes, to).expect("it maps"),
            Size2MiB::SIZE => self.map_each::<Size2MiB>(from, bytes, to).expect("it maps"),
            _ => self.map_each::<Size1GiB>(from, bytes, to).expect("it maps"),
        }
    }

    fn protect(&mut self, page: u64, is_read_only: bool) {
        let page = Page::<Size4KiB>::containing_address(VirtAddr::new(page));
        // SAFETY: nothing is reached through this page table.
        let updated = unsafe { self.0.update_flags(page, if is_read_only { READ_ONLY } else { WRITABLE }) };
        updated.expect("it protects").ignore();
    }

    fn translate(&self, inputs: &[u64]) -> u64 {
        inputs
            .iter()
            .fold(0, |mixed, &input| mixed ^ self.0.translate_addr(VirtAddr::new(input)).map_or(0, PhysAddr::as_u64))
    }

    fn unmap(&mut self, from: u64, bytes: u64, leaf_bytes: u64) {
        let unmapped = match leaf_bytes {
            Size4KiB::SIZE => self.unmap_each::<Size4KiB>(from, bytes),
            Size2MiB::SIZE => self.unmap_each::<Size2MiB>(from, bytes),
            _ => self.unmap_each::<Size1GiB>(from, bytes),
        };
        unmapped.expect("it unmaps");
    }

    fn find(&self, input: u64) -> Option<Found> {
        match self.0.translate(VirtAddr::new(input)) {
            TranslateResult::Mapped { frame, offset, flags } => Some(Found {
                output: frame.start_address().as_u64() + offset,
                is_read_only: !flags.contains(PageTableFlags::WRITABLE),
            }),
            _ => None,
        }
    }
}
