//! One operation each. CPU 0 edits, the others look; the smallest scenarios in which every call of the platform matters.

use machine::syndrome::AccessKind;
use vmsa::{LeafSize, Level, PageSize, Stage1Attributes};

use super::draft::Draft;
use crate::scenario::Permit;

const NONE: Permit = Permit::None;
const BREAK: Permit = Permit::Break;
const PAGE: LeafSize = LeafSize::PAGE;
const GROUP: LeafSize = LeafSize::group(Level::L3);
const BLOCK: LeafSize = LeafSize::single(Level::L2);
const BLOCK_GROUP: LeafSize = LeafSize::group(Level::L2);

pub(super) fn map_page(draft: &mut Draft) {
    draft.one(&[(0..1, PAGE)], |it, region| it.map(region, 2..3, PAGE), NONE, &[2]);
}

pub(super) fn map_table(draft: &mut Draft) {
    draft.one(&[], |it, region| it.map(region, 2..5, PAGE), NONE, &[2, 3]);
}

pub(super) fn map_block(draft: &mut Draft) {
    let block = draft.block();
    draft.one(&[], |it, region| it.map(region, block..2 * block, BLOCK), NONE, &[block, 2 * block - 1]);
}

pub(super) fn map_group(draft: &mut Draft) {
    let group = draft.group();
    draft.one(&[(0..1, PAGE)], |it, region| it.map(region, group..2 * group, GROUP), NONE, &[group, 2 * group - 1]);
}

pub(super) fn protect_page(draft: &mut Draft) {
    draft.one(&[(0..4, PAGE)], |it, region| it.read_only(region, 1..2), NONE, &[1]);
}

pub(super) fn protect_pages(draft: &mut Draft) {
    draft.one(&[(0..8, PAGE)], |it, region| it.read_only(region, 0..8), NONE, &[0, 7]);
}

pub(super) fn protect_block(draft: &mut Draft) {
    let block = draft.block();
    draft.one(&[(0..2 * block, BLOCK)], |it, region| it.read_only(region, block..2 * block), NONE, &[block]);
}

pub(super) fn protect_group(draft: &mut Draft) {
    let group = draft.group();
    let region = draft.region(&[(0..2 * group, GROUP)]);
    let change = draft.read_only(region, group..2 * group);
    draft.edit(region, vec![change], BREAK, &[group, group + 1]);
}

pub(super) fn protect_part(draft: &mut Draft) {
    let block = draft.block();
    draft.one(&[(0..block, BLOCK)], |it, region| it.read_only(region, 3..4), BREAK, &[3, 4]);
}

pub(super) fn protect_member(draft: &mut Draft) {
    let group = draft.group();
    draft.one(&[(0..group, GROUP)], |it, region| it.read_only(region, 3..4), BREAK, &[3, 4]);
}

pub(super) fn protect_member_part(draft: &mut Draft) {
    let (blocks, block) = (draft.block_group(), draft.block());
    let region = draft.region(&[(0..blocks, BLOCK_GROUP)]);
    let change = draft.read_only(region, block + 3..block + 4);
    draft.edit(region, vec![change], BREAK, &[block + 3, 0]);
}

pub(super) fn device(draft: &mut Draft) {
    let region = draft.region(&[(0..4, PAGE)]);
    let change = draft.protect(region, 1..2, Stage1Attributes::memory(1), Stage1Attributes::empty());
    draft.edit(region, vec![change], BREAK, &[1]);
}

/// Pages of a global table that are not: TLBs hold them under each CPU's own ASID.
pub(super) fn not_global(draft: &mut Draft) {
    draft.parameters_mut().is_global = true;
    let region = draft.region(&[(0..8, PAGE)]);
    let change = draft.protect(region, 1..5, Stage1Attributes::NOT_GLOBAL, Stage1Attributes::empty());
    draft.change_by(BREAK, 0, region, vec![change]);
    draft.finish(0);
    let change = draft.read_only(region, 1..5);
    draft.edit(region, vec![change], NONE, &[1, 4]);
}

pub(super) fn age(draft: &mut Draft) {
    let region = draft.region(&[(0..4, PAGE)]);
    let (flag, none) = (Stage1Attributes::AF, Stage1Attributes::empty());
    let old = draft.protect(region, 1..2, none, flag);
    draft.change(0, region, vec![old]);
    draft.finish(0);
    let young = draft.protect(region, 1..2, flag, none);
    draft.edit(region, vec![young], NONE, &[1]);
    let last = draft.parameters().cpus - 1;
    draft.update(last, region, 1, AccessKind::Read);
}

