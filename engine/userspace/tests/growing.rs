//! The heap and stacks grow: how far, and what that takes.

use crate::common;

use std::rc::Rc;

use common::{Kernel, RW, Space, anonymous, before_whole, maps, read, write};
use vellum_userspace::{Access, AreaFlags, Fault, Kind, Limits, Place, Request, Rights};
use vellum_vmsa::Granule4K;

const PAGE: u64 = 4096;
const BASE: u64 = 0x10_0000;
/// Where a stack begins, which has one page.
const STACK: u64 = BASE + 1024 * PAGE;

fn heap() -> (Kernel<Granule4K>, Space<Granule4K>) {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    space.set_heap(BASE);
    (kernel, space)
}

#[test]
fn the_heap_shrinks_to_nothing() {
    let (kernel, space) = heap();
    assert_eq!(space.set_break(BASE + 3 * PAGE), BASE + 3 * PAGE);
    assert_eq!(space.set_break(BASE), BASE);
    assert_eq!((maps(&space, BASE), kernel.0.committed.get()), (vec![], 0));
}

#[test]
fn the_heap_ends_where_addresses_do_at_the_latest() {
    let (_, space) = heap();
    let highest = space.shape().highest;
    space.set_heap(highest - 3 * PAGE);
    assert_eq!(space.set_break(highest - PAGE), highest - PAGE);
    for beyond in [highest + 1, highest + PAGE, 1 << 62, u64::MAX - PAGE + 1, u64::MAX] {
        assert_eq!(space.set_break(beyond), highest - PAGE, "{beyond:#x}");
    }
    assert_eq!(space.set_break(highest), highest);
}

/// Within a page the break moves whatever is beside the heap.
#[test]
fn a_break_that_stays_in_its_page_takes_nothing() {
    let (kernel, space) = heap();
    assert_eq!(space.set_break(BASE + 2 * PAGE), BASE + 2 * PAGE);
    space.map(anonymous(Place::Fixed(BASE + 2 * PAGE), 1, RW)).unwrap();
    assert_eq!(maps(&space, BASE), [(0, 3, RW)]);
    kernel.0.heap_left.set(0);
    assert_eq!(space.set_break(BASE + 2 * PAGE - 8), BASE + 2 * PAGE - 8);
    kernel.0.heap_left.set(usize::MAX);
    assert_eq!(space.set_break(BASE + PAGE + 1), BASE + PAGE + 1);
    assert_eq!(maps(&space, BASE), [(0, 3, RW)], "it is one area yet");
}

/// Whatever else a program has, or has taken out of its heap.
#[test]
fn the_heaps_limit_is_of_its_bytes() {
    let (_, space) = heap();
    space.set_limits(Limits { data: 3 * PAGE, ..Limits::USUAL });
    assert_eq!(space.set_break(BASE + 2 * PAGE), BASE + 2 * PAGE);
    space.unmap(BASE, 2 * PAGE).unwrap();
    assert_eq!(space.set_break(BASE + 3 * PAGE + 1), BASE + 2 * PAGE);
    assert_eq!(space.set_break(BASE + 3 * PAGE), BASE + 3 * PAGE);
    assert_eq!(maps(&space, BASE), [(2, 1, RW)]);
}

/// A space with a stack, which may be something else too.
fn stack(at: u64, flags: AreaFlags) -> (Kernel<Granule4K>, Space<Granule4K>) {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    let flags = flags | AreaFlags::GROWS_DOWN;
    space.map(Request { flags, ..anonymous(Place::Fixed(at), 1, RW) }).unwrap();
    (kernel, space)
}

#[test]
fn a_stack_grows_to_the_lowest_address_that_is_chosen() {
    let (_, space) = stack(0x1_2000, AreaFlags::empty());
    let lowest = space.shape().lowest;
    assert_eq!(write(&space, lowest - 1, 1), Err(Fault::Unmapped));
    assert_eq!(write(&space, lowest, 1), Ok(1));
    assert_eq!(maps(&space, lowest), [(0, 3, RW)]);
}

