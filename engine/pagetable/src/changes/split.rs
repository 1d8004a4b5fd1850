//! Splitting: a leaf becomes a table that holds the same, or of which a part is edited.
//!
//! ```text
//!   |------- the leaf -------|==== the part ====|--- the leaf ---|     what the new table holds (`Pieces`)
//!
//! not live, or kept    fill the table · link it
//! break-before-make    fill · break the leaf · forget it · link · the window ends
//! nT                   fill · set nT · forget the leaf · link · the part is met again, as leaves of its own
//! in place             fill · link                          · the part is met again, as leaves of its own
//! ```
//! In place nothing but the size may change at once (RPVTFW), so the table holds what the leaf held.

use vmsa::{Descriptor, Geometry, Granule, LeafSize, Level};

use super::group::Regroup;
use super::steps::Built;
use super::{Decision, Edit, Editor, Goal, Terms};
use crate::change::Refusal;
use crate::invalidation::Depth;
use crate::licence::Method;
use crate::pieces::{Content, Pieces};
use crate::platform::Platform;
use crate::regime::{Fields, Regime, marks};
use crate::walk::{Next, Visit};

/// A part of a leaf, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) edit: Edit,
    /// The largest leaf that may hold it.
    pub(super) largest: LeafSize,
}

impl Part {
    /// The pieces of a leaf of `level` at `start`, of which this part is edited.
    #[inline(always)]
    pub(super) fn pieces<G: Granule>(
        &self,
        geometry: Geometry<G>,
        leaf: Descriptor,
        level: Level,
        start: u64,
    ) -> Pieces {
        let edited = || Content { largest: self.largest, ..content(geometry, self.edit.apply(leaf), level, start) };
        let inside = (!self.edit.removes()).then(edited);
        Pieces { from: self.from, to: self.to, inside, outside: Some(content(geometry, leaf, level, start)) }
    }
}

/// What a leaf of `level` at `start` holds, valid or kept.
pub(super) fn content<G: Granule>(geometry: Geometry<G>, leaf: Descriptor, level: Level, start: u64) -> Content {
    let layout = geometry.layout();
    Content {
        delta: layout.output(leaf, Geometry::<G>::shift(level)).bits().wrapping_sub(start),
        // Of a block's bits those that would be output address in a page are left behind: they are RES0, or nT.
        attributes: leaf.bits() & layout.attribute_mask(G::PAGE_SIZE, Level::L3),
        is_kept: !leaf.is_valid(),
        largest: LeafSize::LARGEST,
    }
}

/// The part of a leaf that is asked for.
pub(super) const fn part(visit: &Visit, edit: Edit) -> Part {
    Part { from: visit.from, to: visit.to, edit, largest: LeafSize::LARGEST }
}

/// A leaf becomes a table: freely if it is kept, for then no TLB holds it.
pub(super) fn resize<G: Granule>(geometry: Geometry<G>, visit: &Visit, part: Part) -> Decision {
    if visit.descriptor.is_valid() {
        Decision::Resize(part)
    } else {
        Decision::Link(part.pieces(geometry, visit.descriptor, visit.level, visit.start))
    }
}

impl Goal {
    /// A boundary at `from`.
    pub(super) fn decide_split<G: Granule>(&self, geometry: Geometry<G>, visit: &Visit) -> Decision {
        if visit.start == self.from {
            return Decision::Pass;
        }
        if visit.is_group() {
            return Decision::Regroup(Regroup::Dissolve);
        }
        resize(geometry, visit, Part { to: visit.end, ..part(visit, Edit::KEEP) })
    }
}

/// Pages all through: a group dissolves, a block becomes pages.
pub(super) fn decide_pages<G: Granule>(geometry: Geometry<G>, visit: &Visit) -> Decision {
    if visit.is_group() {
        return Decision::Regroup(Regroup::Dissolve);
    }
    if visit.level == Level::L3 {
        return Decision::Pass;
    }
    resize(geometry, visit, Part { largest: LeafSize::PAGE, ..part(visit, Edit::KEEP) })
}

