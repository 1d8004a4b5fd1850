//! What is made anew: leaves that change as no TLB tolerates, and descriptors that no engine makes, which go or are refused.

use crate::common;

use common::walkers::{Beside, Walkers};
use common::{DATA, GIB, KERNEL, MIB, change, leaves, live, live_4k, map, unmap};
use vellum_pagetable::{Change, El1, HardwareUpdates, Licence, Memory, Platform, Refusal, Slot, Step};
use vellum_vmsa::{Descriptor, Granule4K, Layout, LeafSize, Level, Maintenance, PhysAddr, Stage1Attributes, VirtAddr};

const PAGE: u64 = 0x1000;

fn range(from: u64, bytes: u64) -> std::ops::Range<VirtAddr> {
    VirtAddr::new(from)..VirtAddr::new(from + bytes)
}

/// Some of a group, of a block and of a table lead elsewhere: no TLB holds what was there beside what comes.
#[test]
fn what_leads_elsewhere_is_forgotten_first() {
    let (to, attributes) = (PhysAddr::new(9 * GIB), DATA);
    for largest in [LeafSize::PAGE, LeafSize::group(Level::L3), LeafSize::single(Level::L2), LeafSize::LARGEST] {
        for (first, count) in [(0, 1), (5, 1), (0, 16), (5, 20), (16, 16), (0, 512), (500, 20)] {
            let memory = Memory::new();
            let bytes = if largest == LeafSize::LARGEST { 64 * MIB } else { 4 * MIB };
            let mut table = live_4k(&memory, &[map(0, bytes, GIB, largest)]);
            let mut walkers = Walkers::of(&table, &memory, Beside::InPlace);
            let from = range(first * PAGE, count * PAGE);
            let remap = [Change::Remap { from, to, attributes, largest: LeafSize::LARGEST }];
            let refusal = table.plan(&remap, None).map(drop);
            assert!(matches!(refusal, Err(Refusal::NeedsLicence(_))), "{refusal:?}");
            let (steps, _) = change(&mut table, &memory, &remap, Some(&Licence::break_before_make(&())));
            walkers.follow(&steps);
            walkers.check();
            for page in [0, first.saturating_sub(1), first, first + count - 1, first + count, bytes / PAGE - 1] {
                let is_other = (first..first + count).contains(&page);
                let to = if is_other { 9 * GIB + (page - first) * PAGE } else { GIB + page * PAGE };
                let found = table.view().translate(VirtAddr::new(page * PAGE)).unwrap();
                assert_eq!(found.output, PhysAddr::new(to), "{page} of {first} and {count} more, {largest:?}");
            }
        }
    }
}

/// A table of which nothing stays is made anew as a whole, and comes free.
#[test]
fn a_table_is_made_anew_as_one() {
    for (to, retired) in [(GIB, 0), (9 * GIB, 1), (9 * GIB + PAGE, 1)] {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, 2 * MIB, GIB, LeafSize::PAGE)]);
        let (from, attributes, largest) = (range(0, 2 * MIB), DATA, LeafSize::PAGE);
        let remap = [Change::Remap { from, to: PhysAddr::new(to), attributes, largest }];
        let (steps, count) = change(&mut table, &memory, &remap, Some(&Licence::break_before_make(&())));
        assert_eq!(count, retired, "{to:#x}");
        assert!(steps.iter().filter(is_maintenance).count() <= 2, "{to:#x}: {steps:?}");
    }
}

/// Where one page of all below is valid, all is made anew; where none is, each leaf is, for no TLB knows of any.
#[test]
fn one_valid_page_in_a_table_of_a_table_has_both_made_anew() {
    for (valid, retired) in [(PAGE, 2), (0, 0)] {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, GIB, 0, LeafSize::LARGEST)]);
        let licence = Licence::break_before_make(&());
        change(&mut table, &memory, &[Change::SplitToPages { from: range(0, PAGE) }], Some(&licence));
        for hidden in [range(valid, 2 * MIB - valid), range(2 * MIB, GIB - 2 * MIB)] {
            change(&mut table, &memory, &[Change::MakeInvalid { from: hidden }], Some(&licence));
        }
        let (from, to) = (range(0, GIB), PhysAddr::new(9 * GIB));
        let remap = [Change::Remap { from, to, attributes: DATA, largest: LeafSize::LARGEST }];
        let (_, count) = change(&mut table, &memory, &remap, Some(&licence));
        assert_eq!((count, leaves(&table).len() == 1), (retired, retired > 0), "{valid:#x} bytes");
    }
}

