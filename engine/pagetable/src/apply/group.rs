//! Contiguous groups: changed whole, dissolved, made.
//!
//! Hardware marks any member of a group as accessed or written, and then lets all of it be accessed or written (ICQTNL). So
//! what one member says is said of all of them before they are anything but that group.

use vmsa::{Bits, Descriptor, Geometry, Granule, Level};

use super::Editor;
use super::steps::Built;
use crate::decide::{Edit, Regroup};
use crate::invalidation::Depth;
use crate::licence::Method;
use crate::platform::{Platform, Slot};
use crate::regime::{Regime, marks};
use crate::walk::{Next, Visit};

impl<G: Granule, R: Regime, P: Platform> Editor<'_, G, R, P> {
    /// A contiguous group is changed, dissolved or made.
    pub(super) fn regroup(&mut self, visit: &Visit, group: &Regroup) -> Next {
        let group = &group.found(self.platform, visit);
        let next = if group.is_met_again { Next::Past(group.met_from) } else { Next::Past(group.end.min(group.to)) };
        // Members that are not to change as one are met again: in place, one by one.
        let next_in_place = if group.becomes_group { Next::Past(group.end) } else { Next::Past(group.met_from) };
        match self.method {
            _ if !self.is_live || !group.is_valid => {
                let cut = self.build_cut(visit.level, group);
                self.store_members(visit.level, group, &cut);
                self.note_store();
                next
            }
            Method::Break => {
                let cut = self.build_cut(visit.level, group);
                for number in group.present() {
                    self.break_leaf(group.first.after(number));
                }
                self.forget_now(visit.level, group.start, group.end, Depth::LastLevel);
                self.store_members(visit.level, group, &cut);
                self.close_window();
                next
            }
            Method::NotCached => {
                self.regroup_in_place(group);
                // Until TLBs have forgotten the group or its members they may conflict (RFCPSG), in this window alone.
                self.forget_now(visit.level, group.start, group.end, Depth::LastLevel);
                next_in_place
            }
            Method::InPlace { settles } => {
                self.regroup_in_place(group);
                self.note_store();
                // Where TLBs that hold the group and its members may conflict, they forget the whole group.
                if settles || group.becomes_group && group.edit != Edit::KEEP {
                    self.forget(visit.level, group.start, group.end);
                }
                next_in_place
            }
        }
    }

    /// The Contiguous bit changes first, alone (RKHRBC); then what else is to change, leaf by leaf.
    fn regroup_in_place(&mut self, group: &Regroup) {
        let bit = |is_set: bool| {
            move |leaf: Descriptor| {
                Descriptor::new(leaf.bits() & !Descriptor::CONTIGUOUS | if is_set { Descriptor::CONTIGUOUS } else { 0 })
            }
        };
        let is_made = group.becomes_group && group.edit == Edit::KEEP;
        if !is_made {
            self.replace_members(group, bit(false));
            self.share_marks(group);
        }
        if group.becomes_group && !is_made {
            self.replace_members(group, |leaf| group.edit.apply(leaf));
        }
        if group.becomes_group {
            self.replace_members(group, bit(true));
        }
    }

    fn replace_members(&self, group: &Regroup, new: impl Fn(Descriptor) -> Descriptor) {
        for number in group.present() {
            let slot = group.first.after(number);
            self.writer().replace(slot, self.platform.load(slot), &new);
        }
    }

    /// What any member says of accesses and writes, all of them say.
    fn share_marks(&self, group: &Regroup) {
        let (regime, marks) = (self.regime, self.marks(group));
        if marks != 0 {
            self.replace_members(group, |leaf| marked(regime, leaf, marks));
        }
    }

    /// The marks that any member has, if hardware writes them.
    fn marks(&self, group: &Regroup) -> Bits {
        if !self.writer().is_marked() {
            return 0;
        }
        let bits = group.present().map(|number| self.platform.load(group.first.after(number)).bits());
        bits.fold(0, |marks, bits| marks | marks::of::<R::Attributes>(bits))
    }

    /// The tables that the members cut by a boundary become: filled before any window opens.
    fn build_cut(&mut self, level: Level, group: &Regroup) -> [Option<(usize, Built)>; 2] {
        let bytes: u64 = 1 << Geometry::<G>::shift(level);
        let marks = self.marks(group);
        let mut build = |number: usize| {
            let start = group.start + number as u64 * bytes;
            let leaf = marked(self.regime, self.platform.load(group.first.after(number)), marks);
            let pieces = group.part(start, start + bytes).pieces(self.geometry, leaf, level, start);
            (number, Built { leaf, table: self.build(level, start, &pieces) })
        };
        group.cut_members(bytes.ilog2()).map(|cut| cut.map(&mut build))
    }

    /// Stores what the members of a group become that no TLB holds any more. Broken ones have kept all but bit 0.
    fn store_members(&mut self, level: Level, group: &Regroup, cut: &[Option<(usize, Built)>]) {
        let (platform, geometry, regime, first) = (self.platform, self.geometry, self.regime, group.first);
        let bytes: u64 = 1 << Geometry::<G>::shift(level);
        let marks = self.marks(group);
        let valid = if group.is_valid { Descriptor::VALID } else { 0 };
        let set = valid | if group.becomes_group { Descriptor::CONTIGUOUS } else { 0 };
        let member = move |number: usize| {
            let slot = first.after(number);
            let bits = platform.load(slot).bits() & !Descriptor::CONTIGUOUS | set;
            (slot, marked(regime, Descriptor::new(bits), marks))
        };
        let (from, to) = (group.from - group.start, group.to - group.start);
        let edited = from.div_ceil(bytes) as usize..(to / bytes) as usize;
        let is_present = |number: &usize| group.present >> number & 1 != 0;
        for number in (0..(from / bytes) as usize).filter(is_present) {
            store(platform, member(number));
        }
        for number in edited {
            let (slot, leaf) = member(number);
            store(platform, (slot, group.edit.apply(leaf)));
        }
        for number in (to.div_ceil(bytes) as usize..group.members).filter(is_present) {
            store(platform, member(number));
        }
        for &(number, built) in cut.iter().flatten() {
            let (slot, leaf) = member(number);
            let start = group.start + number as u64 * bytes;
            let pieces = |leaf| group.part(start, start + bytes).pieces(geometry, leaf, level, start);
            let table = self.build_again((level, start), built, leaf, pieces);
            platform.store(slot, table);
        }
    }
}

/// A member that no TLB holds any more.
fn store<P: Platform>(platform: &P, (slot, leaf): (Slot, Descriptor)) {
    platform.store(slot, leaf);
}

/// `leaf` with these marks.
fn marked<R: Regime>(regime: R, leaf: Descriptor, marks: Bits) -> Descriptor {
    Descriptor::new(marks::with(regime, leaf.bits(), marks))
}
