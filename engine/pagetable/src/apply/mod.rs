//! Every store of a descriptor that a walker may see, and the barriers and TLBIs that order it.
//!
//! ```text
//! link a table        fill it · DSB ISHST · store its descriptor
//! break-before-make   clear bit 0 · DSB ISHST · TLBI · DSB ISH · ISB · store · DSB ISHST · ISB
//! nT                  set nT · DSB ISHST · TLBI · DSB ISH · ISB · store · (the Gather makes TLBs forget again)
//! in place            store · (the Gather makes TLBs forget)
//! ```
//! No ISB where the CPU translates by other tables than these.

mod group;
mod resize;
mod steps;

use steps::{Built, Writer};
use vmsa::{Descriptor, Geometry, Granule, Level};

use crate::decide::{Decision, Edit, content};
use crate::fill::fill_segment;
use crate::gather::{Gather, complete_stores};
use crate::invalidation::{Depth, Invalidation};
use crate::licence::{Licence, Method};
use crate::pieces::{Content, Kind, Pieces};
use crate::platform::Platform;
use crate::regime::{Regime, marks};
use crate::single::Single;
use crate::table::PageTable;
use crate::tables::Reserve;
use crate::walk::{Next, Visit, next_table};

/// Carries out decisions.
pub(crate) struct Editor<'e, G: Granule, R: Regime, P: Platform> {
    pub(crate) platform: &'e P,
    pub(crate) geometry: Geometry<G>,
    pub(crate) regime: R,
    /// Whether hardware may walk the tables: without that no order matters.
    pub(crate) is_live: bool,
    /// Whether live leaves may change size at all.
    pub(crate) is_licensed: bool,
    /// How they do.
    pub(crate) method: Method,
    pub(crate) reserve: &'e mut Reserve,
    pub(crate) gather: &'e mut Gather<G, R>,
}

/// One page changes in place, and that is complete at once.
#[inline(always)]
pub(crate) fn set_and_complete<G: Granule, R: Regime, P: Platform>(table: &PageTable<'_, G, R, P>, page: &Single) {
    let PageTable { platform, geometry, regime, is_live, .. } = *table;
    let is_stale = Writer { platform, regime: &table.regime, is_live }.set(page.slot, page.old, page.new, page.edit);
    if is_live {
        let start = geometry.input(page.start);
        complete_stores(platform, geometry, regime, is_stale.then_some(Invalidation::page::<G>(start)).into_iter());
    }
}

impl<'e, G: Granule, R: Regime, P: Platform> Editor<'e, G, R, P> {
    /// An editor of `table`.
    #[inline(always)]
    pub(crate) fn new(
        table: &PageTable<'e, G, R, P>,
        licence: Option<&Licence<'_>>,
        reserve: &'e mut Reserve,
        gather: &'e mut Gather<G, R>,
    ) -> Self {
        let PageTable { platform, geometry, regime, is_live, .. } = *table;
        let (is_licensed, method) = (licence.is_some(), licence.map_or(Method::Break, Licence::method));
        Self { platform, geometry, regime, is_live, is_licensed, method, reserve, gather }
    }

    /// Does what was decided for `visit`, and says where to go on.
    #[inline(always)]
    pub(crate) fn carry_out(&mut self, decision: &Decision, visit: &Visit) -> Next {
        match decision {
            Decision::Enter => return Next::Enter,
            Decision::Pass | Decision::Refuse(_) => {}
            Decision::Make(leaf) => self.make(visit.slot, *leaf),
            Decision::Fill(content, end) => return self.fill(visit, content, *end),
            Decision::Link(pieces) => self.link(visit, pieces),
            // By itself, because it is the most frequent: with no more in its loop than it needs.
            Decision::Set(Edit::REMOVE, end) => return self.set(visit, Edit::REMOVE, *end),
            Decision::Set(edit, end) => return self.set(visit, *edit, *end),
            Decision::Clear => self.clear(visit),
            // Hardware has marked what was not to change, and to the change the mark comes after it.
            decision if !self.is_permitted(decision) => {}
            Decision::Unlink => self.unlink(visit, Descriptor::INVALID),
            Decision::Replace(kept) => self.unlink(visit, *kept),
            Decision::Remake(leaf) => self.remake(visit, *leaf),
            Decision::Rebuild(pieces) => self.rebuild(visit, pieces),
            Decision::Resize(part) => return self.resize(visit, part),
            Decision::Fold(leaf) => self.fold(visit, *leaf),
            Decision::Regroup(group) => return self.regroup(visit, group),
        }
        Next::Past(visit.end)
    }

