//! Every store of a descriptor that a walker may see, and the barriers and TLBIs that order it.
//!
//! ```text
//! link a table        fill it · DSB ISHST · store its descriptor
//! break-before-make   clear bit 0 · DSB ISHST · TLBI · DSB ISH · ISB · store · DSB ISHST · ISB
//! nT                  set nT · DSB ISHST · TLBI · DSB ISH · ISB · store · (the Gather makes TLBs forget again)
//! in place            store · (the Gather makes TLBs forget)
//! ```

use vmsa::{Descriptor, Geometry, Granule, Level, Maintenance};

use crate::decide::{Decision, Edit, Part, Regroup};
use crate::few::Few;
use crate::fill::{build, fill_segment, gather_hardware_writes, keep_hardware_writes};
use crate::gather::{Gather, forget};
use crate::invalidation::{Depth, Invalidation};
use crate::licence::Method;
use crate::pieces::{Content, Kind, Pieces};
use crate::platform::{Platform, Slot};
use crate::regime::{Attributes, Regime};
use crate::single::Single;
use crate::table::PageTable;
use crate::tables::Reserve;
use crate::walk::{Next, Visit, next_table};

/// Carries out decisions.
pub(crate) struct Editor<'e, G: Granule, R: Regime, P: Platform> {
    pub(crate) platform: &'e P,
    pub(crate) geometry: Geometry<G>,
    pub(crate) regime: R,
    /// Whether hardware may walk the tables: without that no order matters.
    pub(crate) is_live: bool,
    /// How live leaves change size; the plan has seen to it that none does without a licence.
    pub(crate) method: Method,
    pub(crate) reserve: &'e mut Reserve,
    pub(crate) gather: &'e mut Gather<G, R>,
    /// Up to here TLBs may hold a leaf of another size than the tables do, so that a level hint would miss it.
    pub(crate) unhinted_to: u64,
}

impl<'e, G: Granule, R: Regime, P: Platform> Editor<'e, G, R, P> {
    /// An editor of `table`.
    #[inline(always)]
    pub(crate) const fn new(
        table: &PageTable<'e, G, R, P>,
        method: Method,
        reserve: &'e mut Reserve,
        gather: &'e mut Gather<G, R>,
    ) -> Self {
        let PageTable { platform, geometry, regime, is_live, .. } = *table;
        Self { platform, geometry, regime, is_live, method, reserve, gather, unhinted_to: 0 }
    }

    /// Does what was decided for `visit`, and says where to go on.
    #[inline(always)]
    pub(crate) fn carry_out(&mut self, decision: &Decision, visit: &Visit) -> Next {
        match decision {
            Decision::Enter => return Next::Enter,
            Decision::Pass | Decision::Refuse(_) => {}
            Decision::Make(leaf) => self.make(visit.slot, *leaf),
            Decision::Fill(content, end) => return self.fill(visit, content, *end),
            Decision::Link(pieces) => self.link(visit, pieces),
            // By itself, because it is the most frequent: with no more in its loop than it needs.
            Decision::Set(Edit::Remove, end) => return self.set(visit, Edit::Remove, *end),
            Decision::Set(edit, end) => return self.set(visit, *edit, *end),
            Decision::Clear => self.clear(visit),
            Decision::Unlink => self.unlink(visit, Descriptor::INVALID),
            Decision::Replace(kept) => self.unlink(visit, *kept),
            Decision::Remake(leaf) => self.remake(visit, *leaf),
            Decision::Rebuild(pieces) => self.rebuild(visit, pieces),
            Decision::Resize(part) => return self.resize(visit, part),
            Decision::Fold(leaf) => self.fold(visit, *leaf),
            Decision::Regroup(group) => return self.regroup(visit, group),
        }
        Next::Past(visit.end)
    }

    /// What TLBs do not hold becomes a leaf or a table: there is nothing to forget.
    fn make(&mut self, slot: Slot, new: Descriptor) {
        self.platform.store(slot, new);
        self.note_store();
    }

