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

use core::ops::Range;

use vmsa::{Bits, Descriptor, Geometry, Granule, Level};

use super::decision::{Part, Regroup};
use super::steps::{Built, Writer};
use super::{Decision, Edit, Editor, Goal, State, Terms};
use crate::alike::{TURNS, count_alike};
use crate::change::Refusal;
use crate::invalidation::Depth;
use crate::licence::{Licence, Method};
use crate::platform::{Platform, Slot};
use crate::regime::{Regime, marks};
use crate::table::PageTable;
use crate::walk::{Next, Visit};

/// The bits that the members of a group have in common.
const ALIKE: Bits = Descriptor::TYPE | Descriptor::CONTIGUOUS;

/// A member that a boundary cuts, and the table that it becomes.
type Cut = (Visit, Built);

impl Regroup {
    /// What is asked for of the group at `visit` is edited; or the group dissolves, if not all of it is there.
    pub(super) fn of<P: Platform>(platform: &P, visit: &Visit, edit: Edit, becomes_group: bool) -> Decision {
        let is_intact = is_intact(platform, visit.slot, visit.members, visit.descriptor);
        Decision::Regroup(if is_intact { Self::Edit(edit, becomes_group) } else { Self::Dissolve })
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
        self.with(single(self.descriptor))
    }

    /// The same place as the first of `members` that begin at offset `start`.
    fn widened<G: Granule>(&self, start: u64, members: usize, (from, to): (u64, u64)) -> Self {
        let shift = Geometry::<G>::shift(self.level);
        let end = start + ((members as u64) << shift);
        let slot = self.slot.before(((self.start - start) >> shift) as usize);
        Self { slot, members, start, end, from: from.max(start), to: to.min(end), ..*self }
    }

    /// Member `number` by itself, with the part of it that is asked for. What is said of it is what was met of the group first.
    fn member<G: Granule>(&self, number: usize) -> Self {
        let shift = Geometry::<G>::shift(self.level);
        let start = self.start + ((number as u64) << shift);
        let end = start + (1 << shift);
        let (from, to) = (self.from.clamp(start, end), self.to.clamp(start, end));
        Self { slot: self.slot.after(number), members: 1, start, end, from, to, ..*self }
    }

    /// The numbers of the members that are asked for, be it in part.
    fn numbers_asked_for<G: Granule>(&self) -> Range<usize> {
        let shift = Geometry::<G>::shift(self.level);
        ((self.from - self.start) >> shift) as usize..((self.to - self.start).div_ceil(1 << shift)) as usize
    }

    /// What is asked for, member by member, as it stands now. What is no group was read already.
    pub(super) fn asked_for<G: Granule, P: Platform>(&self, platform: &P) -> impl Iterator<Item = Self> {
        let members = self.numbers_asked_for::<G>().map(|number| self.member::<G>(number));
        members.map(|member| if self.is_group() { member.with(platform.load(member.slot)) } else { member })
    }

    /// The members that the range's boundaries cut: they become tables.
    fn cut_members<G: Granule>(&self) -> impl Iterator<Item = Self> {
        let Range { start: first, end } = self.numbers_asked_for::<G>();
        let last = (first + 1 < end).then(|| end - 1);
        let members = [Some(first), last].into_iter().flatten().map(|number| self.member::<G>(number));
        members.filter(|member| !member.is_whole())
    }

    /// The members that are leaves of this group, with their numbers: where others made it, some may be none.
    pub(super) fn alike<P: Platform>(&self, platform: &P) -> impl Iterator<Item = (usize, Descriptor)> {
        let members = (0..self.members).map(|number| (number, platform.load(self.slot.after(number))));
        members.filter(move |(_, leaf)| (leaf.bits() ^ self.descriptor.bits()) & ALIKE == 0)
    }
}

