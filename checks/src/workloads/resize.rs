//! Leaves that change size, place or validity while others look at them, by every licence there is.

use machine::syndrome::AccessKind;
use pagetable::{Change, El1};
use vmsa::{LeafSize, Level, Stage1Attributes};

use super::draft::Draft;
use super::{IN_PLACE, Way};
use crate::scenario::Permit;

const PAGE: LeafSize = LeafSize::PAGE;
const GROUP: LeafSize = LeafSize::group(Level::L3);
const BLOCK: LeafSize = LeafSize::single(Level::L2);
const BLOCK_GROUP: LeafSize = LeafSize::group(Level::L2);

/// A block is split by `permit`.
pub(super) fn split(draft: &mut Draft, (permit, bbm): Way) {
    draft.parameters_mut().bbm = bbm;
    let block = draft.block();
    draft.one(&[(0..block, BLOCK)], |it, region| it.split(region, 5), permit, &[5, 4]);
}

/// A page of a block becomes read-only by `permit`.
pub(super) fn protect_part(draft: &mut Draft, (permit, bbm): Way) {
    draft.parameters_mut().bbm = bbm;
    let block = draft.block();
    draft.one(&[(0..block, BLOCK)], |it, region| it.read_only(region, 3..4), permit, &[3, 4]);
}

/// A page of a group becomes read-only in place, by the shortcut for one page.
pub(super) fn protect_member_at_once(draft: &mut Draft) {
    draft.take_shortcuts();
    let parameters = draft.parameters_mut();
    // Where hardware marks one member, that is to be said of all, which takes a plan.
    (parameters.bbm, parameters.hardware) = (IN_PLACE.1, (false, false));
    let group = draft.group();
    draft.one(&[(0..group, GROUP)], |it, region| it.read_only(region, 2..3), Permit::Tolerated, &[2, 3]);
}

/// Pages of a block that are to be a contiguous group become read-only in place.
pub(super) fn protect_group_of_block(draft: &mut Draft, (permit, bbm): Way) {
    draft.parameters_mut().bbm = bbm;
    let (block, group) = (draft.block(), draft.group());
    let region = draft.region(&[(0..block, BLOCK)]);
    let change = draft.read_only(region, group..2 * group);
    draft.edit(region, vec![change], permit, &[group + 1, 2 * group]);
}

/// A page of a contiguous group becomes read-only by `permit`.
pub(super) fn protect_member(draft: &mut Draft, (permit, bbm): Way) {
    draft.parameters_mut().bbm = bbm;
    let group = draft.group();
    draft.one(&[(0..group, GROUP)], |it, region| it.read_only(region, 3..4), permit, &[3, 4]);
}

/// Pages fold into a block by `permit`.
pub(super) fn fold(draft: &mut Draft, (permit, bbm): Way) {
    draft.parameters_mut().bbm = bbm;
    let block = draft.block();
    draft.one(&[(0..block, PAGE)], |it, region| it.collapse(region, 0..block), permit, &[0, block - 1]);
}

pub(super) fn fold_group(draft: &mut Draft) {
    let group = draft.group();
    draft.one(&[(0..group, PAGE)], |it, region| it.collapse(region, 0..group), Permit::Break, &[0, group - 1]);
}

/// A table folds before any CPU walks it.
pub(super) fn fold_offline(draft: &mut Draft) {
    let block = draft.block();
    let region = draft.region(&[(0..block, PAGE)]);
    let change = draft.collapse(region, 0..block);
    draft.begin_with(region, change);
    let change = draft.read_only(region, 0..block);
    draft.edit(region, vec![change], Permit::None, &[0, block - 1]);
}

pub(super) fn split_to_pages(draft: &mut Draft) {
    let (block, group) = (draft.block(), draft.group());
    let region = draft.region(&[(0..block, BLOCK)]);
    let change = Change::SplitToPages { from: draft.range(region, 0..group) };
    draft.edit(region, vec![change], Permit::Break, &[0, group]);
}

