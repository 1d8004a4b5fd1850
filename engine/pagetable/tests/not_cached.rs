//! Contiguous groups at level 1 of FEAT_BBM.

use crate::common;

use common::{live_4k, map};
use vellum_pagetable::{Census, Change, Memory, Reserve, Step, Tolerance};
use vellum_vmsa::{BbmLevel, LeafSize, Level, Maintenance, Stage1Attributes, VirtAddr};

fn range(from: u64, bytes: u64) -> core::ops::Range<VirtAddr> {
    VirtAddr::new(from)..VirtAddr::new(from + bytes)
}

/// At level 1 the Contiguous bit may change in place, but until a TLBI a conflict abort may come (RFCPSG). The licence
/// promises something for the time of `apply` alone.
#[test]
fn a_group_is_forgotten_before_the_window_of_not_cached_ends() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 0x1_0000, 0x8_0000_0000, LeafSize::LARGEST)]);
    assert_eq!(table.view().translate(VirtAddr::new(0)).unwrap().size, LeafSize::group(Level::L3));
    let census = Census::new(Tolerance::new(BbmLevel::Level1, false));
    let licence = census.not_cached();
    let (set, clear) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty());
    let protect = [Change::Protect { from: range(0x3000, 0x1000), set, clear }];
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    let _ = memory.take_steps();
    table.plan(&protect, licence.as_ref()).unwrap().apply(&mut reserve, &mut gather).unwrap();
    let steps = memory.take_steps();
    let _ = gather.finish(&memory);
    let is_tlbi = |step: &Step| matches!(step, Step::Maintain(Maintenance::Invalidate(..)));
    assert!(
        steps.iter().any(is_tlbi),
        "members of a group and the group itself until the gather is finished: {steps:?}"
    );
}
