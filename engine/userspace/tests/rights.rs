//! What `mprotect` does to leaves.

use crate::common;

use common::{Kernel, RW, anonymous, write};
use vellum_userspace::{Place, Rights};
use vellum_vmsa::Granule4K;

const BASE: u64 = 0x1_0000_0000;

/// The architecture has no page that can be written and not read: both rights are the same leaf, and no leaf is looked at.
#[test]
fn rights_that_are_the_same_leaf_leave_leaves_alone() {
    let kernel = Kernel::<Granule4K>::new();
    let space = kernel.space();
    space.map(anonymous(Place::Fixed(BASE), 1024, Rights::WRITE)).unwrap();
    (0..1024).for_each(|page| assert_eq!(write(&space, BASE + (page << 12), 1), Ok(1)));
    let before = kernel.0.machine.loads.get();
    space.protect(BASE, 1024 << 12, RW).unwrap();
    let loads = kernel.0.machine.loads.get() - before;
    assert!(loads <= 32, "{loads} loads for 1,024 pages");
    // Fewer rights are other leaves.
    let before = kernel.0.machine.loads.get();
    space.protect(BASE, 1024 << 12, Rights::READ).unwrap();
    assert!(kernel.0.machine.loads.get() - before >= 1024);
}
