//! Views walk beside changes: nothing is written into a table that came free before the platform has waited for them.

use crate::common;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

use common::{DATA, GIB, KERNEL, MIB, each_licence, live_4k, map, shape, unmap};
use vellum_pagetable::{Change, El1, Licence, Memory, PageTable, Platform, Refusal, Reserve, Slot, View};
use vellum_vmsa::{
    AddressHalf, Descriptor, Geometry, Granule, Granule4K, LeafSize, Maintenance, Meaning, PhysAddr, VirtAddr,
};

/// More tables than a gather keeps, so that some wait in the middle of a change.
const TABLES: u64 = 20;
const BYTES: u64 = TABLES * 2 * MIB;

/// A machine on which a view may always be walking.
struct Watched<'m> {
    memory: &'m Memory,
    root: PhysAddr,
    /// Tables that were linked when views were waited for last: a view may be in them.
    walked: RefCell<BTreeSet<PhysAddr>>,
}

impl<'m> Watched<'m> {
    fn new(memory: &'m Memory, root: PhysAddr) -> Self {
        Self { memory, root, walked: RefCell::new(linked(memory, root)) }
    }

    fn check(&self, slot: Slot) {
        let table = slot.address().align_down(Granule4K::SIZE_BYTES);
        let is_linked = || linked(self.memory, self.root).contains(&table);
        assert!(!self.walked.borrow().contains(&table) || is_linked(), "a store into {table}, which a view may be in");
    }
}

impl Platform for Watched<'_> {
    fn load(&self, slot: Slot) -> Descriptor {
        self.memory.load(slot)
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.check(slot);
        self.memory.store(slot, descriptor);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.check(slot);
        self.memory.exchange(slot, old, new)
    }

    fn maintain(&self, operation: Maintenance) {
        self.memory.maintain(operation);
    }

    fn wait_for_views(&self) {
        *self.walked.borrow_mut() = linked(self.memory, self.root);
    }
}

fn geometry() -> Geometry<Granule4K> {
    shape(39, AddressHalf::Lower)
}

/// The tables that a walk which begins now can come to.
fn linked(memory: &Memory, root: PhysAddr) -> BTreeSet<PhysAddr> {
    let mut tables = BTreeSet::from([root]);
    let view = View::new(memory, geometry(), KERNEL, root);
    let all = VirtAddr::new(0)..VirtAddr::new(GIB);
    let _ = view.for_each::<Infallible>(all, |entry| {
        if let Meaning::Table(table) = entry.lookup.meaning {
            tables.insert(table);
        }
        ControlFlow::Continue(())
    });
    tables
}

/// Makes a change of a live table of pages; how many tables came free.
fn free(change: Change<El1>, licence: Option<&Licence<'_>>) -> Result<usize, Refusal> {
    let memory = Memory::new();
    let root = live_4k(&memory, &[map(0, BYTES, GIB, LeafSize::PAGE)]).root();
    let watched = Watched::new(&memory, root);
    let mut reserve = Reserve::new();
    memory.supply::<Granule4K>(&mut reserve, TABLES as usize);
    let mut table = PageTable::live(&watched, geometry(), KERNEL, root)?;
    let mut gather = table.gather();
    table.plan(&[change], licence)?.apply(&mut reserve, &mut gather)?;
    Ok(gather.finish(&watched).count())
}

#[test]
fn tables_that_come_free_are_written_only_when_views_have_left() {
    let from = VirtAddr::new(0)..VirtAddr::new(BYTES);
    assert_eq!(free(unmap(0, BYTES), None), Ok(TABLES as usize));
    each_licence(|licence| {
        let folded = free(Change::Collapse { from: from.clone() }, Some(licence));
        assert_eq!(folded, Ok(TABLES as usize), "{licence:?}");
    });
    let breaking = Licence::break_before_make(&());
    let (to, attributes, largest) = (PhysAddr::new(2 * GIB), DATA, LeafSize::LARGEST);
    assert_eq!(free(Change::Remap { from, to, attributes, largest }, Some(&breaking)), Ok(TABLES as usize));
}
