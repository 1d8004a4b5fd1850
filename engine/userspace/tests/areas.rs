//! Areas: where they come to be, how they join and part, what is refused.

use crate::common;

use common::{Kernel, RW, TestFile, anonymous, ceiling, maps, of_file, read, write};
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::{Access, Advice, AreaFlags, Error, Fault, Kind, Limits, Locking, Place, Rights, Source};
use vellum_vmsa::{Granule, Granule4K, Granule16K, Granule64K};

const PAGE: u64 = 4096;
const BASE: u64 = 0x10_0000;

#[test]
fn room_is_found_below_the_ceiling_and_neighbours_are_one() {
    let space = Kernel::<Granule4K>::new().space();
    assert_eq!(space.map(anonymous(Place::Anywhere, 4, RW)), Ok(ceiling() - 4 * PAGE));
    assert_eq!(space.map(anonymous(Place::Anywhere, 2, RW)), Ok(ceiling() - 6 * PAGE));
    assert_eq!(maps(&space, ceiling()), [(-6, 6, RW)]);
    assert_eq!(space.map(anonymous(Place::Anywhere, 1, Rights::READ)), Ok(ceiling() - 7 * PAGE));
    assert_eq!(maps(&space, ceiling()), [(-7, 1, Rights::READ), (-6, 6, RW)]);
    // A hole that is large enough is taken first.
    space.unmap(ceiling() - 3 * PAGE, 2 * PAGE).unwrap();
    assert_eq!(space.map(anonymous(Place::Anywhere, 2, Rights::empty())), Ok(ceiling() - 3 * PAGE));
    assert_eq!(space.map(anonymous(Place::Anywhere, 3, Rights::empty())), Ok(ceiling() - 10 * PAGE));
}

#[test]
fn a_hint_is_taken_where_there_is_room() {
    let space = Kernel::<Granule4K>::new().space();
    assert_eq!(space.map(anonymous(Place::Near(BASE + 5), 1, RW)), Ok(BASE));
    assert_eq!(space.map(anonymous(Place::Near(BASE), 1, RW)), Ok(ceiling() - PAGE));
    assert_eq!(space.map(anonymous(Place::Near(1), 1, RW)), Ok(0x1_0000));
    let highest = space.shape().highest;
    assert_eq!(space.map(anonymous(Place::Near(highest - 2 * PAGE), 2, RW)), Ok(highest - 2 * PAGE), "to the end");
    assert_eq!(space.map(anonymous(Place::Near(highest - PAGE), 2, RW)), Ok(ceiling() - 3 * PAGE), "beyond the end");
    // Blocks are at blocks, be there no room where they were to be.
    let block = 512;
    assert_eq!(space.map(anonymous(Place::Near(BASE), block, RW)), Ok(ceiling() - 2 * block * PAGE));
}

#[test]
fn the_first_page_is_one_as_any_where_it_may_be_mapped() {
    let kernel = Kernel::<Granule4K>::new();
    let shape = vellum_userspace::Shape { lowest: 0, lowest_fixed: 0, ..kernel.shape(HardwareUpdates::None) };
    let space = vellum_userspace::AddressSpace::new(kernel, shape, ceiling(), Limits::USUAL).unwrap();
    space.map(anonymous(Place::Fixed(0), 1, RW)).unwrap();
    assert_eq!(write(&space, 0, 5), Ok(5));
    space.unmap(0, PAGE).unwrap();
    assert_eq!(read(&space, 0), Err(Fault::Unmapped));
    assert_eq!(space.fault(Access { address: 0, kind: Kind::Write }), Err(Fault::Unmapped));
}

#[test]
fn a_fixed_mapping_replaces_or_refuses() {
    let space = Kernel::<Granule4K>::new().space();
    space.map(anonymous(Place::Fixed(BASE), 4, RW)).unwrap();
    write(&space, BASE + PAGE, 7).unwrap();
    assert_eq!(space.map(anonymous(Place::FixedNoReplace(BASE + 3 * PAGE), 4, RW)), Err(Error::Exists));
    assert_eq!(space.map(anonymous(Place::FixedNoReplace(BASE + 4 * PAGE), 4, RW)), Ok(BASE + 4 * PAGE));
    assert_eq!(space.map(anonymous(Place::Fixed(BASE + PAGE), 2, Rights::READ)), Ok(BASE + PAGE));
    assert_eq!(maps(&space, BASE), [(0, 1, RW), (1, 2, Rights::READ), (3, 5, RW)]);
    assert_eq!(read(&space, BASE + PAGE), Ok(0), "what was there is gone");
}

