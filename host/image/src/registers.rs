//! The system registers of one CPU, and the page tables that they name.

use std::collections::BTreeMap;

use vmsa::fields::{Field, HCR_EL2, ID_AA64MMFR0_EL1, SCTLR_EL1, TCR_EL1, TCR_EL2, TCR_EL3, TCR2_EL1, VTCR_EL2};
use vmsa::registers::{El2Control, MemoryTypes, Stage2Control, decode_tg0, decode_tg1, decode_ttbr};
use vmsa::{AddressHalf, Indirection, Layout, Overlay, PageSize, PermissionControl};

use crate::root::{Origin, Regime, Root};
use crate::shape::{Shape, ShapeError};

mod settings;

/// What is known of one CPU's registers: not every source has all of them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Registers(BTreeMap<&'static str, u64>);

/// The registers that tell where page tables are and how they are to be read.
pub const NAMES: [&str; 34] = [
    "HCR_EL2",
    "ID_AA64MMFR0_EL1",
    "ID_AA64MMFR1_EL1",
    "ID_AA64MMFR2_EL1",
    "MAIR_EL1",
    "MAIR_EL2",
    "MAIR_EL3",
    "PIRE0_EL1",
    "PIRE0_EL2",
    "PIR_EL1",
    "PIR_EL2",
    "PIR_EL3",
    "POR_EL0",
    "POR_EL1",
    "POR_EL2",
    "POR_EL3",
    "S2PIR_EL2",
    "S2POR_EL1",
    "SCTLR_EL1",
    "SCTLR_EL2",
    "SCTLR_EL3",
    "TCR2_EL1",
    "TCR2_EL2",
    "TCR_EL1",
    "TCR_EL2",
    "TCR_EL3",
    "TTBR0_EL1",
    "TTBR0_EL2",
    "TTBR0_EL3",
    "TTBR1_EL1",
    "TTBR1_EL2",
    "VTCR_EL2",
    "VTTBR_EL2",
    "MIDR_EL1",
];

const MMFR0: &str = "ID_AA64MMFR0_EL1";
const PA_RANGE: Field = ID_AA64MMFR0_EL1.the("PARange");
/// 52 bits, by IPS, PS or PARange: they are encoded alike.
const RANGE_52: u64 = 6;

/// The page tables that registers name, and why others are left out.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Roots {
    /// The page tables.
    pub roots: Vec<Root>,
    /// One line for each that is off or not possible.
    pub notes: Vec<String>,
}

/// A field of a register, by the table of it. EL2's registers have their bits where EL1's have them, but for TCR_EL2.
macro_rules! get {
    ($register:ident.$field:ident, $value:expr) => {
        const { $register.the(stringify!($field)) }.get($value)
    };
}

/// The same for a field of one bit.
macro_rules! is {
    ($register:ident.$field:ident, $value:expr) => {
        get!($register.$field, $value) != 0
    };
}

/// The fields of TCR_EL1 for one half.
struct Half {
    width: Field,
    granule: Field,
    decode_granule: fn(u64) -> Option<PageSize>,
    shareability: Field,
    is_off: Field,
    ignores_hierarchy: Field,
}

const LOWER: Half = Half {
    width: TCR_EL1.the("T0SZ"),
    granule: TCR_EL1.the("TG0"),
    decode_granule: decode_tg0,
    shareability: TCR_EL1.the("SH0"),
    is_off: TCR_EL1.the("EPD0"),
    ignores_hierarchy: TCR_EL1.the("HPD0"),
};
const UPPER: Half = Half {
    width: TCR_EL1.the("T1SZ"),
    granule: TCR_EL1.the("TG1"),
    decode_granule: decode_tg1,
    shareability: TCR_EL1.the("SH1"),
    is_off: TCR_EL1.the("EPD1"),
    ignores_hierarchy: TCR_EL1.the("HPD1"),
};

const fn fields_of(half: AddressHalf) -> &'static Half {
    match half {
        AddressHalf::Lower => &LOWER,
        AddressHalf::Upper => &UPPER,
    }
}

