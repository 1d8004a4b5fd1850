//! A TLBI and its operand: what it invalidates, and for whom (C5.5, D8.17).

use image::number;
use vmsa::TlbiOp;

use crate::select::Failure;
use crate::table::Table;

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
    let name = op.name().unwrap_or("");
    let (is_range, rest) = match name.strip_prefix("RIPAS2") {
        Some(_) => (true, &name[1..]),
        None => name.strip_prefix('R').map_or((false, name), |rest| (true, rest)),
    };
    let what = match rest {
        rest if rest.starts_with("VMALLS12") => "everything of both stages, current VMID",
        rest if rest.starts_with("VMALL") => "everything of stage 1, current VMID",
        rest if rest.starts_with("ALL") => "everything, every VMID",
        rest if rest.starts_with("ASID") => "non-global entries of one ASID",
        rest if rest.starts_with("IPAS2LE") => "stage 2, last level",
        rest if rest.starts_with("IPAS2") => "stage 2, all levels",
        rest if rest.starts_with("VAALE") => "last level, any ASID",
        rest if rest.starts_with("VAAE") => "all levels, any ASID",
        rest if rest.starts_with("VALE") => "last level, one ASID",
        _ => "all levels, one ASID",
    };
    let where_to = match name {
        name if name.ends_with("IS") => "every PE of the inner shareable domain",
        name if name.ends_with("OS") => "every PE of the outer shareable domain",
        _ => "this PE alone",
    };
    let range = if is_range { ", by range" } else { "" };
    let xs = if op.is_without_xs() { ", not waiting for accesses with XS" } else { "" };
    format!("{what}{range}; {where_to}{xs}")
}

/// What TTL or TG says of the granule.
fn granule(field: u64) -> &'static str {
    ["any", "4K", "16K", "64K"][field as usize & 0b11]
}

fn fields(op: TlbiOp, operand: u64) -> String {
    let name = op.name().unwrap_or("");
    let mut table = Table::new();
    let mut row = |name: &str, high: u32, low: u32, says: &dyn Fn(u64) -> String| {
        let field = operand >> low & (!0 >> (63 - (high - low)));
        table.row([name.to_owned(), format!("[{high}:{low}]"), format!("{field:#x}"), says(field)]);
    };
    let is_stage2 = name.contains("IPAS2");
    if !is_stage2 {
        row("ASID", 63, 48, &|asid| asid.to_string());
    }
    if name.starts_with("ASID") {
        return table.to_string();
    }
    if name.starts_with('R') {
        row("TG", 47, 46, &|tg| granule(tg).to_owned());
        row("SCALE", 45, 44, &|scale| scale.to_string());
        row("NUM", 43, 39, &|num| format!("{} pages", (num + 1) << (5 * (operand >> 44 & 3) + 1)));
        row("TTL", 38, 37, &|level| {
            if level == 0 { "any level".to_owned() } else { format!("leaves of level {level}") }
        });
        let shift = match operand >> 46 & 3 {
            2 => 14,
            3 => 16,
            _ => 12,
        };
        row("BaseADDR", 36, 0, &|base| {
            format!("{:#x} (with LPA2 {:#x})", extend(base << shift, 37 + shift), base << 16)
        });
        return table.to_string();
    }
    row("TTL", 47, 44, &|ttl| match ttl {
        0..=3 => "leaves of any level".to_owned(),
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
