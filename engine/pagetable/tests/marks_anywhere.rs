//! Hardware marks a leaf at any moment: between plan and apply, and before any access of an apply. Whatever the change and the
//! licence, no mark is lost that the change does not take, nothing else changes, TLBs keep nothing and no table is missing.

use crate::common;

use std::cell::{Cell, RefCell};
use std::ops::Range;

use common::each_licence;
use common::regimes::Drawn;
use common::tlbi::Watched;
use common::walkers::{Beside, Walkers};
use vellum_pagetable::{
    Change, El1, HardwareUpdates, Licence, Memory, PageTable, Platform, Reserve, Slot, Stage2, Step, Summary,
    TlbFeatures, View,
};
use vellum_vmsa::{Descriptor, Granule, Granule4K, Layout, LeafSize, Level, Maintenance, Meaning, PhysAddr};

const AF: u64 = 1 << 10;
const DBM: u64 = 1 << 51;
/// Bit 7: of stage 1 it forbids writing, of stage 2 it permits it.
const WRITE: u64 = 1 << 7;
/// What a change sets: execution is forbidden.
const SET: u64 = 1 << 54;
const PAGE: u64 = 0x1000;
const BLOCK: u64 = 0x20_0000;
const BASE: u64 = 0x1_0000_0000;
const OUTPUT: u64 = 0x8_0000_0000;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Access {
    Load,
    Store,
    Exchange,
    Maintain,
}

/// Memory whose hardware is about to mark the leaf of an address: before the access of this number, which counts down.
struct Machine<R: Drawn> {
    memory: Memory,
    regime: R,
    root: PhysAddr,
    armed: Cell<Option<(usize, u64)>>,
    /// The kind of each access so far.
    accesses: RefCell<Vec<Access>>,
    is_marked: Cell<bool>,
}

impl<R: Drawn> Machine<R> {
    fn tick(&self, access: Access) {
        self.accesses.borrow_mut().push(access);
        match self.armed.get() {
            Some((0, at)) => {
                self.armed.set(None);
                self.mark(at);
            }
            Some((left, at)) => self.armed.set(Some((left - 1, at))),
            None => {}
        }
    }

    /// A CPU writes to an address: the leaf there says so, if it may.
    fn mark(&self, at: u64) {
        let geometry = R::fixed::<Granule4K>(40);
        let view: View<'_, Granule4K, R, _> = View::new(&self.memory, geometry, self.regime, self.root);
        let leaf = view.path(at.into()).last().unwrap();
        if let Meaning::Leaf(..) = leaf.meaning {
            let bits = leaf.descriptor.bits();
            let written = if self.regime.marks(bits) & WRITE != 0 { bits & !WRITE | dirty::<R>() } else { bits };
            self.memory.store(leaf.slot, Descriptor::new(written | AF));
            self.is_marked.set(true);
        }
    }
}

impl<R: Drawn> Platform for Machine<R> {
    fn load(&self, slot: Slot) -> Descriptor {
        self.tick(Access::Load);
        self.memory.load(slot)
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.tick(Access::Store);
        self.memory.store(slot, descriptor);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.tick(Access::Exchange);
        self.memory.exchange(slot, old, new)
    }

    fn maintain(&self, operation: Maintenance) {
        self.tick(Access::Maintain);
        self.memory.maintain(operation);
    }
}

