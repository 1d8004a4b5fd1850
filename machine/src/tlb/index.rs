//! Which words are descriptors: for each 4 KiB of memory, the tables it is part of. A hint, never the truth: whether a
//! walk still uses a word is asked of `reach`. A use is noted when a table can first be reached, by whatever CPU, and
//! forgotten when its memory is released; it keeps a store to any other word as cheap as one look-up.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Deref;

use super::answers::Answers;
use super::entry::SpaceId;
use super::may::{May, Space};
use super::question::Question;
use super::reach::Found;
use crate::context::Tag;
use crate::descriptor::{Descriptor, Hierarchy};

/// A table, or 4 KiB of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Use {
    pub(crate) space: SpaceId,
    pub(crate) level: i8,
    /// Physical address of its first entry.
    table: u64,
    slots: u32,
    /// Input address of its first entry.
    base: u64,
}

/// A descriptor's place in a page table.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Place {
    pub(crate) space: SpaceId,
    pub(crate) level: i8,
    pub(crate) start: u64,
    pub(crate) last: u64,
}

/// Nearly every descriptor has no more places than this, and needs no allocation.
const FEW: usize = 2;

/// All places of a descriptor.
#[derive(Default, Debug)]
pub(crate) struct Places {
    count: usize,
    few: [Place; FEW],
    /// All of them, once they are more.
    many: Vec<Place>,
}

impl Places {
    fn push(&mut self, place: Place) {
        if self.count < FEW {
            self.few[self.count] = place;
        } else {
            if self.many.is_empty() {
                self.many.extend_from_slice(&self.few);
            }
            self.many.push(place);
        }
        self.count += 1;
    }
}

impl Deref for Places {
    type Target = [Place];

    fn deref(&self) -> &[Place] {
        if self.count <= FEW { &self.few[..self.count] } else { &self.many }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    pages: BTreeMap<u64, Vec<Use>>,
    /// How many uses there are in each page table.
    counts: BTreeMap<SpaceId, usize>,
}

/// A page table may use tables at this many places more than sixteen times the pages that hold tables. A recursive slot
/// needs one more place for each level. One that leads to itself by many of its slots would have a place for each way
/// round: a walk of it would not end in anybody's lifetime.
const MOST_PLACES: usize = 1024;
const PLACES_PER_PAGE: usize = 16;

impl Index {
    /// False when that is one use too many.
    #[must_use]
    fn add(&mut self, table: Use) -> bool {
        let most = MOST_PLACES + PLACES_PER_PAGE * self.pages.len();
        let uses = self.pages.entry(table.table >> 12).or_default();
        if uses.contains(&table) {
            return true;
        }
        let count = self.counts.entry(table.space).or_default();
        *count += 1;
        uses.push(table);
        *count <= most
    }

    /// The 4 KiB at `page` are no table any more.
    fn forget(&mut self, page: u64) {
        for table in self.pages.remove(&(page >> 12)).into_iter().flatten() {
            self.counts.entry(table.space).and_modify(|count| *count -= 1);
        }
    }

    /// How many uses there are.
    pub(crate) fn places(&self) -> usize {
        self.counts.values().sum()
    }

    /// True when `word` is no descriptor.
    pub(crate) fn is_plain(&self, word: u64) -> bool {
        !self.pages.contains_key(&(word >> 12))
    }

    pub(crate) fn uses(&self, word: u64) -> &[Use] {
        self.pages.get(&(word >> 12)).map_or(&[], |uses| uses)
    }
}

impl Use {
    const fn covers(&self, word: u64) -> bool {
        word >= self.table && word < self.table + self.slots as u64 * 8
    }
}

impl May {
    /// The 4 KiB at `page` were given away and nothing refers to them: from now on a store there is like any other.
    /// Not so if an old value of some word still leads there, whoever may see it.
    pub(crate) fn forget_table(&mut self, page: u64) {
        let leads_here = |value: u64| value & 3 == 3 && value & 0x0000_ffff_ffff_f000 == page;
        let is_held = self.visible.words().any(|(_, old)| old.iter().any(|it| leads_here(it.value)));
        let is_root = self.spaces().any(|(_, it)| it.is_used() && it.space.root() & !0xfff == page);
        if !is_held && !is_root {
            self.index.forget(page);
            self.paths.forget_all();
        }
    }

    /// Everywhere that `word` is a descriptor.
    pub(crate) fn places_of(&self, word: u64) -> Places {
        let mut places = Places::default();
        for it in self.index.uses(word).iter().filter(|it| it.covers(word)) {
            let shift = self.space(it.space).space.geometry().slot_shift(it.level);
            let start = it.base + (((word - it.table) / 8) << shift);
            places.push(Place { space: it.space, level: it.level, start, last: start + ((1 << shift) - 1) });
        }
        places
    }

    /// False when `word` says nothing of input addresses `first..=last` in any page table of `tag`.
    pub(crate) fn may_decide(&self, word: u64, tag: Tag, first: u64, last: u64) -> bool {
        self.index.uses(word).iter().filter(|it| it.covers(word)).any(|it| {
            let space = &self.space(it.space).space;
            let shift = space.geometry().slot_shift(it.level);
            // Each member of a contiguous set may answer for every other.
            let set = shift + space.geometry().contiguous_log2(it.level).unwrap_or(0);
            let start = (it.base + (((word - it.table) / 8) << shift)) >> set << set;
            space.tag() == tag && start <= last && start + ((1 << set) - 1) >= first
        })
    }

