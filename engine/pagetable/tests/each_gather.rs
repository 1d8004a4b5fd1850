//! What one gather does for many plans, beside what it did when somebody last looked (`recorded/each_gather.txt`): as many ranges and
//! tables as fit, one less and one more, and then a change that meets one of them, lies between two, or stands beside.

use crate::common;

use std::ops::Range;

use common::told::Told;
use common::{DATA, MIB, shape};
use seed::Seed;
use vellum_pagetable::{Change, El1, Gather, HardwareUpdates, Licence, PageTable, Reserve, Scope, TlbFeatures};
use vellum_vmsa::{AddressHalf, Granule4K, LeafSize, PhysAddr, Stage1Attributes, VirtAddr};

const PAGE: u64 = 0x1000;
const NONE: Stage1Attributes = Stage1Attributes::empty();
/// How many things one gather is given: around eight ranges, sixteen tables and 512 TLBIs.
const COUNTS: [u64; 15] = [1, 2, 7, 8, 9, 10, 15, 16, 17, 18, 33, 511, 512, 513, 530];

/// A page table whose changes are told, with what it has to build with.
struct Run<'m> {
    told: &'m Told,
    table: PageTable<'m, Granule4K, El1, Told>,
    reserve: Reserve,
    gather: Gather<Granule4K, El1>,
    base: u64,
}

impl<'m> Run<'m> {
    /// Live, with `bytes` mapped by pages, beneath the middle of the half.
    fn new(told: &'m Told, half: AddressHalf, bytes: u64) -> Self {
        let geometry = shape(48, half);
        let tlb = TlbFeatures { range: false, level_hints: true, repeat: false };
        let regime = El1 { scope: Scope::Global, tlb, hardware_updates: HardwareUpdates::None };
        let mut reserve = Reserve::new();
        told.supply::<Granule4K>(&mut reserve, 1);
        let table = PageTable::offline(told, geometry, regime, &mut reserve).unwrap();
        let (gather, base) = (table.gather(), geometry.base() + (1 << 46));
        let mut run = Self { told, table, reserve, gather, base };
        run.change(&[run.map(0, bytes)], None);
        run.table = run.table.publish();
        run
    }

    fn range(&self, start: u64, bytes: u64) -> Range<VirtAddr> {
        let start = self.base.wrapping_add(start);
        VirtAddr::new(start)..VirtAddr::new(start.wrapping_add(bytes))
    }

    fn map(&self, start: u64, bytes: u64) -> Change<El1> {
        let (from, to) = (self.range(start, bytes), PhysAddr::new(start));
        Change::Map { from, to, attributes: DATA, largest: LeafSize::PAGE }
    }

    fn protect(&self, start: u64, bytes: u64) -> Change<El1> {
        Change::ProtectSparse { from: self.range(start, bytes), set: Stage1Attributes::READ_ONLY, clear: NONE }
    }

    /// One plan, whose stores and TLBIs wait in the gather.
    fn change(&mut self, changes: &[Change<El1>], licence: Option<&Licence<'_>>) {
        let mut plan = self.table.plan(changes, licence).unwrap();
        self.told.supply::<Granule4K>(&mut self.reserve, plan.tables_needed());
        plan.apply(&mut self.reserve, &mut self.gather).unwrap();
        self.told.tell(&[8, self.gather.issued() as u64]);
    }

    fn finish(&mut self) {
        let mut retired = self.gather.finish(self.told);
        self.told.tell(&[9, self.gather.issued() as u64, retired.count() as u64]);
        while let Some(table) = retired.take(self.told) {
            self.told.tell(&[table.bits()]);
        }
    }
}

/// What a run did, as a line.
fn line(name: &str, told: Told) -> String {
    let (digest, [_, stores, _, operations]) = told.into_counts();
    format!("{name}: {digest:016x} stores={stores} operations={operations}")
}

