//! What a program finds: first touch, copies, forks, files, marks.

use std::rc::Rc;

use crate::common;

use common::{
    Kernel, RW, RX, Space, TestFile, access, anonymous, can_be_written, frame_at, maps, mark_elsewhere, of_file, read,
    write,
};
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::{Access, Advice, AreaFlags, Fault, Frames, Kind, Place, Rights};
use vellum_vmsa::{Granule, Granule4K, Granule16K, Granule64K, Level, Syndrome};

const BASE: u64 = 0x1000_0000;

const UPDATES: [HardwareUpdates; 3] = [HardwareUpdates::None, HardwareUpdates::AccessFlag, HardwareUpdates::DirtyState];

fn first_touch<G: Granule>() {
    let (kernel, page) = (Kernel::<G>::new(), G::SIZE_BYTES);
    let space = kernel.space();
    assert_eq!(read(&space, BASE), Err(Fault::Unmapped));
    space.map(anonymous(Place::Fixed(BASE), 4, RW)).unwrap();
    assert_eq!(read(&space, BASE + 8), Ok(0));
    assert_eq!(kernel.out().0, 0, "all zeros are one page");
    assert_eq!(write(&space, BASE, 5), Ok(5));
    assert_eq!(write(&space, BASE + page, 6), Ok(6));
    assert_eq!((read(&space, BASE), read(&space, BASE + page), read(&space, BASE + 2 * page)), (Ok(5), Ok(6), Ok(0)));
    assert_eq!(kernel.out().0, 2);
    assert_eq!(space.usage().anonymous, 2);
    assert_eq!(access(&space, BASE, Kind::Execute, 0), Err(Fault::Denied));
    drop(space);
    assert_eq!(kernel.out(), (0, 0));
}

#[test]
fn a_page_is_made_when_it_is_touched() {
    first_touch::<Granule4K>();
    first_touch::<Granule16K>();
    first_touch::<Granule64K>();
}

/// What a first touch finds where another CPU does something while its zeros are made, with a folio of this order; and how many
/// frames are out then, one of which makes a table be there.
fn first_touch_beside<G: Granule>(order: u32, beside: impl FnOnce(&Space<G>) + 'static) -> (Result<u64, Fault>, usize) {
    let (kernel, pages) = (Kernel::<G>::new(), 2 << order);
    let space = Rc::new(kernel.space());
    space.map(anonymous(Place::Fixed(BASE), pages, RW)).unwrap();
    write(&space, BASE + ((pages - 1) << G::SHIFT), 1).unwrap();
    kernel.0.folio_order.set(order);
    let other = space.clone();
    *kernel.0.beside.borrow_mut() = Some((0, Box::new(move || beside(&other))));
    let touched = space.fault(Access { address: BASE, kind: Kind::Write });
    assert!(kernel.0.beside.borrow().is_none(), "the other CPU came");
    let found = (touched.and_then(|()| read(&space, BASE)), kernel.out().0);
    assert_eq!(space.usage().anonymous, found.1 as u64);
    drop(space);
    assert_eq!(kernel.out(), (0, 0));
    found
}

fn first_touches_beside<G: Granule>() {
    let group = G::PAGE_SIZE.contiguous_shift(Level::L3).unwrap();
    for (order, frames) in [(0, 1), (group, 1 << group)] {
        let bytes = G::SIZE_BYTES << order;
        let alone = first_touch_beside::<G>(order, |_| ());
        assert_eq!(alone, (Ok(0), 1 + frames));
        let written = first_touch_beside::<G>(order, |other| assert_eq!(write(other, BASE, 7), Ok(7)));
        assert_eq!(written, (Ok(7), 1 + frames), "what the other CPU wrote is there, and no frame too many");
        let unmapped = first_touch_beside::<G>(order, move |other| other.unmap(BASE, bytes).unwrap());
        assert_eq!(unmapped, (Err(Fault::Unmapped), 1));
        let protected = first_touch_beside::<G>(order, move |other| other.protect(BASE, bytes, Rights::READ).unwrap());
        assert_eq!(protected, (Err(Fault::Denied), 1));
    }
    // A page of what is to be a folio is there meanwhile: the others come one by one.
    let one = first_touch_beside::<G>(group, |other| assert_eq!(read(other, BASE + G::SIZE_BYTES), Ok(0)));
    assert_eq!(one, (Ok(0), 2));
}

