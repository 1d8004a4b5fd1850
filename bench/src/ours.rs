//! The engine as a caller uses it: plan, bring tables, apply, finish the gather, give back what came free.

use core::fmt;

use pagetable::{
    Census, Change, El1, HardwareUpdates, PageTable, Regime, Reserve, Scope, Stage2, TlbFeatures, Tolerance,
};
use vmsa::{
    Address, AddressHalf, BbmLevel, Geometry, Granule, Layout, LeafSize, Level, PageSize, PhysAddr, Stage1Attributes,
    Stage2Attributes, Stage2Memory,
};

use crate::contender::{Contender, Found};
use crate::memory::{Machine, give_frame, take_frame};

/// CPUs with every feature of TLB maintenance.
const FULL: TlbFeatures = TlbFeatures { range: true, level_hints: true, repeat: false };

/// A regime that is measured.
pub(crate) trait Measured: Regime + fmt::Debug + 'static {
    /// The regime.
    const REGIME: Self;
    /// Whether its leaves forbid writing by a bit that is set; else they permit it by one.
    const FORBIDS: bool;

    /// The shape of 48 bits.
    fn geometry<G: Granule>() -> Geometry<G>;

    /// Writable, never executable, normal memory.
    fn data() -> Self::Attributes;

    /// The bit that decides about writing, and nothing.
    fn write() -> (Self::Attributes, Self::Attributes);
}

impl Measured for El1 {
    const REGIME: Self = Self { scope: Scope::Global, tlb: FULL, hardware_updates: HardwareUpdates::None };
    const FORBIDS: bool = true;

    fn geometry<G: Granule>() -> Geometry<G> {
        Geometry::new(48, Layout::Bits48, AddressHalf::Lower).expect("48 bits")
    }

    fn data() -> Stage1Attributes {
        Stage1Attributes::INNER_SHAREABLE | Stage1Attributes::AF | Stage1Attributes::NO_EXECUTE
    }

    fn write() -> (Stage1Attributes, Stage1Attributes) {
        (Stage1Attributes::READ_ONLY, Stage1Attributes::empty())
    }
}

impl Measured for Stage2 {
    const REGIME: Self = Self { vmid: 1, tlb: FULL, hardware_updates: HardwareUpdates::None };
    const FORBIDS: bool = false;

    /// 16K has no level 0 here: its root is two tables at level 1.
    fn geometry<G: Granule>() -> Geometry<G> {
        let start = if G::PAGE_SIZE == PageSize::Size4K { Level::L0 } else { Level::L1 };
        Geometry::stage2(48, start, Layout::Bits48).expect("48 bits")
    }

    fn data() -> Stage2Attributes {
        let memory = Stage2Attributes::with_memory(Stage2Memory::WriteBack, false).expect("a memory type");
        memory
            | Stage2Attributes::READ_WRITE
            | Stage2Attributes::INNER_SHAREABLE
            | Stage2Attributes::AF
            | Stage2Attributes::XN1
    }

    fn write() -> (Stage2Attributes, Stage2Attributes) {
        (Stage2Attributes::WRITE, Stage2Attributes::empty())
    }
}

/// The engine on one machine.
#[derive(Debug)]
pub(crate) struct Ours<G: Granule, M: Machine, R: Measured = El1> {
    machine: &'static M,
    table: PageTable<'static, G, R, M>,
    reserve: Reserve,
    census: Census,
}

impl<G: Granule, M: Machine, R: Measured> Ours<G, M, R> {
    #[inline(always)]
    fn change(&mut self, change: Change<R>) {
        self.changes(&[change]);
    }

    #[inline(always)]
    fn changes(&mut self, changes: &[Change<R>]) {
        let Self { machine, table, reserve, census } = self;
        let licence = if M::IS_LIVE { census.tolerated() } else { None };
        let mut plan = table.plan(changes, licence.as_ref()).expect("the change is allowed");
        let mut gather = plan.gather();
        while reserve.count() < plan.tables_needed() {
            reserve.add(*machine, PhysAddr::new(take_frame(G::SIZE_BYTES)));
        }
        plan.apply(reserve, &mut gather).expect("the reserve is full");
        let mut retired = gather.finish(*machine);
        while let Some(table) = retired.take(*machine) {
            give_frame(table.bits());
        }
    }
}

