//! `protect_page` and `make_page_valid` do, step for step, what a plan of one change does, or nothing.

use crate::common;

use common::{DATA, GIB, KERNEL, MIB, Table, live_4k, map, shape};
use vellum_pagetable::{
    Census, Change, El1, El2, HardwareUpdates, Licence, Memory, PageTable, Platform, Refusal, Regime, Reserve, Slot,
    Step, TlbFeatures, Tolerance,
};
use vellum_vmsa::{
    AddressHalf, BbmLevel, Descriptor, Granule, Granule4K, Granule64K, Layout, LeafSize, Level, PhysAddr,
    Stage1Attributes, VirtAddr,
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
        How::Live | How::Tolerated => live_4k(memory, &setup()),
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
    /// Live, and every CPU tolerates that a leaf changes size.
    Tolerated,
    Marked,
    Offline,
}

const ALL: [How; 4] = [How::Live, How::Tolerated, How::Marked, How::Offline];

/// Runs `body` with the licence that there is.
fn licensed<T>(how: How, body: impl FnOnce(Option<&Licence<'_>>) -> T) -> T {
    let census = Census::new(Tolerance::new(BbmLevel::Level3, false));
    body(census.tolerated().filter(|_| !matches!(how, How::Live)).as_ref())
}

/// What a plan without tables does.
fn by_plan(how: How, change: Change<El1>) -> Result<Vec<Step>, Refusal> {
    let (memory, mut reserve) = (Memory::default(), Reserve::new());
    let mut table = prepared(&memory, how);
    let mut gather = table.gather();
    licensed(how, |licence| table.plan(&[change], licence)?.apply(&mut reserve, &mut gather))?;
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
    shortcut: impl FnOnce(&mut Table<'_, Granule4K>, Option<&Licence<'_>>) -> bool,
) -> bool {
    let memory = Memory::default();
    let is_changed = licensed(how, |licence| shortcut(&mut prepared(&memory, how), licence));
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

/// A page that is a leaf by itself, valid or kept, or one of a group that may end in place.
fn is_single(how: How, at: u64) -> bool {
    [5 * PAGE, 6 * PAGE, 7 * PAGE].contains(&at) || matches!(how, How::Tolerated) && at == 32 * MIB + 5 * PAGE
}

/// A group of which others took a member away is not what `leave_group` takes it for.
#[test]
fn a_page_of_a_group_with_a_hole_takes_a_plan() {
    for hole in 0..20 {
        if hole == 5 {
            continue;
        }
        let memory = Memory::default();
        let mut table = prepared(&memory, How::Tolerated);
        let at = 32 * MIB + 5 * PAGE;
        let leaf = table.view().path(VirtAddr::new(at)).last().expect("a page");
        let slot = Slot::new(PhysAddr::new(leaf.slot.address().bits() & !(PAGE - 1)), hole);
        memory.store(slot, Descriptor::INVALID);
        let _ = memory.take_steps();
        let is_changed = licensed(How::Tolerated, |licence| table.make_page_valid(VirtAddr::new(at), false, licence));
        // The first group of the table is the page's.
        assert_eq!((is_changed, memory.take_steps().is_empty()), (hole >= 16, hole < 16), "{hole}");
    }
}

/// A group ends in place only where no conflict may come of that.
#[test]
fn a_page_of_a_group_takes_a_plan_unless_every_cpu_tolerates_that_it_ends() {
    let mut changed = Vec::new();
    common::each_licence(|licence| {
        let memory = Memory::default();
        let mut table = prepared(&memory, How::Tolerated);
        let is_changed = table.make_page_valid(VirtAddr::new(32 * MIB + 5 * PAGE), false, Some(licence));
        assert_eq!(memory.take_steps().is_empty(), !is_changed);
        changed.push(is_changed);
    });
    assert_eq!(changed, [false, false, false, true], "level 3 alone");
}

/// The last member is one of the group, how many there may be: 32 with 64 KiB pages.
#[test]
fn a_page_of_a_large_group_with_a_hole_takes_a_plan() {
    for hole in 1..40 {
        let memory = Memory::default();
        let pages = map(0, 64 << 16, 0, LeafSize::group(Level::L3));
        let mut table = common::live::<Granule64K, _>(&memory, (42, Layout::Bits48), KERNEL, &[pages]);
        let leaf = table.view().path(VirtAddr::new(0)).last().expect("a page");
        memory.store(Slot::new(leaf.slot.address(), hole), Descriptor::INVALID);
        let is_changed = licensed(How::Tolerated, |licence| table.make_page_valid(VirtAddr::new(0), false, licence));
        assert_eq!(is_changed, hole >= 32, "{hole}");
    }
}

/// Kept members are no group, whatever they say.
#[test]
fn kept_members_take_a_plan() {
    let memory = Memory::default();
    let mut table = prepared(&memory, How::Tolerated);
    let at = 32 * MIB + 5 * PAGE;
    let leaf = table.view().path(VirtAddr::new(at)).last().expect("a page");
    for number in 0..16 {
        let slot = Slot::new(PhysAddr::new(leaf.slot.address().bits() & !(PAGE - 1)), number);
        memory.store(slot, Descriptor::new(memory.load(slot).bits() & !Descriptor::VALID));
    }
    let _ = memory.take_steps();
    assert!(!licensed(How::Tolerated, |licence| table.make_page_valid(VirtAddr::new(at), true, licence)));
    assert_eq!(memory.take_steps(), []);
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
        for ((set, clear), how) in attributes.into_iter().flat_map(|it| ALL.map(|how| (it, how))) {
            let change = Change::Protect { from: page(at), set, clear };
            let is_changed = is_changed_as_by_plan(how, change, |table, licence| {
                table.protect_page(VirtAddr::new(at), set, clear, licence)
            });
            changed += usize::from(is_changed);
            let is_single = is_single(how, at);
            let is_single = is_single && (set == Stage1Attributes::READ_ONLY || clear == Stage1Attributes::AF);
            assert!(is_changed || !is_single, "{how:?} {at:#x} {set:?} {clear:?}");
        }
    }
    assert!(changed > 30);
}

#[test]
fn a_page_is_hidden_and_shown_as_by_a_plan_or_not_at_all() {
    for (at, how) in pages().flat_map(|at| ALL.map(|how| (at, how))) {
        let hidden = is_changed_as_by_plan(how, Change::MakeInvalid { from: page(at) }, |table, licence| {
            table.make_page_valid(VirtAddr::new(at), false, licence)
        });
        let shown = is_changed_as_by_plan(how, Change::MakeValid { from: page(at) }, |table, licence| {
            table.make_page_valid(VirtAddr::new(at), true, licence)
        });
        // A group that stays as it is stays a group.
        let is_shown = is_single(How::Live, at);
        assert_eq!((hidden, shown), (is_single(how, at), is_shown), "{how:?} {at:#x}");
    }
}

/// The last page of the upper half.
#[test]
fn the_last_page_of_all_is_a_page() {
    let memory = Memory::default();
    let mut reserve = Reserve::new();
    memory.supply::<Granule4K>(&mut reserve, 8);
    let geometry = shape(39, AddressHalf::Upper);
    let mut table = PageTable::<Granule4K, _, _>::offline(&memory, geometry, KERNEL, &mut reserve).unwrap();
    let last = VirtAddr::new(0u64.wrapping_sub(PAGE));
    let block = VirtAddr::new(0u64.wrapping_sub(2 * MIB));
    let map =
        Change::Map { from: block..VirtAddr::new(0), to: PhysAddr::new(0), attributes: DATA, largest: LeafSize::PAGE };
    common::change(&mut table, &memory, &[map], None);
    let (set, clear) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty());
    assert!(table.protect_page(last, set, clear, None));
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
            let is_asked = table.protect_page(VirtAddr::new(0), named, none, None);
            assert_eq!(is_asked, in_place & !absent & 1 << bit != 0, "bit {bit}");
            assert_eq!(table.protect_page(VirtAddr::new(0), none, named, None), is_asked, "bit {bit}");
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
        assert!(table.make_page_valid(VirtAddr::new(0), false, None));
        let slot = table.view().path(VirtAddr::new(0)).last().unwrap().slot;
        let kept = memory.load(slot).bits();
        assert!(table.protect_page(VirtAddr::new(0), Stage1Attributes::READ_ONLY, Stage1Attributes::AF, None));
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
        assert!(!table.protect_page(VirtAddr::new(at), set, none, None), "{at:#x}");
        assert!(!table.make_page_valid(VirtAddr::new(at), false, None), "{at:#x}");
        assert!(!table.map_page(VirtAddr::new(at), PhysAddr::new(64 * MIB), DATA), "{at:#x}");
    }
    assert!(memory.descriptors() == before);
}