    /// Holes and members of one group may stand side by side (IPGVGZ).
    fn fill(&mut self, visit: &Visit, content: &Content, end: u64) -> Next {
        let layout = self.geometry.layout();
        fill_segment::<G, P>(self.platform, layout, visit.slot, visit.level, (visit.start, end), content);
        self.note_store();
        Next::Past(end)
    }

    fn link(&mut self, visit: &Visit, pieces: &Pieces) {
        let table = self.build(visit.level, visit.start, pieces);
        self.make(visit.slot, table);
    }

    /// A run of leaves changes in place. What of it TLBs may hold is forgotten as one range.
    #[inline(always)]
    fn set(&mut self, visit: &Visit, edit: Edit, end: u64) -> Next {
        let bytes = visit.end - visit.start;
        let (mut slot, mut leaf, mut at) = (visit.slot, visit.descriptor, visit.start);
        let mut stale_from = at;
        loop {
            if !self.set_leaf(slot, leaf, edit.apply(leaf), edit) {
                self.forget(visit.level, stale_from, at);
                stale_from = at + bytes;
            }
            at += bytes;
            if at >= end {
                break;
            }
            slot = slot.after(1);
            leaf = self.platform.load(slot);
            if !edit.is_alike::<R::Attributes>(visit.descriptor, leaf) {
                break;
            }
        }
        self.note_store();
        self.forget(visit.level, stale_from, at);
        Next::Past(at)
    }

    /// One page changes in place.
    #[inline(always)]
    pub(crate) fn set_single(&mut self, single: &Single) {
        let is_stale = self.set_leaf(single.slot, single.old, single.new, single.edit);
        self.note_store();
        if self.is_live && is_stale {
            self.gather.forget(self.platform, Level::L3, single.start, G::SIZE_BYTES, true);
        }
    }

    /// Makes `new` of the leaf `old` by `edit`, or what `edit` makes of what hardware has written meanwhile. Says whether TLBs
    /// may hold a copy that matters: not without the access flag, and not if hardware ignores what changed.
    #[inline(always)]
    fn set_leaf(&self, slot: Slot, mut old: Descriptor, mut new: Descriptor, edit: Edit) -> bool {
        while let Err(actual) = self.swap(slot, old, new) {
            (old, new) = (actual, edit.apply(actual));
        }
        let is_cached = old.bits() & R::Attributes::ACCESS_FLAG != 0 || self.regime.has_hardware_updates();
        is_cached && (old.bits() ^ new.bits()) & !R::Attributes::IGNORED != 0
    }

    fn clear(&mut self, visit: &Visit) {
        // By exchange, where hardware may be writing: what it wrote last must not be overwritten unseen.
        self.replace(visit.slot, visit.descriptor, |_| Descriptor::INVALID);
        self.note_store();
        if visit.descriptor.is_valid() {
            self.forget(visit.level, visit.start, visit.end);
        }
    }

    /// A table gives way to what TLBs cannot hold.
    fn unlink(&mut self, visit: &Visit, new: Descriptor) {
        let Some(table) = next_table(self.geometry, visit) else { return };
        self.platform.store(visit.slot, new);
        self.note_store();
        if self.is_live {
            self.gather.unlink(self.platform, table, visit.end - visit.start);
        } else {
            self.gather.retire(self.platform, table);
        }
    }

    /// A leaf becomes another leaf by break-before-make.
    fn remake(&mut self, visit: &Visit, leaf: Descriptor) {
        self.exchange_broken(visit, Depth::LastLevel, |editor, broken| {
            let bits = R::Attributes::keep_hardware_writes(leaf.bits(), visit.descriptor.bits(), broken.bits());
            editor.platform.store(visit.slot, Descriptor::new(bits));
        });
    }

