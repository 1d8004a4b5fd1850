//! What is done with a page table, compiled once for each granule.

use core::cell::RefCell;
use core::ops::{ControlFlow, Range};

use common::supply::{self, ChangeError, TableSource, fill, give_back};
use hardware::platform::Hardware;
use linearmap::{Cpu, Leaves, LinearMap, Map, Pages, Refused, Region, paint};
use pagetable::{Change, El1, Entry, Licence, Lookup, PageTable, Refusal, Reserve, Summary, View};
use spin::Once;
use vmsa::{AddressHalf, Geometry, Granule, LeafSize, Level, Meaning, PhysAddr, VirtAddr};

use super::linear::{Linear, Of, Painted};
use super::shape::Shape;
use crate::memory::embedding::Kernel;
use crate::memory::reach::Reach;
use crate::memory::readers;

/// Entries that are read while an editor may wait for the end of it.
const ENTRIES_AT_ONCE: i32 = 64;

/// A page table but for its granule, as plain values.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) hardware: Hardware,
    pub(super) shape: Shape,
    pub(super) half: AddressHalf,
    pub(super) regime: El1,
    pub(super) root: PhysAddr,
}

/// What can be done with a page table whose granule these operations are compiled for. See [`super::AnyTable`].
pub(super) trait Operations: Sync {
    fn build(
        &self,
        table: &Parts,
        changes: &mut dyn Iterator<Item = Change<El1>>,
        source: &mut dyn TableSource,
    ) -> Result<PhysAddr, ChangeError>;

    fn change(
        &self,
        table: &Parts,
        changes: &[Change<El1>],
        licence: Option<&Licence>,
        source: &mut dyn TableSource,
    ) -> Result<(), ChangeError>;

    fn paint(
        &self,
        table: &Parts,
        regions: &[Region],
        offset: u64,
        leaves: Leaves,
        source: &mut dyn TableSource,
    ) -> Result<(), Refused>;

    fn adopt(&self, table: &Parts, reach: Reach, painted: Painted, first: Cpu) -> Result<(), Refused>;
    fn linear(&self) -> Option<&dyn Linear>;
    fn start(&self, table: &Parts) -> Level;
    fn range(&self, table: &Parts) -> Range<VirtAddr>;
    fn walk(&self, table: &Parts, address: VirtAddr, sink: &mut dyn FnMut(&Lookup));
    fn translate(&self, table: &Parts, address: VirtAddr) -> Option<pagetable::Translation>;
    fn summary(&self, table: &Parts, range: Range<VirtAddr>) -> Result<Summary, Refusal>;
    fn leaves(&self, summary: &Summary, size: LeafSize) -> usize;

    fn for_each(
        &self,
        table: &Parts,
        range: Range<VirtAddr>,
        sink: &mut dyn FnMut(&Entry<VirtAddr>),
    ) -> Result<(), Refusal>;
}

/// The operations of one granule, and the linear map if it has this one.
pub(super) struct Granular<G: Granule> {
    linear: Once<Of<G>>,
}

impl<G: Granule> Granular<G> {
    pub(super) const fn new() -> Self {
        Self { linear: Once::new() }
    }
}

/// Tables that are taken and given by who has no other way to either.
struct Shared<'s>(RefCell<&'s mut dyn TableSource>);

impl Pages for Shared<'_> {
    fn allocate(&self) -> Option<PhysAddr> {
        self.0.borrow_mut().take()
    }

    fn free(&self, table: PhysAddr) {
        self.0.borrow_mut().give(table);
    }
}

impl<G: Granule + Send + Sync> Operations for Granular<G> {
    fn build(
        &self,
        table: &Parts,
        changes: &mut dyn Iterator<Item = Change<El1>>,
        source: &mut dyn TableSource,
    ) -> Result<PhysAddr, ChangeError> {
        let mut reserve = Reserve::new();
        fill(&table.hardware, &mut reserve, 1, source)?;
        let mut page_table =
            PageTable::<G, _, _>::offline(&table.hardware, geometry(table), table.regime, &mut reserve)?;
        let mut gather = page_table.gather();
        for change in changes {
            let changes = [change];
            let plan = page_table.plan(&changes, None)?;
            supply::apply(plan, &table.hardware, &mut reserve, source, &mut gather)?;
        }
        give_back(&table.hardware, &mut reserve, source);
        // Nothing was live, so nothing comes free.
        let retired = gather.finish(&table.hardware);
        debug_assert_eq!(retired.count(), 0);
        Ok(page_table.publish().root())
    }

