//! Random changes, held against a naive map of page → (output address, attributes).
//!
//! After every list of changes: each page translates as the map says, every contiguous group is whole and uniform, every
//! table is accounted for, and a refusal has changed nothing. Where hardware may write, a page may be marked as its
//! neighbours are.

use crate::common;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::{ControlFlow, Range};

use common::draws::{Draw, draws};
use common::groups::check_groups;
use common::regimes::Drawn;
use common::tlbi::Watched;
use common::walkers::{Beside, Walkers};
use proptest::prelude::*;
use vellum_pagetable::{
    Census, Change, El1, El2, El2And0, HardwareUpdates, Licence, Memory, PageTable, Refusal, Reserve, Stage2, Step,
    TlbFeatures, Tolerance,
};
use vellum_vmsa::{
    Address, BbmLevel, Descriptor, Geometry, Granule, Granule4K, Granule16K, Granule64K, Layout, LeafSize, Level,
    Meaning, PhysAddr,
};

/// Output address, attribute bits, and whether the page is valid, not kept.
type Page = Option<(u64, u64, bool)>;

/// What the test knows: a few level-2 blocks' worth of pages around a level-1 boundary.
struct Model<G: Granule> {
    base: u64,
    pages: Vec<Page>,
    granule: std::marker::PhantomData<G>,
}

impl<G: Granule> Model<G> {
    fn new(geometry: Geometry<G>) -> Self {
        let block_pages = G::ENTRIES;
        let boundary = geometry.base() + (geometry.input_bytes() / 2);
        let base = boundary - (block_pages as u64) * G::SIZE_BYTES;
        Self { base, pages: vec![None; 3 * block_pages], granule: std::marker::PhantomData }
    }

    fn range(&self, draw: &Draw) -> Range<usize> {
        let group = 1 << G::PAGE_SIZE.contiguous_shift(Level::L3).unwrap();
        let align = [1, 1, group, G::ENTRIES / 2, G::ENTRIES][usize::from(draw.align)];
        let start = usize::from(draw.start) % self.pages.len() / align * align;
        let most = (self.pages.len() - start).min(2 * G::ENTRIES);
        let wanted = usize::from(draw.pages) % most / align * align;
        start..start + wanted.max(1)
    }

    fn address<A: Address>(&self, page: usize) -> A {
        self.base.wrapping_add(page as u64 * G::SIZE_BYTES).into()
    }

    fn change<R: Drawn>(&self, geometry: Geometry<G>, draw: &Draw) -> (Range<usize>, Change<R>) {
        let range = self.range(draw);
        let from: Range<R::Input> = self.address(range.start)..self.address(range.end);
        match draw.kind {
            0..=3 => {
                let high = if geometry.layout() == Layout::Bits48 { 0 } else { 0xb << 48 };
                // Mostly congruent to the input address, so that blocks and groups fit; else off by some pages.
                let skew = if draw.output.is_multiple_of(4) { u64::from(draw.output >> 2) * G::SIZE_BYTES } else { 0 };
                let to = PhysAddr::new(high + 0x4000_0000_0000 + from.start.bits() % (1 << 40) + skew);
                let sizes: Vec<_> = LeafSize::all(G::PAGE_SIZE, geometry.layout()).collect();
                let largest = sizes[usize::from(draw.largest) % sizes.len()];
                let attributes = R::played(draw.bits);
                let change = if draw.kind < 3 {
                    Change::Map { from, to, attributes, largest }
                } else {
                    Change::Remap { from, to, attributes, largest }
                };
                (range, change)
            }
            4 | 5 => {
                let clear = R::played(draw.bits.rotate_left(3));
                let set = R::played(draw.bits & draw.output as u8);
                let sparse = Change::ProtectSparse { from: from.clone(), set, clear };
                (range, if draw.kind == 4 { sparse } else { Change::Protect { from, set, clear } })
            }
            6 => (range, Change::Unmap { from }),
            7 => (range, Change::UnmapMapped { from }),
            8 => (range, Change::MakeInvalid { from }),
            9 => (range, Change::MakeValid { from }),
            10 => (range, Change::Age { from }),
            11 => (range, Change::Clean { from }),
            12 => (range, Change::SplitToPages { from }),
            13 | 14 => (range, Change::Collapse { from }),
            _ => (range.start..range.start + 1, Change::Split { at: from.start }),
        }
    }