/// Every second of `count` pages changes, by one plan each or by one list; then a page that starts so many pages from the first.
fn scattered(lines: &mut Vec<String>, half: AddressHalf) {
    for count in COUNTS {
        let last = 2 * count - 2;
        for is_list in [false, true] {
            for next in [0, 1, last.saturating_sub(2), last.saturating_sub(1), last, last + 1, last + 2] {
                let told = Told::new(Seed::new(1));
                let mut run = Run::new(&told, half, 4 * MIB + 256 * PAGE);
                let first = 8;
                let mut changes: Vec<_> = (0..count).map(|page| run.protect((first + 2 * page) * PAGE, PAGE)).collect();
                if next == 1 {
                    // As many TLBIs as no whole rounds of eight are.
                    changes[0] = run.protect((first - 7) * PAGE, 8 * PAGE);
                }
                match is_list {
                    true => run.change(&changes, None),
                    false => changes.iter().for_each(|one| run.change(std::slice::from_ref(one), None)),
                }
                // A change of nothing meets nothing.
                run.change(&[run.protect((first - 3) * PAGE, 0)], None);
                let meeting = Change::UnmapMapped { from: run.range((first + next) * PAGE, PAGE) };
                run.change(&[meeting, Change::Age { from: run.range(0, PAGE) }], None);
                run.change(&[Change::Age { from: run.range(PAGE, PAGE) }], None);
                run.finish();
                // The next begins to count anew.
                for change in &mut changes {
                    let Change::ProtectSparse { set, clear, .. } = change else { continue };
                    std::mem::swap(set, clear);
                }
                changes.iter().for_each(|one| run.change(std::slice::from_ref(one), None));
                run.finish();
                lines.push(line(&format!("{half:?} {count} pages, list: {is_list}, then {next}"), told));
            }
        }
    }
}

/// Every second of `count` tables is unlinked; then something is made in the place of one, or beside.
fn unlinked(lines: &mut Vec<String>, half: AddressHalf) {
    for count in COUNTS.into_iter().filter(|count| *count < 40) {
        for next in [0, 1, 2 * count - 2, 2 * count - 1] {
            let told = Told::new(Seed::new(1));
            let mut run = Run::new(&told, half, 2 * count * 2 * MIB);
            for table in 0..count {
                run.change(&[Change::Unmap { from: run.range(2 * table * 2 * MIB, 2 * MIB) }], None);
            }
            let from = run.range(next * 2 * MIB + 5 * PAGE, PAGE);
            let (to, attributes, largest) = (PhysAddr::new(0), DATA, LeafSize::PAGE);
            let change = if next % 2 == 0 {
                Change::Map { from, to, attributes, largest }
            } else {
                Change::Protect { from, set: Stage1Attributes::READ_ONLY, clear: NONE }
            };
            run.change(&[change], None);
            run.finish();
            lines.push(line(&format!("{half:?} {count} tables, then {next}"), told));
        }
    }
}

/// Blocks split, and pages of theirs and beside them change in the same gather.
fn resized(lines: &mut Vec<String>, half: AddressHalf) {
    common::each_licence(|licence| {
        for pages in [[0, 1], [1, 0], [511, 512], [512, 511], [0, 1024], [1024, 0], [700, 300]] {
            for after in [0, 1, 511, 512, 513, 1023, 1024, 1500] {
                let told = Told::new(Seed::new(1));
                let mut run = Run::new(&told, half, 0);
                let block = |run: &Run<'_>, number: u64| Change::Map {
                    from: run.range(number * 2 * MIB, 2 * MIB),
                    to: PhysAddr::new(number * 2 * MIB),
                    attributes: DATA,
                    largest: LeafSize::single(vellum_vmsa::Level::L2),
                };
                (0..3).for_each(|number| run.change(&[block(&run, number)], None));
                run.finish();
                for page in pages {
                    run.change(&[run.protect(page * PAGE, PAGE)], Some(licence));
                }
                run.change(&[run.protect(after * PAGE, 2 * PAGE)], Some(licence));
                // All alike again: the first block folds where TLBs have yet to forget its pages, and the second where they have.
                let (from, clear) = (run.range(0, 6 * MIB), Stage1Attributes::READ_ONLY);
                run.change(&[Change::Protect { from, set: NONE, clear }], Some(licence));
                let within = run.range(0, 8 * MIB);
                run.table.fold_up(run.range(0, PAGE).start, &within, Some(licence), &mut run.gather);
                run.finish();
                run.change(&[run.protect(4 * MIB, PAGE)], Some(licence));
                run.table.fold_up(run.range(2 * MIB, PAGE).start, &within, Some(licence), &mut run.gather);
                run.finish();
                lines.push(line(&format!("{half:?} blocks split for {pages:?}, then {after}"), told));
            }
        }
    });
}

#[test]
fn each_gather_forgets_what_it_did() {
    let mut lines = Vec::new();
    for half in [AddressHalf::Lower, AddressHalf::Upper] {
        scattered(&mut lines, half);
        unlinked(&mut lines, half);
        resized(&mut lines, half);
    }
    common::recorded::compare("each_gather", &lines);
}
