//! A TLBI and its operand: what it invalidates, and for whom (C5.5, D8.17).
//!
//! The engine knows those of EL1 and EL2. Those of EL3 are EL2's with op1 = 6; those of FEAT_RME are four.

use image::number;
use vmsa::TlbiOp;
use vmsa::maintenance::{Domain, TlbiOperand};

use super::Words;
use crate::args::values::word;
use crate::select::Failure;

/// op1, CRn, CRm, op2 of a SYS instruction.
pub(super) type Fields = (u8, u8, u8, u8);

/// A TLBI of any exception level.
struct Operation {
    name: String,
    fields: Fields,
    kind: Kind,
}

/// Whose translations it invalidates.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Those of EL1 or EL2.
    Known(TlbiOp),
    /// Those of EL3, as this one does of EL2.
    El3(TlbiOp),
    /// What is cached of the granule protection table (FEAT_RME); the flag says whether a range is.
    Physical(bool),
}

/// Name, op1, CRn, CRm, op2, whether the operand is a range of physical addresses.
const OF_GRANULES: [(&str, Fields, bool); 4] = [
    ("paall", (6, 8, 7, 4), false),
    ("paallos", (6, 8, 1, 4), false),
    ("rpaos", (6, 8, 4, 3), true),
    ("rpalos", (6, 8, 4, 7), true),
];

/// Sizes of a range of physical addresses, by SIZE.
const SIZES: [&str; 10] = ["4K", "16K", "64K", "2M", "32M", "512M", "1G", "16G", "64G", "512G"];

impl Operation {
    /// By its name, or by its instruction word.
    fn find(text: &str) -> Option<Self> {
        let name = text.trim_end_matches(',').to_ascii_lowercase();
        if let Some(op) = TlbiOp::find(&name) {
            return Some(Self::known(op));
        }
        if let Some(op) = TlbiOp::find(&name.replace("e3", "e2")).filter(|_| name.contains("e3")) {
            return Self::of_el3(op);
        }
        if let Some((name, fields, is_range)) = OF_GRANULES.into_iter().find(|of| of.0 == name) {
            return Some(Self { name: name.to_owned(), fields, kind: Kind::Physical(is_range) });
        }
        // SYS with op0 = 1: op1 18:16, CRn 15:12, CRm 11:8, op2 7:5, Rt 4:0.
        let word = number(&name).ok().filter(|word| word & !0x7_ffff == 0xd508_0000)?;
        let field = |low: u32, bits: u32| (word >> low & ((1 << bits) - 1)) as u8;
        Self::decode((field(16, 3), field(12, 4), field(8, 4), field(5, 3)))
    }

    fn decode(fields: Fields) -> Option<Self> {
        let (op1, crn, crm, op2) = fields;
        let of_granules = || {
            let (name, fields, is_range) = OF_GRANULES.into_iter().find(|of| of.1 == fields)?;
            Some(Self { name: name.to_owned(), fields, kind: Kind::Physical(is_range) })
        };
        match op1 {
            6 => of_granules().or_else(|| Self::of_el3(TlbiOp::decode(4, crn, crm, op2)?)),
            _ => TlbiOp::decode(op1, crn, crm, op2).map(Self::known),
        }
    }

    fn known(op: TlbiOp) -> Self {
        Self { name: op.to_string(), fields: op.fields(), kind: Kind::Known(op) }
    }

    /// What does of EL3 as `op` of EL2; none if `op` is of EL1&0.
    fn of_el3(op: TlbiOp) -> Option<Self> {
        let name = op.to_string();
        let (_, crn, crm, op2) = op.fields();
        let is_of_el2 = name.contains("e2") && !name.contains("e1");
        is_of_el2.then(|| Self { name: name.replace("e2", "e3"), fields: (6, crn, crm, op2), kind: Kind::El3(op) })
    }
}

/// The name of a TLBI with these fields.
pub(super) fn name(fields: Fields) -> Option<String> {
    Operation::decode(fields).map(|of| of.name)
}