impl Registers {
    /// Sets a register by name; `false` if it is not one that counts here. QEMU calls SCTLR_EL1 plain SCTLR.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        let full = if name.eq_ignore_ascii_case("SCTLR") { "SCTLR_EL1" } else { name };
        let known = NAMES.into_iter().find(|known| known.eq_ignore_ascii_case(full));
        if let Some(name) = known {
            self.0.insert(name, value);
        }
        known.is_some()
    }

    /// The value of a register, if the source has it.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The page tables in use, by these registers.
    pub fn roots(&self, origin: &Origin) -> Roots {
        let mut found = Roots::default();
        let hcr = self.get("HCR_EL2").unwrap_or(0);
        let is_host = is!(HCR_EL2.E2H, hcr);
        if !(is_host && self.names_of_el1_give_el2()) {
            self.both_halves(1, origin, &mut found);
        }
        if is_host {
            self.both_halves(2, origin, &mut found);
        } else {
            self.one_range(Regime::El2Lower, origin, &mut found);
        }
        self.one_range(Regime::El3, origin, &mut found);
        if is!(HCR_EL2.VM, hcr) || is!(HCR_EL2.DC, hcr) {
            self.stage2(hcr, origin, &mut found);
        }
        found.roots.iter_mut().for_each(|root| self.describe(root));
        let stage2 = found.roots.iter().find(|root| root.regime == Regime::Stage2).cloned().map(Box::new);
        for root in found.roots.iter_mut().filter(|root| root.regime.is_below_stage2()) {
            root.stage2 = stage2.clone();
        }
        found
    }

    /// With HCR_EL2.E2H the names of EL1 mean EL2's registers at EL2, and some stubs (QEMU 11's) read them so.
    fn names_of_el1_give_el2(&self) -> bool {
        let pairs = [
            ("TCR_EL1", "TCR_EL2"),
            ("TTBR0_EL1", "TTBR0_EL2"),
            ("TTBR1_EL1", "TTBR1_EL2"),
            ("SCTLR_EL1", "SCTLR_EL2"),
        ];
        pairs.into_iter().all(|(one, other)| self.get(one).is_some() && self.get(one) == self.get(other))
    }

    /// The two halves of EL1&0, or of EL2&0, whose TCR_EL2 then has the same fields.
    fn both_halves(&self, el: u8, origin: &Origin, found: &mut Roots) {
        let of = |name: &str| self.get(&format!("{name}_EL{el}"));
        let Some(tcr) = of("TCR") else { return };
        let sctlr = of("SCTLR").unwrap_or(1);
        if !is!(SCTLR_EL1.M, sctlr) {
            found.notes.push(format!("stage 1 of EL{el}&0 is off (SCTLR_EL{el}.M = 0)"));
            return;
        }
        if is!(TCR2_EL1.D128, of("TCR2").unwrap_or(0)) {
            found.notes.push(format!("EL{el}&0 has 128-bit descriptors (TCR2_EL{el}.D128), which are not read here"));
            return;
        }
        let control = PermissionControl {
            manages_dirty_state: is!(TCR_EL1.HA, tcr) && is!(TCR_EL1.HD, tcr),
            ..self.stage1_control(el, sctlr)
        };
        for half in [AddressHalf::Upper, AddressHalf::Lower] {
            let regime = regime(el, half);
            let name = regime.register();
            let fields = fields_of(half);
            let Some(ttbr) = self.get(name) else { continue };
            if fields.is_off.get(tcr) != 0 {
                found.notes.push(format!("walks by {name} are off (TCR_EL{el}.EPD)"));
                continue;
            }
            match shape_of_half(tcr, half, self.get(MMFR0)) {
                Ok(shape) => found.roots.push(Root {
                    memory: of("MAIR").map(MemoryTypes),
                    shareability: fields.shareability.get(tcr) as u8,
                    control: PermissionControl { ignores_hierarchy: fields.ignores_hierarchy.get(tcr) != 0, ..control },
                    ..read_as(regime, (ttbr, get!(TCR_EL1.IPS, tcr)), shape, sctlr, origin)
                }),
                Err(error) => found.notes.push(format!("{name} with TCR_EL{el} {tcr:#x}: {error}; left out")),
            }
        }
    }

    /// EL2 or EL3, with one range of addresses and one privilege.
    fn one_range(&self, regime: Regime, origin: &Origin, found: &mut Roots) {
        let el = if regime == Regime::El3 { 3 } else { 2 };
        let of = |name: &str| self.get(&format!("{name}_EL{el}"));
        let (Some(tcr), Some(ttbr)) = (of("TCR"), of("TTBR0")) else { return };
        let sctlr = of("SCTLR").unwrap_or(0);
        if !is!(SCTLR_EL1.M, sctlr) {
            return;
        }
        // EL3 has these in TCR_EL3, EL2 in TCR2_EL2.
        let (is_wide, is_indirect, is_overlaid) = match of("TCR2") {
            _ if el == 3 => (is!(TCR_EL3.D128, tcr), is!(TCR_EL3.PIE, tcr), is!(TCR_EL3.POE, tcr)),
            tcr2 => {
                let tcr2 = tcr2.unwrap_or(0);
                (is!(TCR2_EL1.D128, tcr2), is!(TCR2_EL1.PIE, tcr2), is!(TCR2_EL1.POE, tcr2))
            }
        };
        if is_wide {
            found.notes.push(format!("EL{el} has 128-bit descriptors (D128), which are not read here"));
            return;
        }
        match shape_of_one_range(tcr, self.get(MMFR0)) {
            Ok(shape) => {
                let control = PermissionControl {
                    ignores_hierarchy: is!(TCR_EL2.HPD, tcr),
                    manages_dirty_state: is!(TCR_EL2.HA, tcr) && is!(TCR_EL2.HD, tcr),
                    writable_is_no_execute: is!(SCTLR_EL1.WXN, sctlr),
                    has_one_privilege: true,
                    indirection: indirection(is_indirect, of("PIR").map(|pir| (pir, 0))),
                    overlay: overlay(is_overlaid, of("POR")),
                    ..PermissionControl::default()
                };
                found.roots.push(Root {
                    memory: of("MAIR").map(MemoryTypes),
                    shareability: get!(TCR_EL2.SH0, tcr) as u8,
                    // There are no ASIDs.
                    identifier: 0,
                    control,
                    ..read_as(regime, (ttbr, get!(TCR_EL2.PS, tcr)), shape, sctlr, origin)
                });
            }
            Err(error) => found.notes.push(format!("TTBR0_EL{el} with TCR_EL{el} {tcr:#x}: {error}; left out")),
        }
    }

    /// What SCTLR_ELx and TCR2_ELx say of permissions, and the registers that TCR2_ELx turns on.
    fn stage1_control(&self, el: u8, sctlr: u64) -> PermissionControl {
        let of = |name: &str| self.get(&format!("{name}_EL{el}"));
        let tcr2 = of("TCR2").unwrap_or(0);
        PermissionControl {
            writable_is_no_execute: is!(SCTLR_EL1.WXN, sctlr),
            indirection: indirection(is!(TCR2_EL1.PIE, tcr2), of("PIR").zip(of("PIRE0"))),
            overlay: overlay(is!(TCR2_EL1.POE, tcr2), of("POR")),
            user_overlay: overlay(is!(TCR2_EL1.E0POE, tcr2), self.get("POR_EL0")),
            ..PermissionControl::default()
        }
    }

    fn stage2(&self, hcr: u64, origin: &Origin, found: &mut Roots) {
        let (Some(vtcr), Some(vttbr)) = (self.get("VTCR_EL2"), self.get("VTTBR_EL2")) else {
            found.notes.push("stage 2 is on, but the source has no VTCR_EL2 and VTTBR_EL2".to_owned());
            return;
        };
        let is_indirect = is!(VTCR_EL2.S2PIE, vtcr);
        let control = PermissionControl {
            manages_dirty_state: is!(VTCR_EL2.HA, vtcr) && is!(VTCR_EL2.HD, vtcr),
            indirection: indirection(is_indirect, self.get("S2PIR_EL2").map(|pir| (pir, 0))),
            // There is no overlay over permissions that are direct.
            overlay: overlay(is_indirect && is!(VTCR_EL2.S2POE, vtcr), self.get("S2POR_EL1")),
            ..PermissionControl::default()
        };
        match shape_of_stage2(vtcr, self.get(MMFR0)) {
            Ok(shape) => found.roots.push(Root {
                shareability: get!(VTCR_EL2.SH0, vtcr) as u8,
                forces_write_back: is!(HCR_EL2.FWB, hcr),
                control,
                ..{
                    let sctlr = self.get("SCTLR_EL2").unwrap_or(0);
                    read_as(Regime::Stage2, (vttbr, get!(VTCR_EL2.PS, vtcr)), shape, sctlr, origin)
                }
            }),
            Err(error) => found.notes.push(format!("VTTBR_EL2 with VTCR_EL2 {vtcr:#x}: {error}; left out")),
        }
    }
}

