//! Who copies leaves, a table's part at a time: those that lead on from each other many at a time, others one by one.
//!
//! A contiguous group whose members differ in what they permit is misprogrammed (RQTRPM). Where leaves change size in place, a CPU that meets
//! it so finds what one of the members says, or a conflict, which the licence says is borne (RNGLXZ, RJQQTC): the members are edited as
//! other leaves are, keep the Contiguous bit, and all of them are forgotten at the end. Elsewhere they are broken first:
//!
//! ```text
//!   here    │ A │ A │ A │ A │ ──▶ │ - │ - │ - │ - │ ──▶ DSB ISHST · TLBIs · DSB ISH · ISB ──▶ │ a │ a │ a │ a │
//!   there   │ · │ · │ · │ · │ ──▶ │ a │ a │ a │ a │ ────────── what is made again ────────────────▲
//! ```

use vmsa::{Descriptor, Geometry, Granule, LeafSize, Level, PhysAddr};

use crate::alike::TURNS;
use crate::backlog::Backlog;
use crate::changes::{Copied, Edit, Editor, Terms, Writer, copy_back, copy_leading};
use crate::gather::Gather;
use crate::licence::Licence;
use crate::pieces::Pieces;
use crate::platform::{Platform, Slot};
use crate::regime::Regime;
use crate::table::PageTable;
use crate::tables::Reserve;
use crate::walk::Visit;

/// Runs of broken members that wait for the TLBs at once, beside the first.
const MORE_RUNS: usize = 7;

/// Copies leaves.
pub(crate) struct Copier<'c, G: Granule, R: Regime, P: Platform> {
    here: Editor<'c, G, R, P>,
    there: &'c PageTable<'c, G, R, P>,
    /// Tables for `there`, which leave nothing to forget.
    reserve: &'c mut Reserve,
    nothing: Gather<G, R>,
    edit: Edit,
    /// Whether members of groups that change are broken first.
    is_breaking: bool,
    stale: Stale,
    broken: Backlog<Broken, MORE_RUNS>,
}

/// Members side by side that are broken, here, and what is to become of them, there.
#[derive(Clone, Copy)]
struct Broken {
    slot: Slot,
    copy: Slot,
    count: usize,
}

/// A leaf that is to be copied.
struct Place {
    level: Level,
    at: u64,
    slot: Slot,
    into: Slot,
    leaf: Descriptor,
    /// How many slots there are from here on.
    left: usize,
}

impl<'c, G: Granule, R: Regime, P: Platform> Copier<'c, G, R, P> {
    /// A copier of leaves of the editor's page table, with tables from `reserve`.
    pub(crate) fn new(
        here: Editor<'c, G, R, P>,
        there: &'c PageTable<'c, G, R, P>,
        reserve: &'c mut Reserve,
        edit: Edit,
    ) -> Self {
        let is_breaking = here.terms.table.is_live && !here.terms.licence.is_some_and(Licence::is_in_place);
        let (nothing, stale, broken) = (there.gather(), Stale::default(), Backlog::default());
        Self { here, there, reserve, nothing, edit, is_breaking, stale, broken }
    }

    /// Copies the leaves of one table side by side, up to its end or that of the range: a walk's steps cost more than what is done here. Where
    /// the walk goes on.
    // Apart, so that a walk's steps down need none of the registers of this.
    #[inline(never)]
    pub(crate) fn copy(
        &mut self,
        visit: &Visit,
        end: u64,
        each: &mut impl FnMut(PhysAddr, Descriptor, LeafSize, usize),
    ) -> u64 {
        let (platform, level, shift) = (self.here.platform, visit.level, Geometry::<G>::shift(visit.level));
        let bytes = visit.end - visit.start;
        let last = self.here.geometry.table_end(level, visit.start).min((end + bytes - 1) & !(bytes - 1));
        let writer = self.here.writer();
        let (mut at, mut slot, mut leaf) = (visit.start, visit.slot, visit.descriptor);
        let mut into: Option<Slot> = None;
        loop {
            let mut count = 1;
            if leaf.is_valid() {
                let (there, reserve, nothing) = (self.there, &mut *self.reserve, &mut self.nothing);
                let into = *into.get_or_insert_with(|| there.slot_for(level, at, reserve, nothing));
                let left = ((last - at) >> shift) as usize;
                let place = Place { level, at, slot, into, leaf, left };
                count = self.copy_many(&writer, &place, each);
                if count == 0 {
                    count = self.copy_some(&writer, &place, each);
                }
            }
            at += (count as u64) << shift;
            if at >= last {
                break;
            }
            (slot, into) = (slot.after(count), into.map(|slot| slot.after(count)));
            leaf = platform.load(slot);
            if leaf.is_table(level) {
                break;
            }
        }
        at
    }

