//! Contiguous groups: met whole, and changed whole, dissolved, or made.
//!
//! ```text
//!         start              from         to              end
//!           ├────┬────┬────┬────┬────┬────┬────┬────┬────┬─┤
//!  members  │    │    │    │####│####│####│    │    │    │ │    one visit; ## is asked for
//!           └────┴────┴────┴────┴────┴────┴────┴────┴────┴─┘
//! all is asked for    every member is edited, and they stay a group
//! a part is           the group ends: every member becomes a leaf of its own, those in the part are edited
//! others made it, and some members are missing       what is there becomes leaves of their own, met one by one
//! ```
//! Hardware marks any member of a group as accessed or written, and then lets all of it be accessed or written (ICQTNL). So
//! what one member says is said of all of them before they are anything but that group.

use vmsa::{Bits, Descriptor, Geometry, Granule, LeafSize};

use super::split::{Part, content};
use super::steps::Built;
use super::{Decision, Edit, Editor, Goal, State, Terms, state};
use crate::change::Refusal;
use crate::invalidation::Depth;
use crate::licence::Method;
use crate::platform::{Platform, Slot};
use crate::regime::{Regime, marks};
use crate::walk::{Next, Visit};

/// The bits that the members of a group have in common.
const ALIKE: Bits = Descriptor::TYPE | Descriptor::CONTIGUOUS;

/// What becomes of a contiguous group.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Regroup {
    /// What is asked for of it is edited. The flag tells whether it is a group afterwards.
    Edit(Edit, bool),
    /// Its members become leaves of their own, and are met again as such.
    Dissolve,
    /// Leaves that are alike become a group.
    Make,
}

/// A member that a boundary cuts: its number, and the table that it becomes.
type Cut = (usize, Built);

impl Regroup {
    /// What is asked for of the group at `visit` is edited; or the group dissolves, if not all of it is there.
    pub(super) fn of<P: Platform>(platform: &P, visit: &Visit, edit: Edit, becomes_group: bool) -> Decision {
        let is_intact = visit.differences(platform) == 0;
        Decision::Regroup(if is_intact { Self::Edit(edit, becomes_group) } else { Self::Dissolve })
    }

    const fn edit(self) -> Edit {
        match self {
            Self::Edit(edit, _) => edit,
            Self::Dissolve | Self::Make => Edit::KEEP,
        }
    }

    const fn becomes_group(self) -> bool {
        matches!(self, Self::Edit(_, true) | Self::Make)
    }
}

impl Visit {
    /// Whether it is a contiguous group, or is to be one.
    #[inline(always)]
    pub(super) const fn is_group(&self) -> bool {
        self.members > 1
    }

    /// The same leaf, of no group.
    pub(super) fn ungrouped(&self) -> Self {
        let contiguous = if self.descriptor.is_table(self.level) { 0 } else { Descriptor::CONTIGUOUS };
        let bits = self.descriptor.bits() & !contiguous;
        Self { descriptor: Descriptor::new(bits), ..*self }
    }

    /// The same place as the first of `members` that begin at offset `start`.
    fn widened<G: Granule>(&self, start: u64, members: usize, (from, to): (u64, u64)) -> Self {
        let shift = Geometry::<G>::shift(self.level);
        let end = start + ((members as u64) << shift);
        let slot = self.slot.before(((self.start - start) >> shift) as usize);
        Self { slot, members, start, end, from: from.max(start), to: to.min(end), ..*self }
    }

    /// The bits in which the members are not all leaves of this group.
    fn differences<P: Platform>(&self, platform: &P) -> Bits {
        let members = (0..self.members).map(|number| platform.load(self.slot.after(number)).bits());
        members.fold(0, |all, bits| all | bits ^ self.descriptor.bits()) & ALIKE
    }

    /// The members that are leaves of this group, with their numbers: where others made it, some may be none.
    pub(super) fn alike<P: Platform>(&self, platform: &P) -> impl Iterator<Item = (usize, Descriptor)> {
        let members = (0..self.members).map(|number| (number, platform.load(self.slot.after(number))));
        members.filter(move |(_, leaf)| (leaf.bits() ^ self.descriptor.bits()) & ALIKE == 0)
    }