#[test]
fn what_means_nothing_is_refused() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    let file = TestFile::new(&kernel, 1, 8);
    let refused = |request| space.map(request).unwrap_err();
    assert_eq!(refused(anonymous(Place::Anywhere, 0, RW)), Error::Invalid);
    assert_eq!(refused(anonymous(Place::Fixed(BASE + 1), 1, RW)), Error::Invalid);
    assert_eq!(refused(anonymous(Place::Fixed(0), 1, RW)), Error::NotPermitted);
    // What a call names may lie lower than what is chosen.
    assert_eq!(space.map(anonymous(Place::Fixed(0x8000), 1, RW)), Ok(0x8000));
    assert_eq!(space.map(anonymous(Place::Near(0x9000), 1, RW)), Ok(0x1_0000));
    assert_eq!(refused(anonymous(Place::Fixed(space.shape().highest), 1, RW)), Error::NoMemory);
    assert_eq!(refused(anonymous(Place::Anywhere, space.shape().highest >> 11, RW)), Error::NoMemory);
    assert_eq!(refused(anonymous(Place::Anywhere, (1 << 52) - 512, RW)), Error::NoMemory, "all addresses but a block");
    assert_eq!(
        refused(anonymous(Place::Fixed(0), space.shape().highest >> 12, RW)),
        Error::NotPermitted,
        "all that there are, and no more"
    );
    let odd = Source::File { file: file.clone(), offset: 5, most: Rights::all() };
    let mut request = of_file(&file, (Place::Anywhere, 0, 1), RW, AreaFlags::SHARED);
    request.source = odd;
    assert_eq!(refused(request.clone()), Error::Invalid);
    request.source = Source::File { file: file.clone(), offset: i64::MAX as u64 & !(PAGE - 1), most: Rights::all() };
    assert_eq!(refused(request.clone()), Error::Overflow);
    request.source = Source::File { file: file.clone(), offset: 0, most: Rights::READ };
    assert_eq!(refused(request.clone()), Error::Denied);
    // Private, it may be written all the same.
    request.flags = AreaFlags::empty();
    let at = space.map(request).unwrap();
    assert_eq!(space.protect(at, PAGE, Rights::READ | Rights::EXECUTE), Err(Error::Denied));
    assert_eq!(space.unmap(BASE + 1, PAGE), Err(Error::Invalid));
    assert_eq!(space.unmap(BASE, 0), Err(Error::Invalid));
    assert_eq!(space.unmap(space.shape().highest, PAGE), Err(Error::Invalid));
    assert_eq!(space.unmap(BASE, PAGE), Ok(()), "nothing is there, and that is no error");
    assert_eq!(space.protect(BASE + 1, PAGE, RW), Err(Error::Invalid));
    assert_eq!(space.protect(BASE, 0, RW), Ok(()));
    assert_eq!(space.protect(BASE, PAGE, RW), Err(Error::NoMemory));
}

#[test]
fn protection_goes_as_far_as_the_first_hole() {
    let space = Kernel::<Granule4K>::new().space();
    space.map(anonymous(Place::Fixed(BASE), 4, RW)).unwrap();
    space.map(anonymous(Place::Fixed(BASE + 5 * PAGE), 1, RW)).unwrap();
    assert_eq!(space.protect(BASE + PAGE, 6 * PAGE, Rights::READ), Err(Error::NoMemory));
    assert_eq!(maps(&space, BASE), [(0, 1, RW), (1, 3, Rights::READ), (5, 1, RW)]);
    space.protect(BASE + PAGE, 3 * PAGE, RW).unwrap();
    assert_eq!(maps(&space, BASE), [(0, 4, RW), (5, 1, RW)]);
}

