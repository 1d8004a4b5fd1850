//! ASIDs: 255 or 65,535 numbers for however many address spaces.
//!
//! ```text
//!   generation 1   │ 1 │ 2 │ 3 │ … │ 255 │        no number is left: a rollover
//!   generation 2   │ · │ 2 │ · │ … │  ·  │        what each CPU runs stays taken; every CPU forgets all it knows before it runs another
//! ```
//! A space whose number is of a generation that is over gets another when a CPU is to run it, unless a CPU still runs it: then it
//! keeps its own, of which no TLB holds anything else.

use alloc::vec::Vec;

use pagetable::Platform;
use vmsa::{Maintenance, maintenance::TlbiOp};

use crate::context::{Context, GENERATION_SHIFT};
use crate::embedder::Lock;

const WORD_BITS: usize = u64::BITS as usize;

/// Gives ASIDs to the address spaces that CPUs run.
pub struct Asids<L>(L);

/// What the lock of [`Asids`] guards.
pub struct Numbers {
    /// In the place where tags have it.
    generation: u64,
    /// One bit for each number that is taken.
    taken: Vec<u64>,
    /// Where the search goes on.
    next: usize,
    cpus: Vec<Running>,
}

/// What one CPU runs.
#[derive(Clone, Copy, Default)]
struct Running {
    /// Of the space; 0 for none.
    tag: u64,
    /// Its TLB may hold what is of a generation that is over.
    must_forget: bool,
}

impl<L: Lock<Numbers>> Asids<L> {
    /// ASIDs of so many bits, 8 or 16: the least that any CPU has; for CPUs with numbers below `cpus`, of which there are fewer than
    /// ASIDs. `None` if there is no heap for it.
    pub fn new(bits: u32, cpus: usize) -> Option<Self> {
        let words = (1 << bits.clamp(8, 16)) / WORD_BITS;
        let (mut taken, mut running) = (Vec::new(), Vec::new());
        taken.try_reserve_exact(words).ok()?;
        taken.resize(words, 0);
        running.try_reserve_exact(cpus).ok()?;
        running.resize(cpus, Running::default());
        let mut numbers = Numbers { generation: 1 << GENERATION_SHIFT, taken, next: 0, cpus: running };
        // No space has number 0: under it a CPU runs that has none.
        numbers.take(0);
        Some(Self(L::new(numbers)))
    }

    /// The ASID by which CPU `cpu` runs a space next. `platform` is that CPU: it forgets all it knows first, if it has to. To be
    /// called with preemption off, on that CPU; then TTBR0 is written with the ASID and the root, and an ISB follows.
    pub fn switch<P: Platform>(&self, platform: &P, cpu: usize, context: &Context) -> u16 {
        let (tag, must_forget) = self.0.with(|numbers| numbers.switch(cpu, context));
        // Who changes the space's tables reads the ASID after its stores: it finds this one, or walks under this one find the stores.
        platform.maintain(Maintenance::DSB_ISHST);
        if must_forget {
            // The ASID may have been another space's, of which this TLB may hold anything.
            platform.maintain(Maintenance::Invalidate(TlbiOp::VMALLE1, 0));
            // Until it is complete, what is forgotten may still be found under the ASID.
            platform.maintain(Maintenance::DSB_NSH);
        }
        tag as u16
    }

    /// CPU `cpu` runs no space any more: TTBR0 has ASID 0, and a root that maps nothing.
    pub fn leave(&self, cpu: usize) {
        self.0.with(|numbers| {
            if let Some(running) = numbers.cpus.get_mut(cpu) {
                running.tag = 0;
            }
        });
    }

    /// Rollovers so far.
    pub fn rollovers(&self) -> u64 {
        self.0.with(|numbers| (numbers.generation >> GENERATION_SHIFT) - 1)
    }
}

impl Numbers {
    fn switch(&mut self, cpu: usize, context: &Context) -> (u64, bool) {
        let old = context.tag();
        let mut tag = old;
        if old & !u64::from(u16::MAX) != self.generation {
            let is_running = old != 0 && self.cpus.iter().any(|running| running.tag == old);
            let number = if is_running { usize::from(old as u16) } else { self.number() };
            tag = self.generation | number as u64;
            context.set_tag(tag);
            self.cpus.iter_mut().filter(|running| old != 0 && running.tag == old).for_each(|running| running.tag = tag);
        }
        let Some(running) = self.cpus.get_mut(cpu) else { return (tag, true) };
        running.tag = tag;
        (tag, core::mem::take(&mut running.must_forget))
    }

    /// A number that no space has.
    fn number(&mut self) -> usize {
        if let Some(number) = self.find() {
            return number;
        }
        self.roll_over();
        // There are more numbers than CPUs.
        self.find().unwrap_or_default()
    }

    fn find(&mut self) -> Option<usize> {
        let words = self.taken.len();
        let word = (self.next / WORD_BITS..words).find(|&word| self.taken[word] != u64::MAX)?;
        let number = word * WORD_BITS + self.taken[word].trailing_ones() as usize;
        self.next = number;
        self.take(number);
        Some(number)
    }

    fn take(&mut self, number: usize) {
        self.taken[number / WORD_BITS] |= 1 << (number % WORD_BITS);
    }

    fn roll_over(&mut self) {
        self.generation += 1 << GENERATION_SHIFT;
        self.taken.fill(0);
        self.next = 0;
        self.take(0);
        for cpu in 0..self.cpus.len() {
            let tag = self.cpus[cpu].tag;
            self.take(usize::from(tag as u16));
            self.cpus[cpu].must_forget = true;
        }
    }
}
