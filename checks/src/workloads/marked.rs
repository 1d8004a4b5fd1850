//! Every kind of change, while hardware marks a leaf of it: between what is planned and what is stored, and behind that.

use machine::syndrome::AccessKind;
use pagetable::{Change, El1};
use vmsa::{LeafSize, Level, Stage1Attributes};

use super::draft::Draft;
use super::resize::with;
use crate::levels::Levels;
use crate::scenario::Permit;

const PAGE: LeafSize = LeafSize::PAGE;
const GROUP: LeafSize = LeafSize::group(Level::L3);
const BLOCK: LeafSize = LeafSize::single(Level::L2);
const NONE: Stage1Attributes = Stage1Attributes::empty();

/// The leaves of `pages` that a change is about, and how it is made.
struct Case {
    pages: u64,
    size: LeafSize,
    permit: Permit,
    bbm: Levels,
}

impl Case {
    fn new(pages: u64, size: LeafSize, permit: Permit) -> Self {
        Self { pages, size, permit, bbm: Levels::all(if permit == Permit::Tolerated { 3 } else { 1 }) }
    }

    /// The same on CPUs that may raise conflict aborts while a leaf changes size.
    fn abrupt(self) -> Self {
        Self { bbm: Levels::all(2), ..self }
    }

    /// Clean leaves whose marks hardware keeps. The last CPU's hardware marks page 1 as written while `change` is made.
    fn draw(self, draft: &mut Draft, change: impl Fn(&Draft, usize) -> Change<El1>) {
        let parameters = draft.parameters_mut();
        (parameters.hardware, parameters.bbm) = ((true, true), self.bbm);
        let region = draft.region(&[]);
        let clean = Stage1Attributes::DBM.union(Stage1Attributes::READ_ONLY);
        draft.begin_with(region, with(draft.map(region, 0..self.pages, self.size), clean));
        let last = draft.parameters().cpus - 1;
        draft.update(last, region, 1, AccessKind::Write);
        let change = change(draft, region);
        draft.edit(region, vec![change], self.permit, &[1, 2]);
    }
}

/// The kernel may execute it now: a change in place.
fn executable(draft: &Draft, region: usize, pages: std::ops::Range<u64>) -> Change<El1> {
    draft.protect(region, pages, NONE, Stage1Attributes::PXN)
}

fn hidden(draft: &Draft, region: usize) -> Change<El1> {
    Change::MakeInvalid { from: draft.range(region, 1..2) }
}

pub(super) fn protect_page(draft: &mut Draft) {
    Case::new(4, PAGE, Permit::None).draw(draft, |draft, region| executable(draft, region, 1..2));
}

pub(super) fn protect_page_at_once(draft: &mut Draft) {
    draft.take_shortcuts();
    protect_page(draft);
}

pub(super) fn hide_page(draft: &mut Draft) {
    Case::new(4, PAGE, Permit::None).draw(draft, hidden);
}

pub(super) fn hide_page_at_once(draft: &mut Draft) {
    draft.take_shortcuts();
    hide_page(draft);
}

pub(super) fn unmap_page(draft: &mut Draft) {
    Case::new(4, PAGE, Permit::None).draw(draft, |draft, region| draft.unmap(region, 1..2));
}

pub(super) fn age_pages(draft: &mut Draft) {
    Case::new(4, PAGE, Permit::None).draw(draft, |draft, region| Change::Age { from: draft.range(region, 0..2) });
}

pub(super) fn clean_pages(draft: &mut Draft) {
    Case::new(4, PAGE, Permit::None).draw(draft, |draft, region| Change::Clean { from: draft.range(region, 0..2) });
}

pub(super) fn device(draft: &mut Draft) {
    let device = |draft: &Draft, region| draft.protect(region, 1..2, Stage1Attributes::memory(1), NONE);
    Case::new(4, PAGE, Permit::Break).draw(draft, device);
}

pub(super) fn remap(draft: &mut Draft) {
    Case::new(4, PAGE, Permit::Break).draw(draft, |draft, region| draft.remap(region, 1..2, PAGE, 7));
}

pub(super) fn protect_group(draft: &mut Draft) {
    let group = draft.group();
    Case::new(group, GROUP, Permit::Break).draw(draft, |draft, region| executable(draft, region, 0..group));
}

pub(super) fn protect_member(draft: &mut Draft) {
    member(draft, Permit::Break);
}

pub(super) fn protect_member_in_place(draft: &mut Draft) {
    member(draft, Permit::Tolerated);
}

pub(super) fn protect_member_not_cached(draft: &mut Draft) {
    member(draft, Permit::NotCached);
}

pub(super) fn protect_member_abruptly(draft: &mut Draft) {
    Case::new(draft.group(), GROUP, Permit::Tolerated)
        .abrupt()
        .draw(draft, |draft, region| executable(draft, region, 2..3));
}

fn member(draft: &mut Draft, permit: Permit) {
    Case::new(draft.group(), GROUP, permit).draw(draft, |draft, region| executable(draft, region, 2..3));
}

pub(super) fn unmap_part(draft: &mut Draft) {
    part(draft, Permit::Break);
}

pub(super) fn unmap_part_in_place(draft: &mut Draft) {
    part(draft, Permit::Tolerated);
}

pub(super) fn unmap_part_not_cached(draft: &mut Draft) {
    part(draft, Permit::NotCached);
}

pub(super) fn unmap_part_abruptly(draft: &mut Draft) {
    Case::new(draft.block(), BLOCK, Permit::Tolerated).abrupt().draw(draft, |draft, region| draft.unmap(region, 2..3));
}

fn part(draft: &mut Draft, permit: Permit) {
    Case::new(draft.block(), BLOCK, permit).draw(draft, |draft, region| draft.unmap(region, 2..3));
}

pub(super) fn fold_in_place(draft: &mut Draft) {
    fold(draft, Permit::Tolerated);
}

pub(super) fn fold_not_cached(draft: &mut Draft) {
    fold(draft, Permit::NotCached);
}

pub(super) fn fold_abruptly(draft: &mut Draft) {
    let block = draft.block();
    Case::new(block, PAGE, Permit::Tolerated).abrupt().draw(draft, |draft, region| draft.collapse(region, 0..block));
}

fn fold(draft: &mut Draft, permit: Permit) {
    let block = draft.block();
    Case::new(block, PAGE, permit).draw(draft, |draft, region| draft.collapse(region, 0..block));
}
