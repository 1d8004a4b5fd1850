//! A TLBI and its operand: what it invalidates, and for whom (C5.5, D8.17).

use image::number;
use vmsa::TlbiOp;
use vmsa::maintenance::{Domain, TlbiOperand};

use crate::select::Failure;
use terminal::Table;

pub(super) fn decode(values: &[String]) -> Result<String, Failure> {
    let (name, operand) = match values {
        [name] => (name, None),
        [name, operand] => (name, Some(number(operand)?)),
        _ => return Err(Failure("decode tlbi takes an operation and its operand: decode tlbi vae1is 0x…".to_owned())),
    };
    let op = TlbiOp::find(name).ok_or_else(|| Failure(format!("no TLBI `{name}`; one is vae1is")))?;
    let (op1, crn, crm, op2) = op.fields();
    let mut text = format!("tlbi {op} (sys #{op1}, c{crn}, c{crm}, #{op2}; DDI 0487, C5.5)\n");
    text += &format!("  {}\n", in_words(op));
    match operand {
        Some(operand) if op.takes_operand() => text += &fields(op, operand),
        Some(_) => text += "  its operand is ignored\n",
        None => {}
    }
    Ok(text)
}

/// What an operation invalidates, read off its name.
fn in_words(op: TlbiOp) -> String {
    let name = op.name().as_str();
    let rest = if op.operand().is_range() { &name[1..] } else { name };
    let regime = match name {
        name if name.contains("IPAS2") || name.contains("S12") => "EL1&0",
        name if name.contains("E2") => "EL2",
        _ => "EL1&0",
    };
    let what = match rest {
        rest if rest.starts_with("VMALLS12") => "everything of both stages, current VMID",
        rest if rest.starts_with("VMALL") => "everything of stage 1, current VMID",
        rest if rest.starts_with("ALLE2") => "everything",
        rest if rest.starts_with("ALL") => "everything of both stages, every VMID",
        rest if rest.starts_with("ASID") => "non-global entries of one ASID",
        rest if rest.starts_with("IPAS2LE") => "stage 2, last level",
        rest if rest.starts_with("IPAS2") => "stage 2, all levels",
        rest if rest.starts_with("VAALE") => "last level, any ASID",
        rest if rest.starts_with("VAAE") => "all levels, any ASID",
        rest if rest.starts_with("VALE2") => "last level, one ASID if EL2 has them (E2H)",
        rest if rest.starts_with("VAE2") => "all levels, one ASID if EL2 has them (E2H)",
        rest if rest.starts_with("VALE") => "last level, one ASID",
        _ => "all levels, one ASID",
    };
    let where_to = match op.domain() {
        Domain::InnerShareable => "every PE of the inner shareable domain",
        Domain::OuterShareable => "every PE of the outer shareable domain",
        Domain::NonShareable | Domain::FullSystem => "this PE alone",
    };
    let range = if op.operand().is_range() { ", by range" } else { "" };
    let xs = if op.is_without_xs() { ", not waiting for accesses with XS" } else { "" };
    format!("{regime}: {what}{range}; {where_to}{xs}")
}

/// log2 of the page that TG stands for.
fn granule_shift(field: u64) -> u32 {
    [12, 12, 14, 16][field as usize & 0b11]
}

/// What TTL or TG says of the granule.
fn granule(field: u64) -> &'static str {
    ["any", "4K", "16K", "64K"][field as usize & 0b11]
}

fn fields(op: TlbiOp, operand: u64) -> String {
    let kind = op.operand();
    let mut table = Table::new("  ");
    let mut row = |name: &str, high: u32, low: u32, says: &dyn Fn(u64) -> String| {
        let field = operand >> low & (!0 >> (63 - (high - low)));
        let bits = if high == low { format!("[{low}]") } else { format!("[{high}:{low}]") };
        table.row([name.to_owned(), bits, format!("{field:#x}"), says(field)]);
    };
    let is_stage2 = matches!(kind, TlbiOperand::Intermediate | TlbiOperand::IntermediateRange);
    match kind {
        _ if is_stage2 => row("NS", 63, 63, &|_| "counts in Secure state alone".to_owned()),
        TlbiOperand::AddressAnyAsid | TlbiOperand::RangeAnyAsid => {
            row("ASID", 63, 48, &|_| "ignored: any ASID".to_owned());
        }
        _ => row("ASID", 63, 48, &|asid| asid.to_string()),
    }
    if kind == TlbiOperand::Asid {
        return table.to_string();
    }
    if kind.is_range() {
        let (scale, num) = (operand >> 44 & 3, operand >> 39 & 31);
        let pages = (num + 1) << (5 * scale + 1);
        row("TG", 47, 46, &|tg| if tg == 0 { "reserved".to_owned() } else { granule(tg).to_owned() });
        row("SCALE", 45, 44, &|_| format!("units of {} pages", 2u64 << (5 * scale)));
        row("NUM", 43, 39, &|_| format!("{} units, {pages} pages", num + 1));
        row("TTL", 38, 37, &|level| {
            if level == 0 {
                "leaves of any level".to_owned()
            } else {
                format!("leaves of level {level}: others may stay")
            }
        });
        let shift = granule_shift(operand >> 46 & 3);
        let range = |unit: u32| {
            let base = (operand & ((1 << 37) - 1)) << unit;
            let base = if is_stage2 { base } else { extend(base, 37 + unit) };
            format!("{base:#x} to {:#x}", base.wrapping_add((pages << shift) - 1))
        };
        row("BaseADDR", 36, 0, &|_| {
            if shift == 16 { range(16) } else { format!("{}; with LPA2 {}", range(shift), range(16)) }
        });
        return table.to_string();
    }
    row("TTL", 47, 44, &|ttl| match ttl {
        0..=3 => "leaves of any level".to_owned(),
        0b1000 | 0b1100 => "reserved: as none".to_owned(),
        _ => format!("{} leaves of level {}: any other leaf may stay", granule(ttl >> 2), ttl & 3),
    });
    match is_stage2 {
        true => row("IPA", 39, 0, &|page| format!("{:#x}", page << 12)),
        false => row("VA", 43, 0, &|page| format!("{:#x}", extend(page << 12, 56))),
    }
    table.to_string()
}

/// An address of this many bits, with its highest bit in all those above.
fn extend(address: u64, bits: u32) -> u64 {
    if bits < 64 && address >> (bits - 1) & 1 != 0 { address | u64::MAX << bits } else { address }
}
