//! `fork`: the areas are copied, and of private ones the pages, which neither may write then until a fault copies them.

use core::ops::Range;

use pagetable::{CopyEdit, Licence, PageTable, Reserve};
use vmsa::{Granule, LeafSize, Level, PhysAddr, Stage1Attributes, VirtAddr};

use crate::area::AreaFlags;
use crate::areas::Areas;
use crate::embedder::Embedder;
use crate::error::{Error, Short};
use crate::resident::Resident;
use crate::shape::{Leaf, Note, WRITABLE};
use crate::state::{Editing, State};

/// What a leaf gets, and loses, that two have.
const WITHDRAWN_SET: Stage1Attributes = Stage1Attributes::READ_ONLY;
const WITHDRAWN_CLEAR: Stage1Attributes = WRITABLE;

impl<E: Embedder> State<E> {
    /// A copy for a child, and how many tables of `supply` it has. After an error nothing has changed.
    pub(crate) fn fork(&mut self, editing: &Editing<'_, E>, supply: &mut Reserve) -> Result<(Self, u64), Short> {
        let platform = &editing.platform;
        let mut table = self.table(editing);
        let (mut gather, licence) = (table.gather(), editing.licence());
        let edit = CopyEdit { set: WITHDRAWN_SET, clear: WITHDRAWN_CLEAR, licence: Some(&licence) };
        let mut copy = table.plan_copy(copied_ranges(&self.areas), edit)?;
        let tables = 1 + copy.tables();
        if supply.count() < tables {
            return Err(Short::Tables(tables - supply.count()));
        }
        let areas = self.child_areas(editing)?;
        let Some(mut child) = Self::new(self.root, self.ceiling, self.limits) else {
            return Err(Error::NoMemory.into());
        };
        let accounted = |area: &&crate::Area<E::File>| area.flags.contains(AreaFlags::ACCOUNTED);
        let pages = areas.iter().filter(accounted).map(|area| area.bytes() >> E::Granule::SHIFT).sum();
        if !editing.embedder.commit(pages) {
            return Err(Error::NoMemory.into());
        }
        let before = supply.count();
        let mut there = PageTable::offline(platform, editing.shape.geometry, editing.shape.regime(), supply)?;
        let (mut shared, mut copied, mut used) = (Shared::NONE, Ok(()), 0);
        self.withdraw(editing, &licence, &mut || {
            copied = copy.apply(&mut there, supply, &mut gather, |to, leaf, size, count| {
                shared.add(editing.embedder, Leaf::new(to, leaf), (size, count), &mut child.resident);
            });
            shared.end(editing.embedder, &mut child.resident);
            used = before - supply.count();
            // Until TLBs have forgotten that pages may be written, nobody may believe that they are not.
            supply.refill(platform, gather.finish(platform));
        });
        copied?;
        (child.root, child.walker) = (there.detach(), self.walker);
        if self.has_folios() {
            child.note_folio();
        }
        (child.areas, child.heap) = (areas, self.heap.clone());
        Ok((child, used as u64))
    }

    /// Runs `copy`, in which nobody may write any more what a child is to have too. Members of a contiguous group that changes in place differ for
    /// a moment, which CPUs may take for a conflict: the kernel hears of that as of a leaf that changes size.
    fn withdraw(&self, editing: &Editing<'_, E>, licence: &Licence<'_>, copy: &mut dyn FnMut()) {
        match self.areas.iter().next().zip(self.areas.iter().last()).filter(|_| self.has_folios()) {
            Some((first, last)) => editing.resize(licence, first.start..last.end, copy),
            None => copy(),
        }
    }

