//! Pages around one of a file that a program has read: those that the file has in memory are mapped with it, so that the next reads find them.
//!
//! ```text
//!  area    |·····::::::R:::::::::|····      64 KiB around the page, as far as its area and its table go
//!                ▲ in memory, and not mapped: mapped, but not as accessed
//! ```

use core::ops::Range;
use core::sync::atomic::{Ordering, fence};

use vmsa::{Granule, PhysAddr, Stage1Attributes};

use crate::area::{Backing, Rights};
use crate::embedder::{Embedder, File};
use crate::folio::{around, block_order};
use crate::parts::part_of;
use crate::shape::{Leaf, Note};
use crate::space::AddressSpace;
use crate::state::{Editing, State};

/// What is mapped at once, of addresses: 64 KiB, a page of the largest size.
const SHIFT: u32 = 16;
const BYTES: u64 = 1 << SHIFT;
/// Pages of it with the smallest page size.
const MOST: usize = (BYTES >> 12) as usize;

/// What is to be mapped.
struct Window<F> {
    pages: Range<u64>,
    file: F,
    /// The page of the file that the first is.
    index: u64,
    rights: Rights,
    /// The state that this was found in.
    version: u64,
}

impl<E: Embedder> AddressSpace<E> {
    /// Maps what a file has in memory around a page of it that was read. No lock is held.
    #[inline(never)]
    pub(crate) fn map_around(&self, page: u64) {
        if E::Granule::SHIFT == SHIFT {
            return;
        }
        let part = part_of::<E::Granule>(page);
        let Some(window) = self.with_part(part, |state, _| state.window(page)) else { return };
        let mut frames = [None; MOST];
        let place = |at: u64| ((at - window.pages.start) >> E::Granule::SHIFT) as usize;
        let end = window.index + place(window.pages.end) as u64;
        window.file.resident_frames(window.index..end, |index, frame| {
            if let Some(place) = frames.get_mut(index.wrapping_sub(window.index) as usize) {
                *place = Some(frame);
            }
        });
        // This one is mapped.
        let own = frames[place(page)].take();
        own.inspect(|&frame| self.embedder().release(frame));
        if window.rights.contains(Rights::EXECUTE) {
            frames.iter().flatten().for_each(|&frame| self.embedder().make_fetchable(frame));
        }
        // What the pages hold is seen before the leaves are, as after every fault.
        fence(Ordering::Release);
        // Nothing of it is needed, so that it need not have come about.
        self.with_part(part, |state, _| state.place_around(&self.editing(), &window, &mut frames));
        frames.iter().flatten().for_each(|&frame| self.embedder().release(frame));
    }
}

impl<F> Window<F> {
    fn addresses<G: Granule>(&self) -> impl Iterator<Item = u64> + use<G, F> {
        self.pages.clone().step_by(G::SIZE_BYTES as usize)
    }
}

impl<E: Embedder> State<E> {
    fn window(&self, page: u64) -> Option<Window<E::File>> {
        let area = self.areas.find(page)?;
        let Backing::File { file, offset } = &area.backing else { return None };
        let start = around::<E>(page, SHIFT - E::Granule::SHIFT).start.max(area.start);
        // One table: a page of it is mapped, so that it is there, and all is of one part.
        let table = around::<E>(start, block_order::<E>());
        let end = (start + BYTES).min(table.end).min(area.end);
        let index = (offset + (start - area.start)) >> E::Granule::SHIFT;
        let (file, rights, version) = (file.clone(), area.rights, self.version_at(self.parts.of::<E::Granule>(page)));
        Some(Window { pages: start..end, file, index, rights, version })
    }

    /// Maps frames where holes are, and takes their references.
    fn place_around(&self, editing: &Editing<'_, E>, window: &Window<E::File>, frames: &mut [Option<PhysAddr>; MOST]) {
        let part = self.parts.of::<E::Granule>(window.pages.start);
        if self.version_at(part) != window.version {
            return;
        }
        // Nobody has accessed them: `smaps` says so, and the first access asks for no more than that bit.
        let attributes = (editing.shape.read_only(window.rights) - Stage1Attributes::AF) | Note::COUNTED;
        let mut table = self.table(editing);
        for (page, place) in window.addresses::<E::Granule>().zip(frames) {
            if let Some(frame) = place.take_if(|frame| table.map_page(page.into(), *frame, attributes)) {
                part.add(&Leaf { frame, attributes }, 1);
            }
        }
    }
}