pub(super) fn decode(values: &[String]) -> Result<Words, Failure> {
    let (name, operand) = match values {
        [name] => (name, None),
        [name, operand] => (name, Some(word(operand)?)),
        _ => return Err(Failure("decode tlbi takes an operation and its operand: decode tlbi vae1is 0x…".to_owned())),
    };
    let op = Operation::find(name)
        .ok_or_else(|| Failure(format!("no TLBI `{name}`; one is vae1is, or an instruction word such as d5088321")))?;
    let (op1, crn, crm, op2) = op.fields;
    let head = format!("tlbi {} (sys #{op1}, c{crn}, c{crm}, #{op2}; DDI 0487, C5.5)\n  {}", op.name, in_words(&op));
    let takes_operand = match op.kind {
        Kind::Known(known) | Kind::El3(known) => known.takes_operand(),
        Kind::Physical(is_range) => is_range,
    };
    let (fields, conclusions) = match (operand, op.kind) {
        (None, _) => (Vec::new(), Vec::new()),
        (Some(_), _) if !takes_operand => (Vec::new(), vec!["its operand is ignored".to_owned()]),
        (Some(operand), Kind::Physical(_)) => (of_granules(operand), Vec::new()),
        (Some(operand), Kind::Known(known)) => (of_operand(known, true, operand), doubts(known, operand)),
        (Some(operand), Kind::El3(known)) => (of_operand(known, false, operand), doubts(known, operand)),
    };
    Ok(Words { head, fields, conclusions })
}

/// What an operation invalidates, and for whom.
fn in_words(op: &Operation) -> String {
    let (known, regime) = match op.kind {
        Kind::Known(known) => (known, None),
        Kind::El3(known) => (known, Some("EL3")),
        Kind::Physical(is_range) => {
            let what = match (is_range, op.name.contains("pal")) {
                (false, _) => "everything",
                (true, true) => "a range of physical addresses, last level",
                (true, false) => "a range of physical addresses, all levels",
            };
            let whose = if op.name.ends_with("os") { OUTER } else { THIS };
            return format!("granule protection table (FEAT_RME): {what}; {whose}");
        }
    };
    let name = known.name().as_str();
    let rest = if known.operand().is_range() { &name[1..] } else { name };
    let is_of_el2 = name.contains("E2") && !name.contains("IPAS2") && !name.contains("S12");
    let regime = regime.unwrap_or(if is_of_el2 { "EL2" } else { "EL1&0" });
    let one = if regime == "EL3" { "" } else { ", one ASID if EL2 has them (E2H)" };
    let what = match rest {
        rest if rest.starts_with("VMALLS12") => "everything of both stages, current VMID".to_owned(),
        rest if rest.starts_with("VMALL") => "everything of stage 1, current VMID".to_owned(),
        rest if rest.starts_with("ALLE2") => "everything".to_owned(),
        rest if rest.starts_with("ALL") => "everything of both stages, every VMID".to_owned(),
        rest if rest.starts_with("ASID") => "non-global entries of one ASID".to_owned(),
        rest if rest.starts_with("IPAS2LE") => "stage 2, last level".to_owned(),
        rest if rest.starts_with("IPAS2") => "stage 2, all levels".to_owned(),
        rest if rest.starts_with("VAALE") => "last level, any ASID".to_owned(),
        rest if rest.starts_with("VAAE") => "all levels, any ASID".to_owned(),
        rest if rest.starts_with("VALE2") => format!("last level{one}"),
        rest if rest.starts_with("VAE2") => format!("all levels{one}"),
        rest if rest.starts_with("VALE") => "last level, one ASID".to_owned(),
        _ => "all levels, one ASID".to_owned(),
    };
    let whose = match known.domain() {
        Domain::InnerShareable => "every PE of the inner shareable domain",
        Domain::OuterShareable => OUTER,
        Domain::NonShareable | Domain::FullSystem => THIS,
    };
    let range = if known.operand().is_range() { ", by range" } else { "" };
    let xs = if known.is_without_xs() { ", not waiting for accesses with XS" } else { "" };
    format!("{regime}: {what}{range}; {whose}{xs}")
}

const OUTER: &str = "every PE of the outer shareable domain";
const THIS: &str = "this PE alone";

/// log2 of the page that TG stands for.
fn granule_shift(field: u64) -> u32 {
    [12, 12, 14, 16][field as usize & 0b11]
}

/// What TTL or TG says of the granule.
fn granule(field: u64) -> &'static str {
    ["any", "4K", "16K", "64K"][field as usize & 0b11]
}

/// A row of a field: its highest and lowest bit, and what it says.
fn row(operand: u64, name: &str, (high, low): (u32, u32), says: impl FnOnce(u64) -> String) -> [String; 4] {
    let field = operand >> low & (!0 >> (63 - (high - low)));
    let bits = if high == low { format!("[{low}]") } else { format!("[{high}:{low}]") };
    [name.to_owned(), bits, format!("{field:#x}"), says(field)]
}

