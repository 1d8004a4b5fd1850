//! A descriptor: what it is at its level, where it leads, its attributes, and how the text format prints it.

use image::{Origin, Root, Shape};
use vmsa::fields::{
    Field, Format, ONE_PRIVILEGE_LEAF, ONE_PRIVILEGE_TABLE, Register, STAGE1_INDIRECT_LEAF, STAGE1_LEAF, STAGE1_TABLE,
    STAGE2_INDIRECT_LEAF, STAGE2_LEAF, STAGE2_TABLE,
};
use vmsa::registers::MemoryTypes;
use vmsa::{
    AddressHalf, Descriptor, Indirection, Layout, Level, Meaning, PageSize, Permissions, PhysAddr, Rights,
    TableAttributes, permission_index,
};

use crate::args::{EncodingArguments, Regime};
use crate::leaf;
use crate::select::Failure;
use crate::words::{naming, words};

use super::{Words, register};

pub(super) fn decode(value: u64, encoding: &EncodingArguments) -> Result<Words, Failure> {
    let root = root(encoding)?;
    let (size, layout, level) = (root.shape.page_size, root.shape.layout, encoding.level);
    if level < size.highest_root(layout) {
        let wider = if level >= size.highest_root(Layout::Lpa2) { " without LPA2 (TCR.DS = 1): --wide" } else { "" };
        return Err(Failure(format!("{size} pages have no {level}{wider}")));
    }
    let descriptor = Descriptor::new(value);
    let meaning = descriptor.meaning(size, layout, level);
    let format = format_of(meaning, encoding);
    let fields = match meaning {
        // What no walk reads has no fields: it is software's.
        Meaning::Invalid | Meaning::Reserved => vec![register::row(&format.the("Type"), value)],
        _ => register::fields(&without_output(&format.register, &root, level), value),
    };
    // The tables of fields are written for EL1&0; a host's EL2&0 has the same ones.
    let in_regime = |[name, bits, value, says]: [String; 4]| {
        let says = if root.is_stage1() { says.replace("EL1", root.regime.privileged()) } else { says };
        [name, bits, value, says]
    };
    let fields = fields.into_iter().map(in_regime).collect();
    Ok(Words {
        head: format!(
            "{value:#018x} at {level}, {size} granule, {layout:?}: {} (DDI 0487, {})",
            what(&root, descriptor, level),
            format.register.section
        ),
        fields,
        conclusions: conclusions(&root, descriptor, encoding, meaning),
    })
}

/// What a descriptor is at its level.
pub(super) fn what(root: &Root, descriptor: Descriptor, level: Level) -> String {
    let (size, layout) = (root.shape.page_size, root.shape.layout);
    match descriptor.meaning(size, layout, level) {
        Meaning::Invalid if descriptor == Descriptor::INVALID => "empty".to_owned(),
        Meaning::Invalid => "invalid; the rest is software's".to_owned(),
        Meaning::Reserved => format!("reserved: {size} pages have no block at {level}{}", allowed(size, level)),
        Meaning::Table(next) => format!("table of {} at {:#x}", next_level(level), next.bits()),
        Meaning::Leaf(to, _) => format!("{} to {:#x}", kind(root, level), to.bits()),
    }
}

/// What would allow a block that is reserved.
fn allowed(size: PageSize, level: Level) -> &'static str {
    match level {
        Level::L3 => "; a page has type 3",
        _ if size.has_leaf(level, Layout::Lpa2) => " without LPA2 (TCR.DS = 1; --wide)",
        _ if size.has_leaf(level, Layout::Lpa) => " without 52-bit addresses (FEAT_LPA; --wide)",
        _ => "",
    }
}

fn format_of(meaning: Meaning, encoding: &EncodingArguments) -> &'static Format {
    match meaning {
        Meaning::Table(_) => table_format(encoding),
        _ => leaf_format(encoding),
    }
}

/// The fields of a leaf; those that are indirect where a register for them is given.
pub(crate) fn leaf_format(encoding: &EncodingArguments) -> &'static Format {
    let given = &encoding.permissions;
    match encoding.regime {
        Regime::Stage2 if given.s2pir.is_some() => &STAGE2_INDIRECT_LEAF,
        Regime::Stage2 => &STAGE2_LEAF,
        _ if given.pir.is_some() => &STAGE1_INDIRECT_LEAF,
        regime if regime.has_one_privilege() => &ONE_PRIVILEGE_LEAF,
        _ => &STAGE1_LEAF,
    }
}

