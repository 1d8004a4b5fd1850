//! Neighbours of unlike shapes that one gather forgets, and more of them than it holds.

use machine::syndrome::AccessKind;
use vmsa::{LeafSize, Level};

use super::draft::Draft;
use crate::levels::Levels;
use crate::scenario::Permit;

const PAGE: LeafSize = LeafSize::PAGE;
const GROUP: LeafSize = LeafSize::group(Level::L3);
const BLOCK: LeafSize = LeafSize::single(Level::L2);

/// Pages, and the block that follows them, become read-only.
pub(super) fn pages_beside_block(draft: &mut Draft) {
    let block = draft.block();
    let region = draft.region(&[(block - 2..block, PAGE), (block..2 * block, BLOCK)]);
    let (pages, whole) = (draft.read_only(region, block - 2..block), draft.read_only(region, block..2 * block));
    draft.edit(region, vec![pages, whole], Permit::None, &[block - 1, block + 3]);
}

/// A block goes, and the page that follows it.
pub(super) fn block_beside_page(draft: &mut Draft) {
    let block = draft.block();
    let region = draft.region(&[(0..block, BLOCK), (block..block + 2, PAGE)]);
    let gone = draft.unmap(region, 0..block + 1);
    draft.edit(region, vec![gone], Permit::None, &[3, block]);
}

/// A table goes whole, and the page that follows it in another.
pub(super) fn table_beside_page(draft: &mut Draft) {
    let block = draft.block();
    let region = draft.region(&[(0..1, PAGE), (block - 1..block, PAGE), (block..block + 2, PAGE)]);
    let gone = draft.unmap(region, 0..block + 1);
    draft.edit(region, vec![gone], Permit::None, &[0, block - 1]);
}

/// A page goes, and the table that follows it.
pub(super) fn page_beside_table(draft: &mut Draft) {
    let block = draft.block();
    let region = draft.region(&[(block - 2..block, PAGE), (block..block + 1, PAGE), (2 * block - 1..2 * block, PAGE)]);
    let gone = draft.unmap(region, block - 1..2 * block);
    draft.edit(region, vec![gone], Permit::None, &[block, 2 * block - 1]);
}

/// A page goes, and the first page of the block that follows it, which is split in place.
pub(super) fn page_beside_split(draft: &mut Draft) {
    draft.parameters_mut().bbm = Levels::all(3);
    let block = draft.block();
    let region = draft.region(&[(block - 2..block, PAGE), (block..2 * block, BLOCK)]);
    let (gone, part) = (draft.unmap(region, block - 1..block), draft.unmap(region, block..block + 1));
    draft.edit(region, vec![gone, part], Permit::Tolerated, &[block - 1, block]);
}

/// The last or the first page of a contiguous group becomes read-only by the nT protocol, and the group is dissolved for the first.
pub(super) fn member_not_cached(draft: &mut Draft, is_last: bool) {
    draft.parameters_mut().bbm = Levels::all(1);
    let group = draft.group();
    let region = draft.region(&[(0..group, GROUP)]);
    let page = if is_last { group - 1 } else { 0 };
    let change = draft.read_only(region, page..page + 1);
    draft.edit(region, vec![change], Permit::NotCached, &[group - 1, 0]);
}

/// More tables go than a gather keeps, side by side, which it forgets as one range.
pub(super) fn tables_side_by_side(draft: &mut Draft) {
    draft.set_pool(64);
    let (block, count) = (draft.block(), 18);
    draft.is_near = false;
    let leaves: Vec<_> = (0..count).map(|number| (number * block..number * block + 1, PAGE)).collect();
    let region = draft.region(&leaves);
    let changes = (0..count).map(|number| draft.unmap(region, number * block..(number + 1) * block)).collect();
    draft.edit(region, changes, Permit::None, &[0, (count - 1) * block]);
    draft.access(0, region, 16 * block, AccessKind::Read);
}
