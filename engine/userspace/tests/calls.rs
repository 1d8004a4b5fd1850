//! `mremap`, `madvise`, `mincore`, `mlock` and `msync`, to the error number.

use crate::common;

use common::{Kernel, RW, Space, TestFile, access, anonymous, ceiling, leaf_bytes, maps, of_file, read, write};
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::{Advice, AreaFlags, Error, Fault, Kind, Limits, Locking, Move, Place, Request, Rights};
use vellum_vmsa::{Granule, Granule4K, Granule16K, Granule64K};

const PAGE: u64 = 4096;
const BASE: u64 = 0x1000_0000;
const FAR: u64 = 0x3_0000_0000;

/// A space with pages 0 to `pages` mapped, each of which holds its number and one more.
fn written<G: Granule>(kernel: &Kernel<G>, pages: u64) -> Space<G> {
    let space = kernel.space();
    space.map(anonymous(Place::Fixed(BASE), pages, RW)).unwrap();
    (0..pages).for_each(|page| assert_eq!(write(&space, BASE + page * G::SIZE_BYTES, page + 1), Ok(page + 1)));
    space
}

fn moves<G: Granule>() {
    let (kernel, page) = (Kernel::<G>::new(), G::SIZE_BYTES);
    let space = written(&kernel, 8);
    // Shrinks, grows where it is, moves because it cannot.
    assert_eq!(space.remap(BASE, 8 * page, 6 * page, Move::Never, false), Ok(BASE));
    assert_eq!(read(&space, BASE + 6 * page), Err(Fault::Unmapped));
    assert_eq!(space.remap(BASE, 6 * page, 7 * page, Move::Never, false), Ok(BASE));
    assert_eq!((read(&space, BASE + 5 * page), read(&space, BASE + 6 * page)), (Ok(6), Ok(0)));
    space.map(anonymous(Place::Fixed(BASE + 7 * page), 1, Rights::READ)).unwrap();
    assert_eq!(space.remap(BASE, 7 * page, 9 * page, Move::Never, false), Err(Error::NoMemory));
    let at = space.remap(BASE, 7 * page, 9 * page, Move::May, false).unwrap();
    assert_eq!(at, ceiling() - 9 * page);
    assert_eq!((read(&space, at), read(&space, at + 5 * page), read(&space, at + 8 * page)), (Ok(1), Ok(6), Ok(0)));
    assert_eq!(read(&space, BASE), Err(Fault::Unmapped));
    // The middle of it, to a place, across tables.
    let middle = space.remap(at + 2 * page, 2 * page, 3 * page, Move::To(FAR - page), false).unwrap();
    assert_eq!(
        (read(&space, middle), read(&space, middle + page), read(&space, middle + 2 * page)),
        (Ok(3), Ok(4), Ok(0))
    );
    assert_eq!(
        maps(&space, at),
        [
            ((BASE as i64 - at as i64) / page as i64 + 7, 1, Rights::READ),
            ((FAR as i64 - at as i64) / page as i64 - 1, 3, RW),
            (0, 2, RW),
            (4, 5, RW)
        ]
    );
    assert_eq!(space.usage().anonymous, 6);
    drop(space);
    assert_eq!(kernel.out(), (0, 0));
}

#[test]
fn areas_shrink_grow_and_move() {
    moves::<Granule4K>();
    moves::<Granule16K>();
    moves::<Granule64K>();
}

#[test]
fn what_is_of_a_file_grows_up_to_the_largest_offset() {
    let kernel = Kernel::<Granule4K>::new();
    let (space, file) = (kernel.space(), TestFile::new(&kernel, 5, 8));
    let last = (1 << 51) - 5;
    space.map(of_file(&file, (Place::Fixed(BASE), last, 2), Rights::READ, AreaFlags::empty())).unwrap();
    let grow = |pages| space.remap(BASE + PAGE, PAGE, pages * PAGE, Move::May, false);
    assert_eq!(grow(4), Err(Error::Invalid));
    assert_eq!(grow(3), Ok(BASE + PAGE));
    assert_eq!(space.remap(BASE, 4 * PAGE, 5 * PAGE, Move::To(FAR), false), Err(Error::Invalid));
}