    /// A leaf or table becomes something else altogether by break-before-make.
    fn rebuild(&mut self, visit: &Visit, pieces: &Pieces) {
        let layout = self.geometry.layout();
        let new = match pieces.segment::<G>(layout, visit.level, visit.start, visit.end).kind {
            Kind::Leaves(content) => content.leaf(layout, visit.level, visit.start),
            _ => self.build(visit.level, visit.start, pieces),
        };
        let table = next_table(self.geometry, visit);
        let depth = if table.is_some() { Depth::AllLevels } else { Depth::LastLevel };
        self.exchange_broken(visit, depth, |editor, _| editor.platform.store(visit.slot, new));
        if let Some(table) = table {
            self.gather.retire(self.platform, table);
        }
    }

    /// A leaf becomes a table, of which a part is edited. The table is filled before any window opens.
    fn resize(&mut self, visit: &Visit, part: &Part) -> Next {
        let leaf = visit.descriptor;
        if !self.is_live {
            self.link(visit, &part.pieces(self.geometry, leaf, visit.level, visit.start));
            return Next::Past(visit.end);
        }
        if self.method == Method::Break {
            let pieces = part.pieces(self.geometry, leaf, visit.level, visit.start);
            let table = self.build(visit.level, visit.start, &pieces);
            self.exchange_broken(visit, Depth::LastLevel, |editor, broken| {
                keep_hardware_writes::<G, R, P>(editor.platform, editor.geometry, visit.level, table, leaf, broken);
                editor.platform.store(visit.slot, table);
            });
            return Next::Past(visit.end);
        }
        // The table holds what the leaf held: nothing but the size may change at once (RPVTFW).
        let pieces = part.kept().pieces(self.geometry, leaf, visit.level, visit.start);
        let table = self.build(visit.level, visit.start, &pieces);
        if self.method == Method::NotCached {
            self.replace(visit.slot, leaf, |leaf| Descriptor::new(leaf.bits() | Descriptor::NT));
            self.forget_now(visit.level, visit.start, visit.end, Depth::LastLevel);
        }
        self.resize_in_place(visit, part.edit, table)
    }

    /// A leaf becomes a table that holds the same. What is to be edited is met again, as leaves of its own.
    fn resize_in_place(&mut self, visit: &Visit, edit: Edit, table: Descriptor) -> Next {
        let mut leaf = visit.descriptor;
        while let Err(actual) = self.swap(visit.slot, leaf, table) {
            keep_hardware_writes::<G, R, P>(self.platform, self.geometry, visit.level, table, leaf, actual);
            leaf = actual;
        }
        self.note_store();
        let changed = leaf.bits() ^ edit.apply(leaf).bits();
        if changed & !R::Attributes::IGNORED == 0 {
            // Nothing else would make TLBs forget the old leaf, and a level hint would miss it ever after.
            self.forget(visit.level, visit.start, visit.end);
        } else {
            // The TLBIs of the edit, by address and without a hint, forget the old leaf too.
            self.unhinted_to = visit.end;
        }
        if matches!(edit, Edit::Keep) { Next::Past(visit.end) } else { Next::Past(visit.from) }
    }

    /// A table whose leaves are alike becomes a leaf.
    fn fold(&mut self, visit: &Visit, leaf: Descriptor) {
        let Some(table) = next_table(self.geometry, visit) else { return };
        match self.method {
            _ if !self.is_live => {
                self.platform.store(visit.slot, leaf);
                self.gather.retire(self.platform, table);
            }
            Method::Break => {
                self.exchange_broken(visit, Depth::AllLevels, |editor, _| {
                    // Walks through the broken table have ended: what hardware wrote below is final.
                    let gathered = gather_hardware_writes::<G, R, P>(editor.platform, editor.geometry, table, leaf);
                    editor.platform.store(visit.slot, gathered);
                });
                self.gather.retire(self.platform, table);
            }
            Method::NotCached => {
                let gathered = self.written_all_over(leaf);
                self.make(visit.slot, Descriptor::new(gathered.bits() | Descriptor::NT));
                self.forget_now(visit.level, visit.start, visit.end, Depth::AllLevels);
                self.make(visit.slot, gathered);
                self.forget(visit.level, visit.start, visit.end);
                self.gather.retire(self.platform, table);
            }
            Method::InPlace { .. } => {
                let gathered = self.written_all_over(leaf);
                self.make(visit.slot, gathered);
                self.gather.unlink(self.platform, table, visit.end - visit.start);
            }
        }
    }

