//! Every kind of change, while hardware marks a leaf of it: between what is planned and what is stored, and behind that.

use machine::syndrome::AccessKind;
use pagetable::{Change, El1};
use vmsa::{LeafSize, Level, Stage1Attributes};

use super::Way;
use super::draft::Draft;
use super::resize::with;
use crate::levels::Levels;
use crate::scenario::Permit;

const PAGE: LeafSize = LeafSize::PAGE;
const GROUP: LeafSize = LeafSize::group(Level::L3);
const BLOCK: LeafSize = LeafSize::single(Level::L2);
const PAGES: (u64, LeafSize) = (4, PAGE);
const UNLICENSED: Way = (Permit::None, Levels::all(1));
/// By break-before-make, where CPUs would tolerate the nT protocol.
pub(super) const BROKEN: Way = (Permit::Break, Levels::all(1));
const NONE: Stage1Attributes = Stage1Attributes::empty();

/// Clean leaves whose marks hardware keeps. The last CPU's hardware marks page 1 as written while `change` is made.
fn draw(draft: &mut Draft, (pages, size): (u64, LeafSize), way: Way, change: impl Fn(&Draft, usize) -> Change<El1>) {
    let parameters = draft.parameters_mut();
    (parameters.hardware, parameters.bbm) = ((true, true), way.1);
    let region = draft.region(&[]);
    let clean = Stage1Attributes::DBM.union(Stage1Attributes::READ_ONLY);
    draft.begin_with(region, with(draft.map(region, 0..pages, size), clean));
    let last = draft.parameters().cpus - 1;
    draft.update(last, region, 1, AccessKind::Write);
    let change = change(draft, region);
    draft.edit(region, vec![change], way.0, &[1, 2]);
}

/// The kernel may execute it now: a change in place.
fn executable(draft: &Draft, region: usize, pages: std::ops::Range<u64>) -> Change<El1> {
    draft.protect(region, pages, NONE, Stage1Attributes::PXN)
}

fn hidden(draft: &Draft, region: usize) -> Change<El1> {
    Change::MakeInvalid { from: draft.range(region, 1..2) }
}

pub(super) fn protect_page(draft: &mut Draft) {
    draw(draft, PAGES, UNLICENSED, |draft, region| executable(draft, region, 1..2));
}

pub(super) fn hide_page(draft: &mut Draft) {
    draw(draft, PAGES, UNLICENSED, hidden);
}

pub(super) fn unmap_page(draft: &mut Draft) {
    draw(draft, PAGES, UNLICENSED, |draft, region| draft.unmap(region, 1..2));
}

pub(super) fn age_pages(draft: &mut Draft) {
    draw(draft, PAGES, UNLICENSED, |draft, region| Change::Age { from: draft.range(region, 0..2) });
}

pub(super) fn clean_pages(draft: &mut Draft) {
    draw(draft, PAGES, UNLICENSED, |draft, region| Change::Clean { from: draft.range(region, 0..2) });
}

pub(super) fn device(draft: &mut Draft) {
    let device = |draft: &Draft, region| draft.protect(region, 1..2, Stage1Attributes::memory(1), NONE);
    draw(draft, PAGES, BROKEN, device);
}

pub(super) fn remap(draft: &mut Draft) {
    draw(draft, PAGES, BROKEN, |draft, region| draft.remap(region, 1..2, PAGE, 7));
}

pub(super) fn protect_group(draft: &mut Draft) {
    let group = draft.group();
    draw(draft, (group, GROUP), BROKEN, |draft, region| executable(draft, region, 0..group));
}

pub(super) fn member(draft: &mut Draft, way: Way) {
    let group = draft.group();
    draw(draft, (group, GROUP), way, |draft, region| executable(draft, region, 2..3));
}

pub(super) fn part(draft: &mut Draft, way: Way) {
    let block = draft.block();
    draw(draft, (block, BLOCK), way, |draft, region| draft.unmap(region, 2..3));
}

pub(super) fn fold(draft: &mut Draft, way: Way) {
    let block = draft.block();
    draw(draft, (block, PAGE), way, |draft, region| draft.collapse(region, 0..block));
}