    /// The error that a change deserves, if any; else the change is made.
    fn make<R: Drawn>(
        &mut self,
        table: &PageTable<'_, G, R, Memory>,
        at: Range<usize>,
        change: &Change<R>,
    ) -> Result<(), ()> {
        let (geometry, regime) = (table.geometry(), table.regime());
        let mask = geometry.layout().attribute_mask(G::PAGE_SIZE, Level::L3);
        let pages = &mut self.pages[at];
        let has_hole = pages.iter().any(Option::is_none);
        match change {
            Change::Map { .. } if pages.iter().any(Option::is_some) => return Err(()),
            Change::Protect { .. }
            | Change::UnmapMapped { .. }
            | Change::MakeInvalid { .. }
            | Change::MakeValid { .. }
                if has_hole =>
            {
                return Err(());
            }
            Change::Map { to, attributes, .. } | Change::Remap { to, attributes, .. } => {
                let attributes: u64 = (*attributes).into();
                for (page, index) in pages.iter_mut().zip(0..) {
                    let (output, bits) = (to.bits() + index * G::SIZE_BYTES, attributes & mask);
                    // What differs by marks alone may stay: they come when they come.
                    let is_left = page.is_some_and(|it| it.0 == output && (it.1 ^ bits) & !regime.marks(bits) == 0);
                    *page = Some((output, if is_left { regime.unmarked(bits) } else { bits }, true));
                }
            }
            Change::Protect { set, clear, .. } | Change::ProtectSparse { set, clear, .. } => {
                let (set, clear): (u64, u64) = ((*set).into(), (*clear).into());
                pages.iter_mut().flatten().for_each(|(_, bits, _)| *bits = *bits & !clear | set & mask);
            }
            Change::Age { .. } => pages.iter_mut().flatten().for_each(|(_, bits, _)| *bits &= !(1 << 10)),
            Change::Clean { .. } => {
                pages.iter_mut().flatten().for_each(|(_, bits, _)| *bits = R::clean(*bits));
            }
            Change::MakeInvalid { .. } => pages.iter_mut().flatten().for_each(|(_, _, is_valid)| *is_valid = false),
            Change::MakeValid { .. } => pages.iter_mut().flatten().for_each(|(_, _, is_valid)| *is_valid = true),
            Change::Unmap { .. } | Change::UnmapMapped { .. } => pages.fill(None),
            Change::Split { .. } | Change::SplitToPages { .. } | Change::Collapse { .. } => {}
        }
        Ok(())
    }
}

impl<G: Granule> Model<G> {
    /// Where pages hold more marks than expected, as they may, they are expected from now on.
    fn adopt_marks<R: Drawn>(&mut self, regime: R, pages: &[Page]) {
        for (mine, theirs) in self.pages.iter_mut().zip(pages) {
            let (Some((_, expected, _)), Some((_, found, _))) = (mine, theirs) else { continue };
            let is_lost = R::says(*expected) & !R::says(*found) != 0;
            if (*expected ^ found) & !regime.marks(*expected) == 0 && !is_lost {
                *expected = *found;
            }
        }
    }
}

/// Reads the tables: pages as the model keeps them, and the number of tables. The model adopts the marks it finds.
fn read<G: Granule, R: Drawn>(table: &PageTable<'_, G, R, Memory>, model: &mut Model<G>) -> (Vec<Page>, usize) {
    let geometry = table.geometry();
    let mask = geometry.layout().attribute_mask(G::PAGE_SIZE, Level::L3);
    let mut pages = vec![None; model.pages.len()];
    let mut tables = BTreeSet::from([table.root()]);
    let mut leaves = Vec::new();
    let view = table.view();
    let walk = view.for_each::<Infallible>(view.range(), |entry| {
        match entry.lookup.meaning {
            Meaning::Table(next) => assert!(tables.insert(next), "a table is linked twice"),
            Meaning::Reserved => panic!("a reserved descriptor"),
            _ => {
                let (level, descriptor) = (entry.lookup.level, entry.lookup.descriptor);
                let shown = Descriptor::new(descriptor.bits() | Descriptor::VALID);
                if descriptor != Descriptor::INVALID {
                    let Meaning::Leaf(to, _) = shown.meaning(G::PAGE_SIZE, geometry.layout(), level) else {
                        panic!("neither a hole nor a kept leaf");
                    };
                    leaves.push((entry.input.bits(), entry.shift, level, descriptor, to));
                }
            }
        }
        ControlFlow::Continue(())
    });
    assert!(walk.unwrap().is_continue());
    for &(input, shift, _, descriptor, to) in &leaves {
        let first = input.wrapping_sub(model.base) / G::SIZE_BYTES;
        for index in 0..1 << (shift - G::SHIFT) {
            let page = pages.get_mut((first + index) as usize).expect("a leaf beyond what was mapped");
            let output = to.bits() + index * G::SIZE_BYTES;
            *page = Some((output, descriptor.bits() & mask, descriptor.is_valid()));
        }
    }
    check_groups::<G, R>(table.regime(), &leaves);
    model.adopt_marks(table.regime(), &pages);
    (pages, tables.len())
}

