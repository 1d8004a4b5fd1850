//! What a change means for each descriptor it meets. Planning counts these decisions, applying carries them out.

use vmsa::{Address, Descriptor, Geometry, Granule, LeafSize, Level, Meaning, PhysAddr};

use crate::change::{Change, Refusal};
use crate::pieces::{Content, Kind, Pieces};
use crate::platform::{Platform, Slot};
use crate::regime::{Attributes, Regime};
use crate::walk::Visit;

/// A change whose arguments are sound, in offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) from: u64,
    pub(crate) to: u64,
    wanted: Wanted,
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    Map(Content),
    Edit(Edit),
    /// A boundary at `from`.
    Split,
}

/// What becomes of a leaf, or of a part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit {
    Keep,
    Attributes { set: u64, clear: u64 },
    Remove,
}

/// What is to be done at a descriptor.
pub(crate) enum Decision {
    Refuse(Refusal),
    Enter,
    Pass,
    /// A hole becomes a leaf.
    Make(Descriptor),
    /// A whole contiguous group of holes becomes leaves.
    MakeGroup(Content, u64),
    /// A hole becomes a table.
    Link(Pieces),
    /// A leaf changes in place.
    Set(Descriptor),
    /// A leaf becomes a hole.
    Clear,
    /// A table becomes a hole.
    Unlink,
    /// A leaf becomes another leaf, which needs break-before-make.
    Remake(Descriptor),
    /// A leaf becomes a table.
    Resize(Pieces),
    /// A contiguous group is changed or dissolved.
    Regroup(Regroup),
}

/// A contiguous group, and what becomes of the part `from..to` of it.
pub(crate) struct Regroup {
    pub(crate) first: Slot,
    pub(crate) members: usize,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) edit: Edit,
}

impl Edit {
    /// The descriptor that a leaf becomes.
    pub(crate) const fn apply(self, leaf: Descriptor) -> Descriptor {
        match self {
            Self::Keep => leaf,
            Self::Attributes { set, clear } => Descriptor::new(leaf.bits() & !clear | set),
            Self::Remove => Descriptor::INVALID,
        }
    }

    /// The pieces of a `leaf` at `start`, of which `from..to` is edited.
    pub(crate) fn pieces<G: Granule>(
        self,
        geometry: Geometry<G>,
        leaf: Descriptor,
        level: Level,
        start: u64,
        from: u64,
        to: u64,
    ) -> Pieces {
        let layout = geometry.layout();
        let output = layout.output(leaf, Geometry::<G>::shift(level)).bits();
        let content = |leaf: Descriptor| Content {
            delta: output.wrapping_sub(start),
            attributes: leaf.bits() & layout.attribute_mask(G::PAGE_SIZE, Level::L3),
            largest: LeafSize::LARGEST,
        };
        let inside = match self {
            Self::Remove => None,
            edit => Some(content(edit.apply(leaf))),
        };
        Pieces { from, to, inside, outside: Some(content(leaf)) }
    }
}

impl Goal {
    /// Checks the arguments of a change.
    pub(crate) fn new<G: Granule, R: Regime>(geometry: Geometry<G>, change: &Change<R>) -> Result<Self, Refusal> {
        match change {
            Change::Map { from, to, attributes, largest } => {
                let (first, last) = offsets(geometry, from.start.bits(), from.end.bits())?;
                let attributes = attribute_bits::<G, _>(geometry, *attributes)?;
                check_output::<G>(geometry, *to, last - first)?;
                let delta = to.bits().wrapping_sub(first);
                let wanted = Wanted::Map(Content { delta, attributes, largest: *largest });
                Ok(Self { from: first, to: last, wanted })
            }
            Change::Protect { from, set, clear } => {
                let (from, to) = offsets(geometry, from.start.bits(), from.end.bits())?;
                let set = attribute_bits::<G, _>(geometry, *set)?;
                let clear = attribute_bits::<G, _>(geometry, *clear)?;
                Ok(Self { from, to, wanted: Wanted::Edit(Edit::Attributes { set, clear }) })
            }
            Change::Unmap { from } => {
                let (from, to) = offsets(geometry, from.start.bits(), from.end.bits())?;
                Ok(Self { from, to, wanted: Wanted::Edit(Edit::Remove) })
            }
            Change::Split { at } => {
                let (from, _) = offsets(geometry, at.bits(), at.bits())?;
                Ok(Self { from, to: from + G::SIZE_BYTES, wanted: Wanted::Split })
            }
        }
    }

