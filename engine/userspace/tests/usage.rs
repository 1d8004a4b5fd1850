//! What an address space has, and had at most, to the page and the table.

use crate::common;

use common::{Kernel, RW, RX, Space, TestFile, anonymous, ceiling, of_file, read, write};
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::{AreaFlags, Fault, Limits, Locking, Place, Rights, Shape, Usage};
use vellum_vmsa::Granule4K;

const PAGE: u64 = 4096;
const BASE: u64 = 0x1000_0000;

#[test]
fn each_area_is_counted_as_what_it_is() {
    let kernel = Kernel::<Granule4K>::new();
    let (space, file) = (kernel.space(), TestFile::new(&kernel, 1, 16));
    let all = Rights::all();
    // Pages, rights and flags: data, a stack, code, code that may be written, what may be read, what is shared.
    let areas = [
        (1, RW, AreaFlags::empty()),
        (2, RW, AreaFlags::GROWS_DOWN),
        (4, RX, AreaFlags::empty()),
        (8, all, AreaFlags::empty()),
        (16, Rights::READ, AreaFlags::empty()),
        (32, RW, AreaFlags::SHARED),
        (64, RX, AreaFlags::GROWS_DOWN),
    ];
    for (number, (pages, rights, flags)) in (0..).zip(areas) {
        let place = Place::Fixed(BASE + number * 1024 * PAGE);
        space.map(vellum_userspace::Request { flags, ..anonymous(place, pages, rights) }).unwrap();
    }
    space.map(of_file(&file, (Place::Fixed(2 * BASE), 0, 4), RW, AreaFlags::empty())).unwrap();
    let expected = Usage {
        mapped: 127 + 4,
        peak_mapped: 127 + 4,
        data: 1 + 8 + 4,
        stack: 2 + 64,
        text: 4,
        committed: 1 + 2 + 8 + 4,
        tables: 1,
        ..Usage::default()
    };
    assert_eq!(space.usage(), expected);
    let above = common::levels_above::<Granule4K>() as u64;
    // Tables of level 2 and 3 for two pages of one block, and one more for another block; zeros are no pages.
    write(&space, BASE, 1).unwrap();
    read(&space, 2 * BASE).unwrap();
    read(&space, BASE + 4 * 1024 * PAGE).unwrap();
    space.lock(BASE, PAGE, Locking::OnFault).unwrap();
    let now = Usage { anonymous: 1, file: 1, peak_resident: 2, locked: 1, tables: 5 + above, ..expected };
    assert_eq!(space.usage(), now);
    write(&space, 2 * BASE, 2).unwrap();
    assert_eq!(space.usage(), Usage { anonymous: 2, file: 0, ..now });
    drop(space);
    file.close();
}

#[test]
fn the_most_that_there_was_is_remembered() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    let peaks = |space: &Space<Granule4K>| (space.usage().peak_mapped, space.usage().peak_resident);
    space.map(anonymous(Place::Fixed(BASE), 8, RW)).unwrap();
    (0..6).for_each(|page| _ = write(&space, BASE + page * PAGE, 1).unwrap());
    assert_eq!(peaks(&space), (8, 6));
    space.unmap(BASE, 5 * PAGE).unwrap();
    assert_eq!((peaks(&space), space.usage().mapped, space.usage().anonymous), ((8, 6), 3, 1));
    space.map(anonymous(Place::Fixed(2 * BASE), 4, RW)).unwrap();
    assert_eq!(peaks(&space), (8, 6));
    (0..4).for_each(|page| _ = write(&space, 2 * BASE + page * PAGE, 1).unwrap());
    space.map(anonymous(Place::Fixed(3 * BASE), 2, RW)).unwrap();
    assert_eq!(peaks(&space), (9, 6));
    (0..2).for_each(|page| _ = write(&space, 3 * BASE + page * PAGE, 1).unwrap());
    assert_eq!(peaks(&space), (9, 7));
    space.clear();
    assert_eq!((peaks(&space), space.usage().tables), ((9, 7), 1));
}

/// With FEAT_PAN3 alone what may only be executed is not read; what may be written always is.
#[test]
fn what_may_only_be_executed_is_read_unless_every_cpu_can_keep_it() {
    for (has_execute_only, found) in [(false, Ok(0)), (true, Err(Fault::Denied))] {
        let kernel = Kernel::<Granule4K>::new();
        let shape = Shape { has_execute_only, ..kernel.shape(HardwareUpdates::None) };
        let space = Space::new(kernel, shape, ceiling(), Limits::USUAL).unwrap();
        let map = |place, rights| space.map(anonymous(Place::Fixed(place), 1, rights)).unwrap();
        assert_eq!(read(&space, map(BASE, Rights::EXECUTE)), found);
        assert_eq!(read(&space, map(2 * BASE, Rights::WRITE)), Ok(0));
        assert_eq!(read(&space, map(3 * BASE, Rights::WRITE | Rights::EXECUTE)), Ok(0));
        assert_eq!(read(&space, map(4 * BASE, Rights::empty())), Err(Fault::Denied));
        // By `mprotect`, of a page that is there.
        write(&space, map(5 * BASE, RW), 5).unwrap();
        space.protect(5 * BASE, PAGE, Rights::EXECUTE).unwrap();
        assert_eq!(read(&space, 5 * BASE), found.map(|_| 5));
        space.protect(5 * BASE, PAGE, Rights::WRITE).unwrap();
        assert_eq!(read(&space, 5 * BASE), Ok(5));
    }
}