/// How a run may change its tables.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Mode {
    Offline,
    Unlicensed,
    Break,
    NotCached,
    InPlace,
    Settling,
    /// Break-before-make where hardware manages the access flag.
    AccessFlag,
    /// Break-before-make where hardware manages access flag and dirty state.
    DirtyState,
}

impl Mode {
    fn hardware_updates(self) -> HardwareUpdates {
        match self {
            Self::AccessFlag => HardwareUpdates::AccessFlag,
            Self::DirtyState => HardwareUpdates::DirtyState,
            _ => HardwareUpdates::None,
        }
    }

    /// What the licence lets stand beside what TLBs hold.
    const fn beside(self) -> Beside {
        match self {
            Self::InPlace => Beside::Anything,
            Self::Settling => Beside::Sizes,
            Self::NotCached => Beside::Groups,
            _ => Beside::InPlace,
        }
    }
}

fn run<G: Granule, R: Drawn + Watched>(bits: u32, layout: Layout, choice: u8, mode: Mode, lists: &[Vec<Draw>]) {
    let memory = Memory::default();
    let geometry = R::shape::<G>(bits, layout, choice).unwrap();
    let tlb = TlbFeatures { range: choice & 2 != 0, level_hints: choice & 4 != 0, repeat: choice == 7 };
    let regime = R::drawn(tlb, mode.hardware_updates(), u16::from(choice));
    let mut reserve = Reserve::new();
    memory.supply::<G>(&mut reserve, 1);
    let mut table = match geometry.root_tables() {
        1 => PageTable::offline(&memory, geometry, regime, &mut reserve).unwrap(),
        // What the reserve got stays there.
        _ => PageTable::offline_at(&memory, geometry, regime, common::ROOT).unwrap(),
    };
    if mode != Mode::Offline {
        table = table.publish();
    }
    let mut walkers = (mode != Mode::Offline).then(|| Walkers::of(&table, &memory, mode.beside()));
    let mut supplied = 1 + usize::from(reserve.count() == 1);
    let mut model = Model::<G>::new(geometry);
    let guard = ();
    let census = |level| Census::new(Tolerance::new(level, true));
    let (third, second, first) = (census(BbmLevel::Level3), census(BbmLevel::Level2), census(BbmLevel::Level1));
    let licence = match mode {
        Mode::Offline | Mode::Unlicensed => None,
        Mode::Break | Mode::AccessFlag | Mode::DirtyState => Some(Licence::break_before_make(&guard)),
        Mode::NotCached => first.not_cached(),
        Mode::InPlace => third.tolerated(),
        Mode::Settling => second.tolerated(),
    };
    let _ = memory.take_steps();
    for list in lists {
        let drawn: Vec<_> = list.iter().map(|draw| model.change::<R>(geometry, draw)).collect();
        let changes: Vec<_> = drawn.iter().map(|(_, change)| change.clone()).collect();
        let mut wanted = Model::<G> { base: model.base, pages: model.pages.clone(), granule: model.granule };
        let is_apart = (0..drawn.len()).all(|i| {
            drawn[..i].iter().all(|(other, _)| other.end <= drawn[i].0.start || drawn[i].0.end <= other.start)
        });
        let deserved = drawn.into_iter().try_for_each(|(range, change)| wanted.make(&table, range, &change));
        match table.plan(&changes, licence.as_ref()) {
            Err(refusal) => {
                let is_deserved = deserved.is_err() || !is_apart;
                let is_due = match refusal {
                    Refusal::NeedsLicence(_) => mode == Mode::Unlicensed,
                    Refusal::NeedsBreak(_) => matches!(mode, Mode::NotCached | Mode::InPlace | Mode::Settling),
                    _ => false,
                };
                assert!(is_deserved || is_due, "{refusal}");
                assert!(memory.take_steps().is_empty(), "a refusal changed something");
            }
            Ok(plan) => {
                assert!(deserved.is_ok() && is_apart, "{changes:?} should be refused");
                let lacking = plan.tables_needed().saturating_sub(reserve.count());
                supplied += lacking;
                make(&mut table, &memory, &mut reserve, (&changes, lacking), licence.as_ref());
                model = wanted;
            }
        }
        let (pages, tables) = read(&table, &mut model);
        assert!(pages == model.pages, "pages differ after {changes:?}");
        assert_eq!(tables + reserve.count(), supplied, "tables are lost or used twice");
        check_steps(walkers.as_mut(), &memory.take_steps());
    }
}

