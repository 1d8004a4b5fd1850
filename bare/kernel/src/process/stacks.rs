//! The stacks of threads: each at the upper end of a slot whose rest is never mapped. Those that nobody uses are kept for the next.

use core::array;

use pagetable::Change;
use vmsa::{PhysAddr, VirtAddr};

use crate::facts::page_size;
use crate::locks::{Lock, order};
use crate::memory::tables::{READ_WRITE, map_pages};
use crate::memory::{current, kernel_table, layout, pages};

/// Bytes of a stack, but at least a page.
const BYTES: u64 = 32 << 10;
/// Pages of a stack, at most: memory for one need not lie together.
const MOST_PAGES: usize = 8;
/// Bytes of a slot: the guard is at least as large as a stack.
const SLOT: u64 = 128 << 10;
const ALL_SLOTS: usize = ((layout::THREADS.end - layout::THREADS.start) / SLOT) as usize;
/// Stacks that are kept.
const KEPT: usize = 16;

/// A stack: the number of its slot.
pub(crate) struct Stack(usize);

struct Slots {
    kept: [Option<Stack>; KEPT],
    /// A bit for each slot that has a stack.
    used: [u64; ALL_SLOTS / 64],
}

static SLOTS: Lock<Slots> = Lock::new(order::SLOTS, Slots { kept: [const { None }; KEPT], used: [0; ALL_SLOTS / 64] });

fn bytes() -> u64 {
    page_size().size_bytes().max(BYTES)
}

fn page_count() -> usize {
    (bytes() >> page_size().shift()) as usize
}

impl Slots {
    fn take_kept(&mut self) -> Option<Stack> {
        self.kept.iter_mut().find_map(Option::take)
    }

    fn take_unused(&mut self) -> Option<Stack> {
        let (word, bits) = self.used.iter_mut().enumerate().find(|(_, bits)| **bits != u64::MAX)?;
        let bit = bits.trailing_ones();
        *bits |= 1 << bit;
        Some(Stack(word * 64 + bit as usize))
    }

    fn give(&mut self, Stack(slot): Stack) {
        self.used[slot / 64] &= !(1 << (slot % 64));
    }
}

impl Stack {
    /// A stack that nobody uses, if there is memory for one.
    pub(crate) fn take() -> Option<Self> {
        if let Some(stack) = SLOTS.with(Slots::take_kept) {
            return Some(stack);
        }
        let stack = SLOTS.with(Slots::take_unused)?;
        if stack.map().is_none() {
            SLOTS.with(|slots| slots.give(stack));
            return None;
        }
        Some(stack)
    }

    /// Its pages, from the lowest.
    fn pages(&self) -> impl Iterator<Item = u64> {
        (self.end() - bytes()..self.end()).step_by(page_size().size_bytes() as usize)
    }

    fn map(&self) -> Option<()> {
        let (count, size) = (page_count(), page_size().size_bytes());
        let mut frames = [None; MOST_PAGES];
        frames[..count].fill_with(|| pages::allocate(0));
        let changes = array::from_fn::<_, MOST_PAGES, _>(|at| {
            let frame = frames[at].map_or(0, PhysAddr::bits);
            map_pages(frame..frame + size, self.end() - bytes() + at as u64 * size, READ_WRITE)
        });
        let is_whole = frames[..count].iter().all(Option::is_some);
        let is_mapped = is_whole && kernel_table::change(&changes[..count], false).is_ok();
        if !is_mapped {
            frames.into_iter().flatten().for_each(|frame| pages::free(frame, 0));
        }
        is_mapped.then_some(())
    }

    /// The address behind it.
    pub(crate) fn end(&self) -> u64 {
        layout::THREADS.start + (self.0 as u64 + 1) * SLOT
    }

    /// Gives it back: nobody runs on it.
    pub(crate) fn give(self) {
        let too_many = SLOTS.with(|slots| match slots.kept.iter_mut().find(|kept| kept.is_none()) {
            Some(place) => {
                *place = Some(self);
                None
            }
            None => Some(self),
        });
        if let Some(stack) = too_many {
            stack.unmap();
        }
    }

    fn unmap(self) {
        let table = current::upper();
        let mut frames = [None; MOST_PAGES];
        for (frame, page) in frames.iter_mut().zip(self.pages()) {
            *frame = table.translate(VirtAddr::new(page)).map(|translation| translation.output);
        }
        let from = VirtAddr::new(self.end() - bytes())..VirtAddr::new(self.end());
        if kernel_table::change(&[Change::Unmap { from }], false).is_ok() {
            frames.into_iter().flatten().for_each(|frame| pages::free(frame, 0));
            SLOTS.with(|slots| slots.give(self));
        }
    }
}

/// Gives back all that are kept: there is no thread any more.
pub(crate) fn forget_kept() {
    while let Some(stack) = SLOTS.with(Slots::take_kept) {
        stack.unmap();
    }
    // Nothing is mapped there any more but tables.
    let from = VirtAddr::new(layout::THREADS.start)..VirtAddr::new(layout::THREADS.end);
    let _ = kernel_table::change(&[Change::Unmap { from }], false);
}
