//! What several fields of a register say together, and what a CPU with this ID_AA64MMFR0_EL1 makes of them.

use image::Shape;
use vmsa::fields::{Field, HCR_EL2, ID_AA64MMFR0_EL1, Register, TCR_EL1, VTCR_EL2};
use vmsa::{AddressHalf, Layout, PageSize, registers};

/// Bits of physical address, by PARange, IPS or PS.
const ADDRESS_BITS: [u32; 8] = [32, 36, 40, 42, 44, 48, 52, 56];

/// Widths that kernels have by default, without 52-bit addresses.
const WIDTHS: [u32; 5] = [36, 39, 42, 47, 48];

/// One line each.
pub(super) fn of(register: &Register, value: u64, mmfr0: Option<u64>) -> Vec<String> {
    match register.name {
        "TCR_EL1" => {
            let halves = [AddressHalf::Upper, AddressHalf::Lower].map(|half| half_in_words(value, half, mmfr0));
            halves.into_iter().chain(output_size(TCR_EL1.the("IPS"), value, mmfr0)).collect()
        }
        "VTCR_EL2" => stage2(value, mmfr0),
        "TCR_EL2" => {
            let with_e2h = "with HCR_EL2.E2H = 1 it has the fields of TCR_EL1: decode tcr_el1".to_owned();
            one_range(value, mmfr0).into_iter().chain([with_e2h]).collect()
        }
        "SCTLR_EL2" => vec!["with HCR_EL2.E2H = 1 it has the fields of SCTLR_EL1: decode sctlr_el1".to_owned()],
        "TCR_EL3" => one_range(value, mmfr0),
        "TTBR0_EL1" | "TTBR1_EL1" | "TTBR0_EL3" | "VTTBR_EL2" => {
            let narrow = registers::decode_ttbr(Layout::Bits48, value).bits();
            let wide = registers::decode_ttbr(Layout::Lpa, value).bits();
            vec![format!("root at {narrow:#x}; with 52-bit addresses at {wide:#x}")]
        }
        "PAR_EL1" if value & 1 == 0 => vec![format!("output address {:#x}", value & 0x000f_ffff_ffff_f000)],
        "FAR_EL1" => address(value),
        // FIPA is the address from bit 12.
        "HPFAR_EL2" => vec![format!("intermediate address {:#x}, the page of it", (value & 0xffff_ffff_fff0) << 8)],
        "HCR_EL2" => hypervisor(value),
        "SPSR_EL1" if value >> 4 & 1 != 0 => vec!["from AArch32: bits 27:10 have other names there".to_owned()],
        "CTR_EL0" => {
            let bytes = |low: u32| 4u64 << (value >> low & 0xf);
            vec![format!("lines of {} bytes for data, {} for instructions, at least", bytes(16), bytes(0))]
        }
        "ID_AA64MMFR0_EL1" => granules(value),
        _ => Vec::new(),
    }
}

fn half_in_words(tcr: u64, half: AddressHalf, mmfr0: Option<u64>) -> String {
    let name = if half == AddressHalf::Upper { "upper half" } else { "lower half" };
    match image::shape_of_half(tcr, half, mmfr0) {
        Ok(shape) => format!("{name}: {}", range(&shape)),
        Err(error) => format!("{name}: {error}"),
    }
}

fn range(shape: &Shape) -> String {
    format!("{shape}, {:#x} to {:#x}", shape.base(), shape.last())
}

fn one_range(tcr: u64, mmfr0: Option<u64>) -> Vec<String> {
    let shape = image::shape_of_one_range(tcr, mmfr0).map_or_else(|error| error.to_string(), |shape| range(&shape));
    [shape].into_iter().chain(output_size(VTCR_EL2.the("PS"), tcr, mmfr0)).collect()
}

/// PARange of a CPU, in bits.
fn physical_bits(mmfr0: u64) -> u32 {
    ADDRESS_BITS[ID_AA64MMFR0_EL1.the("PARange").get(mmfr0) as usize & 7]
}

/// Whether a CPU has the size of output addresses that IPS or PS asks for (D8.2.9: the lower of the two counts).
fn output_size(size: Field, value: u64, mmfr0: Option<u64>) -> Option<String> {
    let (wanted, name) = (ADDRESS_BITS[size.get(value) as usize & 7], size.name);
    let has = physical_bits(mmfr0?);
    Some(match wanted.cmp(&has) {
        std::cmp::Ordering::Less => {
            format!("{name} is below PARange: what lies above {wanted} bits is an address size fault")
        }
        std::cmp::Ordering::Equal => format!("{name} is PARange: {has} bits"),
        std::cmp::Ordering::Greater => format!("{name} is above PARange: the CPU has {has} bits, and these count"),
    })
}

