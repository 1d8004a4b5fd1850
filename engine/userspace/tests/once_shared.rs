//! What a child once had too: it may go like all else, and areas stay as a fork has left them; the most that there was is kept.

use crate::common;

use common::{Kernel, RW, anonymous, maps, read, write};
use vellum_userspace::{Advice, AreaFlags, Error, Locking, Move, Place, Rights};
use vellum_vmsa::Granule4K;

const PAGE: u64 = 4096;
const BASE: u64 = 0x10_0000;

#[test]
fn what_a_child_once_had_too_may_be_left_to_be_taken() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    space.map(anonymous(Place::Fixed(BASE), 3, RW)).unwrap();
    (0..3).for_each(|page| assert_eq!(write(&space, BASE + page * PAGE, 7), Ok(7)));
    let child = space.fork().unwrap();
    space.advise(BASE, 3 * PAGE, Advice::Free).unwrap();
    assert_eq!(space.take_lazy(3), 0, "the child has them too");
    drop(child);
    space.protect(BASE + 2 * PAGE, PAGE, Rights::READ).unwrap();
    space.advise(BASE, 3 * PAGE, Advice::Free).unwrap();
    write(&space, BASE, 8).unwrap();
    assert_eq!(space.take_lazy(3), 1, "but for what was written since, and what may not be written");
    let found = [0, 1, 2].map(|page| read(&space, BASE + page * PAGE));
    assert_eq!(found, [Ok(8), Ok(0), Ok(7)]);
    drop(space);
    assert_eq!(kernel.out(), (0, 0));
}

#[test]
fn a_child_has_its_parents_areas_apart() {
    let space = Kernel::<Granule4K>::new().space();
    space.map(anonymous(Place::Fixed(BASE), 4, RW)).unwrap();
    space.lock(BASE, 2 * PAGE, Locking::Now).unwrap();
    let child = space.fork().unwrap();
    assert_eq!(maps(&child, BASE), [(0, 2, RW), (2, 2, RW)]);
    child.areas(|area| assert!(!area.flags.contains(AreaFlags::LOCKED)));
}

#[test]
fn marks_of_what_is_locked_are_taken_where_all_are() {
    let space = Kernel::<Granule4K>::new().space();
    space.map(anonymous(Place::Fixed(BASE), 1, RW)).unwrap();
    space.lock(BASE, PAGE, Locking::Now).unwrap();
    assert_eq!(space.advise(BASE, PAGE, Advice::Cold), Err(Error::Invalid));
    space.advise(BASE, PAGE, Advice::Unaccessed).unwrap();
    space.pages(BASE..BASE + PAGE, |page| assert!(!page.is_accessed));
}

#[test]
fn the_most_that_there_was_is_kept() {
    let space = Kernel::<Granule4K>::new().space();
    space.map(anonymous(Place::Fixed(BASE), 8, RW)).unwrap();
    (0..5).for_each(|page| assert_eq!(write(&space, BASE + page * PAGE, 7), Ok(7)));
    space.advise(BASE, 5 * PAGE, Advice::DontNeed).unwrap();
    space.unmap(BASE, 4 * PAGE).unwrap();
    let usage = space.usage();
    assert_eq!((usage.mapped, usage.peak_mapped, usage.anonymous, usage.peak_resident), (4, 8, 0, 5));
    let child = space.fork().unwrap().usage();
    assert_eq!((child.peak_mapped, child.peak_resident), (4, 0), "a child begins anew");
}

#[test]
fn what_ends_beyond_all_addresses_is_nowhere() {
    let space = Kernel::<Granule4K>::new().space();
    let start = 0u64.wrapping_sub(PAGE);
    assert_eq!(space.remap(start, PAGE, PAGE, Move::Never, false), Err(Error::BadAddress));
}