    /// The areas that a child has.
    fn child_areas(&self, editing: &Editing<'_, E>) -> Result<Areas<E::File>, Error> {
        // A node is half full at the least, and its links are a few words.
        let bytes = self.areas.count() * 2 * (size_of::<crate::Area<E::File>>() + 4 * size_of::<u64>());
        if !editing.embedder.has_heap(bytes + crate::state::HEAP) {
            return Err(Error::NoMemory);
        }
        let mut areas = self.areas.try_clone()?;
        areas.retain(|area| {
            // As on Linux, what was told apart by that alone stays apart.
            area.flags -= AreaFlags::LOCKED | AreaFlags::LOCKED_ON_FAULT;
            !area.flags.contains(AreaFlags::DONT_FORK)
        });
        Ok(areas)
    }
}

/// Frames side by side that a child has too, of leaves that count alike.
struct Shared {
    first: PhysAddr,
    pages: u64,
    notes: Stage1Attributes,
    /// The descriptor of a leaf that goes on where the last one ended, and is like that.
    next: u64,
}

impl Shared {
    const NONE: Self = Self { first: PhysAddr::new(0), pages: 0, notes: Stage1Attributes::empty(), next: 0 };

    /// Leaves of a parent that lead on from each other, the first of which is given, are a child's too: they join the run, or begin another.
    #[inline(always)]
    fn add<E: Embedder>(
        &mut self,
        embedder: &E,
        leaf: Leaf,
        (size, count): (LeafSize, usize),
        resident: &mut Resident,
    ) {
        // One comparison for most: an address goes up in the descriptor as it does in memory. Behind the last one that is there, a bit
        // would be set that no leaf of a program has.
        let descriptor = leaf.attributes.bits();
        if descriptor != self.next {
            self.begin(embedder, leaf, resident);
        }
        let is_page = size.level == Level::L3;
        let bytes = if is_page { E::Granule::SIZE_BYTES } else { size.size_bytes(E::Granule::PAGE_SIZE) };
        let bytes = bytes * count as u64;
        self.pages += bytes >> E::Granule::SHIFT;
        let is_long = self.pages & (E::Granule::ENTRIES as u64 - 1) == 0;
        self.next = if is_long { Self::NONE.next } else { descriptor + bytes };
    }

    /// Another run begins, unless what differs is not counted, or it is only long.
    #[inline(never)]
    fn begin<E: Embedder>(&mut self, embedder: &E, leaf: Leaf, resident: &mut Resident) {
        // The child is whole or not at all. It is as large as what is there.
        let _ = embedder.goes_on();
        let notes = leaf.attributes & (Note::COUNTED | Note::OWN);
        if self.first + (self.pages << E::Granule::SHIFT) != leaf.frame || self.notes != notes {
            self.end(embedder, resident);
            (self.first, self.pages, self.notes) = (leaf.frame, 0, notes);
        }
    }

    /// The run is counted.
    #[inline(never)]
    fn end<E: Embedder>(&self, embedder: &E, resident: &mut Resident) {
        if self.notes.contains(Note::COUNTED) {
            embedder.share_run(self.first, self.pages, E::Granule::SHIFT);
            resident.add_many(&Leaf { frame: self.first, attributes: self.notes }, self.pages);
        }
    }
}

/// The ranges whose pages a child begins with. What lies side by side is one: a leaf is of one area, and becomes the same in each.
fn copied_ranges<F: Clone + PartialEq>(areas: &Areas<F>) -> impl Iterator<Item = Range<VirtAddr>> + Clone {
    let mut areas = areas.iter().filter(|area| is_copied(area)).peekable();
    core::iter::from_fn(move || {
        let Range { start, mut end } = areas.next()?.range();
        while let Some(next) = areas.next_if(|next| next.start == end) {
            end = next.end;
        }
        Some(start.into()..end.into())
    })
}

/// Whether a child begins with the pages of an area: what is shared it finds by faults.
fn is_copied<F: Clone + PartialEq>(area: &crate::Area<F>) -> bool {
    !area.is_shared() && !area.flags.intersects(AreaFlags::DONT_FORK | AreaFlags::WIPE_ON_FORK)
}
