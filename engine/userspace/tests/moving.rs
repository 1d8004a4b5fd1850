//! `mremap` at its limits: to the last address, up to a guard, as much as a program may have, as many areas as there may be, and to the last
//! page of memory and heap. What is refused has changed nothing.

use crate::common;

use common::{Kernel, RW, Space, TestFile, anonymous, ceiling, leaf_bytes, maps, of_file, read, write};
use vellum_userspace::{Advice, AreaFlags, Error, Limits, Locking, Move, Place, Rights};
use vellum_vmsa::{Granule, Granule4K};

const PAGE: u64 = 4096;
const BASE: u64 = 0x1000_0000;
const FAR: u64 = 0x3_0000_0000;

fn mapped(kernel: &Kernel<Granule4K>, pages: u64) -> Space<Granule4K> {
    let space = kernel.space();
    space.map(anonymous(Place::Fixed(BASE), pages, RW)).unwrap();
    space
}

/// What is at `BASE` becomes so many pages.
fn becomes(space: &Space<Granule4K>, old: u64, pages: u64, moves: Move) -> Result<u64, Error> {
    space.remap(BASE, old * PAGE, pages * PAGE, moves, false)
}

#[test]
fn a_target_ends_with_all_addresses_and_overlaps_nothing_old() {
    let kernel = Kernel::<Granule4K>::new();
    let (space, highest) = (mapped(&kernel, 4), kernel.space().shape().highest);
    let to = |start| space.remap(BASE, 2 * PAGE, 2 * PAGE, Move::To(start), true);
    assert_eq!(to(highest - PAGE), Err(Error::Invalid));
    assert_eq!(to(0_u64.wrapping_sub(2 * PAGE)), Err(Error::Invalid));
    assert_eq!(to(highest - 2 * PAGE), Ok(highest - 2 * PAGE));
    assert_eq!(to(BASE + PAGE), Err(Error::Invalid));
    assert_eq!(to(BASE - PAGE), Err(Error::Invalid));
    assert_eq!(to(BASE - 2 * PAGE), Ok(BASE - 2 * PAGE));
    assert_eq!(to(BASE + 2 * PAGE), Ok(BASE + 2 * PAGE));
    let lowest = space.shape().lowest_fixed;
    assert_eq!(to(lowest - PAGE), Err(Error::NotPermitted));
    assert_eq!(to(lowest), Ok(lowest));
    let near = space.remap(BASE, 2 * PAGE, 2 * PAGE, Move::Near(lowest - PAGE), true);
    assert_eq!(near, Ok(space.shape().lowest), "a hint is no order");
}

