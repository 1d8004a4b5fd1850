//! Which leaves fold, and which are left as they are.

use crate::common;

use std::rc::Rc;

use common::{Kernel, RW, Space, anonymous, leaf_bytes, write};
use vellum_userspace::{Access, Kind, Move, Place, Rights};
use vellum_vmsa::Granule4K;

const PAGE: u64 = 4096;
const GROUP: u64 = 16 * PAGE;
const BLOCK: u64 = 512 * PAGE;
/// A multiple of the size of a block.
const BASE: u64 = 0x1_0000_0000;
/// Where there is a folio.
const FAR: u64 = 0x2_0000_0000;

/// A space with an area of so many pages, which came one by one and whose frames lie side by side; and perhaps with a folio elsewhere.
fn one_by_one(pages: u64, has_folio: bool) -> (Kernel<Granule4K>, Space<Granule4K>) {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    if has_folio {
        kernel.0.folio_order.set(4);
        space.map(anonymous(Place::Fixed(FAR), 16, RW)).unwrap();
        write(&space, FAR, 1).unwrap();
        kernel.0.folio_order.set(0);
    }
    space.map(anonymous(Place::Fixed(BASE), pages, RW)).unwrap();
    kernel.0.next.set(kernel.0.next.get().next_multiple_of(BLOCK));
    (0..pages).for_each(|page| _ = write(&space, BASE + page * PAGE, page).unwrap());
    assert_eq!(leaf_bytes(&space, BASE), Some(PAGE));
    (kernel, space)
}

/// Has what holds a page be looked at: the page may not be written, may be, and is.
fn look_at(space: &Space<Granule4K>, page: u64) {
    for rights in [Rights::READ, RW] {
        space.protect(page, PAGE, rights).unwrap();
    }
    write(space, page, 2).unwrap();
}

#[test]
fn groups_are_a_block_once_all_of_them_are_groups() {
    for last in [0, 13, 31] {
        let (_, space) = one_by_one(512, true);
        for group in (0..32).filter(|group| *group != last) {
            look_at(&space, BASE + group * GROUP + 3 * PAGE);
            assert_eq!(leaf_bytes(&space, BASE + group * GROUP), Some(GROUP), "{group}, {last} last");
            assert_eq!(leaf_bytes(&space, BASE + last * GROUP), Some(PAGE), "{group}, {last} last");
        }
        look_at(&space, BASE + last * GROUP + 3 * PAGE);
        assert_eq!(leaf_bytes(&space, BASE), Some(BLOCK), "{last} last");
    }
}

#[test]
fn pages_stay_pages_where_there_was_no_folio() {
    for has_folio in [false, true] {
        let (_, space) = one_by_one(512, has_folio);
        look_at(&space, BASE + 3 * PAGE);
        assert_eq!(leaf_bytes(&space, BASE), Some(if has_folio { GROUP } else { PAGE }));
        // What moves is looked at whole.
        let moved = space.remap(BASE, BLOCK, BLOCK, Move::To(BASE + 4 * BLOCK), false);
        assert_eq!(moved, Ok(BASE + 4 * BLOCK));
        assert_eq!(leaf_bytes(&space, BASE + 4 * BLOCK), Some(if has_folio { BLOCK } else { PAGE }));
    }
}

#[test]
fn a_page_that_folds_with_none_has_no_other_fold() {
    let (_, space) = one_by_one(512, true);
    // Nobody else has any of them, and none is written since.
    drop(space.fork().unwrap());
    write(&space, BASE + 3 * PAGE, 1).unwrap();
    assert_eq!([0, 1, 31].map(|group| leaf_bytes(&space, BASE + group * GROUP)), [Some(PAGE); 3]);
}

#[test]
fn both_ends_of_what_changes_are_looked_at() {
    // The first page of a range and the last: in the midst of a group, at its start, at its end.
    for (from, to) in [(5, 33), (15, 40), (1, 48), (16, 47), (5, 20), (0, 33)] {
        let kernel = Kernel::<Granule4K>::new();
        kernel.0.folio_order.set(4);
        let space = kernel.space();
        space.map(anonymous(Place::Fixed(BASE), 48, RW)).unwrap();
        for group in [2, 1, 0] {
            write(&space, BASE + group * GROUP, 1).unwrap();
        }
        space.protect(BASE, 3 * GROUP, Rights::READ).unwrap();
        let sizes = || [0, 15, 16, 31, 32, 47].map(|page| leaf_bytes(&space, BASE + page * PAGE));
        assert_eq!(sizes(), [Some(GROUP); 6]);
        space.protect(BASE + from * PAGE, (to - from) * PAGE, Rights::empty()).unwrap();
        let cut = sizes().iter().filter(|size| **size == Some(PAGE)).count();
        assert_eq!(cut, 2 * (usize::from(from % 16 > 0) + usize::from(to % 16 > 0)), "{from}..{to}");
        space.protect(BASE + from * PAGE, (to - from) * PAGE, Rights::READ).unwrap();
        assert_eq!(sizes(), [Some(GROUP); 6], "{from}..{to}");
    }
}

#[test]
fn what_lies_behind_what_moves_is_left_as_it_is() {
    let (_, space) = one_by_one(16, true);
    space.map(anonymous(Place::Fixed(FAR + BLOCK), 512, RW)).unwrap();
    write(&space, FAR + BLOCK, 1).unwrap();
    let target = BASE - BLOCK;
    assert_eq!(space.remap(FAR + BLOCK, BLOCK, BLOCK, Move::To(target), false), Ok(target));
    assert_eq!((leaf_bytes(&space, target), leaf_bytes(&space, BASE)), (Some(PAGE), Some(PAGE)));
}

/// A fault whose hole is in the same block goes on where a group folds beside it, of which no table comes free.
#[test]
fn a_fault_beside_pages_that_fold_is_made_once() {
    let (kernel, space) = one_by_one(16, true);
    let space = Rc::new(space);
    space.map(anonymous(Place::Fixed(BASE + 2 * GROUP), 1, RW)).unwrap();
    for rights in [Rights::READ, RW] {
        space.protect(BASE + 3 * PAGE, PAGE, rights).unwrap();
    }
    let other = Rc::clone(&space);
    let beside = move || {
        write(&other, BASE + 3 * PAGE, 2).unwrap();
        assert_eq!(leaf_bytes(&other, BASE), Some(GROUP));
    };
    *kernel.0.beside.borrow_mut() = Some((0, Box::new(beside)));
    let before = kernel.0.next.get();
    space.fault(Access { address: BASE + 2 * GROUP, kind: Kind::Write }).unwrap();
    assert!(kernel.0.beside.borrow().is_none());
    assert_eq!(kernel.0.next.get() - before, PAGE, "one frame was taken");
}

/// A page at the start of 14,336 blocks moves. Each of the others is looked at less than once.
#[test]
fn a_sparse_move_looks_at_what_has_moved_alone() {
    let (from, to, blocks) = (0x1_0000_0000, 0x8_0000_0000, 14_336);
    let kernel = Kernel::<Granule4K>::new();
    kernel.0.folio_order.set(4);
    let space = kernel.space();
    space.map(anonymous(Place::Fixed(from), blocks * 512, RW)).unwrap();
    write(&space, from, 1).unwrap();
    let before = kernel.0.machine.loads.get();
    assert_eq!(space.remap(from, blocks * BLOCK, blocks * BLOCK, Move::To(to), false), Ok(to));
    assert_eq!(leaf_bytes(&space, to), Some(GROUP));
    let loads = kernel.0.machine.loads.get() - before;
    assert!(loads < blocks as usize, "{loads} loads");
}
