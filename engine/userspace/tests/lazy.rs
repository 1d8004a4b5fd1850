//! Pages that MADV_FREE leaves to be taken: which they are, who writes one in time keeps it, and what it takes to find them.

use crate::common;

use std::cell::Cell;
use std::rc::Rc;

use common::{Kernel, RW, Space, anonymous, leaf_bytes, mark_elsewhere, read, write};
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::{AddressSpace, Advice, Limits, Move, Place, Rights, Shape};
use vellum_vmsa::{Granule, Granule4K};

/// A multiple of a block.
const BASE: u64 = 0x4000_0000;
const PAGE: u64 = Granule4K::SIZE_BYTES;

/// A space with `pages` written pages in folios of this order.
fn written(order: u32, pages: u64, hardware_updates: HardwareUpdates) -> (Kernel<Granule4K>, Space<Granule4K>) {
    let kernel = Kernel::<Granule4K>::new();
    kernel.0.folio_order.set(order);
    let space = kernel.try_space(hardware_updates).unwrap();
    space.map(anonymous(Place::Fixed(BASE), pages, RW)).unwrap();
    (0..pages).for_each(|page| _ = write(&space, BASE + page * PAGE, page + 1).unwrap());
    (kernel, space)
}

fn lazy(space: &Space<Granule4K>) -> u64 {
    let mut lazy = 0;
    space.pages(0..1 << 35, |page| lazy += u64::from(page.is_lazy));
    lazy
}

/// Descriptors that are read meanwhile.
fn loads<R>(kernel: &Kernel<Granule4K>, body: impl FnOnce() -> R) -> usize {
    let before = kernel.0.machine.loads.get();
    body();
    kernel.0.machine.loads.get() - before
}

#[test]
fn a_folio_that_a_child_once_had_too_goes_like_all_else() {
    for order in [4, 9] {
        let (kernel, parent) = written(order, 1 << order, HardwareUpdates::None);
        let child = parent.fork().unwrap();
        write(&child, BASE + 3 * PAGE, 7).unwrap();
        parent.advise(BASE, PAGE << order, Advice::Free).unwrap();
        assert_eq!(lazy(&parent), 1, "the child has a page of its own there");
        drop(child);
        parent.advise(BASE, PAGE << order, Advice::Free).unwrap();
        assert_eq!((lazy(&parent), parent.take_lazy(1000)), (1 << order, 1 << order));
        assert_eq!(kernel.out().0, 0);
    }
}

#[test]
fn a_folio_that_may_go_is_one_leaf() {
    for order in [4, 9] {
        let (_, space) = written(order, 1 << order, HardwareUpdates::None);
        for _ in 0..2 {
            space.advise(BASE, PAGE << order, Advice::Free).unwrap();
            assert_eq!((lazy(&space), leaf_bytes(&space, BASE)), (1 << order, Some(PAGE << order)));
        }
    }
}

#[test]
fn blocks_side_by_side_go_from_the_lowest_address_on() {
    let kernel = Kernel::<Granule4K>::new();
    kernel.0.folio_order.set(9);
    let shape = Shape { lowest_fixed: 0, ..kernel.shape(HardwareUpdates::None) };
    let space = AddressSpace::new(kernel.clone(), shape, common::ceiling(), Limits::USUAL).unwrap();
    space.map(anonymous(Place::Fixed(0), 1024, RW)).unwrap();
    [0, 512].iter().for_each(|page| _ = write(&space, page * PAGE, 1).unwrap());
    space.advise(0, 1024 * PAGE, Advice::Free).unwrap();
    assert_eq!([0, 512].map(|page| leaf_bytes(&space, page * PAGE)), [Some(512 * PAGE); 2]);
    assert_eq!((space.take_lazy(2000), kernel.out().0, space.usage().anonymous), (1024, 0, 0));
}

#[test]
fn what_lies_before_is_not_left_to_be_taken() {
    let (_, space) = written(0, 4, HardwareUpdates::None);
    drop(space.fork().unwrap());
    space.protect(BASE, 2 * PAGE, Rights::READ).unwrap();
    space.advise(BASE + 2 * PAGE, 2 * PAGE, Advice::Free).unwrap();
    assert_eq!((lazy(&space), space.take_lazy(4)), (2, 2));
    assert_eq!([0, 1].map(|page| read(&space, BASE + page * PAGE)), [Ok(1), Ok(2)]);
}

/// At each moment another CPU's hardware marks the page as written, if that is valid then.
#[test]
fn a_page_that_is_written_while_it_is_taken_stays_and_is_not_counted() {
    let mut results = [0, 0];
    for passes in 0.. {
        let (kernel, space) = written(0, 1, HardwareUpdates::DirtyState);
        space.advise(BASE, PAGE, Advice::Free).unwrap();
        let (space, is_marked) = (Rc::new(space), Rc::new(Cell::new(false)));
        let (other, marks) = (space.clone(), is_marked.clone());
        let mark = move || {
            if leaf_bytes(&other, BASE).is_some() {
                mark_elsewhere(&other, BASE);
                marks.set(true);
            }
        };
        *kernel.0.machine.hardware.borrow_mut() = Some((passes, Box::new(mark)));
        let taken = space.take_lazy(1);
        if kernel.0.machine.hardware.take().is_some() {
            break;
        }
        assert_eq!(taken, usize::from(!is_marked.get()), "after {passes} steps");
        assert_eq!(read(&space, BASE), Ok(u64::from(is_marked.get())), "after {passes} steps");
        assert_eq!(lazy(&space), 0);
        results[taken] += 1;
    }
    assert!(results[0] > 3 && results[1] > 1, "{results:?}");
}

#[test]
fn each_page_is_looked_for_where_the_last_one_was() {
    let (kernel, space) = written(0, 512, HardwareUpdates::None);
    drop(space.fork().unwrap());
    let advised = loads(&kernel, || space.advise(BASE, 512 * PAGE, Advice::Free).unwrap());
    let taken = loads(&kernel, || assert_eq!(space.take_lazy(512), 512));
    // For each page a way to what is next, and one or two to edit it there: no hole and no page twice.
    let above = common::levels_above::<Granule4K>();
    let (advice, take) = (14 + 3 * above, 16 + 5 * above);
    assert!(advised <= advice * 512 + 200 && taken <= take * 512 + 200, "{advised}, {taken}");
}

/// Hardware of another CPU marks a page while it moves, whenever that is: it is not what may be lost.
#[test]
fn what_is_written_while_it_moves_is_kept() {
    for step in 0.. {
        let (kernel, space) = written(0, 1, HardwareUpdates::DirtyState);
        space.advise(BASE, PAGE, Advice::Free).unwrap();
        let (space, was_there) = (Rc::new(space), Rc::new(Cell::new(false)));
        let (other, told) = (space.clone(), was_there.clone());
        let marks = move || {
            told.set(leaf_bytes(&other, BASE).is_some());
            if told.get() {
                mark_elsewhere(&other, BASE);
            }
        };
        *kernel.0.machine.hardware.borrow_mut() = Some((step, Box::new(marks)));
        space.remap(BASE, PAGE, PAGE, Move::To(2 * BASE), false).unwrap();
        if !was_there.get() {
            assert!(step > 3, "it was there in the midst");
            return;
        }
        assert_eq!(space.take_lazy(1), 0, "step {step}");
    }
}
