//! What a program executes was made fetchable: by the fault that brings the page, or when the page becomes executable.

use crate::common;

use common::{Kernel, RW, RX, TestFile, access, anonymous, frame_at, of_file, write};
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::{AddressSpace, AreaFlags, Kind, Limits, Place, Rights, Shape};
use vellum_vmsa::{Granule, Granule4K};

const BASE: u64 = 0x1000_0000;
const PAGE: u64 = Granule4K::SIZE_BYTES;

#[test]
fn a_page_of_a_file_can_be_fetched_when_it_is_there() {
    let kernel = Kernel::<Granule4K>::new();
    let (space, file) = (kernel.space(), TestFile::new(&kernel, 1, 4));
    for (at, flags) in [(BASE, AreaFlags::empty()), (BASE + 8 * PAGE, AreaFlags::SHARED)] {
        space.map(of_file(&file, (Place::Fixed(at), 0, 4), RX, flags)).unwrap();
        let value = access(&space, at + PAGE, Kind::Execute, 0).unwrap();
        assert_eq!(kernel.fetched(frame_at(&space, at + PAGE)), Some(value));
    }
    drop(space);
    file.close();
}

#[test]
fn a_copy_that_may_be_executed_can_be_fetched() {
    let kernel = Kernel::<Granule4K>::new();
    let (space, file) = (kernel.space(), TestFile::new(&kernel, 1, 4));
    space.map(of_file(&file, (Place::Fixed(BASE), 0, 4), Rights::all(), AreaFlags::empty())).unwrap();
    write(&space, BASE, 9).unwrap();
    // The program answers for what it writes itself where it may execute it already.
    assert_eq!(kernel.fetched(frame_at(&space, BASE)), Some(file.value(0)));
    drop(space);
    file.close();
}

/// The shortcut for first touches makes nothing fetchable: memory that may be executed takes the whole way.
#[test]
fn the_first_touch_of_executable_memory_can_be_fetched() {
    for order in [0, 4] {
        let kernel = Kernel::<Granule4K>::new();
        kernel.0.folio_order.set(order);
        let space = kernel.space();
        space.map(anonymous(Place::Fixed(BASE), 32, Rights::all())).unwrap();
        space.map(anonymous(Place::Fixed(BASE + 64 * PAGE), 32, RW)).unwrap();
        // The first write brings a table, the others find a hole in it.
        for at in [BASE, BASE + 16 * PAGE, BASE + 64 * PAGE] {
            write(&space, at, 7).unwrap();
        }
        let fetched = |page: u64| kernel.fetched(frame_at(&space, BASE + page * PAGE));
        assert_eq!([fetched(0), fetched(16)], [Some(0); 2], "the zeros that each page began with");
        assert_eq!(fetched(64), None);
    }
}

#[test]
fn what_was_written_can_be_fetched_when_it_becomes_code() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    space.map(anonymous(Place::Fixed(BASE), 4, RW)).unwrap();
    write(&space, BASE, 7).unwrap();
    write(&space, BASE + PAGE, 8).unwrap();
    assert_eq!(kernel.fetched(frame_at(&space, BASE)), None, "data is not maintained");
    space.protect(BASE, PAGE, RX).unwrap();
    assert_eq!(kernel.fetched(frame_at(&space, BASE)), Some(7));
    assert_eq!(kernel.fetched(frame_at(&space, BASE + PAGE)), None);
    assert_eq!(access(&space, BASE, Kind::Execute, 0), Ok(7));
}

#[test]
fn what_may_only_be_executed_is_not_read() {
    let file_page = |has_execute_only: bool| {
        let kernel = Kernel::<Granule4K>::new();
        let shape = Shape { has_execute_only, ..kernel.shape(HardwareUpdates::None) };
        let space = AddressSpace::new(kernel.clone(), shape, common::ceiling(), Limits::USUAL).unwrap();
        let file = TestFile::new(&kernel, 1, 4);
        space.map(of_file(&file, (Place::Fixed(BASE), 0, 4), Rights::EXECUTE, AreaFlags::empty())).unwrap();
        let came = [Kind::Execute, Kind::Read, Kind::Execute].map(|kind| access(&space, BASE, kind, 0).is_ok());
        drop(space);
        file.close();
        came
    };
    assert_eq!(file_page(true), [true, false, true]);
    assert_eq!(file_page(false), [true, true, true]);
}