fn indirection(is_on: bool, values: Option<(u64, u64)>) -> Indirection {
    match values {
        _ if !is_on => Indirection::Off,
        Some((pir, pire0)) => Indirection::By(pir, pire0),
        None => Indirection::Unknown,
    }
}

fn overlay(is_on: bool, value: Option<u64>) -> Overlay {
    if is_on { value.map_or(Overlay::Unknown, Overlay::By) } else { Overlay::Off }
}

/// A root with what its TTBR and SCTLR say of reading it. With 64K pages a TTBR has 52 bits only where the size of outputs has.
fn read_as(regime: Regime, (ttbr, output_range): (u64, u64), shape: Shape, sctlr: u64, origin: &Origin) -> Root {
    let is_narrow = shape.page_size == PageSize::Size64K && output_range < RANGE_52;
    let layout = if is_narrow { Layout::Bits48 } else { shape.layout };
    let address = decode_ttbr(layout, ttbr).align_down(64);
    Root {
        identifier: (ttbr >> 48) as u16,
        is_big_endian: is!(SCTLR_EL1.EE, sctlr),
        ..Root::bare(regime, address, shape, origin.clone())
    }
}

fn regime(el: u8, half: AddressHalf) -> Regime {
    match (el, half) {
        (1, AddressHalf::Upper) => Regime::El1Upper,
        (1, AddressHalf::Lower) => Regime::El1Lower,
        (_, AddressHalf::Upper) => Regime::El2Upper,
        (_, AddressHalf::Lower) => Regime::El2Lower,
    }
}

