//! Memory that is executed: text that comes at run time, packed into the largest leaves, near enough to the image that a branch
//! reaches both ways.
//!
//! ```text
//! arena     | text |free| text         |   free   |      2 MiB where there is so much in one piece; free is zeros, which is UDF
//! leaves    executable, and read-only at both of its addresses; written by `poke`
//! ```

use alloc::vec::Vec;
use core::ops::Range;

use linearmap::{Context, Leaves, Wanted};
use pagetable::Change;
use vmsa::{PhysAddr, VirtAddr};

use crate::facts::{facts, page_size};
use crate::fallible::List;
use crate::locks::order;
use crate::memory::layout::CODE;
use crate::memory::tables::{EXECUTABLE, map, map_pages};
use crate::memory::{going, kernel_table, linear_map, pages, poke};
use crate::threads::mutex::Mutex;

/// Bytes of an arena, and of its place.
const ARENA: u64 = 2 << 20;
/// What text begins on a multiple of.
const ALIGNMENT: u64 = 64;

struct Arena {
    start: u64,
    memory: PhysAddr,
    order: usize,
    /// Addresses, ascending, and none that touch. There is room for what lies between all texts.
    free: Vec<Range<u64>>,
    texts: usize,
    /// What is free is zeros. Where there was no memory to clear it, the next who takes some does.
    is_clear: bool,
}

static ARENAS: Mutex<Vec<Arena>> = Mutex::new(order::EXECUTABLE, Vec::new());

impl Arena {
    fn bytes(&self) -> u64 {
        page_size().size_bytes() << self.order
    }

    fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes()
    }

    fn aliases(&self) -> [Range<VirtAddr>; 1] {
        [facts().linear.address(self.memory)..facts().linear.address(self.memory + self.bytes())]
    }

    /// An arena at `start` for so many bytes at least.
    fn new(start: u64, bytes: u64) -> Option<Self> {
        let order = |bytes: u64| bytes.div_ceil(page_size().size_bytes()).next_power_of_two().ilog2() as usize;
        let (order, memory) =
            (order(bytes)..=order(ARENA)).rev().find_map(|order| Some((order, pages::allocate(order)?)))?;
        let mut arena = Self { start, memory, order, free: Vec::new(), texts: 0, is_clear: true };
        let is_noted = arena.free.try_reserve(1).is_ok();
        pages::wipe(memory, order);
        if !is_noted || linear_map::get().change(&arena.aliases(), Wanted::ReadOnly, Context::MayWait).is_err() {
            pages::free(memory, order);
            return None;
        }
        // It is read-only at one address before it is executable at another.
        poke::fetch_anew(memory, (arena.bytes() / 4) as usize);
        let map = if facts().leaves == Leaves::Pages { map_pages } else { map };
        let from = memory.bits()..memory.bits() + arena.bytes();
        if kernel_table::change(&[map(from, start, EXECUTABLE)], false).is_err() {
            // Where that fails its memory is nobody's.
            if going::make(&[(&arena.aliases(), Wanted::Default)]).is_ok() {
                pages::free(memory, order);
            }
            return None;
        }
        let range = arena.range();
        arena.free.try_push(range).ok()?;
        Some(arena)
    }

    /// Its memory is free memory again. Whether it is; else the arena stays, for the next text.
    fn is_given_back(&self) -> bool {
        let Range { start, end } = self.range();
        let is_gone = going::take_down(&[VirtAddr::new(start)..VirtAddr::new(end)], &self.aliases()).is_ok();
        if is_gone {
            pages::free(self.memory, self.order);
        }
        is_gone
    }

    fn is_empty(&self) -> bool {
        *self.free == [self.range()]
    }

    /// Room for a text, if there is some, and memory to note and to clear what is left of it.
    fn take(&mut self, bytes: u64) -> Option<Range<u64>> {
        let place = self.free.iter().position(|free| free.end - free.start >= bytes)?;
        let most = self.texts + 2;
        self.free.try_reserve(most.saturating_sub(self.free.len())).ok()?;
        let words = |free: &Range<u64>| ((free.end - free.start) / 4) as usize;
        let clear =
            |free: &Range<u64>| poke::write(self.memory + (free.start - self.start), words(free), |_| 0).is_ok();
        self.is_clear = self.is_clear || self.free.iter().all(clear);
        if !self.is_clear {
            return None;
        }
        let free = &mut self.free[place];
        let taken = free.start..free.start + bytes;
        free.start = taken.end;
        self.free.retain(|free| !free.is_empty());
        self.texts += 1;
        Some(taken)
    }

    /// A text goes.
    fn free(&mut self, range: &Range<u64>, is_clear: bool) {
        self.texts -= 1;
        self.is_clear &= is_clear;
        let place = self.free.partition_point(|free| free.start < range.start);
        // There is room: see `take`.
        let _ = self.free.try_insert(place, range.clone());
        self.free.dedup_by(|next, free| {
            let touch = free.end == next.start;
            if touch {
                free.end = next.end;
            }
            touch
        });
    }
}

