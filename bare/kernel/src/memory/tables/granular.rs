//! What is done with a page table, compiled once for each granule.

/// Calls a function for the granule of this page size. A kernel for pages of 4 KiB has no other.
macro_rules! by_granule {
    ($page_size:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $page_size {
            _ if cfg!(feature = "fixed-4k") => $function::<vmsa::Granule4K>($($argument),*),
            vmsa::PageSize::Size4K => $function::<vmsa::Granule4K>($($argument),*),
            vmsa::PageSize::Size16K => $function::<vmsa::Granule16K>($($argument),*),
            vmsa::PageSize::Size64K => $function::<vmsa::Granule64K>($($argument),*),
        }
    };
}

pub(super) use by_granule;

use core::cell::RefCell;
use core::ops::{ControlFlow, Range};

use common::supply::{self, ChangeError, TableSource, fill, give_back};
use hardware::platform::Hardware;
use linearmap::{Leaves, Pages, Refused, Region};
use pagetable::{Change, El1, Entry, Licence, Lookup, PageTable, Refusal, Reserve, Summary, View};
use vmsa::{AddressHalf, Geometry, Granule, Level, Meaning, PhysAddr, VirtAddr};

use super::shape::Shape;
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

pub(super) fn build<G: Granule>(
    table: &Parts,
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
        supply::apply(plan, &table.hardware, &mut reserve, source, &mut gather)?;
    }
    give_back(&table.hardware, &mut reserve, source);
    // Nothing was live, so nothing comes free.
    let retired = gather.finish(&table.hardware);
    debug_assert_eq!(retired.count(), 0);
    Ok(page_table.publish().root())
}

pub(super) fn change<G: Granule>(
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

pub(super) fn paint<G: Granule>(
    table: &Parts,
    regions: &[Region],
    offset: u64,
    leaves: Leaves,
    source: &mut dyn TableSource,
) -> Result<(), Refused> {
    let mut page_table = PageTable::<G, _, _>::live(&table.hardware, geometry(table), table.regime, table.root)?;
    let source = Shared(RefCell::new(source));
    linearmap::paint(&mut page_table, &table.hardware, &source, offset, regions, leaves)
}

pub(super) fn start<G: Granule>(table: &Parts) -> Level {
    geometry::<G>(table).start()
}

pub(super) fn range<G: Granule>(table: &Parts) -> Range<VirtAddr> {
    view::<G>(table).range()
}

pub(super) fn walk<G: Granule>(table: &Parts, address: VirtAddr, sink: &mut dyn FnMut(&Lookup)) {
    readers::read(|| view::<G>(table).path(address).for_each(|lookup| sink(&lookup)));
}

pub(super) fn translate<G: Granule>(table: &Parts, address: VirtAddr) -> Option<pagetable::Translation> {
    readers::read(|| view::<G>(table).translate(address))
}

pub(super) fn summary<G: Granule>(table: &Parts, range: Range<VirtAddr>) -> Result<Summary, Refusal> {
    let mut summary = Summary::root(geometry::<G>(table).start());
    for_each::<G>(table, range, &mut |entry| summary.count(entry))?;
    Ok(summary)
}

pub(super) fn for_each<G: Granule>(
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

pub(super) fn geometry<G: Granule>(table: &Parts) -> Geometry<G> {
    table.shape.geometry(table.half).expect("shapes are chosen from what the granule and the layout have")
}

fn view<G: Granule>(table: &Parts) -> View<'_, G, El1, Hardware> {
    View::new(&table.hardware, geometry(table), table.regime, table.root)
}