/// Makes changes that were planned: first with a table too few, if the reserve lacks some, which is refused.
fn make<G: Granule, R: Drawn>(
    table: &mut PageTable<'_, G, R, Memory>,
    memory: &Memory,
    reserve: &mut Reserve,
    (changes, lacking): (&[Change<R>], usize),
    licence: Option<&Licence<'_>>,
) {
    let mut plan = table.plan(changes, licence).unwrap();
    let mut gather = plan.gather();
    if lacking > 0 {
        memory.supply::<G>(reserve, lacking - 1);
        let held = reserve.count();
        let refused = plan.apply(reserve, &mut gather);
        assert_eq!((refused, reserve.count()), (Err(Refusal::ReserveShortBy(1)), held));
        memory.supply::<G>(reserve, 1);
    }
    plan.apply(reserve, &mut gather).unwrap();
    let mut retired = gather.finish(memory);
    while let Some(page) = retired.take(memory) {
        reserve.add(memory, page);
    }
}

/// No TLB holds what the tables do not; and of an offline table it holds nothing.
fn check_steps(walkers: Option<&mut Walkers>, steps: &[Step]) {
    if let Some(walkers) = walkers {
        walkers.follow(steps);
        return walkers.check();
    }
    let is_store = |step: &Step| matches!(step, Step::Store(..));
    assert!(steps.iter().all(is_store), "an offline table needs no maintenance");
}

/// The regime that a number stands for: half of them EL1.
fn run_any<G: Granule>((bits, layout): (u32, Layout), regime: u8, choice: u8, mode: u8, lists: &[Vec<Draw>]) {
    let run = match regime {
        0 => run::<G, El2>,
        1 => run::<G, El2And0>,
        2 | 3 => run::<G, Stage2>,
        _ => run::<G, El1>,
    };
    run(bits, layout, choice, MODES[usize::from(mode)], lists);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tables_of_4k_hold_what_the_map_holds(
        lists in draws(), wide in any::<bool>(), choice in 0..8u8, regime in 0..8u8, mode in 0..8u8,
    ) {
        let shape = match (wide, regime) {
            (true, _) => (52, Layout::Lpa2),
            (false, 2) => (40, Layout::Bits48),
            _ => (48, Layout::Bits48),
        };
        run_any::<Granule4K>(shape, regime, choice, mode, &lists);
    }

    #[test]
    fn tables_of_16k_hold_what_the_map_holds(
        lists in draws(), wide in any::<bool>(), choice in 0..8u8, regime in 0..8u8, mode in 0..8u8,
    ) {
        let shape = match (wide, regime) {
            (true, _) => (52, Layout::Lpa2),
            (false, 2 | 3) => (48, Layout::Bits48),
            _ => (47, Layout::Bits48),
        };
        run_any::<Granule16K>(shape, regime, choice, mode, &lists[..lists.len().min(8)]);
    }

    #[test]
    fn tables_of_64k_hold_what_the_map_holds(
        lists in draws(), wide in any::<bool>(), choice in 0..8u8, regime in 0..8u8, mode in 0..8u8,
    ) {
        let shape = match (wide, regime) {
            (true, _) => (52, Layout::Lpa),
            (false, 2) => (43, Layout::Bits48),
            _ => (48, Layout::Bits48),
        };
        run_any::<Granule64K>(shape, regime, choice, mode, &lists[..lists.len().min(2)]);
    }
}

/// What is to be marked and stands there unmarked, with a hole before.
#[test]
fn what_differs_by_marks_alone_may_stay() {
    let draw = |kind, start, pages, bits| Draw { kind, start, pages, align: 0, output: 1, bits, largest: 0 };
    run_any::<Granule16K>(
        (47, Layout::Bits48),
        0,
        0,
        6,
        &[vec![draw(0, 2304, 2048, 73)], vec![draw(3, 2048, 257, 77)]],
    );
}

const MODES: [Mode; 8] = [
    Mode::Offline,
    Mode::Unlicensed,
    Mode::Break,
    Mode::NotCached,
    Mode::InPlace,
    Mode::Settling,
    Mode::AccessFlag,
    Mode::DirtyState,
];
