//! What a change means for each descriptor it meets. Planning counts these decisions, applying carries them out.

mod edit;
mod fold;
mod goal;
mod group;

use vmsa::{Descriptor, Geometry, Granule, LeafSize, Level, Meaning};

pub(crate) use edit::{Edit, Part, content};
pub(crate) use goal::{Goal, goal, protection};
pub(crate) use group::Regroup;

use crate::change::Refusal;
use crate::pieces::{Content, Kind, Pieces};
use crate::platform::{Platform, Slot};
use crate::regime::{Regime, marks};
use crate::walk::Visit;
use goal::Wanted;
use group::{dissolve, group, regroup};

/// What is to be done at a descriptor.
pub(crate) enum Decision {
    Refuse(Refusal),
    Enter,
    Pass,
    /// What TLBs cannot hold becomes a leaf, valid or kept.
    Make(Descriptor),
    /// Holes, up to this offset, become leaves.
    Fill(Content, u64),
    /// What TLBs cannot hold becomes a table.
    Link(Pieces),
    /// A leaf changes in place, and so do those that follow and are alike, up to this offset.
    Set(Edit, u64),
    /// What the engine does not make becomes a hole.
    Clear,
    /// A table becomes a hole.
    Unlink,
    /// A table becomes a kept leaf.
    Replace(Descriptor),
    /// A leaf becomes another leaf, in a way that no CPU tolerates while it is live.
    Remake(Descriptor),
    /// A leaf or table becomes what these pieces say, in a way that no CPU tolerates while it is live.
    Rebuild(Pieces),
    /// A leaf becomes a table, of which a part is edited.
    Resize(Part),
    /// A table becomes a leaf.
    Fold(Descriptor),
    /// A contiguous group is changed, dissolved or made.
    Regroup(Regroup),
}

/// What stands in a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Hole,
    Leaf,
    /// A leaf but for bit 0.
    Kept,
    Table,
    /// Nothing the engine makes.
    Foreign,
}

#[inline(always)]
fn state<G: Granule>(geometry: Geometry<G>, level: Level, descriptor: Descriptor) -> State {
    let meaning = |descriptor: Descriptor| descriptor.meaning(G::PAGE_SIZE, geometry.layout(), level);
    match meaning(descriptor) {
        Meaning::Table(_) => State::Table,
        Meaning::Leaf(..) => State::Leaf,
        Meaning::Reserved => State::Foreign,
        Meaning::Invalid if descriptor == Descriptor::INVALID => State::Hole,
        Meaning::Invalid => match meaning(Descriptor::new(descriptor.bits() | Descriptor::VALID)) {
            Meaning::Leaf(..) => State::Kept,
            _ => State::Foreign,
        },
    }
}

