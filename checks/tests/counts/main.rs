//! The counts of pages (`kerncore::counts`), the real code, in every order of the steps of two and three CPUs that share and release a folio,
//! parts of it and its pages, and take anew what is free. No page is free twice, none while somebody has it, and none is lost; whoever is
//! told to be alone is. What the words are relied on for is left out in turn, and missed.

mod explorer;
mod weak;

use std::sync::atomic::{AtomicU32, Ordering};

use explorer::{Ask, Cpu, System};
use kerncore::counts::{self, Counts};

/// What a CPU does: pages from one on, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    ShareRun(usize, usize),
    ReleaseRun(usize, usize),
    Share(usize),
    Release(usize),
    /// It asks whether it has a page alone.
    AskAlone(usize),
    /// If the folio of this order is free it takes that, and releases the last page, then the rest.
    Reuse(usize, u32),
}

use Step::{AskAlone, Release, ReleaseRun, Reuse, Share, ShareRun};

type Part = &'static [Step];

/// What is done with a folio of two pages: each beside each.
const OF_TWO: [Part; 6] = [
    &[ReleaseRun(0, 2), Reuse(0, 1)],
    &[ReleaseRun(0, 1), Reuse(0, 1), ReleaseRun(1, 1)],
    &[Release(1), AskAlone(0), Release(0)],
    &[ShareRun(0, 2), AskAlone(1), ReleaseRun(0, 2)],
    &[Share(0), Release(0), AskAlone(0), ReleaseRun(0, 2)],
    &[AskAlone(1), ShareRun(0, 2), Release(1)],
];

/// The same by three.
const BY_THREE: [[Part; 3]; 2] =
    [[&[ReleaseRun(0, 2)], &[Release(1)], &[Release(0)]], [&[ReleaseRun(0, 2)], &[Release(1)], &[AskAlone(1)]]];

/// With one of four, of which folios of two can be made.
const OF_FOUR: [[Part; 2]; 5] = [
    [&[ReleaseRun(0, 4), Reuse(0, 2)], &[AskAlone(3), ShareRun(0, 4), Release(2)]],
    [&[ReleaseRun(0, 4), Reuse(0, 2)], &[ShareRun(0, 4), ReleaseRun(0, 4), AskAlone(1), ReleaseRun(0, 4)]],
    [&[ReleaseRun(1, 2), AskAlone(0), ReleaseRun(0, 1), Reuse(2, 1)], &[Release(3), Release(0), ReleaseRun(1, 2)]],
    [&[ReleaseRun(0, 2), Reuse(0, 1)], &[ReleaseRun(1, 2), ReleaseRun(0, 1), Reuse(0, 1)]],
    [&[ReleaseRun(0, 2), Reuse(0, 1), ReleaseRun(2, 2)], &[ShareRun(2, 2), Release(1), ReleaseRun(2, 2), AskAlone(3)]],
];

/// What is wrong with the words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    None,
    /// Nobody sees that a folio dissolves.
    NoMark,
    /// Who is late is not told, and changes the word once more.
    LateChanges,
    /// Who is late takes what it meant to do for done.
    LateIsDone,
}

struct Word<'c> {
    cpu: &'c Cpu,
    page: usize,
    mistake: Mistake,
}

impl counts::Word for Word<'_> {
    fn load(&self, _: Ordering) -> u32 {
        self.cpu.ask(Ask::Load(self.page))
    }

    fn store(&self, value: u32, _: Ordering) {
        self.cpu.ask(Ask::Store(self.page, value));
    }

    fn exchange(&self, from: u32, to: u32, _: Ordering) -> bool {
        // The one bit by which a word changes when its folio begins to dissolve.
        const MARK: u32 = 1 << 29;
        let is_beginning = from ^ to == MARK;
        let exchange = |from, to| self.cpu.ask(Ask::Exchange(self.page, from, to)) != 0;
        match self.mistake {
            Mistake::NoMark if is_beginning => self.cpu.ask(Ask::Load(self.page)) == from,
            Mistake::NoMark => exchange(from & !MARK, to),
            Mistake::LateChanges => {
                self.cpu.ask(Ask::Store(self.page, to));
                true
            }
            Mistake::LateIsDone => exchange(from, to) || !is_beginning,
            _ => exchange(from, to),
        }
    }

    fn fetch_add(&self, value: u32, _: Ordering) -> u32 {
        self.cpu.ask(Ask::Add(self.page, value))
    }

    fn fetch_sub(&self, value: u32, _: Ordering) -> u32 {
        self.cpu.ask(Ask::Add(self.page, value.wrapping_neg()))
    }
}