    /// Copies the leaves from a place on that lead on from each other, if those are many. How many.
    #[inline(always)]
    fn copy_many(
        &mut self,
        writer: &Writer<'_, P>,
        place: &Place,
        each: &mut impl FnMut(PhysAddr, Descriptor, LeafSize, usize),
    ) -> usize {
        let Place { level, slot, into, leaf, left, .. } = *place;
        if !slot.is_even() || writer.exchanges() {
            return 0;
        }
        let (shift, there) = (Geometry::<G>::shift(level), self.edit.apply(leaf));
        let here = if self.is_to_break(leaf, there) { Descriptor::INVALID } else { there };
        let (places, copied) = ((slot, into), Copied { leaf, here, there });
        let count = match level {
            // A constant, by which a page takes half the instructions.
            Level::L3 => copy_leading(writer, places, copied, (G::SIZE_BYTES, left)),
            _ => copy_leading(writer, places, copied, (1 << shift, left)),
        };
        if count > 0 {
            each(self.here.geometry.layout().output(there, shift), there, LeafSize::single(level), count);
            self.note(writer, place, here, count);
        }
        count
    }

    /// Copies the leaf at a place, and those behind it that change as it does, up to where many are looked at again. How many.
    #[inline(never)]
    fn copy_some(
        &mut self,
        writer: &Writer<'_, P>,
        place: &Place,
        each: &mut impl FnMut(PhysAddr, Descriptor, LeafSize, usize),
    ) -> usize {
        let Place { level, mut slot, mut into, leaf: first, left, .. } = *place;
        let (shift, size, layout) = (Geometry::<G>::shift(level), LeafSize::single(level), self.here.geometry.layout());
        let (edit, platform) = (self.edit, self.here.platform);
        let run = platform.for_run();
        let stores = Writer::new(&run, self.there.regime, false);
        let there = edit.apply(first);
        let (is_kept, is_broken) = (there == first, self.is_to_break(first, there));
        if writer.exchanges() && !is_kept {
            let there = self.edit_marked(writer, place, there);
            stores.make(into, there);
            each(layout.output(there, shift), there, size, 1);
            return 1;
        }
        // What differs in no other bits may change beside it, and TLBs hold all or none.
        let telling = edit.telling::<R::Attributes>().unwrap_or(!0);
        let (mut count, mut leaf, most) = (0, first, left.min(slot.up_to(TURNS)));
        loop {
            let there = edit.apply(leaf);
            if is_broken {
                stores.make(slot, Descriptor::INVALID);
            } else if !is_kept {
                stores.make(slot, there);
            }
            stores.make(into, there);
            each(layout.output(there, shift), there, size, 1);
            (slot, into, count) = (slot.after(1), into.after(1), count + 1);
            if count == most {
                break;
            }
            leaf = run.load(slot);
            if (leaf.bits() ^ first.bits()) & telling != 0 {
                break;
            }
        }
        self.note(writer, place, if is_broken { Descriptor::INVALID } else { there }, count);
        count
    }

    /// Makes `there` of the leaf at a place, which hardware may mark meanwhile, or breaks it first. What it becomes there.
    fn edit_marked(&mut self, writer: &Writer<'_, P>, place: &Place, there: Descriptor) -> Descriptor {
        if self.is_to_break(place.leaf, there) {
            writer.replace(place.slot, place.leaf, broken);
            self.note(writer, place, Descriptor::INVALID, 1);
            return there;
        }
        let (there, is_stale) = writer.set::<R::Attributes>(place.slot, place.leaf, there, self.edit);
        if is_stale {
            self.note_stale(place, 1);
        }
        there
    }

    /// Whether a leaf is broken before it is made what it becomes.
    #[inline(always)]
    fn is_to_break(&self, leaf: Descriptor, there: Descriptor) -> bool {
        self.is_breaking && leaf.is_contiguous() && there != leaf
    }

