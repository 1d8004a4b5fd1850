//! A block of zeros that all share: where reads find it, and what becomes of it.

use crate::common;

use common::{Kernel, RW, Space, anonymous, frame_at, is_zeros, leaf_bytes, read, write};
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::{Advice, Error, Move, Place, Rights};
use vellum_vmsa::{Granule, Granule4K, Granule16K, Granule64K};

/// A multiple of every size of a block.
const BASE: u64 = 0x1_0000_0000;
const PAGE: u64 = Granule4K::SIZE_BYTES;
const BLOCK: u64 = 512 * PAGE;

/// A space with an area of `pages` pages from `start` on, where folios are blocks.
fn space<G: Granule>(start: u64, pages: u64) -> (Kernel<G>, Space<G>) {
    let kernel = Kernel::<G>::new();
    kernel.0.folio_order.set(G::SHIFT - 3);
    let space = kernel.space();
    space.map(anonymous(Place::Fixed(start), pages, RW)).unwrap();
    (kernel, space)
}

/// The same, of which a page has been read.
fn zeros() -> (Kernel<Granule4K>, Space<Granule4K>) {
    let (kernel, space) = space::<Granule4K>(BASE, 512);
    assert_eq!(read(&space, BASE + 7 * PAGE), Ok(0));
    assert_eq!(leaf_bytes(&space, BASE), Some(BLOCK));
    (kernel, space)
}

fn a_read_and_a_write<G: Granule>() {
    let (order, bytes) = (G::SHIFT - 3, G::SIZE_BYTES << (G::SHIFT - 3));
    let (kernel, space) = space::<G>(BASE, 2 << order);
    assert_eq!(read(&space, BASE + bytes + 5 * G::SIZE_BYTES), Ok(0));
    assert_eq!((leaf_bytes(&space, BASE), leaf_bytes(&space, BASE + bytes)), (None, Some(bytes)));
    assert_eq!((kernel.out().0, space.usage().anonymous, space.usage().file), (0, 0, 0), "they are nobody's");
    let (mut pages, mut resident) = (0, 0);
    space.pages(BASE..BASE + 2 * bytes, |page| {
        pages += 1;
        assert!(page.is_of_block && !page.is_counted && !page.is_own && !page.is_dirty && is_zeros(page.frame));
        assert_eq!(read(&space, page.address), Ok(0));
    });
    space.residency(BASE, 2 * bytes, |is_resident| resident += u64::from(is_resident)).unwrap();
    assert_eq!((pages, resident), (1 << order, 1 << order));
    // Who writes has a folio, in one fault.
    kernel.0.faults.set(0);
    assert_eq!(write(&space, BASE + bytes + 3 * G::SIZE_BYTES, 9), Ok(9));
    assert_eq!((kernel.0.faults.get(), leaf_bytes(&space, BASE + bytes)), (1, Some(bytes)));
    assert_eq!((kernel.out().0, space.usage().anonymous), (1 << order, 1 << order));
    assert_eq!((read(&space, BASE + bytes), read(&space, BASE + bytes + 3 * G::SIZE_BYTES)), (Ok(0), Ok(9)));
    drop(space);
    assert_eq!(kernel.out(), (0, 0));
}

#[test]
fn a_read_finds_a_block_of_zeros_and_a_write_makes_a_folio_of_it() {
    a_read_and_a_write::<Granule4K>();
    a_read_and_a_write::<Granule16K>();
    a_read_and_a_write::<Granule64K>();
}

#[test]
fn zeros_are_a_page_where_a_write_would_fill_no_block() {
    let read_page = |space: &Space<Granule4K>| {
        assert_eq!(read(space, BASE + 7 * PAGE), Ok(0));
        leaf_bytes(space, BASE + 7 * PAGE)
    };
    for (start, pages) in [(BASE + PAGE, 511), (BASE, 511)] {
        assert_eq!(read_page(&space(start, pages).1), Some(PAGE));
    }
    let (_, advised) = space(BASE, 512);
    advised.advise(BASE, BLOCK, Advice::NotHuge).unwrap();
    assert_eq!(read_page(&advised), Some(PAGE));
    let (_, executable) = space(BASE, 512);
    executable.protect(BASE, BLOCK, RW | Rights::EXECUTE).unwrap();
    assert_eq!(read_page(&executable), Some(PAGE));
    let (small, space_of_groups) = space(BASE, 512);
    small.0.folio_order.set(4);
    assert_eq!(read_page(&space_of_groups), Some(PAGE));
    let (none, space_without) = space(BASE, 512);
    none.0.has_zeros.set(false);
    assert_eq!(read_page(&space_without), Some(PAGE));
    // A table is there.
    none.0.has_zeros.set(true);
    assert_eq!((read(&space_without, BASE), leaf_bytes(&space_without, BASE)), (Ok(0), Some(PAGE)));
}

