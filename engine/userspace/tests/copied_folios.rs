//! What a fork does to the folios of a parent, and whom it counts.

use crate::common;

use common::{Kernel, RW, TestFile, anonymous, can_be_written, frame_at, leaf_bytes, of_file, read, write};
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::{AreaFlags, Place, Rights};
use vellum_vmsa::Granule4K;

const BASE: u64 = 0x1_0000_0000;

/// A fork lacks tables at first. Then it looks at each page once, and at its copy once more where groups are broken before they are made again.
#[test]
fn a_fork_looks_at_each_page_of_a_folio_once() {
    for (tolerates, looks) in [(true, 1), (false, 2)] {
        let kernel = Kernel::<Granule4K>::new();
        kernel.0.folio_order.set(4);
        kernel.0.tolerates.set(tolerates);
        let parent = kernel.try_space(HardwareUpdates::None).unwrap();
        parent.map(anonymous(Place::Fixed(BASE), 512, RW)).unwrap();
        (0..512).step_by(16).for_each(|page| assert_eq!(write(&parent, BASE + (page << 12), 1), Ok(1)));
        let before = kernel.0.machine.loads.get();
        let child = parent.fork().unwrap();
        let loads = kernel.0.machine.loads.get() - before;
        assert!(loads <= looks * 512 + 128, "{loads}");
        assert_eq!((leaf_bytes(&parent, BASE), leaf_bytes(&child, BASE)), (Some(16 << 12), Some(16 << 12)));
        assert!(!can_be_written(&parent, BASE) && !can_be_written(&child, BASE));
    }
}

/// Frames are counted by runs: neither one that comes twice, nor one that comes behind a run again, leads on from the last.
#[test]
fn frames_that_come_again_are_counted_again() {
    let kernel = Kernel::<Granule4K>::new();
    let file = TestFile::new(&kernel, 1, 2);
    let parent = kernel.space();
    let pages = [0, 0, 0, 1, 1].into_iter().zip((BASE..).step_by(4096));
    for (page, at) in pages.clone() {
        parent.map(of_file(&file, (Place::Fixed(at), page, 1), Rights::READ, AreaFlags::empty())).unwrap();
        read(&parent, at).unwrap();
    }
    let count = |page| kernel.0.frames.borrow()[&file.pages.borrow()[&page]].count;
    assert_eq!((count(0), count(1)), (1 + 3, 1 + 2));
    let child = parent.fork().unwrap();
    assert_eq!((count(0), count(1)), (1 + 6, 1 + 4));
    assert_eq!((child.usage().anonymous, child.usage().file), (0, 5));
    pages.for_each(|(_, at)| assert_eq!(frame_at(&child, at), frame_at(&parent, at)));
    drop((parent, child));
    file.close();
    assert_eq!(kernel.out(), (0, 0));
}

/// CPUs that bear conflicts bear them while a TLB may hold what a fork withdraws: TLBs forget before the announcement ends.
#[test]
fn tlbs_forget_what_a_fork_withdraws_within_its_announcement() {
    for is_at_2 in [false, true] {
        let kernel = Kernel::<Granule4K>::new();
        kernel.0.folio_order.set(4);
        kernel.0.tolerates.set(true);
        kernel.0.is_at_2.set(is_at_2);
        let parent = kernel.try_space(HardwareUpdates::None).unwrap();
        parent.map(anonymous(Place::Fixed(BASE), 16, RW)).unwrap();
        (0..16).for_each(|page| assert_eq!(write(&parent, BASE + (page << 12), 1), Ok(1)));
        assert!(kernel.0.machine.count_writable(BASE..BASE + (16 << 12)) > 0);
        kernel.0.announced.set(0);
        let child = parent.fork().unwrap();
        assert_eq!((kernel.0.announced.get(), kernel.0.writable_behind.get()), (1, 0));
        drop(child);
    }
}
