//! What is done with a page table, compiled once for each granule.

use core::convert::Infallible;
use core::marker::PhantomData;
use core::ops::{ControlFlow, Range};

use common::supply::{self, ChangeError, TableSource, fill, give_back};
use hardware::platform::Hardware;
use pagetable::{Change, El1, Entry, Licence, Lookup, PageTable, Refusal, Reserve, Summary, View};
use vmsa::{AddressHalf, Geometry, Granule, LeafSize, Level, PhysAddr, VirtAddr};

use super::shape::Shape;

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

/// The operations of one granule.
pub(super) struct Granular<G>(pub(super) PhantomData<G>);

impl<G: Granule + Sync> Operations for Granular<G> {
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

    fn start(&self, table: &Parts) -> Level {
        geometry::<G>(table).start()
    }

    fn range(&self, table: &Parts) -> Range<VirtAddr> {
        view::<G>(table).range()
    }

    fn walk(&self, table: &Parts, address: VirtAddr, sink: &mut dyn FnMut(&Lookup)) {
        view::<G>(table).path(address).for_each(|lookup| sink(&lookup));
    }

    fn translate(&self, table: &Parts, address: VirtAddr) -> Option<pagetable::Translation> {
        view::<G>(table).translate(address)
    }

    fn summary(&self, table: &Parts, range: Range<VirtAddr>) -> Result<Summary, Refusal> {
        Summary::read(&view::<G>(table), range)
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
        let end = view::<G>(table).for_each::<Infallible>(range, |entry| {
            sink(entry);
            ControlFlow::Continue(())
        })?;
        let ControlFlow::Continue(()) = end;
        Ok(())
    }
}

fn geometry<G: Granule>(table: &Parts) -> Geometry<G> {
    table.shape.geometry(table.half).expect("shapes are chosen from what the granule and the layout have")
}

fn view<G: Granule>(table: &Parts) -> View<'_, G, El1, Hardware> {
    View::new(&table.hardware, geometry(table), table.regime, table.root)
}
