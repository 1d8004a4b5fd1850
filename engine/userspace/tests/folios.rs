//! Folios: what one fault fills, and what becomes of it when a part goes, changes, or is another's too.

use crate::common;

use common::{Kernel, RW, Space, anonymous, can_be_written, frame_at, leaf_bytes, read, write};
use vellum_pagetable::{HardwareUpdates, Tolerance};
use vellum_userspace::{Advice, Error, Frames, Place, Rights};
use vellum_vmsa::{BbmLevel, Granule, Granule4K, Granule16K, Granule64K, Level};

/// A multiple of every size of a folio.
const BASE: u64 = 0x1_0000_0000;

const UPDATES: [HardwareUpdates; 3] = [HardwareUpdates::None, HardwareUpdates::AccessFlag, HardwareUpdates::DirtyState];

/// The order of a contiguous group, and of a block.
const fn orders<G: Granule>() -> [u32; 2] {
    let Some(group) = G::PAGE_SIZE.contiguous_shift(Level::L3) else { panic!("every granule has groups of pages") };
    [group, G::SHIFT - 3]
}

/// A space with an area of `pages` pages, where folios are of this order.
fn space<G: Granule>(order: u32, pages: u64, hardware_updates: HardwareUpdates) -> (Kernel<G>, Space<G>) {
    let kernel = Kernel::<G>::new();
    kernel.0.folio_order.set(order);
    let space = kernel.try_space(hardware_updates).unwrap();
    space.map(anonymous(Place::Fixed(BASE), pages, RW)).unwrap();
    (kernel, space)
}

fn pages<G: Granule>(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(|page| BASE + (page << G::SHIFT))
}

fn one_fault_fills_one<G: Granule>() {
    for order in orders::<G>() {
        let (kernel, space) = space::<G>(order, 3 << order, HardwareUpdates::None);
        let bytes = G::SIZE_BYTES << order;
        write(&space, BASE + bytes + 5 * G::SIZE_BYTES, 7).unwrap();
        assert_eq!((kernel.out().0, space.usage().anonymous), (1 << order, 1 << order));
        assert_eq!((leaf_bytes(&space, BASE + bytes), leaf_bytes(&space, BASE)), (Some(bytes), None));
        let first = frame_at(&space, BASE + bytes);
        assert!(first.bits().is_multiple_of(bytes));
        for page in 0..1 << order {
            let at = BASE + bytes + (page << G::SHIFT);
            assert_eq!(frame_at(&space, at), first + (page << G::SHIFT));
            assert_eq!(read(&space, at), Ok(if page == 5 { 7 } else { 0 }));
        }
        // A page that is there leaves no room for a folio around it, be it of zeros.
        kernel.0.has_zeros.set(false);
        read(&space, BASE).unwrap();
        write(&space, BASE + G::SIZE_BYTES, 8).unwrap();
        assert_eq!((kernel.out().0, leaf_bytes(&space, BASE)), ((1 << order) + 1, Some(G::SIZE_BYTES)));
        drop(space);
        assert_eq!(kernel.out(), (0, 0));
    }
}

#[test]
fn a_write_fills_a_folio_with_one_leaf() {
    one_fault_fills_one::<Granule4K>();
    one_fault_fills_one::<Granule16K>();
    one_fault_fills_one::<Granule64K>();
}

#[test]
fn a_folio_is_where_its_area_and_memory_are() {
    let page = Granule4K::SIZE_BYTES;
    // A block does not fit, a group does; at the ends neither does.
    let (kernel, space) = space::<Granule4K>(9, 40, HardwareUpdates::None);
    write(&space, BASE + 20 * page, 1).unwrap();
    write(&space, BASE + 39 * page, 1).unwrap();
    let sizes = [16, 31, 39].map(|number| leaf_bytes(&space, BASE + number * page));
    assert_eq!(sizes, [Some(16 * page), Some(16 * page), Some(page)]);
    // Fewer frames than a folio.
    kernel.0.left.set(15);
    write(&space, BASE, 1).unwrap();
    assert_eq!((leaf_bytes(&space, BASE), kernel.out().0), (Some(page), 18));
    kernel.0.left.set(usize::MAX);
    // And where nobody wants one.
    space.map(anonymous(Place::Fixed(2 * BASE), 16, RW)).unwrap();
    space.advise(2 * BASE, 16 * page, Advice::NotHuge).unwrap();
    write(&space, 2 * BASE, 1).unwrap();
    assert_eq!(leaf_bytes(&space, 2 * BASE), Some(page));
}