pub(super) fn clean(draft: &mut Draft) {
    let region = draft.region(&[(0..4, PAGE)]);
    let dirty_managed = Stage1Attributes::DBM.union(Stage1Attributes::READ_ONLY);
    let clean = draft.protect(region, 1..2, dirty_managed, Stage1Attributes::empty());
    draft.change(0, region, vec![clean]);
    draft.finish(0);
    let user = draft.protect(region, 1..2, Stage1Attributes::USER, Stage1Attributes::empty());
    draft.edit(region, vec![user], NONE, &[1]);
    let last = draft.parameters().cpus - 1;
    draft.update(last, region, 1, AccessKind::Write);
}

pub(super) fn ignored(draft: &mut Draft) {
    let region = draft.region(&[(0..4, PAGE)]);
    let change = draft.protect(region, 1..2, Stage1Attributes::SOFTWARE, Stage1Attributes::empty());
    draft.edit(region, vec![change], NONE, &[1]);
}

pub(super) fn split_block(draft: &mut Draft) {
    let block = draft.block();
    draft.one(&[(0..block, BLOCK)], |it, region| it.split(region, 5), BREAK, &[5, 4]);
}

pub(super) fn split_group(draft: &mut Draft) {
    let group = draft.group();
    draft.one(&[(0..group, GROUP)], |it, region| it.split(region, 5), BREAK, &[5, 4]);
}

pub(super) fn unmap_page(draft: &mut Draft) {
    draft.one(&[(0..4, PAGE)], |it, region| it.unmap(region, 1..2), NONE, &[1]);
}

pub(super) fn unmap_block(draft: &mut Draft) {
    let block = draft.block();
    draft.one(&[(0..2 * block, BLOCK)], |it, region| it.unmap(region, block..2 * block), NONE, &[block]);
}

pub(super) fn unmap_group(draft: &mut Draft) {
    let group = draft.group();
    draft.one(&[(0..2 * group, GROUP)], |it, region| it.unmap(region, group..2 * group), NONE, &[group, 2 * group - 1]);
}

pub(super) fn unmap_part(draft: &mut Draft) {
    let block = draft.block();
    draft.one(&[(0..block, BLOCK)], |it, region| it.unmap(region, 3..4), BREAK, &[3, 4]);
}

pub(super) fn unmap_table(draft: &mut Draft) {
    let block = draft.block();
    // Its first and its last page: a range that ends too soon leaves something.
    let region = draft.region(&[(0..2, PAGE), (block - 1..block, PAGE)]);
    let change = draft.unmap(region, 0..block);
    draft.edit(region, vec![change], NONE, &[0, block - 1]);
}

/// One page in each of more blocks than a gather keeps subtrees.
pub(super) fn unmap_many(draft: &mut Draft) {
    draft.set_pool(64);
    let (block, count) = (draft.block(), 18);
    let leaves: Vec<_> = (0..count).map(|number| (number * block * 2..number * block * 2 + 1, PAGE)).collect();
    draft.is_near = false;
    let region = draft.region(&leaves);
    let changes =
        (0..count).map(|number| draft.unmap(region, number * block * 2..number * block * 2 + block)).collect();
    draft.edit(region, changes, NONE, &[0, (count - 1) * block * 2]);
}

pub(super) fn unmap_scattered(draft: &mut Draft) {
    let region = draft.region(&[(0..40, PAGE)]);
    let changes = (0..12).map(|number| draft.unmap(region, number * 3..number * 3 + 1)).collect();
    draft.edit(region, changes, NONE, &[0, 33]);
}

pub(super) fn unmap_all(draft: &mut Draft) {
    let block = draft.block();
    let region = draft.region(&[(0..3, PAGE), (block..block + 3, PAGE)]);
    let change = draft.unmap(region, 0..2 * block);
    draft.edit(region, vec![change], NONE, &[0, block + 2]);
}

pub(super) fn remap(draft: &mut Draft) {
    let region = draft.region(&[(0..4, PAGE)]);
    let gone = draft.unmap(region, 1..2);
    draft.change(0, region, vec![gone]);
    draft.finish(0);
    let again = draft.map_to(region, 1..2, PAGE, 5);
    draft.edit(region, vec![again], NONE, &[1]);
}

pub(super) fn table_to_block(draft: &mut Draft) {
    let block = draft.block();
    let region = draft.region(&[(0..3, PAGE)]);
    let gone = draft.unmap(region, 0..block);
    draft.change(0, region, vec![gone]);
    draft.finish(0);
    let again = draft.map(region, 0..block, BLOCK);
    draft.edit(region, vec![again], NONE, &[0, 9]);
}