    /// Every word that is a descriptor and says something, at each of its places: page table, level, first input address.
    pub(crate) fn descriptors(&self) -> Vec<(SpaceId, i8, u64, u64)> {
        let mut found = Vec::new();
        for it in self.index.pages.values().flatten() {
            let shift = self.space(it.space).space.geometry().slot_shift(it.level);
            let end = it.table + u64::from(it.slots) * 8;
            let mut word = it.table;
            while let Some(next) = self.next_odd(word, end) {
                found.push((it.space, it.level, next, it.base + (((next - it.table) / 8) << shift)));
                word = next + 8;
            }
        }
        found
    }

    /// The first word from `word` to before `end`, both of one page, that is, or for some walker was, odd.
    fn next_odd(&self, word: u64, end: u64) -> Option<u64> {
        if word >= end {
            return None;
        }
        let number = (word as usize & 0xfff) / 8;
        let odd = self.memory.page(word).and_then(|page| page.next_odd(number));
        let odd = odd.map(|odd| word + (odd - number) as u64 * 8);
        let old = self.visible.next_in(word, end - 8);
        odd.into_iter().chain(old).min().filter(|next| *next < end)
    }

    /// True when 4 KiB of memory at `page` are, as far as is known, part of a table.
    pub(crate) fn table_spaces(&self, page: u64) -> Vec<(SpaceId, u64, i8)> {
        self.index.uses(page).iter().map(|it| (it.space, it.base, it.level)).collect()
    }

    /// Notes every table that walks of `space` from its root may use.
    pub(crate) fn index_space(&mut self, space: SpaceId) {
        let state = self.space(space);
        if super::reach::is_flat(&state.space) {
            return;
        }
        let (level, base) = (state.space.geometry().start_level, state.space.bounds().0);
        let root = state.space.root();
        self.index_table(space, level, root, base, Hierarchy::default());
    }

    /// Notes the table of `level` at `table` for input addresses from `base`, and every table below it.
    pub(crate) fn index_table(&mut self, space: SpaceId, level: i8, table: u64, base: u64, above: Hierarchy) {
        let state = self.space(space);
        let geometry = *state.space.geometry();
        let shift = geometry.slot_shift(level);
        let (mut slot, slots) = (0, geometry.slots(level));
        if self.overrun.is_some() {
            return;
        }
        if state.beneath.is_some() {
            self.space_mut(space).tables.insert(table >> 12);
        }
        while slot < slots {
            let address = table + slot * 8;
            let count = ((0x1000 - (address & 0xfff)) / 8).min(slots - slot);
            for place in self.physical(space, address) {
                let base = base + (slot << shift);
                if !self.index.add(Use { space, level, table: place, slots: count as u32, base }) {
                    return self.give_up(place);
                }
                self.index_words(space, level, place, count, base, above);
            }
            slot += count;
        }
    }

    /// Walks would have no end: from now on there are none.
    fn give_up(&mut self, table: u64) {
        self.overrun.get_or_insert(table);
        self.answers = Answers::default();
        self.paths.forget_all();
    }

    /// Where the table at `address` may be: whoever may, or may later, see the way there.
    fn physical(&self, space: SpaceId, address: u64) -> Vec<u64> {
        let Some(beneath) = self.space(space).beneath else { return alloc::vec![address] };
        let question = Question::about(address, address);
        let mut places = Vec::new();
        let mut note = |found: &Found| {
            if let Found::Entry { entry, .. } = found
                && !entry.is_table()
                && !places.contains(&entry.output_at(address))
            {
                places.push(entry.output_at(address));
            }
        };
        self.reach_root(beneath, !0, &question, &mut |seen| note(&seen.found));
        let tag = self.space(beneath).space.tag();
        for (entry, _) in self.stale.overlapping(tag, address, address) {
            note(&Found::Entry { entry: *entry, is_untranslated: false });
            self.reach_kept(entry, !0, &question, &mut |seen| note(&seen.found));
        }
        places
    }

    fn index_words(&mut self, space: SpaceId, level: i8, table: u64, count: u64, base: u64, above: Hierarchy) {
        let last = table + count * 8 - 1;
        let shift = self.space(space).space.geometry().slot_shift(level);
        let mut next = table;
        while let Some(word) = self.next_odd(next, last + 1) {
            let base = base + (((word - table) / 8) << shift);
            self.index_value((space, level, word), self.memory.word(word), base, above);
            for at in 0..self.visible.old(word).len() {
                self.index_value((space, level, word), self.visible.old(word)[at].value, base, above);
            }
            next = word + 8;
        }
    }

    /// `value` at this word may now be walked as a descriptor of this level for input addresses from `base`.
    pub(crate) fn index_value(&mut self, at: (SpaceId, i8, u64), value: u64, base: u64, above: Hierarchy) {
        let (space, level, word) = at;
        self.note_output(space, level, word, value, base);
        let format = self.space(space).space.format();
        match format.decode(level, value, above) {
            Descriptor::Table { next, hierarchy } => self.index_table(space, level + 1, next, base, hierarchy),
            Descriptor::Leaf { attributes, .. } if attributes.is_global => self.note_global(space),
            _ => {}
        }
    }

    fn note_global(&mut self, space: SpaceId) {
        let state = self.space_mut(space);
        state.has_global |= !matches!(state.space, Space::Two(_));
    }
}