#[test]
fn a_first_touch_loses_nothing_that_another_cpu_does_meanwhile() {
    first_touches_beside::<Granule4K>();
    first_touches_beside::<Granule16K>();
    first_touches_beside::<Granule64K>();
}

/// Frames that are taken for the first touch of a page by an atomic.
fn frames_of_an_atomic(rights: Rights, flags: AreaFlags, is_of_file: bool) -> usize {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    let file = TestFile::new(&kernel, 1, 1);
    let of_file = of_file(&file, (Place::Fixed(BASE), 0, 1), rights, flags);
    space.map(if is_of_file { of_file } else { anonymous(Place::Fixed(BASE), 1, rights) }).unwrap();
    space.fault(Access { address: BASE, kind: Kind::Atomic }).unwrap();
    let frames = kernel.out().0;
    file.close();
    frames
}

#[test]
fn a_first_touch_by_an_atomic_is_a_write_where_memory_is_private_without_a_file_and_may_be_written() {
    let (private, shared) = (AreaFlags::empty(), AreaFlags::SHARED);
    assert_eq!(frames_of_an_atomic(RW, private, false), 1);
    assert_eq!(frames_of_an_atomic(Rights::WRITE, private, false), 1);
    assert_eq!(frames_of_an_atomic(Rights::READ, private, false), 0, "the page of zeros, so that the write is refused");
    assert_eq!(frames_of_an_atomic(RW, private, true), 1, "the file's own page, and no copy of it");
    assert_eq!(frames_of_an_atomic(RW, shared, true), 1);
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    let fault = |address| space.fault(Access { address, kind: Kind::Atomic });
    assert_eq!(fault(BASE), Err(Fault::Unmapped));
    space.map(anonymous(Place::Fixed(BASE), 2, Rights::empty())).unwrap();
    assert_eq!(fault(BASE), Err(Fault::Denied));
    space.protect(BASE, 2 << 12, RW).unwrap();
    assert_eq!((read(&space, BASE), fault(BASE)), (Ok(0), Ok(())));
    assert_eq!(kernel.out().0, 1, "what was read before has its own page now");
}

fn fork<G: Granule>(hardware_updates: HardwareUpdates) {
    let (kernel, page) = (Kernel::<G>::new(), G::SIZE_BYTES);
    let parent = kernel.try_space(hardware_updates).unwrap();
    parent.map(anonymous(Place::Fixed(BASE), 8, RW)).unwrap();
    write(&parent, BASE, 1).unwrap();
    write(&parent, BASE + page, 2).unwrap();
    let child = parent.fork().unwrap();
    assert_eq!(kernel.out().0, 2, "a fork copies no page");
    assert_eq!((read(&child, BASE), read(&child, BASE + page)), (Ok(1), Ok(2)));
    write(&parent, BASE, 3).unwrap();
    write(&child, BASE + page, 4).unwrap();
    assert_eq!((read(&parent, BASE), read(&parent, BASE + page)), (Ok(3), Ok(2)));
    assert_eq!((read(&child, BASE), read(&child, BASE + page)), (Ok(1), Ok(4)));
    assert_eq!(kernel.out().0, 4);
    // Whoever is left alone with a page writes to it, not to a copy.
    write(&child, BASE, 5).unwrap();
    write(&parent, BASE + page, 6).unwrap();
    assert_eq!(kernel.out().0, 4);
    let grandchild = child.fork().unwrap();
    drop(child);
    assert_eq!((read(&grandchild, BASE), read(&grandchild, BASE + 2 * page)), (Ok(5), Ok(0)));
    write(&grandchild, BASE, 9).unwrap();
    assert_eq!(kernel.out().0, 4);
    drop((parent, grandchild));
    assert_eq!(kernel.out(), (0, 0));
}

