//! What is done with a page table, compiled once for each granule.

use core::convert::Infallible;
use core::ops::{ControlFlow, Range};

use hardware::platform::Hardware;
use pagetable::{Change, El1, Entry, Licence, Lookup, PageTable, Plan, Refusal, Reserve, Summary, View};
use vmsa::{Geometry, Granule, LeafSize, Level, PhysAddr, VirtAddr};

use super::any::{AnyTable, ChangeError};
use super::source::TableSource;

/// The functions of one granule.
pub(super) struct Operations {
    pub(super) build:
        fn(&AnyTable, &mut dyn Iterator<Item = Change<El1>>, &mut dyn TableSource) -> Result<PhysAddr, ChangeError>,
    pub(super) change:
        fn(&AnyTable, &[Change<El1>], Option<&Licence>, &mut dyn TableSource) -> Result<(), ChangeError>,
    pub(super) start: fn(&AnyTable) -> Level,
    pub(super) range: fn(&AnyTable) -> Range<VirtAddr>,
    pub(super) walk: fn(&AnyTable, VirtAddr, &mut dyn FnMut(&Lookup)),
    pub(super) for_each: fn(&AnyTable, Range<VirtAddr>, &mut dyn FnMut(&Entry<VirtAddr>)) -> Result<(), Refusal>,
    pub(super) translate: fn(&AnyTable, VirtAddr) -> Option<pagetable::Translation>,
    pub(super) summary: fn(&AnyTable, Range<VirtAddr>) -> Result<Summary, Refusal>,
    pub(super) leaves: fn(&Summary, LeafSize) -> usize,
}

impl Operations {
    pub(super) const fn new<G: Granule>() -> Self {
        Self {
            build: build::<G>,
            change: change::<G>,
            start: |table| geometry::<G>(table).start(),
            range: |table| view::<G>(table).range(),
            walk: |table, address, sink| view::<G>(table).path(address).for_each(|lookup| sink(&lookup)),
            for_each: for_each::<G>,
            translate: |table, address| view::<G>(table).translate(address),
            summary: |table, range| Summary::read(&view::<G>(table), range),
            leaves: |summary, size| summary.leaves::<G>(size),
        }
    }
}

fn geometry<G: Granule>(table: &AnyTable) -> Geometry<G> {
    table.shape.geometry(table.half).expect("shapes are chosen from what the granule and the layout have")
}

fn view<G: Granule>(table: &AnyTable) -> View<'_, G, El1, Hardware> {
    View::new(&table.hardware, geometry(table), table.regime, table.root)
}

fn build<G: Granule>(
    table: &AnyTable,
    changes: &mut dyn Iterator<Item = Change<El1>>,
    source: &mut dyn TableSource,
) -> Result<PhysAddr, ChangeError> {
    let mut reserve = Reserve::new();
    fill(&table.hardware, &mut reserve, 1, source)?;
    let mut page_table = PageTable::<G, _, _>::offline(&table.hardware, geometry(table), table.regime, &mut reserve)?;
    let mut gather = page_table.gather();
    for change in changes {
        let changes = [change];
        let plan = page_table.plan(&changes, None)?;
        supply(plan, &table.hardware, &mut reserve, source)?.apply(&mut gather);
    }
    give_back(&table.hardware, &mut reserve, source);
    // Nothing was live, so nothing comes free.
    let retired = gather.finish(&table.hardware);
    debug_assert_eq!(retired.count(), 0);
    Ok(page_table.publish().root())
}

fn change<G: Granule>(
    table: &AnyTable,
    changes: &[Change<El1>],
    licence: Option<&Licence>,
    source: &mut dyn TableSource,
) -> Result<(), ChangeError> {
    let mut page_table = PageTable::<G, _, _>::live(&table.hardware, geometry(table), table.regime, table.root);
    let mut gather = page_table.gather();
    let mut reserve = Reserve::new();
    let plan = page_table.plan(changes, licence)?;
    supply(plan, &table.hardware, &mut reserve, source)?.apply(&mut gather);
    give_back(&table.hardware, &mut reserve, source);
    let mut retired = gather.finish(&table.hardware);
    while let Some(free) = retired.take(&table.hardware) {
        source.give(free);
    }
    Ok(())
}

/// A plan with its tables; if there are too few, all go back.
fn supply<'t, 'p, 'c, 'r, G: Granule>(
    plan: Plan<'t, 'p, 'c, G, El1, Hardware>,
    hardware: &Hardware,
    reserve: &'r mut Reserve,
    source: &mut dyn TableSource,
) -> Result<pagetable::Ready<'t, 'p, 'c, 'r, G, El1, Hardware>, ChangeError> {
    fill(hardware, reserve, plan.tables_needed(), source)?;
    Ok(plan.with(reserve)?)
}

fn fill(
    hardware: &Hardware,
    reserve: &mut Reserve,
    count: usize,
    source: &mut dyn TableSource,
) -> Result<(), ChangeError> {
    while reserve.count() < count {
        let Some(table) = source.take() else {
            give_back(hardware, reserve, source);
            return Err(ChangeError::NoTables);
        };
        reserve.add(hardware, table);
    }
    Ok(())
}

fn give_back(hardware: &Hardware, reserve: &mut Reserve, source: &mut dyn TableSource) {
    while let Some(table) = reserve.take(hardware) {
        source.give(table);
    }
}

fn for_each<G: Granule>(
    table: &AnyTable,
    range: Range<VirtAddr>,
    sink: &mut dyn FnMut(&Entry<VirtAddr>),
) -> Result<(), Refusal> {
    let end = view::<G>(table).for_each::<Infallible>(range, |entry| {
        sink(entry);
        ControlFlow::Continue(())
    })?;
    let ControlFlow::Continue(()) = end;
    Ok(())
}