#[test]
fn a_move_that_keeps_leaves_an_area_without_pages() {
    let kernel = Kernel::<Granule4K>::new();
    let space = written(&kernel, 4);
    let at = space.remap(BASE, 4 * PAGE, 4 * PAGE, Move::May, true).unwrap();
    assert_eq!((read(&space, at + PAGE), read(&space, BASE + PAGE)), (Ok(2), Ok(0)));
    assert_eq!(space.remap(BASE, 4 * PAGE, 5 * PAGE, Move::May, true), Err(Error::Invalid));
    assert_eq!(space.remap(BASE, 4 * PAGE, 4 * PAGE, Move::Never, true), Err(Error::Invalid));
    // Near an address, which need not be free.
    let near = |address| space.remap(at, PAGE, PAGE, Move::Near(address), true);
    write(&space, at, 9).unwrap();
    assert_eq!((near(FAR + 8 * PAGE), read(&space, FAR + 8 * PAGE)), (Ok(FAR + 8 * PAGE), Ok(9)));
    assert!(near(FAR + 8 * PAGE).is_ok_and(|other| other != FAR + 8 * PAGE));
    assert_eq!(
        (near(at), near(BASE + 1), near(space.shape().highest)),
        (Err(Error::Invalid), Err(Error::Invalid), Err(Error::Invalid))
    );
    // A mapping of what is shared, once more.
    let mut request = anonymous(Place::Fixed(FAR), 2, RW);
    request.flags = AreaFlags::SHARED;
    space.map(request).unwrap();
    write(&space, FAR, 7).unwrap();
    let other = space.remap(FAR, 0, 2 * PAGE, Move::May, false).unwrap();
    assert_eq!((read(&space, other), read(&space, FAR)), (Ok(7), Ok(7)));
    assert_eq!(space.remap(BASE, 0, PAGE, Move::May, false), Err(Error::Invalid));
}

#[test]
fn what_keeps_its_size_moves_area_by_area() {
    let kernel = Kernel::<Granule4K>::new();
    let space = written(&kernel, 6);
    space.protect(BASE + 2 * PAGE, PAGE, Rights::READ).unwrap();
    space.unmap(BASE + 3 * PAGE, PAGE).unwrap();
    space.map(anonymous(Place::Fixed(FAR), 6, RW)).unwrap();
    (0..6).for_each(|page| assert_eq!(write(&space, FAR + page * PAGE, 9), Ok(9)));
    assert_eq!(space.remap(BASE, 5 * PAGE, 5 * PAGE, Move::To(FAR), false), Ok(FAR));
    let found: Vec<_> = (0..6).map(|page| read(&space, FAR + page * PAGE).unwrap()).collect();
    assert_eq!(found, [1, 2, 3, 9, 5, 9], "what lay at the hole is as it was");
    assert_eq!(maps(&space, BASE)[0], (5, 1, RW), "the rest is gone");
    assert_eq!(space.remap(FAR - PAGE, 2 * PAGE, 2 * PAGE, Move::To(BASE), false), Err(Error::BadAddress));
    assert_eq!(space.remap(FAR, 6 * PAGE, 6 * PAGE, Move::To(FAR + PAGE), false), Err(Error::Invalid), "they overlap");
    assert_eq!(space.remap(FAR, 6 * PAGE, 6 * PAGE, Move::To(BASE), true), Ok(BASE));
    assert_eq!((read(&space, BASE + 4 * PAGE), read(&space, FAR + 4 * PAGE)), (Ok(5), Ok(0)));
}

