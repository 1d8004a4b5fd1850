//! The stacks of threads: each at the upper end of a slot whose rest is never mapped. Those that nobody uses are kept for the next.

use alloc::vec::Vec;

use pagetable::Change;
use vmsa::{PhysAddr, VirtAddr};

use crate::facts::page_size;
use crate::fallible::List;
use crate::locks::{Lock, order};
use crate::memory::tables::{READ_WRITE, map};
use crate::memory::{kernel_table, layout, pages};

/// Bytes of a stack, but at least a page.
const BYTES: u64 = 32 << 10;
/// Bytes of a slot: the guard is at least as large as a stack.
const SLOT: u64 = 128 << 10;
/// Stacks that are kept.
const KEPT: usize = 16;

/// A stack: the number of its slot, and its memory.
pub(crate) struct Stack {
    slot: u64,
    frames: PhysAddr,
}

struct Slots {
    kept: Vec<Stack>,
    free: Vec<u64>,
    /// Slots from here on were never used.
    next: u64,
}

static SLOTS: Lock<Slots> = Lock::new(order::SLOTS, Slots { kept: Vec::new(), free: Vec::new(), next: 0 });

fn bytes() -> u64 {
    page_size().size_bytes().max(BYTES)
}

fn order() -> usize {
    (bytes() / page_size().size_bytes()).ilog2() as usize
}

impl Stack {
    /// A stack that nobody uses, if there is memory for one.
    pub(crate) fn take() -> Option<Self> {
        if let Some(stack) = SLOTS.with(|slots| slots.kept.pop()) {
            return Some(stack);
        }
        let slot = SLOTS.with(|slots| {
            let fresh = slots.next;
            let most = (layout::THREADS.end - layout::THREADS.start) / SLOT;
            // To give it back takes no memory then.
            slots.kept.try_reserve(KEPT - slots.kept.len()).ok()?;
            slots.free.try_reserve(fresh as usize + 1 - slots.free.len()).ok()?;
            slots.free.pop().or_else(|| {
                slots.next += u64::from(fresh < most);
                (fresh < most).then_some(fresh)
            })
        })?;
        let frames = pages::allocate(order());
        let stack = frames.map(|frames| Self { slot, frames });
        let mapped = stack.filter(|stack| {
            let change = map(stack.frames.bits()..stack.frames.bits() + bytes(), stack.end() - bytes(), READ_WRITE);
            let is_mapped = kernel_table::change(&[change], false).is_ok();
            if !is_mapped {
                pages::free(stack.frames, order());
            }
            is_mapped
        });
        if mapped.is_none() {
            SLOTS.with(|slots| _ = slots.free.try_push(slot));
        }
        mapped
    }

    /// The address behind it.
    pub(crate) fn end(&self) -> u64 {
        layout::THREADS.start + (self.slot + 1) * SLOT
    }

    /// Gives it back: nobody runs on it.
    pub(crate) fn give(self) {
        let too_many = SLOTS.with(|slots| match slots.kept.len() < KEPT {
            true => {
                let _ = slots.kept.try_push(self);
                None
            }
            false => Some(self),
        });
        if let Some(stack) = too_many {
            stack.unmap();
        }
    }

    fn unmap(self) {
        let from = VirtAddr::new(self.end() - bytes())..VirtAddr::new(self.end());
        if kernel_table::change(&[Change::Unmap { from }], false).is_ok() {
            pages::free(self.frames, order());
            SLOTS.with(|slots| _ = slots.free.try_push(self.slot));
        }
    }
}

/// Gives back all that are kept: there is no thread any more.
pub(crate) fn forget_kept() {
    while let Some(stack) = SLOTS.with(|slots| slots.kept.pop()) {
        stack.unmap();
    }
    SLOTS.with(|slots| *slots = Slots { kept: Vec::new(), free: Vec::new(), next: 0 });
    // Nothing is mapped there any more but tables.
    let from = VirtAddr::new(layout::THREADS.start)..VirtAddr::new(layout::THREADS.end);
    let _ = kernel_table::change(&[Change::Unmap { from }], false);
}
