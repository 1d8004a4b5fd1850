//! Tables that are lacking, that are of no use, and that come free: each goes back to who brought it.

use crate::common;

use std::rc::Rc;

use common::{Kernel, RW, anonymous, read, write};
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::{Access, Advice, Error, Fault, Frames, Kind, Move, Place};
use vellum_vmsa::{Geometry, Granule, Granule4K, Granule16K, Granule64K, Level, PhysAddr};

const PAGE: u64 = 4096;
const BASE: u64 = 0x1_0000_0000;

/// Where no descriptor leads.
fn beyond(kernel: &Kernel<Granule4K>) -> PhysAddr {
    PhysAddr::new(1 << kernel.shape(HardwareUpdates::None).geometry.layout().output_bits())
}

/// Pages at both ends of what each level's descriptor leads to, and of the whole, each by itself and all together.
fn comes_back<G: Granule>() {
    let kernel = Kernel::<G>::new();
    let space = kernel.space();
    let (highest, page, shape) = (space.shape().highest, G::SIZE_BYTES, space.shape().geometry);
    let levels = Level::ALL.into_iter().filter(|&level| level >= shape.start() && level < Level::L3);
    let ends = levels.flat_map(|level| [0, page].map(|less| (1 << Geometry::<G>::shift(level)) - less));
    let pages: Vec<u64> = ends.chain([1 << 16, highest - page]).filter(|&at| at < highest).collect();
    let map = |&at: &u64| {
        space.map(anonymous(Place::Fixed(at), 1, RW)).unwrap();
        write(&space, at, 1).unwrap();
    };
    for at in &pages {
        map(at);
        assert!(kernel.out().1 > 1);
        space.unmap(*at, page).unwrap();
        assert_eq!(kernel.out(), (0, 1), "the root is left of a page at {at:#x}");
    }
    pages.iter().for_each(map);
    assert_eq!(kernel.out().0, pages.len());
    pages.iter().for_each(|&at| space.unmap(at, page).unwrap());
    assert_eq!(kernel.out(), (0, 1), "the root is left");
    pages.iter().for_each(map);
    drop(space);
    assert_eq!(kernel.out(), (0, 0));
}

#[test]
fn every_table_comes_back_once_it_is_empty() {
    comes_back::<Granule4K>();
    comes_back::<Granule16K>();
    comes_back::<Granule64K>();
}

#[test]
fn a_table_that_no_descriptor_leads_to_is_none() {
    let kernel = Kernel::<Granule4K>::new();
    let wide = beyond(&kernel);
    kernel.give_table(wide);
    assert_eq!(kernel.try_space(HardwareUpdates::None).err(), Some(Error::NoMemory));
    assert_eq!((kernel.out(), kernel.take_table()), ((0, 0), Some(wide)), "it is there again");
    let space = kernel.space();
    space.map(anonymous(Place::Fixed(BASE), 4, RW)).unwrap();
    write(&space, BASE, 1).unwrap();
    let (before, promised) = (kernel.out(), kernel.0.committed.get());
    kernel.give_table(wide);
    assert_eq!(space.fork().err(), Some(Error::NoMemory));
    assert_eq!((kernel.out(), kernel.0.committed.get()), (before, promised));
    assert_eq!(kernel.take_table(), Some(wide));
}

/// The rest of a block is a child's too: a page of it gets a leaf of its own, and a table.
#[test]
fn a_page_of_a_block_that_lacks_a_table_cannot_be_written() {
    let kernel = Kernel::<Granule4K>::new();
    kernel.0.folio_order.set(9);
    let parent = kernel.space();
    parent.map(anonymous(Place::Fixed(BASE), 512, RW)).unwrap();
    write(&parent, BASE, 1).unwrap();
    let child = parent.fork().unwrap();
    child.advise(BASE + 7 * PAGE, PAGE, Advice::DontNeed).unwrap();
    kernel.0.left.set(0);
    assert_eq!(write(&parent, BASE + 7 * PAGE, 2), Err(Fault::OutOfMemory));
    kernel.0.left.set(1);
    assert_eq!(write(&parent, BASE + 7 * PAGE, 2), Ok(2));
}

/// However many pages move, TLBs are waited for once for them, and once for the tables that come free. Frames that are no neighbours are
/// given back in rounds.
#[test]
fn to_move_waits_twice_and_to_drop_once_a_round() {
    let rounds = |pages: u64| {
        let space = Kernel::<Granule4K>::new().space();
        let other = BASE + 1024 * PAGE;
        for start in [BASE, other] {
            space.map(anonymous(Place::Fixed(start), pages, RW)).unwrap();
        }
        for page in 0..pages {
            write(&space, BASE + page * PAGE, 1).unwrap();
            write(&space, other + page * PAGE, 1).unwrap();
        }
        let waits = &space.embedder().0.machine.waits;
        waits.set(0);
        space.remap(other, pages * PAGE, pages * PAGE, Move::To(2 * BASE), false).unwrap();
        let moved = waits.replace(0);
        space.advise(BASE, pages * PAGE, Advice::DontNeed).unwrap();
        [moved, waits.get()]
    };
    // A table of which a part alone moves comes free by itself.
    assert_eq!([1, 512, 513, 1024].map(rounds), [[2, 1], [2, 1], [2 + 1, 2], [2, 2]]);
}

/// A hole that was found is in no table any more once another CPU has moved what else the table had.
#[test]
fn a_page_comes_into_no_table_that_has_come_free() {
    for keeps in [true, false] {
        let kernel = Kernel::<Granule4K>::new();
        let space = Rc::new(kernel.space());
        space.map(anonymous(Place::Fixed(BASE), 512, RW)).unwrap();
        write(&space, BASE, 1).unwrap();
        let other = space.clone();
        let moves = move || _ = other.remap(BASE, 512 * PAGE, 512 * PAGE, Move::To(2 * BASE), keeps).unwrap();
        *kernel.0.beside.borrow_mut() = Some((0, Box::new(moves)));
        let made = space.fault(Access { address: BASE + 5 * PAGE, kind: Kind::Write });
        assert_eq!(made, if keeps { Ok(()) } else { Err(Fault::Unmapped) });
        assert!(kernel.0.beside.borrow().is_none());
        assert_eq!((space.usage().anonymous, read(&space, 2 * BASE)), (1 + u64::from(keeps), Ok(1)));
        drop(space);
        assert_eq!(kernel.out(), (0, 0));
    }
}