    /// What the change means for the descriptor at `visit`.
    #[inline(always)]
    pub(crate) fn decide<G: Granule, R: Regime, P: Platform>(
        &self,
        platform: &P,
        geometry: Geometry<G>,
        visit: &Visit,
    ) -> Decision {
        let meaning = visit.descriptor.meaning(G::PAGE_SIZE, geometry.layout(), visit.level);
        let at = geometry.input(visit.from);
        match (self.wanted, meaning) {
            (Wanted::Edit(Edit::Remove), Meaning::Table(_)) if visit.is_whole() => Decision::Unlink,
            (_, Meaning::Table(_)) => Decision::Enter,
            (Wanted::Map(content), Meaning::Invalid) if visit.descriptor == Descriptor::INVALID => {
                self.decide_hole(platform, geometry, content, visit)
            }
            (Wanted::Map(_), _) => Decision::Refuse(Refusal::AlreadyMapped(at)),
            (Wanted::Edit(edit), Meaning::Leaf(..)) => self.decide_leaf::<G, R>(geometry, edit, visit),
            (Wanted::Split, Meaning::Leaf(..)) => self.decide_split(geometry, visit),
            (Wanted::Edit(Edit::Remove), _) if visit.descriptor == Descriptor::INVALID => Decision::Pass,
            (Wanted::Edit(Edit::Remove), _) if visit.is_whole() => Decision::Clear,
            (Wanted::Edit(_), _) => Decision::Refuse(Refusal::NotMapped(at)),
            (Wanted::Split, _) => Decision::Pass,
        }
    }

    fn decide_hole<G: Granule, P: Platform>(
        &self,
        platform: &P,
        geometry: Geometry<G>,
        content: Content,
        visit: &Visit,
    ) -> Decision {
        let pieces = Pieces { from: self.from, to: self.to, inside: Some(content), outside: None };
        let segment = pieces.segment::<G>(geometry.layout(), visit.level, visit.start, visit.end);
        let Kind::Leaves(content) = segment.kind else {
            return Decision::Link(pieces);
        };
        if let Some(bytes) = content.group_bytes::<G>(visit.level)
            && visit.start & (bytes - 1) == 0
            && visit.start + bytes <= self.to
        {
            let members = (bytes >> Geometry::<G>::shift(visit.level)) as usize;
            // A member that holds something, be it an empty table, keeps the others from being a group.
            if (1..members).all(|index| platform.load(visit.slot.after(index)) == Descriptor::INVALID) {
                return Decision::MakeGroup(content, bytes);
            }
        }
        Decision::Make(content.leaf(geometry.layout(), visit.level, visit.start))
    }

    fn decide_leaf<G: Granule, R: Regime>(&self, geometry: Geometry<G>, edit: Edit, visit: &Visit) -> Decision {
        let edited = edit.apply(visit.descriptor);
        if edited == visit.descriptor {
            return Decision::Pass;
        }
        let changed = edited.bits() ^ visit.descriptor.bits();
        match group::<G>(visit) {
            Some((start, end)) => {
                let is_removed_whole = matches!(edit, Edit::Remove) && self.from <= start && end <= self.to;
                if is_removed_whole { Decision::Clear } else { self.regroup::<G>(visit, start, end, edit) }
            }
            None if !visit.is_whole() => Decision::Resize(edit.pieces(
                geometry,
                visit.descriptor,
                visit.level,
                visit.start,
                visit.from,
                visit.to,
            )),
            None if matches!(edit, Edit::Remove) => Decision::Clear,
            None if changed & !R::Attributes::IN_PLACE == 0 => Decision::Set(edited),
            None => Decision::Remake(edited),
        }
    }

