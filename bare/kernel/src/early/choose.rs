//! Which page size, how many bits of address, which descriptors: from what was asked for, and what the CPU can do.

use kerncore::command_line::Options;
use vmsa::{IdRegisters, Layout, PageSize, PhysAddr};

use crate::console::say;
use crate::tables::Shape;

/// Why this page size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageSizeReason {
    Asked,
    Default,
    /// It stands in for this one, which the CPU lacks.
    Instead(PageSize),
}

/// Why this many bits of virtual address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BitsReason {
    Asked,
    Largest,
    /// They stand in for this many, which the CPU lacks at this page size.
    Instead(u32),
}

/// What was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    pub(crate) shape: Shape,
    pub(crate) page_size_reason: PageSizeReason,
    pub(crate) bits_reason: BitsReason,
    /// The first physical address that descriptors or the CPU cannot express.
    pub(crate) physical_limit: PhysAddr,
}

/// Granules in the order in which they are tried when none is asked for.
pub(crate) const BY_PREFERENCE: [PageSize; 3] = [PageSize::Size4K, PageSize::Size64K, PageSize::Size16K];

/// Input bits of the lower half: enough for the identity map wherever RAM is below 2^48.
pub(crate) const LOWER_BITS: u32 = 48;

/// Bits of address that descriptors of the 48-bit layout hold.
const NARROW_BITS: u32 = 48;

/// Chooses for a CPU, and says what was asked for in vain. `memory_end` is the end of the last bank.
pub(crate) fn choose(cpu: &IdRegisters, options: &Options, memory_end: PhysAddr) -> Choice {
    let (page_size, page_size_reason) = choose_page_size(cpu, options.page_size);
    let largest = cpu.largest_input_bits(page_size);
    let (upper_bits, bits_reason) = match options.virtual_bits {
        None => (largest, BitsReason::Largest),
        Some(asked) if asked <= largest => (asked, BitsReason::Asked),
        Some(asked) => {
            say!(
                "warning: vellum.vabits={asked}: this CPU has at most {largest} with {page_size} pages, which is used"
            );
            (largest, BitsReason::Instead(asked))
        }
    };
    let is_wide = upper_bits > NARROW_BITS || memory_end.bits() > 1 << NARROW_BITS;
    let layout = match page_size {
        PageSize::Size64K if is_wide && cpu.output_bits() > NARROW_BITS => Layout::Lpa,
        PageSize::Size4K | PageSize::Size16K if is_wide && cpu.has_lpa2(page_size) => Layout::Lpa2,
        _ => Layout::Bits48,
    };
    let shape = Shape { page_size, lower_bits: LOWER_BITS, upper_bits, layout };
    let physical_bits = cpu.output_bits().min(layout.output_bits());
    Choice { shape, page_size_reason, bits_reason, physical_limit: PhysAddr::new(1 << physical_bits) }
}

fn choose_page_size(cpu: &IdRegisters, asked: Option<PageSize>) -> (PageSize, PageSizeReason) {
    match asked {
        Some(asked) if cpu.has_granule(asked) => (asked, PageSizeReason::Asked),
        Some(asked) => {
            let default = default_page_size(cpu);
            say!("warning: arm64.pagesize={asked}: this CPU has no {asked} granule; {default} is used");
            (default, PageSizeReason::Instead(asked))
        }
        None => (default_page_size(cpu), PageSizeReason::Default),
    }
}

/// 4K, or what the CPU has in its place.
pub(crate) fn default_page_size(cpu: &IdRegisters) -> PageSize {
    let first = BY_PREFERENCE.into_iter().find(|size| cpu.has_granule(*size));
    first.expect("every CPU has at least one granule (DDI 0487, D8.1.8)")
}