#[test]
fn a_fork_copies_a_page_when_it_is_written() {
    for updates in UPDATES {
        fork::<Granule4K>(updates);
        fork::<Granule16K>(updates);
        fork::<Granule64K>(updates);
    }
}

/// A child goes and another CPU writes, both while a fault makes a copy: what it wrote is there afterwards.
fn copies_beside_a_write<G: Granule>(hardware_updates: HardwareUpdates, passes: usize) {
    let kernel = Kernel::<G>::new();
    let parent = Rc::new(kernel.try_space(hardware_updates).unwrap());
    parent.map(anonymous(Place::Fixed(BASE), 2, RW)).unwrap();
    write(&parent, BASE, 1).unwrap();
    let (child, other) = (parent.fork().unwrap(), parent.clone());
    let beside = move || {
        drop(child);
        write(&other, BASE, 7).unwrap();
    };
    *kernel.0.beside.borrow_mut() = Some((passes, Box::new(beside)));
    parent.fault(Access { address: BASE, kind: Kind::Write }).unwrap();
    assert!(kernel.0.beside.borrow().is_none(), "the other CPU came after {passes} steps");
    assert_eq!(read(&parent, BASE), Ok(7), "after {passes} steps");
    assert_eq!((parent.usage().anonymous, kernel.out().0), (1, 1));
    drop(parent);
    assert_eq!(kernel.out(), (0, 0));
}

#[test]
fn a_copy_loses_nothing_that_another_cpu_writes_meanwhile() {
    for (updates, passes) in UPDATES.into_iter().flat_map(|updates| [(updates, 0), (updates, 1)]) {
        copies_beside_a_write::<Granule4K>(updates, passes);
        copies_beside_a_write::<Granule16K>(updates, passes);
        copies_beside_a_write::<Granule64K>(updates, passes);
    }
}

/// A CPU that marks nothing by itself holds pages as clean, of which another's hardware marks one.
fn writes_what_is_marked_elsewhere<G: Granule>(order: u32, is_marked_twice: bool) {
    let kernel = Kernel::<G>::new();
    kernel.0.folio_order.set(order);
    let space = kernel.try_space(HardwareUpdates::DirtyState).unwrap();
    let at = |page: u64| (1 << 32) + page * G::SIZE_BYTES;
    space.map(anonymous(Place::Fixed(at(0)), 1 << order, RW)).unwrap();
    write(&space, at(0), 1).unwrap();
    space.advise(at(0), G::SIZE_BYTES << order, Advice::Free).unwrap();
    let last = (1 << order) - 1;
    assert_eq!((read(&space, at(0)), read(&space, at(last))), (Ok(1), Ok(u64::from(order == 0))));
    mark_elsewhere(&space, at(last));
    if is_marked_twice {
        mark_elsewhere(&space, at(0));
    }
    let before = (kernel.0.faults.get(), kernel.0.machine.tlbis.get());
    assert_eq!(write(&space, at(last), 7), Ok(7));
    let after = (kernel.0.faults.get(), kernel.0.machine.tlbis.get());
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1), "it is forgotten on this CPU");
    assert_eq!(write(&space, at(0), 8), Ok(8));
    assert!(can_be_written(&space, at(0)) && can_be_written(&space, at(last)));
}

#[test]
fn a_cpu_that_marks_nothing_writes_what_another_has_marked() {
    for (order, is_marked_twice) in [(0, false), (4, false), (4, true)] {
        writes_what_is_marked_elsewhere::<Granule4K>(order, is_marked_twice);
    }
    writes_what_is_marked_elsewhere::<Granule16K>(7, false);
    writes_what_is_marked_elsewhere::<Granule64K>(5, true);
}