impl<G: Granule, M: Machine, R: Measured> Ours<G, M, R> {
    /// The page is a part of a larger leaf.
    #[inline(never)]
    fn protect_part(&mut self, page: u64, set: R::Attributes, clear: R::Attributes) {
        self.change(Change::Protect { from: range(page, G::SIZE_BYTES), set, clear });
    }
}

fn range<A: Address>(from: u64, bytes: u64) -> core::ops::Range<A> {
    from.into()..(from + bytes).into()
}

/// The leaf of this many bytes.
fn leaf<G: Granule>(bytes: u64) -> LeafSize {
    let level = Level::ALL.into_iter().find(|&level| G::PAGE_SIZE.level_shift(level) == bytes.ilog2());
    LeafSize::single(level.expect("a level has such leaves"))
}

impl<G: Granule, M: Machine, R: Measured> Contender for Ours<G, M, R> {
    fn new() -> Self {
        let machine: &'static M = Box::leak(Box::default());
        let (mut reserve, geometry) = (Reserve::new(), R::geometry::<G>());
        let root = PhysAddr::new(take_frame(geometry.root_tables() as u64 * G::SIZE_BYTES));
        let table = if geometry.root_tables() == 1 {
            reserve.add(machine, root);
            PageTable::offline(machine, geometry, R::REGIME, &mut reserve)
        } else {
            PageTable::offline_at(machine, geometry, R::REGIME, root)
        };
        let table = table.expect("a root");
        // As its peers: blocks of every size, and no contiguous groups.
        let table = table.with_largest(LeafSize::single(Level::L1));
        let table = if M::IS_LIVE { table.publish() } else { table };
        Self { machine, table, reserve, census: Census::new(Tolerance::new(BbmLevel::Level3, false)) }
    }

    fn map(&mut self, from: u64, bytes: u64, to: u64, leaf_bytes: u64) {
        let to = PhysAddr::new(to);
        self.change(Change::Map {
            from: range(from, bytes),
            to,
            attributes: R::data(),
            largest: leaf::<G>(leaf_bytes),
        });
    }

    fn protect(&mut self, page: u64, is_read_only: bool) {
        let (bits, none) = R::write();
        let (set, clear) = if is_read_only == R::FORBIDS { (bits, none) } else { (none, bits) };
        if !self.table.protect_page(page.into(), set, clear, None) {
            self.protect_part(page, set, clear);
        }
    }

    fn protect_list(&mut self, pages: &[u64], is_read_only: bool) {
        let (bits, none) = R::write();
        let (set, clear) = if is_read_only == R::FORBIDS { (bits, none) } else { (none, bits) };
        let change = |&page: &u64| Change::Protect { from: range(page, G::SIZE_BYTES), set, clear };
        let changes: Vec<Change<R>> = pages.iter().map(change).collect();
        self.changes(&changes);
    }

    fn translate(&self, inputs: &[u64]) -> u64 {
        let view = self.table.view();
        inputs.iter().fold(0, |mixed, &input| {
            mixed ^ view.translate(input.into()).map_or(0, |translation| translation.output.bits())
        })
    }

    fn unmap(&mut self, from: u64, bytes: u64, _: u64) {
        self.change(Change::Unmap { from: range(from, bytes) });
    }

    fn collapse(&mut self, from: u64, bytes: u64) {
        self.change(Change::Collapse { from: range(from, bytes) });
    }

    fn find(&self, input: u64) -> Option<Found> {
        let found = self.table.view().translate(input.into())?;
        let is_read_only = (found.descriptor.bits() & R::write().0.into() != 0) == R::FORBIDS;
        Some(Found { output: found.output.bits(), is_read_only })
    }

    fn tlbis(&self) -> u64 {
        self.machine.tlbis()
    }
}
