//! Each kind of leaf that no area explains is found by the next call that has the whole of the space.

use crate::common;

use std::mem::ManuallyDrop;

use common::{Kernel, RW, anonymous, write};
use vellum_pagetable::{El1, HardwareUpdates, Platform, Scope, TlbFeatures, View};
use vellum_userspace::{Place, Rights};
use vellum_vmsa::{Descriptor, Granule4K, Stage1Attributes};

const AT: u64 = 0x40_0000;

/// Writes what `edit` makes of the leaf of an area's one page to the slot so many bytes behind it.
fn damage(rights: Rights, behind: u64, edit: impl Fn(u64) -> u64) {
    let kernel = Kernel::<Granule4K>::new();
    // Its end would find the damage once more.
    let space = ManuallyDrop::new(kernel.space());
    space.map(anonymous(Place::Fixed(AT), 1, RW)).unwrap();
    write(&space, AT, 1).unwrap();
    space.protect(AT, 0x1000, rights).unwrap();
    let (machine, geometry) = (&kernel.0.machine, space.shape().geometry);
    let regime = El1 { scope: Scope::Asid(0), tlb: TlbFeatures::NONE, hardware_updates: HardwareUpdates::None };
    let view = View::new(machine, geometry, regime, space.root());
    let (leaf, there) = (view.find(AT.into()).unwrap(), view.find((AT + behind).into()).unwrap());
    assert_eq!(space.usage().anonymous, 1);
    machine.store(there.slot, Descriptor::new(edit(leaf.descriptor.bits())));
    let _ = space.usage();
}

#[test]
#[should_panic(expected = "no area explains the leaf at Some(401000)")]
fn a_leaf_behind_the_area_is_found() {
    damage(RW, 0x1000, |leaf| leaf);
}

#[test]
#[should_panic(expected = "no area explains the leaf at Some(400000)")]
fn a_writable_leaf_of_a_read_only_area_is_found() {
    damage(Rights::READ, 0, |leaf| leaf & !Stage1Attributes::READ_ONLY.bits());
}

#[test]
#[should_panic(expected = "no area explains the leaf at Some(400000)")]
fn a_leaf_that_hardware_may_make_writable_is_found() {
    damage(Rights::READ, 0, |leaf| leaf | Stage1Attributes::DBM.bits());
}

#[test]
#[should_panic(expected = "no area explains the leaf at Some(400000)")]
fn a_leaf_that_is_larger_than_the_area_is_found() {
    damage(RW, 0, |leaf| leaf | Descriptor::CONTIGUOUS);
}

#[test]
#[should_panic(expected = "no area explains the leaf at Some(400000)")]
fn a_leaf_that_is_kept_invalid_is_found() {
    damage(RW, 0, |leaf| leaf & !Descriptor::VALID);
}
