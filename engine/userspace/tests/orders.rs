//! Which folio a write fills: of every order, where there is a table of pages and where there is none, and in the place of zeros.

use crate::common;

use std::rc::Rc;

use common::{Kernel, RW, Space, anonymous, frame_at, leaf_bytes, read, write};
use vellum_userspace::{Advice, Place};
use vellum_vmsa::{Granule, Granule4K, Granule16K, Granule64K, Level};

/// A multiple of every size of a folio.
const BASE: u64 = 0x1_0000_0000;
const PAGE: u64 = 4096;

/// A space with an area of `pages` pages, where folios are of this order.
fn space<G: Granule>(order: u32, pages: u64) -> (Kernel<G>, Space<G>) {
    let kernel = Kernel::<G>::new();
    kernel.0.folio_order.set(order);
    let space = kernel.space();
    space.map(anonymous(Place::Fixed(BASE), pages, RW)).unwrap();
    (kernel, space)
}

/// What is there of the block beforehand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before {
    Nothing,
    /// A table without a page.
    Table,
    /// The last page.
    Page,
}

/// A write fills a folio of an order of which some are no leaf.
fn any_order<G: Granule>(order: u32, before: Before) {
    let (group, block) = (G::PAGE_SIZE.contiguous_shift(Level::L3).unwrap(), G::SHIFT - 3);
    let (kernel, space) = space::<G>(0, 1 << block);
    let at = |page: u64| BASE + (page << G::SHIFT);
    let last = at((1 << block) - 1);
    if before != Before::Nothing {
        write(&space, last, 1).unwrap();
    }
    if before == Before::Table {
        space.advise(last, G::SIZE_BYTES, Advice::DontNeed).unwrap();
    }
    let others = kernel.out().0;
    kernel.0.folio_order.set(order);
    assert_eq!(write(&space, at(1), 7), Ok(7));
    // A block has no room beside a page.
    let filled = if order == block && before == Before::Page { group } else { order };
    let told = format!("order {order}, {before:?}");
    assert_eq!(kernel.out().0 - others, 1 << filled, "{told}");
    assert_eq!(space.usage().anonymous, (others as u64) + (1 << filled), "{told}");
    let first = frame_at(&space, at(0));
    for page in 0..1 << filled {
        assert_eq!(frame_at(&space, at(page)), first + (page << G::SHIFT), "{told}");
        assert_eq!(read(&space, at(page)), Ok(if page == 1 { 7 } else { 0 }), "{told}");
    }
    drop(space);
    assert_eq!(kernel.out(), (0, 0), "{told}");
}

#[test]
fn a_folio_may_be_of_any_order() {
    for before in [Before::Nothing, Before::Table, Before::Page] {
        (1..=9).for_each(|order| any_order::<Granule4K>(order, before));
        [1, 5, 7, 8, 11].into_iter().for_each(|order| any_order::<Granule16K>(order, before));
        [1, 5, 13].into_iter().for_each(|order| any_order::<Granule64K>(order, before));
    }
}

#[test]
fn no_folio_is_larger_than_a_block() {
    for order in 10..13 {
        let (kernel, space) = space::<Granule4K>(order, 8 << 10);
        write(&space, BASE, 1).unwrap();
        assert_eq!((kernel.out().0, leaf_bytes(&space, BASE)), (16, Some(16 * PAGE)));
    }
}

#[test]
fn where_pages_are_of_a_block_a_write_fills_a_group() {
    let (kernel, space) = space::<Granule4K>(9, 512);
    kernel.0.has_zeros.set(false);
    read(&space, BASE + 20 * PAGE).unwrap();
    for (page, leaf, frames) in [(200, 16, 16), (21, 1, 17), (3, 16, 33)] {
        assert_eq!(write(&space, BASE + page * PAGE, page), Ok(page));
        assert_eq!((leaf_bytes(&space, BASE + page * PAGE), kernel.out().0), (Some(leaf * PAGE), frames));
    }
    assert_eq!((space.usage().anonymous, read(&space, BASE + 20 * PAGE)), (33, Ok(0)));
    drop(space);
    assert_eq!(kernel.out(), (0, 0));
}

