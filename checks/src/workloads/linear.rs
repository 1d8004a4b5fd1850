//! What a kernel asks of its linear map, in place at level 3, in place where conflict aborts may come, or by one CPU in a window; others look, and their hardware marks.

use std::ops::Range;

use linearmap::{Context, Wanted};
use machine::syndrome::AccessKind;
use vmsa::{LeafSize, Level};

use super::draft::Draft;
use crate::levels::Levels;
use crate::parameters::Parameters;
use crate::setting::Setting;

const BLOCK: LeafSize = LeafSize::single(Level::L2);
const GROUP: LeafSize = LeafSize::group(Level::L3);
const BLOCK_GROUP: LeafSize = LeafSize::group(Level::L2);

/// In place.
pub(super) const EVERY_3: Levels = Levels::all(3);
/// In place, where conflict aborts may come.
pub(super) const EVERY_2: Levels = Levels::all(2);
/// CPUs that differ, some of which may raise conflict aborts.
pub(super) const MIXED: Levels = Levels::mixed([2, 3, 2, 3]);

/// A linear map is EL1's.
pub(super) fn at(draft: &mut Draft, levels: Levels) {
    let Parameters { cpus, page_size, tlb, ets, hardware, .. } = *draft.parameters();
    if draft.parameters().setting != Setting::El1 {
        *draft.parameters_mut() = Parameters { cpus, page_size, tlb, ets, hardware, ..Parameters::PLAIN };
    }
    draft.parameters_mut().bbm = levels;
}

/// A page of a region.
const fn page(number: u64) -> Range<u64> {
    number..number + 1
}

/// A list of pages becomes this one after the other; the editor looks at one page after each, the others at any time. Hardware of
/// the last CPU marks what it may.
fn wants(draft: &mut Draft, leaf: LeafSize, ranges: &[Range<u64>], wanted: &[Wanted]) -> usize {
    let pages = leaf.size_bytes(draft.parameters().page_size) >> draft.parameters().page_size.shift();
    let region = draft.region(&[(0..pages, leaf)]);
    for &wanted in wanted {
        draft.want(0, region, ranges, wanted);
        draft.read(0, region, ranges[0].start);
    }
    let last = draft.parameters().cpus - 1;
    draft.update(last, region, ranges[0].start, AccessKind::Write);
    draft.readers(region, &[ranges[0].start, ranges[0].end]);
    region
}

pub(super) fn read_only(draft: &mut Draft) {
    at(draft, EVERY_3);
    wants(draft, BLOCK, &[page(5)], &[Wanted::ReadOnly]);
}

pub(super) fn executable(draft: &mut Draft, levels: Levels) {
    at(draft, levels);
    wants(draft, GROUP, &[page(1)], &[Wanted::ReadOnlyExecutable]);
}

pub(super) fn hide(draft: &mut Draft, levels: Levels) {
    at(draft, levels);
    wants(draft, BLOCK, &[page(5)], &[Wanted::Hidden]);
}

pub(super) fn show(draft: &mut Draft) {
    at(draft, EVERY_3);
    wants(draft, GROUP, &[page(1)], &[Wanted::Hidden, Wanted::Shown]);
}

pub(super) fn default(draft: &mut Draft) {
    at(draft, EVERY_3);
    wants(draft, GROUP, &[page(1)], &[Wanted::ReadOnly, Wanted::Hidden, Wanted::Default]);
}

pub(super) fn list(draft: &mut Draft, levels: Levels) {
    at(draft, levels);
    let block = draft.block();
    wants(draft, BLOCK_GROUP, &[page(1), page(block + 3)], &[Wanted::Hidden]);
}

/// A block of hidden leaves, of which a page is shown.
pub(super) fn show_part(draft: &mut Draft) {
    at(draft, EVERY_3);
    let block = draft.block();
    let region = draft.region(&[(0..block, BLOCK)]);
    draft.want(0, region, std::slice::from_ref(&(0..block)), Wanted::Hidden);
    draft.want(0, region, &[page(5)], Wanted::Shown);
    draft.read(0, region, 5);
    draft.readers(region, &[5, 6]);
}

pub(super) fn atomic(draft: &mut Draft) {
    at(draft, EVERY_3);
    let region = draft.region(&[(0..draft.block(), BLOCK)]);
    for wanted in [Wanted::Hidden, Wanted::Shown] {
        draft.want_from(Context::Atomic, 0, region, &[page(5)], wanted);
        draft.read(0, region, 5);
    }
    draft.readers(region, &[5, 6]);
}

/// The same by one CPU, in windows.
pub(super) fn heal_alone(draft: &mut Draft) {
    draft.one_cpu();
    heal(draft, Levels::all(0));
}

/// A page of a block is protected and released, and the block is whole again.
pub(super) fn heal(draft: &mut Draft, levels: Levels) {
    at(draft, levels);
    let block = draft.block();
    let region = draft.region(&[(0..block, BLOCK)]);
    for wanted in [Wanted::ReadOnly, Wanted::Writable] {
        draft.want(0, region, &[page(5)], wanted);
        draft.read(0, region, 5);
    }
    draft.heal(0, region, 0..block);
    draft.read(0, region, 5);
    draft.readers(region, &[5, 6]);
}

/// Random wishes on every CPU, each in its own region, healing now and then.
pub(super) fn mixed(draft: &mut Draft) {
    let levels = if draft.seed.one_in(2) { EVERY_3 } else { MIXED };
    at(draft, levels);
    let (cpus, block, group) = (draft.parameters().cpus, draft.block(), draft.group());
    draft.set_pool(8 + 24 * cpus);
    let leaf = *draft.seed.pick(&[LeafSize::PAGE, GROUP, BLOCK]);
    let room = if leaf == BLOCK { block } else { group };
    let regions: Vec<usize> = (0..cpus).map(|_| draft.region(&[(0..room, leaf)])).collect();
    for cpu in 0..cpus {
        for _ in 0..1 + draft.seed.below(4) {
            let ranges: Vec<Range<u64>> = (0..1 + draft.seed.below(3)).map(|_| draw_range(draft, room)).collect();
            let wanted = *draft.seed.pick(&Wanted::ALL);
            draft.want(cpu, regions[cpu], &ranges, wanted);
            if draft.seed.one_in(3) {
                draft.heal(cpu, regions[cpu], 0..room);
            }
            let (region, page) = (*draft.seed.pick(&regions), draft.seed.below(room));
            let kind = *draft.seed.pick(&[AccessKind::Read, AccessKind::Write, AccessKind::Fetch]);
            draft.synchronize(cpu);
            draft.access(cpu, region, page, kind);
        }
    }
}

/// A page, a few, or all that there are.
fn draw_range(draft: &mut Draft, room: u64) -> Range<u64> {
    let start = draft.seed.below(room);
    match draft.seed.below(4) {
        0 => 0..room,
        1 => start..(start + 1 + draft.seed.below(5)).min(room),
        _ => start..start + 1,
    }
}