/// From the middle of the first area to the middle of the last one.
#[test]
fn parts_of_areas_move_too() {
    for (keeps, left) in [(false, 0), (true, 6)] {
        let kernel = Kernel::<Granule4K>::new();
        let space = written(&kernel, 10);
        space.unmap(BASE + 5 * PAGE, PAGE).unwrap();
        assert_eq!(space.remap(BASE + 2 * PAGE, 7 * PAGE, 7 * PAGE, Move::To(FAR), keeps), Ok(FAR), "{keeps}");
        let found: Vec<_> = (0..7).map(|page| read(&space, FAR + page * PAGE)).collect();
        assert_eq!(found, [Ok(3), Ok(4), Ok(5), Err(Fault::Unmapped), Ok(7), Ok(8), Ok(9)]);
        let kept = (2..9).filter(|page| *page != 5 && read(&space, BASE + page * PAGE).is_ok()).count();
        assert_eq!(kept, left);
    }
}

#[test]
fn what_may_be_dropped_is_never_locked() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    space.lock_all(Locking::Now, true, Locking::Now).unwrap();
    let flags = AreaFlags::DROPPABLE | AreaFlags::WIPE_ON_FORK;
    space.map(Request { flags, ..anonymous(Place::Fixed(BASE), 2, RW) }).unwrap();
    assert_eq!((space.lock(BASE, 2 * PAGE, Locking::Now), kernel.out().0), (Ok(()), 0));
    space.areas(|area| assert_eq!(area.flags & AreaFlags::LOCKED, AreaFlags::empty()));
    assert_eq!(space.advise(BASE, PAGE, Advice::KeepOnFork), Err(Error::Invalid));
}

#[test]
fn what_mremap_refuses() {
    let kernel = Kernel::<Granule4K>::new();
    let space = written(&kernel, 4);
    space.protect(BASE + 2 * PAGE, PAGE, Rights::READ).unwrap();
    let remap = |at, old, new, moves| space.remap(at, old, new, moves, false);
    assert_eq!(remap(BASE + 1, PAGE, PAGE, Move::May), Err(Error::Invalid));
    assert_eq!(remap(BASE, PAGE, 0, Move::May), Err(Error::Invalid));
    assert_eq!(remap(BASE - PAGE, PAGE, 2 * PAGE, Move::May), Err(Error::BadAddress));
    assert_eq!(remap(BASE, 3 * PAGE, 4 * PAGE, Move::May), Err(Error::BadAddress), "of more than one area");
    assert_eq!(remap(BASE, PAGE, PAGE, Move::To(FAR + 1)), Err(Error::Invalid));
    assert_eq!(remap(BASE, 2 * PAGE, PAGE, Move::To(BASE + PAGE)), Err(Error::Invalid), "they overlap");
    assert_eq!(remap(BASE, PAGE, PAGE, Move::To(space.shape().highest)), Err(Error::Invalid));
    assert_eq!(remap(BASE, PAGE, PAGE, Move::To(0)), Err(Error::NotPermitted));
    assert_eq!(remap(BASE, 4 * PAGE, PAGE, Move::Never), Ok(BASE), "to shrink it may be of many");
    assert_eq!(maps(&space, BASE), [(0, 1, RW)]);
}

#[test]
fn pages_that_are_not_needed_go() {
    let kernel = Kernel::<Granule4K>::new();
    let space = written(&kernel, 4);
    let file = TestFile::new(&kernel, 5, 4);
    let at = space.map(of_file(&file, (Place::Anywhere, 0, 2), RW, AreaFlags::empty())).unwrap();
    write(&space, at, 1).unwrap();
    space.advise(BASE + PAGE, 2 * PAGE, Advice::DontNeed).unwrap();
    space.advise(at, PAGE, Advice::DontNeed).unwrap();
    assert_eq!((read(&space, BASE), read(&space, BASE + PAGE), read(&space, at)), (Ok(1), Ok(0), Ok(file.value(0))));
    assert_eq!(space.advise(BASE + 1, PAGE, Advice::DontNeed), Err(Error::Invalid));
    assert_eq!(space.advise(BASE, 0, Advice::DontNeed), Ok(()));
    assert_eq!(space.advise(BASE + 3 * PAGE, 2 * PAGE, Advice::DontNeed), Err(Error::NoMemory));
    assert_eq!(read(&space, BASE + 3 * PAGE), Ok(0), "what is there took the advice");
    space.lock(BASE, PAGE, Locking::Now).unwrap();
    assert_eq!(space.advise(BASE, PAGE, Advice::DontNeed), Err(Error::Invalid));
    assert_eq!(space.advise(BASE, PAGE, Advice::DontNeedLocked), Ok(()));
    assert_eq!(space.advise(at, PAGE, Advice::Free), Err(Error::Invalid), "of a file");
    assert_eq!(space.advise(at, PAGE, Advice::WipeOnFork), Err(Error::Invalid));
}

