//! The way from a root, or a kept table, down to the tables of the last level. A question about a few pages takes the same steps as the one
//! before it, and most stores are to the last level: so these steps are kept, in their order, until a word on the way
//! changes, or what stage 2 says of where a table is. The last level is read anew by every question.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;

use super::entry::SpaceId;
use super::index::Place;
use super::may::{May, Space};
use super::question::{Only, Question, Through};
use super::reach::{Found, Route, Sink, Start, Step, Taken};
use crate::context::Tag;

/// The last level, where no path goes.
const LAST: i8 = 3;

/// Steps to the tables of the last level for one slot of the level above.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Path {
    space: SpaceId,
    /// First and last input address.
    first: u64,
    last: u64,
    /// Where walks begin.
    start: Start,
    wants_faults: bool,
    /// What is found, and below which tables it goes on.
    steps: Vec<Kept>,
    /// Intermediate pages that stage 2 was asked about.
    pages: Vec<u64>,
}

/// What tells one path from another: page table, start, first address, whether faults are wanted.
type Key = (SpaceId, Start, u64, bool);

impl Path {
    const fn key(&self) -> Key {
        (self.space, self.start, self.first, self.wants_faults)
    }
}

/// See [`Taken`].
#[derive(PartialEq, Eq, Debug)]
struct Kept {
    step: Step,
    level: i8,
    word: u64,
    is_inside: bool,
    route: Route,
}

/// As many as there are bits that say which are known.
const MOST: usize = 64;

/// Paths that are known, each in the one place that it may have. A clone knows none, so that snapshots stay small.
#[derive(Debug, Default)]
pub(crate) struct Paths(RefCell<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Bit n: `paths[n]` is something.
    known: u64,
    paths: Vec<Option<Arc<Path>>>,
}

impl Clone for Paths {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Paths {
    fn place(key: &Key) -> usize {
        let (space, start, first, wants_faults) = *key;
        let small = u64::from(space) << 5 | (start.level as u64 & 7) << 1 | u64::from(wants_faults);
        let mixed = (first ^ start.table.rotate_left(20) ^ small).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 58) as usize
    }

    fn get(&self, key: &Key) -> Option<Arc<Path>> {
        let known = self.0.borrow();
        let path = known.paths.get(Self::place(key))?.as_ref()?;
        (path.key() == *key).then(|| path.clone())
    }

    fn learn(&self, path: &Arc<Path>) {
        let mut known = self.0.borrow_mut();
        if known.paths.is_empty() {
            known.paths.resize(MOST, None);
        }
        let at = Self::place(&path.key());
        known.known |= 1 << at;
        known.paths[at] = Some(path.clone());
    }

    fn forget(&mut self, is_over: impl Fn(&Path) -> bool) {
        let Known { known, paths } = self.0.get_mut();
        let mut left = *known;
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            left &= left - 1;
            if paths[at].as_deref().is_some_and(&is_over) {
                paths[at] = None;
                *known &= !(1 << at);
            }
        }
    }

    /// Something on the way to input addresses `first..=last` of `space` changed.
    pub(super) fn forget_way(&mut self, space: SpaceId, first: u64, last: u64) {
        self.forget(|path| path.space == space && path.first <= last && path.last >= first);
    }

    /// Stage 2 may answer differently for intermediate pages `first..=last`.
    pub(super) fn forget_beneath(&mut self, first: u64, last: u64) {
        self.forget(|path| path.pages.iter().any(|page| (first..=last).contains(page)));
    }

    /// Nothing is known any more.
    pub(super) fn forget_all(&mut self) {
        self.forget(|_| true);
    }
}

impl May {
    /// Everything that walks find which begin with `route` at the table at `start`.
    pub(super) fn reach_from(&self, space: SpaceId, start: &Start, route: &Route, question: &Question, sink: Sink<'_>) {
        let state = self.space(space);
        let shift = state.space.geometry().slot_shift(LAST - 1);
        let is_narrow = question.first >> shift == question.last >> shift;
        if !is_narrow || question.is_naive || start.level >= LAST.min(question.deepest) {
            return self.reach_table(space, start, route, question, sink);
        }
        let path = self.path((space, *start, question.first >> shift << shift, question.wants_faults));
        if question.through.is_some_and(|through| self.is_on(&path, &through)) {
            return self.reach_table(space, start, route, question, sink);
        }
        for kept in path.steps.iter().filter(|kept| kept.is_asked(question)) {
            let Kept { mut step, level, word, is_inside, route: ref way } = *kept;
            let whole = Route {
                is_current: way.is_current && route.is_current,
                is_through: route.is_through,
                walkers: way.walkers & route.walkers,
                hidden: way.hidden.clone(),
            };
            if whole.walkers == 0 {
                continue;
            }
            if let (Space::Two(_), Step::Fault(Found::Fault { intermediate, .. }, _)) = (&state.space, &mut step) {
                *intermediate = question.first;
            }
            self.reach_step(space, &Taken { step, level, word, is_inside, route: &whole }, question, sink);
        }
    }

