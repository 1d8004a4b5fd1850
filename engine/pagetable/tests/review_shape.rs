//! Shapes of one stage offered to the other.

mod common;

use common::KERNEL;
use pagetable::{El1, Memory, PageTable, Regime, Reserve};
use vmsa::{Geometry, Granule4K, Layout, Level};

/// 40 bits at EL1 begin at level 1, whatever a stage 2 could have.
#[test]
fn a_shape_of_stage_2_is_none_of_stage_1() {
    let geometry = Geometry::<Granule4K>::stage2(40, Level::L0, Layout::Bits48).unwrap();
    assert!(!KERNEL.accepts(geometry), "TCR_EL1.T0SZ = 24 begins at level 1");
    let memory = Memory::new();
    let mut reserve = Reserve::new();
    memory.supply::<Granule4K>(&mut reserve, 1);
    assert!(PageTable::<_, El1, _>::offline(&memory, geometry, KERNEL, &mut reserve).is_err());
}
