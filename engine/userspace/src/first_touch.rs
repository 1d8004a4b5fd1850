//! The shortcut: the first touch of memory without a file, by a write: the most frequent fault by far. Zeros, one page of them or a
//! contiguous group, come where a table has holes for them.
//!
//! ```text
//!   vacant (locked): a hole of a table of pages ──▶ frames, zeroed   no lock ──▶ fill (locked): holes still ──▶ stored
//!      └──▶ anything else: the whole way, fault.rs                                  └──▶ the frames go back ──▶ the whole way
//! ```
//! It takes no table and refuses nothing, so that the lock of the page's part is enough, and whatever it does not do has changed nothing.

use core::sync::atomic::{Ordering, fence};

use pagetable::Hole;
use vmsa::{PhysAddr, Stage1Attributes};

use crate::access::{Access, Kind};
use crate::area::Rights;
use crate::embedder::Embedder;
use crate::folio::{self, Made};
use crate::parts::{Part, part_of};
use crate::shape::Note;
use crate::space::AddressSpace;
use crate::state::{Editing, State};

/// A hole that lacks zeros, and nothing else.
struct Vacant {
    hole: Hole,
    part: usize,
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
        let part = part_of::<E::Granule>(access.address);
        let found = self.with_part(part, |state, its| state.vacant(&editing, (part, its), access.address));
        let Some(vacant) = found else { return false };
        if vacant.order != 0 {
            return self.fill_with_folio(&editing, &vacant);
        }
        let Some(frame) = self.embedder().take() else { return false };
        self.embedder().zero(frame);
        self.put(Made { frame, order: 0 }, part, |state, part| state.fill_page(&editing, part, &vacant, frame))
    }

    /// The same with a folio, or a page where there is no memory for one.
    // Apart, so that a page needs no registers for it.
    #[inline(never)]
    fn fill_with_folio(&self, editing: &Editing<'_, E>, vacant: &Vacant) -> bool {
        let made = folio::zeros(self.embedder(), vacant.order);
        made.is_some_and(|made| self.put(made, vacant.part, |state, part| state.fill(editing, part, vacant, made)))
    }

    /// Has `fill` put zeros that were made where a hole was. Whether they are there; they go back if not.
    #[inline(always)]
    fn put(&self, made: Made, part: usize, fill: impl FnOnce(&State<E>, &Part) -> bool) -> bool {
        // The zeros are seen before the leaf is: another CPU would read what the frame held before, or lose what it writes to zeros
        // that come late. No lock orders these stores.
        fence(Ordering::Release);
        let is_filled = self.with_part(part, fill);
        if !is_filled {
            made.frames::<E>().for_each(|frame| self.embedder().release(frame));
        }
        is_filled
    }
}

impl<E: Embedder> State<E> {
    /// What the access to an address is the first touch of.
    #[inline(always)]
    fn vacant(&self, editing: &Editing<'_, E>, (number, part): (usize, &Part), address: u64) -> Option<Vacant> {
        if !part.is_latest(address) && !self.note_latest(part, address) {
            return None;
        }
        let (rights, flags) = part.latest_facts();
        // What may be executed too is made fetchable.
        if rights & (Rights::WRITE | Rights::EXECUTE) != Rights::WRITE {
            return None;
        }
        let table = self.root.on(&editing.platform);
        let hole = table.view().find_hole(address.into())?;
        let order = match folio::orders_of(editing, flags) {
            0 => 0,
            orders => folio::order_at::<E>(&table, &part.latest(), (address, hole), orders)?,
        };
        let attributes = editing.shape.written(rights) | Note::COUNTED | Note::OWN;
        Some(Vacant { hole, part: number, order, version: self.version_at(part), attributes })
    }

    /// Notes the area that holds an address as the one that was found last, if no file is behind it. Whether it is.
    // Apart, so that who finds it again needs no registers for this.
    #[cold]
    #[inline(never)]
    fn note_latest(&self, part: &Part, address: u64) -> bool {
        self.areas.find(address).is_some_and(|area| part.note(area))
    }

    /// Maps a page where the hole is, if all is as it was.
    #[inline(always)]
    fn fill_page(&self, editing: &Editing<'_, E>, part: &Part, vacant: &Vacant, frame: PhysAddr) -> bool {
        // No table has come free since: the hole is in a table still.
        let is_filled = self.version_at(part) == vacant.version
            && self.table(editing).map_hole(vacant.hole, frame, vacant.attributes);
        part.add_own(u64::from(is_filled));
        is_filled
    }

    /// The same of what was made.
    fn fill(&self, editing: &Editing<'_, E>, part: &Part, vacant: &Vacant, made: Made) -> bool {
        if made.order == 0 {
            return self.fill_page(editing, part, vacant, made.frame);
        }
        // As above.
        let is_filled = self.version_at(part) == vacant.version
            && self.table(editing).map_hole_group(vacant.hole, made.frame, vacant.attributes);
        if is_filled {
            part.add_own(1 << made.order);
            self.note_folio();
        }
        is_filled
    }
}