#[test]
fn what_a_fork_does_not_copy() {
    let (kernel, page) = (Kernel::<Granule4K>::new(), 4096);
    let parent = kernel.space();
    let shared = |flags| {
        let mut request = anonymous(Place::Anywhere, 1, RW);
        request.flags = flags;
        parent.map(request).unwrap()
    };
    let (common, gone) = (shared(AreaFlags::SHARED), shared(AreaFlags::DONT_FORK));
    let wiped = shared(AreaFlags::WIPE_ON_FORK);
    [common, gone, wiped].into_iter().for_each(|at| assert_eq!(write(&parent, at, 8), Ok(8)));
    let child = parent.fork().unwrap();
    assert_eq!(child.usage().mapped + 1, parent.usage().mapped);
    assert_eq!((read(&child, common), read(&child, gone), read(&child, wiped)), (Ok(8), Err(Fault::Unmapped), Ok(0)));
    write(&child, common + page - 8, 9).unwrap();
    assert_eq!(read(&parent, common), Ok(9));
    assert_eq!(read(&parent, wiped), Ok(8));
}

#[test]
fn pages_of_files_are_the_files_own_until_a_private_one_is_written() {
    let (kernel, page) = (Kernel::<Granule4K>::new(), 4096);
    let space = kernel.space();
    let file = TestFile::new(&kernel, 3, 2);
    let private = space.map(of_file(&file, (Place::Anywhere, 0, 4), RW, AreaFlags::empty())).unwrap();
    let shared = space.map(of_file(&file, (Place::Anywhere, 0, 4), RW, AreaFlags::SHARED)).unwrap();
    assert_eq!(read(&space, private), Ok(file.value(0)));
    assert_eq!(read(&space, shared), Ok(file.value(0)));
    assert_eq!((kernel.out().0, space.usage().file, file.written.get()), (1, 2, 0));
    write(&space, private, 1).unwrap();
    assert_eq!((read(&space, shared), file.written.get()), (Ok(file.value(0)), 0));
    write(&space, shared, 2).unwrap();
    assert_eq!((read(&space, private), read(&space, shared), file.written.get()), (Ok(1), Ok(2), 1));
    write(&space, shared + page, 4).unwrap();
    assert_eq!(read(&space, private + page), Ok(4), "a private page not yet written shows what the file has");
    assert_eq!(read(&space, shared + 2 * page), Err(Fault::Beyond));
    assert_eq!(write(&space, private + 2 * page, 1), Err(Fault::Beyond));
    space.unmap(private, 4 * page).unwrap();
    assert_eq!((space.usage().file, space.usage().anonymous), (2, 0));
    drop(space);
    file.close();
    assert_eq!(kernel.out(), (0, 0));
}

fn protect<G: Granule>(hardware_updates: HardwareUpdates) {
    let (kernel, page) = (Kernel::<G>::new(), G::SIZE_BYTES);
    let space = kernel.try_space(hardware_updates).unwrap();
    space.map(anonymous(Place::Fixed(BASE), 4, RW)).unwrap();
    (0..3).for_each(|number| assert_eq!(write(&space, BASE + number * page, number), Ok(number)));
    space.protect(BASE + page, 2 * page, Rights::READ).unwrap();
    assert_eq!(write(&space, BASE + page, 7), Err(Fault::Denied));
    assert_eq!((read(&space, BASE + page), write(&space, BASE, 8)), (Ok(1), Ok(8)));
    space.protect(BASE + page, page, Rights::empty()).unwrap();
    assert_eq!((read(&space, BASE + page), read(&space, BASE + 2 * page)), (Err(Fault::Denied), Ok(2)));
    space.protect(BASE, 4 * page, RW).unwrap();
    assert_eq!((write(&space, BASE + page, 9), read(&space, BASE + 2 * page)), (Ok(9), Ok(2)));
    space.protect(BASE, page, RX).unwrap();
    assert_eq!((access(&space, BASE, Kind::Execute, 0), write(&space, BASE, 1)), (Ok(8), Err(Fault::Denied)));
    assert_eq!(maps(&space, BASE), [(0, 1, RX), (1, 3, RW)]);
}