/// Where a block has nT, or what others left in its low address bits, its pages have their addresses.
#[test]
fn what_is_no_attribute_of_a_page_stays_behind() {
    for bits in [Descriptor::NT, 0] {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, 2 * MIB, GIB, LeafSize::single(Level::L2))]);
        let slot = table.view().path(VirtAddr::new(0)).last().unwrap().slot;
        memory.store(slot, Descriptor::new(memory.load(slot).bits() | bits));
        change(
            &mut table,
            &memory,
            &[Change::SplitToPages { from: range(0, PAGE) }],
            Some(&Licence::break_before_make(&())),
        );
        let outputs = (0..512).map(|page| table.view().translate(VirtAddr::new(page * PAGE)).unwrap().output);
        assert!(outputs.eq((0..512).map(|page| PhysAddr::new(GIB + page * PAGE))), "{bits:#x}");
    }
}

/// The access flag that is cleared together with another memory type stays clear, though it was set before.
#[test]
fn what_is_cleared_with_a_break_stays_clear() {
    let device = Stage1Attributes::from_bits_retain(1 << 2);
    for hardware_updates in [HardwareUpdates::None, HardwareUpdates::AccessFlag, HardwareUpdates::DirtyState] {
        for largest in [LeafSize::PAGE, LeafSize::group(Level::L3), LeafSize::single(Level::L2)] {
            let memory = Memory::new();
            let regime = El1 { hardware_updates, ..KERNEL };
            let bytes = largest.size_bytes(vellum_vmsa::PageSize::Size4K);
            let setup = [map(0, bytes, GIB, largest)];
            let mut table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), regime, &setup);
            let protect = Change::Protect { from: range(0, bytes), set: device, clear: Stage1Attributes::AF };
            change(&mut table, &memory, &[protect], Some(&Licence::break_before_make(&())));
            let bits = (device | Stage1Attributes::AF).bits();
            assert!(leaves(&table).iter().all(|leaf| leaf.2.bits() & bits == device.bits()), "{hardware_updates:?}");
        }
    }
}

fn is_maintenance(step: &&Step) -> bool {
    matches!(step, Step::Maintain(Maintenance::Invalidate(..)))
}

/// A block of level 3, and a kept table: whoever made them, they go with what is unmapped, and are else no mapping.
#[test]
fn what_no_engine_makes_goes_whole_or_stays() {
    let (set, clear) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty());
    for (bits, is_valid) in [(GIB | 0x701, true), (GIB | 0x702 & !2 | 4, false)] {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, 2 * PAGE, GIB, LeafSize::PAGE)]);
        let slot = table.view().path(VirtAddr::new(0)).last().unwrap().slot;
        let other = Slot::new(slot.address(), 1);
        let kept = memory.load(other);
        memory.store(slot, Descriptor::new(bits));
        let protect = Change::Protect { from: range(0, PAGE), set, clear };
        assert_eq!(table.plan(&[protect], None).map(drop), Err(Refusal::NotMapped(0)), "{bits:#x}");
        let (steps, _) = change(&mut table, &memory, &[unmap(0, PAGE)], None);
        assert_eq!((memory.load(slot), memory.load(other)), (Descriptor::INVALID, kept), "{bits:#x}");
        assert_eq!(steps.iter().filter(is_maintenance).count(), usize::from(is_valid), "{bits:#x}: {steps:?}");
    }
    // At level 2 of a whole table, of which a page is unmapped: nobody knows what the rest was.
    for bits in [GIB | 2, GIB | 0x702] {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, PAGE, GIB, LeafSize::PAGE)]);
        let slot = table.view().path(VirtAddr::new(2 * MIB)).last().unwrap().slot;
        memory.store(slot, Descriptor::new(bits));
        let _ = memory.take_steps();
        assert_eq!(table.plan(&[unmap(2 * MIB, PAGE)], None).map(drop), Err(Refusal::NotMapped(2 * MIB)));
        let protect = Change::Protect { from: range(2 * MIB, 2 * MIB), set, clear };
        assert_eq!(table.plan(&[protect], None).map(drop), Err(Refusal::NotMapped(2 * MIB)), "{bits:#x}");
        assert_eq!(memory.take_steps(), []);
        change(&mut table, &memory, &[unmap(2 * MIB, 2 * MIB)], None);
        assert_eq!(memory.load(slot), Descriptor::INVALID);
    }
}
