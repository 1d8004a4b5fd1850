//! Pointers: structures, vectors, texts and paths on the desk; or where none are.

use std::sync::atomic::Ordering;

use super::values::{Actor, DESK};
use crate::machine::{long, poke};
use crate::page;

/// Names below the working directory; a call that destroys uses these alone. The first is empty.
const OWN_PATHS: &str = " a b a/b b/a a/c b/c a/b/c c d d/e link a/../b a/. a/link f a/f .";
/// Names that are only opened, read and asked about.
const OTHER_PATHS: &str = "/proc/self/fdinfo /proc/self/fdinfo/3 /proc/self/fdinfo/9 /proc/self/fdinfo/12 /proc/self/fd \
    /proc/self/fd/3 /proc/self/fd/4 /proc/self/maps /proc/self/smaps /proc/self/smaps_rollup /proc/self/pagemap \
    /proc/self/mem /proc/self/status /proc/self/stat /proc/self/cmdline /proc/self/environ /proc/self/auxv \
    /proc/self/task /proc/self/clear_refs /proc/self/comm /proc/self/limits /proc/self/io /proc/meminfo /proc/locks \
    /proc/vmstat /proc /proc/self/exe /proc/self/cwd /dev/zero /dev/null /dev/full /dev/urandom /proc/stat";

impl Actor {
    /// Room in the desk, of which the oldest is used again; its start is for the action of a handler.
    pub(super) fn slot(&mut self, bytes: u64) -> u64 {
        let bytes = bytes.next_multiple_of(64);
        if self.slot + bytes > DESK * page() - 128 {
            self.slot = 0;
        }
        self.slot += bytes;
        self.desk + 64 + self.slot - bytes
    }

    /// A slot with these words.
    fn words(&mut self, words: &[u64]) -> u64 {
        let at = self.slot(8 * words.len() as u64);
        let places = (at..).step_by(8).zip(words);
        places.for_each(|(at, word)| long(at).store(*word, Ordering::Relaxed));
        at
    }

    /// A slot with a text and the zero behind it.
    pub fn text(&mut self, text: &str) -> u64 {
        let at = self.slot(text.len() as u64 + 1);
        (at..).zip(text.bytes().chain([0])).for_each(|(at, byte)| poke(at, byte));
        at
    }

    /// One of the names.
    fn name(&mut self, names: &'static str) -> &'static str {
        let count = names.split(' ').count() as u64;
        names.split(' ').nth(self.random.below(count) as usize).unwrap_or("")
    }

    pub(super) fn path(&mut self) -> u64 {
        match self.random.below(24) {
            0 => self.address(),
            1 => self.long_text(),
            _ => {
                let name = self.name(OWN_PATHS);
                self.text(name)
            }
        }
    }

    fn long_text(&mut self) -> u64 {
        let bytes = self.random.one(&[255, 256, 2048, 4095]);
        let at = self.slot(4096);
        (0..bytes).for_each(|index| poke(at + index, if index % 200 == 199 { b'/' } else { b'n' }));
        poke(at + bytes, 0);
        at
    }

    pub(super) fn other_path(&mut self) -> u64 {
        let name = self.name(OTHER_PATHS);
        self.text(name)
    }

    /// A pointer to what a kind is, or to where it is not.
    pub(super) fn pointer(&mut self, kind: u8) -> u64 {
        match self.random.below(16) {
            0 => return 0,
            1 => return self.address(),
            _ => {}
        }
        match kind {
            b'w' => self.desk + DESK * page() - 64 + 4 * self.random.below(8),
            b'S' => {
                let word = self.random.one(&[0, u64::MAX, 1 << 13, 1 << 9, 1 << 16]);
                self.words(&[word])
            }
            b'O' => {
                let word = self.offset();
                self.words(&[word, 0])
            }
            b'A' => {
                let own: [u64; 4] = core::array::from_fn(|at| long(self.desk + 8 * at as u64).load(Ordering::Relaxed));
                let handler = self.random.one(&[0, 1, own[0], own[0], own[0], 4]);
                let flags = own[1] | self.random.one(&[0, 4, 2, 0x1000_0000, 0x4000_0000, 0x8000_0000]);
                self.words(&[handler, flags, own[2], self.random.clone().one(&[0, u64::MAX])])
            }
            b'V' => {
                let word = self.text("again");
                let last = self.random.one(&[0, 0, 0, word, 1, u64::MAX]);
                self.words(&[word, last, 0])
            }
            b'v' => self.vector(),
            _ => self.structure(),
        }
    }

    fn vector(&mut self) -> u64 {
        let mut words = [0; 8];
        for pair in words.chunks_exact_mut(2) {
            (pair[0], pair[1]) = (self.address(), self.size());
        }
        self.words(&words)
    }

    /// Sixteen words of which each may be a number, an address, a descriptor, a bound.
    fn structure(&mut self) -> u64 {
        let mut words = [0; 16];
        for word in &mut words {
            *word = match self.random.below(8) {
                0 => self.address(),
                1 => self.file(),
                2 => self.boundary(),
                3 => self.small() | self.small() << 32,
                4 => self.desk + DESK * page() - 64,
                _ => self.small(),
            };
        }
        self.words(&words)
    }

    /// Two times: an interval and a first time, or one that is read alone.
    pub(super) fn times(&mut self) -> u64 {
        if self.random.once_in(8) {
            return self.pointer(b'b');
        }
        let mut words = [0; 4];
        for pair in words.chunks_exact_mut(2) {
            let seconds = self.random.one(&[0, 0, 0, 0, 0, 1, u64::MAX, u64::MAX >> 1, 1 << 40]);
            let parts = self.random.one(&[0, 1, 1, 2, 50, 1000, 999_999, 999_999_999, 1_000_000_000, u64::MAX]);
            (pair[0], pair[1]) = (seconds, parts);
        }
        self.words(&words)
    }
}
