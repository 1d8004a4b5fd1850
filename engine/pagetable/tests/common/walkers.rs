//! What TLBs may hold: walkers that cache whatever they can read as soon as they can, and forget only what TLBIs reach.
//!
//! They are fed with the steps of a [`Memory`]. A store is visible at once, and what was there before stays readable until a
//! DSB; a TLBI takes what cannot be read again, and is complete at the next DSB ISH. The test fails at a leaf that must not
//! stand beside what TLBs hold, at a store into an unlinked table that a walk may still reach, and at whatever is held that
//! is not in the tables when a gather is finished ([`Walkers::check`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use vellum_pagetable::{HardwareUpdates, Memory, PageTable, Slot, Step};
use vellum_vmsa::maintenance::{Barrier, BarrierAccess};
use vellum_vmsa::{Descriptor, Granule, Level, Maintenance, Meaning, PhysAddr};

use super::tlbi::{Reach, Shape, Tag, Watched};

/// What may stand beside what in TLBs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Beside {
    /// What differs in bits that may change in place.
    InPlace,
    /// And in the Contiguous bit.
    Groups,
    /// And in size.
    Sizes,
    /// And what differs in the Contiguous bit alone for good: at level 3 of FEAT_BBM no TLBI need part them.
    Anything,
}

const ACCESS_FLAG: u64 = 1 << 10;
const DBM: u64 = 1 << 51;
/// Bit 7: of stage 1 it forbids writing, of stage 2 it permits it.
const WRITE: u64 = 1 << 7;
/// Bits that hardware writes.
const MARKS: u64 = ACCESS_FLAG | WRITE;
/// Bits of a descriptor that are software's own.
const IGNORED: u64 = 0b1111 << 55;

/// An entry of a TLB or walk cache.
#[derive(Clone, Copy, Debug)]
struct Held {
    slot: Slot,
    descriptor: Descriptor,
    /// Made of both stages.
    is_combined: bool,
    /// A TLBI that is not complete has reached it.
    is_going: bool,
    /// TLBIs that have reached it and are complete.
    rounds: u8,
}

/// A level and an offset.
type Place = (i8, u64);

pub(crate) struct Walkers {
    shape: Shape,
    tag: Tag,
    hardware: HardwareUpdates,
    /// How often a TLBI must reach an entry.
    rounds: u8,
    beside: Beside,
    root: (PhysAddr, u64),
    /// What each slot holds.
    words: HashMap<Slot, Descriptor>,
    /// What some may be read as beside.
    older: BTreeMap<Slot, Vec<Descriptor>>,
    held: BTreeMap<Place, Vec<Held>>,
    /// By which entries a walk comes to a table.
    ways: HashMap<PhysAddr, Vec<(Place, Slot, Descriptor)>>,
    going: BTreeSet<Place>,
}

impl Walkers {
    /// Walkers of a live page table that begin with all that it holds.
    pub(crate) fn of<G: Granule, R: Watched>(
        table: &PageTable<'_, G, R, Memory>,
        memory: &Memory,
        beside: Beside,
    ) -> Self {
        let (geometry, regime) = (table.geometry(), table.regime());
        let mut walkers = Self {
            shape: Shape::of(geometry),
            tag: regime.tag(),
            hardware: regime.hardware_updates(),
            rounds: if regime.must_repeat() { 2 } else { 1 },
            beside,
            root: (table.root(), geometry.root_bytes()),
            words: memory.descriptors().into_iter().collect(),
            older: BTreeMap::new(),
            held: BTreeMap::new(),
            ways: HashMap::new(),
            going: BTreeSet::new(),
        };
        walkers.read_table(table.root(), geometry.root_entries(), (geometry.start().number(), 0));
        walkers
    }

