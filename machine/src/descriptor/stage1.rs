//! Attributes of stage-1 leaves. (DDI 0487, D8.3.2 fields, D8.4 permissions)

use super::{CONTIGUOUS, DIRTY_MODIFIER, Format, Hierarchy};
use crate::attributes::{Attributes, MemoryType, Permissions, is_xs};
use crate::context::Stage1;

const NOT_GLOBAL: u64 = 1 << 11;
const PRIVILEGED_NEVER_EXECUTES: u64 = 1 << 53;
const NEVER_EXECUTES: u64 = 1 << 54;

pub(super) fn attributes(stage1: &Stage1, level: i8, word: u64, hierarchy: Hierarchy) -> Attributes {
    let mair = (stage1.mair >> ((word >> 2 & 7) * 8)) as u8;
    let hardware_dirty = stage1.hardware.dirty_state && word & DIRTY_MODIFIER != 0;
    let permissions =
        if stage1.has_el0() { two_levels(stage1, word, hierarchy) } else { one_level(stage1, word, hierarchy) };
    Attributes {
        memory: MemoryType::from_mair(mair),
        shareability: Format::Stage1(stage1).shareability(word),
        permissions,
        hardware_dirty: hardware_dirty && !hierarchy.has(Hierarchy::READ_ONLY),
        is_global: !stage1.has_el0() || word & NOT_GLOBAL == 0,
        is_contiguous: word & CONTIGUOUS != 0 && stage1.geometry.contiguous_log2(level).is_some(),
        is_xs: is_xs(mair),
    }
}

/// EL1&0 and EL2&0: AP[2:1], UXN, PXN and their table forms. (D8.4.1, table of data access permissions)
fn two_levels(stage1: &Stage1, word: u64, hierarchy: Hierarchy) -> Permissions {
    let is_writable = word >> 7 & 1 == 0 && !hierarchy.has(Hierarchy::READ_ONLY);
    let has_user = word >> 6 & 1 == 1 && !hierarchy.has(Hierarchy::NO_USER);
    let mut bits = Permissions::READ;
    if is_writable {
        bits |= Permissions::WRITE;
    }
    if has_user {
        bits |= Permissions::USER_READ;
        if is_writable {
            bits |= Permissions::USER_WRITE;
        }
    }
    let wxn = stage1.write_never_executes;
    let user = word & NEVER_EXECUTES == 0 && !hierarchy.has(Hierarchy::USER_NEVER_EXECUTES);
    if user && !(wxn && bits & Permissions::USER_WRITE != 0) {
        bits |= Permissions::USER_EXECUTE;
    }
    // What EL0 may write, EL1 never executes.
    let privileged = word & PRIVILEGED_NEVER_EXECUTES == 0
        && !hierarchy.has(Hierarchy::PRIVILEGED_NEVER_EXECUTES)
        && bits & Permissions::USER_WRITE == 0;
    if privileged && !(wxn && is_writable) {
        bits |= Permissions::EXECUTE;
    }
    if stage1.refuses_user {
        bits &= Permissions::READ | Permissions::WRITE | Permissions::EXECUTE;
    }
    Permissions(bits)
}

/// EL2 with one range: AP[2] and XN, which uses the place of UXN. (D8.4.1)
fn one_level(stage1: &Stage1, word: u64, hierarchy: Hierarchy) -> Permissions {
    let is_writable = word >> 7 & 1 == 0 && !hierarchy.has(Hierarchy::READ_ONLY);
    let executes = word & NEVER_EXECUTES == 0
        && !hierarchy.has(Hierarchy::USER_NEVER_EXECUTES)
        && !(stage1.write_never_executes && is_writable);
    let mut bits = Permissions::READ;
    if is_writable {
        bits |= Permissions::WRITE;
    }
    if executes {
        bits |= Permissions::EXECUTE;
    }
    Permissions(bits)
}