    fn decide_split<G: Granule>(&self, geometry: Geometry<G>, visit: &Visit) -> Decision {
        match group::<G>(visit) {
            Some((start, _)) if start == self.from => Decision::Pass,
            Some((start, end)) => self.regroup::<G>(visit, start, end, Edit::Keep),
            None if visit.start == self.from => Decision::Pass,
            None => {
                let pieces =
                    Edit::Keep.pieces(geometry, visit.descriptor, visit.level, visit.start, self.from, visit.end);
                Decision::Resize(pieces)
            }
        }
    }

    fn regroup<G: Granule>(&self, visit: &Visit, start: u64, end: u64, edit: Edit) -> Decision {
        let shift = Geometry::<G>::shift(visit.level);
        let to = if matches!(edit, Edit::Keep) { end } else { self.to.min(end) };
        Decision::Regroup(Regroup {
            first: visit.slot.before(((visit.start - start) >> shift) as usize),
            members: ((end - start) >> shift) as usize,
            start,
            end,
            from: self.from.max(start),
            to,
            edit,
        })
    }
}

impl Regroup {
    /// Whether the group stays one: all of it gets the same new attributes.
    pub(crate) fn stays_whole(&self) -> bool {
        self.from == self.start && self.to == self.end && matches!(self.edit, Edit::Attributes { .. })
    }

    /// The members that a boundary cuts, by number; both may be the same.
    pub(crate) fn cut_members(&self, shift: u32) -> impl Iterator<Item = usize> + use<> {
        let cut = |boundary: u64| {
            let is_inside = boundary & ((1 << shift) - 1) != 0;
            is_inside.then_some(((boundary - self.start) >> shift) as usize)
        };
        let (first, second) = (cut(self.from), cut(self.to));
        first.into_iter().chain(second.filter(move |_| first != second))
    }
}

/// The offsets of the contiguous group that a leaf is one of.
fn group<G: Granule>(visit: &Visit) -> Option<(u64, u64)> {
    let shift = G::PAGE_SIZE.contiguous_shift(visit.level).filter(|_| visit.descriptor.is_contiguous())?;
    let bytes = 1 << (shift + Geometry::<G>::shift(visit.level));
    let start = visit.start & !(bytes - 1);
    Some((start, start + bytes))
}

fn offsets<G: Granule>(geometry: Geometry<G>, start: u64, end: u64) -> Result<(u64, u64), Refusal> {
    for address in [start, end] {
        if address & (G::SIZE_BYTES - 1) != 0 {
            return Err(Refusal::Misaligned(address));
        }
    }
    geometry.offsets(start, end).ok_or(Refusal::OutOfRange(start))
}

/// The bits that a descriptor of this geometry can hold. LPA2 has no shareability in descriptors, so it is left out.
fn attribute_bits<G: Granule, A: Attributes>(geometry: Geometry<G>, attributes: A) -> Result<u64, Refusal> {
    let allowed = geometry.layout().attribute_mask(G::PAGE_SIZE, Level::L3);
    let bits = attributes.into();
    let foreign = bits & !allowed & !A::SHAREABILITY;
    if foreign == 0 { Ok(bits & allowed) } else { Err(Refusal::NotAttributes(foreign)) }
}

fn check_output<G: Granule>(geometry: Geometry<G>, to: PhysAddr, bytes: u64) -> Result<(), Refusal> {
    if !to.is_aligned(G::SIZE_BYTES) {
        return Err(Refusal::MisalignedOutput(to));
    }
    let limit = 1 << geometry.layout().output_bits();
    if to.bits().checked_add(bytes).is_none_or(|end| end > limit) {
        return Err(Refusal::OutputTooWide(to));
    }
    Ok(())
}