fn lazily(hardware_updates: HardwareUpdates) {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.try_space(hardware_updates).unwrap();
    space.map(anonymous(Place::Fixed(BASE), 4, RW)).unwrap();
    (0..4).for_each(|page| assert_eq!(write(&space, BASE + page * PAGE, page + 1), Ok(page + 1)));
    space.advise(BASE, 3 * PAGE, Advice::Free).unwrap();
    let lazy = || {
        let mut lazy = 0;
        space.pages(0..1 << 35, |page| lazy += usize::from(page.is_lazy));
        lazy
    };
    assert_eq!((lazy(), read(&space, BASE + PAGE)), (3, Ok(2)), "until it is taken, it is there");
    write(&space, BASE, 9).unwrap();
    assert_eq!(lazy(), 2, "what is written again stays");
    assert_eq!((space.take_lazy(1), space.take_lazy(7), lazy()), (1, 1, 0));
    assert_eq!((read(&space, BASE), read(&space, BASE + PAGE), read(&space, BASE + 3 * PAGE)), (Ok(9), Ok(0), Ok(4)));
    assert_eq!(kernel.out().0, 2);
}

#[test]
fn pages_that_may_go_are_there_until_they_are_taken() {
    lazily(HardwareUpdates::None);
    lazily(HardwareUpdates::AccessFlag);
}

#[test]
fn cold_pages_are_accessed_again() {
    let kernel = Kernel::<Granule4K>::new();
    let space = written(&kernel, 2);
    let accessed = || {
        let mut accessed = Vec::new();
        space.pages(BASE..BASE + 2 * PAGE, |page| accessed.push(page.is_accessed));
        accessed
    };
    space.advise(BASE, 2 * PAGE, Advice::Cold).unwrap();
    assert_eq!(accessed(), [false, false]);
    assert_eq!(read(&space, BASE), Ok(1));
    assert_eq!(accessed(), [true, false]);
}

#[test]
fn advice_parts_and_joins_areas() {
    let kernel = Kernel::<Granule4K>::new();
    let space = written(&kernel, 4);
    space.advise(BASE + PAGE, PAGE, Advice::DontFork).unwrap();
    assert_eq!(maps(&space, BASE).len(), 3);
    space.advise(BASE, 4 * PAGE, Advice::DoFork).unwrap();
    assert_eq!(maps(&space, BASE).len(), 1);
}

#[test]
fn pages_are_populated_by_reads_and_writes() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    space.map(anonymous(Place::Fixed(BASE), 4, RW)).unwrap();
    space.populate(BASE, 2 * PAGE, Kind::Read).unwrap();
    assert_eq!(kernel.out().0, 0);
    space.populate(BASE, 2 * PAGE, Kind::Write).unwrap();
    assert_eq!(kernel.out().0, 2);
    assert_eq!(space.populate(BASE, 5 * PAGE, Kind::Read), Err(Error::NoMemory));
    space.protect(BASE, PAGE, Rights::READ).unwrap();
    assert_eq!(space.populate(BASE, PAGE, Kind::Write), Err(Error::Invalid));
    space.protect(BASE, PAGE, Rights::WRITE).unwrap();
    assert_eq!(space.populate(BASE, PAGE, Kind::Read), Err(Error::Invalid), "no reads were promised");
    space.populate(BASE, PAGE, Kind::Write).unwrap();
    let file = TestFile::new(&kernel, 5, 1);
    space.map(of_file(&file, (Place::Fixed(FAR), 0, 2), RW, AreaFlags::SHARED)).unwrap();
    assert_eq!(space.populate(FAR, 2 * PAGE, Kind::Read), Err(Error::BadAddress));
}