/// Room for text, until it is dropped. No CPU executes it then.
#[derive(Debug)]
pub(crate) struct Text {
    range: Range<u64>,
    memory: PhysAddr,
}

impl Text {
    /// Room for so many bytes, which are zeros; none where there is no memory, and never for more than 2 MiB.
    pub(crate) fn take(bytes: u64) -> Option<Self> {
        let bytes = bytes.max(1).checked_next_multiple_of(ALIGNMENT).filter(|bytes| *bytes <= ARENA)?;
        ARENAS.with(|arenas| {
            let taken = take_from(arenas, bytes).or_else(|| {
                arenas.try_reserve(1).ok()?;
                let is_free = |start: &u64| !arenas.iter().any(|arena| arena.start == *start);
                let start = CODE.step_by(ARENA as usize).find(is_free)?;
                arenas.try_push(Arena::new(start, bytes)?).ok()?;
                take_from(arenas, bytes)
            });
            if taken.is_none() {
                leave_nothing_empty(arenas);
            }
            taken
        })
    }

    /// Its addresses.
    pub(crate) fn range(&self) -> Range<VirtAddr> {
        VirtAddr::new(self.range.start)..VirtAddr::new(self.range.end)
    }

    /// Writes so many words from its beginning on, which no CPU executes yet: `word` gives each by its number. Whether there was memory
    /// for the tables that it takes; otherwise nothing is written.
    pub(crate) fn write(&self, words: usize, word: impl Fn(usize) -> u32) -> bool {
        assert!(4 * words as u64 <= self.range.end - self.range.start, "more than it has room for");
        poke::write(self.memory, words, word).is_ok()
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        let words = (self.range.end - self.range.start) as usize / 4;
        let is_clear = self.write(words, |_| 0);
        ARENAS.with(|arenas| {
            let arena = arenas.iter_mut().find(|arena| arena.range().contains(&self.range.start));
            arena.expect("a text lies in an arena").free(&self.range, is_clear);
            leave_nothing_empty(arenas);
        });
    }
}

fn take_from(arenas: &mut [Arena], bytes: u64) -> Option<Text> {
    arenas.iter_mut().find_map(|arena| {
        let range = arena.take(bytes)?;
        Some(Text { memory: arena.memory + (range.start - arena.start), range })
    })
}

/// Arenas go that nothing is in; with the last one all tables, and the list.
fn leave_nothing_empty(arenas: &mut Vec<Arena>) {
    arenas.retain(|arena| !arena.is_empty() || !arena.is_given_back());
    if arenas.is_empty() {
        *arenas = Vec::new();
        let from = VirtAddr::new(CODE.start)..VirtAddr::new(CODE.end);
        // Tables that hold nothing are as good.
        let _ = kernel_table::change(&[Change::Unmap { from }], false);
    }
}