    fn path(&self, key: Key) -> Arc<Path> {
        if let Some(known) = self.paths.get(&key) {
            debug_assert!(*known == self.find_path(key), "the path {key:x?} is true");
            return known;
        }
        let path = Arc::new(self.find_path(key));
        self.paths.learn(&path);
        path
    }

    fn find_path(&self, (space, start, first, wants_faults): Key) -> Path {
        let last = first + ((1 << self.space(space).space.geometry().slot_shift(LAST - 1)) - 1);
        let mut path = Path { space, start, first, last, wants_faults, steps: Vec::new(), pages: Vec::new() };
        let question = Question { wants_faults, ..Question::about(first, last) };
        let (step, route) = (Step::Below(start), &Route::from(!0));
        let begin = Taken { step, level: start.level, word: 0, is_inside: true, route };
        self.follow(&mut path, &question, &begin);
        path
    }

    /// Adds a step to `path`, or what it leads to.
    fn follow(&self, path: &mut Path, question: &Question, taken: &Taken<'_>) {
        let Taken { step, level, word, is_inside, route } = *taken;
        match step {
            Step::Below(start) if start.level < LAST => {
                self.note_pages(path, start.table, start.is_located, start.level);
                self.each_step(path.space, &start, route, question, &mut |taken| self.follow(path, question, taken));
            }
            Step::Below(start) => {
                self.note_pages(path, start.table, start.is_located, start.level);
                self.locate(path, question, &start, taken);
            }
            _ => path.steps.push(Kept { step, level, word, is_inside, route: route.clone() }),
        }
    }

    /// Adds a table of the last level: where it is, if it is but one page and nobody asks how stage 2 may fault instead.
    fn locate(&self, path: &mut Path, question: &Question, start: &Start, taken: &Taken<'_>) {
        let Taken { step, level, word, is_inside, route } = *taken;
        let state = self.space(path.space);
        let is_page = state.space.geometry().slots(start.level) * 8 == 0x1000;
        if state.beneath.is_none() || start.is_located || !is_page || question.wants_faults {
            return path.steps.push(Kept { step, level, word, is_inside, route: route.clone() });
        }
        self.each_way(state, start.table, route, question, &mut |table, route| {
            let step = Step::Below(Start { table, is_located: true, ..*start });
            path.steps.push(Kept { step, level, word, is_inside, route: route.clone() });
        });
    }

    /// Where the table is, and the part of it that is asked about, stage 2 says.
    fn note_pages(&self, path: &mut Path, table: u64, is_located: bool, level: i8) {
        let state = self.space(path.space);
        if state.beneath.is_none() || is_located {
            return;
        }
        let geometry = state.space.geometry();
        let pages = (geometry.slots(level) * 8).div_ceil(0x1000).max(1);
        path.pages.extend((0..pages).map(|page| (table >> 12) + page));
    }

    /// True when a walk on `path` may pass the thing.
    fn is_on(&self, path: &Path, through: &Through) -> bool {
        if let Through::Word(word, _) = through
            && self.is_above(*word, path)
        {
            return true;
        }
        let Some(beneath) = self.space(path.space).beneath else { return false };
        let tag: Tag = self.space(beneath).space.tag();
        path.pages.iter().any(|page| self.is_through_stage2(tag, through, page << 12, page << 12 | 0xfff))
    }

    /// True when `word` is a descriptor on `path`.
    fn is_above(&self, word: u64, path: &Path) -> bool {
        self.places_of(word).iter().any(|place| place.space == path.space && place.level < LAST)
    }

    /// What is, or may be seen, at `places` changed: each is on the way to the addresses of its whole set.
    pub(super) fn forget_paths_of_word(&mut self, places: &[Place]) {
        for place in places {
            if place.level < LAST {
                let geometry = self.space(place.space).space.geometry();
                let set = geometry.contiguous_log2(place.level).unwrap_or(0) + geometry.slot_shift(place.level);
                self.paths.forget_way(place.space, place.start >> set << set, place.last | ((1 << set) - 1));
            }
        }
    }
}

impl Kept {
    /// False when the question does not want to know.
    fn is_asked(&self, question: &Question) -> bool {
        if self.level > question.deepest || question.is_exact && !self.is_inside {
            return false;
        }
        match &self.step {
            Step::Table(entry) => {
                question.only != Some(Only::Leaves) && question.wants(self.level, self.word, entry.descriptor)
            }
            Step::Leaf(entry, _) => question.wants(self.level, self.word, entry.descriptor),
            Step::Fault(..) => true,
            Step::Below(start) => start.level <= question.deepest,
        }
    }
}
