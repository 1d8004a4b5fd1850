//! Where `mmap` finds room, beside one that tries every page: below the ceiling as high as possible, or else above a third of all as low as
//! possible, and never in the guard of a stack.

use crate::common;

use common::{Kernel, RW, Space, TestFile, anonymous, ceiling};
use seed::Seed;
use vellum_userspace::{Area, AreaFlags, Error, Place, Rights};
use vellum_vmsa::Granule4K;

const PAGE: u64 = 4096;
const BLOCK: u64 = 2 << 20;
/// Pages below the ceiling, and those above a third of all that a run may have areas in.
const PAGES: u64 = 40;
const GUARD: u64 = 3 * PAGE;

fn space(kernel: &Kernel<Granule4K>) -> Space<Granule4K> {
    let mut shape = kernel.shape(vellum_pagetable::HardwareUpdates::None);
    shape.guard_bytes = GUARD;
    Space::new(kernel.clone(), shape, shape.lowest + PAGES * PAGE, vellum_userspace::Limits::USUAL).unwrap()
}

/// Where the space above the ceiling begins.
fn third(space: &Space<Granule4K>) -> u64 {
    (space.shape().highest / 3).next_multiple_of(PAGE)
}

/// Whether nothing is in a range, and no stack is nearer above it than its guard.
fn is_room(areas: &[Area<TestFile<Granule4K>>], start: u64, bytes: u64) -> bool {
    areas.iter().all(|area| {
        let guard = if area.flags.contains(AreaFlags::GROWS_DOWN) { GUARD } else { 0 };
        start + bytes <= area.start - guard || area.end <= start
    })
}

fn expected(space: &Space<Granule4K>, ceiling: u64, bytes: u64) -> Result<u64, Error> {
    let (areas, lowest, third) = (areas_of(space), space.shape().lowest, third(space));
    let below = (0..PAGES).rev().map(|page| lowest + page * PAGE).filter(|start| start + bytes <= ceiling);
    let above = (third..third + 2 * PAGES * PAGE).step_by(PAGE as usize);
    below.chain(above).find(|&start| is_room(&areas, start, bytes)).ok_or(Error::NoMemory)
}

fn areas_of(space: &Space<Granule4K>) -> Vec<Area<TestFile<Granule4K>>> {
    let mut areas = Vec::new();
    space.areas(|area| areas.push(area.clone()));
    areas
}

#[test]
fn room_is_where_one_who_tries_every_page_finds_it() {
    let (mut above, mut below) = (0, 0);
    for number in 0..300 {
        let (kernel, mut seed) = (Kernel::<Granule4K>::new(), Seed::new(number));
        let space = space(&kernel);
        let (lowest, third) = (space.shape().lowest, third(&space));
        for _ in 0..12 {
            let base = if seed.one_in(3) { third } else { lowest };
            let page = seed.below(PAGES);
            let mut request = anonymous(Place::Fixed(base + page * PAGE), 1 + seed.below(5), Rights::READ);
            if seed.one_in(4) {
                request.flags = AreaFlags::GROWS_DOWN;
            }
            // Nothing is in the guard of a stack, where it matters who else is.
            let (mut start, mut bytes) = (base + page * PAGE, request.bytes);
            if request.flags.contains(AreaFlags::GROWS_DOWN) {
                (start, bytes) = (start.saturating_sub(GUARD), bytes + GUARD);
            }
            if is_room(&areas_of(&space), start, bytes) {
                space.map(request).unwrap();
            }
            let ceiling = lowest + seed.below(PAGES) * PAGE;
            space.set_ceiling(ceiling);
            let pages = 1 + seed.below(6);
            let wanted = expected(&space, ceiling, pages * PAGE);
            assert_eq!(
                space.map(anonymous(Place::Anywhere, pages, RW)),
                wanted,
                "{number}: {pages} pages below {ceiling:#x}"
            );
            *if wanted.unwrap() < ceiling { &mut below } else { &mut above } += 1;
        }
    }
    assert!(above > 300 && below > 300, "{above} above, {below} below");
}

