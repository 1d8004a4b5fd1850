//! Live contiguous groups: changed whole, dissolved, made.

use vmsa::{Descriptor, Geometry, Granule, Level};

use super::Editor;
use crate::decide::{Edit, Regroup};
use crate::invalidation::Depth;
use crate::licence::Method;
use crate::platform::Platform;
use crate::regime::Regime;
use crate::walk::{Next, Visit};

impl<G: Granule, R: Regime, P: Platform> Editor<'_, G, R, P> {
    /// A contiguous group is changed, dissolved or made.
    pub(super) fn regroup(&mut self, visit: &Visit, group: &Regroup) -> Next {
        let next = if group.is_met_again { Next::Past(visit.from) } else { Next::Past(group.end.min(group.to)) };
        match self.method {
            _ if !self.is_live || !group.is_valid => {
                let cut = self.build_cut(visit.level, group);
                self.store_members(visit.level, group, &cut);
                self.note_store();
                next
            }
            Method::Break => {
                let cut = self.build_cut(visit.level, group);
                for number in 0..group.members {
                    self.break_leaf(group.first.after(number));
                }
                self.forget_now(visit.level, group.start, group.end, Depth::LastLevel);
                self.store_members(visit.level, group, &cut);
                self.close_window();
                next
            }
            Method::NotCached => self.regroup_in_place(visit, group, true),
            Method::InPlace { settles } => self.regroup_in_place(visit, group, settles),
        }
    }

    /// The Contiguous bit changes first, alone (RKHRBC); then what else is to change, leaf by leaf. Where TLBs that hold
    /// the group and its members may conflict (`settles`), they forget the whole group.
    fn regroup_in_place(&mut self, visit: &Visit, group: &Regroup, settles: bool) -> Next {
        let bit = |is_set: bool| {
            move |leaf: Descriptor| {
                Descriptor::new(leaf.bits() & !Descriptor::CONTIGUOUS | if is_set { Descriptor::CONTIGUOUS } else { 0 })
            }
        };
        let is_made = group.becomes_group && group.edit == Edit::KEEP;
        if !is_made {
            self.replace_members(group, bit(false));
        }
        if group.becomes_group && !is_made {
            self.replace_members(group, |leaf| group.edit.apply(leaf));
        }
        if group.becomes_group {
            self.replace_members(group, bit(true));
        }
        self.note_store();
        if settles || group.becomes_group && !is_made {
            self.gather.forget(self.platform, visit.level, group.start, group.end - group.start, true);
        }
        if group.becomes_group { Next::Past(group.end) } else { Next::Past(visit.from) }
    }

    fn replace_members(&self, group: &Regroup, new: impl Fn(Descriptor) -> Descriptor) {
        for number in 0..group.members {
            let slot = group.first.after(number);
            self.replace(slot, self.platform.load(slot), &new);
        }
    }

    /// The tables that the members cut by a boundary become: filled before any window opens.
    fn build_cut(&mut self, level: Level, group: &Regroup) -> [(usize, Descriptor); 2] {
        let mut cut = [(usize::MAX, Descriptor::INVALID); 2];
        let shift = Geometry::<G>::shift(level);
        for (number, place) in group.cut_members(shift).zip(&mut cut) {
            let start = group.start + ((number as u64) << shift);
            let leaf = self.platform.load(group.first.after(number));
            let pieces = group.part(start, start + (1 << shift)).pieces(self.geometry, leaf, level, start);
            *place = (number, self.build(level, start, &pieces));
        }
        cut
    }

    /// Stores what the members of a group become that no TLB holds any more. Broken ones have kept all but bit 0.
    fn store_members(&self, level: Level, group: &Regroup, cut: &[(usize, Descriptor)]) {
        let shift = Geometry::<G>::shift(level);
        for number in 0..group.members {
            let slot = group.first.after(number);
            let start = group.start + ((number as u64) << shift);
            let valid = if group.is_valid { Descriptor::VALID } else { 0 };
            let contiguous = if group.becomes_group { Descriptor::CONTIGUOUS } else { 0 };
            let leaf = self.platform.load(slot).bits() & !Descriptor::CONTIGUOUS | valid | contiguous;
            let is_edited = group.from <= start && start < group.to;
            let edit = if is_edited { group.edit } else { Edit::KEEP };
            let table = cut.iter().find(|(cut, _)| *cut == number).map(|(_, table)| *table);
            self.platform.store(slot, table.unwrap_or(edit.apply(Descriptor::new(leaf))));
        }
    }
}
