//! Tables that others made, which no engine would: what is not the page table's stays as it is.

use crate::common;

use common::{DATA, KERNEL, each_licence};
use vellum_pagetable::{Change, Memory, PageTable, Platform, Refusal, Reserve, Slot, Step};
use vellum_vmsa::{
    AddressHalf, Descriptor, Geometry, Granule, Granule4K, Granule16K, Granule64K, Layout, LeafSize, Level, PhysAddr,
    Stage1Attributes, VirtAddr,
};

const ROOT: PhysAddr = PhysAddr::new(0x7000_0000);

/// A root that has fewer descriptors than a contiguous group, filled with leaves that claim to be members of one.
fn is_edited_within_its_root<G: Granule>(bits: u32, level: Level) {
    let geometry = Geometry::<G>::new(bits, Layout::Bits48, AddressHalf::Lower).unwrap();
    let (entries, shift) = (geometry.root_entries(), Geometry::<G>::shift(level));
    assert!(geometry.start() == level && entries < 1 << G::PAGE_SIZE.contiguous_shift(level).unwrap());
    let first = || VirtAddr::new(0)..VirtAddr::new(1 << shift);
    let (set, clear) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty());
    let changes = [
        Change::Protect { from: first(), set, clear },
        Change::Protect { from: VirtAddr::new(0)..VirtAddr::new(G::SIZE_BYTES), set, clear },
        Change::Protect { from: VirtAddr::new(0)..VirtAddr::new(geometry.input_bytes()), set, clear },
        Change::Unmap { from: first() },
        Change::MakeInvalid { from: first() },
        Change::Age { from: first() },
        Change::Split { at: VirtAddr::new(1 << shift) },
        Change::SplitToPages { from: VirtAddr::new(0)..VirtAddr::new(G::SIZE_BYTES) },
        Change::Collapse { from: VirtAddr::new(0)..VirtAddr::new(geometry.input_bytes()) },
        Change::Remap { from: first(), to: PhysAddr::new(0), attributes: DATA, largest: LeafSize::LARGEST },
    ];
    for valid in [Descriptor::VALID, 0] {
        for wanted in &changes {
            each_licence(|licence| {
                let memory = Memory::new();
                // What lies behind the root is somebody else's, and looks alike.
                for number in 0..1 << G::PAGE_SIZE.contiguous_shift(level).unwrap() {
                    let output = PhysAddr::new((number as u64) << shift);
                    let leaf = Descriptor::leaf(Layout::Bits48, level, output, DATA.bits()).bits();
                    let leaf = leaf & !Descriptor::VALID | valid | Descriptor::CONTIGUOUS;
                    memory.store(Slot::new(ROOT, number), Descriptor::new(leaf));
                }
                let mut table = PageTable::live(&memory, geometry, KERNEL, ROOT).unwrap();
                let _ = memory.take_steps();
                let made = table.plan(std::slice::from_ref(wanted), Some(licence)).and_then(|mut plan| {
                    let mut reserve = Reserve::new();
                    memory.supply::<G>(&mut reserve, plan.tables_needed());
                    let mut gather = plan.gather();
                    plan.apply(&mut reserve, &mut gather)?;
                    let _ = gather.finish(&memory);
                    Ok(())
                });
                assert!(matches!(made, Ok(()) | Err(Refusal::NeedsBreak(_))), "{wanted:?}: {made:?}");
                let end = Slot::new(ROOT, entries);
                let beyond = |slot: Slot| (end..Slot::new(ROOT, G::ENTRIES)).contains(&slot);
                let is_beyond =
                    |step: &Step| matches!(step, Step::Store(slot, _) | Step::Exchange { slot, .. } if beyond(*slot));
                assert!(!memory.take_steps().iter().any(is_beyond), "{bits} bits: {wanted:?} wrote beyond the root");
            });
        }
    }
}

#[test]
fn a_root_smaller_than_a_contiguous_group_holds_none() {
    is_edited_within_its_root::<Granule4K>(32, Level::L1);
    is_edited_within_its_root::<Granule16K>(27, Level::L2);
    is_edited_within_its_root::<Granule64K>(31, Level::L2);
}
