//! `aarch64-paging`: 4K tables, TLBIs compiled out where the host is not arm64. Here its regime counts them instead.

use std::cell::Cell;
use std::ptr::NonNull;

use aarch64_paging::Mapping;
use aarch64_paging::descriptor::{El1Attributes, PhysicalAddress, VirtualAddress};
use aarch64_paging::paging::{Constraints, MemoryRegion, PageTable, Translation, TranslationRegime};

use bench::contender::{Contender, Found};
use bench::memory::{give_frame, take_zeroed_frame};

const PAGE: usize = 4096;
/// Inner shareable, accessed, never executable, memory type 0.
const DATA: El1Attributes = El1Attributes::VALID
    .union(El1Attributes::INNER_SHAREABLE)
    .union(El1Attributes::ACCESSED)
    .union(El1Attributes::PXN)
    .union(El1Attributes::UXN);

thread_local! {
    static TLBIS: Cell<u64> = const { Cell::new(0) };
}

/// The EL1&0 regime, whose one TLBI is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counted;

impl TranslationRegime for Counted {
    type Attributes = El1Attributes;
    type Asid = ();
    type VaRange = ();

    fn invalidate_va(_: VirtualAddress) {
        TLBIS.set(TLBIS.get() + 1);
    }

    unsafe fn activate(_: PhysicalAddress, _: (), _: ()) -> usize {
        0
    }

    unsafe fn deactivate(_: usize, _: (), _: ()) {}
}

/// The arena, at its own addresses.
#[derive(Debug)]
struct Arena;

impl Translation<El1Attributes> for Arena {
    fn allocate_table(&mut self) -> (NonNull<PageTable<El1Attributes>>, PhysicalAddress) {
        let address = PhysicalAddress(take_zeroed_frame(PAGE as u64) as usize);
        (self.physical_to_virtual(address), address)
    }

    unsafe fn deallocate_table(&mut self, table: NonNull<PageTable<El1Attributes>>) {
        give_frame(table.addr().get() as u64);
    }

    fn physical_to_virtual(&self, address: PhysicalAddress) -> NonNull<PageTable<El1Attributes>> {
        NonNull::new(std::ptr::with_exposed_provenance_mut(address.0)).expect("no table is at 0")
    }
}

/// Its page table, live or not.
#[derive(Debug)]
pub(crate) struct Aarch64Paging<const LIVE: bool>(Mapping<Arena, Counted>);

fn region(from: u64, bytes: u64) -> MemoryRegion {
    MemoryRegion::new(from as usize, (from + bytes) as usize)
}

impl<const LIVE: bool> Aarch64Paging<LIVE> {
    /// The leaf at an address, by a walk of one page: there is no other way to ask.
    #[inline(always)]
    fn leaf(&self, input: u64) -> Option<(u64, El1Attributes)> {
        let mut leaf = None;
        let page = input & !(PAGE as u64 - 1);
        let walked = self.0.walk_range(&region(page, PAGE as u64), &mut |_, descriptor, level| {
            if descriptor.is_valid() {
                let within = (PAGE << ((3 - level) * 9)) as u64 - 1;
                leaf = Some((descriptor.output_address().0 as u64 + (input & within), descriptor.flags()));
            }
            Ok(())
        });
        walked.ok().and(leaf)
    }
}

impl<const LIVE: bool> Contender for Aarch64Paging<LIVE> {
    const SPLITS: bool = !LIVE;

    fn new() -> Self {
        let mapping = Mapping::new(Arena, 0, Counted);
        if LIVE {
            mapping.mark_active();
        }
        Self(mapping)
    }

    fn map(&mut self, from: u64, bytes: u64, to: u64, leaf_bytes: u64) {
        let pages = if leaf_bytes == PAGE as u64 { Constraints::NO_BLOCK_MAPPINGS } else { Constraints::empty() };
        let constraints = pages | Constraints::NO_CONTIGUOUS_HINT;
        let to = PhysicalAddress(to as usize);
        self.0.map_range(&region(from, bytes), to, DATA, constraints).expect("it maps");
    }

    fn protect(&mut self, page: u64, is_read_only: bool) {
        let (bit, none) = (El1Attributes::READ_ONLY, El1Attributes::empty());
        let (set, clear) = if is_read_only { (bit, none) } else { (none, bit) };
        let changed =
            self.0.modify_range(&region(page, PAGE as u64), &|_, descriptor| descriptor.modify_flags(set, clear));
        changed.expect("it protects");
    }

    fn translate(&self, inputs: &[u64]) -> u64 {
        inputs.iter().fold(0, |mixed, &input| mixed ^ self.leaf(input).map_or(0, |(output, _)| output))
    }

    fn unmap(&mut self, from: u64, bytes: u64, _: u64) {
        let nothing = El1Attributes::empty();
        let unmapped = self.0.map_range(&region(from, bytes), PhysicalAddress(0), nothing, Constraints::empty());
        unmapped.expect("it unmaps");
    }

    fn find(&self, input: u64) -> Option<Found> {
        let (output, flags) = self.leaf(input)?;
        Some(Found { output, is_read_only: flags.contains(El1Attributes::READ_ONLY) })
    }

    fn tlbis(&self) -> u64 {
        TLBIS.get()
    }
}
