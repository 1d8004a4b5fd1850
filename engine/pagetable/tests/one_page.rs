//! `protect_page` and `make_page_valid` do, step for step, what a plan of one change does, or nothing.

use crate::common;

use common::{DATA, GIB, KERNEL, MIB, Table, live_4k, map};
use vellum_pagetable::{
    Change, El1, El2, HardwareUpdates, Memory, PageTable, Platform, Refusal, Regime, Reserve, Slot, Step, TlbFeatures,
};
use vellum_vmsa::{
    AddressHalf, Descriptor, Geometry, Granule, Granule4K, Layout, LeafSize, Level, PhysAddr, Stage1Attributes,
    VirtAddr,
};

const PAGE: u64 = 0x1000;

/// What is mapped: pages, groups of both levels and blocks, kept leaves, and a hole after the last.
fn setup() -> Vec<Change<El1>> {
    let sizes = [LeafSize::PAGE, LeafSize::group(Level::L3), LeafSize::single(Level::L2), LeafSize::group(Level::L2)];
    let maps = sizes.into_iter().zip(0..).map(|(size, number)| {
        let at = number * 32 * MIB;
        map(at, size.size_bytes(Granule4K::PAGE_SIZE).max(64 * PAGE), at, size)
    });
    maps.collect()
}

fn page(at: u64) -> std::ops::Range<VirtAddr> {
    VirtAddr::new(at)..VirtAddr::new(at.wrapping_add(PAGE))
}

/// Some pages are kept, and some cannot be told from kept ones but for bit 0.
fn hide(memory: &Memory, table: &mut Table<'_, Granule4K>) {
    let (set, clear) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty());
    let protect = Change::Protect { from: page(7 * PAGE), set, clear };
    common::change(table, memory, &[Change::MakeInvalid { from: page(6 * PAGE) }, protect], None);
}

/// A page table that holds all that, as `how` says: live, offline, with hardware that marks.
fn prepared<'m>(memory: &'m Memory, how: How) -> Table<'m, Granule4K> {
    let marked = El1 { hardware_updates: HardwareUpdates::DirtyState, ..KERNEL };
    let mut table = match how {
        How::Live => live_4k(memory, &setup()),
        How::Marked => common::live(memory, (39, Layout::Bits48), marked, &setup()),
        How::Offline => common::offline(memory, 39, Layout::Bits48),
    };
    if let How::Offline = how {
        common::change(&mut table, memory, &setup(), None);
    }
    hide(memory, &mut table);
    let _ = memory.take_steps();
    table
}

#[derive(Clone, Copy, Debug)]
enum How {
    Live,
    Marked,
    Offline,
}

/// What a plan without licence or tables does.
fn by_plan(how: How, change: Change<El1>) -> Result<Vec<Step>, Refusal> {
    let (memory, mut reserve) = (Memory::default(), Reserve::new());
    let mut table = prepared(&memory, how);
    let mut gather = table.gather();
    table.plan(&[change], None)?.apply(&mut reserve, &mut gather)?;
    let _ = gather.finish(&memory);
    Ok(memory.take_steps())
}

/// Pages of each size of leaf, kept ones and what is no page; the first is a leaf by itself.
fn pages() -> impl Iterator<Item = u64> {
    let middle = [0, 1, 2, 3, 4].map(|number| number * 32 * MIB + 5 * PAGE);
    middle.into_iter().chain([6 * PAGE, 7 * PAGE, 7 * PAGE + 8, 1 << 39, (1 << 39) - PAGE, u64::MAX - PAGE + 1])
}

/// Whether the shortcut changed the page, by the steps of a plan.
fn is_changed_as_by_plan(
    how: How,
    change: Change<El1>,
    shortcut: impl FnOnce(&mut Table<'_, Granule4K>) -> bool,
) -> bool {
    let memory = Memory::default();
    let is_changed = shortcut(&mut prepared(&memory, how));
    let steps = memory.take_steps();
    let planned = by_plan(how, change.clone());
    match (is_changed, how) {
        (false, _) => assert_eq!(steps, [], "{how:?} {change:?}"),
        // Where nobody walks, a page that is as asked may be stored once more.
        (true, How::Offline) if planned == Ok(Vec::new()) => assert_eq!(steps.len(), 1, "{change:?}"),
        (true, _) => assert_eq!(Ok(steps), planned, "{how:?} {change:?}"),
    }
    is_changed
}

#[test]
fn a_page_is_protected_as_by_a_plan_or_not_at_all() {
    let none = Stage1Attributes::empty();
    let attributes = [
        (Stage1Attributes::READ_ONLY, none),
        (none, Stage1Attributes::AF),
        (Stage1Attributes::SOFTWARE, none),
        (none, none),
        (Stage1Attributes::memory(1), none),
        (Stage1Attributes::from_bits_retain(1), none),
        (none, DATA),
    ];
    let mut changed = 0;
    for at in pages() {
        for ((set, clear), how) in
            attributes.into_iter().flat_map(|it| [How::Live, How::Marked, How::Offline].map(|how| (it, how)))
        {
            let change = Change::Protect { from: page(at), set, clear };
            let is_changed =
                is_changed_as_by_plan(how, change, |table| table.protect_page(VirtAddr::new(at), set, clear));
            changed += usize::from(is_changed);
            // A page that is a leaf by itself, valid or kept.
            let is_single = [5, 6, 7].contains(&(at / PAGE)) && at % PAGE == 0;
            let is_single = is_single && (set == Stage1Attributes::READ_ONLY || clear == Stage1Attributes::AF);
            assert!(is_changed || !is_single, "{how:?} {at:#x} {set:?} {clear:?}");
        }
    }
    assert!(changed > 30);
}

#[test]
fn a_page_is_hidden_and_shown_as_by_a_plan_or_not_at_all() {
    for (at, how) in pages().flat_map(|at| [How::Live, How::Marked, How::Offline].map(|how| (at, how))) {
        let hidden = is_changed_as_by_plan(how, Change::MakeInvalid { from: page(at) }, |table| {
            table.make_page_valid(VirtAddr::new(at), false)
        });
        let shown = is_changed_as_by_plan(how, Change::MakeValid { from: page(at) }, |table| {
            table.make_page_valid(VirtAddr::new(at), true)
        });
        let is_single = [5 * PAGE, 6 * PAGE, 7 * PAGE].contains(&at);
        assert_eq!((hidden, shown), (is_single, is_single), "{how:?} {at:#x}");
    }
}

/// The last page of the upper half.
#[test]
fn the_last_page_of_all_is_a_page() {
    let memory = Memory::default();
    let mut reserve = Reserve::new();
    memory.supply::<Granule4K>(&mut reserve, 8);
    let geometry = Geometry::new(39, Layout::Bits48, AddressHalf::Upper).unwrap();
    let mut table = PageTable::<Granule4K, _, _>::offline(&memory, geometry, KERNEL, &mut reserve).unwrap();
    let last = VirtAddr::new(0u64.wrapping_sub(PAGE));
    let block = VirtAddr::new(0u64.wrapping_sub(2 * MIB));
    let map =
        Change::Map { from: block..VirtAddr::new(0), to: PhysAddr::new(0), attributes: DATA, largest: LeafSize::PAGE };
    common::change(&mut table, &memory, &[map], None);
    let (set, clear) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty());
    assert!(table.protect_page(last, set, clear));
    let leaf = table.view().translate(last).unwrap();
    assert_ne!(leaf.descriptor.bits() & Stage1Attributes::READ_ONLY.bits(), 0);
}