/// What VTCR_EL2 says, and which PARange it needs (the limits on T0SZ and SL0 that follow from the size of physical addresses).
fn stage2(vtcr: u64, mmfr0: Option<u64>) -> Vec<String> {
    let shape = match image::shape_of_stage2(vtcr, mmfr0) {
        Ok(shape) => shape,
        Err(error) => return vec![format!("stage 2: {error}")],
    };
    let mut lines = vec![format!("stage 2: {shape}, {} descriptors there", shape.entries(shape.start))];
    let of_level = match (shape.page_size, shape.start.number()) {
        (PageSize::Size4K, 0) | (PageSize::Size64K, 1) => 44,
        (PageSize::Size16K, 1) => 42,
        _ => 0,
    };
    // A layout without 52-bit addresses takes 48 bits of a CPU that has more.
    let has = mmfr0.map(|mmfr0| match (physical_bits(mmfr0), shape.page_size, shape.layout) {
        (bits, PageSize::Size64K, _) | (bits, _, Layout::Lpa2) => bits.min(52),
        (bits, ..) => bits.min(48),
    });
    match has {
        None => lines.push(format!("needs PARange of {} bits or more (give --mmfr0)", shape.input_bits.max(of_level))),
        Some(has) if shape.input_bits > has => lines.push(format!(
            "T0SZ asks for {} bits of intermediate address, PARange is {has}: every walk is a translation fault of level 0, or \
             T0SZ counts as {}",
            shape.input_bits,
            64 - has
        )),
        Some(has) if of_level > has => lines.push(format!(
            "a root at {} needs PARange of {of_level} bits, not {has}: every walk is a translation fault of level 0",
            shape.start
        )),
        Some(_) => {}
    }
    lines.extend(output_size(VTCR_EL2.the("PS"), vtcr, mmfr0));
    lines
}

/// Which half an address is of, whatever its top byte and the width.
fn address(value: u64) -> Vec<String> {
    let is_upper = value >> 55 & 1 != 0;
    let (half, register) = if is_upper { ("upper", "TTBR1") } else { ("lower", "TTBR0") };
    // The narrowest half that has it: below bit 56 all bits from its width up are alike.
    let body = (if is_upper { !value } else { value }) & ((1 << 56) - 1);
    let bits = (64 - body.leading_zeros()).max(1);
    let width = if bits > WIDTHS[0] { format!(", where it has {bits} bits or more") } else { String::new() };
    let mut lines = vec![format!("{half} half ({register}){width}")];
    let narrower: Vec<String> = WIDTHS.iter().filter(|width| **width < bits).map(u32::to_string).collect();
    if bits > 52 {
        lines.push("in neither half at any width: translation fault of level 0, and no table is read".to_owned());
    } else if !narrower.is_empty() {
        let widths = narrower.join(", ");
        lines.push(format!("in neither half with {widths} bits: translation fault of level 0, and no table is read"));
    }
    let top = value >> 56;
    if top != if is_upper { 0xff } else { 0 } {
        lines.push(format!(
            "its top byte {top:#04x} is a tag where TCR.TBI ignores it; elsewhere it is in neither half"
        ));
    }
    if value < 0x1000 {
        lines.push(format!("a null pointer and {value:#x} bytes"));
    }
    lines
}

fn hypervisor(hcr: u64) -> Vec<String> {
    let is = |name: &str| HCR_EL2.field(name).is_some_and(|field| field.get(hcr) != 0);
    let host = match (is("E2H"), is("TGE")) {
        (true, true) => "EL2 is a host, and EL0 is its own: EL2&0 translates for both",
        (true, false) => "EL2 is a host that runs a guest: EL2&0 above, EL1&0 below",
        (false, true) => "exceptions of EL0 go to EL2, whose regime has one privilege",
        (false, false) => "EL2 has one privilege, and runs a guest: EL2 above, EL1&0 below",
    };
    let stage2 = match (is("VM"), is("DC")) {
        (true, _) if is("FWB") => "stage 2 is on, and may force write-back",
        (true, _) => "stage 2 is on",
        (false, true) => "stage 2 is on because of DC",
        (false, false) => "stage 2 is off",
    };
    vec![host.to_owned(), stage2.to_owned()]
}

fn granules(mmfr0: u64) -> Vec<String> {
    let is = |name: &str, none: u64| ID_AA64MMFR0_EL1.field(name).is_some_and(|field| field.get(mmfr0) != none);
    let has: Vec<&str> = [("TGran4", 15, "4K"), ("TGran16", 0, "16K"), ("TGran64", 15, "64K")]
        .into_iter()
        .filter_map(|(name, none, size)| is(name, none).then_some(size))
        .collect();
    let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
    vec![format!("page sizes {has}; {} bits of physical address", physical_bits(mmfr0))]
}