impl<G: Granule, R: Regime, P: Platform> PageTable<'_, G, R, P> {
    /// A contiguous leaf is met as its group. A root too small for one holds none, whatever its leaves say: what stands beside
    /// it is not the page table's. And members that all end may end one by one, as kept ones may become valid: holes and
    /// members of one group may stand side by side (IPGVGZ).
    pub(super) fn meet_group(&self, goal: &Goal, visit: &Visit) -> Visit {
        let is_leaf = matches!(self.state(visit), State::Leaf | State::Kept);
        let shift = G::PAGE_SIZE.contiguous_shift(visit.level).filter(|_| is_leaf);
        let Some(members) = shift.map(|shift| 1 << shift).filter(|&it| self.geometry.entries(visit.level) >= it) else {
            return *visit;
        };
        let bytes = (members as u64) << Geometry::<G>::shift(visit.level);
        let start = visit.start & !(bytes - 1);
        let is_valid = visit.descriptor.is_valid();
        let is_one_by_one = |edit: Edit| if is_valid { edit.ends() } else { edit.is_of_validity() };
        if goal.edit().is_some_and(is_one_by_one) && goal.covers(start, start + bytes) {
            return *visit;
        }
        visit.widened::<G>(start, members, (visit.from, goal.to))
    }

    /// A leaf that begins what could be a group, which must end before the range does, is met with the rest of it.
    pub(super) fn meet_candidate(&self, goal: &Goal, visit: &Visit) -> Visit {
        let is_leaf = visit.descriptor.is_valid() && !visit.descriptor.is_table(visit.level);
        let bytes = self.content(visit).group_bytes::<G>(visit.level).filter(|_| is_leaf);
        let Some(bytes) = bytes.filter(|_| !visit.descriptor.is_contiguous()) else { return *visit };
        if visit.start & (bytes - 1) != 0 || visit.start + bytes > goal.to {
            return *visit;
        }
        visit.widened::<G>(visit.start, (bytes >> Geometry::<G>::shift(visit.level)) as usize, (visit.start, goal.to))
    }

    /// Makes the page at `slot`, a member at offset `start`, a leaf by itself, and each other member too, in place: as an edit of a
    /// part of the group does that TLBs tolerate. No barrier is asked for: the edit follows. Says whether that was all it takes; if
    /// not, nothing has changed.
    pub(crate) fn leave_group(&self, slot: Slot, start: u64, leaf: Descriptor, licence: Option<&Licence<'_>>) -> bool {
        let is_tolerated = licence.is_some_and(|licence| licence.method() == Method::InPlace { may_conflict: false });
        let writer = Writer::new(self.platform, self.regime, self.is_live);
        let shift =
            G::PAGE_SIZE.contiguous_shift(Level::L3).filter(|_| self.is_live && leaf.is_valid() && is_tolerated);
        let count = shift.map_or(0, |shift| 1 << shift);
        // What hardware marks in one member is to be said of all. A root at level 3 is never too small for a group.
        if writer.is_marked || count == 0 {
            return false;
        }
        let first = slot.before((start >> G::SHIFT) as usize & (count - 1));
        let is_intact = is_intact(self.platform, first, count, leaf);
        if is_intact {
            replace_members(&writer, Members { first, count, present: None }, single);
        }
        is_intact
    }

    /// Leaves become a group if they are alike, but for what hardware marked.
    pub(super) fn decide_group(&self, visit: &Visit) -> Decision {
        if !visit.is_group() {
            return Decision::Pass;
        }
        let (first, bytes) = (visit.descriptor, 1 << Geometry::<G>::shift(visit.level));
        let hardware = marks::writable(self.regime, first.bits());
        // Aligned as it is, it goes nowhere beyond the bits of an address that stand together.
        let (alike, _) = count_alike(self.platform, visit.slot, visit.members, first, bytes, hardware);
        if alike == visit.members { Decision::Regroup(Regroup::Make) } else { Decision::Pass }
    }
}

