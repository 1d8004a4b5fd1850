//! A contiguous group's worth of a block changes in place: the TLBIs reach the block.

use crate::common;

use common::{MIB, live_4k, map, read_only};
use vellum_pagetable::{Census, Memory, Step, Tolerance};
use vellum_vmsa::{BbmLevel, LeafSize, Maintenance, TlbiOp};

/// The level hint of a TLBI by address or by range.
fn hint(op: TlbiOp, operand: u64) -> u64 {
    if op.to_string().starts_with('r') { operand >> 37 & 0b11 } else { operand >> 44 & 0b11 }
}

#[test]
fn protecting_a_group_of_a_block_in_place_makes_tlbs_forget_the_block() {
    for level in [BbmLevel::Level2, BbmLevel::Level3] {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, 2 * MIB, 0x8_0000_0000, LeafSize::LARGEST)]);
        let census = Census::new(Tolerance::new(level, true));
        // 64 KiB, aligned: in the new table they are a contiguous group, and stay one.
        let (steps, _) =
            common::change(&mut table, &memory, &[read_only(0x3_0000, 0x1_0000)], census.tolerated().as_ref());
        let hints: Vec<u64> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Maintain(Maintenance::Invalidate(op, operand)) => Some(hint(*op, *operand)),
                _ => None,
            })
            .collect();
        // A TLB holds the writable block of level 2: it goes by no hint or by that of level 2.
        assert!(hints.iter().any(|hint| matches!(hint, 0 | 2)), "{level:?}: TLBIs with hints {hints:?} alone");
    }
}
