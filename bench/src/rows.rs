//! The rows: what each prepares, measures and checks, the same code for every contender.

use std::fmt;
use std::hint::black_box;
use std::mem::ManuallyDrop;

use seed::{Seed, mix};
use vmsa::{Level, PageSize};

use crate::case::{Case, Row};
use crate::contender::Contender;
use crate::memory::{frames_in_use, reserve_arena};
use crate::region::bench_measured_region;

const GIB: u64 = 1 << 30;
/// Where the mapped range starts, and where it leads.
pub(crate) const INPUT: u64 = 1 << 39;
pub(crate) const OUTPUT: u64 = 1 << 41;
/// The seed of every random address.
const SEED: u64 = 6;

/// How much is done: what the table tells, or a little of everything, for a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scale {
    /// Bytes mapped by blocks, for the rows that map or unmap blocks.
    blocks: u64,
    /// Bytes mapped by pages.
    pages: u64,
    /// Bytes in which random pages are protected.
    pub(crate) protected: u64,
    /// How many random pages.
    pub(crate) changes: usize,
    /// How many random addresses are translated.
    translations: usize,
}

impl Scale {
    /// The scale of the table.
    pub(crate) const FULL: Self =
        Self { blocks: 256 * GIB, pages: GIB, protected: 64 * GIB, changes: 10_000, translations: 100_000 };
    /// The scale of a test.
    pub(crate) const QUICK: Self =
        Self { blocks: 4 * GIB, pages: 1 << 26, protected: GIB, changes: 40, translations: 100 };
}

/// What a run tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    /// Leaves, pages, changes or translations in the measured region.
    pub(crate) units: u64,
    /// Addresses that were found mapped afterwards, and all that was found, mixed.
    pub(crate) found: u64,
    pub(crate) checksum: u64,
    /// Frames that hold tables afterwards.
    pub(crate) frames: u64,
    /// TLBIs in the measured region.
    pub(crate) tlbis: u64,
}

impl Outcome {
    /// Reads what [`Outcome`] displays.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let [units, found, checksum, frames, tlbis] = words[..] else { return None };
        let number = |word: &str| word.parse().ok();
        let checksum = u64::from_str_radix(checksum, 16).ok()?;
        let (units, found) = (number(units)?, number(found)?);
        Some(Self { units, found, checksum, frames: number(frames)?, tlbis: number(tlbis)? })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { units, found, checksum, frames, tlbis } = self;
        write!(f, "{units} {found} {checksum:x} {frames} {tlbis}")
    }
}

/// `count` random addresses of a range of `bytes`, at multiples of `step`.
pub(crate) fn addresses(count: usize, bytes: u64, step: u64) -> Vec<u64> {
    let mut random = Seed::new(SEED);
    (0..count).map(|_| INPUT + random.bits() % (bytes / step) * step).collect()
}

/// A contender at work on one case.
struct Bench<C> {
    contender: C,
    page: u64,
    block: u64,
    largest: u64,
    scale: Scale,
    /// Addresses that are looked up afterwards.
    probes: Vec<u64>,
}

/// Runs a case with one contender.
pub(crate) fn run<C: Contender>(case: Case, scale: Scale) -> Outcome {
    reserve_arena();
    let size = case.page_size;
    let block = 1 << size.level_shift(Level::L2);
    let largest = if size == PageSize::Size4K { GIB } else { block };
    let contender = C::new();
    let probes = Vec::new();
    // What is left of the page table goes with the process: one peer panics when a live one is dropped.
    let mut bench = ManuallyDrop::new(Bench { contender, page: size.size_bytes(), block, largest, scale, probes });
    let mut translated = 0;
    let (units, tlbis) = bench.row(case.row, &mut translated);
    let mut outcome = Outcome { units, found: 0, checksum: translated, frames: frames_in_use(), tlbis };
    for &probe in &bench.probes {
        let found = bench.contender.find(probe);
        outcome.found += u64::from(found.is_some());
        let bits = found.map_or(0, |found| found.output << 1 | u64::from(found.is_read_only));
        outcome.checksum ^= mix(probe ^ mix(bits));
    }
    outcome
}