/// A part goes, or changes: what is beside it stays.
fn parts<G: Granule>(order: u32, change: impl Fn(&Space<G>, u64, u64) -> Result<(), Error>) {
    for hardware_updates in UPDATES {
        let count = 1 << order;
        for (from, to) in [(0, 1), (1, 2), (count / 2, count), (count - 1, count), (0, count)] {
            let (kernel, space) = space::<G>(order, count, hardware_updates);
            for (page, at) in (1..).zip(pages::<G>(count)) {
                write(&space, at, page).unwrap();
            }
            assert_eq!(leaf_bytes(&space, BASE), Some(G::SIZE_BYTES << order));
            change(&space, BASE + (from << G::SHIFT), (to - from) << G::SHIFT).unwrap();
            for (page, at) in (0..).zip(pages::<G>(count)).filter(|(page, _)| !(from..to).contains(page)) {
                assert_eq!(read(&space, at), Ok(page + 1), "beside {from}..{to}");
                assert_eq!(write(&space, at, page), Ok(page));
            }
            drop(space);
            assert_eq!(kernel.out(), (0, 0));
        }
    }
}

#[test]
fn what_is_beside_a_part_that_goes_stays() {
    for order in orders::<Granule4K>() {
        parts::<Granule4K>(order, |space, at, bytes| {
            space.unmap(at, bytes)?;
            assert!(read(space, at).is_err());
            Ok(())
        });
        parts::<Granule4K>(order, |space, at, bytes| {
            space.advise(at, bytes, Advice::DontNeed)?;
            assert_eq!(read(space, at), Ok(0));
            Ok(())
        });
    }
    parts::<Granule16K>(7, |space, at, bytes| space.unmap(at, bytes));
    parts::<Granule64K>(5, |space, at, bytes| space.unmap(at, bytes));
}

#[test]
fn a_part_has_rights_and_advice_of_its_own() {
    for order in orders::<Granule4K>() {
        parts::<Granule4K>(order, |space, at, bytes| {
            space.protect(at, bytes, Rights::READ)?;
            assert!(read(space, at).is_ok() && write(space, at, 1).is_err());
            Ok(())
        });
        parts::<Granule4K>(order, |space, at, bytes| space.advise(at, bytes, Advice::Cold));
        parts::<Granule4K>(order, |space, at, bytes| space.advise(at, bytes, Advice::DontFork));
    }
}

#[test]
fn what_may_go_goes_page_by_page() {
    let (kernel, space) = space::<Granule4K>(4, 16, HardwareUpdates::None);
    pages::<Granule4K>(16).for_each(|at| assert_eq!(write(&space, at, 3), Ok(3)));
    space.advise(BASE, 16 << 12, Advice::Free).unwrap();
    assert_eq!(space.take_lazy(5), 5);
    assert_eq!(kernel.out().0, 11);
    assert_eq!(pages::<Granule4K>(16).filter(|&at| read(&space, at) == Ok(3)).count(), 11);
}

#[test]
fn a_fork_shares_folios_and_a_write_copies_a_page() {
    for hardware_updates in UPDATES {
        for order in orders::<Granule4K>() {
            let count = 1 << order;
            let (kernel, parent) = space::<Granule4K>(order, count, hardware_updates);
            for (page, at) in (0..).zip(pages::<Granule4K>(count)) {
                write(&parent, at, page).unwrap();
            }
            let child = parent.fork().unwrap();
            assert_eq!(kernel.out().0 as u64, count, "a fork copies no page");
            assert_eq!(leaf_bytes(&child, BASE), Some(count << 12));
            write(&child, BASE + (3 << 12), 100).unwrap();
            assert_eq!((kernel.out().0 as u64, read(&parent, BASE + (3 << 12))), (count + 1, Ok(3)));
            assert_eq!(read(&child, BASE + (4 << 12)), Ok(4));
            // The parent has its folio as one leaf yet, of which one page is its own alone.
            write(&parent, BASE + (3 << 12), 200).unwrap();
            assert_eq!((kernel.out().0 as u64, read(&child, BASE + (3 << 12))), (count + 1, Ok(100)));
            drop(child);
            assert_eq!(kernel.out().0 as u64, count);
            for (page, at) in (0..).zip(pages::<Granule4K>(count)).filter(|(page, _)| *page != 3) {
                assert_eq!(read(&parent, at), Ok(page));
                assert_eq!(write(&parent, at, page), Ok(page));
            }
            drop(parent);
            assert_eq!(kernel.out(), (0, 0));
        }
    }
}

