//! Which words are descriptors: for each 4 KiB of memory, the tables it is part of. A hint, never the truth: whether a
//! walk still uses a word is asked of `reach`. A use is noted when a table can first be reached, by whatever CPU, and
//! forgotten when its memory is released, or is a table elsewhere and no walk comes to the old place any more; it keeps a store to
//! any other word as cheap as one look-up.

use alloc::vec::Vec;

use super::entry::SpaceId;
use super::found::Found;
use super::may::May;
use super::places::{Place, Places, Use};
use super::question::Question;
use super::space::{Kept, Space, is_flat};
use crate::context::Tag;
use crate::descriptor::{Descriptor, Hierarchy, VALID};

impl May {
    /// The 4 KiB at `page` were given away and nothing refers to them: from now on a store there is like any other.
    /// Not so if an old value of some word still leads there, whoever may see it.
    pub(crate) fn forget_table(&mut self, page: u64) {
        let leads_here = |value: u64| value & 3 == 3 && value & 0x0000_ffff_ffff_f000 == page;
        let is_held = self.visible.words().any(|(_, old)| old.iter().any(|it| leads_here(it.value)));
        self.let_go_of_empty(page);
        let is_root = self.spaces().any(|(_, it)| it.is_used() && it.space.root() & !0xfff == page);
        if !is_held && !is_root {
            for space in self.index.forget(page) {
                let state = self.space_mut(space);
                state.is_forgotten |= state.live.is_empty();
            }
        }
    }

    /// Page tables that every CPU has left, whose root is in `page` and has nothing in it: of what a CPU may have kept there is nothing
    /// left either, but what is stale and known as such.
    fn let_go_of_empty(&mut self, page: u64) {
        let is_nothing = |word: u64| {
            let old = self.visible.old(word).iter().map(|it| it.value);
            old.chain([self.memory.word(word)]).all(|value| value & 1 == 0)
        };
        let is_empty = |space: &Space| {
            let slots = space.geometry().slots(space.geometry().start_level);
            (0..slots).all(|slot| is_nothing(space.root() + slot * 8))
        };
        let left = self.spaces().filter(|(_, it)| it.live.is_empty() && it.space.root() & !0xfff == page);
        let empty: Vec<SpaceId> = left.filter(|(_, it)| is_empty(&it.space)).map(|(id, _)| id).collect();
        for id in empty {
            let state = self.space_mut(id);
            state.kept = Kept::default();
            state.hidden.clear();
        }
    }

    /// Walks may begin at the root of `space` again.
    pub(super) fn note_root(&mut self, space: SpaceId) {
        let it = &self.space(space).space;
        let (root, bytes) = (it.root(), it.geometry().root_bytes());
        if !self.freed.is_empty() {
            let parts = (root..root + bytes).step_by(0x1000);
            parts.for_each(|part| self.physical(space, part).into_iter().for_each(|place| self.freed.note(place)));
        }
    }

    /// True when nothing valid is written there.
    pub(crate) fn is_empty(&self, first: u64, last: u64) -> bool {
        (first..=last).step_by(8).all(|word| self.memory.word(word) & VALID == 0)
    }

    /// Everywhere that `word` is a descriptor.
    pub(crate) fn places_of(&self, word: u64) -> Places {
        let mut places = Places::default();
        self.effort.spend();
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
                self.effort.spend();
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
        if is_flat(&state.space) {
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
            let count = ((0x1000 - (address & 0xfff)) / 8).min(slots);
            for place in self.physical(space, address) {
                self.freed.note(place);
                let base = base + (slot << shift);
                let new = Use { space, level, table: place, slots: count as u32, base };
                if !self.index.uses(place).contains(&new) {
                    if !self.index.add(new) {
                        return self.give_up(place);
                    }
                    self.forget_left(&new);
                }
                self.index_words(space, level, place, count, base, above);
            }
            slot += count;
        }
    }

    /// A table is at `new`: where else its page was one, and no walk comes any more, it is none. What is stored there would else be taken
    /// for a descriptor of another level, and what that leads to for a table.
    fn forget_left(&mut self, new: &Use) {
        // Pages with many uses are of tables that lead to each other.
        const MANY: usize = 8;
        let uses = self.index.uses(new.table);
        if uses.len() == 1 || uses.len() > MANY {
            return;
        }
        let left: Vec<Use> = uses.iter().filter(|it| *it != new && !self.is_reached(it)).copied().collect();
        for it in left {
            self.index.forget_use(&it);
            let state = self.space_mut(it.space);
            state.is_forgotten |= state.live.is_empty();
        }
    }

    /// Whether a walk may come to the table by what is written or kept.
    fn is_reached(&self, it: &Use) -> bool {
        let state = self.space(it.space);
        let geometry = state.space.geometry();
        if it.level == geometry.start_level {
            return state.is_used();
        }
        let page = it.table & !0xfff;
        let question = Question { deepest: it.level - 1, near: Some(it.space), ..Question::about(it.base, it.base) };
        // Above a stage 2 the parts of a larger table may be anywhere, and its entry tells of the first; and a CPU that comes later may see
        // values of it that nobody sees who is there.
        let shows_old = |beneath| {
            let mut words = self.visible.words().map(|(word, _)| word);
            words.any(|word| self.places_of(word).iter().any(|place| place.space == beneath))
        };
        let mut is_met = state.beneath.is_some_and(|it| geometry.granule.shift() > 12 || shows_old(it));
        self.each_met(it.space, &question, &mut |seen| {
            if let Found::Entry { entry, .. } = &seen.found {
                let is_above = entry.is_table() && (entry.space, entry.level) == (it.space, it.level - 1);
                is_met |= is_above && entry.leads_to(page, page | 0xfff);
            }
        });
        is_met
    }

    /// Walks would have no end: from now on there are none.
    fn give_up(&mut self, table: u64) {
        self.overrun.get_or_insert(table);
        self.remembered.forget_answers();
    }

    /// Where the table at `address` may be: whoever may, or may later, see the way there.
    pub(crate) fn physical(&self, space: SpaceId, address: u64) -> Vec<u64> {
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
        self.each_ever(beneath, &question, &mut |seen| note(&seen.found));
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
        self.effort.spend();
        self.note_output(space, level, word, value, base);
        self.freed.note(word);
        if self.unset.contains_key(&word) {
            self.unset_places.insert((space, level, base, word));
        }
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