fn of_operand(op: TlbiOp, has_asids: bool, operand: u64) -> Vec<[String; 4]> {
    let kind = op.operand();
    let is_stage2 = matches!(kind, TlbiOperand::Intermediate | TlbiOperand::IntermediateRange);
    let first = match kind {
        _ if is_stage2 => row(operand, "NS", (63, 63), |ns| {
            let space = if ns == 0 { "Secure" } else { "Non-secure" };
            format!("the {space} intermediate space, in Secure state; else no matter")
        }),
        _ if !has_asids => row(operand, "RES0", (63, 48), |_| "reserved: there are no ASIDs".to_owned()),
        TlbiOperand::AddressAnyAsid | TlbiOperand::RangeAnyAsid => {
            row(operand, "ASID", (63, 48), |_| "ignored: any ASID".to_owned())
        }
        _ => row(operand, "ASID", (63, 48), |asid| asid.to_string()),
    };
    let rest = match kind {
        TlbiOperand::Asid => Vec::new(),
        _ if kind.is_range() => of_range(operand, is_stage2),
        _ => {
            let ttl = row(operand, "TTL", (47, 44), |ttl| match ttl {
                0..=3 => "leaves of any level".to_owned(),
                0b1000 | 0b1100 => "reserved: as none".to_owned(),
                _ => format!("{} leaves of level {}: any other leaf may stay", granule(ttl >> 2), ttl & 3),
            });
            let address = match is_stage2 {
                true => row(operand, "IPA", (39, 0), |page| format!("{:#x}", page << 12)),
                false => row(operand, "VA", (43, 0), |page| format!("{:#x}", extend(page << 12, 56))),
            };
            vec![ttl, address]
        }
    };
    [first].into_iter().chain(rest).collect()
}

fn of_range(operand: u64, is_stage2: bool) -> Vec<[String; 4]> {
    let (scale, num) = (operand >> 44 & 3, operand >> 39 & 31);
    let pages = (num + 1) << (5 * scale + 1);
    let shift = granule_shift(operand >> 46 & 3);
    let range = |unit: u32| {
        let base = (operand & ((1 << 37) - 1)) << unit;
        let base = if is_stage2 { base } else { extend(base, 37 + unit) };
        format!("{base:#x} to {:#x}", base.wrapping_add((pages << shift) - 1))
    };
    vec![
        row(operand, "TG", (47, 46), |tg| if tg == 0 { "reserved".to_owned() } else { granule(tg).to_owned() }),
        row(operand, "SCALE", (45, 44), |_| format!("units of {} pages", 2u64 << (5 * scale))),
        row(operand, "NUM", (43, 39), |_| format!("{} units, {pages} pages", num + 1)),
        row(operand, "TTL", (38, 37), |level| match level {
            0 => "leaves of any level".to_owned(),
            _ => format!("leaves of level {level}: others may stay"),
        }),
        row(operand, "BaseADDR", (36, 0), |_| match shift {
            16 => range(16),
            _ => format!("{}; with LPA2 {}", range(shift), range(16)),
        }),
    ]
}

/// A range of physical addresses (FEAT_RME).
fn of_granules(operand: u64) -> Vec<[String; 4]> {
    let base = (operand & 0xfff_ffff_ffff) << 12;
    vec![
        row(operand, "SIZE", (47, 44), |size| SIZES.get(size as usize).copied().unwrap_or("reserved").to_owned()),
        row(operand, "Address", (43, 0), |_| format!("{base:#x}")),
    ]
}

/// An operand that looks like the address itself: it has bits 55:12 of it, whatever the granule.
fn doubts(op: TlbiOp, operand: u64) -> Vec<String> {
    let is_by_address =
        matches!(op.operand(), TlbiOperand::Address | TlbiOperand::AddressAnyAsid | TlbiOperand::Intermediate);
    if !is_by_address || operand & 0xfff != 0 || operand & 0xffff_ffff_ffff == 0 {
        return Vec::new();
    }
    let shifted = operand >> 12 & 0xfff_ffff_ffff;
    let line = match operand >> 48 {
        0xffff => format!(
            "ASID and TTL look like the top of an address that was not shifted: {operand:#x} >> 12 is {shifted:#x}"
        ),
        0 => format!(
            "if {operand:#x} is the address, it was not shifted: the operand is {shifted:#x} (by 12 at every granule)"
        ),
        _ => return Vec::new(),
    };
    vec![line]
}

/// An address of this many bits, with its highest bit in all those above.
fn extend(address: u64, bits: u32) -> u64 {
    if bits < 64 && address >> (bits - 1) & 1 != 0 { address | u64::MAX << bits } else { address }
}