impl Goal {
    /// What the change means for the descriptor at `visit`.
    #[inline(always)]
    pub(crate) fn decide<G: Granule, R: Regime, P: Platform>(
        &self,
        platform: &P,
        geometry: Geometry<G>,
        regime: R,
        visit: &Visit,
    ) -> Decision {
        let state = state(geometry, visit.level, visit.descriptor);
        let at = geometry.input(visit.from);
        match (self.wanted, state) {
            (Wanted::Edit(edit), State::Table) if edit.removes() && visit.is_whole() && !self.refuses_holes => {
                Decision::Unlink
            }
            (Wanted::Remap(content), State::Table) if visit.is_whole() => {
                // Leaf by leaf nothing may be left to do, where a new table would need break-before-make.
                if !content.fits::<G>(geometry.layout(), visit.level)
                    && fold::holds::<G, R, P>(platform, geometry, regime, visit, &content)
                {
                    return Decision::Enter;
                }
                Decision::Rebuild(self.replacing(content, None))
            }
            (Wanted::Fold, State::Table) if visit.is_whole() => {
                fold::decide_table::<G, R, P>(platform, geometry, regime, visit)
            }
            (_, State::Table) => Decision::Enter,
            (Wanted::Map(content) | Wanted::Remap(content), State::Hole) => {
                self.decide_hole(platform, geometry, content, visit)
            }
            (Wanted::Map(_), _) => Decision::Refuse(Refusal::AlreadyMapped(at)),
            (Wanted::Remap(content), State::Leaf | State::Kept) => self.decide_remap(geometry, regime, content, visit),
            (Wanted::Edit(_), State::Leaf) => self.decide_leaf(geometry, regime, visit),
            (Wanted::Edit(edit), State::Kept) => self.decide_kept(geometry, edit, visit),
            (Wanted::Edit(edit), State::Foreign) if edit.removes() && visit.is_whole() => Decision::Clear,
            (Wanted::Edit(_), State::Foreign) | (Wanted::Remap(_), _) => Decision::Refuse(Refusal::NotMapped(at)),
            (Wanted::Edit(_), _) if self.refuses_holes => Decision::Refuse(Refusal::NotMapped(at)),
            (Wanted::Split, State::Leaf | State::Kept) => self.decide_split(geometry, visit),
            (Wanted::Pages, State::Leaf | State::Kept) => decide_pages(geometry, visit),
            (Wanted::Group, State::Leaf) => fold::decide_group::<G, R, P>(platform, geometry, regime, self.to, visit),
            _ => Decision::Pass,
        }
    }

