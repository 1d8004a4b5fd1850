//! The shortcut: the first touch of memory without a file, by a write: the most frequent fault by far. Zeros, one page of them or a
//! contiguous group, come where a table has holes for them.
//!
//! ```text
//!   vacant (locked): a hole of a table of pages ──▶ frames, zeroed   no lock ──▶ fill (locked): holes still ──▶ stored
//!      └──▶ anything else: the whole way, fault.rs                                  └──▶ the frames go back ──▶ the whole way
//! ```
//! It takes no table and refuses nothing, and whatever it does not do has changed nothing.

use core::sync::atomic::{Ordering, fence};

use pagetable::Hole;
use vmsa::{Granule, PhysAddr, Stage1Attributes};

use crate::access::{Access, Kind};
use crate::area::{Backing, Rights};
use crate::embedder::{Embedder, Lock};
use crate::folio::{self, Made};
use crate::shape::Note;
use crate::space::AddressSpace;
use crate::state::{Editing, State};

/// A hole that lacks zeros, and nothing else.
struct Vacant {
    hole: Hole,
    /// The order of the folio that may come: 0, or a contiguous group's.
    order: u32,
    /// The state that it was found in.
    version: u64,
    attributes: Stage1Attributes,
}

impl<E: Embedder> AddressSpace<E> {
    /// Makes what an access lacks, if that is zeros where a table has a hole for them. Whether it has.
    #[inline(always)]
    pub(crate) fn touch_first(&self, access: Access) -> bool {
        if !matches!(access.kind, Kind::Write | Kind::Atomic) {
            return false;
        }
        let editing = self.editing();
        let Some(vacant) = self.state().with(|state| state.vacant(&editing, access)) else { return false };
        if vacant.order > 0 {
            return self.fill_with_folio(&editing, &vacant);
        }
        let Some(frame) = self.embedder().take() else { return false };
        self.embedder().zero(frame);
        self.put(Made { frame, order: 0 }, |state| state.fill_page(&editing, &vacant, frame))
    }

    /// The same with a folio, or a page where there is no memory for one.
    // Apart, so that a page needs no registers for it.
    #[inline(never)]
    fn fill_with_folio(&self, editing: &Editing<'_, E>, vacant: &Vacant) -> bool {
        let made = folio::zeros(self.embedder(), vacant.order);
        made.is_some_and(|made| self.put(made, |state| state.fill(editing, vacant, made)))
    }

    /// Has `fill` put zeros that were made where a hole was. Whether they are there; they go back if not.
    #[inline(always)]
    fn put(&self, made: Made, fill: impl FnOnce(&mut State<E>) -> bool) -> bool {
        // The zeros are seen before the leaf is: another CPU would read what the frame held before, or lose what it writes to zeros
        // that come late. No lock orders these stores.
        fence(Ordering::Release);
        let is_filled = self.state().with(fill);
        if !is_filled {
            made.frames::<E>().for_each(|frame| self.embedder().release(frame));
        }
        is_filled
    }
}

impl<E: Embedder> State<E> {
    /// What an access is the first touch of.
    #[inline(always)]
    fn vacant(&mut self, editing: &Editing<'_, E>, access: Access) -> Option<Vacant> {
        let page = access.address & !(E::Granule::SIZE_BYTES - 1);
        let area = self.areas.find_again(page)?;
        // What may be executed too is made fetchable.
        let is_data = area.rights & (Rights::WRITE | Rights::EXECUTE) == Rights::WRITE
            && matches!(area.backing, Backing::Anonymous { .. });
        if !is_data {
            return None;
        }
        let table = self.root.on(&editing.platform);
        let hole = table.view().find_hole(page.into())?;
        let order = match folio::orders(editing, area) {
            0 => 0,
            orders => folio::order_at::<E>(&table, area, (page, hole), orders)?,
        };
        let attributes = editing.shape.written(area.rights) | Note::COUNTED | Note::OWN;
        Some(Vacant { hole, order, version: self.version, attributes })
    }

    /// Maps a page where the hole is, if all is as it was.
    #[inline(always)]
    fn fill_page(&mut self, editing: &Editing<'_, E>, vacant: &Vacant, frame: PhysAddr) -> bool {
        // No table has come free since: the hole is in a table still.
        let is_filled =
            self.version == vacant.version && self.table(editing).map_hole(vacant.hole, frame, vacant.attributes);
        self.resident.own += u64::from(is_filled);
        is_filled
    }

    /// The same of what was made.
    fn fill(&mut self, editing: &Editing<'_, E>, vacant: &Vacant, made: Made) -> bool {
        if made.order == 0 {
            return self.fill_page(editing, vacant, made.frame);
        }
        // As above.
        let is_filled = self.version == vacant.version
            && self.table(editing).map_hole_group(vacant.hole, made.frame, vacant.attributes);
        self.resident.own += u64::from(is_filled) << made.order;
        self.has_folios |= is_filled;
        is_filled
    }
}