    /// The members that the range's boundaries cut, by number.
    fn cut_members<G: Granule>(&self) -> [Option<usize>; 2] {
        let shift = Geometry::<G>::shift(self.level);
        let cut = |boundary: u64| {
            let is_inside = boundary & ((1 << shift) - 1) != 0;
            is_inside.then_some(((boundary - self.start) >> shift) as usize)
        };
        let (first, second) = (cut(self.from), cut(self.to));
        [first, second.filter(|_| first != second)]
    }

    /// The offset of member `number`, and the part of it that `edit` is for.
    fn part_of_member<G: Granule>(&self, number: usize, edit: Edit) -> (u64, Part) {
        let shift = Geometry::<G>::shift(self.level);
        let start = self.start + ((number as u64) << shift);
        let (from, to) = (self.from.clamp(start, start + (1 << shift)), self.to.clamp(start, start + (1 << shift)));
        (start, Part { from, to, edit, largest: LeafSize::LARGEST })
    }
}

impl Goal {
    /// A contiguous leaf is met as its group. A root too small for one holds none, whatever its leaves say: what stands beside
    /// it is not the page table's. And members that all end may end one by one, as kept ones may become valid: holes and
    /// members of one group may stand side by side (IPGVGZ).
    pub(super) fn meet_group<G: Granule>(&self, geometry: Geometry<G>, visit: &Visit) -> Visit {
        let is_leaf = matches!(state(geometry, visit.level, visit.descriptor), State::Leaf | State::Kept);
        let shift = G::PAGE_SIZE.contiguous_shift(visit.level).filter(|_| is_leaf);
        let Some(members) = shift.map(|shift| 1 << shift).filter(|&it| geometry.entries(visit.level) >= it) else {
            return *visit;
        };
        let bytes = (members as u64) << Geometry::<G>::shift(visit.level);
        let start = visit.start & !(bytes - 1);
        let is_valid = visit.descriptor.is_valid();
        let is_one_by_one = |edit: Edit| if is_valid { edit.ends() } else { edit.is_of_validity() };
        if self.edit().is_some_and(is_one_by_one) && self.covers(start, start + bytes) {
            return *visit;
        }
        visit.widened::<G>(start, members, (visit.from, self.to))
    }
}

/// A leaf that begins what could be a group, which must end before `to`, is met with the rest of it.
pub(super) fn candidate<G: Granule>(geometry: Geometry<G>, visit: &Visit, to: u64) -> Visit {
    let first = content(geometry, visit.descriptor, visit.level, visit.start);
    let Some(bytes) = first.group_bytes::<G>(visit.level).filter(|_| visit.descriptor.is_valid()) else {
        return *visit;
    };
    let begins = !visit.descriptor.is_contiguous() && visit.start & (bytes - 1) == 0 && visit.start + bytes <= to;
    if !begins || visit.descriptor.is_table(visit.level) {
        return *visit;
    }
    visit.widened::<G>(visit.start, (bytes >> Geometry::<G>::shift(visit.level)) as usize, (visit.start, to))
}

/// Leaves become a group if they are alike, but for what hardware marked.
pub(super) fn decide_group<G: Granule, R: Regime, P: Platform>(
    platform: &P,
    geometry: Geometry<G>,
    regime: R,
    visit: &Visit,
) -> Decision {
    if !visit.is_group() {
        return Decision::Pass;
    }
    let (layout, shift) = (geometry.layout(), Geometry::<G>::shift(visit.level));
    let first = content(geometry, visit.descriptor, visit.level, visit.start);
    let hardware = marks::writable(regime, first.attributes);
    let is_uniform = (1..visit.members).all(|number| {
        let member = platform.load(visit.slot.after(number));
        let expected = first.leaf(layout, visit.level, visit.start + ((number as u64) << shift));
        (member.bits() ^ expected.bits()) & !hardware == 0
    });
    if is_uniform { Decision::Regroup(Regroup::Make) } else { Decision::Pass }
}