/// A page leads elsewhere, and so does a block with a table in its place.
pub(super) fn remap_live(draft: &mut Draft) {
    draft.one(&[(0..4, PAGE)], |it, region| it.remap(region, 1..2, PAGE, 5), Permit::Break, &[1, 2]);
}

pub(super) fn remap_part(draft: &mut Draft) {
    let block = draft.block();
    draft.one(&[(0..block, BLOCK)], |it, region| it.remap(region, 3..4, PAGE, 5), Permit::Break, &[3, 4]);
}

pub(super) fn remap_table(draft: &mut Draft) {
    let block = draft.block();
    draft.one(&[(0..3, PAGE)], |it, region| it.remap(region, 0..block, BLOCK, block), Permit::Break, &[1, block - 1]);
}

pub(super) fn unmap_mapped(draft: &mut Draft) {
    let region = draft.region(&[(0..4, PAGE)]);
    let change = Change::UnmapMapped { from: draft.range(region, 1..3) };
    draft.edit(region, vec![change], Permit::None, &[1, 2]);
}

/// What one gather has hidden is made Device memory and shown again before it is finished.
pub(super) fn hide_and_alter(draft: &mut Draft) {
    let region = draft.region(&[(0..4, PAGE)]);
    let range = draft.range(region, 1..2);
    let device = draft.protect(region, 1..2, Stage1Attributes::memory(1), Stage1Attributes::empty());
    draft.change(0, region, vec![Change::MakeInvalid { from: range.clone() }]);
    draft.change(0, region, vec![device]);
    draft.edit(region, vec![Change::MakeValid { from: range }], Permit::None, &[1]);
}

/// What one gather has unmapped is mapped elsewhere before it is finished.
pub(super) fn unmap_and_map(draft: &mut Draft) {
    let region = draft.region(&[(0..4, PAGE)]);
    let gone = draft.unmap(region, 1..2);
    let elsewhere = draft.map_to(region, 1..2, PAGE, 5);
    draft.change(0, region, vec![gone]);
    draft.edit(region, vec![elsewhere], Permit::None, &[1, 2]);
}

/// A page of a block that one gather has split in place leads elsewhere by break-before-make before it is finished.
pub(super) fn split_and_remap(draft: &mut Draft) {
    draft.parameters_mut().bbm = IN_PLACE.1;
    let block = draft.block();
    let region = draft.region(&[(0..block, BLOCK)]);
    let (first, second) = (draft.read_only(region, 3..4), draft.remap(region, 5..6, PAGE, 5));
    draft.change_by(Permit::Tolerated, 0, region, vec![first]);
    draft.edit(region, vec![second], Permit::Break, &[5, 4]);
}

/// A page is hidden, and shown again.
pub(super) fn hide_and_show(draft: &mut Draft) {
    let region = draft.region(&[(0..4, PAGE)]);
    let range = draft.range(region, 1..2);
    draft.change(0, region, vec![Change::MakeInvalid { from: range.clone() }]);
    draft.finish(0);
    draft.edit(region, vec![Change::MakeValid { from: range }], Permit::None, &[1]);
}

pub(super) fn age_leaves(draft: &mut Draft) {
    draft.one(&[(0..4, PAGE)], |it, region| Change::Age { from: it.range(region, 0..2) }, Permit::None, &[0, 1]);
}

/// Pages whose dirty state hardware manages become clean, and the next write makes them dirty again.
pub(super) fn clean_leaves(draft: &mut Draft) {
    draft.parameters_mut().hardware = (true, true);
    let region = draft.region(&[]);
    draft.begin_with(region, with(draft.map(region, 0..4, PAGE), Stage1Attributes::DBM));
    let change = Change::Clean { from: draft.range(region, 0..2) };
    draft.edit(region, vec![change], Permit::None, &[0, 1]);
    let last = draft.parameters().cpus - 1;
    draft.update(last, region, 0, AccessKind::Write);
}

