//! Every store of a descriptor, and the barriers and TLBIs that order it.
//!
//! ```text
//! link a table:         fill it · DSB ISHST · store the table descriptor
//! break-before-make:    clear bit 0 · DSB ISHST · TLBI · DSB ISH · ISB · store the new descriptor · DSB ISHST · ISB
//! everything else:      store, and let the Gather do the rest
//! ```

use vmsa::{Descriptor, Geometry, Granule, Layout, Level, Maintenance, PhysAddr};

use crate::decide::{Decision, Edit, Regroup};
use crate::gather::{Gather, forget};
use crate::invalidation::{Depth, Invalidation};
use crate::pieces::{Content, Kind, Pieces};
use crate::platform::{Platform, Slot};
use crate::regime::{Attributes, Regime};
use crate::tables::Reserve;
use crate::walk::{Next, Visit, next_table};

/// Writes the link of a [`crate::tables::TableList`] into a table that no walker can reach.
pub(crate) fn thread<P: Platform>(platform: &P, table: PhysAddr, next: PhysAddr) {
    platform.store(Slot::new(table, 0), Descriptor::new(next.bits()));
}

/// Carries out decisions.
pub(crate) struct Editor<'e, G: Granule, R: Regime, P: Platform> {
    pub(crate) platform: &'e P,
    pub(crate) geometry: Geometry<G>,
    pub(crate) regime: R,
    /// Whether hardware may walk the tables: without that no order matters.
    pub(crate) is_live: bool,
    pub(crate) reserve: &'e mut Reserve,
    pub(crate) gather: &'e mut Gather<G, R>,
}