    fn change(
        &self,
        table: &Parts,
        changes: &[Change<El1>],
        licence: Option<&Licence>,
        source: &mut dyn TableSource,
    ) -> Result<(), ChangeError> {
        let mut page_table = PageTable::<G, _, _>::live(&table.hardware, geometry(table), table.regime, table.root)?;
        let mut gather = page_table.gather();
        let mut reserve = Reserve::new();
        let plan = page_table.plan(changes, licence)?;
        supply::apply(plan, &table.hardware, &mut reserve, source, &mut gather)?;
        give_back(&table.hardware, &mut reserve, source);
        let mut retired = gather.finish(&table.hardware);
        while let Some(free) = retired.take(&table.hardware) {
            source.give(free);
        }
        Ok(())
    }

    fn paint(
        &self,
        table: &Parts,
        regions: &[Region],
        offset: u64,
        leaves: Leaves,
        source: &mut dyn TableSource,
    ) -> Result<(), Refused> {
        let mut page_table = PageTable::<G, _, _>::live(&table.hardware, geometry(table), table.regime, table.root)?;
        let source = Shared(RefCell::new(source));
        paint(&mut page_table, &table.hardware, &source, offset, regions, leaves)
    }

    fn adopt(&self, table: &Parts, reach: Reach, painted: Painted, first: Cpu) -> Result<(), Refused> {
        let Painted { range, leaves, memory_bytes } = painted;
        let (root, geometry, regime) = (table.root, geometry(table), table.regime);
        let map = Map { root, geometry, regime, range, leaves, memory_bytes };
        self.linear.try_call_once(|| LinearMap::new(Kernel::new(reach), map, first)).map(drop)
    }

    fn linear(&self) -> Option<&dyn Linear> {
        self.linear.get().map(|map| map as &dyn Linear)
    }

    fn start(&self, table: &Parts) -> Level {
        geometry::<G>(table).start()
    }

    fn range(&self, table: &Parts) -> Range<VirtAddr> {
        view::<G>(table).range()
    }

    fn walk(&self, table: &Parts, address: VirtAddr, sink: &mut dyn FnMut(&Lookup)) {
        readers::read(|| view::<G>(table).path(address).for_each(|lookup| sink(&lookup)));
    }

    fn translate(&self, table: &Parts, address: VirtAddr) -> Option<pagetable::Translation> {
        readers::read(|| view::<G>(table).translate(address))
    }

    fn summary(&self, table: &Parts, range: Range<VirtAddr>) -> Result<Summary, Refusal> {
        let mut summary = Summary::root(geometry::<G>(table).start());
        self.for_each(table, range, &mut |entry| summary.count(entry))?;
        Ok(summary)
    }

    fn leaves(&self, summary: &Summary, size: LeafSize) -> usize {
        summary.leaves::<G>(size)
    }

    fn for_each(
        &self,
        table: &Parts,
        range: Range<VirtAddr>,
        sink: &mut dyn FnMut(&Entry<VirtAddr>),
    ) -> Result<(), Refusal> {
        let (view, first) = (view::<G>(table), range.start);
        let mut at = first;
        loop {
            let mut left = ENTRIES_AT_ONCE;
            let end = readers::read(|| {
                view.for_each(at..range.end, |entry| {
                    // Tables that lead to where a later part begins have been told.
                    if entry.input >= at || at == first {
                        sink(entry);
                    }
                    left -= 1;
                    let is_whole = !matches!(entry.lookup.meaning, Meaning::Table(_));
                    let next = entry.input.bits().wrapping_add(1 << entry.shift);
                    if left <= 0 && is_whole && next != range.end.bits() {
                        return ControlFlow::Break(VirtAddr::new(next));
                    }
                    ControlFlow::Continue(())
                })
            })?;
            match end {
                ControlFlow::Break(next) => at = next,
                ControlFlow::Continue(()) => return Ok(()),
            }
        }
    }
}

fn geometry<G: Granule>(table: &Parts) -> Geometry<G> {
    table.shape.geometry(table.half).expect("shapes are chosen from what the granule and the layout have")
}

fn view<G: Granule>(table: &Parts) -> View<'_, G, El1, Hardware> {
    View::new(&table.hardware, geometry(table), table.regime, table.root)
}