pub(super) fn batch(draft: &mut Draft) {
    let region = draft.region(&[(0..8, PAGE)]);
    let first = draft.read_only(region, 0..1);
    let second = draft.unmap(region, 3..4);
    let third = draft.map(region, 9..10, PAGE);
    draft.change(0, region, vec![first]);
    draft.change(0, region, vec![second]);
    draft.edit(region, vec![third], NONE, &[0, 3]);
}

pub(super) fn two_editors(draft: &mut Draft) {
    draft.is_near = true;
    let one = draft.region(&[(0..4, PAGE)]);
    let two = draft.region(&[(0..4, PAGE)]);
    let gone = draft.unmap(one, 1..2);
    let protected = draft.read_only(two, 1..3);
    draft.change(0, one, vec![gone]);
    draft.finish(0);
    draft.read(0, two, 1);
    let other = draft.parameters().cpus.min(2) - 1;
    draft.change(other, two, vec![protected]);
    draft.finish(other);
    draft.read(other, one, 1);
    if draft.parameters().cpus > 2 {
        draft.access(2, one, 1, AccessKind::Read);
        draft.access(2, two, 2, AccessKind::Write);
    }
}

/// All that one part maps goes, and the part with it, while another CPU edits the other.
pub(super) fn two_parts(draft: &mut Draft) {
    edit_two_parts(draft, Level::L3);
}

/// The same where a part has tables of its own below, which go while the other is edited.
pub(super) fn two_larger_parts(draft: &mut Draft) {
    let parameters = draft.parameters();
    let has_level_1 = parameters.page_size != PageSize::Size64K || parameters.input_bits > 42;
    edit_two_parts(draft, if has_level_1 { Level::L2 } else { Level::L3 });
}

fn edit_two_parts(draft: &mut Draft, level: Level) {
    draft.claim_parts(level);
    let one = draft.region(&[(0..2, PAGE)]);
    let two = draft.region(&[(0..4, PAGE)]);
    let gone = draft.unmap(one, 0..2);
    let protected = draft.read_only(two, 1..3);
    draft.change(0, one, vec![gone]);
    draft.finish(0);
    let other = draft.parameters().cpus.min(2) - 1;
    draft.change(other, two, vec![protected]);
    draft.finish(other);
    if draft.parameters().cpus > 2 {
        draft.access(2, one, 1, AccessKind::Read);
        draft.access(2, two, 2, AccessKind::Write);
    }
}

/// A claim makes the way to a part, while another CPU empties the other.
pub(super) fn part_made(draft: &mut Draft) {
    draft.claim_parts(Level::L3);
    let one = draft.region(&[]);
    let two = draft.region(&[(0..2, PAGE)]);
    let come = draft.map(one, 2..4, PAGE);
    let gone = draft.unmap(two, 0..1);
    draft.change(0, one, vec![come]);
    draft.finish(0);
    let other = draft.parameters().cpus.min(2) - 1;
    draft.change(other, two, vec![gone]);
    draft.finish(other);
    draft.read(other, two, 1);
    if draft.parameters().cpus > 2 {
        draft.read(2, one, 3);
        draft.access(2, two, 0, AccessKind::Read);
    }
}

pub(super) fn table_reuse(draft: &mut Draft) {
    let block = draft.block();
    draft.set_pool(6);
    let one = draft.region(&[(0..2, PAGE)]);
    let two = draft.region(&[]);
    let gone = draft.unmap(one, 0..block);
    let come = draft.map(two, 0..3, PAGE);
    draft.change(0, one, vec![gone]);
    draft.finish(0);
    let other = draft.parameters().cpus.min(2) - 1;
    draft.change(other, two, vec![come]);
    draft.finish(other);
    draft.read(other, two, 2);
    draft.read(other, one, 1);
    if draft.parameters().cpus > 2 {
        draft.read(2, one, 0);
        draft.read(2, two, 0);
    }
}

/// Every CPU edits a page of its own in one table, and looks at those of the others.
pub(super) fn all_edit(draft: &mut Draft) {
    draft.is_near = true;
    let cpus = draft.parameters().cpus;
    let regions: Vec<usize> = (0..cpus).map(|_| draft.region(&[(0..4, PAGE)])).collect();
    for cpu in 0..cpus {
        let change = draft.read_only(regions[cpu], 1..2);
        draft.change(cpu, regions[cpu], vec![change]);
        draft.finish(cpu);
        for region in &regions {
            draft.read(cpu, *region, 1);
            draft.access(cpu, *region, 2, AccessKind::Write);
        }
    }
}