impl<C: Contender> Bench<C> {
    /// Prepares, measures, and leaves probes for the check. Units, and the TLBIs of the measured region.
    fn row(&mut self, row: Row, translated: &mut u64) -> (u64, u64) {
        let Self { page, block, largest, scale, .. } = *self;
        match row {
            Row::MapLargest => self.map(scale.blocks, largest),
            Row::MapBlock => self.map(scale.blocks, block),
            Row::MapPage => self.map(scale.pages, page),
            Row::ProtectSplit => {
                self.contender.map(INPUT, scale.protected, OUTPUT, largest);
                self.protect(true)
            }
            Row::ProtectPage => {
                self.contender.map(INPUT, scale.protected, OUTPUT, if C::SPLITS { largest } else { page });
                self.pages().iter().for_each(|&page| self.contender.protect(page, true));
                self.protect(false)
            }
            Row::TranslateLargest => {
                self.contender.map(INPUT, scale.blocks, OUTPUT, largest);
                self.translate(scale.blocks, translated)
            }
            Row::TranslateSplit => {
                self.contender.map(INPUT, scale.protected, OUTPUT, largest);
                self.pages().iter().for_each(|&page| self.contender.protect(page, true));
                self.translate(scale.protected, translated)
            }
            Row::TranslatePage => {
                self.contender.map(INPUT, scale.pages, self.output(page), page);
                self.translate(scale.pages, translated)
            }
            Row::UnmapSplit => {
                self.contender.map(INPUT, scale.protected, OUTPUT, largest);
                let before = frames_in_use();
                self.pages().iter().for_each(|&page| self.contender.protect(page, true));
                let made_by_splits = frames_in_use() - before;
                (made_by_splits, self.unmap_all(scale.protected, largest))
            }
            Row::ProtectList => {
                self.contender.map(INPUT, scale.protected, OUTPUT, if C::SPLITS { largest } else { page });
                self.pages().iter().for_each(|&page| self.contender.protect(page, true));
                let mut pages = self.pages();
                pages.sort_unstable();
                pages.dedup();
                let pages = black_box(pages);
                self.probes = self.around(&pages);
                (pages.len() as u64, self.measure(|contender| contender.protect_list(&pages, false)))
            }
            Row::LinearPage | Row::LinearHidden | Row::LinearBlock => unreachable!("{} runs by itself", row.name()),
            Row::UnmapLargest => self.unmap(scale.blocks, largest),
            Row::UnmapPage => self.unmap(scale.pages, page),
            Row::Collapse => {
                self.contender.map(INPUT, scale.protected, OUTPUT, largest);
                self.pages().iter().for_each(|&page| self.contender.protect(page, true));
                self.pages().iter().for_each(|&page| self.contender.protect(page, false));
                self.collapse()
            }
        }
    }

    /// Where a range leads that is mapped by leaves of `leaf` bytes, so that larger ones do not fit.
    fn output(&self, leaf: u64) -> u64 {
        OUTPUT + leaf % self.largest
    }

    fn pages(&self) -> Vec<u64> {
        addresses(self.scale.changes, self.scale.protected, self.page)
    }

    /// The TLBIs of what is measured.
    fn measure(&mut self, mut work: impl FnMut(&mut C)) -> u64 {
        let before = self.contender.tlbis();
        let contender = &mut self.contender;
        bench_measured_region(&mut || work(contender));
        self.contender.tlbis() - before
    }

    fn map(&mut self, bytes: u64, leaf: u64) -> (u64, u64) {
        self.probes = (0..=bytes / leaf).map(|number| INPUT + number * leaf).collect();
        let output = self.output(leaf);
        let tlbis = self.measure(|contender| {
            let (input, bytes, output, leaf) = black_box((INPUT, bytes, output, leaf));
            contender.map(input, bytes, output, leaf);
        });
        (bytes / leaf, tlbis)
    }

    fn unmap(&mut self, bytes: u64, leaf: u64) -> (u64, u64) {
        self.contender.map(INPUT, bytes, self.output(leaf), leaf);
        (bytes / leaf, self.unmap_all(bytes, leaf))
    }

    fn unmap_all(&mut self, bytes: u64, leaf: u64) -> u64 {
        self.probes = (0..bytes / leaf).map(|number| INPUT + number * leaf).collect();
        self.measure(|contender| {
            let (input, bytes, leaf) = black_box((INPUT, bytes, leaf));
            contender.unmap(input, bytes, leaf);
        })
    }

    fn protect(&mut self, is_read_only: bool) -> (u64, u64) {
        let pages = black_box(self.pages());
        self.probes = self.around(&pages);
        let tlbis = self.measure(|contender| {
            for &page in &pages {
                contender.protect(page, is_read_only);
            }
        });
        (pages.len() as u64, tlbis)
    }

    fn collapse(&mut self) -> (u64, u64) {
        let pages = self.pages();
        self.probes = self.around(&pages);
        let bytes = self.scale.protected;
        let tlbis = self.measure(|contender| {
            let (input, bytes) = black_box((INPUT, bytes));
            contender.collapse(input, bytes);
        });
        (pages.len() as u64, tlbis)
    }

    /// The pages, and their neighbours on both sides.
    fn around(&self, pages: &[u64]) -> Vec<u64> {
        pages.iter().flat_map(|&page| [page - self.page, page, page + self.page]).collect()
    }

    fn translate(&mut self, bytes: u64, translated: &mut u64) -> (u64, u64) {
        let inputs = black_box(addresses(self.scale.translations, bytes, 8));
        let tlbis = self.measure(|contender| {
            *translated = contender.translate(&inputs);
        });
        (inputs.len() as u64, tlbis)
    }
}
