//! Which page size, how many bits of address, which descriptors: from what was asked for, and what the boot CPU can do.

pub(crate) mod problem;
mod requirement;

pub use problem::Problem;
pub use requirement::{Lack, Requirement};

use vmsa::{IdRegisters, Layout, PageSize, PhysAddr};

use crate::command_line::Options;
use crate::finding::Findings;

/// What was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The granule.
    pub page_size: PageSize,
    /// Why this one.
    pub page_size_reason: PageSizeReason,
    /// Bits of virtual address of the kernel's half.
    pub virtual_bits: u32,
    /// Why this many.
    pub bits_reason: BitsReason,
    /// Where descriptors keep output-address bits above 47.
    pub layout: Layout,
    /// The first physical address that descriptors or the CPU cannot express.
    pub physical_limit: PhysAddr,
}

/// Why this page size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageSizeReason {
    /// It was asked for.
    Asked,
    /// Nothing was asked for.
    Default,
    /// It stands in for this one, which the CPU lacks.
    Instead(PageSize),
}

/// Why this many bits of virtual address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BitsReason {
    /// They were asked for.
    Asked,
    /// Nothing was asked for.
    Largest,
    /// They stand in for this many, which the CPU lacks at this page size.
    Instead(u32),
}

/// Granules in the order in which they are tried when none is asked for.
pub const BY_PREFERENCE: [PageSize; 3] = [PageSize::Size4K, PageSize::Size64K, PageSize::Size16K];

/// Bits of address that descriptors of the 48-bit layout hold.
const NARROW_BITS: u32 = 48;

/// Chooses for a CPU, and notes what was asked for in vain. `memory_end` is the end of the last bank.
pub fn choose(cpu: &IdRegisters, options: &Options, memory_end: PhysAddr, findings: &mut Findings<'_>) -> Choice {
    let (page_size, page_size_reason) = choose_page_size(cpu, options.page_size, findings);
    let largest = cpu.largest_input_bits(page_size);
    let (virtual_bits, bits_reason) = match options.virtual_bits {
        None => (largest, BitsReason::Largest),
        Some(asked) if asked <= largest => (asked, BitsReason::Asked),
        Some(asked) => {
            findings.push(Problem::VirtualBits { asked, page_size, largest });
            (largest, BitsReason::Instead(asked))
        }
    };
    let is_wide = virtual_bits > NARROW_BITS || memory_end.bits() > 1 << NARROW_BITS;
    let layout = match page_size {
        PageSize::Size64K if is_wide && cpu.output_bits() > NARROW_BITS => Layout::Lpa,
        PageSize::Size4K | PageSize::Size16K if is_wide && cpu.has_lpa2(page_size) => Layout::Lpa2,
        _ => Layout::Bits48,
    };
    let physical_bits = cpu.output_bits().min(layout.output_bits());
    let physical_limit = PhysAddr::new(1 << physical_bits);
    Choice { page_size, page_size_reason, virtual_bits, bits_reason, layout, physical_limit }
}

fn choose_page_size(
    cpu: &IdRegisters,
    asked: Option<PageSize>,
    findings: &mut Findings<'_>,
) -> (PageSize, PageSizeReason) {
    match asked {
        Some(asked) if cpu.has_granule(asked) => (asked, PageSizeReason::Asked),
        Some(asked) => {
            let used = default_page_size(cpu);
            findings.push(Problem::PageSize { asked, used });
            (used, PageSizeReason::Instead(asked))
        }
        None => (default_page_size(cpu), PageSizeReason::Default),
    }
}

/// 4K, or what the CPU has in its place.
pub fn default_page_size(cpu: &IdRegisters) -> PageSize {
    let first = BY_PREFERENCE.into_iter().find(|size| cpu.has_granule(*size));
    first.expect("every CPU has at least one granule (DDI 0487, D8.1.8)")
}