#[test]
fn parts_of_a_file_join_if_they_lie_side_by_side_in_it() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    let file = TestFile::new(&kernel, 1, 8);
    let map = |page, from| {
        let place = Place::Fixed(BASE + page * PAGE);
        space.map(of_file(&file, (place, from, 1), Rights::READ, AreaFlags::empty())).unwrap()
    };
    map(0, 2);
    map(1, 3);
    map(2, 5);
    assert_eq!(maps(&space, BASE), [(0, 2, Rights::READ), (2, 1, Rights::READ)]);
    assert_eq!(read(&space, BASE + PAGE), Ok(file.value(3)));
    assert_eq!(read(&space, BASE + 2 * PAGE), Ok(file.value(5)));
    file.close();
}

#[test]
fn parts_of_a_file_stay_apart_if_one_may_be_given_more_rights() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    let file = TestFile::new(&kernel, 1, 8);
    for (page, most) in [(0, RW), (1, Rights::READ)] {
        let place = Place::Fixed(BASE + page * PAGE);
        let mut request = of_file(&file, (place, page, 1), Rights::READ, AreaFlags::SHARED);
        request.source = Source::File { file: file.clone(), offset: page * PAGE, most };
        space.map(request).unwrap();
    }
    assert_eq!(maps(&space, BASE), [(0, 1, Rights::READ), (1, 1, Rights::READ)]);
    assert_eq!(space.protect(BASE, 2 * PAGE, RW), Err(Error::Denied));
    assert_eq!(maps(&space, BASE), [(0, 1, RW), (1, 1, Rights::READ)]);
}

#[test]
fn limits_are_kept() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    space.set_limits(Limits { address_space: 4 * PAGE, ..Limits::USUAL });
    assert_eq!(space.map(anonymous(Place::Anywhere, 5, RW)), Err(Error::NoMemory));
    space.map(anonymous(Place::Fixed(BASE), 4, RW)).unwrap();
    assert_eq!(space.map(anonymous(Place::Fixed(BASE + PAGE), 2, RW)), Ok(BASE + PAGE), "it replaces as much");
    space.set_limits(Limits { areas: 3, ..Limits::USUAL });
    space.unmap(BASE + PAGE, PAGE).unwrap();
    space.protect(BASE + 2 * PAGE, PAGE, Rights::READ).unwrap();
    assert_eq!(maps(&space, BASE).len(), 3);
    assert_eq!(space.map(anonymous(Place::Fixed(BASE + 9 * PAGE), 1, RW)), Err(Error::NoMemory));
    assert_eq!(space.unmap(BASE, PAGE), Ok(()), "a whole area may always go");
    space.set_limits(Limits { locked: PAGE, ..Limits::USUAL });
    let mut request = anonymous(Place::Anywhere, 2, RW);
    request.flags = AreaFlags::LOCKED;
    assert_eq!(space.map(request), Err(Error::Again));
    kernel.0.most_committed.set(kernel.0.committed.get() + 2);
    assert_eq!(space.map(anonymous(Place::Anywhere, 3, RW)), Err(Error::NoMemory), "more than is promised");
    let mut request = anonymous(Place::Anywhere, 3, RW);
    request.flags = AreaFlags::NO_RESERVE;
    assert!(space.map(request).is_ok());
}

#[test]
fn what_is_promised_is_counted_to_the_page() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    let committed = || kernel.0.committed.get();
    space.map(anonymous(Place::Fixed(BASE), 8, Rights::READ)).unwrap();
    assert_eq!(committed(), 0);
    space.protect(BASE + PAGE, 3 * PAGE, RW).unwrap();
    assert_eq!(committed(), 3);
    let child = space.fork().unwrap();
    assert_eq!(committed(), 6);
    space.unmap(BASE, 3 * PAGE).unwrap();
    assert_eq!(committed(), 4);
    space.map(anonymous(Place::Fixed(BASE + 3 * PAGE), 2, RW)).unwrap();
    assert_eq!(committed(), 5);
    drop((space, child));
    assert_eq!(committed(), 0);
}