#[test]
fn who_is_left_alone_with_a_folio_writes_all_of_it() {
    for order in orders::<Granule4K>() {
        let (kernel, parent) = space::<Granule4K>(order, 1 << order, HardwareUpdates::None);
        write(&parent, BASE, 1).unwrap();
        drop(parent.fork().unwrap());
        assert!(!can_be_written(&parent, BASE));
        write(&parent, BASE + (5 << 12), 2).unwrap();
        assert!(pages::<Granule4K>(1 << order).all(|at| can_be_written(&parent, at)));
        assert_eq!((leaf_bytes(&parent, BASE), kernel.out().0), (Some(4096 << order), 1 << order));
    }
}

#[test]
fn what_runs_out_of_memory_has_changed_nothing() {
    let (kernel, space) = space::<Granule4K>(9, 512, HardwareUpdates::None);
    write(&space, BASE, 1).unwrap();
    let tables = kernel.out().1;
    kernel.0.left.set(0);
    // A part of a block takes a table.
    assert_eq!(space.unmap(BASE + 4096, 4096), Err(Error::NoMemory));
    assert_eq!(space.protect(BASE + 4096, 4096, Rights::READ), Err(Error::NoMemory));
    assert_eq!(space.advise(BASE + 4096, 4096, Advice::DontNeed), Err(Error::NoMemory));
    assert_eq!(space.map(anonymous(Place::Fixed(BASE + 4096), 1, RW)), Err(Error::NoMemory));
    let to = vellum_userspace::Move::To(2 * BASE);
    assert_eq!(space.remap(BASE + 4096, 4096, 4096, to, false), Err(Error::NoMemory));
    kernel.0.left.set(usize::MAX);
    assert_eq!((leaf_bytes(&space, BASE), kernel.out()), (Some(2 << 20), (512, tables)));
    assert_eq!(kernel.0.committed.get(), 512);
    space.unmap(BASE, 512 << 12).unwrap();
    assert_eq!(kernel.out().0, 0);
}

#[test]
fn a_part_moves_elsewhere() {
    for order in orders::<Granule4K>() {
        let (kernel, space) = space::<Granule4K>(order, 1 << order, HardwareUpdates::DirtyState);
        for (page, at) in (0..).zip(pages::<Granule4K>(1 << order)) {
            write(&space, at, page).unwrap();
        }
        let to = vellum_userspace::Move::To(2 * BASE);
        assert_eq!(space.remap(BASE + (4 << 12), 4 << 12, 6 << 12, to, false), Ok(2 * BASE));
        assert_eq!(
            (4..8).map(|page| read(&space, 2 * BASE + ((page - 4) << 12))).collect::<Vec<_>>(),
            [Ok(4), Ok(5), Ok(6), Ok(7)]
        );
        assert_eq!((read(&space, BASE + (3 << 12)), read(&space, BASE + (8 << 12))), (Ok(3), Ok(8)));
        assert!(read(&space, BASE + (4 << 12)).is_err());
        drop(space);
        assert_eq!(kernel.out(), (0, 0));
    }
}

