//! Long calls give others their turn, and end where their thread is to end.

use crate::common;

use common::{Kernel, RW, Space, anonymous, read};
use vellum_userspace::{Advice, Error, Kind, Limits, Locking, Place, Request, Rights};
use vellum_vmsa::{Granule, Granule4K, Granule16K};

const PAGE: u64 = 4096;
const BASE: u64 = 0x4000_0000;
/// Pages of three portions, and a few more.
const PAGES: u64 = 3 * (1 << 16) + 77;
/// Descriptors of a portion, met when two changes are planned and when they are made, and some above.
const MOST_LOADS: usize = 5 << 16;

/// Loads between two turns of others, at most, in `body`, and behind it.
fn most_loads(kernel: &Kernel<Granule4K>, body: impl FnOnce()) -> usize {
    let loads = kernel.0.machine.loads.get();
    kernel.0.loads_before.set(loads);
    kernel.0.most_loads.set(0);
    body();
    let rest = kernel.0.machine.loads.get() - kernel.0.loads_before.get();
    kernel.0.most_loads.get().max(rest)
}

#[test]
fn others_have_their_turn_in_the_midst_of_every_long_call() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    space.map(anonymous(Place::Fixed(BASE), PAGES, RW)).unwrap();
    let bytes = PAGES * PAGE;
    let check = |what: &str, body: &mut dyn FnMut()| {
        let loads = most_loads(&kernel, body);
        assert!(loads <= MOST_LOADS, "{what}: {loads} loads while nobody else had a turn");
    };
    check("populate", &mut || space.populate(BASE, bytes, Kind::Write).unwrap());
    check("pages", &mut || space.pages(BASE..BASE + bytes, |_| ()));
    check("mincore", &mut || space.residency(BASE, bytes, |_| ()).unwrap());
    check("mprotect", &mut || space.protect(BASE, bytes, Rights::READ).unwrap());
    check("mprotect to execute", &mut || space.protect(BASE, bytes, Rights::READ | Rights::EXECUTE).unwrap());
    space.protect(BASE, bytes, RW).unwrap();
    check("cold", &mut || space.advise(BASE, bytes, Advice::Cold).unwrap());
    check("free", &mut || space.advise(BASE, bytes, Advice::Free).unwrap());
    let mut child = None;
    check("fork", &mut || child = space.fork().ok());
    check("the end of a child", &mut || drop(child.take()));
    check("dontneed", &mut || space.advise(BASE, bytes, Advice::DontNeed).unwrap());
    space.populate(BASE, bytes, Kind::Write).unwrap();
    check("munmap", &mut || space.unmap(BASE, bytes).unwrap());
}

#[test]
fn what_is_far_larger_than_what_is_there_takes_no_longer() {
    let kernel = Kernel::<Granule4K>::new();
    let shape = kernel.shape(vellum_pagetable::HardwareUpdates::None);
    let (highest, bytes) = (shape.highest, shape.highest / 2);
    let space = Space::new(kernel.clone(), shape, highest, Limits::USUAL).unwrap();
    kernel.0.has_zeros.set(false);
    space.map(anonymous(Place::Fixed(BASE), bytes / PAGE, RW)).unwrap();
    let few = [BASE, BASE + bytes / 2, BASE + bytes - PAGE];
    few.iter().for_each(|&page| assert!(read(&space, page).is_ok()));
    let before = kernel.0.machine.loads.get();
    space.protect(BASE, bytes, Rights::READ).unwrap();
    space.protect(BASE, bytes, RW).unwrap();
    space.advise(BASE, bytes, Advice::Cold).unwrap();
    space.advise(BASE, bytes, Advice::Free).unwrap();
    let mut found = Vec::new();
    space.pages(BASE..BASE + bytes, |page| found.push(page.address));
    assert_eq!(found, few);
    space.unmap(BASE, bytes).unwrap();
    let loads = kernel.0.machine.loads.get() - before;
    assert!(loads < 100_000, "{loads} loads for three pages");
}

/// What each call comes to whose thread is to end after so many rounds.
fn interrupted<G: Granule>(rounds: usize) {
    let kernel = Kernel::<G>::new();
    let space = kernel.space();
    let page = G::SIZE_BYTES;
    for part in 0..8 {
        // Areas that differ, so that none are one.
        let rights = if part % 2 == 0 { RW } else { Rights::READ };
        space.map(anonymous(Place::Fixed(BASE + part * 4 * page), 4, rights)).unwrap();
    }
    let bytes = 32 * page;
    let has_ended = |what: &str, call: &dyn Fn() -> Result<(), Error>| {
        kernel.0.turns_left.set(rounds);
        assert_eq!(call(), Err(Error::Interrupted), "{what} after {rounds} rounds");
        kernel.0.turns_left.set(usize::MAX);
    };
    has_ended("populate", &|| space.populate(BASE, bytes, Kind::Read));
    let mut there = 0;
    space.pages(BASE..BASE + bytes, |_| there += 1);
    assert!(there <= rounds, "{there} pages after {rounds} rounds");
    has_ended("mlock", &|| space.lock(BASE, bytes, Locking::Now));
    has_ended("munlock", &|| space.lock(BASE, bytes, Locking::Not));
    has_ended("mlockall", &|| space.lock_all(Locking::Now, true, Locking::Not));
    space.lock_all(Locking::Not, true, Locking::Not).unwrap();
    has_ended("mincore", &|| space.residency(BASE, bytes, |_| ()));
    has_ended("msync", &|| space.sync(BASE, bytes, false));
    has_ended("madvise", &|| space.advise(BASE, bytes, Advice::Cold));
    has_ended("mprotect", &|| space.protect(BASE, bytes, Rights::READ));
    // Without an error there is nothing to tell of, and what must be done as a whole is.
    kernel.0.turns_left.set(rounds);
    let at = space.map(Request { populates: true, ..anonymous(Place::Near(BASE + (1 << 32)), 32, RW) }).unwrap();
    assert_eq!(
        space.advise(at, 32 * page, Advice::DontNeed),
        if rounds > 32 { Ok(()) } else { Err(Error::Interrupted) }
    );
    let mut there = 0;
    space.pages(at..at + 32 * page, |_| there += 1);
    assert_eq!(there, 0, "what goes is gone");
    let child = space.fork().unwrap();
    space.unmap(BASE, bytes).unwrap();
    drop((child, space));
    assert_eq!(kernel.out(), (0, 0));
}

#[test]
fn a_call_whose_thread_is_to_end_does_no_more() {
    for rounds in [0, 1, 3, 5] {
        interrupted::<Granule4K>(rounds);
        interrupted::<Granule16K>(rounds);
    }
}