/// The pages of so many that are there once they were populated by reads.
fn populated<G: Granule>(pages: u64) -> u64 {
    let (space, mut populated) = (Kernel::<G>::new().space(), 0);
    space.map(anonymous(Place::Fixed(BASE), pages, RW)).unwrap();
    space.populate(BASE, pages * G::SIZE_BYTES, Kind::Read).unwrap();
    space.pages(0..1 << 35, |_| populated += 1);
    populated
}

#[test]
fn each_of_many_pages_is_populated() {
    assert_eq!(populated::<Granule4K>(4100), 4100);
}

fn shared_memory<G: Granule>() {
    let space = Kernel::<G>::new().space();
    let request = Request { flags: AreaFlags::SHARED, ..anonymous(Place::Fixed(BASE), 3, RW) };
    space.map(request).unwrap();
    assert_eq!(write(&space, BASE + 2 * G::SIZE_BYTES, 1), Ok(1));
    assert_eq!(space.remap(BASE, 3 * G::SIZE_BYTES, 4 * G::SIZE_BYTES, Move::Never, false), Ok(BASE));
    assert_eq!(write(&space, BASE + 3 * G::SIZE_BYTES, 1), Err(Fault::Beyond));
}

#[test]
fn shared_memory_has_as_many_pages_as_were_asked_for() {
    shared_memory::<Granule4K>();
    shared_memory::<Granule16K>();
    shared_memory::<Granule64K>();
}

#[test]
fn mincore_tells_of_every_page() {
    let kernel = Kernel::<Granule4K>::new();
    let space = written(&kernel, 2);
    space.map(anonymous(Place::Fixed(BASE + 2 * PAGE), 2, RW)).unwrap();
    read(&space, BASE + 3 * PAGE).unwrap();
    let file = TestFile::new(&kernel, 5, 8);
    space.map(of_file(&file, (Place::Fixed(BASE + 4 * PAGE), 0, 2), RW, AreaFlags::empty())).unwrap();
    read(&space, BASE + 5 * PAGE).unwrap();
    space.advise(BASE + 5 * PAGE, PAGE, Advice::DontNeed).unwrap();
    let residency = |pages| {
        let mut told = Vec::new();
        space.residency(BASE, pages * PAGE, |is_resident| told.push(is_resident)).map(|()| told)
    };
    assert_eq!(residency(6), Ok(vec![true, true, false, true, false, true]));
    assert_eq!(residency(7), Err(Error::NoMemory));
    assert_eq!(space.residency(BASE + 1, PAGE, |_| {}), Err(Error::Invalid));
}

#[test]
fn locked_pages_are_there() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    space.map(anonymous(Place::Fixed(BASE), 8, RW)).unwrap();
    space.lock(BASE + 5, 1, Locking::Now).unwrap();
    assert_eq!((kernel.out().0, space.usage().locked), (1, 1));
    space.lock(BASE + PAGE, 2 * PAGE, Locking::OnFault).unwrap();
    assert_eq!((kernel.out().0, space.usage().locked), (1, 3));
    assert_eq!(maps(&space, BASE).len(), 3);
    space.set_limits(Limits { locked: 4 * PAGE, ..Limits::USUAL });
    assert_eq!(space.lock(BASE, 4 * PAGE, Locking::Now), Ok(()), "three of them were locked before");
    assert_eq!(space.lock(BASE, 5 * PAGE, Locking::Now), Err(Error::NoMemory));
    assert_eq!(space.lock(BASE + 7 * PAGE, 2 * PAGE, Locking::Not), Err(Error::NoMemory));
    space.lock(BASE, 8 * PAGE, Locking::Not).unwrap();
    assert_eq!((space.usage().locked, maps(&space, BASE).len()), (0, 1));
    space.lock_all(Locking::Not, false, Locking::Now).unwrap();
    assert_eq!(space.map(anonymous(Place::Anywhere, 5, RW)), Err(Error::Again));
    let at = space.map(anonymous(Place::Anywhere, 2, RW)).unwrap();
    assert_eq!(kernel.out().0, 6);
    assert_eq!(space.sync(at, PAGE, true), Err(Error::Busy));
    assert_eq!(space.sync(at, PAGE, false), Ok(()));
    assert_eq!(space.sync(at - PAGE, 2 * PAGE, false), Err(Error::NoMemory));
    kernel.0.left.set(0);
    space.set_limits(Limits::USUAL);
    assert_eq!(space.lock(BASE, 8 * PAGE, Locking::Now), Err(Error::Again), "no memory for the pages");
}