/// The shape of one half of a regime with two, from TCR_EL1 or TCR_EL2 with E2H, and ID_AA64MMFR0_EL1 if it is known.
pub fn shape_of_half(tcr: u64, half: AddressHalf, mmfr0: Option<u64>) -> Result<Shape, ShapeError> {
    let Half { width, granule, decode_granule, .. } = fields_of(half);
    let page_size = decode_granule(granule.get(tcr))
        .ok_or_else(|| ShapeError::new(format!("{} = {:02b} is reserved", granule.name, granule.get(tcr))))?;
    let layout = layout(page_size, is!(TCR_EL1.DS, tcr), get!(TCR_EL1.IPS, tcr), mmfr0);
    Shape::stage1(page_size, layout, 64 - width.get(tcr) as u32, half)
}

/// The shape that TCR_EL2 gives where HCR_EL2.E2H is 0, or TCR_EL3.
pub fn shape_of_one_range(tcr: u64, mmfr0: Option<u64>) -> Result<Shape, ShapeError> {
    let control = El2Control::decode(tcr).ok_or_else(|| ShapeError::new("TG0 = 11 is reserved"))?;
    let layout = layout(control.page_size, control.is_lpa2, control.output_range.into(), mmfr0);
    Shape::stage1(control.page_size, layout, control.input_bits, AddressHalf::Lower)
}

/// The shape that VTCR_EL2 gives.
pub fn shape_of_stage2(vtcr: u64, mmfr0: Option<u64>) -> Result<Shape, ShapeError> {
    if is!(VTCR_EL2.D128, vtcr) {
        return Err(ShapeError::new("VTCR_EL2.D128 = 1: 128-bit descriptors are not read here"));
    }
    let reserved = || ShapeError::new("TG0, SL0 or SL2 has a value that is reserved");
    let control = Stage2Control::decode(vtcr).ok_or_else(reserved)?;
    let layout = layout(control.page_size, control.is_lpa2, control.output_range.into(), mmfr0);
    Shape::stage2(control.page_size, layout, control.input_bits, control.start)
}

/// LPA2 by DS at 4 and 16 KiB. With 64 KiB descriptors have the 52 bits, and level 1 has blocks, where the CPU has such addresses,
/// whatever IPS says (AArch64.BlockDescSupported, LeafBase); of a CPU that is not known IPS tells.
fn layout(page_size: PageSize, ds: bool, output_range: u64, mmfr0: Option<u64>) -> Layout {
    match page_size {
        PageSize::Size64K if mmfr0.map_or(output_range, |word| PA_RANGE.get(word)) >= RANGE_52 => Layout::Lpa,
        PageSize::Size4K | PageSize::Size16K if ds => Layout::Lpa2,
        _ => Layout::Bits48,
    }
}

#[cfg(test)]
mod tests;
