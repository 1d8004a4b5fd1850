//! A table in pieces: 4 KiB lie together in memory, and beneath a stage 2 each 4 KiB may be at more than one place. Most
//! words of most tables are invalid; they are skipped, for this is where the time of a question goes.

use super::entry::SpaceId;
use super::may::{May, SpaceState};
use super::question::Question;
use super::reach::{Route, Sink, Slot, Start};
use crate::descriptor::{CONTIGUOUS, VALID};

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
        if question.first > end || question.last < start.base {
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
                self.reach_piece(&piece, address, route, question, sink);
            } else {
                self.reach_piece_beneath(&piece, address, route, question, sink);
            }
            index += count;
        }
    }

    /// The piece at each place that stage 2 has for it; where it has none, a walk faults.
    fn reach_piece_beneath(&self, piece: &Piece<'_>, address: u64, route: &Route, question: &Question, sink: Sink<'_>) {
        self.each_way(piece.state, address, route, question, &mut |place, route| {
            self.reach_piece(piece, place, route, question, sink);
        });
        // The descriptor of the address itself is what a fault is about, not the others of its contiguous set.
        let wanted = piece.inside.0;
        if question.wants_faults && wanted >= piece.index && wanted < piece.index + piece.count {
            self.faults_beneath(piece.state, piece.start.table + wanted * 8, true, route, sink);
        }
    }

    fn reach_piece(&self, piece: &Piece<'_>, address: u64, route: &Route, question: &Question, sink: Sink<'_>) {
        let end = address + (piece.count - 1) * 8;
        let words = self.memory.page(address);
        let mut old = self.visible.next_in(address, end);
        if words.is_none() && old.is_none() && !question.wants_faults {
            return;
        }
        let mut word = address;
        while word <= end {
            let number = (word as usize & 0xfff) / 8;
            if old.is_some_and(|old| old < word) {
                old = self.visible.next_in(word, end);
            }
            let index = piece.index + (word - address) / 8;
            let is_inside = index >= piece.inside.0 && index <= piece.inside.1;
            if !(is_inside && question.wants_faults) {
                let odd = words.and_then(|words| words.next_odd(number)).unwrap_or(512);
                let odd = word + (odd - number) as u64 * 8;
                let mut next = old.map_or(odd, |old| old.min(odd));
                if question.wants_faults && index < piece.inside.0 {
                    next = next.min(word + (piece.inside.0 - index) * 8);
                }
                if next > word {
                    word = next;
                    continue;
                }
            }
            let value = words.map_or(0, |words| words.word(number));
            let slot = Slot { space: piece.space, state: piece.state, start: piece.start, index, word, is_inside };
            if is_inside && question.wants_faults || value & VALID != 0 && (is_inside || value & CONTIGUOUS != 0) {
                self.reach_value(&slot, value, !0, true, route, question, sink);
            }
            if old == Some(word) {
                self.reach_old(&slot, value, route, question, sink);
            }
            word += 8;
        }
    }

    fn reach_old(&self, slot: &Slot<'_>, current: u64, route: &Route, question: &Question, sink: Sink<'_>) {
        for old in self.visible.old(slot.word) {
            if old.value != current {
                self.reach_value(slot, old.value, old.walkers, false, route, question, sink);
            }
        }
    }
}