#[test]
fn nobody_but_a_program_makes_secret_pages() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    let file = TestFile::new(&kernel, 5, 4);
    let request = of_file(&file, (Place::Fixed(BASE), 0, 4), RW, AreaFlags::SHARED | AreaFlags::SECRET);
    space.map(Request { populates: true, ..request }).unwrap();
    assert_eq!(space.populate(BASE, PAGE, Kind::Write), Err(Error::Invalid));
    assert_eq!(space.lock(BASE, PAGE, Locking::Now), Err(Error::NoMemory));
    assert_eq!((space.usage().locked, leaf_bytes(&space, BASE)), (0, None));
    write(&space, BASE, 7).unwrap();
    assert_eq!(leaf_bytes(&space, BASE), Some(PAGE));
    space.advise(BASE, 4 * PAGE, Advice::DoDump).unwrap();
}

#[test]
fn a_file_that_ends_earlier_takes_its_pages_along() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    let file = TestFile::new(&kernel, 5, 8);
    space.map(of_file(&file, (Place::Fixed(BASE), 2, 4), RW, AreaFlags::empty())).unwrap();
    space.map(of_file(&file, (Place::Fixed(FAR), 0, 8), RW, AreaFlags::SHARED)).unwrap();
    (0..4).for_each(|page| assert_eq!(write(&space, BASE + page * PAGE, page), Ok(page)));
    read(&space, FAR + 4 * PAGE).unwrap();
    file.count.set(4);
    space.forget_file(&file, 4..u64::MAX, false);
    assert_eq!((read(&space, BASE + PAGE), read(&space, BASE + 2 * PAGE)), (Ok(1), Err(Fault::Beyond)));
    assert_eq!(read(&space, FAR + 4 * PAGE), Err(Fault::Beyond));
    assert_eq!(access(&space, FAR, Kind::Read, 0), Ok(file.value(0)));
}

#[test]
fn a_hole_in_a_file_takes_its_pages_along_and_no_copies() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    let file = TestFile::new(&kernel, 5, 8);
    space.map(of_file(&file, (Place::Fixed(BASE), 2, 4), RW, AreaFlags::empty())).unwrap();
    space.map(of_file(&file, (Place::Fixed(FAR), 0, 8), RW, AreaFlags::SHARED)).unwrap();
    write(&space, BASE + PAGE, 7).unwrap();
    (0..4).for_each(|page| _ = read(&space, BASE + page * PAGE).unwrap());
    (0..8).for_each(|page| _ = write(&space, FAR + page * PAGE, 1).unwrap());
    space.forget_file(&file, 3..5, true);
    let is_mapped = |at: u64| leaf_bytes(&space, at).is_some();
    assert_eq!([0, 1, 2, 3].map(|page| is_mapped(BASE + page * PAGE)), [true, true, false, true]);
    assert_eq!([2, 3, 4, 5].map(|page| is_mapped(FAR + page * PAGE)), [true, false, false, true]);
    assert_eq!(read(&space, BASE + PAGE), Ok(7), "the program's own");
    assert_eq!(space.usage().file, 2 + 6);
}