    fn decide_hole<G: Granule, P: Platform>(
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

    /// A leaf gives way to other content, unless it differs by marks alone, which come when they come. A group is dissolved
    /// first, and its members met again one by one.
    fn decide_remap<G: Granule, R: Regime>(
        &self,
        geometry: Geometry<G>,
        regime: R,
        content: Content,
        visit: &Visit,
    ) -> Decision {
        let (layout, group) = (geometry.layout(), group(geometry, visit));
        let single = Descriptor::new(visit.descriptor.bits() & !Descriptor::CONTIGUOUS);
        let size = LeafSize { level: visit.level, contiguous: group.is_some() };
        let other = single.bits() ^ content.leaf(layout, visit.level, visit.start).bits();
        if other & !marks::writable(regime, content.attributes) == 0 && size <= content.largest {
            return Decision::Pass;
        }
        if let Some((start, end)) = group {
            return Decision::Regroup(dissolve::<G>(visit, start, end, self.from));
        }
        let old = edit::content(geometry, visit.descriptor, visit.level, visit.start);
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

    /// What an edit means for a leaf.
    #[inline(always)]
    fn decide_leaf<G: Granule, R: Regime>(&self, geometry: Geometry<G>, regime: R, visit: &Visit) -> Decision {
        let Wanted::Edit(edit) = self.wanted else { return Decision::Pass };
        let edited = edit.apply(visit.descriptor);
        if edited == visit.descriptor {
            return Decision::Pass;
        }
        // It could not be told from a hole, nor could a part of it that is a leaf of its own.
        if edited.bits() & !Descriptor::CONTIGUOUS == 0 && !edit.removes() {
            return Decision::Refuse(Refusal::NotKeepable(geometry.input(visit.from)));
        }
        match group(geometry, visit) {
            // A group whose members all end may end member by member, and so may hardware's own bits differ (ICQTNL).
            Some((start, end)) if !(edit.ends() && self.covers(start, end)) => {
                let group = regroup::<G>(visit, start, end, (self.from, self.to), edit);
                // Members that hardware marks until the moment of the edit may differ by it ever after.
                let becomes_group = group.becomes_group && !edit.makes_rights_of_marks(regime);
                return Decision::Regroup(Regroup { becomes_group, ..group });
            }
            None if !visit.is_whole() => return Decision::Resize(part(visit, edit)),
            _ => {}
        }
        if edit.is_in_place::<R::Attributes>(visit.descriptor, edited) {
            return Decision::Set(edit, self.whole_to(geometry, visit));
        }
        Decision::Remake(edited)
    }

    /// No TLB holds a kept leaf, so that it changes freely.
    fn decide_kept<G: Granule>(&self, geometry: Geometry<G>, edit: Edit, visit: &Visit) -> Decision {
        let edited = edit.apply(visit.descriptor);
        match group(geometry, visit) {
            _ if edited == visit.descriptor => Decision::Pass,
            _ if edited == Descriptor::INVALID && !edit.removes() => {
                Decision::Refuse(Refusal::NotKeepable(geometry.input(visit.from)))
            }
            Some((start, end)) if !self.covers(start, end) => {
                Decision::Regroup(dissolve::<G>(visit, start, end, self.from))
            }
            // Members may differ in what hardware marked, which is uniform no longer if it comes to mean something else.
            Some((start, end)) if !edit.is_of_validity() => {
                Decision::Regroup(regroup::<G>(visit, start, end, (self.from, self.to), edit))
            }
            _ if visit.is_whole() => Decision::Make(edited),
            _ => resize(geometry, visit, part(visit, edit)),
        }
    }

    fn decide_split<G: Granule>(&self, geometry: Geometry<G>, visit: &Visit) -> Decision {
        match group(geometry, visit) {
            Some((start, _)) if start == self.from => Decision::Pass,
            Some((start, end)) => Decision::Regroup(dissolve::<G>(visit, start, end, self.from)),
            None if visit.start == self.from => Decision::Pass,
            None => {
                let rest = Part { from: self.from, to: visit.end, edit: Edit::KEEP, largest: LeafSize::LARGEST };
                resize(geometry, visit, rest)
            }
        }
    }

    /// Up to where neither the range nor the table of `visit` ends amid a leaf, be it a contiguous group.
    fn whole_to<G: Granule>(&self, geometry: Geometry<G>, visit: &Visit) -> u64 {
        let group = LeafSize::group(visit.level).size_bytes(G::PAGE_SIZE);
        (self.to & !(group - 1)).min(geometry.table_end(visit.level, visit.start)).max(visit.end)
    }

    /// Up to where planning need not look, because nothing stands in the way of removing what the range covers whole.
    pub(crate) fn certain_to<G: Granule>(&self, geometry: Geometry<G>, visit: &Visit) -> Option<u64> {
        let removes = matches!(self.wanted, Wanted::Edit(edit) if edit.removes()) && !self.refuses_holes;
        let group = LeafSize::group(visit.level).size_bytes(G::PAGE_SIZE);
        let is_certain = removes && visit.is_whole() && visit.start & !(group - 1) >= self.from;
        is_certain.then(|| self.whole_to(geometry, visit)).filter(|&end| end > visit.end)
    }

    fn covers(&self, start: u64, end: u64) -> bool {
        self.from <= start && end <= self.to
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

/// Pages all through: a group is dissolved, a block becomes pages.
fn decide_pages<G: Granule>(geometry: Geometry<G>, visit: &Visit) -> Decision {
    match group(geometry, visit) {
        Some((start, end)) => Decision::Regroup(dissolve::<G>(visit, start, end, visit.from)),
        None if visit.level == Level::L3 => Decision::Pass,
        None => resize(geometry, visit, Part { largest: LeafSize::PAGE, ..part(visit, Edit::KEEP) }),
    }
}

/// The part of a leaf that is asked for.
pub(crate) const fn part(visit: &Visit, edit: Edit) -> Part {
    Part { from: visit.from, to: visit.to, edit, largest: LeafSize::LARGEST }
}

/// A leaf becomes a table: freely if it is kept, for then no TLB holds it.
fn resize<G: Granule>(geometry: Geometry<G>, visit: &Visit, part: Part) -> Decision {
    if visit.descriptor.is_valid() {
        Decision::Resize(part)
    } else {
        Decision::Link(part.pieces(geometry, visit.descriptor, visit.level, visit.start))
    }
}