#[test]
fn all_that_there_is_can_be_mapped_and_no_more() {
    let kernel = Kernel::<Granule4K>::new();
    let space = space(&kernel);
    let (highest, third, lowest) = (space.shape().highest, third(&space), space.shape().lowest);
    let anywhere = |bytes: u64| anonymous(Place::Anywhere, bytes / PAGE, Rights::READ);
    assert_eq!(space.map(anywhere(highest - third + PAGE)), Err(Error::NoMemory));
    assert_eq!(space.map(anywhere(highest - third)), Ok(third));
    assert_eq!(space.map(anywhere(PAGES * PAGE + PAGE)), Err(Error::NoMemory));
    assert_eq!(space.map(anywhere(PAGES * PAGE)), Ok(lowest));
    assert_eq!(space.map(anywhere(PAGE)), Err(Error::NoMemory));
    space.clear();
    // What is asked for by its place may end where addresses do, and begin at 0 for who may.
    let fixed = |place, bytes: u64| space.map(anonymous(place, bytes / PAGE, Rights::READ));
    assert_eq!(fixed(Place::Fixed(highest - PAGE), PAGE), Ok(highest - PAGE));
    assert_eq!(fixed(Place::Fixed(highest - PAGE), 2 * PAGE), Err(Error::NoMemory));
    assert_eq!(fixed(Place::Near(highest - 2 * PAGE), PAGE), Ok(highest - 2 * PAGE));
    assert_eq!(fixed(Place::Near(highest - PAGE), 2 * PAGE), Ok(lowest + (PAGES - 2) * PAGE), "too near to the end");
    assert_eq!(space.unmap(highest - PAGE, PAGE), Ok(()));
    assert_eq!(
        fixed(Place::Near(highest - PAGE), 2 * PAGE),
        Ok(lowest + (PAGES - 4) * PAGE),
        "beyond the end is no room"
    );
    assert_eq!(space.unmap(highest - PAGE, 2 * PAGE), Err(Error::Invalid));
    let lowest_fixed = space.shape().lowest_fixed;
    assert_eq!(fixed(Place::Fixed(lowest_fixed), PAGE), Ok(lowest_fixed));
    assert_eq!(fixed(Place::Fixed(lowest_fixed - PAGE), PAGE), Err(Error::NotPermitted));
    assert_eq!(fixed(Place::FixedNoReplace(lowest_fixed + PAGE), PAGE), Ok(lowest_fixed + PAGE));
    assert_eq!(fixed(Place::FixedNoReplace(lowest_fixed), PAGE), Err(Error::Exists));
    assert_eq!(fixed(Place::FixedNoReplace(lowest_fixed + PAGE), PAGE), Err(Error::Exists));
    assert_eq!(fixed(Place::FixedNoReplace(lowest_fixed - PAGE), 2 * PAGE), Err(Error::NotPermitted));
}

/// A neighbour that a stack would run into keeps the guard's place; where there is a gap between both, it is the guard's.
#[test]
fn what_lies_in_the_guard_of_a_stack_is_no_wall_for_it() {
    for (gap, guarded) in [(0, 0), (1, 2)] {
        let kernel = Kernel::<Granule4K>::new();
        let space = space(&kernel);
        let neighbour = space.shape().lowest + 20 * PAGE;
        let mut stack = anonymous(Place::Fixed(neighbour + (1 + gap) * PAGE), 1, RW);
        stack.flags = AreaFlags::GROWS_DOWN;
        space.map(stack).unwrap();
        space.map(anonymous(Place::Fixed(neighbour), 1, Rights::READ)).unwrap();
        space.set_ceiling(neighbour + (1 + gap) * PAGE);
        let found = space.map(anonymous(Place::Anywhere, 1, Rights::READ));
        assert_eq!(found, Ok(neighbour - (1 + guarded - gap) * PAGE), "{gap}");
    }
}

#[test]
fn a_place_that_is_asked_for_is_near_no_stack() {
    let kernel = Kernel::<Granule4K>::new();
    let space = space(&kernel);
    let stack = third(&space) + 100 * PAGE;
    let mut request = anonymous(Place::Fixed(stack), 2, RW);
    request.flags = AreaFlags::GROWS_DOWN;
    space.map(request).unwrap();
    let near = |at| space.map(anonymous(Place::Near(at), 1, Rights::READ));
    assert_eq!(near(stack - GUARD - PAGE), Ok(stack - GUARD - PAGE));
    assert_ne!(near(stack - GUARD), Ok(stack - GUARD));
    assert_eq!(near(stack + 2 * PAGE), Ok(stack + 2 * PAGE));
    assert_ne!(near(stack + PAGE), Ok(stack + PAGE));
    // Where it may be by its place alone, nobody asks for the guard.
    assert_eq!(space.map(anonymous(Place::Fixed(stack - PAGE), 1, Rights::READ)), Ok(stack - PAGE));
}

#[test]
fn blocks_of_anonymous_memory_are_at_blocks_where_there_is_room_for_one_more() {
    let kernel = Kernel::<Granule4K>::new();
    let space = space(&kernel);
    let anywhere = |bytes: u64| space.map(anonymous(Place::Anywhere, bytes / PAGE, RW));
    let odd = ceiling() - 5 * PAGE;
    space.set_ceiling(odd);
    assert_eq!(anywhere(BLOCK), Ok(ceiling() - BLOCK - BLOCK), "the highest block below");
    assert_eq!(anywhere(2 * BLOCK), Ok(ceiling() - 4 * BLOCK));
    assert_eq!(anywhere(BLOCK + PAGE), Ok(ceiling() - 5 * BLOCK - PAGE), "no number of blocks, as high as possible");
    // What is of a file is where it is, and so is what has no room for one more.
    let file = TestFile::new(&kernel, 1, 1024);
    let of_file = common::of_file(&file, (Place::Anywhere, 0, 512), Rights::READ, AreaFlags::empty());
    assert_eq!(space.map(of_file), Ok(ceiling() - 6 * BLOCK - PAGE));
    space.clear();
    let lowest = space.shape().lowest;
    space.set_ceiling(lowest + 2 * BLOCK - PAGE);
    assert_eq!(anywhere(BLOCK), Ok(lowest + BLOCK - PAGE));
    space.clear();
    space.set_ceiling(lowest + 2 * BLOCK);
    assert_eq!(anywhere(BLOCK), Ok(BLOCK));
}
