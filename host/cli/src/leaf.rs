//! What a leaf lets whom do: its own attributes, what the tables above it limit, and what the regime's registers say.

use image::{Root, Span};
use vmsa::registers::MemoryType;
use vmsa::{Descriptor, Execute, Meaning, Stage1Attributes, Stage2Attributes, Stage2Memory, TableAttributes, ptdump};

/// Who may do what.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Permissions {
    /// EL1 (or EL2, or what stage 2 lets a guest do at all).
    pub(crate) writes: bool,
    pub(crate) executes: bool,
    /// EL0.
    pub(crate) user_accesses: bool,
    pub(crate) user_writes: bool,
    pub(crate) user_executes: bool,
}

/// Whether a span is of leaves.
pub(crate) fn is_leaf(root: &Root, span: &Span) -> bool {
    matches!(span.descriptor.meaning(root.shape.page_size, root.shape.layout, span.level), Meaning::Leaf(..))
}

/// The output address of the first leaf of a span.
pub(crate) fn output(root: &Root, span: &Span) -> u64 {
    root.shape.layout.output(span.descriptor, root.shape.shift(span.level)).bits()
}

/// What the leaves with this descriptor let whom do (D8.4.1, D8.4.2, D8.4.6).
pub(crate) fn permissions(root: &Root, descriptor: Descriptor, inherited: TableAttributes) -> Permissions {
    if !root.is_stage1() {
        return stage2_permissions(root, descriptor);
    }
    let bits = Stage1Attributes::from_bits_retain(descriptor.bits());
    let limits = if root.ignores_hierarchy { TableAttributes::empty() } else { inherited };
    // A clean leaf becomes writable when hardware first sees a write.
    let is_clean = bits.contains(Stage1Attributes::DBM) && root.manages_dirty_state;
    let writes =
        (!bits.contains(Stage1Attributes::READ_ONLY) || is_clean) && !limits.contains(TableAttributes::READ_ONLY);
    if root.has_one_privilege {
        let executes = !bits.contains(Stage1Attributes::UXN) && !limits.contains(TableAttributes::UXN);
        let executes = executes && !(writes && root.writable_is_no_execute);
        return Permissions { writes, executes, ..Permissions::default() };
    }
    let user = bits.contains(Stage1Attributes::USER) && !limits.contains(TableAttributes::NO_USER);
    let is_executable = !(writes && root.writable_is_no_execute);
    // What EL0 may write, EL1 never executes.
    let privileged = !bits.contains(Stage1Attributes::PXN) && !limits.contains(TableAttributes::PXN);
    let unprivileged = !bits.contains(Stage1Attributes::UXN) && !limits.contains(TableAttributes::UXN);
    Permissions {
        writes,
        executes: privileged && is_executable && !(user && writes),
        user_accesses: user,
        user_writes: user && writes,
        user_executes: unprivileged && is_executable,
    }
}

fn stage2_permissions(root: &Root, descriptor: Descriptor) -> Permissions {
    let bits = Stage2Attributes::from_bits_retain(descriptor.bits());
    let is_clean = bits.contains(Stage2Attributes::DBM) && root.manages_dirty_state;
    let execute = bits.execute();
    Permissions {
        writes: bits.contains(Stage2Attributes::WRITE) || is_clean,
        executes: matches!(execute, Execute::Everyone | Execute::Privileged),
        user_accesses: bits.contains(Stage2Attributes::READ),
        user_writes: bits.contains(Stage2Attributes::WRITE),
        user_executes: matches!(execute, Execute::Everyone | Execute::User),
    }
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

#[cfg(test)]
mod tests {
    use image::{Origin, Regime, Shape};
    use vmsa::{AddressHalf, Layout, PageSize, PhysAddr};

    use super::*;

    fn root() -> Root {
        let shape = Shape::stage1(PageSize::Size4K, Layout::Bits48, 48, AddressHalf::Upper).expect("a shape");
        Root::bare(Regime::El1Upper, PhysAddr::new(0), shape, Origin::Flags)
    }

    fn letters(root: &Root, bits: u64, inherited: TableAttributes) -> String {
        let p = permissions(root, Descriptor::new(bits), inherited);
        let all =
            [(p.writes, 'w'), (p.executes, 'x'), (p.user_accesses, 'u'), (p.user_writes, 'W'), (p.user_executes, 'X')];
        all.iter().filter(|(is, _)| *is).map(|(_, letter)| letter).collect()
    }

    const USER: u64 = 1 << 6;
    const READ_ONLY: u64 = 1 << 7;
    const DBM: u64 = 1 << 51;
    const PXN: u64 = 1 << 53;
    const UXN: u64 = 1 << 54;

    /// The table of stage-1 permissions: D8.4.1 and D8.4.6.
    #[test]
    fn stage_1_permissions_match_the_manual() {
        let none = TableAttributes::empty();
        let table = [
            (0, none, "wxX"),
            (PXN | UXN, none, "w"),
            (READ_ONLY | UXN, none, "x"),
            (USER, none, "wuWX"),
            (USER | READ_ONLY, none, "xuX"),
            (USER | READ_ONLY | PXN | UXN, none, "u"),
            (READ_ONLY | DBM | PXN | UXN, none, ""),
            (PXN | UXN, TableAttributes::READ_ONLY, ""),
            (0, TableAttributes::PXN | TableAttributes::UXN, "w"),
            (USER, TableAttributes::NO_USER, "wxX"),
        ];
        for (bits, inherited, expected) in table {
            assert_eq!(letters(&root(), bits, inherited), expected, "{bits:#x} {inherited:?}");
        }
    }

    #[test]
    fn registers_change_what_leaves_mean() {
        let none = TableAttributes::empty();
        let dirty = Root { manages_dirty_state: true, ..root() };
        assert_eq!(letters(&dirty, READ_ONLY | DBM | PXN | UXN, none), "w");
        let wxn = Root { writable_is_no_execute: true, ..root() };
        assert_eq!(letters(&wxn, 0, none), "w");
        let flat = Root { ignores_hierarchy: true, ..root() };
        assert_eq!(letters(&flat, PXN | UXN, TableAttributes::READ_ONLY), "w");
        let el2 = Root { has_one_privilege: true, ..root() };
        assert_eq!(letters(&el2, USER | PXN, none), "wx", "at EL2 bit 54 alone decides");
        assert_eq!(letters(&el2, USER | UXN, none), "w");
    }

    #[test]
    fn stage_2_permissions_match_the_manual() {
        let shape = Shape::stage2(PageSize::Size4K, Layout::Bits48, 40, vmsa::Level::L1).expect("a shape");
        let root = Root::bare(Regime::Stage2, PhysAddr::new(0), shape, Origin::Flags);
        let none = TableAttributes::empty();
        assert_eq!(letters(&root, 0b11 << 6, none), "wxuWX");
        assert_eq!(letters(&root, 0b01 << 6 | 0b10 << 53, none), "u");
        assert_eq!(letters(&root, 0b01 << 6 | 0b01 << 53, none), "uX");
    }
}
