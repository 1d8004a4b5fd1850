//! The engine as a caller uses it: plan, bring tables, apply, finish the gather, give back what came free.

use pagetable::{Census, Change, El1, PageTable, Reserve, Scope, TlbFeatures, Tolerance};
use vmsa::{AddressHalf, BbmLevel, Geometry, Granule, Layout, LeafSize, Level, PhysAddr, Stage1Attributes, VirtAddr};

use crate::contender::{Contender, Found};
use crate::memory::{Machine, give_frame, take_frame};

/// A kernel's regime on CPUs with every feature of TLB maintenance.
const KERNEL: El1 = El1 {
    scope: Scope::Global,
    tlb: TlbFeatures { range: true, level_hints: true, repeat: false },
    hardware_updates: false,
};

/// Inner shareable, accessed, never executable, memory type 0.
const DATA: Stage1Attributes =
    Stage1Attributes::INNER_SHAREABLE.union(Stage1Attributes::AF).union(Stage1Attributes::NO_EXECUTE);

/// The engine on one machine.
#[derive(Debug)]
pub(crate) struct Ours<G: Granule, M: Machine> {
    machine: &'static M,
    table: PageTable<'static, G, El1, M>,
    reserve: Reserve,
    census: Census,
}

impl<G: Granule, M: Machine> Ours<G, M> {
    fn change(&mut self, change: Change<El1>) {
        let Self { machine, table, reserve, census } = self;
        let licence = if M::IS_LIVE { census.tolerated() } else { None };
        let changes = [change];
        let plan = table.plan(&changes, licence.as_ref()).expect("the change is allowed");
        let mut gather = plan.gather();
        while reserve.count() < plan.tables_needed() {
            reserve.add(*machine, PhysAddr::new(take_frame(G::SIZE_BYTES)));
        }
        plan.with(reserve).expect("the reserve is full").apply(&mut gather);
        let mut retired = gather.finish(*machine);
        while let Some(table) = retired.take(*machine) {
            give_frame(table.bits());
        }
    }
}

fn range(from: u64, bytes: u64) -> core::ops::Range<VirtAddr> {
    VirtAddr::new(from)..VirtAddr::new(from + bytes)
}

/// The leaf of this many bytes.
fn leaf<G: Granule>(bytes: u64) -> LeafSize {
    let level = Level::ALL.into_iter().find(|&level| G::PAGE_SIZE.level_shift(level) == bytes.ilog2());
    LeafSize::single(level.expect("a level has such leaves"))
}

impl<G: Granule, M: Machine> Contender for Ours<G, M> {
    fn new() -> Self {
        let machine: &'static M = Box::leak(Box::default());
        let mut reserve = Reserve::new();
        reserve.add(machine, PhysAddr::new(take_frame(G::SIZE_BYTES)));
        let geometry = Geometry::new(48, Layout::Bits48, AddressHalf::Lower).expect("48 bits");
        let table = PageTable::offline(machine, geometry, KERNEL, &mut reserve).expect("a root");
        let table = if M::IS_LIVE { table.publish() } else { table };
        Self { machine, table, reserve, census: Census::new(Tolerance::new(BbmLevel::Level3, false)) }
    }

    fn map(&mut self, from: u64, bytes: u64, to: u64, leaf_bytes: u64) {
        let to = PhysAddr::new(to);
        self.change(Change::Map { from: range(from, bytes), to, attributes: DATA, largest: leaf::<G>(leaf_bytes) });
    }

    fn protect(&mut self, page: u64, is_read_only: bool) {
        let from = range(page, G::SIZE_BYTES);
        let (bits, none) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty());
        self.change(if is_read_only {
            Change::Protect { from, set: bits, clear: none }
        } else {
            Change::Protect { from, set: none, clear: bits }
        });
    }

    fn translate(&self, inputs: &[u64]) -> u64 {
        let view = self.table.view();
        inputs.iter().fold(0, |mixed, &input| {
            mixed ^ view.translate(VirtAddr::new(input)).map_or(0, |translation| translation.output.bits())
        })
    }

    fn unmap(&mut self, from: u64, bytes: u64, _: u64) {
        self.change(Change::Unmap { from: range(from, bytes) });
    }

    fn collapse(&mut self, from: u64, bytes: u64) {
        self.change(Change::Collapse { from: range(from, bytes) });
    }

    fn find(&self, input: u64) -> Option<Found> {
        let found = self.table.view().translate(VirtAddr::new(input))?;
        let is_read_only = found.descriptor.bits() & Stage1Attributes::READ_ONLY.bits() != 0;
        Some(Found { output: found.output.bits(), is_read_only })
    }

    fn tlbis(&self) -> u64 {
        self.machine.tlbis()
    }
}
