//! What another CPU does while a fault makes a page, without the lock: whatever it is, no page comes where no area is, none may be done more
//! with than its area says, and nothing is lost.

use crate::common;

use std::ops::Range;
use std::rc::Rc;

use common::{Kernel, RW, RX, Space, TestFile, access, anonymous, of_file, read, write};
use vellum_userspace::{Access, Advice, AreaFlags, Fault, Kind, Move, Place, Rights};
use vellum_vmsa::{Granule, Granule4K, Granule16K, Granule64K};

/// Addresses that no table of the program's leads to but one, which goes with its last page.
const BASE: u64 = 1 << 35;
const FAR: u64 = 1 << 34;
const PAGES: u64 = 16;

/// What is there before the fault.
#[derive(Clone, Copy, Debug)]
enum Before {
    /// A hole in a table that has one page.
    Hole,
    /// No table.
    Nothing,
    /// Zeros that were read.
    Zeros,
    /// A page that a child has too.
    Forked,
    /// A private file, of which nothing was read.
    Private,
    /// A shared file, of which nothing was read.
    Shared,
    /// A shared file's page, which was read.
    SharedRead,
}

const ALL: [Before; 7] =
    [Before::Hole, Before::Nothing, Before::Zeros, Before::Forked, Before::Private, Before::Shared, Before::SharedRead];

/// What another CPU does.
const CALLS: [&str; 12] = [
    "unmap",
    "unmap the page",
    "protect",
    "execute",
    "map over",
    "move away",
    "move and keep",
    "drop pages",
    "forget the file",
    "clear",
    "write",
    "fork",
];

/// Makes a call. Whether it did what it is for.
fn call<G: Granule>(name: &str, space: &Space<G>, file: &TestFile<G>) -> bool {
    let (page, all) = (G::SIZE_BYTES, PAGES * G::SIZE_BYTES);
    match name {
        "unmap" => space.unmap(BASE, all).is_ok(),
        "unmap the page" => space.unmap(BASE, page).is_ok(),
        "protect" => space.protect(BASE, all, Rights::empty()).is_ok(),
        "execute" => space.protect(BASE, page, RX).is_ok(),
        "map over" => space.map(anonymous(Place::Fixed(BASE), 1, Rights::READ)).is_ok(),
        "move away" => space.remap(BASE, all, all, Move::To(FAR), false) == Ok(FAR),
        "move and keep" => space.remap(BASE, all, all, Move::To(FAR), true) == Ok(FAR),
        "drop pages" => space.advise(BASE, all, Advice::DontNeed).is_ok(),
        "forget the file" => {
            space.forget_file(file, 0..PAGES, false);
            true
        }
        "clear" => {
            space.clear();
            true
        }
        "write" => write(space, BASE, 7).is_ok(),
        _ => space.fork().is_ok(),
    }
}

/// Every page is where an area is, which lets a program do what the page does.
fn judge<G: Granule>(space: &Space<G>, told: &str) {
    let mut areas: Vec<(Range<u64>, Rights)> = Vec::new();
    space.areas(|area| areas.push((area.range(), area.rights)));
    space.pages(0..1 << 36, |page| {
        let area = areas.iter().find(|(range, _)| range.contains(&page.address));
        let rights = area.unwrap_or_else(|| panic!("{told}: a page at {:#x}, where nothing is", page.address)).1;
        let is_hidden = rights.is_empty();
        assert!(!is_hidden || !common::can_be_read(space, page.address), "{told}: may be read");
        let may_write = rights.contains(Rights::WRITE);
        assert!(may_write || !common::can_be_written(space, page.address), "{told}: may be written");
    });
}

