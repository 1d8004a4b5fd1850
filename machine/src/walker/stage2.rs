//! Stage-2 walks: intermediate physical to physical. (DDI 0487, D8.2.3; concatenated roots D8.2.4)

use super::{Leaf, Reader};
use crate::context::Stage2;
use crate::descriptor::{Descriptor, Format, Hierarchy};
use crate::syndrome::{Fault, FaultKind};

/// Walks `stage2` for intermediate physical `address`. The root may be up to 16 concatenated tables, which only makes
/// its index longer.
///
/// # Errors
/// The fault that the walk takes.
pub fn walk(stage2: &Stage2, address: u64, reader: &mut impl Reader) -> Result<Leaf, Fault> {
    let geometry = &stage2.geometry;
    if address >> geometry.input_bits != 0 {
        return Err(Fault::stage2(FaultKind::Translation, 0, address));
    }
    let (mut table, mut level) = (stage2.root, geometry.start_level);
    loop {
        let word = table + geometry.index(level, address) * 8;
        let descriptor = reader.word(word);
        let kind = match Format::Stage2(stage2).decode(level, descriptor, Hierarchy::default()) {
            Descriptor::Table { next, .. } => {
                (table, level) = (next, level + 1);
                continue;
            }
            Descriptor::Leaf { output, attributes, is_untranslated } => {
                let (size_log2, hierarchy) = (geometry.slot_shift(level), Hierarchy::default());
                return Ok(Leaf { level, descriptor, word, size_log2, output, attributes, hierarchy, is_untranslated });
            }
            Descriptor::Invalid => FaultKind::Translation,
            Descriptor::AddressSize => FaultKind::AddressSize,
            Descriptor::AccessFlag => FaultKind::AccessFlag,
        };
        return Err(Fault::stage2(kind, level, address));
    }
}
