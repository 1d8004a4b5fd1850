//! What is said of a leaf: what it is, what it permits, its memory type.

use image::{Root, Span};
use vmsa::ptdump::{self, Permitted};
use vmsa::registers::MemoryType;
use vmsa::{
    Descriptor, Meaning, Permissions, Rights, Stage1Attributes, Stage2Attributes, Stage2Memory, TableAttributes,
};

/// Whether a span is of leaves.
pub(crate) fn is_leaf(root: &Root, span: &Span) -> bool {
    matches!(span.descriptor.meaning(root.shape.page_size, root.shape.layout, span.level), Meaning::Leaf(..))
}

/// The output address of the first leaf of a span.
pub(crate) fn output(root: &Root, span: &Span) -> u64 {
    root.shape.layout.output(span.descriptor, root.shape.shift(span.level)).bits()
}

/// Whether EL0 may use it as data, or as a stack.
pub(crate) fn is_user(permissions: &Permissions) -> bool {
    permissions.unprivileged.intersects(Rights::DATA | Rights::STACK)
}

/// Whether somebody may write it and execute it at one privilege.
pub(crate) fn is_wx(rights: Rights) -> bool {
    rights.contains(Rights::WRITE | Rights::EXECUTE)
}

/// Where the text format has the words for the permissions of a leaf.
pub(crate) fn permitted(root: &Root, descriptor: Descriptor, limits: TableAttributes) -> Permitted {
    if root.control.is_direct() {
        return Permitted::ByBits;
    }
    root.permissions(descriptor, limits).map_or(Permitted::Unknown, Permitted::ByRegisters)
}

/// The memory type by name: the words of the text format, or the byte of MAIR.
pub(crate) fn memory_name(root: &Root, descriptor: Descriptor) -> String {
    if !root.is_stage1() {
        return stage2_memory_name(root, descriptor).to_owned();
    }
    let memory = memory_type(root, descriptor);
    ptdump::memory_name(memory).map_or_else(|| format!("MAIR {:#04x}", memory.0), str::to_owned)
}

/// The memory type of a stage-1 leaf.
pub(crate) fn memory_type(root: &Root, descriptor: Descriptor) -> MemoryType {
    let index = Stage1Attributes::from_bits_retain(descriptor.bits()).memory_index();
    root.memory_or_common().get(index)
}

/// The memory type of a stage-2 leaf, by the words of the text format.
pub(crate) fn stage2_memory_name(root: &Root, descriptor: Descriptor) -> &'static str {
    match Stage2Attributes::from_bits_retain(descriptor.bits()).memory(root.forces_write_back) {
        Stage2Memory::Device(0) => "DEVICE/nGnRnE",
        Stage2Memory::Device(1) => "DEVICE/nGnRE",
        Stage2Memory::Device(2) => "DEVICE/nGRE",
        Stage2Memory::Device(_) => "DEVICE/GRE",
        Stage2Memory::NonCacheable => "MEM/NORMAL-NC",
        Stage2Memory::WriteThrough => "MEM/NORMAL-WT",
        Stage2Memory::WriteBack => "MEM/NORMAL",
        Stage2Memory::Stage1 => "MEM/STAGE1",
        Stage2Memory::Other(_) => "MEM/OTHER",
    }
}

/// Whether accesses are those of a device.
pub(crate) fn is_device(root: &Root, descriptor: Descriptor) -> bool {
    if root.is_stage1() {
        return memory_type(root, descriptor).is_device();
    }
    let memory = Stage2Attributes::from_bits_retain(descriptor.bits()).memory(root.forces_write_back);
    matches!(memory, Stage2Memory::Device(_))
}

/// The field SH, from the leaf or, with LPA2, from the control register.
pub(crate) fn shareability(root: &Root, descriptor: Descriptor) -> u8 {
    match root.shape.layout {
        vmsa::Layout::Lpa2 => root.shareability,
        _ => Stage1Attributes::from_bits_retain(descriptor.bits()).shareability(),
    }
}
