//! Attributes of stage-2 leaves, and what both stages together allow. (DDI 0487, D8.3.2.2, D8.4.2, D8.6.5)

use super::{CONTIGUOUS, DIRTY_MODIFIER, Format};
use crate::attributes::{Attributes, Cacheability, MemoryType, Permissions};
use crate::context::Stage2;

pub(super) fn attributes(stage2: &Stage2, level: i8, word: u64) -> Attributes {
    let hardware_dirty = stage2.hardware.dirty_state && word & DIRTY_MODIFIER != 0;
    Attributes {
        memory: memory(stage2, (word >> 2 & 0xf) as u8),
        shareability: Format::Stage2(stage2).shareability(word),
        permissions: permissions(word),
        hardware_dirty,
        is_global: true,
        is_contiguous: word & CONTIGUOUS != 0 && stage2.geometry.contiguous_log2(level).is_some(),
        is_xs: false,
    }
}

/// With FEAT_S2FWB MemAttr[4] = 0b0xx names Device, 0b101 Normal NC, 0b110 forces write-back, 0b111 keeps stage 1's.
fn memory(stage2: &Stage2, attribute: u8) -> MemoryType {
    if !stage2.force_write_back {
        return MemoryType::from_stage2(attribute);
    }
    match attribute & 7 {
        5 => MemoryType::Normal { inner: Cacheability::NonCacheable, outer: Cacheability::NonCacheable },
        6 | 7 => MemoryType::WRITE_BACK,
        device => MemoryType::Device(device & 3),
    }
}

/// S2AP[1:0] and XN[1:0] with FEAT_XNX.
fn permissions(word: u64) -> Permissions {
    let mut bits = 0;
    if word >> 6 & 1 == 1 {
        bits |= Permissions::READ | Permissions::USER_READ;
    }
    if word >> 7 & 1 == 1 {
        bits |= Permissions::WRITE | Permissions::USER_WRITE;
    }
    bits |= match word >> 53 & 3 {
        0 => Permissions::EXECUTE | Permissions::USER_EXECUTE,
        1 => Permissions::USER_EXECUTE,
        2 => 0,
        _ => Permissions::EXECUTE,
    };
    Permissions(bits)
}

/// The attributes of a combined entry. (D8.6.5)
pub(crate) fn combine(stage2: &Stage2, first: Attributes, second: Attributes) -> Attributes {
    let is_device = |memory| matches!(memory, MemoryType::Device(_));
    // FWB 0b110 overrides a Normal stage 1; a Device stage 1 stays Device only where stage 2 passes it on.
    let memory = if stage2.force_write_back && !is_device(first.memory) && !is_device(second.memory) {
        second.memory
    } else {
        first.memory.combine(second.memory)
    };
    Attributes {
        memory,
        shareability: stricter(first.shareability, second.shareability),
        permissions: first.permissions.and(second.permissions),
        hardware_dirty: first.may_write() && second.may_write() && (first.hardware_dirty || second.hardware_dirty),
        is_global: first.is_global,
        is_contiguous: first.is_contiguous,
        is_xs: first.is_xs,
    }
}

/// Outer shareable (2) wins over inner (3), which wins over none (0).
const fn stricter(a: u8, b: u8) -> u8 {
    match (a, b) {
        (2, _) | (_, 2) => 2,
        (3, _) | (_, 3) => 3,
        _ => 0,
    }
}
