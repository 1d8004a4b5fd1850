//! What one gather collects over several plans of one range.

use crate::common;

use common::{DATA, MIB, live_4k, map, unmap};
use vellum_pagetable::{Census, Change, Licence, Memory, Reserve, Slot, Step, Tolerance};
use vellum_vmsa::{BbmLevel, Granule4K, LeafSize, Maintenance, PhysAddr, Stage1Attributes, VirtAddr};

fn range(from: u64, bytes: u64) -> core::ops::Range<VirtAddr> {
    VirtAddr::new(from)..VirtAddr::new(from + bytes)
}

/// A TLBI stands between the store that makes `slot` invalid and the one that makes it valid again.
fn assert_forgotten_in_between(steps: &[Step], slot: Slot) {
    let stores = |valid| {
        steps.iter().position(|step| matches!(step, Step::Store(at, new) if *at == slot && new.is_valid() == valid))
    };
    let (broken, made) = (stores(false).unwrap(), stores(true).unwrap());
    let is_tlbi = |step: &Step| matches!(step, Step::Maintain(Maintenance::Invalidate(..)));
    assert!(steps[broken..made].iter().any(is_tlbi), "invalid and valid again without a TLBI: {steps:#?}");
}

/// Break-before-make: between the hole and what is mapped there next, TLBs forget.
#[test]
fn what_one_gather_unmaps_and_maps_again_is_forgotten_in_between() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 0x1000, 0x8_0000_0000, LeafSize::PAGE)]);
    let slot = table.view().path(VirtAddr::new(0)).last().unwrap().slot;
    let _ = memory.take_steps();
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    for change in [unmap(0, 0x1000), map(0, 0x1000, 0x9_0000_0000, LeafSize::PAGE)] {
        table.plan(&[change], None).unwrap().apply(&mut reserve, &mut gather).unwrap();
    }
    let _ = gather.finish(&memory);
    assert_forgotten_in_between(&memory.take_steps(), slot);
}

/// The same, with a kept leaf that gets another memory type.
#[test]
fn what_one_gather_hides_changes_and_shows_is_forgotten_in_between() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 0x1000, 0x8_0000_0000, LeafSize::PAGE)]);
    let slot = table.view().path(VirtAddr::new(0)).last().unwrap().slot;
    let _ = memory.take_steps();
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    let device =
        Change::Protect { from: range(0, 0x1000), set: Stage1Attributes::memory(4), clear: Stage1Attributes::empty() };
    for change in [Change::MakeInvalid { from: range(0, 0x1000) }, device, Change::MakeValid { from: range(0, 0x1000) }]
    {
        table.plan(&[change], None).unwrap().apply(&mut reserve, &mut gather).unwrap();
    }
    let _ = gather.finish(&memory);
    assert_forgotten_in_between(&memory.take_steps(), slot);
}

/// A block is split in place, and before the gather is finished one of its pages moves by break-before-make: the TLBI in
/// that window reaches the block too.
#[test]
fn a_break_reaches_what_the_same_gather_has_not_made_tlbs_forget() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 2 * MIB, 0x8_0000_0000, LeafSize::LARGEST)]);
    let census = Census::new(Tolerance::new(BbmLevel::Level3, false));
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    memory.supply::<Granule4K>(&mut reserve, 4);
    let split = [Change::SplitToPages { from: range(0, 2 * MIB) }];
    table.plan(&split, census.tolerated().as_ref()).unwrap().apply(&mut reserve, &mut gather).unwrap();
    let _ = memory.take_steps();
    let to = PhysAddr::new(0x9_0000_0000);
    let moved = [Change::Remap { from: range(0, 0x1000), to, attributes: DATA, largest: LeafSize::PAGE }];
    let licence = Licence::break_before_make(&());
    table.plan(&moved, Some(&licence)).unwrap().apply(&mut reserve, &mut gather).unwrap();
    let steps = memory.take_steps();
    let hints: Vec<u64> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Maintain(Maintenance::Invalidate(_, operand)) => Some(operand >> 44 & 0xf),
            _ => None,
        })
        .collect();
    let _ = gather.finish(&memory);
    assert!(
        hints.iter().any(|hint| matches!(hint, 0 | 0b0110)),
        "the block of level 2 is not forgotten in the window: {hints:x?}"
    );
}