    /// Whether the licence is for this, as it is for all that was planned.
    fn is_permitted(&self, decision: &Decision) -> bool {
        match decision {
            _ if !self.is_live => true,
            Decision::Resize(_) | Decision::Fold(_) => self.is_licensed,
            Decision::Regroup(group) => self.is_licensed || !group.is_valid,
            Decision::Remake(_) | Decision::Rebuild(_) => self.is_licensed && self.method == Method::Break,
            _ => true,
        }
    }

    /// Holes and members of one group may stand side by side (IPGVGZ).
    fn fill(&mut self, visit: &Visit, content: &Content, end: u64) -> Next {
        let layout = self.geometry.layout();
        fill_segment::<G, P>(self.platform, layout, visit.slot, visit.level, (visit.start, end), content);
        self.note_store();
        Next::Past(end)
    }

    fn link(&mut self, visit: &Visit, pieces: &Pieces) {
        let table = self.build(visit.level, visit.start, pieces);
        self.make(visit.slot, table);
    }

    /// A run of leaves changes in place. What of it TLBs may hold is forgotten as one range.
    #[inline(always)]
    fn set(&mut self, visit: &Visit, edit: Edit, end: u64) -> Next {
        let bytes = visit.end - visit.start;
        let (mut slot, mut leaf, mut at) = (visit.slot, visit.descriptor, visit.start);
        let mut stale_from = at;
        loop {
            if !self.writer().set(slot, leaf, edit.apply(leaf), edit) {
                self.forget(visit.level, stale_from, at);
                stale_from = at + bytes;
            }
            at += bytes;
            if at >= end {
                break;
            }
            slot = slot.after(1);
            leaf = self.platform.load(slot);
            if !edit.is_alike::<R::Attributes>(visit.descriptor, leaf) {
                break;
            }
        }
        self.note_store();
        self.forget(visit.level, stale_from, at);
        Next::Past(at)
    }

    /// One page changes in place.
    #[inline(always)]
    pub(crate) fn set_single(&mut self, single: &Single) {
        let is_stale = self.writer().set(single.slot, single.old, single.new, single.edit);
        self.note_store();
        if is_stale {
            self.forget(Level::L3, single.start, single.start + G::SIZE_BYTES);
        }
    }

    #[inline(always)]
    fn writer(&self) -> Writer<'_, R, P> {
        Writer { platform: self.platform, regime: &self.regime, is_live: self.is_live }
    }

    fn clear(&mut self, visit: &Visit) {
        // By exchange, where hardware may be writing: what it wrote last must not be overwritten unseen.
        self.writer().replace(visit.slot, visit.descriptor, |_| Descriptor::INVALID);
        self.note_store();
        if visit.descriptor.is_valid() {
            self.forget(visit.level, visit.start, visit.end);
        }
    }

    /// A table gives way to what TLBs cannot hold.
    fn unlink(&mut self, visit: &Visit, new: Descriptor) {
        let Some(table) = next_table(self.geometry, visit) else { return };
        self.platform.store(visit.slot, new);
        self.note_store();
        if self.is_live {
            self.gather.unlink(self.platform, table, visit.end - visit.start);
        } else {
            self.gather.retire(self.platform, table);
        }
    }

    /// A leaf becomes another leaf by break-before-make.
    fn remake(&mut self, visit: &Visit, leaf: Descriptor) {
        self.exchange_broken(visit, Depth::LastLevel, |editor, broken| {
            let leaf = marks::marked_since(editor.regime, leaf, visit.descriptor, broken);
            editor.platform.store(visit.slot, leaf);
        });
    }

    /// A leaf or table becomes something else altogether by break-before-make.
    fn rebuild(&mut self, visit: &Visit, pieces: &Pieces) {
        let (geometry, layout) = (self.geometry, self.geometry.layout());
        let new = match pieces.segment::<G>(layout, visit.level, visit.start, visit.end).kind {
            Kind::Leaves(content) => content.leaf(layout, visit.level, visit.start),
            _ => self.build(visit.level, visit.start, pieces),
        };
        let table = next_table(self.geometry, visit);
        let depth = if table.is_some() { Depth::AllLevels } else { Depth::LastLevel };
        self.exchange_broken(visit, depth, |editor, broken| {
            let built = Built { leaf: visit.descriptor, table: new };
            let pieces_of = |leaf| {
                let outside = pieces.outside.map(|_| content(geometry, leaf, visit.level, visit.start));
                Pieces { outside, ..*pieces }
            };
            let new = editor.build_again((visit.level, visit.start), built, broken, pieces_of);
            editor.platform.store(visit.slot, new);
        });
        if let Some(table) = table {
            self.gather.retire(self.platform, table);
        }
    }
}