/// What was cut is one leaf again once all of it is alike.
fn folds<G: Granule>(order: u32) {
    for (from, to) in [(0, 1), (3, 5), (1 << (order - 1), 1 << order), (0, 1 << order)] {
        for tolerates in [false, true] {
            let (kernel, space) = space::<G>(order, 1 << order, HardwareUpdates::None);
            kernel.0.tolerates.set(tolerates);
            for (page, at) in (0..).zip(pages::<G>(1 << order)) {
                write(&space, at, page).unwrap();
            }
            let (at, bytes) = (BASE + (from << G::SHIFT), (to - from) << G::SHIFT);
            let whole = Some(G::SIZE_BYTES << order);
            space.protect(at, bytes, Rights::READ).unwrap();
            assert_eq!(leaf_bytes(&space, BASE) == whole, to - from == 1 << order, "{from}..{to}");
            // Whether a page is written yet, software says here.
            space.protect(at, bytes, RW).unwrap();
            for (page, at) in (0..).zip(pages::<G>(1 << order)) {
                assert_eq!((read(&space, at), write(&space, at, page)), (Ok(page), Ok(page)));
            }
            assert_eq!(leaf_bytes(&space, BASE), whole, "{from}..{to}");
            drop(space);
            assert_eq!(kernel.out(), (0, 0));
        }
    }
}

#[test]
fn what_is_alike_again_is_one_leaf() {
    orders::<Granule4K>().into_iter().for_each(folds::<Granule4K>);
    folds::<Granule16K>(7);
    folds::<Granule64K>(5);
}

#[test]
fn a_group_ends_and_begins_without_a_tlbi_where_every_cpu_tolerates_it() {
    for (tolerates, is_at_2) in [(true, false), (true, true), (false, false)] {
        let (kernel, space) = space::<Granule4K>(4, 16, HardwareUpdates::None);
        kernel.0.tolerates.set(tolerates);
        kernel.0.is_at_2.set(is_at_2);
        write(&space, BASE, 1).unwrap();
        let before = kernel.0.machine.tlbis.get();
        for (rights, leaf) in [(Rights::READ, 1), (RW, 16)] {
            space.protect(BASE + (3 << 12), 1 << 12, rights).unwrap();
            assert_eq!(write(&space, BASE + (3 << 12), 1).is_ok(), rights == RW);
            assert_eq!(leaf_bytes(&space, BASE), Some(leaf << 12));
        }
        // Of the page alone whose rights change: it may not be written, it may, it is.
        let issued = kernel.0.machine.tlbis.get() - before;
        assert_eq!(issued <= 3, tolerates, "{issued}");
    }
}

#[test]
fn a_space_that_another_walker_has_too_breaks_first_where_the_system_would_not() {
    let levels = [BbmLevel::Level3, BbmLevel::Level2, BbmLevel::Level1, BbmLevel::Level0];
    for (level, is_forked) in levels.into_iter().flat_map(|level| [(level, false), (level, true)]) {
        let (kernel, mut space) = space::<Granule4K>(4, 16, HardwareUpdates::None);
        kernel.0.tolerates.set(true);
        space.share_with(Tolerance::new(level, true));
        // What the one does not tolerate is not tolerated, whoever comes later.
        space.share_with(Tolerance::new(BbmLevel::Level3, true));
        if is_forked {
            space = space.fork().unwrap();
        }
        write(&space, BASE, 1).unwrap();
        let before = kernel.0.machine.tlbis.get();
        kernel.0.announced.set(0);
        for rights in [Rights::READ, RW] {
            space.protect(BASE + (3 << 12), 1 << 12, rights).unwrap();
        }
        write(&space, BASE + (3 << 12), 1).unwrap();
        assert_eq!(leaf_bytes(&space, BASE), Some(16 << 12));
        assert_eq!(kernel.0.announced.get() > 0, level >= BbmLevel::Level2, "{level:?}");
        let issued = kernel.0.machine.tlbis.get() - before;
        // In place a TLB that may conflict is told at once.
        assert_eq!(issued <= 3, level == BbmLevel::Level3, "{level:?}: {issued}");
    }
}

/// Descriptors that are read while a part of a group of a block is cut, and is alike again, where groups lie side by side or not.
fn loads_of_a_fold<G: Granule>(is_apart: bool) -> (usize, Option<u64>) {
    let [group, block] = orders::<G>();
    let (kernel, space) = space::<G>(group, 1 << block, HardwareUpdates::None);
    kernel.0.tolerates.set(true);
    for at in pages::<G>(1 << block).step_by(1 << group) {
        write(&space, at, 1).unwrap();
        if is_apart {
            space.embedder().take_folio(group).unwrap();
        }
    }
    let at = BASE + (5 << group << G::SHIFT) + 3 * G::SIZE_BYTES;
    space.protect(at, G::SIZE_BYTES, Rights::READ).unwrap();
    let before = kernel.0.machine.loads.get();
    space.protect(at, G::SIZE_BYTES, RW).unwrap();
    write(&space, at, 2).unwrap();
    (kernel.0.machine.loads.get() - before, leaf_bytes(&space, at))
}

