//! Tables of the guest: what is stored there, what they hold when they are linked, and when they are none any more.

use std::collections::BTreeSet;

use machine::barrier::{Accesses, Barrier, Domain};
use machine::event::Event;
use machine::machine::Link;
use machine::trace::Act;

use super::{Auditor, Guest};
use crate::frames::Writer;
use crate::instruction::Store;
use crate::record::Record;

/// What makes a table one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// A store to the table above, and all there is below: behind it a walk finds what was ordered before it.
    Store,
    /// A register that names the root: nothing orders the two, but a DSB.
    Register,
    /// A store long before the root was named, of which nobody knows what was ordered before it and what came later.
    Earlier,
}

impl Auditor<'_> {
    /// A word of a frame where a table is may have changed.
    pub(super) fn store_word(&mut self, guest: &dyn Guest, cpu: u8, place: u64, how: Store, word: u64) {
        let page = word & !0xfff;
        let mut now = [0];
        // Words of a page beside its tables are nobody's.
        let is_beside = !self.machine.is_plain(page) && !self.machine.is_descriptor(word);
        if is_beside || !guest.read(word, &mut now) {
            return;
        }
        let was_table = !self.machine.is_plain(page);
        if self.machine.forget_unreached(page) {
            if was_table {
                self.trace(format_args!("0 {}", Act::Data { address: page }));
            }
            self.frames.set_table(page, false);
            self.frames.store(cpu, word);
            return;
        }
        let [value] = now;
        let found = self.machine.word(word);
        if found == value {
            return;
        }
        self.seen.stores += 1;
        let links = self.machine.links_at(word, value);
        self.learn(guest, cpu, links, By::Store);
        let is_mapped = self.note_mapped(cpu, word, found, value);
        let Store { is_release, is_exchange, is_compared } = how;
        let act = match is_exchange || is_compared {
            true => Act::Exchange { address: word, expected: found, value, found, is_release },
            false => Act::Event(Event::Store { address: word, value, is_release }),
        };
        self.happen(guest, Record { cpu, place, act });
        if found & 1 == 1 || is_mapped {
            self.frames.locks.store(cpu);
        }
    }

    /// The word shows what hardware may have made of it.
    pub(super) fn note_hardware(&mut self, guest: &dyn Guest, cpu: u8, place: u64, word: u64, value: u64) {
        const MARKS: u64 = 1 << 10 | 1 << 7;
        let known = self.machine.word(word);
        let is_marked = known & 1 == 1 && known != value && (known ^ value) & !MARKS == 0;
        if is_marked && self.machine.is_descriptor(word) {
            self.happen(guest, Record { cpu, place, act: Act::Load { address: word, value } });
        }
    }

    /// Tells the machine what the tables hold that are about to be linked, and whatever they lead to: all of it, for of what nobody
    /// could walk to, some may have been forgotten.
    pub(super) fn learn(&mut self, guest: &dyn Guest, cpu: u8, links: Vec<Link>, by: By) {
        let mut links: Vec<(Link, By)> = links.into_iter().map(|link| (link, by)).collect();
        let mut known = BTreeSet::new();
        while let Some((link, by)) = links.pop() {
            for piece in self.machine.pieces_of(&link) {
                let mut words = vec![0; piece.words];
                if !known.insert((piece.address, link.depth())) || !guest.read(piece.address, &mut words) {
                    continue;
                }
                self.seen.tables += 1;
                let by = if by == By::Register && is_beside_others(guest, piece.address, words.len()) {
                    By::Earlier
                } else {
                    by
                };
                self.learn_words(guest, cpu, piece.address, &words, by);
                self.frames.set_table(piece.address, true);
                let below = if by == By::Store { By::Store } else { By::Earlier };
                links.extend(self.machine.links_below(&link, &words).into_iter().map(|link| (link, below)));
            }
        }
    }

    /// What a page holds that becomes a table. What a CPU stored there and no barrier of its has ordered happens now. Of a table that `cpu` links,
    /// another CPU's last store is of the time when the page was something else: who links has filled it, or has been told of it by a lock.
    fn learn_words(&mut self, guest: &dyn Guest, cpu: u8, address: u64, words: &[u64], by: By) {
        let is_its = |writer: &Writer| by == By::Register || by == By::Store && writer.cpu == cpu;
        let writer = self.frames.writer(address).filter(is_its);
        let is_loose = writer.is_some_and(|it| it.count == self.frames.now(it.cpu));
        let is_unseen = writer.is_some_and(|it| it.count > self.cpus[usize::from(it.cpu)].finished);
        let mut has_stored = false;
        for (word, value) in (address..).step_by(8).zip(words) {
            if self.machine.word(word) == *value {
                continue;
            }
            match writer {
                Some(writer) if is_loose || by == By::Register && is_unseen => {
                    let act = Act::Event(Event::Store { address: word, value: *value, is_release: false });
                    self.happen(guest, Record { cpu: writer.cpu, place: 0, act });
                    has_stored = true;
                }
                _ if self.machine.learn(word, *value) => {
                    self.trace(format_args!("0 {}", Act::Holds { address: word, value: *value }));
                }
                _ => {}
            }
        }
        if let (Some(writer), true, false) = (writer, has_stored, is_loose) {
            let barrier = Barrier::Dmb { domain: Domain::Inner, accesses: Accesses::Stores };
            self.happen(guest, Record::of(writer.cpu, 0, Event::Barrier(barrier)));
        }
    }
}

/// A root of so many words shares its 4 KiB with somebody's data: of the page it is known who stored there last, and not of the root.
fn is_beside_others(guest: &dyn Guest, root: u64, words: usize) -> bool {
    let mut page = [0; 512];
    let first = (root as usize >> 3) % page.len();
    words < page.len()
        && guest.read(root & !0xfff, &mut page)
        && page.iter().enumerate().any(|(at, word)| *word != 0 && !(first..first + words).contains(&at))
}
