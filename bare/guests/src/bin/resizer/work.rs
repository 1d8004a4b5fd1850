//! What every CPU does all the time: it calls code of the arena, at EL1 or EL0, which exchanges a word of the arena's data.

use core::sync::atomic::{AtomicU64, Ordering};

use hardware::guest::CPUS;
use hardware::guest::translating::{call_at_el0, call_at_el1};
use seed::Seed;

use crate::conflicts;
use crate::map::{self, ARENA, BLOCK_BYTES, BLOCK_PAGES, CODE_BLOCKS, DATA_BLOCKS, PAGE_BYTES, block};

const CODE_PAGES: usize = CODE_BLOCKS * BLOCK_PAGES;
const DATA_PAGES: usize = DATA_BLOCKS * BLOCK_PAGES;

/// What each page of code holds, at EL1 and 32 bytes behind it for EL0. With a value in x0 and an address in x1 it gives back
/// what was there, and the number of its page in x1.
const LOAD: u32 = 0xf940_0029; // ldr x9, [x1]
const STORE: u32 = 0xf900_0020; // str x0, [x1]
const NUMBER: u32 = 0xd280_0001; // movz x1, #number; the immediate is bits 20:5
const ANSWER: u32 = 0xaa09_03e0; // mov x0, x9
const RET: u32 = 0xd65f_03c0;
const SVC: u32 = 0xd400_0001;
const EL0_BYTES: u64 = 32;

/// Each CPU has a line of its own in every page of data.
const LINE_BYTES: u64 = 128;

/// What each CPU's word of each page of data is to hold.
static EXPECTED: [[AtomicU64; DATA_PAGES]; CPUS] = [const { [const { AtomicU64::new(0) }; DATA_PAGES] }; CPUS];
/// Answers that were wrong.
static WRONG: AtomicU64 = AtomicU64::new(0);
/// What each CPU has done so far.
static ROUNDS: [AtomicU64; CPUS] = [const { AtomicU64::new(0) }; CPUS];

/// Fills the arena's code. The MMU is off.
pub(crate) fn write_code() {
    let code = map::arena().start;
    for number in 0..CODE_PAGES as u64 {
        for (offset, last) in [(0, RET), (EL0_BYTES, SVC)] {
            let at = (code + number * PAGE_BYTES + offset) as *mut [u32; 5];
            // SAFETY: the arena is this program's, no reference leads into it, and nothing runs in it yet.
            unsafe { at.write_volatile([LOAD, STORE, NUMBER | (number as u32) << 5, ANSWER, last]) };
        }
    }
}

/// How much a CPU has done.
pub(crate) fn rounds(cpu: usize) -> u64 {
    ROUNDS[cpu].load(Ordering::SeqCst)
}

/// How much all CPUs have done, and how many answers were wrong.
pub(crate) fn totals() -> (u64, u64) {
    ((0..CPUS).map(rounds).sum(), WRONG.load(Ordering::SeqCst))
}

/// One CPU's work.
pub(crate) struct Worker {
    cpu: usize,
    random: Seed,
}

impl Worker {
    /// A worker with choices of its own.
    pub(crate) const fn new(cpu: usize, seed: u64) -> Self {
        Self { cpu, random: Seed::of_cpu(seed, cpu) }
    }

    /// Does one thing: if a block is announced, in that block.
    pub(crate) fn make_round(&mut self) {
        let announced = conflicts::note(self.cpu);
        let code = self.page(announced.filter(|block| *block < CODE_BLOCKS), CODE_PAGES);
        let data = self.page(announced.and_then(|block| block.checked_sub(CODE_BLOCKS)), DATA_PAGES);
        let expected = &EXPECTED[self.cpu][data];
        let value = self.random.bits();
        let address = block(CODE_BLOCKS).start + data as u64 * PAGE_BYTES + self.cpu as u64 * LINE_BYTES;
        let entry = ARENA + code as u64 * PAGE_BYTES;
        let answer = match self.random.below(2) {
            // SAFETY: `write_code` has put it there; the line is this CPU's, and no reference leads to it.
            0 => unsafe { call_at_el1(value, address, entry) },
            // SAFETY: the same.
            _ => unsafe { call_at_el0(value, address, entry + EL0_BYTES) },
        };
        if (answer.value, answer.page) != (expected.load(Ordering::Relaxed), code as u64) {
            WRONG.fetch_add(1, Ordering::SeqCst);
        }
        expected.store(value, Ordering::Relaxed);
        ROUNDS[self.cpu].fetch_add(1, Ordering::SeqCst);
    }

    /// A page of `count`, in the block that is asked for.
    fn page(&mut self, block: Option<usize>, count: usize) -> usize {
        let first = block.map_or(0, |block| block * BLOCK_PAGES);
        first + self.random.below(block.map_or(count, |_| BLOCK_PAGES) as u64) as usize
    }
}

/// Words of the data that are not what was written last. No CPU is at work any more.
pub(crate) fn lost_words() -> usize {
    let is_lost = |cpu: usize, page: usize| {
        let address = ARENA + CODE_BLOCKS as u64 * BLOCK_BYTES + page as u64 * PAGE_BYTES + cpu as u64 * LINE_BYTES;
        // SAFETY: the arena's data is mapped there, and no reference leads into it.
        let found = unsafe { (address as *const u64).read_volatile() };
        found != EXPECTED[cpu][page].load(Ordering::Relaxed)
    };
    (0..CPUS)
        .flat_map(|cpu| (0..DATA_PAGES).map(move |page| (cpu, page)))
        .filter(|(cpu, page)| is_lost(*cpu, *page))
        .count()
}