/// Sizes and ends around the highest address, around 2^63 and just below 2^64.
#[test]
fn a_size_beyond_all_addresses_is_refused_and_changes_nothing() {
    let kernel = Kernel::<Granule4K>::new();
    let (space, highest) = (mapped(&kernel, 2), kernel.space().shape().highest);
    write(&space, BASE, 7).unwrap();
    let is_refused = |old: u64, new: u64, without_target: Error| {
        let (never, may) = ((Move::Never, without_target), (Move::May, without_target));
        for (moves, error) in [never, may, (Move::To(FAR), Error::Invalid), (Move::Near(FAR), Error::Invalid)] {
            assert_eq!(space.remap(BASE, old, new, moves, false), Err(error), "{old:#x}, {new:#x}, {moves:?}");
            assert_eq!(maps(&space, BASE), [(0, 2, RW)]);
        }
    };
    let below = |bytes: u64| 0_u64.wrapping_sub(bytes);
    let sizes = [highest + PAGE, 10 * highest, 1 << 63, (1 << 63) - PAGE, (1 << 63) + PAGE, below(BASE), below(PAGE)];
    for (old, new) in sizes.into_iter().chain([below(2 * PAGE)]).flat_map(|new| [(PAGE, new), (2 * PAGE, new)]) {
        is_refused(old, new, Error::NoMemory);
        assert_eq!(space.remap(BASE, new, new, Move::May, true), Err(Error::Invalid), "{new:#x}");
        assert_eq!(space.remap(FAR, old, new, Move::May, false), Err(Error::BadAddress), "{new:#x}");
        assert_eq!(space.remap(BASE, 3 * PAGE, new, Move::May, false), Err(Error::BadAddress), "{new:#x}");
        assert_eq!(space.remap(BASE, 0, new, Move::May, false), Err(Error::Invalid), "{new:#x}");
    }
    for (old, new) in [0, below(1)].into_iter().flat_map(|new| [(PAGE, new), (2 * PAGE, new)]) {
        is_refused(old, new, Error::Invalid);
    }
    for old in sizes.into_iter().chain([highest - BASE + PAGE, below(BASE + PAGE), below(BASE) + PAGE]) {
        is_refused(old, PAGE, Error::Invalid);
    }
    assert_eq!(space.remap(FAR, below(PAGE), PAGE, Move::May, false), Err(Error::BadAddress));
    assert_eq!(space.remap(BASE, highest - BASE, PAGE, Move::Never, false), Ok(BASE), "up to the highest address");
    assert_eq!((maps(&space, BASE), read(&space, BASE)), (vec![(0, 1, RW)], Ok(7)));
    assert_eq!(kernel.0.committed.get(), 1);
}

#[test]
fn an_area_grows_up_to_the_next_and_the_guard_of_a_stack() {
    for guarded in [false, true] {
        let kernel = Kernel::<Granule4K>::new();
        let (space, guard) = (mapped(&kernel, 1), if guarded { 256 } else { 0 });
        let mut next = anonymous(Place::Fixed(BASE + 300 * PAGE), 1, RW);
        next.flags = if guarded { AreaFlags::GROWS_DOWN } else { AreaFlags::NO_RESERVE };
        space.map(next).unwrap();
        assert_eq!(becomes(&space, 1, 301 - guard, Move::Never), Err(Error::NoMemory));
        assert_eq!(becomes(&space, 1, 300 - guard, Move::Never), Ok(BASE));
        assert_eq!(maps(&space, BASE)[0], (0, 300 - guard, RW));
    }
    let kernel = Kernel::<Granule4K>::new();
    let (space, highest) = (kernel.space(), kernel.space().shape().highest);
    space.map(anonymous(Place::Fixed(highest - 2 * PAGE), 1, RW)).unwrap();
    let grow = |pages| space.remap(highest - 2 * PAGE, PAGE, pages * PAGE, Move::Never, false);
    assert_eq!((grow(3), grow(2)), (Err(Error::NoMemory), Ok(highest - 2 * PAGE)));
}

/// The part of an area that ends with it grows where it is; one that ends before moves.
#[test]
fn what_ends_within_an_area_does_not_grow_there() {
    let kernel = Kernel::<Granule4K>::new();
    let space = mapped(&kernel, 4);
    assert_eq!(becomes(&space, 3, 5, Move::Never), Err(Error::NoMemory));
    assert_eq!(space.remap(BASE + PAGE, 3 * PAGE, 5 * PAGE, Move::Never, false), Ok(BASE + PAGE));
    assert_eq!(maps(&space, BASE), [(0, 6, RW)]);
    assert_eq!(becomes(&space, 3, 5, Move::May), Ok(ceiling() - 5 * PAGE));
    assert_eq!(maps(&space, BASE)[0], (3, 3, RW));
}