impl<G: Granule, R: Regime, P: Platform> Terms<'_, '_, G, R, P> {
    pub(super) fn cost_of_resize(&self, visit: &Visit, part: &Part) -> Result<usize, Refusal> {
        self.needs_licence_for(visit, part.edit)?;
        // A table of pages is one, whatever they hold.
        if visit.level == Level::L2 {
            return Ok(1);
        }
        let pieces = part.pieces(self.table.geometry, visit.descriptor, visit.level, visit.start);
        Ok(self.tables_below(visit, &pieces))
    }
}

impl<G: Granule, R: Regime, P: Platform> Editor<'_, G, R, P> {
    /// A leaf becomes a table. The table is filled before any window opens.
    pub(super) fn resize(&mut self, visit: &Visit, part: &Part) -> Next {
        let (past, kept) = (Next::Past(visit.end), Part { edit: Edit::KEEP, ..*part });
        let is_in_place = self.is_live && self.method != Method::Break;
        let held = if is_in_place { &kept } else { part };
        let Some(built) = self.build_part(visit, held, visit.descriptor) else { return past };
        match self.method {
            _ if !self.is_live => self.make(visit.slot, built.table),
            Method::Break => self.exchange_broken(visit, Depth::LastLevel, |editor, broken| {
                let table = editor.build_part_again(visit, part, built, broken);
                editor.write(visit.slot, table);
            }),
            Method::NotCached => {
                let not_cached = |leaf: Descriptor| Descriptor::new(leaf.bits() | Descriptor::NT);
                self.writer().replace(visit.slot, visit.descriptor, not_cached);
                self.forget_now(visit.level, visit.start, visit.end, Depth::LastLevel);
                self.resize_in_place(visit, part.edit, &kept, built);
            }
            Method::InPlace { .. } => self.resize_in_place(visit, part.edit, &kept, built),
        }
        // In place the part is met again.
        if is_in_place && part.edit != Edit::KEEP { Next::Past(visit.from) } else { past }
    }

    fn build_part(&mut self, visit: &Visit, part: &Part, leaf: Descriptor) -> Option<Built> {
        let pieces = part.pieces(self.geometry, leaf, visit.level, visit.start);
        Some(Built { leaf, table: self.build(visit.level, visit.start, &pieces)? })
    }

    fn build_part_again(&mut self, visit: &Visit, part: &Part, built: Built, now: Descriptor) -> Descriptor {
        let (geometry, level, start) = (self.geometry, visit.level, visit.start);
        self.build_again((level, start), built, now, |leaf| part.pieces(geometry, leaf, level, start))
    }

    /// A leaf becomes the table that was built of it, which holds the same; `edit` is yet to be made.
    fn resize_in_place(&mut self, visit: &Visit, edit: Edit, kept: &Part, mut built: Built) {
        let mut leaf = visit.descriptor;
        while let Err(actual) = self.writer().swap(visit.slot, leaf, built.table) {
            let table = self.build_part_again(visit, kept, built, actual);
            (leaf, built) = (actual, Built { leaf: self.marked_as(built.leaf, actual), table });
        }
        self.note_store();
        let changed = leaf.bits() ^ edit.apply(leaf).bits();
        if changed & !R::Attributes::IGNORED & !marks::writable(self.regime, leaf.bits()) == 0 {
            // Nothing else is sure to make TLBs forget the old leaf (hardware may do what the edit would have done), and a level
            // hint would miss it ever after.
            self.forget(visit.level, visit.start, visit.end);
        } else {
            // The TLBIs of the edit, by address and without a level hint, forget the old leaf too, all of it. A block takes one
            // TLBI by any address in it, be it cached as many entries (RLGSCG, RLQLSD): the TLBI does not know what the tables
            // hold by now, and where there are no hints (no FEAT_TTL) every TLBI of a block is one like this. So from then on
            // no TLB holds a piece of the block, and later TLBIs may name the level of the pages.
            self.gather.note_resize(visit.start, visit.end);
        }
    }
}