#[test]
fn rights_change_where_pages_are_and_where_none_are() {
    for updates in UPDATES {
        protect::<Granule4K>(updates);
        protect::<Granule16K>(updates);
        protect::<Granule64K>(updates);
    }
}

#[test]
fn cache_maintenance_reads() {
    // A data abort from EL0, a permission fault at level 3, CM and WnR set: DC CVAU on text.
    let maintenance = Syndrome::new(0x24 << 26 | 1 << 8 | 1 << 6 | 0b1111);
    let access = Access::of(maintenance, BASE).unwrap();
    assert_eq!(access.kind, Kind::Read);
    assert_eq!(Access::of(Syndrome::new(0x24 << 26 | 1 << 6 | 0b1111), BASE).unwrap().kind, Kind::Write);
    assert_eq!(Access::of(Syndrome::new(0x20 << 26 | 0b0111), BASE).unwrap().kind, Kind::Execute);
    assert_eq!(Access::of(Syndrome::new(0x15 << 26), BASE), None);
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    let file = TestFile::new(&kernel, 1, 1);
    space.map(of_file(&file, (Place::Fixed(BASE), 0, 1), RX, AreaFlags::empty())).unwrap();
    assert_eq!(space.fault(access), Ok(()));
    assert_eq!((kernel.out().0, read(&space, BASE)), (1, Ok(file.value(0))), "nothing was copied");
}

#[test]
fn memory_that_runs_out_changes_nothing() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    space.map(anonymous(Place::Fixed(BASE), 4, RW)).unwrap();
    write(&space, BASE, 1).unwrap();
    kernel.0.left.set(0);
    assert_eq!(write(&space, BASE + 4096, 1), Err(Fault::OutOfMemory));
    assert_eq!(read(&space, BASE + 4096), Ok(0));
    assert!(space.fork().is_err());
    assert_eq!(write(&space, BASE, 2), Ok(2));
}

#[test]
fn populated_pages_are_there() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    let mut request = anonymous(Place::Fixed(BASE), 700, RW);
    request.populates = true;
    space.map(request).unwrap();
    assert_eq!((kernel.out().0, space.usage().anonymous), (700, 700));
    let tables = kernel.out().1;
    space.unmap(BASE + 10 * 4096, 680 * 4096).unwrap();
    assert_eq!((kernel.out().0, kernel.out().1), (20, tables));
    space.unmap(BASE, 700 * 4096).unwrap();
    assert_eq!(kernel.out(), (0, 1), "only the root is left");
}

/// Whatever else refers to its frame by then.
#[test]
fn what_may_go_and_is_written_again_stays_where_it_is() {
    for (updates, order) in [(HardwareUpdates::None, 0), (HardwareUpdates::AccessFlag, 0), (HardwareUpdates::None, 4)] {
        let kernel = Kernel::<Granule4K>::new();
        kernel.0.folio_order.set(order);
        let space = kernel.try_space(updates).unwrap();
        space.map(anonymous(Place::Fixed(BASE), 1 << order, RW)).unwrap();
        write(&space, BASE, 1).unwrap();
        let frame = frame_at(&space, BASE);
        space.advise(BASE, 4096 << order, Advice::Free).unwrap();
        kernel.share(frame);
        assert_eq!(write(&space, BASE, 2), Ok(2));
        assert_eq!((frame_at(&space, BASE), kernel.out().0), (frame, 1 << order));
        assert!((0..1 << order).all(|page| can_be_written(&space, BASE + page * 4096)));
        kernel.release(frame);
    }
}