/// Bit 7 of a leaf that was written, of one that DBM manages.
fn dirty<R: Drawn>() -> u64 {
    WRITE & !R::clean(DBM)
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Deed {
    Remap,
    Protect,
    Unmap,
    Hide,
    Age,
    Clean,
    Split,
    Pages,
    Collapse,
}

const DEEDS: [Deed; 9] = [
    Deed::Remap,
    Deed::Protect,
    Deed::Unmap,
    Deed::Hide,
    Deed::Age,
    Deed::Clean,
    Deed::Split,
    Deed::Pages,
    Deed::Collapse,
];

fn at<R: Drawn>(offsets: &Range<u64>) -> Range<R::Input> {
    (BASE + offsets.start).into()..(BASE + offsets.end).into()
}

fn change<R: Drawn>(deed: Deed, offsets: &Range<u64>, attributes: u64) -> Change<R> {
    let from = at::<R>(offsets);
    match deed {
        Deed::Remap => {
            let to = PhysAddr::new(2 * OUTPUT + offsets.start);
            Change::Remap { from, to, attributes: R::attributes(attributes), largest: LeafSize::LARGEST }
        }
        Deed::Protect => Change::Protect { from, set: R::attributes(SET), clear: R::attributes(0) },
        Deed::Unmap => Change::Unmap { from },
        Deed::Hide => Change::MakeInvalid { from },
        Deed::Age => Change::Age { from },
        Deed::Clean => Change::Clean { from },
        Deed::Split => Change::Split { at: from.start },
        Deed::Pages => Change::SplitToPages { from },
        Deed::Collapse => Change::Collapse { from },
    }
}

/// What happens: leaves of a size, with these attributes; a change of a part; a mark of a page.
#[derive(Clone, Debug)]
struct Case {
    hardware: HardwareUpdates,
    size: LeafSize,
    bytes: u64,
    attributes: u64,
    deed: Deed,
    part: Range<u64>,
    marked: u64,
}

/// The steps of a case in which hardware marks before access number `moment`, and how many accesses there were; none if the
/// change is refused.
fn run<R: Drawn + Watched>(
    case: &Case,
    licence: &Licence<'_>,
    beside: Beside,
    moment: Option<usize>,
) -> Option<(Vec<Step>, Vec<Access>)> {
    let memory = Memory::new();
    let regime = R::drawn(TlbFeatures { range: false, level_hints: true, repeat: false }, case.hardware, 0);
    let map = Change::Map {
        from: at::<R>(&(0..case.bytes)),
        to: PhysAddr::new(OUTPUT),
        attributes: R::attributes(case.attributes),
        largest: case.size,
    };
    let geometry = R::fixed::<Granule4K>(40);
    let table = common::live_at(&memory, geometry, regime, &[map]);
    let mut walkers = Walkers::of(&table, &memory, beside);
    let before = Summary::read(&table.view(), table.view().range()).unwrap().tables();
    let root = table.root();
    let mut reserve = Reserve::new();
    let machine = Machine {
        memory,
        regime,
        root,
        armed: Cell::new(None),
        accesses: RefCell::default(),
        is_marked: Cell::new(false),
    };
    let changes = [change::<R>(case.deed, &case.part, case.attributes)];
    let mut table: PageTable<'_, Granule4K, R, _> = PageTable::live(&machine, geometry, regime, root).unwrap();
    let mut plan = table.plan(&changes, Some(licence)).ok()?;
    let supplied = plan.tables_needed();
    machine.memory.supply::<Granule4K>(&mut reserve, supplied);
    let _ = machine.memory.take_steps();
    let mut gather = plan.gather();
    machine.accesses.take();
    machine.armed.set(moment.map(|moment| (moment, BASE + case.marked)));
    plan.apply(&mut reserve, &mut gather).unwrap();
    let retired = gather.finish(&machine);
    let (steps, accesses) = (machine.memory.take_steps(), machine.accesses.take());
    walkers.follow(&steps);
    walkers.check();
    let after = Summary::read(&table.view(), table.view().range()).unwrap().tables();
    assert_eq!(after + retired.count() + reserve.count(), before + supplied, "tables are lost: {case:x?}");
    check_pages(&table, case, machine.is_marked.get());
    Some((steps, accesses))
}

/// Every page is what it was, but for what was changed and what was marked.
fn check_pages<R: Drawn>(table: &PageTable<'_, Granule4K, R, Machine<R>>, case: &Case, is_marked: bool) {
    // A few pages of each block, and those around what happens.
    let near = [case.part.start, case.part.end, case.marked].map(|at| at.saturating_sub(2 * PAGE)..at + 3 * PAGE);
    let some = (0..case.bytes).step_by((case.bytes as usize / 32).max(PAGE as usize));
    let pages = near.into_iter().flat_map(|range| range.step_by(PAGE as usize)).chain(some);
    let marks = table.regime().marks(case.attributes);
    let leaf_bytes = case.size.size_bytes(Granule4K::PAGE_SIZE);
    for page in pages.filter(|page| *page < case.bytes) {
        let is_changed = case.part.contains(&page) && !matches!(case.deed, Deed::Split | Deed::Pages | Deed::Collapse);
        let leaf = table.view().path((BASE + page).into()).last().unwrap();
        let bits = leaf.descriptor.bits();
        if case.deed == Deed::Unmap && is_changed {
            assert_eq!(bits, 0, "{page:#x} is there after {case:x?}");
            continue;
        }
        let hidden = case.deed == Deed::Hide && is_changed;
        assert_eq!(bits & 1 == 0, hidden, "{page:#x} after {case:x?}");
        let size = LeafSize { level: leaf.level, contiguous: false };
        let shown = Descriptor::new(bits | 1);
        let Meaning::Leaf(to, _) = shown.meaning(Granule4K::PAGE_SIZE, Layout::Bits48, leaf.level) else {
            panic!("{bits:#x}")
        };
        let to = to.bits() + (page & (size.size_bytes(Granule4K::PAGE_SIZE) - 1));
        assert_eq!(to, page + if is_changed && case.deed == Deed::Remap { 2 * OUTPUT } else { OUTPUT }, "{case:x?}");
        let mask = Layout::Bits48.attribute_mask(Granule4K::PAGE_SIZE, Level::L3);
        let expected = case.attributes | if case.deed == Deed::Protect && is_changed { SET } else { 0 };
        assert_eq!((bits ^ expected) & mask & !marks, 0, "{page:#x} is {bits:#x} after {case:x?}");
        let is_taken = is_changed && matches!(case.deed, Deed::Remap | Deed::Age | Deed::Clean);
        let says = R::says(bits) & !R::says(expected);
        if page == case.marked && is_marked && !is_taken {
            assert_eq!(bits & AF, AF, "the mark of {page:#x} is lost by {case:x?}");
            assert!(marks & WRITE == 0 || says & WRITE != 0, "the write to {page:#x} is lost by {case:x?}");
        }
        let is_of_it = page / leaf_bytes == case.marked / leaf_bytes || case.deed == Deed::Collapse;
        assert!(is_of_it || says == 0, "{page:#x} got marks of {:#x} by {case:x?}", case.marked);
    }
}

/// Moments that matter of a case: the first and the last, and some of those at which another kind of access begins.
fn moments(accesses: &[Access]) -> Vec<usize> {
    const MOST: usize = 4;
    let is_new = |number: &usize| accesses[*number] != accesses[number - 1];
    let begins: Vec<usize> = (1..accesses.len()).filter(is_new).collect();
    let some = begins.iter().copied().step_by(begins.len().div_ceil(MOST).max(1));
    [0].into_iter().chain(some).chain([accesses.len()]).collect()
}

fn check<R: Drawn + Watched>(hardware: HardwareUpdates, attributes: u64) {
    let (pages, group) = ((LeafSize::PAGE, 4 * PAGE), (LeafSize::group(Level::L3), 32 * PAGE));
    let (block, blocks) = ((LeafSize::single(Level::L2), 2 * BLOCK), (LeafSize::group(Level::L2), 16 * BLOCK));
    for (size, bytes) in [pages, group, block, blocks] {
        let one = size.size_bytes(Granule4K::PAGE_SIZE);
        let member = LeafSize::single(size.level).size_bytes(Granule4K::PAGE_SIZE);
        // A whole leaf, a page, and what lies across two members or leaves.
        for part in [0..one, PAGE..2 * PAGE, member - PAGE..member + PAGE] {
            for marked in [part.start, part.end] {
                // What takes or leaves many tables is as what takes few.
                let is_long = |deed: &Deed| match deed {
                    Deed::Collapse => size.level != Level::L3,
                    Deed::Pages => part.end > BLOCK,
                    _ => false,
                };
                for deed in DEEDS.into_iter().filter(|deed| !is_long(deed)) {
                    let case = Case { hardware, size, bytes, attributes, deed, part: part.clone(), marked };
                    check_case::<R>(&case);
                }
            }
        }
    }
}

/// Every licence by which the case goes another way, and every moment.
fn check_case<R: Drawn + Watched>(case: &Case) {
    let mut ways: Vec<Vec<Step>> = Vec::new();
    let mut besides = [Beside::InPlace, Beside::Groups, Beside::Sizes, Beside::Anything].into_iter();
    each_licence(|licence| {
        let beside = besides.next().unwrap();
        let Some((steps, accesses)) = run::<R>(case, licence, beside, None) else { return };
        if !ways.contains(&steps) {
            for moment in moments(&accesses) {
                let _ = run::<R>(case, licence, beside, Some(moment));
            }
            ways.push(steps);
        }
    });
}

/// Clean, and not accessed yet: bit 7 of a clean leaf is what `clean` makes of it.
#[test]
fn marks_of_managed_leaves_are_kept_whatever_is_done() {
    check::<El1>(HardwareUpdates::DirtyState, El1::clean(DBM));
    check::<Stage2>(HardwareUpdates::DirtyState, Stage2::clean(DBM));
}

#[test]
fn marks_of_leaves_that_are_not_managed_are_accesses_alone() {
    check::<El1>(HardwareUpdates::AccessFlag, El1::clean(DBM));
}