    /// A contiguous group is changed, dissolved or made.
    fn regroup(&mut self, visit: &Visit, group: &Regroup) -> Next {
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
        let is_made = group.becomes_group && matches!(group.edit, Edit::Keep);
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
            let edit = if is_edited { group.edit } else { Edit::Keep };
            let table = cut.iter().find(|(cut, _)| *cut == number).map(|(_, table)| *table);
            self.platform.store(slot, table.unwrap_or(edit.apply(Descriptor::new(leaf))));
        }
    }

    /// Break-before-make of one descriptor: `make` stores what follows, given what was broken.
    fn exchange_broken(&mut self, visit: &Visit, depth: Depth, make: impl FnOnce(&Self, Descriptor)) {
        if self.is_live {
            self.break_leaf(visit.slot);
            self.forget_now(visit.level, visit.start, visit.end, depth);
        }
        make(self, self.platform.load(visit.slot));
        if self.is_live {
            self.close_window();
        }
    }

    /// Breaks a descriptor by clearing bit 0 alone, so that its other bits, those that hardware wrote included, stay
    /// readable.
    fn break_leaf(&self, slot: Slot) {
        let broken = |leaf: Descriptor| Descriptor::new(leaf.bits() & !Descriptor::VALID);
        self.replace(slot, self.platform.load(slot), broken);
    }

    /// Makes every TLB forget what was broken or made uncacheable, before anything is made in its place.
    fn forget_now(&mut self, level: Level, start: u64, end: u64, depth: Depth) {
        // Walkers must see the break before TLBs forget, or a walk in between caches the old leaf again.
        self.platform.maintain(Maintenance::DSB_ISHST);
        let is_leaf = depth == Depth::LastLevel;
        let stride = if is_leaf { level } else { Level::L3 };
        let (start, bytes) = (self.geometry.input(start), end - start);
        let broken = Invalidation { start, bytes, stride, is_uniform: is_leaf, depth };
        self.gather.count(forget(self.platform, self.geometry, self.regime, &Few::of(broken)));
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

    /// Replaces a descriptor that hardware may write meanwhile; returns what was replaced.
    #[inline(always)]
    fn replace(&self, slot: Slot, mut old: Descriptor, new: impl Fn(Descriptor) -> Descriptor) -> Descriptor {
        while let Err(actual) = self.swap(slot, old, new(old)) {
            old = actual;
        }
        old
    }

    /// Replaces `old`, unless hardware has written it meanwhile.
    #[inline(always)]
    fn swap(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        if self.is_live && self.regime.has_hardware_updates() {
            return self.platform.exchange(slot, old, new);
        }
        self.platform.store(slot, new);
        Ok(())
    }

    /// A leaf that stands for others which hardware may still be writing: it counts as accessed, and as dirty.
    fn written_all_over(&self, leaf: Descriptor) -> Descriptor {
        if !self.regime.has_hardware_updates() {
            return leaf;
        }
        let (untouched, touched) = (R::Attributes::DIRTY, R::Attributes::ACCESS_FLAG);
        Descriptor::new(R::Attributes::keep_hardware_writes(leaf.bits(), untouched, touched))
    }

    fn build(&mut self, above: Level, start: u64, pieces: &Pieces) -> Descriptor {
        let table = build::<G, P>(self.platform, self.geometry.layout(), self.reserve, above, start, pieces);
        if self.is_live {
            // A walker that saw the table's descriptor before its content would walk what was in the memory before.
            self.platform.maintain(Maintenance::DSB_ISHST);
        }
        table
    }

    #[inline(always)]
    fn note_store(&mut self) {
        if self.is_live {
            self.gather.note_store();
        }
    }

    #[inline(always)]
    fn forget(&mut self, level: Level, start: u64, end: u64) {
        if self.is_live && start < end {
            self.gather.forget(self.platform, level, start, end - start, start >= self.unhinted_to);
        }
    }
}