impl<G: Granule, R: Regime, P: Platform> Terms<'_, '_, G, R, P> {
    /// The tables that members cut by a boundary become. Members of a group that dissolves are met again, and counted then.
    pub(super) fn cost_of_group(&self, visit: &Visit, regroup: Regroup) -> Result<usize, Refusal> {
        let mut members = visit.alike(self.table.platform);
        let is_valid = visit.descriptor.is_valid();
        if !is_valid && !regroup.becomes_group() && members.any(|(_, leaf)| leaf.bits() == Descriptor::CONTIGUOUS) {
            // As a leaf of its own it would have no bit left.
            return Err(Refusal::NotKeepable(self.table.geometry.input(visit.start)));
        }
        if is_valid {
            self.needs_licence_for(visit, regroup.edit())?;
        }
        Ok(match regroup {
            Regroup::Edit(edit, _) => self.tables_of_cut_members(visit, edit),
            Regroup::Dissolve | Regroup::Make => 0,
        })
    }

    pub(super) fn tables_of_cut_members(&self, visit: &Visit, edit: Edit) -> usize {
        let tables = visit.cut_members::<G>().into_iter().flatten().map(|number| {
            let (start, part) = visit.part_of_member::<G>(number, edit);
            let pieces = part.pieces(self.table.geometry, visit.descriptor, visit.level, start);
            self.tables_below(&Visit { start, ..*visit }, &pieces)
        });
        tables.sum()
    }
}