#[test]
fn a_group_that_folds_looks_at_its_own_pages_alone() {
    let folds = [loads_of_a_fold::<Granule4K>, loads_of_a_fold::<Granule16K>, loads_of_a_fold::<Granule64K>];
    let sizes = [(16_usize, 65536), (128, 2 << 20), (32, 2 << 20)];
    for (fold, (pages, bytes)) in folds.into_iter().zip(sizes) {
        let (loads, leaf) = fold(true);
        assert_eq!(leaf, Some(bytes));
        // For each of the two calls a few of each page, and a few ways down.
        assert!(loads <= 12 * pages + 100, "{loads} of {pages}");
        // Groups that lead on from each other are a block.
        assert!(fold(false).1 > Some(bytes));
    }
}

#[test]
fn what_changes_size_is_announced_where_that_is_in_place() {
    for tolerates in [true, false] {
        let (kernel, space) = space::<Granule4K>(4, 16, HardwareUpdates::None);
        kernel.0.tolerates.set(tolerates);
        write(&space, BASE, 1).unwrap();
        for (rights, leaf) in [(Rights::READ, 1), (RW, 16)] {
            kernel.0.announced.set(0);
            space.protect(BASE + (3 << 12), 1 << 12, rights).unwrap();
            assert_eq!(write(&space, BASE + (3 << 12), 1).is_ok(), rights == RW);
            assert_eq!(leaf_bytes(&space, BASE), Some(leaf << 12));
            assert_eq!(kernel.0.announced.get() > 0, tolerates);
        }
        // Members of a group differ for a moment while a fork withdraws them in place.
        kernel.0.announced.set(0);
        drop(space.fork().unwrap());
        assert_eq!(kernel.0.announced.get() > 0, tolerates);
        let (kernel, without) = self::space::<Granule4K>(0, 16, HardwareUpdates::None);
        kernel.0.tolerates.set(tolerates);
        write(&without, BASE, 1).unwrap();
        drop(without.fork().unwrap());
        assert_eq!(kernel.0.announced.get(), 0, "there is no group");
    }
}

#[test]
fn what_moves_is_one_leaf_there_if_it_can_be() {
    for (order, offset) in orders::<Granule4K>().into_iter().flat_map(|order| [(order, 0), (order, 1)]) {
        let (_, space) = space::<Granule4K>(order, 1 << order, HardwareUpdates::None);
        pages::<Granule4K>(1 << order).for_each(|at| assert_eq!(write(&space, at, at), Ok(at)));
        let (to, bytes) = (2 * BASE + (offset << 12), 4096 << order);
        assert_eq!(space.remap(BASE, bytes, bytes, vellum_userspace::Move::To(to), false), Ok(to));
        assert_eq!(leaf_bytes(&space, to), Some(if offset == 0 { bytes } else { 4096 }));
    }
}

#[test]
fn who_is_left_alone_with_the_pages_of_a_folio_has_one_leaf() {
    let (kernel, parent) = space::<Granule4K>(4, 16, HardwareUpdates::None);
    pages::<Granule4K>(16).for_each(|at| assert_eq!(write(&parent, at, 1), Ok(1)));
    let child = parent.fork().unwrap();
    // The child has a page of its own, so that the parent's is its own alone, and so a leaf by itself.
    write(&child, BASE, 2).unwrap();
    write(&parent, BASE, 3).unwrap();
    assert_eq!(leaf_bytes(&parent, BASE), Some(4096));
    drop(child);
    pages::<Granule4K>(16).for_each(|at| assert_eq!(write(&parent, at, 4), Ok(4)));
    assert_eq!((leaf_bytes(&parent, BASE), kernel.out().0), (Some(16 * 4096), 16));
}
