//! The orderings of the counts' accesses: two CPUs in the orders that loom knows of weak memory. A page is a cell, which panics where
//! nothing orders what the CPUs do with it. Each ordering that is left out is missed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kerncore::counts::{self, Counts};
use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicU32,
    Ordering::{self, AcqRel, Acquire, Relaxed, Release},
};
use loom::thread;

/// An ordering that the words do not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Weak {
    None,
    /// Who finds that it has a page alone, or releases the last of it, does not acquire what others did,
    Load,
    /// or others do not release that: by pages,
    Sub,
    /// by folios,
    Exchange,
    /// or who makes a folio dissolve does not hand on what it found so.
    Dissolve,
}

struct Word(AtomicU32, Weak);

impl Word {
    fn order(&self, weak: Weak, order: Ordering) -> Ordering {
        if self.1 == weak { Relaxed } else { order }
    }
}

impl counts::Word for Word {
    fn load(&self, order: Ordering) -> u32 {
        self.0.load(self.order(Weak::Load, order))
    }

    fn store(&self, value: u32, order: Ordering) {
        self.0.store(value, order);
    }

    fn exchange(&self, from: u32, to: u32, order: Ordering) -> bool {
        let order = match order {
            AcqRel => self.order(Weak::Exchange, order),
            Acquire | Release => self.order(Weak::Dissolve, order),
            _ => order,
        };
        self.0.compare_exchange(from, to, order, Relaxed).is_ok()
    }

    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_add(value, order)
    }

    fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_sub(value, self.order(Weak::Sub, order))
    }
}

/// What a CPU does with a folio of two pages that both have.
#[derive(Clone, Copy, Debug)]
enum Part {
    ReleaseRun,
    ByPages,
    WriteIfAlone,
}

use Part::{ByPages, ReleaseRun, WriteIfAlone};

struct Memory {
    words: [Word; 2],
    pages: [UnsafeCell<()>; 2],
}

impl Memory {
    fn read(&self, page: usize) {
        self.pages[page].with(|_| ());
    }

    /// As the next does who gets the page.
    fn write(&self, page: usize) {
        self.pages[page].with_mut(|_| ());
    }

    fn run(&self, part: Part) {
        let counts = Counts::new(0, &self.words);
        (0..2).for_each(|page| self.read(page));
        let release = |page| {
            if counts.release(page) {
                self.write(page);
            }
        };
        match part {
            ReleaseRun => counts.release_run(0..2, |free| free.for_each(|page| self.write(page))),
            ByPages => [1, 0].into_iter().for_each(release),
            WriteIfAlone => {
                if counts.holders(1) == 1 {
                    self.write(1);
                }
                release(0);
            }
        }
    }
}

fn explore(parts: [Part; 2], weak: Weak) {
    // Of all orders there are too many: those with three preemptions at most.
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let words = [Word(AtomicU32::new(0), weak), Word(AtomicU32::new(0), weak)];
        let memory = Arc::new(Memory { words, pages: [UnsafeCell::new(()), UnsafeCell::new(())] });
        let counts = Counts::new(0, &memory.words);
        counts.take_folio(0, 1);
        counts.share_run(0..2);
        let other = Arc::clone(&memory);
        let thread = thread::spawn(move || other.run(parts[1]));
        memory.run(parts[0]);
        thread.join().expect("a CPU comes to its end");
    });
}

const PAIRS: [[Part; 2]; 5] = [
    [ReleaseRun, ReleaseRun],
    [ReleaseRun, ByPages],
    [ByPages, ByPages],
    [WriteIfAlone, ReleaseRun],
    [WriteIfAlone, ByPages],
];

#[test]
fn who_had_a_page_is_done_before_another_writes_it() {
    for parts in PAIRS {
        explore(parts, Weak::None);
    }
}

#[test]
fn each_ordering_is_missed() {
    // Who looks again finds what was there before, and takes itself for one who does not have the page.
    const STALE: &str = "who shares or releases a page has it";
    let unordered = "Causality violation";
    for (weak, expected) in
        [(Weak::Load, STALE), (Weak::Sub, unordered), (Weak::Exchange, unordered), (Weak::Dissolve, STALE)]
    {
        let found = PAIRS.iter().find_map(|parts| {
            let what = catch_unwind(AssertUnwindSafe(|| explore(*parts, weak))).err()?;
            let text = what.downcast_ref::<&str>().map(|text| (*text).to_owned());
            Some(what.downcast::<String>().map_or(text, |text| Some(*text)).unwrap_or_default())
        });
        let found = found.unwrap_or_else(|| panic!("{weak:?} is not noticed"));
        // Any other panic, such as loom's own at its limits, says nothing of the ordering.
        assert!(found.contains(expected), "{weak:?}: {found}");
    }
}