impl<G: Granule, R: Regime, P: Platform> Editor<'_, G, R, P> {
    /// A contiguous group is changed, dissolved or made.
    pub(super) fn regroup(&mut self, visit: &Visit, regroup: Regroup) -> Next {
        let present = match regroup {
            Regroup::Dissolve => Some(visit.alike(self.platform).fold(0, |present, (number, _)| present | 1 << number)),
            Regroup::Edit(..) | Regroup::Make => None,
        };
        let members = Members { first: visit.slot, count: visit.members, present };
        let (past, again) = (Next::Past(visit.end), Next::Past(visit.from));
        let is_in_use = self.is_live && visit.descriptor.is_valid();
        if is_in_use && self.method != Method::Break {
            self.regroup_in_place(visit, regroup, members);
            // Members that do not stay a group are edited one by one, in place.
            return if regroup.becomes_group() { past } else { again };
        }
        let Some(cut) = self.build_cut(visit, regroup, members) else { return past };
        if is_in_use {
            members.slots().for_each(|(_, slot)| self.break_leaf(slot));
            self.forget_now(visit.level, visit.start, visit.end, Depth::LastLevel);
        }
        self.store_members(visit, regroup, members, &cut);
        if is_in_use {
            self.close_window();
        } else {
            self.note_store();
        }
        if let Regroup::Dissolve = regroup { again } else { past }
    }

    /// The Contiguous bit changes first, alone (RKHRBC); then what else is to change, leaf by leaf.
    fn regroup_in_place(&mut self, visit: &Visit, regroup: Regroup, members: Members) {
        let single = |leaf: Descriptor| Descriptor::new(leaf.bits() & !Descriptor::CONTIGUOUS);
        let grouped = |leaf: Descriptor| Descriptor::new(leaf.bits() | Descriptor::CONTIGUOUS);
        match regroup {
            Regroup::Make => self.replace_members(members, grouped),
            Regroup::Dissolve | Regroup::Edit(..) => {
                self.replace_members(members, single);
                self.share_marks(members);
            }
        }
        if let Regroup::Edit(edit, true) = regroup {
            self.replace_members(members, |leaf| edit.apply(leaf));
            self.replace_members(members, grouped);
        }
        if self.method == Method::NotCached {
            // Until TLBs have forgotten the group or its members they may conflict (RFCPSG), in this window alone.
            return self.forget_now(visit.level, visit.start, visit.end, Depth::LastLevel);
        }
        self.note_store();
        // Where TLBs that hold the group and its members may conflict, they forget the whole group.
        let may_conflict = self.method == Method::InPlace { may_conflict: true };
        if may_conflict || matches!(regroup, Regroup::Edit(_, true)) {
            self.forget(visit.level, visit.start, visit.end);
        }
    }

    fn replace_members(&self, members: Members, new: impl Fn(Descriptor) -> Descriptor) {
        for (_, slot) in members.slots() {
            self.writer().replace(slot, self.platform.load(slot), &new);
        }
    }

    /// What any member says of accesses and writes, all of them say.
    fn share_marks(&self, members: Members) {
        let (regime, marks) = (self.regime, self.marks_of_group(members));
        if marks != 0 {
            self.replace_members(members, |leaf| marked(regime, leaf, marks));
        }
    }

    /// The marks that any member has, if hardware writes them.
    fn marks_of_group(&self, members: Members) -> Bits {
        if !self.writer().is_marked() {
            return 0;
        }
        let bits = members.slots().map(|(_, slot)| self.platform.load(slot).bits());
        bits.fold(0, |marks, bits| marks | marks::of::<R::Attributes>(bits))
    }

    /// The tables that the members cut by a boundary become: filled before any window opens.
    fn build_cut(&mut self, visit: &Visit, regroup: Regroup, members: Members) -> Option<[Option<Cut>; 2]> {
        let mut cut = [None; 2];
        let Regroup::Edit(edit, _) = regroup else { return Some(cut) };
        for (built, number) in cut.iter_mut().zip(visit.cut_members::<G>()) {
            let Some(number) = number else { continue };
            let (start, part) = visit.part_of_member::<G>(number, edit);
            let marks = self.marks_of_group(members);
            let leaf = marked(self.regime, self.platform.load(visit.slot.after(number)), marks);
            let pieces = part.pieces(self.geometry, leaf, visit.level, start);
            *built = Some((number, Built { leaf, table: self.build(visit.level, start, &pieces)? }));
        }
        Some(cut)
    }

    /// Stores what the members of a group become that no TLB holds any more. Broken ones have kept all but bit 0.
    fn store_members(&mut self, visit: &Visit, regroup: Regroup, members: Members, cut: &[Option<Cut>; 2]) {
        let (platform, geometry, regime, level) = (self.platform, self.geometry, self.regime, visit.level);
        let marks = self.marks_of_group(members);
        let contiguous = if regroup.becomes_group() { Descriptor::CONTIGUOUS } else { 0 };
        let set = visit.descriptor.bits() & Descriptor::VALID | contiguous;
        let member = |slot: Slot| {
            let bits = platform.load(slot).bits() & !Descriptor::CONTIGUOUS | set;
            marked(regime, Descriptor::new(bits), marks)
        };
        let (edit, shift) = (regroup.edit(), Geometry::<G>::shift(level));
        // Those that a boundary cuts become tables, below.
        let edited = ((visit.from - visit.start) >> shift) as usize..((visit.to - visit.start) >> shift) as usize;
        let cut_numbers = cut.map(|cut| cut.map_or(usize::MAX, |(number, _)| number));
        for (number, slot) in members.slots().filter(|(number, _)| !cut_numbers.contains(number)) {
            let leaf = member(slot);
            self.write(slot, if edited.contains(&number) { edit.apply(leaf) } else { leaf });
        }
        for &(number, built) in cut.iter().flatten() {
            let (start, part) = visit.part_of_member::<G>(number, edit);
            let slot = visit.slot.after(number);
            let pieces = |leaf| part.pieces(geometry, leaf, level, start);
            let table = self.build_again((level, start), built, member(slot), pieces);
            self.write(slot, table);
        }
    }
}

/// The members of a group that are there.
#[derive(Clone, Copy)]
struct Members {
    first: Slot,
    count: usize,
    /// A bit for each, unless all are there.
    present: Option<u128>,
}

impl Members {
    /// Their numbers and slots.
    #[inline(always)]
    fn slots(self) -> impl Iterator<Item = (usize, Slot)> {
        let is_present = move |number: &usize| self.present.is_none_or(|present| present >> number & 1 != 0);
        (0..self.count).filter(is_present).map(move |number| (number, self.first.after(number)))
    }
}

/// `leaf` with these marks.
fn marked<R: Regime>(regime: R, leaf: Descriptor, marks: Bits) -> Descriptor {
    Descriptor::new(marks::with(regime, leaf.bits(), marks))
}
