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
use crate::memory::layout::CODE;
use crate::memory::tables::{EXECUTABLE, map, map_pages};
use crate::memory::{kernel_table, linear_map, pages, poke};
use crate::threads::mutex::Mutex;

/// Bytes of an arena, and of its place.
const ARENA: u64 = 2 << 20;
/// What text begins on a multiple of.
const ALIGNMENT: u64 = 64;

struct Arena {
    start: u64,
    memory: PhysAddr,
    order: usize,
    /// Addresses, ascending, and none that touch.
    free: Vec<Range<u64>>,
}

static ARENAS: Mutex<Vec<Arena>> = Mutex::new(Vec::new());

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
        let mut arena = Self { start, memory, order, free: Vec::new() };
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
            arena.give_back();
            return None;
        }
        arena.free.push(arena.range());
        Some(arena)
    }

    /// Its memory is free memory again. Where that fails it is nobody's.
    fn give_back(&self) {
        if linear_map::get().change(&self.aliases(), Wanted::Default, Context::MayWait).is_ok() {
            pages::free(self.memory, self.order);
        }
    }

    fn is_empty(&self) -> bool {
        *self.free == [self.range()]
    }

    fn take(&mut self, bytes: u64) -> Option<Range<u64>> {
        let free = self.free.iter_mut().find(|free| free.end - free.start >= bytes)?;
        let taken = free.start..free.start + bytes;
        free.start = taken.end;
        self.free.retain(|free| !free.is_empty());
        Some(taken)
    }

    /// Whether there was memory to note it.
    fn free(&mut self, range: &Range<u64>) -> bool {
        let place = self.free.partition_point(|free| free.start < range.start);
        if self.free.try_reserve(1).is_err() {
            return false;
        }
        self.free.insert(place, range.clone());
        self.free.dedup_by(|next, free| {
            let touch = free.end == next.start;
            if touch {
                free.end = next.end;
            }
            touch
        });
        true
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
            if !arenas.iter().any(|arena| arena.free.iter().any(|free| free.end - free.start >= bytes)) {
                arenas.try_reserve(1).ok()?;
                let is_free = |start: &u64| !arenas.iter().any(|arena| arena.start == *start);
                let start = CODE.step_by(ARENA as usize).find(is_free)?;
                arenas.push(Arena::new(start, bytes)?);
            }
            arenas.iter_mut().find_map(|arena| {
                let range = arena.take(bytes)?;
                Some(Self { memory: arena.memory + (range.start - arena.start), range })
            })
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
        // What is not cleared is nobody's.
        if !self.write(words, |_| 0) {
            return;
        }
        ARENAS.with(|arenas| {
            let Some(place) = arenas.iter().position(|arena| arena.range().contains(&self.range.start)) else { return };
            if !arenas[place].free(&self.range) || !arenas[place].is_empty() {
                return;
            }
            // With the last one all tables go.
            let range = if arenas.len() == 1 { CODE } else { arenas[place].range() };
            let from = VirtAddr::new(range.start)..VirtAddr::new(range.end);
            if kernel_table::change(&[Change::Unmap { from }], false).is_ok() {
                arenas.remove(place).give_back();
            }
            if arenas.is_empty() {
                *arenas = Vec::new();
            }
        });
    }
}
