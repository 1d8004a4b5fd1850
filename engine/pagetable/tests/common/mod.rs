//! Page tables and changes to begin with.

pub(crate) mod counting;
pub(crate) mod draws;
pub(crate) mod groups;
pub(crate) mod guest;
pub(crate) mod random;
pub(crate) mod recorded;
pub(crate) mod regimes;
pub(crate) mod tlbi;
pub(crate) mod told;
pub(crate) mod walkers;
pub(crate) mod widths;

pub(crate) use widths::{asked, shape};

use std::convert::Infallible;
use std::ops::ControlFlow;

use vellum_pagetable::{
    Census, Change, El1, HardwareUpdates, Licence, Memory, PageTable, Regime, Reserve, Scope, Step, TlbFeatures,
    Tolerance,
};
use vellum_vmsa::{
    Address, AddressHalf, BbmLevel, Descriptor, Geometry, Granule, Granule4K, Layout, LeafSize, Level, Meaning,
    PhysAddr, Stage1Attributes, VirtAddr,
};

/// Where tables come from.
pub(crate) const TABLES: u64 = 0x8000_0000;

/// The kernel's regime, with every feature of TLB maintenance.
pub(crate) const KERNEL: El1 = El1 {
    scope: Scope::Global,
    tlb: TlbFeatures { range: true, level_hints: true, repeat: false },
    hardware_updates: HardwareUpdates::None,
};

/// The kernel's regime on a CPU without any.
pub(crate) const PLAIN_KERNEL: El1 = El1 {
    scope: Scope::Global,
    tlb: TlbFeatures { range: false, level_hints: false, repeat: false },
    hardware_updates: HardwareUpdates::None,
};

/// Tables of 4 KiB above those of level 1, of a width that was asked for. Tests have none by themselves.
pub(crate) fn tables_above() -> usize {
    let start = shape::<Granule4K>(39, AddressHalf::Lower).start();
    usize::try_from(Level::L1.number() - start.number()).unwrap_or(0)
}

/// A shape of the lower half, or of the width that was asked for.
fn lower<G: Granule>(bits: u32, layout: Layout) -> Geometry<G> {
    match layout {
        Layout::Bits48 => shape(bits, AddressHalf::Lower),
        _ => Geometry::new(asked().unwrap_or(bits), layout, AddressHalf::Lower).unwrap(),
    }
}

/// An empty page table of the lower half, not live.
pub(crate) fn offline<'m, G: Granule>(memory: &'m Memory, bits: u32, layout: Layout) -> PageTable<'m, G, El1, Memory> {
    let mut reserve = Reserve::new();
    memory.supply::<G>(&mut reserve, 1);
    PageTable::offline(memory, lower(bits, layout), KERNEL, &mut reserve).unwrap()
}

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// Inner shareable, accessed, never executable, memory type 0.
pub(crate) const DATA: Stage1Attributes =
    Stage1Attributes::INNER_SHAREABLE.union(Stage1Attributes::AF).union(Stage1Attributes::NO_EXECUTE);

pub(crate) fn map(from: u64, bytes: u64, to: u64, largest: LeafSize) -> Change<El1> {
    let from = VirtAddr::new(from)..VirtAddr::new(from + bytes);
    Change::Map { from, to: PhysAddr::new(to), attributes: DATA, largest }
}

pub(crate) fn read_only(from: u64, bytes: u64) -> Change<El1> {
    let from = VirtAddr::new(from)..VirtAddr::new(from + bytes);
    Change::Protect { from, set: Stage1Attributes::READ_ONLY, clear: Stage1Attributes::empty() }
}

pub(crate) fn unmap(from: u64, bytes: u64) -> Change<El1> {
    Change::Unmap { from: VirtAddr::new(from)..VirtAddr::new(from + bytes) }
}

pub(crate) type Table<'m, G, R = El1> = PageTable<'m, G, R, Memory>;

/// A live page table of the lower half that holds `setup`.
pub(crate) fn live<'m, G: Granule, R: Regime>(
    memory: &'m Memory,
    (bits, layout): (u32, Layout),
    regime: R,
    setup: &[Change<R>],
) -> Table<'m, G, R> {
    live_at(memory, lower(bits, layout), regime, setup)
}

/// A live page table of 39 bits and 4 KiB pages in the kernel's regime, which holds `setup`.
pub(crate) fn live_4k<'m>(memory: &'m Memory, setup: &[Change<El1>]) -> Table<'m, Granule4K> {
    live(memory, (39, Layout::Bits48), KERNEL, setup)
}

/// Where roots of several tables lie.
pub(crate) const ROOT: PhysAddr = PhysAddr::new(0x7000_0000);

/// A live page table of this shape that holds `setup`.
pub(crate) fn live_at<'m, G: Granule, R: Regime>(
    memory: &'m Memory,
    geometry: Geometry<G>,
    regime: R,
    setup: &[Change<R>],
) -> Table<'m, G, R> {
    let mut reserve = Reserve::new();
    memory.supply::<G>(&mut reserve, 1);
    let table = match geometry.root_tables() {
        1 => PageTable::offline(memory, geometry, regime, &mut reserve),
        _ => PageTable::offline_at(memory, geometry, regime, ROOT),
    };
    let mut table = table.unwrap();
    change(&mut table, memory, setup, None);
    table.publish()
}

/// Makes changes, to the end of their gather; the steps, and how many tables came free.
pub(crate) fn change<G: Granule, R: Regime>(
    table: &mut Table<'_, G, R>,
    memory: &Memory,
    changes: &[Change<R>],
    licence: Option<&Licence<'_>>,
) -> (Vec<Step>, usize) {
    let mut reserve = Reserve::new();
    let mut plan = table.plan(changes, licence).unwrap();
    memory.supply::<G>(&mut reserve, plan.tables_needed());
    let _ = memory.take_steps();
    let mut gather = plan.gather();
    plan.apply(&mut reserve, &mut gather).unwrap();
    let retired = gather.finish(memory);
    (memory.take_steps(), retired.count())
}

/// Every licence there is, the one without a window last.
pub(crate) fn each_licence(mut turn: impl FnMut(&Licence<'_>)) {
    let census = |level| Census::new(Tolerance::new(level, true));
    turn(&Licence::break_before_make(&()));
    turn(&census(BbmLevel::Level1).not_cached().unwrap());
    turn(&census(BbmLevel::Level2).tolerated().unwrap());
    turn(&census(BbmLevel::Level3).tolerated().unwrap());
}

/// Start, bytes and descriptor of every valid leaf.
pub(crate) fn leaves<G: Granule, R: Regime>(table: &Table<'_, G, R>) -> Vec<(u64, u64, Descriptor)> {
    let view = table.view();
    let mut leaves = Vec::new();
    let _ = view
        .for_each::<Infallible>(view.range(), |entry| {
            if let Meaning::Leaf(..) = entry.lookup.meaning {
                leaves.push((entry.input.bits(), 1 << entry.shift, entry.lookup.descriptor));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    leaves
}