impl<G: Granule, R: Regime, P: Platform> Terms<'_, G, R, P> {
    /// The tables that members cut by a boundary become. Members of a group that dissolves are met again, and counted then.
    pub(super) fn tables_of_group(&self, visit: &Visit, regroup: Regroup) -> Result<usize, Refusal> {
        let mut members = visit.alike(self.table.platform);
        let is_kept = !visit.descriptor.is_valid();
        if is_kept && !regroup.becomes_group() && members.any(|(_, leaf)| leaf.bits() == Descriptor::CONTIGUOUS) {
            // As a leaf of its own it would have no bit left.
            return Err(Refusal::NotKeepable(self.table.geometry.input(visit.start)));
        }
        Ok(match regroup {
            Regroup::Edit(edit, _) => self.tables_of_cut_members(visit, edit),
            Regroup::Dissolve | Regroup::Make => 0,
        })
    }

    pub(super) fn tables_of_cut_members(&self, visit: &Visit, edit: Edit) -> usize {
        visit.cut_members::<G>().map(|member| self.tables_of(&member, &Part::of(&member, edit))).sum()
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
        if is_in_use && self.method() != Method::Break {
            self.regroup_in_place(visit, regroup, members);
            // Members that do not stay a group are edited one by one, in place: the walker meets them again as leaves.
            return if regroup.becomes_group() { past } else { again };
        }
        // Tables are filled before the window opens: no access waits for that.
        let Some(cut) = self.build_cut(visit, regroup, members) else { return past };
        if is_in_use {
            // One window for all members: a TLB may hold the group as one entry, so that none is remade while another stands.
            members.slots().for_each(|(_, slot)| self.break_leaf(slot));
            self.forget_now(visit, Depth::LastLevel);
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
    ///
    /// ```text
    ///   make        C on, leaf by leaf
    ///   dissolve    C off ─▶ the marks of any member given to all
    ///   edit        C off ─▶ the marks of any member given to all ─▶ edited, leaf by leaf ─▶ C on
    /// ```
    /// Between two steps some members have the bit and others do not. A walker that meets either finds the same translation, for
    /// nothing but the bit differs then: that is what the licence says that each CPU tolerates.
    fn regroup_in_place(&mut self, visit: &Visit, regroup: Regroup, members: Members) {
        let writer = self.writer();
        let grouped = |leaf: Descriptor| Descriptor::new(leaf.bits() | Descriptor::CONTIGUOUS);
        if let Regroup::Make = regroup {
            replace_members(&writer, members, grouped);
        } else {
            replace_members(&writer, members, single);
            // What any member says of accesses and writes, all of them say.
            let (regime, marks) = (self.regime, self.marks_of_group(members));
            if marks != 0 {
                replace_members(&writer, members, |leaf| marked(regime, leaf, marks));
            }
        }
        if let Regroup::Edit(edit, true) = regroup {
            replace_members(&writer, members, |leaf| edit.apply(leaf));
            replace_members(&writer, members, grouped);
        }
        if self.method() == Method::NotCached {
            // Until TLBs have forgotten the group or its members they may conflict (RFCPSG), in this window alone.
            return self.forget_now(visit, Depth::LastLevel);
        }
        self.note_store();
        // Where TLBs that hold the group and its members may conflict, they forget the whole group.
        let may_conflict = self.method() == Method::InPlace { may_conflict: true };
        if may_conflict || matches!(regroup, Regroup::Edit(_, true)) {
            self.forget(visit.level, visit.start, visit.end);
        }
    }

    /// The marks that any member has, if hardware writes them.
    fn marks_of_group(&self, members: Members) -> Bits {
        if !self.writer().is_marked {
            return 0;
        }
        let bits = members.slots().map(|(_, slot)| self.platform.load(slot).bits());
        bits.fold(0, |marks, bits| marks | marks::of::<R::Attributes>(bits))
    }

    /// The tables that the members cut by a boundary become: filled before any window opens.
    fn build_cut(&mut self, visit: &Visit, regroup: Regroup, members: Members) -> Option<[Option<Cut>; 2]> {
        let mut cut = [None; 2];
        let Regroup::Edit(edit, _) = regroup else { return Some(cut) };
        for (place, member) in cut.iter_mut().zip(visit.cut_members::<G>()) {
            let marks = self.marks_of_group(members);
            let leaf = marked(self.regime, self.platform.load(member.slot), marks);
            let pieces = self.terms.table.pieces(&member.with(leaf), &Part::of(&member, edit));
            *place = Some((member, Built { leaf, table: self.build(&member, &pieces)? }));
        }
        Some(cut)
    }

    /// Stores what the members of a group become that no TLB holds any more. Broken ones have kept all but bit 0, so that what
    /// hardware marked in any of them is still to be read, and is given to all. A member that a boundary cuts becomes its table.
    fn store_members(&mut self, visit: &Visit, regroup: Regroup, members: Members, cut: &[Option<Cut>; 2]) {
        let (platform, regime, marks, edit) =
            (self.platform, self.regime, self.marks_of_group(members), regroup.edit());
        let contiguous = if regroup.becomes_group() { Descriptor::CONTIGUOUS } else { 0 };
        let set = visit.descriptor.bits() & Descriptor::VALID | contiguous;
        let leaf_at = |slot: Slot| {
            let bits = platform.load(slot).bits() & !Descriptor::CONTIGUOUS | set;
            marked(regime, Descriptor::new(bits), marks)
        };
        let asked_for = visit.numbers_asked_for::<G>();
        let is_cut = |slot: Slot| cut.iter().flatten().any(|(member, _)| member.slot == slot);
        for (number, slot) in members.slots().filter(|&(_, slot)| !is_cut(slot)) {
            let leaf = leaf_at(slot);
            self.write(slot, if asked_for.contains(&number) { edit.apply(leaf) } else { leaf });
        }
        for (member, built) in cut.iter().flatten() {
            let table = self.build_part_again(member, &Part::of(member, edit), *built, leaf_at(member.slot));
            self.write(member.slot, table);
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

#[inline(always)]
fn replace_members<P: Platform>(writer: &Writer<'_, P>, members: Members, new: impl Fn(Descriptor) -> Descriptor) {
    let run = writer.platform.for_run();
    let writer = Writer { platform: &run, is_marked: writer.is_marked, is_live: writer.is_live };
    for (_, slot) in members.slots() {
        writer.replace(slot, run.load(slot), &new);
    }
}

/// Whether `count` members from `first` on are leaves of the group that `leaf` is of.
#[inline(always)]
fn is_intact<P: Platform>(platform: &P, first: Slot, count: usize, leaf: Descriptor) -> bool {
    let run = platform.for_run();
    let differs = |number: usize| (run.load(first.after(number)).bits() ^ leaf.bits()) & ALIKE;
    let is_alike = |round: usize| (0..TURNS).fold(0, |all, turn| all | differs(round * TURNS + turn)) == 0;
    (0..count / TURNS).all(is_alike)
}

/// The same leaf, of no group.
const fn single(leaf: Descriptor) -> Descriptor {
    Descriptor::new(leaf.bits() & !Descriptor::CONTIGUOUS)
}

/// `leaf` with these marks.
fn marked<R: Regime>(regime: R, leaf: Descriptor, marks: Bits) -> Descriptor {
    Descriptor::new(marks::with(regime, leaf.bits(), marks))
}