fn heap<G: Granule>() {
    let kernel = Kernel::<G>::new();
    let (space, page) = (kernel.space(), G::SIZE_BYTES);
    space.set_heap(BASE);
    assert_eq!((space.heap(), space.set_break(0)), (BASE..BASE, BASE), "asked where it is");
    assert_eq!(space.set_break(BASE + 5), BASE + 5);
    assert_eq!(maps(&space, BASE), [(0, 1, RW)]);
    assert_eq!(space.set_break(BASE + 2 * page + 1), BASE + 2 * page + 1);
    assert_eq!(maps(&space, BASE), [(0, 3, RW)]);
    write(&space, BASE + 2 * page, 3).unwrap();
    assert_eq!(space.set_break(BASE + page), BASE + page);
    assert_eq!(maps(&space, BASE), [(0, 1, RW)]);
    assert_eq!(space.set_break(BASE + 3 * page), BASE + 3 * page);
    assert_eq!(read(&space, BASE + 2 * page), Ok(0), "what was given back is gone");
    space.map(anonymous(Place::Fixed(BASE + 8 * page), 1, RW)).unwrap();
    assert_eq!(space.set_break(BASE + 8 * page), BASE + 3 * page, "a page stays free between");
    assert_eq!(space.set_break(BASE + 7 * page), BASE + 7 * page);
    assert_eq!(space.set_break(BASE - page), BASE + 7 * page);
    assert_eq!((space.set_break(BASE), space.heap()), (BASE, BASE..BASE));
    // One that begins where numbers end has no room.
    space.set_heap(u64::MAX);
    assert_eq!((space.set_break(u64::MAX), space.set_break(BASE)), (u64::MAX, u64::MAX));
}

#[test]
fn the_heap_ends_at_the_break() {
    heap::<Granule4K>();
    heap::<Granule16K>();
    heap::<Granule64K>();
}

#[test]
fn what_the_heap_gets_is_there_if_all_that_comes_is_locked() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    space.lock_all(Locking::Not, false, Locking::Now).unwrap();
    space.set_heap(BASE + 24);
    let frames_at = |wanted| (space.set_break(wanted), kernel.out().0);
    // Its first page is of what lies before.
    assert_eq!(frames_at(BASE + PAGE), (BASE + PAGE, 0));
    assert_eq!(frames_at(BASE + PAGE + 1), (BASE + PAGE + 1, 1));
    assert_eq!(frames_at(BASE + 3 * PAGE), (BASE + 3 * PAGE, 2));
    // What lies behind has lost its page, and gets none by the heap.
    space.map(anonymous(Place::Fixed(BASE + 3 * PAGE), 1, RW)).unwrap();
    space.advise(BASE + 3 * PAGE, PAGE, Advice::DontNeedLocked).unwrap();
    assert_eq!(frames_at(BASE + 3 * PAGE), (BASE + 3 * PAGE, 2));
}

#[test]
fn a_stack_grows_as_far_as_its_limit_and_its_guard() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    let mut request = anonymous(Place::Fixed(BASE + 1024 * PAGE), 1, RW);
    request.flags = AreaFlags::GROWS_DOWN;
    space.map(request).unwrap();
    write(&space, BASE + 1000 * PAGE, 4).unwrap();
    assert_eq!(maps(&space, BASE), [(1000, 25, RW)]);
    space.set_limits(Limits { stack: 64 * PAGE, ..Limits::USUAL });
    assert!(write(&space, BASE + 960 * PAGE, 4).is_err());
    assert!(write(&space, BASE + 961 * PAGE, 4).is_ok());
    space.set_limits(Limits::USUAL);
    space.map(anonymous(Place::Fixed(BASE + 600 * PAGE), 1, RW)).unwrap();
    assert!(write(&space, BASE + 856 * PAGE, 4).is_err(), "closer than the guard");
    assert!(write(&space, BASE + 857 * PAGE, 4).is_ok());
    // Room is found no closer below it either.
    assert_eq!(space.map(anonymous(Place::Near(BASE + 700 * PAGE), 1, RW)), Ok(ceiling() - PAGE));
}
