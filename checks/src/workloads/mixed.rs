//! Random changes: every CPU edits a region of its own and looks at all of them.

use machine::syndrome::AccessKind;
use pagetable::{Change, El1};
use vmsa::{LeafSize, Level, Stage1Attributes};

use super::draft::Draft;
use crate::scenario::Permit;

/// What a protect plays with: attributes that change in place, and memory types, for which only break-before-make will do.
const PLAYED: [Stage1Attributes; 6] = [
    Stage1Attributes::READ_ONLY,
    Stage1Attributes::USER,
    Stage1Attributes::PXN,
    Stage1Attributes::UXN,
    Stage1Attributes::memory(1),
    Stage1Attributes::memory(2),
];
const IN_PLACE: &[Stage1Attributes] = PLAYED.split_at(4).0;

pub(super) fn draw(draft: &mut Draft) {
    let cpus = draft.parameters().cpus;
    draft.set_pool(8 + 24 * cpus);
    draft.is_near = draft.seed.one_in(3);
    let regions: Vec<usize> = (0..cpus).map(|_| draw_region(draft)).collect();
    for cpu in 0..cpus {
        for _ in 0..1 + draft.seed.below(3) {
            draw_edit(draft, cpu, regions[cpu]);
            for _ in 0..1 + draft.seed.below(4) {
                let region = *draft.seed.pick(&regions);
                draw_access(draft, cpu, region);
            }
        }
    }
}

/// Pages that a region may hold: where regions are near each other, a contiguous group is all there is.
fn room(draft: &Draft) -> u64 {
    if draft.is_near { draft.group() } else { 2 * draft.block() }
}

fn draw_region(draft: &mut Draft) -> usize {
    let (room, block, group) = (room(draft), draft.block(), draft.group());
    let sizes = [LeafSize::PAGE, LeafSize::group(Level::L3), LeafSize::single(Level::L2)];
    let largest = *draft.seed.pick(&sizes);
    // Many small leaves take many stores: they come up where they are few.
    let pages = match largest.level {
        Level::L2 if room >= block => block,
        _ => *draft.seed.pick(&[1, 3, group]),
    };
    let start = if largest.level == Level::L2 { 0 } else { draft.seed.below(2) * group.min(room - pages.min(room)) };
    draft.region(&[(start..(start + pages).min(room), largest)])
}

fn draw_pages(draft: &mut Draft) -> (u64, u64) {
    let room = room(draft);
    let units = [1, 1, 1, draft.group(), draft.block()];
    let unit = (*draft.seed.pick(&units)).min(room);
    let count = 1 + draft.seed.below(if unit == 1 { 5 } else { 1 });
    let start = draft.seed.below(2 * draft.group().min(room)).min(room - 1) / unit * unit;
    (start, (start + count * unit).min(room))
}

fn draw_edit(draft: &mut Draft, cpu: usize, region: usize) {
    let mut batches = 1 + draft.seed.below(2);
    while batches > 0 {
        let count = 1 + draft.seed.below(3);
        let permit = *draft.seed.pick(&[Permit::Break, Permit::Break, Permit::Tolerated, Permit::NotCached]);
        // Changes of one list may not meet.
        let (mut changes, mut end): (Vec<Change<El1>>, u64) = (Vec::new(), 0);
        for _ in 0..count {
            let (from, to) = draw_pages(draft);
            if from >= end {
                changes.push(draw_change(draft, region, (from, to), permit));
                end = to;
            }
        }
        if !changes.is_empty() {
            draft.change_by(permit, cpu, region, changes);
        }
        batches -= 1;
    }
    draft.finish(cpu);
}

fn draw_change(draft: &mut Draft, region: usize, (from, to): (u64, u64), permit: Permit) -> Change<El1> {
    let sizes = [LeafSize::PAGE, LeafSize::group(Level::L3), LeafSize::single(Level::L2)];
    let largest = *draft.seed.pick(&sizes);
    let can_break = permit == Permit::Break;
    let range = draft.range(region, from..to);
    match draft.seed.below(14) {
        0..=1 => draft.map_to(region, from..to, largest, draft.group()),
        2 => draft.map(region, from..to, largest),
        3 if can_break => draft.remap(region, from..to, largest, 2 * draft.group()),
        3..=5 => {
            let played = if can_break { &PLAYED[..] } else { IN_PLACE };
            let (set, clear) = (*draft.seed.pick(played), *draft.seed.pick(played));
            draft.protect(region, from..to, set, clear)
        }
        6..=7 => draft.unmap(region, from..to),
        8 => Change::MakeInvalid { from: range },
        9 => Change::MakeValid { from: range },
        10 => Change::Age { from: range },
        11 => Change::SplitToPages { from: range },
        12 => Change::Collapse { from: range },
        _ => draft.split(region, from),
    }
}

fn draw_access(draft: &mut Draft, cpu: usize, region: usize) {
    let page = draft.seed.below(room(draft).min(2 * draft.group()));
    if draft.seed.one_in(2) {
        draft.synchronize(cpu);
    }
    let kind = *draft.seed.pick(&[AccessKind::Read, AccessKind::Write, AccessKind::Fetch]);
    draft.access(cpu, region, page, kind);
}
