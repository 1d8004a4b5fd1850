//! What is told of pages, and what MADV_FREE and files take away.

use crate::common;

use std::cell::Cell;
use std::rc::Rc;

use common::{Kernel, RW, Space, TestFile, anonymous, leaf_bytes, mark_elsewhere, of_file, read, write};
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::{Access, Advice, AreaFlags, Error, File, Frames, Kind, Page, Place, Rights};
use vellum_vmsa::Granule4K;

const PAGE: u64 = 4096;
const BASE: u64 = 0x1_0000_0000;
const BLOCK: u64 = 512 * PAGE;

/// What is told of the page at `BASE`.
fn page(space: &Space<Granule4K>) -> Page {
    let mut found = None;
    space.pages(BASE..BASE + PAGE, |page| found = Some(*page));
    found.expect("a page")
}

/// Whether it is the program's own, dirty, and may go.
fn told(space: &Space<Granule4K>) -> [bool; 3] {
    let page = page(space);
    [page.is_own, page.is_dirty, page.is_lazy]
}

#[test]
fn what_is_written_is_dirty_and_what_may_go_is_not() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    space.map(anonymous(Place::Fixed(BASE), 1, RW)).unwrap();
    read(&space, BASE).unwrap();
    assert_eq!(told(&space), [false, false, false], "zeros");
    write(&space, BASE, 1).unwrap();
    assert_eq!(told(&space), [true, true, false]);
    space.advise(BASE, PAGE, Advice::Free).unwrap();
    assert_eq!(told(&space), [true, false, true]);
    write(&space, BASE, 2).unwrap();
    assert_eq!(told(&space), [true, true, false]);
    let child = space.fork().unwrap();
    assert_eq!((told(&space), told(&child)), ([true, true, false], [true, true, false]), "of both, and written before");
    space.protect(BASE, PAGE, Rights::READ).unwrap();
    assert_eq!(told(&space), [true, true, false]);
}

#[test]
fn a_shared_files_page_is_dirty_once_it_is_written() {
    let kernel = Kernel::<Granule4K>::new();
    let (space, file) = (kernel.space(), TestFile::new(&kernel, 3, 1));
    space.map(of_file(&file, (Place::Fixed(BASE), 0, 1), RW, AreaFlags::SHARED)).unwrap();
    read(&space, BASE).unwrap();
    assert_eq!(told(&space), [false, false, false]);
    write(&space, BASE, 1).unwrap();
    assert_eq!(told(&space), [false, true, false]);
    file.close();
}

#[test]
fn a_hole_is_in_memory_for_nobody_wherever_it_is() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    for page in [1, 3] {
        space.map(anonymous(Place::Fixed(BASE + page * PAGE), 1, RW)).unwrap();
    }
    for (from, pages) in [(0, 2), (1, 2), (1, 3), (3, 2)] {
        assert_eq!(space.residency(BASE + from * PAGE, pages * PAGE, |_| ()), Err(Error::NoMemory), "{from}, {pages}");
    }
}

#[test]
fn what_may_go_goes_from_where_the_last_page_went() {
    let kernel = Kernel::<Granule4K>::new();
    kernel.0.folio_order.set(9);
    let space = kernel.space();
    space.map(anonymous(Place::Fixed(BASE), 1024, RW)).unwrap();
    for block in [BASE, BASE + BLOCK] {
        write(&space, block, 1).unwrap();
    }
    // The last page of one block, and all of the next.
    space.advise(BASE + BLOCK - PAGE, BLOCK + PAGE, Advice::Free).unwrap();
    assert_eq!((space.take_lazy(3), kernel.out().0), (3, 1021));
    let mut gone = Vec::new();
    (0..1024).for_each(|page| gone.extend(Some(page).filter(|page| leaf_bytes(&space, BASE + page * PAGE).is_none())));
    assert_eq!(gone, [511, 512, 513]);
}

/// What another CPU's hardware marks as written stays, at whichever step of its going that comes.
#[test]
fn what_is_written_meanwhile_does_not_go() {
    let (mut stayed, mut went) = (0, 0);
    for passes in 0.. {
        let kernel = Kernel::<Granule4K>::new();
        let space = Rc::new(kernel.try_space(HardwareUpdates::DirtyState).unwrap());
        space.map(anonymous(Place::Fixed(BASE), 1, RW)).unwrap();
        write(&space, BASE, 1).unwrap();
        space.advise(BASE, PAGE, Advice::Free).unwrap();
        let (other, is_written) = (space.clone(), Rc::new(Cell::new(false)));
        let written = is_written.clone();
        let mark = move || {
            // Hardware writes no descriptor that is invalid.
            if leaf_bytes(&other, BASE).is_some() {
                mark_elsewhere(&other, BASE);
                written.set(true);
            }
        };
        *kernel.0.machine.hardware.borrow_mut() = Some((passes, Box::new(mark)));
        let taken = space.take_lazy(1);
        let has_come = kernel.0.machine.hardware.take().is_none();
        assert_eq!((taken, kernel.out().0), if is_written.get() { (0, 1) } else { (1, 0) }, "{passes}");
        assert_eq!(read(&space, BASE), Ok(u64::from(is_written.get())), "{passes}");
        *if is_written.get() { &mut stayed } else { &mut went } += 1;
        if !has_come {
            break;
        }
    }
    assert!(stayed > 4 && went > 4, "{stayed} stayed, {went} went");
}

/// While a page is read from a file, another CPU has it go.
#[test]
fn what_a_file_has_lost_meanwhile_is_not_mapped() {
    for keeps_copies in [false, true] {
        let kernel = Kernel::<Granule4K>::new();
        let (space, file) = (Rc::new(kernel.space()), TestFile::new(&kernel, 3, 4));
        space.map(of_file(&file, (Place::Fixed(BASE), 0, 4), RW, AreaFlags::empty())).unwrap();
        read(&space, BASE + PAGE).unwrap();
        let (other, its) = (space.clone(), file.clone());
        let beside = move || {
            let lost = its.pages.borrow_mut().remove(&0).expect("the page that is read");
            other.embedder().release(lost);
            other.forget_file(&its, 0..1, keeps_copies);
        };
        *file.beside.borrow_mut() = Some(Box::new(beside));
        space.fault(Access { address: BASE, kind: Kind::Read }).unwrap();
        let held = file.frame(0).unwrap();
        assert_eq!((page(&space).frame, space.usage().file), (held, 2), "what the file has now");
        kernel.release(held);
        drop(space);
        file.close();
        assert_eq!(kernel.out(), (0, 0));
    }
}

/// However long the hole in the file is.
#[test]
fn a_hole_in_a_shared_file_is_one_change_of_its_pages() {
    let kernel = Kernel::<Granule4K>::new();
    let (space, file) = (kernel.space(), TestFile::new(&kernel, 3, 64));
    space.map(of_file(&file, (Place::Fixed(BASE), 0, 64), RW, AreaFlags::SHARED)).unwrap();
    (0..64).for_each(|page| _ = read(&space, BASE + page * PAGE).unwrap());
    let before = kernel.0.machine.loads.get();
    space.forget_file(&file, 0..64, true);
    let loads = kernel.0.machine.loads.get() - before;
    assert!(loads < 8 * 64, "{loads}");
    assert_eq!(space.usage().file, 0);
    file.close();
}