    /// So many leaves from a place on, all like the first, have become `here`, and more like that.
    #[inline(always)]
    fn note(&mut self, writer: &Writer<'_, P>, place: &Place, here: Descriptor, count: usize) {
        if here != place.leaf && writer.is_stale::<R::Attributes>(place.leaf, here) {
            self.note_stale(place, count);
        }
        if here == Descriptor::INVALID {
            self.note_broken(Broken { slot: place.slot, copy: place.into, count });
        }
    }

    /// TLBs may hold so many leaves from a place on: of a group, by any member for the addresses of all.
    #[inline(always)]
    fn note_stale(&mut self, &Place { level, at, leaf, left, .. }: &Place, count: usize) {
        let shift = Geometry::<G>::shift(level);
        let whole = LeafSize { level, contiguous: leaf.is_contiguous() }.size_bytes(G::PAGE_SIZE) - 1;
        let end = (at + ((count as u64) << shift) + whole) & !whole;
        let (here, last) = (&mut self.here, at + ((left as u64) << shift));
        self.stale.add(level, at & !whole, end.min(last), |level, from, to| here.forget(level, from, to));
    }

    fn note_broken(&mut self, more: Broken) {
        let joins =
            |last: &&mut Broken| last.slot.after(last.count) == more.slot && last.copy.after(last.count) == more.copy;
        if let Some(last) = self.broken.latest_mut().filter(joins) {
            last.count += more.count;
        } else if self.broken.push(more).is_err() {
            self.make_again();
            self.broken = Backlog::of(more);
        }
    }

    /// Makes what is broken what its copy is, once no TLB holds what it was.
    #[inline(never)]
    fn make_again(&mut self) {
        self.forget_stale();
        // Made while a TLB could hold the group by one member, the others would differ from that.
        self.here.gather.complete(self.here.platform);
        let (edit, writer) = (self.edit, self.here.writer());
        for &Broken { slot, copy, count } in core::mem::take(&mut self.broken).iter() {
            if !writer.is_marked {
                copy_back(&writer, (slot, copy), count);
                continue;
            }
            // What hardware has marked up to the break, which the copy was not told of, is final by now.
            for number in 0..count {
                let member = self.here.platform.load(slot.after(number)).bits() | Descriptor::VALID;
                let leaf = edit.apply(Descriptor::new(member));
                writer.make(slot.after(number), leaf);
                writer.make(copy.after(number), leaf);
            }
        }
    }

    fn forget_stale(&mut self) {
        if let Some((level, from, to)) = self.stale.0.take() {
            self.here.forget(level, from, to);
        }
    }

    /// What is left is for the gather.
    pub(crate) fn finish(mut self) {
        if !self.broken.is_empty() {
            self.make_again();
        }
        self.forget_stale();
        // Until walkers see what was made again, which the gather sees to, an access faults, and its fault waits for the editor.
        self.here.note_store();
    }
}

impl<G: Granule, R: Regime, P: Platform> PageTable<'_, G, R, P> {
    /// The slot of `level` on the way to `at`, in a table that is made if it is not there.
    fn slot_for(&self, level: Level, at: u64, reserve: &mut Reserve, gather: &mut Gather<G, R>) -> Slot {
        let nothing = Pieces { from: 0, to: 0, inside: None, outside: None };
        let mut end = self.find_end(at, at + 1);
        for _ in self.geometry.start().number()..level.number() {
            if end.level >= level {
                break;
            }
            Editor::new(Terms { table: self, licence: None }, reserve, gather).link(&end, &nothing);
            end = self.find_end(at, at + 1);
        }
        // An empty table may be in the slot.
        if end.level == level { end.slot } else { self.table_at(level, at).slot::<G>(at) }
    }
}

/// A leaf that no walker finds, and that keeps all but bit 0: what hardware has marked is read of it.
const fn broken(leaf: Descriptor) -> Descriptor {
    Descriptor::new(leaf.bits() & !Descriptor::VALID)
}

/// What is to be forgotten next: leaves of one size, side by side.
#[derive(Default)]
struct Stale(Option<(Level, u64, u64)>);

impl Stale {
    /// A leaf joins; what it does not stand beside is forgotten by itself.
    #[inline(always)]
    fn add(&mut self, level: Level, start: u64, end: u64, forget: impl FnOnce(Level, u64, u64)) {
        match &mut self.0 {
            Some((its, from, to)) if (*from..=*to).contains(&start) && *its == level => *to = end,
            range => {
                if let Some((level, from, to)) = range.replace((level, start, end)) {
                    forget(level, from, to);
                }
            }
        }
    }
}