#[test]
fn to_grow_is_to_have_more() {
    // How much may be, and whether that is enough for a page more; in place, and by a move.
    let limits: [fn(u64) -> Limits; 3] = [
        |pages| Limits { address_space: pages * PAGE, ..Limits::USUAL },
        |pages| Limits { data: pages * PAGE, ..Limits::USUAL },
        |pages| Limits { locked: pages * PAGE, ..Limits::USUAL },
    ];
    for (number, limit) in limits.into_iter().enumerate() {
        for moves in [Move::Never, Move::To(FAR)] {
            let kernel = Kernel::<Granule4K>::new();
            let space = mapped(&kernel, 4);
            space.lock(BASE, 4 * PAGE, Locking::OnFault).unwrap();
            space.set_limits(limit(4));
            let refused = if number == 2 { Error::Again } else { Error::NoMemory };
            assert_eq!(becomes(&space, 4, 5, moves), Err(refused), "{number}, {moves:?}");
            for pages in [50, 1 << 36, 1 << 40, (1 << 52) - 1] {
                assert_eq!(becomes(&space, 4, pages, Move::May), Err(refused), "{number}, {pages} pages");
            }
            assert_eq!(maps(&space, BASE), [(0, 4, RW)]);
            space.set_limits(limit(5));
            assert!(becomes(&space, 4, 5, moves).is_ok(), "{number}, {moves:?}");
        }
        // Who has more than that by now may move all the same, but not keep what was there.
        let kernel = Kernel::<Granule4K>::new();
        let space = mapped(&kernel, 4);
        space.lock(BASE, 4 * PAGE, Locking::OnFault).unwrap();
        space.set_limits(limit(3));
        assert!(space.remap(BASE, 4 * PAGE, 4 * PAGE, Move::To(FAR), true).is_err(), "{number}");
        assert_eq!(becomes(&space, 4, 4, Move::To(FAR)), Ok(FAR), "{number}");
        assert_eq!(space.remap(FAR, 4 * PAGE, 2 * PAGE, Move::To(BASE), false), Ok(BASE), "{number}");
    }
}

/// Limits are of bytes, and need not be of pages.
#[test]
fn a_byte_too_many_is_refused() {
    let kernel = Kernel::<Granule4K>::new();
    let space = mapped(&kernel, 4);
    space.map(anonymous(Place::Fixed(BASE + 5 * PAGE), 1, Rights::READ)).unwrap();
    let limit = |bytes| space.set_limits(Limits { address_space: bytes, ..Limits::USUAL });
    limit(6 * PAGE - 1);
    assert_eq!(becomes(&space, 4, 5, Move::Never), Err(Error::NoMemory), "in place");
    limit(9 * PAGE - 1);
    let keep = || space.remap(BASE, 4 * PAGE, 4 * PAGE, Move::To(FAR), true);
    assert_eq!(keep(), Err(Error::NoMemory), "beside what is kept");
    limit(9 * PAGE);
    assert_eq!(keep(), Ok(FAR));
}

/// Of several areas that move, none may come to where another has yet to move from.
#[test]
fn areas_that_move_together_overlap_none_of_them() {
    let kernel = Kernel::<Granule4K>::new();
    let space = mapped(&kernel, 6);
    space.unmap(BASE + 2 * PAGE, 2 * PAGE).unwrap();
    let areas = maps(&space, BASE);
    assert_eq!(becomes(&space, 6, 6, Move::To(BASE + 3 * PAGE)), Err(Error::Invalid));
    assert_eq!(maps(&space, BASE), areas);
    assert_eq!(becomes(&space, 6, 6, Move::To(BASE + 6 * PAGE)), Ok(BASE + 6 * PAGE));
    assert_eq!(maps(&space, BASE), [(6, 2, RW), (10, 2, RW)]);
}

/// What a target replaces does not count.
#[test]
fn what_goes_for_a_move_makes_room_for_it() {
    let kernel = Kernel::<Granule4K>::new();
    let space = mapped(&kernel, 2);
    space.map(anonymous(Place::Fixed(FAR), 3, RW)).unwrap();
    space.set_limits(Limits { address_space: 5 * PAGE, ..Limits::USUAL });
    assert_eq!(becomes(&space, 2, 5, Move::To(FAR)), Ok(FAR));
    assert_eq!(space.usage().mapped, 5);
}

