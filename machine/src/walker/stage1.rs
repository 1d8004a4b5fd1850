//! Stage-1 walks. (DDI 0487, D8.2.2)

use super::{Leaf, Reader};
use crate::context::Stage1;
use crate::descriptor::{Descriptor, Format, Hierarchy};
use crate::syndrome::{Fault, FaultKind};

/// Walks `stage1` for `address` from its root. `locate` turns the address of a descriptor into a physical one, which is
/// where stage 2 comes in.
///
/// # Errors
/// The fault that the walk takes.
pub fn walk(
    stage1: &Stage1,
    address: u64,
    reader: &mut impl Reader,
    locate: &mut impl FnMut(u64, &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault>,
) -> Result<Leaf, Fault> {
    let geometry = &stage1.geometry;
    let (lowest, highest) = stage1.bounds();
    if address < lowest || address > highest {
        return Err(Fault::stage1(FaultKind::Translation, 0));
    }
    if stage1.root >> geometry.output_bits != 0 {
        return Err(Fault::stage1(FaultKind::AddressSize, 0));
    }
    let (mut table, mut level, mut above) = (stage1.root, geometry.start_level, Hierarchy::default());
    loop {
        let word = locate(table + geometry.index(level, address) * 8, &mut |address| reader.word(address))?;
        let descriptor = reader.word(word);
        let kind = match Format::Stage1(stage1).decode(level, descriptor, above) {
            Descriptor::Table { next, hierarchy } => {
                (table, level, above) = (next, level + 1, hierarchy);
                continue;
            }
            Descriptor::Leaf { output, attributes, is_untranslated } => {
                let size_log2 = geometry.slot_shift(level);
                let hierarchy = above;
                return Ok(Leaf { level, descriptor, word, size_log2, output, attributes, hierarchy, is_untranslated });
            }
            Descriptor::Invalid => FaultKind::Translation,
            Descriptor::AddressSize => FaultKind::AddressSize,
            Descriptor::AccessFlag => FaultKind::AccessFlag,
        };
        return Err(Fault::stage1(kind, level));
    }
}