/// Attributes that a page may change by one store: RWHZWS, and of EL2 not those that it does not have.
#[test]
fn a_page_changes_what_may_change_in_place_and_nothing_else() {
    fn check<R: Regime<Input = VirtAddr, Attributes = Stage1Attributes>>(regime: R, absent: u64) {
        let memory = Memory::new();
        let from = VirtAddr::new(0)..VirtAddr::new(PAGE);
        let attributes = DATA.difference(Stage1Attributes::from_bits_retain(absent));
        let setup = Change::Map { from, to: PhysAddr::new(0), attributes, largest: LeafSize::PAGE };
        let mut table = common::live::<Granule4K, _>(&memory, (39, Layout::Bits48), regime, &[setup]);
        // AP, AF, GP, DBM, PXN, XN, and software's own.
        let in_place = 0b11 << 6 | 1 << 10 | 1 << 50 | 1 << 51 | 0b11 << 53 | 0b1111 << 55;
        for bit in 0..64 {
            let (named, none) = (Stage1Attributes::from_bits_retain(1 << bit), Stage1Attributes::empty());
            let is_asked = table.protect_page(VirtAddr::new(0), named, none);
            assert_eq!(is_asked, in_place & !absent & 1 << bit != 0, "bit {bit}");
            assert_eq!(table.protect_page(VirtAddr::new(0), none, named), is_asked, "bit {bit}");
        }
    }
    check(KERNEL, 0);
    check(El2 { tlb: TlbFeatures::NONE, hardware_updates: HardwareUpdates::None }, 1 << 53 | 1 << 11);
}

/// A kept page is protected as a plan does it, live or not.
#[test]
fn a_kept_page_is_protected() {
    for (is_live, bits) in [(true, 39), (false, 39), (true, 48), (false, 48)] {
        let memory = Memory::new();
        let mut table = common::offline::<Granule4K>(&memory, bits, Layout::Bits48);
        common::change(&mut table, &memory, &[map(0, PAGE, MIB, LeafSize::PAGE)], None);
        let mut table = if is_live { table.publish() } else { table };
        assert!(table.make_page_valid(VirtAddr::new(0), false));
        let slot = table.view().path(VirtAddr::new(0)).last().unwrap().slot;
        let kept = memory.load(slot).bits();
        assert!(table.protect_page(VirtAddr::new(0), Stage1Attributes::READ_ONLY, Stage1Attributes::AF));
        assert_eq!(memory.load(slot), Descriptor::new(kept & !(1 << 10) | 1 << 7));
    }
}

/// An address that is not the start of a page, or lies behind the page table, has no page.
#[test]
fn a_page_begins_as_pages_do_and_lies_within() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 2 * PAGE, GIB, LeafSize::PAGE)]);
    // What a walk beyond the root would find: the root's neighbour is a table of pages, and the first page here another two.
    for (table, index, leads) in [(GIB, 0, GIB + 2 * PAGE), (GIB, 1, GIB + 2 * PAGE)] {
        memory
            .store(Slot::new(PhysAddr::new(table), index), Descriptor::table(Layout::Bits48, PhysAddr::new(leads), 0));
    }
    for index in 0..2 {
        memory.store(Slot::new(PhysAddr::new(GIB + 2 * PAGE), index), Descriptor::INVALID);
    }
    let before = memory.descriptors();
    let (set, none) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty());
    for at in [1, 2, 0x800, PAGE + 1, 1 << 39, (1 << 39) + PAGE, 1 << 40, 1 << 63] {
        assert!(!table.protect_page(VirtAddr::new(at), set, none), "{at:#x}");
        assert!(!table.make_page_valid(VirtAddr::new(at), false), "{at:#x}");
        assert!(!table.map_page(VirtAddr::new(at), PhysAddr::new(64 * MIB), DATA), "{at:#x}");
    }
    assert!(memory.descriptors() == before);
}