/// The fields of a table descriptor.
pub(crate) fn table_format(encoding: &EncodingArguments) -> &'static Format {
    match encoding.regime {
        Regime::Stage2 => &STAGE2_TABLE,
        regime if regime.has_one_privilege() => &ONE_PRIVILEGE_TABLE,
        _ => &STAGE1_TABLE,
    }
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

fn conclusions(root: &Root, descriptor: Descriptor, encoding: &EncodingArguments, meaning: Meaning) -> Vec<String> {
    let (shape, level) = (root.shape, encoding.level);
    let shift = match meaning {
        Meaning::Table(_) => shape.page_size.shift(),
        Meaning::Leaf(..) => shape.shift(level),
        _ => return Vec::new(),
    };
    let reserved = format_of(meaning, encoding).reserved(shape.layout.output_mask(shift)) & descriptor.bits();
    let mut lines = Vec::new();
    if reserved != 0 {
        lines.push(format!("bits that are reserved here are set: {reserved:#x}"));
    }
    if encoding.regime == Regime::El1 {
        lines.push("read as one of EL1&0: --regime el2, el2&0, el3, stage2 or secure reads it otherwise".to_owned());
    }
    if !matches!(meaning, Meaning::Leaf(..)) {
        return lines;
    }
    lines.extend(space(encoding.regime, descriptor));
    let Some(permissions) = root.permissions(descriptor, TableAttributes::empty()) else { return lines };
    if root.control.indirection != Indirection::Off {
        let state =
            if is_clean(root, descriptor) { "clean: a write faults, or hardware makes it dirty" } else { "dirty" };
        lines.push(format!("PIIndex {}, {state}", permission_index(descriptor)));
    }
    let (whom, memory) = (whom(root, permissions), leaf::memory_name(root, descriptor));
    if root.is_stage1() {
        let permits = leaf::permitted(root, descriptor, TableAttributes::empty());
        lines.push(format!("{whom}; memory {memory}"));
        lines.push(format!("as text:{}", words(naming(root), level, (descriptor, permits))));
    } else {
        let by = if root.forces_write_back { "FWB" } else { "no FWB" };
        lines.push(format!("{whom}; memory {memory} ({by})"));
    }
    lines
}

/// The physical address space of a leaf, where a regime has more than one: by NS, at EL3 with FEAT_RME by NSE too (D8.3.1).
fn space(regime: Regime, descriptor: Descriptor) -> Option<String> {
    const NSE: Field = ONE_PRIVILEGE_LEAF.the("NSE");
    const NS: Field = ONE_PRIVILEGE_LEAF.the("NS");
    let (nse, ns) = (NSE.get(descriptor.bits()), NS.get(descriptor.bits()));
    let name = match (regime, nse, ns) {
        (Regime::El3, 0, 0) | (Regime::Secure, _, 0) => "Secure",
        (Regime::El3, 0, _) | (Regime::Secure, ..) => "Non-secure",
        (Regime::El3, _, 0) => "Root",
        (Regime::El3, ..) => "Realm",
        _ => return None,
    };
    Some(format!("{name} space"))
}

/// Who does what, by the exception levels of the regime.
pub(super) fn whom(root: &Root, permissions: Permissions) -> String {
    let privileged = format!("{} {}", root.regime.privileged(), list(permissions.privileged));
    match root.control.has_one_privilege {
        true => privileged,
        false => format!("{privileged}; EL0 {}", list(permissions.unprivileged)),
    }
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

/// A root of the shape that the flags describe: only its granule, layout and regime.
pub(super) fn root(encoding: &EncodingArguments) -> Result<Root, Failure> {
    let layout = encoding.layout();
    let shape = match encoding.regime {
        Regime::Stage2 => Shape::stage2(encoding.granule, layout, 40, Level::L2)
            .or_else(|_| Shape::stage2(encoding.granule, layout, 40, Level::L1))?,
        _ => Shape::stage1(encoding.granule, layout, 48, AddressHalf::Upper)?,
    };
    let mut root = Root::bare(encoding.regime.of_root(), PhysAddr::new(0), shape, Origin::Flags);
    root.memory = encoding.mair.map(MemoryTypes);
    root.forces_write_back = encoding.fwb;
    root.control.has_one_privilege = encoding.regime.has_one_privilege();
    root.control = encoding.permissions.over(root.control, root.is_stage1());
    Ok(root)
}