/// Hardware marks a block as accessed or dirty at the moment it is split in place: no page below may lose the mark.
pub(super) fn split_marked(draft: &mut Draft) {
    draft.parameters_mut().bbm = IN_PLACE.1;
    draft.parameters_mut().hardware = (true, true);
    let block = draft.block();
    let region = draft.region(&[]);
    let clean = Stage1Attributes::DBM.union(Stage1Attributes::READ_ONLY);
    draft.begin_with(region, with(draft.map(region, 0..block, BLOCK), clean));
    let last = draft.parameters().cpus - 1;
    draft.update(last, region, 5, AccessKind::Write);
    let change = draft.split(region, 5);
    draft.edit(region, vec![change], Permit::Tolerated, &[5, 4]);
}

/// The same for a table that folds.
pub(super) fn fold_marked(draft: &mut Draft) {
    draft.parameters_mut().hardware = (true, true);
    let block = draft.block();
    let region = draft.region(&[]);
    let clean = Stage1Attributes::DBM.union(Stage1Attributes::READ_ONLY);
    draft.begin_with(region, with(draft.map(region, 0..block, PAGE), clean));
    let last = draft.parameters().cpus - 1;
    draft.update(last, region, 5, AccessKind::Write);
    let change = draft.collapse(region, 0..block);
    draft.edit(region, vec![change], Permit::Break, &[5, 4]);
}

/// Pages that forbid writing, with a bit that means nothing where hardware manages the access flag alone: their block forbids it too.
pub(super) fn read_only_with_dbm(draft: &mut Draft, permit: Permit) {
    draft.parameters_mut().hardware = (true, false);
    let block = draft.block();
    let region = draft.region(&[]);
    let read_only = Stage1Attributes::DBM.union(Stage1Attributes::READ_ONLY);
    draft.begin_with(region, with(draft.map(region, 0..block, PAGE), read_only));
    let change = draft.collapse(region, 0..block);
    draft.edit(region, vec![change], permit, &[5, 4]);
}

/// Hardware marks a member of a contiguous group while the group is dissolved: a TLB's entry for the group may have let any
/// member be written since, so that none may be without the mark.
pub(super) fn marked_group(draft: &mut Draft, permit: Permit) {
    let group = draft.group();
    let region = marked(draft, group, GROUP, 2);
    let change = draft.split(region, 5);
    draft.edit(region, vec![change], permit, &[5, 4]);
}

/// The same of a group of blocks, one of which becomes a table.
pub(super) fn cut_marked(draft: &mut Draft) {
    let (blocks, block) = (draft.block_group(), draft.block());
    let region = marked(draft, blocks, BLOCK_GROUP, block + 3);
    let change = draft.split(region, block + 5);
    draft.edit(region, vec![change], Permit::Break, &[block + 5, 0]);
}

/// Clean pages in such leaves, one of which the last CPU's hardware marks as written.
fn marked(draft: &mut Draft, pages: u64, size: LeafSize, written: u64) -> usize {
    draft.parameters_mut().hardware = (true, true);
    let region = draft.region(&[]);
    let clean = Stage1Attributes::DBM.union(Stage1Attributes::READ_ONLY);
    draft.begin_with(region, with(draft.map(region, 0..pages, size), clean));
    let last = draft.parameters().cpus - 1;
    draft.update(last, region, written, AccessKind::Write);
    region
}

/// Every other CPU is off the tables while a block is split and a table folds; then they join.
pub(super) fn parked(draft: &mut Draft) {
    draft.park();
    let block = draft.block();
    let region = draft.region(&[(0..block, BLOCK), (2 * block..3 * block, PAGE)]);
    let (split, fold) = (draft.split(region, 5), draft.collapse(region, 2 * block..3 * block));
    draft.change_by(Permit::Parked, 0, region, vec![split, fold]);
    draft.finish(0);
    for page in [5, 2 * block] {
        draft.read(0, region, page);
    }
    for cpu in 1..draft.parameters().cpus {
        draft.join(cpu, region);
        draft.readers_of(cpu, region, &[4, 2 * block + 1]);
    }
}

/// The same mapping with more attributes.
pub(super) fn with(map: Change<El1>, more: Stage1Attributes) -> Change<El1> {
    match map {
        Change::Map { from, to, attributes, largest } => {
            Change::Map { from, to, attributes: attributes | more, largest }
        }
        other => other,
    }
}