#[test]
fn the_first_touch_of_a_page_asks_for_no_folio() {
    // Where there are none, where there is no room for one, and where none is wanted.
    for (order, pages, advice) in [(0, 16, Advice::Normal), (4, 15, Advice::Normal), (9, 16, Advice::NotHuge)] {
        let (kernel, space) = space::<Granule4K>(order, pages);
        space.advise(BASE, pages * PAGE, advice).unwrap();
        write(&space, BASE, 1).unwrap();
        kernel.0.folios_asked.set(0);
        (1..pages).for_each(|page| _ = write(&space, BASE + page * PAGE, 1).unwrap());
        assert_eq!((kernel.0.folios_asked.get(), kernel.out().0), (0, pages as usize));
    }
}

/// A block, then a group, then a page: each is asked for once.
#[test]
fn each_folio_that_there_is_no_memory_for_is_asked_for_once() {
    for (order, asked) in [(4, 1), (9, 2)] {
        let (kernel, space) = space::<Granule4K>(order, 1024);
        write(&space, BASE, 1).unwrap();
        kernel.0.folios_asked.set(0);
        kernel.0.left.set(5);
        assert_eq!(write(&space, BASE + 512 * PAGE, 2), Ok(2));
        assert_eq!((kernel.0.folios_asked.get(), leaf_bytes(&space, BASE + 512 * PAGE)), (asked, Some(PAGE)));
    }
}

/// A block of zeros that was read.
fn zeros() -> (Kernel<Granule4K>, Space<Granule4K>) {
    let (kernel, space) = space::<Granule4K>(9, 512);
    assert_eq!((read(&space, BASE), leaf_bytes(&space, BASE)), (Ok(0), Some(512 * PAGE)));
    (kernel, space)
}

#[test]
fn a_group_takes_the_place_of_zeros_at_either_end_of_a_block() {
    for page in [0, 15, 16, 495, 496, 511] {
        let (kernel, space) = zeros();
        kernel.0.left.set(100);
        assert_eq!(write(&space, BASE + page * PAGE, 5), Ok(5), "{page}");
        assert_eq!((leaf_bytes(&space, BASE + page * PAGE), kernel.out().0), (Some(16 * PAGE), 16));
        (0..512).for_each(|at| assert_eq!(read(&space, BASE + at * PAGE), Ok(if at == page { 5 } else { 0 })));
        drop(space);
        assert_eq!(kernel.out(), (0, 0));
    }
}

#[test]
fn what_takes_the_place_of_zeros_is_no_larger_than_their_leaf() {
    let (kernel, space) = zeros();
    // Two groups, of which each is a leaf; the zeros around are groups then.
    kernel.0.folio_order.set(5);
    assert_eq!(write(&space, BASE + 35 * PAGE, 1), Ok(1));
    assert_eq!((leaf_bytes(&space, BASE + 35 * PAGE), kernel.out().0), (Some(16 * PAGE), 32));
    assert_eq!(leaf_bytes(&space, BASE + 200 * PAGE), Some(16 * PAGE));
    assert_eq!(write(&space, BASE + 200 * PAGE, 2), Ok(2));
    assert_eq!((leaf_bytes(&space, BASE + 200 * PAGE), kernel.out().0), (Some(16 * PAGE), 48));
}

/// While a block is made to take the place of zeros, another CPU, for which there is no memory for a block, puts a group there.
#[test]
fn what_takes_the_place_of_zeros_takes_nothing_else() {
    for page in [0, 511] {
        let (kernel, space) = zeros();
        let space = Rc::new(space);
        let (other, its) = (Rc::clone(&space), kernel.clone());
        let beside = move || {
            its.0.left.set(100);
            assert_eq!(write(&other, BASE + 256 * PAGE, 4), Ok(4));
            its.0.left.set(usize::MAX);
        };
        *kernel.0.beside.borrow_mut() = Some((0, Box::new(beside)));
        assert_eq!(write(&space, BASE + page * PAGE, 3), Ok(3));
        assert!(kernel.0.beside.borrow().is_none());
        assert_eq!((read(&space, BASE + 256 * PAGE), read(&space, BASE + page * PAGE)), (Ok(4), Ok(3)));
        assert_eq!((kernel.out().0, space.usage().anonymous), (32, 32));
        drop(space);
        assert_eq!(kernel.out(), (0, 0));
    }
}
