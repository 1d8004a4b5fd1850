//! The kernel's linear map, from when boot has painted it.

use hardware::platform::Hardware;
use linearmap::{Cpu, Leaves, Refused};
use pagetable::{TlbFeatures, Tolerance};
use vmsa::{BbmLevel, VirtAddr};

use crate::facts::{facts, page_size};
use crate::memory::reach::Reach;
use crate::memory::tables::{CAUTIOUS, Linear, Painted, linear};
use crate::memory::{current, ranges, record};

/// Takes over what boot has painted. This CPU alone runs.
pub(crate) fn start(first: Cpu) -> Result<(), Refused> {
    let facts = facts();
    // SAFETY: every table comes from RAM, which the linear map holds writable. The map's lock is held by its one editor. What is
    // hidden or cannot be written is so because its owner asks for it.
    let linear = unsafe { Hardware::new(facts.linear.offset()) };
    // SAFETY: as above, where the workshop is in TTBR0_EL1.
    let workshop = unsafe { Hardware::new(facts.workshop.offset) };
    let painted = Painted { range: facts.linear.range(), leaves: facts.leaves, memory_bytes: ranges::mapped_bytes() };
    current::upper().adopt(Reach::new(linear, workshop), painted, first)?;
    let tables = current::upper().summary(facts.linear.range())?.tables();
    record::publish(facts.linear.range(), tables, get().counters_at());
    Ok(())
}

/// The linear map. Not before [`start`].
pub(crate) fn get() -> &'static dyn Linear {
    linear(page_size()).expect("boot starts the linear map before anyone asks")
}

/// Whether an address is mapped, and not hidden.
pub(crate) fn is_shown(address: VirtAddr) -> bool {
    current::upper().translate(address).is_some()
}

/// What every CPU that walks the map tolerates.
pub(crate) fn tolerance() -> Tolerance {
    let mut weakest = Tolerance::new(BbmLevel::Level0, false);
    get().with_standing(&mut |standing| weakest = standing.census().weakest());
    weakest
}

/// What the TLB maintenance of every CPU that walks the map can do.
pub(crate) fn tlb_features() -> TlbFeatures {
    let mut features = CAUTIOUS.tlb;
    get().with_standing(&mut |standing| features = standing.tlb());
    features
}

/// How large leaves may be, in words.
pub(crate) fn leaves() -> &'static str {
    match facts().leaves {
        Leaves::Largest => "the largest leaves",
        Leaves::Blocks => "blocks",
        Leaves::Pages => "pages",
    }
}

/// Every leaf and hole of the linear map as one number: as FNV-1a, but by words, and turned, so that each bit of a word reaches all others.
pub(crate) fn digest() -> u64 {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |word: u64| digest = (digest.rotate_left(25) ^ word).wrapping_mul(0x100_0000_01b3);
    let walked = current::upper().for_each(facts().linear.range(), &mut |entry| {
        if !matches!(entry.lookup.meaning, vmsa::Meaning::Table(_)) {
            add(entry.input.bits());
            add(entry.lookup.descriptor.bits());
        }
    });
    if walked.is_err() { 0 } else { digest }
}
