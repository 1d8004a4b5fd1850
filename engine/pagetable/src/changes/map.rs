//! Mapping: holes become leaves and tables; with remap, so does whatever stands there.
//!
//! ```text
//! holes that whole leaves fill    one run of stores, however many
//! a hole that they do not fill    a table, filled and then linked
//! a leaf or table, remapped       stays if it is already what it would become; else by break-before-make
//! a group, remapped               stays, or dissolves, and its members are met one by one
//! ```

use vmsa::{Descriptor, Geometry, Granule, LeafSize};

use super::group::Regroup;
use super::split::content;
use super::steps::Built;
use super::{Decision, Editor, Goal, Terms, fold};
use crate::invalidation::Depth;
use crate::pieces::{Content, Kind, Pieces};
use crate::platform::{Platform, Slot};
use crate::regime::{Regime, marks};
use crate::walk::{Next, Visit};

impl Goal {
    pub(super) fn decide_hole<G: Granule, P: Platform>(
        &self,
        platform: &P,
        geometry: Geometry<G>,
        content: Content,
        visit: &Visit,
    ) -> Decision {
        let pieces = self.replacing(content, None);
        let segment = pieces.segment::<G>(geometry.layout(), visit.level, visit.start, self.to);
        let Kind::Leaves(content) = segment.kind else {
            return Decision::Link(pieces);
        };
        let limit = segment.end.min(geometry.table_end(visit.level, visit.start));
        let slots = (limit - visit.start) >> Geometry::<G>::shift(visit.level);
        let holes = count_holes(platform, visit.slot, slots as usize);
        Decision::Fill(*content, visit.start + ((holes as u64) << Geometry::<G>::shift(visit.level)))
    }

    /// Leaf by leaf nothing may be left to do, where a new table would need break-before-make.
    pub(super) fn decide_remap_of_table<G: Granule, R: Regime, P: Platform>(
        &self,
        platform: &P,
        geometry: Geometry<G>,
        regime: R,
        content: Content,
        visit: &Visit,
    ) -> Decision {
        if !content.fits::<G>(geometry.layout(), visit.level)
            && fold::holds::<G, R, P>(platform, geometry, regime, visit, &content)
        {
            return Decision::Enter;
        }
        Decision::Rebuild(self.replacing(content, None))
    }

    /// A leaf gives way to other content, unless it differs by marks alone, which come when they come. A group dissolves
    /// first, and its members are met one by one.
    pub(super) fn decide_remap<G: Granule, R: Regime, P: Platform>(
        &self,
        platform: &P,
        geometry: Geometry<G>,
        regime: R,
        content: Content,
        visit: &Visit,
    ) -> Decision {
        let (layout, shift) = (geometry.layout(), Geometry::<G>::shift(visit.level));
        let size = LeafSize { level: visit.level, contiguous: visit.is_group() };
        let becomes = |number: usize| content.leaf(layout, visit.level, visit.start + ((number as u64) << shift));
        let differs = |number: usize, leaf: Descriptor| {
            let other = (leaf.bits() & !Descriptor::CONTIGUOUS) ^ becomes(number).bits();
            other & !marks::writable(regime, content.attributes) != 0
        };
        let asked =
            ((visit.from - visit.start) >> shift) as usize..((visit.to - visit.start).div_ceil(1 << shift)) as usize;
        let is_there = match visit.is_group() {
            false => !differs(0, visit.descriptor),
            true => asked.into_iter().all(|number| !differs(number, platform.load(visit.slot.after(number)))),
        };
        if is_there && size <= content.largest {
            return Decision::Pass;
        }
        if visit.is_group() {
            return Decision::Regroup(Regroup::Dissolve);
        }
        let old = super::split::content(geometry, visit.descriptor, visit.level, visit.start);
        let pieces = self.replacing(content, (!visit.is_whole()).then_some(old));
        let is_live = visit.descriptor.is_valid();
        match pieces.segment::<G>(layout, visit.level, visit.start, visit.end).kind {
            Kind::Leaves(content) => {
                let leaf = content.leaf(layout, visit.level, visit.start);
                if is_live { Decision::Remake(leaf) } else { Decision::Make(leaf) }
            }
            _ if is_live => Decision::Rebuild(pieces),
            _ => Decision::Link(pieces),
        }
    }

    /// What a stretch holds when the range has new content.
    const fn replacing(&self, content: Content, outside: Option<Content>) -> Pieces {
        Pieces { from: self.from, to: self.to, inside: Some(content), outside }
    }
}

/// How many of `count` slots hold nothing, up to the first that holds something, be it an empty table.
fn count_holes<P: Platform>(platform: &P, slot: Slot, count: usize) -> usize {
    let is_hole = |index: &usize| platform.load(slot.after(*index)) == Descriptor::INVALID;
    const TURNS: usize = 8;
    let mut holes = 0;
    while holes + TURNS <= count
        && (holes..holes + TURNS).fold(0, |all, index| all | platform.load(slot.after(index)).bits()) == 0
    {
        holes += TURNS;
    }
    holes + (holes..count).take_while(is_hole).count()
}

impl<G: Granule, R: Regime, P: Platform> Terms<'_, '_, G, R, P> {
    /// Tables for what takes the place of a whole descriptor: none if a leaf does.
    pub(super) fn tables_to_rebuild(&self, visit: &Visit, pieces: &Pieces) -> usize {
        match pieces.segment::<G>(self.table.geometry.layout(), visit.level, visit.start, visit.end).kind {
            Kind::Leaves(_) => 0,
            _ => self.tables_below(visit, pieces),
        }
    }
}

impl<G: Granule, R: Regime, P: Platform> Editor<'_, G, R, P> {
    /// Holes become leaves. Holes and members of one group may stand side by side (IPGVGZ).
    pub(super) fn fill(&mut self, visit: &Visit, content: &Content, end: u64) -> Next {
        content.write_leaves::<G>(self.geometry.layout(), visit.level, (visit.start, end), |index, leaf| {
            self.write(visit.slot.after(index), leaf);
        });
        self.note_store();
        Next::Past(end)
    }

    /// What TLBs cannot hold becomes a table.
    pub(crate) fn link(&mut self, visit: &Visit, pieces: &Pieces) {
        if let Some(table) = self.build(visit.level, visit.start, pieces) {
            self.make(visit.slot, table);
        }
    }

    /// A leaf or table becomes something else altogether by break-before-make.
    pub(super) fn rebuild(&mut self, visit: &Visit, pieces: &Pieces) {
        let (geometry, layout) = (self.geometry, self.geometry.layout());
        let new = match pieces.segment::<G>(layout, visit.level, visit.start, visit.end).kind {
            Kind::Leaves(content) => Some(content.leaf(layout, visit.level, visit.start)),
            _ => self.build(visit.level, visit.start, pieces),
        };
        let Some(new) = new else { return };
        let table = visit.table(geometry);
        let depth = if table.is_some() { Depth::AllLevels } else { Depth::LastLevel };
        self.exchange_broken(visit, depth, |editor, broken| {
            let built = Built { leaf: visit.descriptor, table: new };
            let pieces_of = |leaf| {
                let outside = pieces.outside.map(|_| content(geometry, leaf, visit.level, visit.start));
                Pieces { outside, ..*pieces }
            };
            let new = editor.build_again((visit.level, visit.start), built, broken, pieces_of);
            editor.write(visit.slot, new);
        });
        if let Some(table) = table {
            self.gather.retire(self.platform, table);
        }
    }
}