#[test]
fn a_write_to_zeros_takes_what_there_is() {
    for tolerates in [false, true] {
        for (left, leaf, frames) in [(600, BLOCK, 512), (100, 16 * PAGE, 16), (10, PAGE, 1)] {
            let (kernel, space) = zeros();
            kernel.0.tolerates.set(tolerates);
            kernel.0.left.set(left);
            assert_eq!(write(&space, BASE + 35 * PAGE, 1), Ok(1));
            assert_eq!((leaf_bytes(&space, BASE + 35 * PAGE), kernel.out().0), (Some(leaf), frames));
            for page in 0..512 {
                assert_eq!(read(&space, BASE + page * PAGE), Ok(u64::from(page == 35)), "{page}");
                assert_eq!(
                    is_zeros(frame_at(&space, BASE + page * PAGE)),
                    leaf != BLOCK && page / (leaf / PAGE) != 35 / (leaf / PAGE)
                );
            }
            // Beside it are zeros yet, and of those that are a group a write makes a folio.
            kernel.0.left.set(100);
            assert_eq!(write(&space, BASE + 200 * PAGE, 2), Ok(2));
            assert_eq!(leaf_bytes(&space, BASE + 200 * PAGE), Some(leaf.max(16 * PAGE)));
            drop(space);
            assert_eq!(kernel.out(), (0, 0));
        }
    }
}

/// What a call does to a part: the address of the part, and its bytes.
type Call = fn(&Space<Granule4K>, u64, u64) -> Result<(), Error>;

#[test]
fn a_part_of_zeros_goes_changes_and_moves() {
    let calls: [Call; 4] = [
        |space, at, bytes| space.unmap(at, bytes),
        |space, at, bytes| space.advise(at, bytes, Advice::DontNeed),
        |space, at, bytes| space.protect(at, bytes, Rights::READ),
        |space, at, bytes| {
            space.remap(at, bytes, bytes, Move::To(4 * BASE + 3 * PAGE), false)?;
            (0..bytes / PAGE).for_each(|page| assert_eq!(read(space, 4 * BASE + (3 + page) * PAGE), Ok(0)));
            assert_eq!(write(space, 4 * BASE + 3 * PAGE, 5), Ok(5));
            space.unmap(4 * BASE + 3 * PAGE, bytes)
        },
    ];
    for (tolerates, call) in [false, true].into_iter().flat_map(|tolerates| calls.map(|call| (tolerates, call))) {
        for (from, to) in [(0, 1), (5, 6), (16, 32), (256, 512), (0, 512)] {
            let (kernel, space) = zeros();
            kernel.0.tolerates.set(tolerates);
            call(&space, BASE + from * PAGE, (to - from) * PAGE).unwrap();
            for page in (0..512).filter(|page| !(from..to).contains(page)) {
                assert_eq!(read(&space, BASE + page * PAGE), Ok(0));
            }
            assert_eq!((kernel.out().0, space.usage().anonymous), (0, 0));
            for page in (0..512).filter(|page| !(from..to).contains(page)) {
                assert_eq!(write(&space, BASE + page * PAGE, page), Ok(page));
            }
            drop(space);
            assert_eq!(kernel.out(), (0, 0));
        }
    }
}

#[test]
fn a_child_has_zeros_of_its_parent_and_each_writes_for_itself() {
    let (kernel, parent) = zeros();
    let child = parent.fork().unwrap();
    assert_eq!((leaf_bytes(&child, BASE), kernel.out().0, child.usage().anonymous), (Some(BLOCK), 0, 0));
    assert_eq!(write(&child, BASE, 1), Ok(1));
    assert_eq!(write(&parent, BASE + PAGE, 2), Ok(2));
    assert_eq!((read(&parent, BASE), read(&child, BASE + PAGE), kernel.out().0), (Ok(0), Ok(0), 1024));
    drop((parent, child));
    assert_eq!(kernel.out(), (0, 0));
}

#[test]
fn what_another_cpu_has_put_in_place_meanwhile_stays() {
    // It writes a page while this CPU looks for zeros, or while it fills the folio that is to take their place.
    for is_read_first in [false, true] {
        let (kernel, space) = space::<Granule4K>(BASE, 512);
        let space = std::rc::Rc::new(space);
        if is_read_first {
            assert_eq!(read(&space, BASE), Ok(0));
        }
        let beside = space.clone();
        let write_beside = Box::new(move || assert_eq!(write(&beside, BASE + PAGE, 4), Ok(4)));
        *kernel.0.beside.borrow_mut() = Some((0, write_beside));
        match is_read_first {
            false => assert_eq!(read(&space, BASE), Ok(0)),
            true => assert_eq!(write(&space, BASE, 3), Ok(3)),
        }
        assert!(kernel.0.beside.borrow().is_none());
        assert_eq!(read(&space, BASE + PAGE), Ok(4));
        assert_eq!(read(&space, BASE), Ok(if is_read_first { 3 } else { 0 }));
        assert_eq!((kernel.out().0, space.usage().anonymous), (512, 512));
        drop(space);
        assert_eq!(kernel.out(), (0, 0));
    }
}

#[test]
fn zeros_that_are_cut_and_alike_again_are_a_block() {
    for hardware_updates in [HardwareUpdates::None, HardwareUpdates::DirtyState] {
        let kernel = Kernel::<Granule4K>::new();
        kernel.0.folio_order.set(9);
        let space = kernel.try_space(hardware_updates).unwrap();
        space.map(anonymous(Place::Fixed(BASE), 512, RW)).unwrap();
        assert_eq!(read(&space, BASE), Ok(0));
        space.protect(BASE + 3 * PAGE, PAGE, Rights::empty()).unwrap();
        assert!(read(&space, BASE + 3 * PAGE).is_err() && leaf_bytes(&space, BASE) < Some(BLOCK));
        space.protect(BASE + 3 * PAGE, PAGE, RW).unwrap();
        assert_eq!((leaf_bytes(&space, BASE), read(&space, BASE + 3 * PAGE)), (Some(BLOCK), Ok(0)));
    }
}
