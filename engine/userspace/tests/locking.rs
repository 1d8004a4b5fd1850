//! What `mlock` and `mlockall` lock, and how much of it a program may have.

use crate::common;

use common::{Kernel, RW, Space, anonymous, maps};
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::{AreaFlags, Error, Limits, Locking, Place, Request, Rights};
use vellum_vmsa::Granule4K;

const PAGE: u64 = 4096;
const BASE: u64 = 0x10_0000;

/// How each area is locked.
fn locked(space: &Space<Granule4K>) -> Vec<AreaFlags> {
    let mut found = Vec::new();
    space.areas(|area| found.push(area.flags & (AreaFlags::LOCKED | AreaFlags::LOCKED_ON_FAULT)));
    found
}

#[test]
fn all_that_there_is_may_be_locked_up_to_the_limit() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    space.map(anonymous(Place::Fixed(BASE), 3, RW)).unwrap();
    space.map(anonymous(Place::Fixed(BASE + 9 * PAGE), 2, Rights::READ)).unwrap();
    space.set_limits(Limits { locked: 5 * PAGE - 1, ..Limits::USUAL });
    for how in [Locking::Now, Locking::OnFault] {
        assert_eq!(space.lock_all(how, true, Locking::Not), Err(Error::NoMemory));
        assert_eq!(locked(&space), [AreaFlags::empty(); 2]);
    }
    space.set_limits(Limits { locked: 5 * PAGE, ..Limits::USUAL });
    assert_eq!(space.lock_all(Locking::OnFault, true, Locking::Not), Ok(()));
    assert_eq!((locked(&space), kernel.out().0), (vec![AreaFlags::LOCKED | AreaFlags::LOCKED_ON_FAULT; 2], 0));
    assert_eq!(space.lock_all(Locking::Now, true, Locking::Not), Ok(()));
    assert_eq!((locked(&space), kernel.out().0), (vec![AreaFlags::LOCKED; 2], 3));
    // Whoever has more than the limit by then may let go all the same.
    space.set_limits(Limits { locked: PAGE, ..Limits::USUAL });
    assert_eq!(space.lock(BASE, PAGE, Locking::Not), Ok(()));
    assert_eq!(space.lock_all(Locking::Not, true, Locking::Not), Ok(()));
    assert_eq!((locked(&space), maps(&space, BASE).len()), (vec![AreaFlags::empty(); 2], 2));
}

#[test]
fn what_lies_at_the_lowest_and_the_highest_address_is_locked_too() {
    let kernel = Kernel::<Granule4K>::new();
    let mut shape = kernel.shape(HardwareUpdates::None);
    shape.lowest_fixed = 0;
    let space = Space::new(kernel, shape, BASE, Limits::USUAL).unwrap();
    for at in [0, shape.highest - PAGE] {
        space.map(anonymous(Place::Fixed(at), 1, Rights::READ)).unwrap();
    }
    space.lock_all(Locking::OnFault, true, Locking::Not).unwrap();
    assert_eq!(locked(&space), [AreaFlags::LOCKED | AreaFlags::LOCKED_ON_FAULT; 2]);
    assert_eq!(space.usage().locked, 2);
}

#[test]
fn what_may_be_dropped_stays_as_it_is_amid_what_is_locked() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    for (page, flags) in [(0, AreaFlags::empty()), (1, AreaFlags::DROPPABLE), (2, AreaFlags::empty())] {
        space.map(Request { flags, ..anonymous(Place::Fixed(BASE + page * PAGE), 1, RW) }).unwrap();
    }
    let (none, now) = (AreaFlags::empty(), AreaFlags::LOCKED);
    space.lock(BASE, 3 * PAGE, Locking::Now).unwrap();
    assert_eq!((locked(&space), kernel.out().0), (vec![now, none, now], 2));
    space.lock_all(Locking::Not, true, Locking::Not).unwrap();
    space.lock_all(Locking::Now, true, Locking::Not).unwrap();
    assert_eq!(locked(&space), [now, none, now]);
}
