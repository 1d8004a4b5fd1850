//! A descriptor: what it is at its level, where it leads, its attributes, and how the text format prints it.

use image::{Origin, Regime, Root, Shape};
use vmsa::fields::{Register, STAGE1_LEAF, STAGE1_TABLE, STAGE2_LEAF, STAGE2_TABLE};
use vmsa::registers::MemoryTypes;
use vmsa::{AddressHalf, Descriptor, Level, Meaning, PhysAddr, TableAttributes};

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
    let table = match (meaning, root.is_stage1()) {
        (Meaning::Table(_), true) => &STAGE1_TABLE,
        (Meaning::Table(_), false) => &STAGE2_TABLE,
        (_, true) => &STAGE1_LEAF,
        (_, false) => &STAGE2_LEAF,
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
    if matches!(meaning, Meaning::Leaf(..)) {
        let permissions = leaf::permissions(root, descriptor, TableAttributes::empty());
        let list = |who: &str, reads: bool, writes: bool, executes: bool| {
            let can: Vec<&str> = [(reads, "reads"), (writes, "writes"), (executes, "executes")]
                .iter()
                .filter(|(is, _)| *is)
                .map(|(_, what)| *what)
                .collect();
            if can.is_empty() { format!("{who} nothing") } else { format!("{who} {}", can.join(", ")) }
        };
        if root.is_stage1() {
            let el1 = list("EL1", true, permissions.writes, permissions.executes);
            let el0 = list("EL0", permissions.user_accesses, permissions.user_writes, permissions.user_executes);
            text += &format!("  {el1}; {el0}; memory {}\n", leaf::memory_name(root, descriptor));
            text += &format!("  as text:{}\n", words(shape.layout, root.memory_or_common(), level, descriptor));
        } else {
            let el1 = list("EL1", permissions.user_accesses, permissions.writes, permissions.executes);
            let el0 = list("EL0", permissions.user_accesses, permissions.user_writes, permissions.user_executes);
            let by = if root.forces_write_back { "FWB" } else { "no FWB" };
            text += &format!("  {el1}; {el0}; memory {} ({by})\n", leaf::memory_name(root, descriptor));
        }
    }
    text
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
    Ok(root)
}