fn with_counts(cpu: &Cpu, pages: usize, mistake: Mistake, body: impl FnOnce(&Counts<'_, Word<'_>>)) {
    let words: Vec<_> = (0..pages).map(|page| Word { cpu, page, mistake }).collect();
    body(&Counts::new(0, &words));
}

fn release_run(cpu: &Cpu, counts: &Counts<'_, Word<'_>>, first: usize, count: usize) {
    cpu.ask(Ask::Has(first, count, -1));
    counts.release_run(first..first + count, |free| _ = cpu.ask(Ask::Free(free.start, free.len())));
}

fn release(cpu: &Cpu, counts: &Counts<'_, Word<'_>>, page: usize) {
    cpu.ask(Ask::Has(page, 1, -1));
    if counts.release(page) {
        cpu.ask(Ask::Free(page, 1));
    }
}

fn make(cpu: &Cpu, counts: &Counts<'_, Word<'_>>, step: Step) {
    match step {
        ShareRun(first, count) => {
            counts.share_run(first..first + count);
            cpu.ask(Ask::Has(first, count, 1));
        }
        Share(page) => {
            counts.share(page);
            cpu.ask(Ask::Has(page, 1, 1));
        }
        ReleaseRun(first, count) => release_run(cpu, counts, first, count),
        Release(page) => release(cpu, counts, page),
        AskAlone(page) => {
            if counts.holders(page) == 1 {
                cpu.ask(Ask::Alone(page));
            }
        }
        Reuse(first, order) => {
            let count = 1 << order;
            if cpu.ask(Ask::Allocate(first, count)) != 0 {
                counts.take_folio(first, order);
                release(cpu, counts, first + count - 1);
                release_run(cpu, counts, first, count - 1);
            }
        }
    }
}

/// All pages are one folio at first, which each CPU has once.
fn explore(order: u32, parts: &[Part], mistake: Mistake) -> Result<usize, String> {
    let pages = 1 << order;
    let system = System {
        pages,
        cpus: parts.len(),
        boot: &|cpu| {
            with_counts(cpu, pages, mistake, |counts| {
                counts.take_folio(0, order);
                (1..parts.len()).for_each(|_| counts.share_run(0..pages));
            });
        },
        has: 1,
        run: &|cpu, this, first| {
            with_counts(cpu, pages, mistake, |counts| {
                for (number, step) in parts[this].iter().enumerate().skip(first) {
                    make(cpu, counts, *step);
                    cpu.ask(Ask::Begin(number + 1));
                }
            });
        },
        holders: &|words, page| {
            let words: Vec<_> = words.iter().copied().map(AtomicU32::new).collect();
            Counts::new(0, &words).holders(page)
        },
    };
    system.explore()
}

/// Nothing goes wrong; how many states there are.
fn right(order: u32, parts: &[Part]) -> usize {
    let states = explore(order, parts, Mistake::None).unwrap_or_else(|what| panic!("{parts:?}: {what}"));
    println!("{states} states: {parts:?}");
    states
}

fn pairs_of_two() -> impl Iterator<Item = [Part; 2]> {
    (0..OF_TWO.len()).flat_map(|one| (one..OF_TWO.len()).map(move |other| [OF_TWO[one], OF_TWO[other]]))
}

#[test]
fn two_lose_no_page_and_free_none_too_early() {
    let states = pairs_of_two().map(|parts| right(1, &parts)).sum::<usize>();
    let states_of_four = OF_FOUR.iter().map(|parts| right(2, parts)).sum::<usize>();
    assert!(states > 1_000 && states_of_four > 10_000, "{states} and {states_of_four} states");
}

#[test]
fn three_lose_no_page_and_free_none_too_early() {
    let states = BY_THREE.iter().map(|parts| right(1, parts)).sum::<usize>();
    assert!(states > 10_000, "{states} states");
}

#[test]
fn each_mistake_is_missed() {
    for mistake in [Mistake::NoMark, Mistake::LateChanges, Mistake::LateIsDone] {
        let of_two = pairs_of_two().find_map(|parts| explore(1, &parts, mistake).err());
        let caught = of_two.or_else(|| OF_FOUR.iter().find_map(|parts| explore(2, parts, mistake).err()));
        println!("{mistake:?}: {}", caught.unwrap_or_else(|| panic!("{mistake:?} is not noticed")));
    }
}
