//! A descriptor: what it is at its level, where it leads, its attributes, and how the text format prints it.

use image::{Origin, Regime, Root, Shape};
use vmsa::fields::{
    Field, Register, STAGE1_INDIRECT_LEAF, STAGE1_LEAF, STAGE1_TABLE, STAGE2_INDIRECT_LEAF, STAGE2_LEAF, STAGE2_TABLE,
};
use vmsa::registers::MemoryTypes;
use vmsa::{
    AddressHalf, Descriptor, Indirection, Level, Meaning, Permissions, PhysAddr, Rights, TableAttributes,
    permission_index,
};

use crate::args::{EncodingArguments, StageChoice};
use crate::leaf;
use crate::select::Failure;
use crate::words::words;

use super::register;

pub(super) fn decode(value: u64, encoding: &EncodingArguments) -> Result<String, Failure> {
    let root = root(encoding)?;
    let (size, layout, level) = (root.shape.page_size, root.shape.layout, encoding.level);
    let descriptor = Descriptor::new(value);
    let meaning = descriptor.meaning(size, layout, level);
    let table = match meaning {
        Meaning::Table(_) => table_format(encoding),
        _ => leaf_format(encoding),
    };
    let what = match meaning {
        Meaning::Invalid if value == 0 => "empty".to_owned(),
        Meaning::Invalid => "invalid; the rest is software's".to_owned(),
        Meaning::Reserved => format!("reserved: {size} pages have no block at {level}"),
        Meaning::Table(next) => format!("table of {} at {:#x}", next_level(level), next.bits()),
        Meaning::Leaf(to, _) => format!("{} to {:#x}", kind(&root, level), to.bits()),
    };
    let mut text =
        format!("{value:#018x} at {level}, {size} granule, {layout:?}: {what} (DDI 0487, {})\n", table.section);
    text += &register::fields(&without_output(table, &root, level), value);
    text += &conclusions(&root, descriptor, encoding, meaning);
    Ok(text)
}

/// The fields of a leaf; those that are indirect where a register for them is given.
pub(crate) fn leaf_format(encoding: &EncodingArguments) -> &'static Register {
    let given = &encoding.permissions;
    match encoding.stage {
        StageChoice::One if given.pir.is_some() => &STAGE1_INDIRECT_LEAF.register,
        StageChoice::One => &STAGE1_LEAF.register,
        StageChoice::Two if given.s2pir.is_some() => &STAGE2_INDIRECT_LEAF.register,
        StageChoice::Two => &STAGE2_LEAF.register,
    }
}

/// The fields of a table descriptor.
pub(crate) fn table_format(encoding: &EncodingArguments) -> &'static Register {
    if encoding.stage == StageChoice::One { &STAGE1_TABLE.register } else { &STAGE2_TABLE.register }
}

fn next_level(level: Level) -> String {
    level.next().map_or_else(String::new, |next| next.to_string())
}

fn kind(root: &Root, level: Level) -> String {
    let size = crate::dump::size(1 << root.shape.shift(level));
    format!("{size} {}", if level == Level::L3 { "page" } else { "block" })
}

/// The fields without those that hold output address in this layout, such as SH with LPA2.
fn without_output(table: &Register, root: &Root, level: Level) -> Register {
    let mask = root.shape.layout.output_mask(root.shape.shift(level));
    let fields: Vec<_> = table.fields.iter().copied().filter(|field| field.mask() & mask == 0).collect();
    Register { fields: fields.leak(), ..*table }
}

fn conclusions(root: &Root, descriptor: Descriptor, encoding: &EncodingArguments, meaning: Meaning) -> String {
    let (shape, level) = (root.shape, encoding.level);
    let reserved = match meaning {
        Meaning::Table(_) => shape.layout.reserved_in_table(shape.page_size),
        Meaning::Leaf(..) => shape.layout.reserved_in_leaf(shape.page_size, level),
        _ => 0,
    };
    let mut text = String::new();
    if descriptor.bits() & reserved != 0 {
        text += &format!("  bits that are reserved here are set: {:#x}\n", descriptor.bits() & reserved);
    }
    if let (Meaning::Leaf(..), Some(permissions)) = (meaning, root.permissions(descriptor, TableAttributes::empty())) {
        let Permissions { privileged, unprivileged } = permissions;
        let whom = format!("EL1 {}; EL0 {}", list(privileged), list(unprivileged));
        let memory = leaf::memory_name(root, descriptor);
        if root.control.indirection != Indirection::Off {
            let state =
                if is_clean(root, descriptor) { "clean: a write faults, or hardware makes it dirty" } else { "dirty" };
            text += &format!("  PIIndex {}, {state}\n", permission_index(descriptor));
        }
        if root.is_stage1() {
            let permits = leaf::permitted(root, descriptor, TableAttributes::empty());
            text += &format!("  {whom}; memory {memory}\n");
            text +=
                &format!("  as text:{}\n", words(shape.layout, root.memory_or_common(), level, (descriptor, permits)));
        } else {
            let by = if root.forces_write_back { "FWB" } else { "no FWB" };
            text += &format!("  {whom}; memory {memory} ({by})\n");
        }
    }
    text
}

/// Whether a leaf of indirect permissions has not been written.
fn is_clean(root: &Root, descriptor: Descriptor) -> bool {
    const CLEAN: Field = STAGE1_INDIRECT_LEAF.the("nDirty");
    const DIRTY: Field = STAGE2_INDIRECT_LEAF.the("Dirty");
    if root.is_stage1() { CLEAN.get(descriptor.bits()) == 1 } else { DIRTY.get(descriptor.bits()) == 0 }
}

/// `reads, writes`.
fn list(rights: Rights) -> String {
    let names = [
        (Rights::READ, "reads"),
        (Rights::WRITE, "writes"),
        (Rights::EXECUTE, "executes"),
        (Rights::STACK, "has its guarded control stack there"),
    ];
    let can: Vec<&str> = names.iter().filter(|(right, _)| rights.contains(*right)).map(|(_, what)| *what).collect();
    if can.is_empty() { "nothing".to_owned() } else { can.join(", ") }
}

/// A root of the shape that the flags describe: only its granule, layout and stage count.
fn root(encoding: &EncodingArguments) -> Result<Root, Failure> {
    let layout = encoding.layout();
    let (regime, shape) = match encoding.stage {
        StageChoice::One => (Regime::El1Upper, Shape::stage1(encoding.granule, layout, 48, AddressHalf::Upper)?),
        StageChoice::Two => (
            Regime::Stage2,
            Shape::stage2(encoding.granule, layout, 40, Level::L2)
                .or_else(|_| Shape::stage2(encoding.granule, layout, 40, Level::L1))?,
        ),
    };
    let mut root = Root::bare(regime, PhysAddr::new(0), shape, Origin::Flags);
    root.memory = encoding.mair.map(MemoryTypes);
    root.forces_write_back = encoding.fwb;
    root.control = encoding.permissions.over(root.control, root.is_stage1());
    Ok(root)
}
