//! Looking at pages: `mincore`, `smaps`, `pagemap`; and what MADV_FREE has left to be taken.

use core::ops::{ControlFlow, Range};

use pagetable::Reserve;
use vmsa::{Granule, PhysAddr, Stage1Attributes};

use crate::area::{Area, Backing};
use crate::embedder::{Embedder, File};
use crate::error::{Error, Short};
use crate::removing::unmap;
use crate::shape::{Leaf, Note, WRITABLE};
use crate::state::{Editing, State, for_each_leaf, for_each_leaf_if, make_single};

/// A page that is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// Its address.
    pub address: u64,
    /// Where it leads.
    pub frame: PhysAddr,
    /// The frame is the program's own, no file's; the frame of zeros is neither.
    pub is_own: bool,
    /// The frame counts a reference for it: it is not the frame of zeros.
    pub is_counted: bool,
    /// It was accessed since that was last asked.
    pub is_accessed: bool,
    /// It was written since it is there.
    pub is_dirty: bool,
    /// It may go until it is written: MADV_FREE.
    pub is_lazy: bool,
    /// Its leaf is a block.
    pub is_of_block: bool,
}

impl Page {
    pub(crate) fn new(address: u64, leaf: &Leaf) -> Self {
        let is_clean = leaf.has(WRITABLE | Stage1Attributes::READ_ONLY);
        let is_own = leaf.has(Note::OWN);
        Self {
            address,
            frame: leaf.frame,
            is_own,
            is_counted: leaf.has(Note::COUNTED),
            is_accessed: leaf.has(Stage1Attributes::AF),
            is_dirty: !is_clean && (is_own || leaf.has(WRITABLE)),
            is_lazy: is_clean,
            is_of_block: leaf.is_of_block(),
        }
    }
}

impl<E: Embedder> State<E> {
    /// Tells of each page of a range whether it is in memory. Refused where there is a hole.
    pub(crate) fn residency(
        &self,
        editing: &Editing<'_, E>,
        range: &Range<u64>,
        mut sink: impl FnMut(bool),
    ) -> Result<(), Short> {
        let (mut at, table) = (range.start, self.table(editing));
        for area in self.areas.parts(range) {
            if area.start > at {
                return Err(Error::NoMemory.into());
            }
            let mut pages = area.range().step_by(E::Granule::SIZE_BYTES as usize);
            if !editing.embedder.goes_on() {
                return Err(Error::Interrupted.into());
            }
            for_each_leaf::<E, ()>(&table, &area.range(), |mapped, _| {
                let before = pages.by_ref().take_while(|page| *page != mapped);
                before.for_each(|page| sink(is_cached::<E>(&area, page)));
                sink(true);
                ControlFlow::Continue(())
            })?;
            pages.for_each(|page| sink(is_cached::<E>(&area, page)));
            at = area.end;
        }
        if at < range.end { Err(Error::NoMemory.into()) } else { Ok(()) }
    }

    /// Takes a page of the program's own that may go, if there is one from `from` on: where it was. Not if it has been written meanwhile.
    pub(crate) fn take_lazy(
        &mut self,
        editing: &Editing<'_, E>,
        from: u64,
        supply: &mut Reserve,
    ) -> Result<Option<(u64, bool)>, Short> {
        let rest = from..editing.shape.geometry.input_bytes();
        let mut table = self.table(editing);
        let is_lazy = |leaf: &Leaf| {
            let _ = editing.embedder.goes_on();
            Page::new(0, leaf).is_lazy
        };
        let found = for_each_leaf_if::<E, Page>(&table, &rest, is_lazy, |page, leaf| {
            ControlFlow::Break(Page::new(page, &leaf))
        });
        let Some(page) = found? else { return Ok(None) };
        make_single::<E>(&mut table, editing, page.address, supply)?;
        // Kept first: once TLBs have forgotten it, hardware marks it no more, and what it says is final.
        if !table.make_page_valid(page.address.into(), false, None) {
            return Ok(None);
        }
        let kept = table.view().path(page.address.into()).last();
        let is_clean = kept.is_some_and(|kept| Leaf::new(page.frame, kept.descriptor).has(Stage1Attributes::READ_ONLY));
        if !is_clean {
            let _ = table.make_page_valid(page.address.into(), true, None);
            return Ok(Some((page.address, false)));
        }
        unmap::<E>(&mut table, editing, page.address..page.address + E::Granule::SIZE_BYTES, supply)?;
        self.resident.own = self.resident.own.wrapping_sub(1);
        editing.embedder.release(page.frame);
        Ok(Some((page.address, true)))
    }

    /// Unmaps what areas map of pages of a file; copies that a program has made for itself stay, if `keeps_copies`.
    pub(crate) fn forget_file(
        &mut self,
        editing: &Editing<'_, E>,
        file: &E::File,
        (pages, keeps_copies): (&Range<u64>, bool),
        supply: &mut Reserve,
    ) -> Result<(), Short> {
        let bytes = |page: u64| page.saturating_mul(E::Granule::SIZE_BYTES);
        let mut at = 0;
        while let Some(area) = self.areas.next(at) {
            at = area.end;
            // Whoever looks for a page of the file must not find it: this is done as a whole.
            let _ = editing.embedder.goes_on();
            let Backing::File { file: its, offset } = &area.backing else { continue };
            let of_area = |page: u64| area.start + bytes(page).saturating_sub(*offset).min(area.bytes());
            let range = of_area(pages.start)..of_area(pages.end);
            if its == file && !range.is_empty() {
                let keeps_copies = keeps_copies && !area.is_shared();
                self.version += 1;
                match keeps_copies {
                    true => self.remove_pages_of_file(editing, &range, supply)?,
                    false => self.remove_pages(editing, &range, supply)?,
                }
            }
        }
        Ok(())
    }

    /// Unmaps pages of a range that are a file's.
    fn remove_pages_of_file(
        &mut self,
        editing: &Editing<'_, E>,
        range: &Range<u64>,
        supply: &mut Reserve,
    ) -> Result<(), Short> {
        let mut at = range.start;
        loop {
            let is_files = |leaf: &Leaf| {
                let _ = editing.embedder.goes_on();
                !leaf.has(Note::OWN)
            };
            let found = for_each_leaf_if::<E, u64>(&self.table(editing), &(at..range.end), is_files, |page, _| {
                ControlFlow::Break(page)
            })?;
            let Some(page) = found else { return Ok(()) };
            at = page + E::Granule::SIZE_BYTES;
            self.remove_pages(editing, &(page..at), supply)?;
        }
    }
}

/// Whether a page that no table maps is in memory.
fn is_cached<E: Embedder>(area: &Area<E::File>, page: u64) -> bool {
    match &area.backing {
        Backing::Anonymous { .. } => false,
        Backing::File { file, offset } => file.is_resident((offset + (page - area.start)) >> E::Granule::SHIFT),
    }
}
