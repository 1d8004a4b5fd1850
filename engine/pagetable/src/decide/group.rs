//! Contiguous groups, and what becomes of them.

use vmsa::{Descriptor, Geometry, Granule, LeafSize};

use super::{Edit, Part, content};
use crate::platform::{Platform, Slot};
use crate::walk::Visit;

/// A contiguous group, and what becomes of the part `from..to` of it.
#[derive(Clone, Copy)]
pub(crate) struct Regroup {
    pub(crate) first: Slot,
    pub(crate) members: usize,
    /// A bit for each member: of a group that others made some may be holes, or no leaves of it.
    pub(crate) present: u128,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Where members that are met again are met from: those that were passed may have got marks of others.
    pub(crate) met_from: u64,
    pub(crate) edit: Edit,
    /// Whether it is a group afterwards.
    pub(crate) becomes_group: bool,
    /// Whether its members are to be met again, one by one.
    pub(crate) is_met_again: bool,
    /// Whether TLBs may hold it: its members are not kept.
    pub(crate) is_valid: bool,
}

/// The group from `start` to `end` that `visit` is in, of which the part `from..to` is edited.
pub(super) fn regroup<G: Granule>(visit: &Visit, start: u64, end: u64, (from, to): (u64, u64), edit: Edit) -> Regroup {
    let shift = Geometry::<G>::shift(visit.level);
    let (from, to) = (from.max(start), to.min(end));
    let met_from = from;
    Regroup {
        first: visit.slot.before(((visit.start - start) >> shift) as usize),
        members: ((end - start) >> shift) as usize,
        present: !0,
        start,
        end,
        from,
        to,
        met_from,
        edit,
        becomes_group: from == start && to == end,
        is_met_again: false,
        is_valid: visit.descriptor.is_valid(),
    }
}

/// The same group, whose members become leaves of their own and are then met again, from offset `met_from` on.
pub(super) fn dissolve<G: Granule>(visit: &Visit, start: u64, end: u64, met_from: u64) -> Regroup {
    let met_from = met_from.max(start);
    Regroup { is_met_again: true, met_from, ..regroup::<G>(visit, start, end, (start, start), Edit::KEEP) }
}

impl Regroup {
    /// The group that is found there, as `visit` was: if not all of it is, what is becomes leaves of their own, met again.
    pub(crate) fn found<P: Platform>(&self, platform: &P, visit: &Visit) -> Self {
        let alike = Descriptor::TYPE | Descriptor::CONTIGUOUS;
        let differs =
            |number: usize| (platform.load(self.first.after(number)).bits() ^ visit.descriptor.bits()) & alike != 0;
        if !(0..self.members).fold(false, |any, number| any | differs(number)) {
            return *self;
        }
        let present = (0..self.members).fold(0, |present, number| present | u128::from(!differs(number)) << number);
        let (from, to, edit) = (self.start, self.start, Edit::KEEP);
        Self { present, from, to, edit, becomes_group: false, is_met_again: true, ..*self }
    }

    /// The members that are there, by number.
    pub(crate) fn present(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        let present = self.present;
        (0..self.members).filter(move |number| present >> number & 1 != 0)
    }

    /// Whether the first member, a kept leaf, would have no bit left if it were one of its own.
    pub(crate) fn is_lost<G: Granule>(&self, geometry: Geometry<G>, visit: &Visit) -> bool {
        let single = Descriptor::new(visit.descriptor.bits() & !Descriptor::CONTIGUOUS);
        let first =
            content(geometry, single, visit.level, visit.start).leaf(geometry.layout(), visit.level, self.start);
        !self.is_valid && !self.becomes_group && first == Descriptor::INVALID
    }

    /// The members that a boundary cuts, by number.
    pub(crate) fn cut_members(&self, shift: u32) -> [Option<usize>; 2] {
        let cut = |boundary: u64| {
            let is_inside = boundary & ((1 << shift) - 1) != 0;
            is_inside.then_some(((boundary - self.start) >> shift) as usize)
        };
        let (first, second) = (cut(self.from), cut(self.to));
        [first, second.filter(|_| first != second)]
    }

    /// The part of the member from `start` to `end` that is edited.
    pub(crate) fn part(&self, start: u64, end: u64) -> Part {
        let (from, to) = (self.from.clamp(start, end), self.to.clamp(start, end));
        Part { from, to, edit: self.edit, largest: LeafSize::LARGEST }
    }
}

/// The offsets of the contiguous group that a leaf is one of. A root too small for one holds none, whatever its leaves say:
/// what stands beside it is not the page table's.
pub(super) fn group<G: Granule>(geometry: Geometry<G>, visit: &Visit) -> Option<(u64, u64)> {
    let shift = G::PAGE_SIZE.contiguous_shift(visit.level).filter(|_| visit.descriptor.is_contiguous())?;
    if geometry.entries(visit.level) < 1 << shift {
        return None;
    }
    let bytes = 1 << (shift + Geometry::<G>::shift(visit.level));
    let start = visit.start & !(bytes - 1);
    Some((start, start + bytes))
}
