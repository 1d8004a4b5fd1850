//! A table in pieces: 4 KiB lie together in memory, and beneath a stage 2 each 4 KiB may be at more than one place. Most
//! words of most tables are invalid; they are skipped, for this is where the time of a question goes.

use super::entry::SpaceId;
use super::found::{Route, Sink, Start};
use super::may::May;
use super::question::Question;
use super::reach::Slot;
use super::space::SpaceState;
use crate::descriptor::{CONTIGUOUS, VALID};
use crate::memory::Page;

/// Neighbouring slots of a table, in 4 KiB.
struct Piece<'a> {
    space: SpaceId,
    state: &'a SpaceState,
    start: &'a Start,
    /// Index of the first slot, and how many there are.
    index: u64,
    count: u64,
    /// Indices of the slots that the question is about; the others are of their contiguous sets.
    inside: (u64, u64),
}

/// A run of its slots that are all asked about, or none of them.
#[derive(Clone, Copy)]
struct Part<'a> {
    piece: &'a Piece<'a>,
    /// Where the piece is.
    address: u64,
    words: Option<&'a Page>,
    word: u64,
    end: u64,
    is_inside: bool,
}

impl Part<'_> {
    /// The first word from `word` on that may say something here: of those not asked about, only members of sets.
    fn next_valid(&self, word: u64) -> u64 {
        let next = self.words.and_then(|words| match self.is_inside {
            true => words.next_odd(number(word)),
            false => words.next_contiguous(number(word)),
        });
        next.map_or(self.end, |next| word + (next - number(word)) as u64 * 8)
    }
}

const fn number(word: u64) -> usize {
    (word as usize & 0xfff) / 8
}

impl May {
    /// Everything that walks find which go on at the table at `start`.
    pub(super) fn reach_table(
        &self,
        space: SpaceId,
        start: &Start,
        route: &Route,
        question: &Question,
        sink: Sink<'_>,
    ) {
        let state = self.space(space);
        let geometry = state.space.geometry();
        let shift = geometry.slot_shift(start.level);
        let slots = geometry.slots(start.level);
        let end = start.base + ((slots << shift) - 1);
        if question.first > end || question.last < start.base || self.overrun.is_some() {
            return;
        }
        let first = (question.first.max(start.base) - start.base) >> shift;
        let last = (question.last.min(end) - start.base) >> shift;
        // A member of a contiguous set may translate for every other member.
        let group = if question.is_exact { 0 } else { geometry.contiguous_log2(start.level).unwrap_or(0) };
        let to = (last >> group << group | ((1 << group) - 1)).min(slots - 1);
        let mut index = first >> group << group;
        while index <= to {
            let address = start.table + index * 8;
            let count = ((0x1000 - (address & 0xfff)) / 8).min(to - index + 1);
            let piece = Piece { space, state, start, index, count, inside: (first, last) };
            if state.beneath.is_none() || start.is_located {
                self.step_in_piece(&piece, address, route, question, sink);
            } else {
                self.step_in_piece_beneath(&piece, address, route, question, sink);
            }
            index += count;
        }
    }

    /// The piece at each place that stage 2 has for it; where it has none, a walk faults.
    fn step_in_piece_beneath(
        &self,
        piece: &Piece<'_>,
        address: u64,
        route: &Route,
        question: &Question,
        sink: Sink<'_>,
    ) {
        self.each_way(piece.state, address, route, question, &mut |place, route| {
            self.step_in_piece(piece, place, route, question, sink);
        });
        // The descriptor of the address itself is what a fault is about, not the others of its contiguous set.
        let wanted = piece.inside.0;
        if question.wants_faults && wanted >= piece.index && wanted < piece.index + piece.count {
            self.faults_beneath(piece.state, piece.start.table + wanted * 8, true, route, sink);
        }
    }

    fn step_in_piece(&self, piece: &Piece<'_>, address: u64, route: &Route, question: &Question, sink: Sink<'_>) {
        let words = self.memory.page(address);
        let border = |index: u64| address + (index.clamp(piece.index, piece.index + piece.count) - piece.index) * 8;
        let (first, end) = (border(piece.inside.0), border(piece.inside.1.saturating_add(1)));
        let last = border(piece.index + piece.count);
        let part = Part { piece, address, words, word: first, end, is_inside: true };
        // Most sets are none.
        let has_others = last - address > end - first
            && (words.is_some_and(Page::has_contiguous) || self.visible.next_in(address, last - 8).is_some());
        if !has_others {
            return self.step_in_part(&part, route, question, sink);
        }
        self.step_in_part(&Part { word: address, end: first, is_inside: false, ..part }, route, question, sink);
        self.step_in_part(&part, route, question, sink);
        self.step_in_part(&Part { word: end, end: last, is_inside: false, ..part }, route, question, sink);
    }

    fn step_in_part(&self, part: &Part<'_>, route: &Route, question: &Question, sink: Sink<'_>) {
        let Part { piece, is_inside, end, .. } = *part;
        let is_every_asked = is_inside && question.wants_faults;
        let mut word = part.word;
        if word >= end {
            return;
        }
        let mut old = self.visible.next_in(word, end - 8);
        while word < end {
            if old.is_some_and(|old| old < word) {
                old = self.visible.next_in(word, end - 8);
            }
            if !is_every_asked {
                let next = part.next_valid(word);
                word = old.map_or(next, |old| old.min(next));
                if word >= end {
                    return;
                }
            }
            self.effort.spend();
            let value = part.words.map_or(0, |words| words.word(number(word)));
            let index = piece.index + (word - part.address) / 8;
            let slot = Slot { space: piece.space, state: piece.state, start: piece.start, index, word, is_inside };
            if is_every_asked || value & VALID != 0 && (is_inside || value & CONTIGUOUS != 0) {
                self.step_from(&slot, value, !0, true, route, question, sink);
            }
            if old == Some(word) {
                self.step_from_old(&slot, value, route, question, sink);
            }
            word += 8;
        }
    }

    fn step_from_old(&self, slot: &Slot<'_>, current: u64, route: &Route, question: &Question, sink: Sink<'_>) {
        for old in self.visible.old(slot.word) {
            if old.value != current {
                self.step_from(slot, old.value, old.walkers, false, route, question, sink);
            }
        }
    }
}