#[test]
fn as_many_areas_as_there_may_be() {
    // The middle of an area moves away: there are three then, and for a moment four.
    for (most, ends) in [(3, Err(Error::NoMemory)), (4, Ok(FAR))] {
        let kernel = Kernel::<Granule4K>::new();
        let space = mapped(&kernel, 3);
        space.set_limits(Limits { areas: most, ..Limits::USUAL });
        assert_eq!(space.remap(BASE + PAGE, PAGE, PAGE, Move::To(FAR), false), ends, "{most}");
        assert_eq!(maps(&space, BASE).len(), if ends.is_ok() { 3 } else { 1 });
    }
}

#[test]
fn pages_are_promised_once_wherever_they_are() {
    let kernel = Kernel::<Granule4K>::new();
    let (space, committed) = (mapped(&kernel, 4), || kernel.0.committed.get());
    kernel.0.most_committed.set(9);
    assert_eq!(becomes(&space, 4, 5, Move::Never), Ok(BASE));
    assert_eq!(committed(), 5);
    assert_eq!(becomes(&space, 5, 10, Move::Never), Err(Error::NoMemory));
    assert_eq!(becomes(&space, 5, 5, Move::To(FAR)), Err(Error::NoMemory), "for a moment there are both");
    assert_eq!((committed(), maps(&space, BASE)), (5, vec![(0, 5, RW)]));
    kernel.0.most_committed.set(10);
    assert_eq!(becomes(&space, 5, 5, Move::To(FAR)), Ok(FAR));
    assert_eq!(committed(), 5);
    assert_eq!(space.remap(FAR, 5 * PAGE, 5 * PAGE, Move::To(BASE), true), Ok(BASE));
    assert_eq!(committed(), 10);
    // What nobody may write is promised to nobody.
    space.map(anonymous(Place::Fixed(2 * BASE), 1, Rights::READ)).unwrap();
    assert_eq!(space.remap(2 * BASE, PAGE, 3 * PAGE, Move::Never, false), Ok(2 * BASE));
    assert_eq!(space.remap(2 * BASE, 3 * PAGE, 3 * PAGE, Move::To(3 * BASE), false), Ok(3 * BASE));
    assert_eq!(committed(), 10);
    drop(space);
    assert_eq!(committed(), 0);
}

#[test]
fn to_grow_takes_heap() {
    let kernel = Kernel::<Granule4K>::new();
    let space = mapped(&kernel, 4);
    kernel.0.heap_left.set(0);
    assert_eq!(becomes(&space, 4, 5, Move::Never), Err(Error::NoMemory));
    kernel.0.heap_left.set(usize::MAX);
    assert_eq!((kernel.0.committed.get(), maps(&space, BASE)), (4, vec![(0, 4, RW)]));
}

/// More pages than are noted at once, across tables, between which some are not there.
#[test]
fn many_pages_move_each_to_its_place() {
    let kernel = Kernel::<Granule4K>::new();
    let (space, pages) = (mapped(&kernel, 1200), 1200_u64);
    let is_there = |page: &u64| page % 7 != 3;
    (0..pages).filter(is_there).for_each(|page| _ = write(&space, BASE + page * PAGE, page + 1).unwrap());
    let to = FAR - 5 * PAGE;
    assert_eq!(becomes(&space, pages, pages, Move::To(to)), Ok(to));
    assert_eq!(space.usage().anonymous, (0..pages).filter(is_there).count() as u64);
    for page in 0..pages {
        assert_eq!(leaf_bytes(&space, to + page * PAGE).is_some(), is_there(&page));
        assert!(!is_there(&page) || read(&space, to + page * PAGE) == Ok(page + 1), "page {page}");
    }
    assert_eq!(kernel.0.committed.get(), pages);
    drop(space);
    assert_eq!(kernel.out(), (0, 0));
}

