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
//! In place nothing but the size may change at once (RPVTFW), so the table holds what the leaf held. The edit comes after, in the
//! new table, which the walker enters. A walker of hardware may then use either, the block from a TLB or the pages from the
//! table, and finds the same translation.
//!
//! Hardware may mark the leaf while the table is being filled from it. Break-before-make looks at the broken leaf, in place the
//! exchange fails: either way the table is then built anew from the marked leaf, before it is linked.

use vmsa::{Descriptor, Granule, LeafSize, Level};

use super::decision::{Part, Regroup};
use super::steps::Built;
use super::{Decision, Edit, Editor, Goal, Terms};
use crate::invalidation::Depth;
use crate::licence::Method;
use crate::pieces::{Content, Pieces};
use crate::platform::Platform;
use crate::regime::{Fields, Regime, marks};
use crate::table::PageTable;
use crate::walk::{Next, Visit};

impl<G: Granule, R: Regime, P: Platform> PageTable<'_, G, R, P> {
    /// The pieces of the leaf at `visit`, of which `part` is edited.
    #[inline(always)]
    pub(super) fn pieces(&self, visit: &Visit, part: &Part) -> Pieces {
        let (outside, edited) = (self.content(visit), part.edit.apply(visit.descriptor).bits());
        let inside = Content {
            attributes: edited & self.geometry.layout().attribute_mask(G::PAGE_SIZE, Level::L3),
            is_kept: edited & Descriptor::VALID == 0,
            largest: outside.largest.and(part.largest),
            ..outside
        };
        let inside = (!part.edit.removes()).then_some(inside);
        // Between pages that are no groups there is a boundary everywhere: what stays as it is needs no piece of its own.
        let is_alike = part.edit == Edit::KEEP && visit.level == Level::L2 && !outside.largest.contiguous;
        let to = if is_alike { part.from } else { part.to };
        Pieces { from: part.from, to, inside, outside: Some(outside) }
    }

    /// A leaf becomes a table: freely if it is kept, for then no TLB holds it.
    pub(super) fn resize(&self, visit: &Visit, part: Part) -> Decision {
        if visit.descriptor.is_valid() { Decision::Resize(part) } else { Decision::Link(self.pieces(visit, &part)) }
    }

    /// A boundary where the range begins.
    pub(super) fn decide_split(&self, goal: &Goal, visit: &Visit) -> Decision {
        match visit.is_group() {
            _ if visit.start == goal.from => Decision::Pass,
            true => Decision::Regroup(Regroup::Dissolve),
            false => self.resize(visit, Part { to: visit.end, ..Part::of(visit, Edit::KEEP) }),
        }
    }

    /// Pages all through: a group dissolves, a block becomes pages.
    pub(super) fn decide_pages(&self, visit: &Visit) -> Decision {
        match visit.is_group() {
            true => Decision::Regroup(Regroup::Dissolve),
            false if visit.level == Level::L3 => Decision::Pass,
            false => self.resize(visit, Part { largest: LeafSize::PAGE, ..Part::of(visit, Edit::KEEP) }),
        }
    }
}

impl<G: Granule, R: Regime, P: Platform> Terms<'_, G, R, P> {
    /// The tables that the leaf at `visit` becomes.
    #[inline(always)]
    pub(super) fn tables_of(&self, visit: &Visit, part: &Part) -> usize {
        // A table of pages is one, whatever they hold.
        if visit.level == Level::L2 { 1 } else { self.tables_below(visit, &self.table.pieces(visit, part)) }
    }
}

impl<G: Granule, R: Regime, P: Platform> Editor<'_, G, R, P> {
    /// A leaf becomes a table. The table is filled before any window opens.
    pub(super) fn resize(&mut self, visit: &Visit, part: &Part) -> Next {
        let kept = Part { edit: Edit::KEEP, ..*part };
        let is_in_place = self.is_live && self.method() != Method::Break;
        let pieces = self.terms.table.pieces(visit, if is_in_place { &kept } else { part });
        let Some(table) = self.build(visit, &pieces) else { return Next::Past(visit.end) };
        let built = Built { leaf: visit.descriptor, table };
        if is_in_place {
            if self.method() == Method::NotCached {
                let not_cached = |leaf: Descriptor| Descriptor::new(leaf.bits() | Descriptor::NT);
                self.writer().replace(visit.slot, visit.descriptor, not_cached);
                self.forget_now(visit, Depth::LastLevel);
            }
            return self.resize_in_place(visit, part.edit, &kept, built);
        }
        if self.is_live {
            self.exchange_broken(visit, Depth::LastLevel, |editor, broken| {
                let table = editor.build_part_again(visit, part, built, broken);
                editor.write(visit.slot, table);
            });
        } else {
            self.make(visit.slot, built.table);
        }
        Next::Past(visit.end)
    }

    pub(super) fn build_part_again(&mut self, visit: &Visit, part: &Part, built: Built, now: Descriptor) -> Descriptor {
        let table = self.terms.table;
        self.build_again(visit, built, now, |visit| table.pieces(visit, part))
    }

    /// A leaf becomes the table that was built of it, which holds the same; `edit` is yet to be made, there.
    fn resize_in_place(&mut self, visit: &Visit, edit: Edit, kept: &Part, mut built: Built) -> Next {
        let mut leaf = visit.descriptor;
        while let Err(actual) = self.writer().swap(visit.slot, leaf, built.table) {
            let table = self.build_part_again(visit, kept, built, actual);
            (leaf, built) = (actual, Built { leaf: self.marked_as(built.leaf, actual), table });
        }
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
        match visit.with(built.table).table(self.geometry) {
            Some(table) if edit != Edit::KEEP => Next::Into(table),
            _ => Next::Past(visit.end),
        }
    }
}