    /// Lets steps happen.
    pub(crate) fn follow(&mut self, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Store(slot, new) => self.store(slot, new),
                Step::Exchange { slot, expected, new, .. } if self.newest(slot) == expected => self.store(slot, new),
                Step::Exchange { .. } | Step::Load(..) => {}
                Step::Maintain(Maintenance::Invalidate(op, operand)) => {
                    self.invalidate(&Reach::of(&self.shape, self.tag, op, operand));
                }
                Step::Maintain(Maintenance::Barrier(Barrier::Dsb(_, access))) => {
                    self.order();
                    if access == BarrierAccess::All {
                        self.complete();
                    }
                }
                Step::Maintain(Maintenance::Barrier(_)) => {}
            }
        }
    }

    /// A gather is finished: TLBs hold nothing but what the tables do, and the tables are visible.
    pub(crate) fn check(&self) {
        for (place, all) in &self.held {
            for held in all {
                let allowed = IGNORED | if self.beside == Beside::Anything { Descriptor::CONTIGUOUS } else { 0 };
                let allowed = allowed | self.mark_of(held.descriptor);
                let stale = (self.newest(held.slot).bits() ^ held.descriptor.bits()) & !allowed;
                let is_now = stale == 0 && self.is_linked(held.slot);
                assert!(is_now, "a TLB still holds {held:x?} of level and offset {place:x?}");
                assert!(!self.older.contains_key(&held.slot), "{held:x?} of {place:x?} may not be visible yet");
            }
        }
        assert!(self.older.keys().all(|slot| self.places(*slot).is_empty()), "a store may not be visible yet");
    }

    /// The bit by which hardware may have marked a leaf as written that TLBs hold as clean, and may go on to hold so.
    fn mark_of(&self, held: Descriptor) -> u64 {
        let is_clean = (held.bits() & WRITE == 0) == (self.tag == Tag::Stage2);
        if self.hardware == HardwareUpdates::DirtyState && held.bits() & DBM != 0 && is_clean { WRITE } else { 0 }
    }

    fn newest(&self, slot: Slot) -> Descriptor {
        *self.words.get(&slot).expect("a walker reads what was never written")
    }

    fn store(&mut self, slot: Slot, new: Descriptor) {
        let places = self.places(slot);
        assert!(
            places.is_empty() || self.is_linked(slot),
            "{slot:?} is written, to which a walk may come by an unlinked table: {new:?}"
        );
        let old = self.words.insert(slot, new);
        // What hardware itself writes, which the engine would exchange, is visible at once.
        let has_marks = self.hardware != HardwareUpdates::None;
        let is_mark = |old: &Descriptor| has_marks && old.is_valid() && (old.bits() ^ new.bits()) & !MARKS == 0;
        if let Some(old) = old.filter(|old| !is_mark(old)) {
            self.older.entry(slot).or_default().push(old);
        }
        places.into_iter().for_each(|place| self.read(place, slot, new));
    }

    /// Where walks come to a slot.
    fn places(&self, slot: Slot) -> Vec<Place> {
        let (table, index) = self.table_of(slot);
        if self.is_root(slot) {
            return vec![(self.shape.start, index * self.shape.span(self.shape.start))];
        }
        let ways = self.ways.get(&table).into_iter().flatten();
        let below =
            |&((level, start), ..): &(Place, Slot, Descriptor)| (level + 1, start + index * self.shape.span(level + 1));
        ways.map(below).collect()
    }

    fn is_root(&self, slot: Slot) -> bool {
        slot.address().bits().wrapping_sub(self.root.0.bits()) < self.root.1
    }

    fn table_of(&self, slot: Slot) -> (PhysAddr, u64) {
        let address = slot.address();
        let table = if self.is_root(slot) { self.root.0 } else { address.align_down(self.shape.size.size_bytes()) };
        (table, (address.bits() - table.bits()) / 8)
    }

    /// Whether the tables as they are now lead to a slot.
    fn is_linked(&self, slot: Slot) -> bool {
        let is_way = |(_, above, descriptor): &(Place, Slot, Descriptor)| {
            self.newest(*above) == *descriptor && self.is_linked(*above)
        };
        self.is_root(slot) || self.ways.get(&self.table_of(slot).0).is_some_and(|ways| ways.iter().any(is_way))
    }

    fn meaning(&self, level: i8, descriptor: Descriptor) -> Meaning {
        descriptor.meaning(self.shape.size, self.shape.layout, Level::new(level).unwrap())
    }

    /// A walker reads a descriptor, and keeps it if it may.
    fn read(&mut self, place: Place, slot: Slot, descriptor: Descriptor) {
        let new = Held { slot, descriptor, is_combined: false, is_going: false, rounds: 0 };
        match self.meaning(place.0, descriptor) {
            Meaning::Table(next) => {
                self.assert_table_fits(place, &new);
                if self.keep(place, new) {
                    self.ways.entry(next).or_default().push((place, slot, descriptor));
                    let (level, start) = (place.0 + 1, place.1);
                    self.read_table(next, self.shape.size.entries(), (level, start));
                }
            }
            Meaning::Leaf(..) if Self::is_cached(place.0, descriptor) => {
                self.assert_leaf_fits(place, &new);
                self.keep(place, new);
                if self.tag == Tag::Stage2 {
                    self.keep(place, Held { is_combined: true, ..new });
                }
            }
            _ => {}
        }
    }

    /// Not without the access flag, which hardware sets first if it does; and not a block with nT.
    const fn is_cached(level: i8, descriptor: Descriptor) -> bool {
        descriptor.bits() & ACCESS_FLAG != 0 && (level == 3 || descriptor.bits() & Descriptor::NT == 0)
    }

    fn read_table(&mut self, table: PhysAddr, entries: usize, (level, start): Place) {
        for index in 0..entries {
            let slot = Slot::new(table, index);
            let place = (level, start + index as u64 * self.shape.span(level));
            let older =
                if self.older.is_empty() { Vec::new() } else { self.older.get(&slot).cloned().unwrap_or_default() };
            let words = [self.newest(slot)].into_iter().chain(older);
            words.filter(|word| word.is_valid()).for_each(|word| self.read(place, slot, word));
        }
    }

    /// Whether it was not held.
    fn keep(&mut self, place: Place, new: Held) -> bool {
        let all = self.held.entry(place).or_default();
        let same = |old: &&mut Held| {
            (old.slot, old.descriptor, old.is_combined) == (new.slot, new.descriptor, new.is_combined)
        };
        match all.iter_mut().find(same) {
            Some(old) => {
                let was_going = old.is_going;
                (old.is_going, old.rounds) = (false, 0);
                was_going
            }
            None => {
                all.push(new);
                true
            }
        }
    }

    fn at(&self, place: Place) -> impl Iterator<Item = &Held> {
        self.held.get(&place).into_iter().flatten().filter(|held| !held.is_combined)
    }

    /// No other table was there, and no leaf that it must not stand beside.
    fn assert_table_fits(&self, place: Place, new: &Held) {
        for old in self.at(place) {
            let is_same = match (self.meaning(place.0, old.descriptor), self.meaning(place.0, new.descriptor)) {
                (Meaning::Table(old), Meaning::Table(new)) => old == new,
                _ => self.beside >= Beside::Sizes,
            };
            assert!(is_same, "{new:x?} of {place:x?} while TLBs hold {old:x?}");
        }
    }

    fn assert_leaf_fits(&self, (level, start): Place, new: &Held) {
        let span = self.shape.span(level);
        let around = (self.shape.start..=level).map(|above| ((above, start & !(self.shape.span(above) - 1)), above));
        for (place, above) in around {
            self.at(place).for_each(|old| self.assert_beside((level, start), new, (above, place.1), old));
        }
        for below in level + 1..=3 {
            for (place, all) in self.held.range((below, start)..(below, start + span)) {
                all.iter().filter(|old| !old.is_combined).for_each(|old| {
                    self.assert_beside((level, start), new, *place, old);
                });
            }
        }
    }

    fn assert_beside(&self, place: Place, new: &Held, other: Place, old: &Held) {
        let Meaning::Leaf(to, group) = self.meaning(place.0, new.descriptor) else { return };
        let (from, of_group) = match self.meaning(other.0, old.descriptor) {
            Meaning::Leaf(from, group) => (from, group),
            // The way to the leaf, or what was there before it.
            _ => return assert!(place != other || self.beside >= Beside::Sizes, "{new:x?} beside {old:x?}"),
        };
        let size = self.shape.size;
        let attributes = self.shape.layout.attribute_mask(size, Level::L3) & !self.tag.in_place();
        let least = match (place.0 == other.0, group == of_group) {
            (true, true) => Beside::InPlace,
            (true, false) => Beside::Groups,
            _ => Beside::Sizes,
        };
        let is_fit = least <= self.beside
            && to.bits().wrapping_sub(place.1) == from.bits().wrapping_sub(other.1)
            && (new.descriptor.bits() ^ old.descriptor.bits()) & attributes == 0;
        assert!(is_fit, "{new:x?} of {place:x?} while TLBs hold {old:x?} of {other:x?}");
    }

    fn invalidate(&mut self, reach: &Reach) {
        for level in self.shape.start..=3 {
            let first = reach.first & !(self.shape.span(level) - 1);
            let places: Vec<Place> =
                self.held.range((level, first)..=(level, reach.last)).map(|(place, _)| *place).collect();
            for place in places {
                // What is combined goes if what it was made of has gone.
                for is_combined in [false, true] {
                    self.reach(place, reach, is_combined);
                }
            }
        }
    }

    fn reach(&mut self, place: Place, reach: &Reach, is_combined: bool) {
        for index in 0..self.held[&place].len() {
            let held = self.held[&place][index];
            let is_table = matches!(self.meaning(place.0, held.descriptor), Meaning::Table(_));
            let is_reached = if is_table { reach.has_tables } else { reach.level.is_none_or(|level| level == place.0) }
                && if is_combined { reach.is_combined } else { reach.is_own };
            if held.is_combined == is_combined && is_reached && !self.is_readable(place, &held, reach) {
                self.going.insert(place);
                self.held.get_mut(&place).unwrap()[index].is_going = true;
            }
        }
    }

    /// Whether a walker may make the same entry again. What both stages make is made of what stage 2 says, until the TLBI of
    /// that is complete, or while it is the same TLBI.
    fn is_readable(&self, place: Place, held: &Held, reach: &Reach) -> bool {
        if held.is_combined {
            let stays = |own: &Held| !reach.is_own || !own.is_going;
            let mut sources = self.at(place).filter(|own| (own.slot, own.descriptor) == (held.slot, held.descriptor));
            return sources.any(stays);
        }
        let stays = |(above, slot, descriptor): &(Place, Slot, Descriptor)| {
            self.at(*above).any(|way| (way.slot, way.descriptor) == (*slot, *descriptor) && !way.is_going)
        };
        let ways = self.ways.get(&self.table_of(held.slot).0);
        (self.newest(held.slot) == held.descriptor
            || self.older.get(&held.slot).is_some_and(|older| older.contains(&held.descriptor)))
            && (self.is_root(held.slot) || ways.is_some_and(|ways| ways.iter().any(stays)))
    }

    /// Stores become visible to every walker.
    fn order(&mut self) {
        self.older.clear();
    }

    /// TLBIs are complete on every CPU.
    fn complete(&mut self) {
        for place in std::mem::take(&mut self.going) {
            let all = self.held.get_mut(&place).unwrap();
            let rounds = self.rounds;
            all.iter_mut().filter(|held| held.is_going).for_each(|held| {
                held.rounds += 1;
                held.is_going = false;
            });
            let gone: Vec<Held> = all.extract_if(.., |held| held.rounds >= rounds).collect();
            if all.is_empty() {
                self.held.remove(&place);
            }
            for held in gone {
                if let Meaning::Table(next) = self.meaning(place.0, held.descriptor) {
                    let ways = self.ways.get_mut(&next).unwrap();
                    ways.retain(|(at, slot, descriptor)| {
                        (*at, *slot, *descriptor) != (place, held.slot, held.descriptor)
                    });
                }
            }
        }
    }
}