fn run<G: Granule>(before: Before, kind: Kind, names: &[&'static str], order: u32) {
    let told = format!("{before:?}, {kind:?}, {names:?}, order {order}");
    let kernel = Kernel::<G>::new();
    let (space, file) = (Rc::new(kernel.space()), TestFile::new(&kernel, 3, PAGES));
    let flags = if matches!(before, Before::Private) { AreaFlags::empty() } else { AreaFlags::SHARED };
    match before {
        Before::Private | Before::Shared | Before::SharedRead => {
            space.map(of_file(&file, (Place::Fixed(BASE), 0, PAGES), RW, flags)).unwrap();
        }
        _ => drop(space.map(anonymous(Place::Fixed(BASE), PAGES, RW)).unwrap()),
    }
    let mut child = None;
    match before {
        Before::Hole => drop(write(&space, BASE + G::SIZE_BYTES, 1).unwrap()),
        Before::Zeros | Before::SharedRead => drop(read(&space, BASE).unwrap()),
        Before::Forked => {
            write(&space, BASE, 3).unwrap();
            child = Some(space.fork().unwrap());
        }
        Before::Nothing | Before::Private | Before::Shared => {}
    }
    kernel.0.folio_order.set(order);
    // A file's page is read without a step of the frames': there it is told by the file.
    let (other, its) = (space.clone(), file.clone());
    let is_made = !matches!((before, kind), (Before::Shared | Before::SharedRead, _) | (Before::Private, Kind::Read));
    let calls = names.to_vec();
    let body: Box<dyn FnOnce()> = Box::new(move || {
        let done = calls.iter().map(|name| call(name, &other, &its)).collect::<Vec<_>>();
        assert!(done[0] || calls[0] == "write", "{calls:?}");
    });
    if is_made {
        *kernel.0.beside.borrow_mut() = Some((0, body));
    } else {
        *file.beside.borrow_mut() = Some(body);
    }
    let made = space.fault(Access { address: BASE, kind });
    let has_come = kernel.0.beside.borrow().is_none() && file.beside.borrow().is_none();
    assert!(
        has_come || matches!((before, kind), (Before::Zeros | Before::Forked | Before::SharedRead, Kind::Read)),
        "{told}"
    );
    kernel.0.beside.take();
    file.beside.take();
    judge(&space, &told);
    let ends = ["unmap", "unmap the page", "move away", "clear"];
    if names.iter().all(|name| ends.contains(name)) {
        assert!(!has_come || made == Err(Fault::Unmapped), "{told}");
    }
    // It is what it is for who comes next, too.
    let _ = (read(&space, BASE), write(&space, BASE, 9), read(&space, FAR));
    judge(&space, &told);
    drop((child, space));
    let left = file.pages.borrow().len();
    assert_eq!(kernel.out(), (left, 0), "{told}: lost");
    file.close();
    assert_eq!(kernel.out(), (0, 0), "{told}: lost of the file");
}

fn all<G: Granule>() {
    let group = G::PAGE_SIZE.contiguous_shift(vellum_vmsa::Level::L3).unwrap();
    for before in ALL {
        for kind in [Kind::Read, Kind::Write] {
            for name in CALLS {
                run::<G>(before, kind, &[name], 0);
                if PAGES >= 1 << group {
                    run::<G>(before, kind, &[name], group);
                }
            }
        }
    }
}

#[test]
fn no_page_comes_where_no_area_is_with_4k() {
    all::<Granule4K>();
}

#[test]
fn no_page_comes_where_no_area_is_with_16k() {
    all::<Granule16K>();
}

#[test]
fn no_page_comes_where_no_area_is_with_64k() {
    all::<Granule64K>();
}

/// Two calls come between, of which each is seen, whatever the other is.
#[test]
fn no_page_comes_where_no_area_is_after_two_calls() {
    for before in ALL {
        for first in CALLS {
            CALLS.iter().for_each(|second| run::<Granule4K>(before, Kind::Write, &[first, second], 0));
        }
    }
}

/// What two CPUs make of one page at the same moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Twice {
    /// A page of a private file, for a read; its copy, for a write.
    Read,
    Copy,
    /// A page of a shared file, for a write.
    Shared,
    /// Zeros that may be executed, for a write.
    Code,
}

/// The second comes while the first makes the page; each finds a table with a hole.
fn twice<G: Granule>(what: Twice) {
    let kernel = Kernel::<G>::new();
    let (space, file) = (Rc::new(kernel.space()), TestFile::new(&kernel, 3, 2));
    let flags = if what == Twice::Shared { AreaFlags::SHARED } else { AreaFlags::empty() };
    match what {
        Twice::Code => space.map(anonymous(Place::Fixed(BASE), 2, RW | Rights::EXECUTE)).unwrap(),
        _ => space.map(of_file(&file, (Place::Fixed(BASE), 0, 2), RW, flags)).unwrap(),
    };
    match what {
        Twice::Code => write(&space, BASE + G::SIZE_BYTES, 1).unwrap(),
        _ => read(&space, BASE + G::SIZE_BYTES).unwrap(),
    };
    let other = space.clone();
    let kind = if what == Twice::Read { Kind::Read } else { Kind::Write };
    let beside = Box::new(move || _ = access(&other, BASE, kind, 7).unwrap());
    match what {
        Twice::Copy | Twice::Code => *kernel.0.beside.borrow_mut() = Some((0, beside)),
        Twice::Read | Twice::Shared => *file.beside.borrow_mut() = Some(beside),
    }
    space.fault(Access { address: BASE, kind }).unwrap();
    assert!(kernel.0.beside.borrow().is_none() && file.beside.borrow().is_none(), "{what:?}");
    assert_eq!(read(&space, BASE), Ok(if what == Twice::Read { file.value(0) } else { 7 }), "{what:?}");
    let counted = match what {
        Twice::Read | Twice::Shared => (0, 2),
        Twice::Copy => (1, 1),
        Twice::Code => (2, 0),
    };
    assert_eq!((space.usage().anonymous, space.usage().file), counted, "{what:?}");
    drop(space);
    file.close();
    assert_eq!(kernel.out(), (0, 0), "{what:?}");
}

#[test]
fn what_two_cpus_make_at_once_is_there_once() {
    for what in [Twice::Read, Twice::Copy, Twice::Shared, Twice::Code] {
        twice::<Granule4K>(what);
        twice::<Granule16K>(what);
        twice::<Granule64K>(what);
    }
}
