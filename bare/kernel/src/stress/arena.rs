//! Memory whose leaves change size while all CPUs use it, in every way in which a TLB conflict abort may come.
//!
//! ```text
//! page  | value | … | for each CPU: a count, a word, a block for DC ZVA | … | value |        of code: RET in the first word
//! ```

use hardware::{access, cache, probe};
use linearmap::{Context, Wanted};
use vmsa::{PhysAddr, VirtAddr};

use super::pool::value;
use crate::facts::{facts, page_size};
use crate::memory::{linear_map, pages};

/// log2 of the pages of an arena.
const ORDER: usize = 9;
/// Pages of an arena.
pub(super) const PAGES: usize = 1 << ORDER;
/// Where a CPU's part of each page is, and what is in it.
const FIRST_PART: u64 = 256;
const PART_BYTES: u64 = 256;
const WORD: u64 = 8;
const BLOCK: u64 = 128;
const BLOCK_BYTES: u64 = 64;

/// How a page is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    Fetch,
    Load,
    Store,
    Exclusive,
    Atomic,
    ZeroBlock,
    AcrossPages,
}

impl Use {
    pub(super) const ALL: [Self; 7] =
        [Self::Fetch, Self::Load, Self::Store, Self::Exclusive, Self::Atomic, Self::ZeroBlock, Self::AcrossPages];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Load => "load",
            Self::Store => "store",
            Self::Exclusive => "exclusive",
            Self::Atomic => "atomic",
            Self::ZeroBlock => "DC ZVA",
            Self::AcrossPages => "across a page",
        }
    }

    /// Whether this CPU has it, and the pages have room for it.
    pub(super) fn is_possible(self) -> bool {
        match self {
            Self::Atomic => access::has_atomics(),
            Self::ZeroBlock => access::zeroed_bytes().is_some_and(|bytes| bytes <= BLOCK_BYTES),
            _ => true,
        }
    }
}

/// Pages that lie side by side.
pub(super) struct Arena {
    block: PhysAddr,
    is_code: bool,
}

impl Arena {
    /// Takes memory, fills it, and makes code executable.
    pub(super) fn new(is_code: bool) -> Option<Self> {
        let arena = Self { block: pages::allocate(ORDER)?, is_code };
        let (start, end) = (arena.page(0).bits(), arena.page(PAGES).bits());
        for page in 0..PAGES {
            let (first, last) = (arena.page(page), arena.page(page + 1).bits() - 8);
            let word = if is_code { probe::RET.into() } else { value(first) };
            write(first.bits(), word);
            write(last, value(VirtAddr::new(last)));
            let parts = part(first, 0)..part(first, hardware::per_cpu::MAX_CPUS);
            parts.step_by(8).for_each(|at| write(at, 0));
        }
        if is_code {
            cache::synchronize_instructions(start as usize..end as usize);
            arena.change(0..PAGES, Wanted::ReadOnlyExecutable).then_some(())?;
        }
        linear_map::get().heal_all();
        Some(arena)
    }

    /// Gives the memory back, as it was.
    pub(super) fn free(self) {
        if self.is_code {
            self.change(0..PAGES, Wanted::NotExecutable);
            self.change(0..PAGES, Wanted::Writable);
        }
        pages::free(self.block, ORDER);
    }

    /// Where a page is.
    pub(super) fn page(&self, number: usize) -> VirtAddr {
        facts().linear.address(self.block) + number as u64 * page_size().size_bytes()
    }

    /// The page that holds an address, cut to those there are.
    pub(super) fn number(&self, address: VirtAddr) -> usize {
        let offset = address.bits().saturating_sub(self.page(0).bits());
        ((offset / page_size().size_bytes()) as usize).min(PAGES)
    }

    /// Changes pages; whether that was not refused.
    pub(super) fn change(&self, numbers: core::ops::Range<usize>, wanted: Wanted) -> bool {
        let range = self.page(numbers.start)..self.page(numbers.end);
        linear_map::get().change(&[range], wanted, Context::MayWait).is_ok()
    }

    /// Uses a page; whether what comes of that is right.
    pub(super) fn is_used(&self, number: usize, how: Use, cpu: usize) -> bool {
        let page = self.page(number);
        let part = part(page, cpu);
        match how {
            Use::Fetch => {
                // SAFETY: pages of code are used so, and each begins with a function that returns.
                let function = unsafe { core::mem::transmute::<u64, extern "C" fn()>(page.bits()) };
                function();
                true
            }
            Use::Load => read(page.bits()) == value(page),
            Use::Store => {
                let next = read(part + WORD).wrapping_add(1);
                write(part + WORD, next);
                read(part + WORD) == next
            }
            Use::Exclusive => {
                // SAFETY: a word of this CPU's part.
                let before = unsafe { access::add_exclusive(part) };
                before + 1 == read(part)
            }
            Use::Atomic => {
                // SAFETY: a word of this CPU's part; what is not possible is not asked for.
                let before = unsafe { access::add_atomic(part) };
                before + 1 == read(part)
            }
            Use::ZeroBlock => {
                // SAFETY: a block of this CPU's part; what is not possible is not asked for.
                unsafe { access::zero_block(part + BLOCK) };
                let is_zero = read(part + BLOCK) == 0;
                write(part + BLOCK, u64::MAX);
                is_zero
            }
            Use::AcrossPages => {
                let end = self.page(number + 1);
                let expected = value(VirtAddr::new(end.bits() - 8)) >> 32 | value(end) << 32;
                // SAFETY: the end of a page of this arena, and the beginning of the next, which is one too.
                let found = unsafe { access::read_unaligned(end.bits() - 4) };
                found == expected
            }
        }
    }
}

/// Reads a word of an arena.
fn read(address: u64) -> u64 {
    // SAFETY: arenas are mapped readable, and words of them are read as words alone.
    unsafe { (address as *const u64).read_volatile() }
}

/// Writes a word of an arena.
fn write(address: u64, word: u64) {
    // SAFETY: who writes has the word alone, in a page that is not code, or not yet.
    unsafe { (address as *mut u64).write_volatile(word) };
}

fn part(page: VirtAddr, cpu: usize) -> u64 {
    page.bits() + FIRST_PART + cpu as u64 * PART_BYTES
}