#[test]
fn a_stack_keeps_off_what_may_be_used() {
    let guard = 256;
    // What is below it, and how many pages of the guard's it takes.
    for (rights, flags, kept) in [
        (RW, AreaFlags::empty(), guard),
        (Rights::READ, AreaFlags::empty(), guard),
        (Rights::empty(), AreaFlags::empty(), 0),
        (RW, AreaFlags::GROWS_DOWN, 0),
    ] {
        let (_, space) = stack(STACK, AreaFlags::empty());
        space.map(Request { flags, ..anonymous(Place::Fixed(BASE), 1, rights) }).unwrap();
        let lowest = BASE + (1 + kept) * PAGE;
        assert_eq!(write(&space, lowest, 1), Ok(1), "{rights:?} {flags:?}");
        assert_eq!(write(&space, lowest - PAGE, 1).is_err(), kept > 0 || rights.is_empty());
    }
}

#[test]
fn a_stack_of_shared_memory_has_nothing_before_its_start() {
    let (kernel, space) = stack(STACK, AreaFlags::SHARED);
    assert_eq!(write(&space, STACK, 1), Ok(1));
    assert_eq!(write(&space, STACK - PAGE, 1), Err(Fault::Unmapped));
    assert_eq!(kernel.out().0, 1);
}

#[test]
fn what_a_stack_grows_by_is_promised_if_the_stack_is() {
    for (flags, promised) in [(AreaFlags::empty(), 25), (AreaFlags::NO_RESERVE, 0)] {
        let (kernel, space) = stack(STACK, flags);
        assert_eq!(write(&space, STACK - 24 * PAGE, 1), Ok(1));
        assert_eq!((kernel.0.committed.get(), maps(&space, STACK)), (promised, vec![(-24, 25, RW)]));
        kernel.0.most_committed.set(promised);
        assert_eq!(write(&space, STACK - 25 * PAGE, 1).is_ok(), promised == 0, "no more is promised");
    }
}

#[test]
fn a_stack_grows_within_what_the_program_may_have() {
    let (_, space) = stack(STACK, AreaFlags::empty());
    space.set_limits(Limits { address_space: 8 * PAGE, ..Limits::USUAL });
    assert_eq!(write(&space, STACK - 8 * PAGE, 1), Err(Fault::Unmapped));
    assert_eq!(write(&space, STACK - 7 * PAGE, 1), Ok(1));
}

#[test]
fn a_stack_that_grows_takes_heap_as_calls_do() {
    let (kernel, space) = stack(STACK, AreaFlags::empty());
    space.map(anonymous(Place::Fixed(BASE), 1, RW)).unwrap();
    let of_a_call = kernel.0.heap_asked.replace(0);
    kernel.0.heap_left.set(0);
    assert_eq!(read(&space, STACK - PAGE), Err(Fault::Unmapped));
    assert_eq!((kernel.0.heap_asked.get(), kernel.0.committed.get()), (of_a_call, 2));
    kernel.0.heap_left.set(usize::MAX);
    assert_eq!((read(&space, STACK - PAGE), kernel.0.committed.get()), (Ok(0), 3));
}

#[test]
fn a_stack_grows_once_for_two_cpus() {
    let (kernel, space) = stack(STACK, AreaFlags::empty());
    let space = Rc::new(space);
    let other = space.clone();
    before_whole(move || assert_eq!(write(&other, STACK - 3 * PAGE, 3), Ok(3)));
    assert_eq!(space.fault(Access { address: STACK - 2 * PAGE, kind: Kind::Write }), Ok(()));
    assert_eq!((maps(&space, STACK), kernel.0.committed.get()), (vec![(-3, 4, RW)], 4));
    assert_eq!((read(&space, STACK - 3 * PAGE), kernel.out().0), (Ok(3), 2));
}

#[test]
fn a_stack_grows_by_pages() {
    let (_, space) = stack(STACK, AreaFlags::empty());
    assert_eq!(space.fault(Access { address: STACK - PAGE - 1, kind: Kind::Write }), Ok(()));
    assert_eq!(maps(&space, STACK), [(-2, 3, RW)]);
    space.areas(|area| assert_eq!(area.start, STACK - 2 * PAGE));
}