impl<G: Granule, R: Regime, P: Platform> Editor<'_, G, R, P> {
    /// Does what was decided for `visit`, and says where to go on.
    #[inline(always)]
    pub(crate) fn carry_out(&mut self, decision: Decision, visit: &Visit) -> Next {
        match decision {
            Decision::Enter => return Next::Enter,
            Decision::Pass | Decision::Refuse(_) => {}
            Decision::Make(leaf) => self.make(visit.slot, leaf),
            Decision::MakeGroup(content, bytes) => return self.make_group(visit, &content, bytes),
            Decision::Link(pieces) => self.link(visit, &pieces),
            Decision::Set(leaf) => self.set(visit, leaf),
            Decision::Clear => self.clear(visit),
            Decision::Unlink => self.unlink(visit),
            Decision::Remake(leaf) => self.remake(visit, leaf),
            Decision::Resize(pieces) => {
                let table = self.build(visit.level, visit.start, &pieces);
                self.remake(visit, table);
            }
            Decision::Regroup(group) => return self.regroup(visit.level, &group),
        }
        Next::Past(visit.end)
    }

    /// A hole becomes a leaf: TLBs never hold holes, so there is nothing to forget.
    fn make(&mut self, slot: Slot, leaf: Descriptor) {
        self.platform.store(slot, leaf);
        self.note_store();
    }

    /// Holes and members of one group may stand side by side (IPGVGZ).
    fn make_group(&mut self, visit: &Visit, content: &Content, bytes: u64) -> Next {
        let end = visit.start + bytes;
        self.fill_leaves(visit.slot, visit.level, visit.start, end, content, Descriptor::CONTIGUOUS);
        self.note_store();
        Next::Past(end)
    }

    fn link(&mut self, visit: &Visit, pieces: &Pieces) {
        let table = self.build(visit.level, visit.start, pieces);
        if self.is_live {
            // A walker that saw the table descriptor before the table's content would walk what was there before.
            self.platform.maintain(Maintenance::DSB_ISHST);
        }
        self.make(visit.slot, table);
    }

    fn set(&mut self, visit: &Visit, leaf: Descriptor) {
        let changed = visit.descriptor.bits() ^ leaf.bits();
        let replaced = if self.is_live && self.regime.has_hardware_updates() {
            let (set, clear) = (leaf.bits() & changed, visit.descriptor.bits() & changed);
            self.exchange(visit.slot, visit.descriptor, |old| Descriptor::new(old.bits() & !clear | set))
        } else {
            self.platform.store(visit.slot, leaf);
            visit.descriptor
        };
        self.note_store();
        // A leaf without the access flag is in no TLB, and of bits that hardware ignores no TLB holds a copy that matters.
        let is_cached = replaced.bits() & R::Attributes::ACCESS_FLAG != 0 || self.regime.has_hardware_updates();
        if changed & !R::Attributes::IGNORED != 0 && is_cached {
            self.forget(visit);
        }
    }

    fn clear(&mut self, visit: &Visit) {
        self.platform.store(visit.slot, Descriptor::INVALID);
        self.note_store();
        if visit.descriptor.is_valid() {
            self.forget(visit);
        }
    }

    fn unlink(&mut self, visit: &Visit) {
        let Some(table) = next_table(self.geometry, visit) else { return };
        self.platform.store(visit.slot, Descriptor::INVALID);
        self.note_store();
        if self.is_live {
            self.gather.unlink(self.platform, table, visit.end - visit.start);
        } else {
            self.gather.retire(self.platform, table);
        }
    }

    /// A leaf becomes something else by break-before-make.
    fn remake(&mut self, visit: &Visit, new: Descriptor) {
        if !self.is_live {
            return self.platform.store(visit.slot, new);
        }
        self.break_leaf(visit.slot);
        self.forget_broken(visit.level, visit.start, visit.end);
        self.platform.store(visit.slot, new);
        self.close_window();
    }

    /// A contiguous group is broken whole, and made again as what its members become.
    fn regroup(&mut self, level: Level, group: &Regroup) -> Next {
        let mut cut = [(usize::MAX, Descriptor::INVALID); 2];
        let shift = Geometry::<G>::shift(level);
        // Tables are filled before the window opens.
        for (number, place) in group.cut_members(shift).zip(&mut cut) {
            let start = group.start + ((number as u64) << shift);
            let (from, to) = (group.from.max(start), group.to.min(start + (1 << shift)));
            let leaf = self.platform.load(group.first.after(number));
            let pieces = group.edit.pieces(self.geometry, leaf, level, start, from, to);
            *place = (number, self.build(level, start, &pieces));
        }
        if self.is_live {
            for number in 0..group.members {
                self.break_leaf(group.first.after(number));
            }
            self.forget_broken(level, group.start, group.end);
        }
        for number in 0..group.members {
            let slot = group.first.after(number);
            let start = group.start + ((number as u64) << shift);
            let new = match cut.iter().find(|(cut, _)| *cut == number) {
                Some((_, table)) => *table,
                None => self.member(group, slot, start),
            };
            self.platform.store(slot, new);
        }
        if self.is_live {
            self.close_window();
        }
        Next::Past(group.end.min(group.to))
    }

    /// What an uncut member of a group becomes. A broken one has kept all but bit 0.
    fn member(&self, group: &Regroup, slot: Slot, start: u64) -> Descriptor {
        let leaf = self.platform.load(slot).bits() | Descriptor::VALID;
        let leaf = Descriptor::new(if group.stays_whole() { leaf } else { leaf & !Descriptor::CONTIGUOUS });
        let is_edited = group.from <= start && start < group.to;
        if is_edited { group.edit.apply(leaf) } else { Edit::Keep.apply(leaf) }
    }

    /// Breaks a leaf by clearing bit 0 alone, so that its other bits, those that hardware wrote included, stay readable.
    fn break_leaf(&self, slot: Slot) {
        let leaf = self.platform.load(slot);
        let broken = |leaf: Descriptor| Descriptor::new(leaf.bits() & !Descriptor::VALID);
        if self.regime.has_hardware_updates() {
            self.exchange(slot, leaf, broken);
        } else {
            self.platform.store(slot, broken(leaf));
        }
    }

    /// Makes every TLB forget broken leaves of `level`, before anything is made in their place.
    fn forget_broken(&mut self, level: Level, start: u64, end: u64) {
        // Walkers must see the break before TLBs forget, or a walk in between caches the old leaf again.
        self.platform.maintain(Maintenance::DSB_ISHST);
        let broken = Invalidation {
            start: self.geometry.input(start),
            bytes: end - start,
            stride: level,
            is_uniform: true,
            depth: Depth::LastLevel,
        };
        self.gather.count(forget(self.platform, self.geometry, self.regime, [&broken].into_iter()));
        // This PE has not forgotten until a context synchronization event (RBLDZX).
        self.platform.maintain(Maintenance::ISB);
    }

    /// Ends a break-before-make window.
    fn close_window(&self) {
        // Until walkers see what was made, every access to it faults.
        self.platform.maintain(Maintenance::DSB_ISHST);
        // Without it this PE may still act on the fault that a fetch from the broken leaf would have taken.
        self.platform.maintain(Maintenance::ISB);
    }

    /// Replaces a descriptor that hardware may write; returns what was replaced.
    fn exchange(&self, slot: Slot, mut old: Descriptor, new: impl Fn(Descriptor) -> Descriptor) -> Descriptor {
        while let Err(actual) = self.platform.exchange(slot, old, new(old)) {
            old = actual;
        }
        old
    }

    fn note_store(&mut self) {
        if self.is_live {
            self.gather.note_store();
        }
    }

    fn forget(&mut self, visit: &Visit) {
        if self.is_live {
            self.gather.forget(self.platform, visit.level, visit.start, visit.end - visit.start);
        }
    }

    /// Fills a new table for one slot of `above` that starts at `start`, and those below it; returns the descriptor that
    /// will link it.
    fn build(&mut self, above: Level, start: u64, pieces: &Pieces) -> Descriptor {
        let (Some(level), Some(table)) = (above.next(), self.reserve.0.pop(self.platform)) else {
            debug_assert!(false, "the plan counted the tables");
            return Descriptor::INVALID;
        };
        let shift = Geometry::<G>::shift(level);
        let end = start + ((G::ENTRIES as u64) << shift);
        let mut at = start;
        while at < end {
            let segment = pieces.segment::<G>(self.geometry.layout(), level, at, end);
            let slot = Slot::new(table, ((at - start) >> shift) as usize);
            match segment.kind {
                Kind::Holes => self.fill_holes(slot, (segment.end - at) >> shift),
                Kind::Leaves(content) => self.fill_segment(slot, level, at, segment.end, &content),
                Kind::Tables => self.fill_tables(slot, level, at, segment.end, pieces),
            }
            at = segment.end;
        }
        Descriptor::table(self.geometry.layout(), table, 0)
    }

    fn fill_holes(&self, slot: Slot, count: u64) {
        for index in 0..count as usize {
            self.platform.store(slot.after(index), Descriptor::INVALID);
        }
    }

    fn fill_tables(&mut self, slot: Slot, level: Level, start: u64, end: u64, pieces: &Pieces) {
        let shift = Geometry::<G>::shift(level);
        for index in 0..(end - start) >> shift {
            let table = self.build(level, start + (index << shift), pieces);
            self.platform.store(slot.after(index as usize), table);
        }
    }

    /// Leaves from `start` to `end`: contiguous groups wherever a whole one fits.
    fn fill_segment(&self, slot: Slot, level: Level, start: u64, end: u64, content: &Content) {
        let shift = Geometry::<G>::shift(level);
        let (from, to) = match content.group_bytes::<G>(level) {
            Some(bytes) => {
                let from = start.next_multiple_of(bytes).min(end);
                (from, (end & !(bytes - 1)).max(from))
            }
            None => (end, end),
        };
        let at = |offset: u64| slot.after(((offset - start) >> shift) as usize);
        self.fill_leaves(slot, level, start, from, content, 0);
        self.fill_leaves(at(from), level, from, to, content, Descriptor::CONTIGUOUS);
        self.fill_leaves(at(to), level, to, end, content, 0);
    }

    fn fill_leaves(&self, slot: Slot, level: Level, start: u64, end: u64, content: &Content, contiguous: u64) {
        let layout = self.geometry.layout();
        let shift = Geometry::<G>::shift(level);
        let count = ((end - start) >> shift) as usize;
        let first = content.leaf(layout, level, start).bits() | contiguous;
        if layout == Layout::Bits48 {
            // The output address is the descriptor's own bits: neighbours differ by what a leaf covers.
            for index in 0..count {
                self.platform.store(slot.after(index), Descriptor::new(first + ((index as u64) << shift)));
            }
        } else {
            for index in 0..count {
                let leaf = content.leaf(layout, level, start + ((index as u64) << shift));
                self.platform.store(slot.after(index), Descriptor::new(leaf.bits() | contiguous));
            }
        }
    }

    /// Writes a root table that holds nothing.
    pub(crate) fn clear_root(platform: &P, table: PhysAddr) {
        for index in 0..G::ENTRIES {
            platform.store(Slot::new(table, index), Descriptor::INVALID);
        }
    }
}
