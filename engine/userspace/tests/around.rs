//! What a file has in memory around a page of it that is read: how much of it is mapped with that page, and how.

use crate::common;

use std::collections::BTreeSet;
use std::rc::Rc;

use common::{Kernel, RW, RX, Space, TestFile, access, anonymous, frame_at, of_file, read, write};
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::{Access, AreaFlags, File, Frames, Kind, Place, Rights};
use vellum_vmsa::{Granule, Granule4K, Granule16K, Granule64K};

const BASE: u64 = 0x1000_0000;

const UPDATES: [HardwareUpdates; 3] = [HardwareUpdates::None, HardwareUpdates::AccessFlag, HardwareUpdates::DirtyState];

/// A file that has all of its pages in memory.
fn file_in_memory<G: Granule>(kernel: &Kernel<G>, pages: u64) -> TestFile<G> {
    let file = TestFile::new(kernel, 3, pages);
    file.gives_around.set(true);
    (0..pages).for_each(|index| kernel.release(file.frame(index).unwrap()));
    file
}

/// Pages that are mapped, and those of them that were accessed.
fn mapped<G: Granule>(space: &Space<G>) -> [Vec<u64>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    space.pages(BASE..BASE + (40 << G::SHIFT), |page| {
        let number = (page.address - BASE) >> G::SHIFT;
        found[0].push(number);
        found[1].extend(Some(number).filter(|_| page.is_accessed));
    });
    found
}

fn around<G: Granule>(hardware_updates: HardwareUpdates) {
    let (kernel, page, pages) = (Kernel::<G>::new(), G::SIZE_BYTES, 16 >> (G::SHIFT - 12));
    let space = kernel.try_space(hardware_updates).unwrap();
    let file = TestFile::new(&kernel, 3, 40);
    file.gives_around.set(true);
    (0..39).filter(|&index| index != 18).for_each(|index| kernel.release(file.frame(index).unwrap()));
    space.map(of_file(&file, (Place::Fixed(BASE), 0, 40), RW, AreaFlags::empty())).unwrap();
    write(&space, BASE + 30 * page, 7).unwrap();
    assert_eq!(mapped(&space)[0], [30], "who writes gets a page");
    assert_eq!(read(&space, BASE + 20 * page), Ok(file.value(20)));
    let around: Vec<u64> = (20 / pages * pages..).take(pages as usize).filter(|&at| at != 30).collect();
    let [all, accessed] = mapped(&space);
    let expected = around.iter().copied().filter(|&at| at != 18).chain([30]);
    assert_eq!(BTreeSet::from_iter(all.clone()), expected.collect(), "64 KiB, and nothing that is not in memory");
    assert_eq!(accessed, [20, 30], "what was mapped around was not accessed");
    around.iter().for_each(|at| assert_eq!(read(&space, BASE + at * page), Ok(file.value(*at))));
    assert_eq!(read(&space, BASE + 30 * page), Ok(7), "a page that is there stays");
    read(&space, BASE + 39 * page).unwrap();
    drop(space);
    file.close();
    assert_eq!(kernel.out(), (0, 0));
}

#[test]
fn what_is_in_memory_of_a_file_is_mapped_around_a_page_that_is_read() {
    for hardware_updates in UPDATES {
        around::<Granule4K>(hardware_updates);
        around::<Granule16K>(hardware_updates);
        around::<Granule64K>(hardware_updates);
    }
}

/// An area begins two pages before the end of a table, and the next table is there too.
fn around_at_the_end_of_a_table<G: Granule>() {
    let kernel = Kernel::<G>::new();
    let (space, file, page) = (kernel.space(), file_in_memory(&kernel, 40), G::SIZE_BYTES);
    let end = 2 * (page << (G::SHIFT - 3));
    let start = end - 2 * page;
    space.map(of_file(&file, (Place::Fixed(start), 0, 40), Rights::READ, AreaFlags::empty())).unwrap();
    read(&space, end + 30 * page).unwrap();
    let before = space.usage().file;
    assert_eq!(read(&space, start), Ok(file.value(0)));
    assert_eq!(
        space.usage().file - before,
        2.min(16 >> (G::SHIFT - 12)),
        "what is of another table is of another part"
    );
    drop(space);
    file.close();
    assert_eq!(kernel.out(), (0, 0));
}

#[test]
fn what_is_mapped_around_a_page_is_of_its_table() {
    around_at_the_end_of_a_table::<Granule4K>();
    around_at_the_end_of_a_table::<Granule16K>();
    around_at_the_end_of_a_table::<Granule64K>();
}

#[test]
fn code_around_a_page_can_be_fetched_and_data_is_not_maintained() {
    for (rights, kind) in [(RX, Kind::Execute), (RX, Kind::Read), (RW, Kind::Read)] {
        let kernel = Kernel::<Granule4K>::new();
        let (space, file) = (kernel.space(), file_in_memory(&kernel, 16));
        space.map(of_file(&file, (Place::Fixed(BASE), 0, 16), rights, AreaFlags::empty())).unwrap();
        access(&space, BASE + (5 << 12), kind, 0).unwrap();
        for index in 0..16 {
            let fetched = kernel.fetched(frame_at(&space, BASE + (index << 12)));
            assert_eq!(fetched, (rights == RX).then(|| file.value(index)), "page {index}, {rights:?}");
        }
        drop(space);
        file.close();
    }
}

/// While a space looks what is in memory around a page, another CPU does something.
fn beside(call: impl FnOnce(&Space<Granule4K>) + 'static) -> (u64, u64) {
    let kernel = Kernel::<Granule4K>::new();
    let (space, file) = (Rc::new(kernel.space()), file_in_memory(&kernel, 16));
    // A page beside, so that the table stays.
    space.map(anonymous(Place::Fixed(BASE + (32 << 12)), 1, RW)).unwrap();
    write(&space, BASE + (32 << 12), 1).unwrap();
    space.map(of_file(&file, (Place::Fixed(BASE), 0, 16), Rights::READ, AreaFlags::empty())).unwrap();
    let (other, its) = (space.clone(), file.clone());
    // The page itself comes first, then those around.
    let body: Box<dyn FnOnce()> = Box::new(move || call(&other));
    *file.beside.borrow_mut() = Some(Box::new(move || *its.beside.borrow_mut() = Some(body)));
    space.fault(Access { address: BASE + (5 << 12), kind: Kind::Read }).unwrap();
    assert!(file.beside.borrow().is_none(), "the other CPU came");
    let mut pages = 0;
    space.pages(BASE..BASE + (16 << 12), |_| pages += 1);
    let told = (pages, space.usage().file);
    drop(space);
    file.close();
    assert_eq!(kernel.out(), (0, 0));
    told
}

#[test]
fn nothing_is_mapped_around_a_page_that_another_cpu_has_changed_meanwhile() {
    assert_eq!(beside(|_| ()), (16, 16));
    assert_eq!(beside(|space| space.unmap(BASE, 16 << 12).unwrap()), (0, 0));
    assert_eq!(beside(|space| space.protect(BASE, 16 << 12, Rights::empty()).unwrap()), (1, 1));
    assert_eq!(beside(|space| _ = space.map(anonymous(Place::Fixed(BASE), 8, RW)).unwrap()), (0, 0));
}