/// With each number of frames and tables that may be left: all or nothing, and nothing is lost.
#[test]
fn a_move_that_lacks_tables_moves_nothing() {
    for left in 0.. {
        let kernel = Kernel::<Granule4K>::new();
        let space = mapped(&kernel, 600);
        (0..600).step_by(50).for_each(|page| _ = write(&space, BASE + page * PAGE, page).unwrap());
        kernel.0.left.set(left);
        let moved = becomes(&space, 600, 700, Move::To(FAR - 300 * PAGE));
        kernel.0.left.set(usize::MAX);
        let at = if moved.is_ok() { FAR - 300 * PAGE } else { BASE };
        (0..600).step_by(50).for_each(|page| assert_eq!(read(&space, at + page * PAGE), Ok(page)));
        assert_eq!(maps(&space, at), [(0, if moved.is_ok() { 700 } else { 600 }, RW)]);
        assert_eq!(kernel.0.committed.get(), if moved.is_ok() { 700 } else { 600 });
        drop(space);
        assert_eq!(kernel.out(), (0, 0));
        if moved.is_ok() {
            assert!(left > 2, "it takes tables");
            return;
        }
    }
}

/// What was touched is apart from what is beside it there, as it is of another place; what nobody has touched is not.
#[test]
fn what_nobody_has_touched_joins_where_it_comes() {
    for is_touched in [false, true] {
        let kernel = Kernel::<Granule4K>::new();
        let space = mapped(&kernel, 1);
        space.map(anonymous(Place::Fixed(FAR), 1, RW)).unwrap();
        if is_touched {
            write(&space, BASE, 1).unwrap();
        }
        becomes(&space, 1, 1, Move::To(FAR + PAGE)).unwrap();
        assert_eq!(maps(&space, FAR).len(), if is_touched { 2 } else { 1 });
    }
}

/// What stays behind of what was locked is locked no longer, and its neighbours are as they were.
#[test]
fn what_is_kept_is_not_locked() {
    let kernel = Kernel::<Granule4K>::new();
    let space = mapped(&kernel, 3);
    space.lock(BASE, 3 * PAGE, Locking::OnFault).unwrap();
    assert_eq!(space.remap(BASE + PAGE, PAGE, PAGE, Move::To(FAR), true), Ok(FAR));
    let mut locked = Vec::new();
    space.areas(|area| locked.push((area.start, area.flags.contains(AreaFlags::LOCKED))));
    assert_eq!(locked, [(BASE, true), (BASE + PAGE, false), (BASE + 2 * PAGE, true), (FAR, true)]);
}

#[test]
fn a_part_of_a_file_moves_with_its_offset_and_what_was_written_stays_written() {
    let kernel = Kernel::<Granule4K>::new();
    let (space, file) = (kernel.space(), TestFile::new(&kernel, 3, 16));
    space.map(of_file(&file, (Place::Fixed(BASE), 4, 8), RW, AreaFlags::SHARED)).unwrap();
    write(&space, BASE + 2 * PAGE, 7).unwrap();
    space.remap(BASE + 2 * PAGE, 2 * PAGE, 3 * PAGE, Move::To(FAR), false).unwrap();
    assert_eq!([0, 1, 2].map(|page| read(&space, FAR + page * PAGE)), [Ok(7), Ok(file.value(7)), Ok(file.value(8))]);
    // A page of the program's own that may go, but was written, is still there when memory is short.
    space.map(anonymous(Place::Fixed(2 * FAR), 1, RW)).unwrap();
    write(&space, 2 * FAR, 5).unwrap();
    space.advise(2 * FAR, PAGE, Advice::Free).unwrap();
    write(&space, 2 * FAR, 6).unwrap();
    space.remap(2 * FAR, PAGE, PAGE, Move::To(3 * FAR), false).unwrap();
    assert_eq!((space.take_lazy(9), read(&space, 3 * FAR)), (0, Ok(6)));
    assert_eq!(Granule4K::SIZE_BYTES, PAGE);
    drop(space);
    file.close();
    assert_eq!(kernel.out(), (0, 0));
}
