//! The system registers of one CPU, and the page tables that they name.

use std::collections::BTreeMap;

use vmsa::registers::{MemoryTypes, decode_ttbr};
use vmsa::{AddressHalf, Layout, Level, PageSize};

use crate::root::{Origin, Regime, Root};
use crate::shape::{Shape, ShapeError};

/// What is known of one CPU's registers: not every source has all of them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Registers(BTreeMap<&'static str, u64>);

/// The registers that tell where page tables are and how they are to be read.
pub const NAMES: [&str; 19] = [
    "HCR_EL2",
    "ID_AA64MMFR0_EL1",
    "ID_AA64MMFR1_EL1",
    "ID_AA64MMFR2_EL1",
    "MAIR_EL1",
    "MAIR_EL2",
    "SCTLR_EL1",
    "SCTLR_EL2",
    "TCR2_EL1",
    "TCR2_EL2",
    "TCR_EL1",
    "TCR_EL2",
    "TTBR0_EL1",
    "TTBR0_EL2",
    "TTBR1_EL1",
    "TTBR1_EL2",
    "VTCR_EL2",
    "VTTBR_EL2",
    "MIDR_EL1",
];

/// The page tables that registers name, and why others are left out.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Roots {
    /// The page tables.
    pub roots: Vec<Root>,
    /// One line for each that is off or not possible.
    pub notes: Vec<String>,
}

/// Bit `bit` of a register.
const fn flag(register: u64, bit: u32) -> bool {
    register >> bit & 1 != 0
}

/// Bits `low` to `low` + `bits` − 1 of a register.
const fn field(register: u64, low: u32, bits: u32) -> u64 {
    register >> low & ((1 << bits) - 1)
}

/// SCTLR_ELx.M, .WXN and .EE; HCR_EL2.VM, .FWB and .E2H.
const SCTLR_M: u32 = 0;
const SCTLR_WXN: u32 = 19;
const SCTLR_EE: u32 = 25;
const HCR_VM: u32 = 0;
const HCR_E2H: u32 = 34;
const HCR_FWB: u32 = 46;
/// TCR2_ELx.PIE and .D128; VTCR_EL2.S2PIE and .D128.
const TCR2_PIE: u32 = 1;
const TCR2_D128: u32 = 5;
const VTCR_S2PIE: u32 = 36;
const VTCR_D128: u32 = 38;

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
        self.both_halves(1, origin, &mut found);
        if flag(hcr, HCR_E2H) {
            self.both_halves(2, origin, &mut found);
        } else {
            self.el2(origin, &mut found);
        }
        if flag(hcr, HCR_VM) {
            self.stage2(hcr, origin, &mut found);
        }
        found
    }

    /// The two halves of EL1&0, or of EL2&0, whose TCR_EL2 then has the same fields.
    fn both_halves(&self, el: u8, origin: &Origin, found: &mut Roots) {
        let of = |name: &str| self.get(&format!("{name}_EL{el}"));
        let Some(tcr) = of("TCR") else { return };
        let sctlr = of("SCTLR").unwrap_or(1);
        if !flag(sctlr, SCTLR_M) {
            found.notes.push(format!("stage 1 of EL{el}&0 is off (SCTLR_EL{el}.M = 0)"));
            return;
        }
        let tcr2 = of("TCR2").unwrap_or(0);
        if flag(tcr2, TCR2_D128) {
            found.notes.push(format!("EL{el}&0 has 128-bit descriptors (TCR2_EL{el}.D128), which are not read here"));
            return;
        }
        if flag(tcr2, TCR2_PIE) {
            found.notes.push(indirect(&format!("TCR2_EL{el}.PIE")));
        }
        for half in [AddressHalf::Upper, AddressHalf::Lower] {
            let regime = regime(el, half);
            let name = regime.register();
            let Some(ttbr) = self.get(name) else { continue };
            if flag(tcr, if half == AddressHalf::Lower { 7 } else { 23 }) {
                found.notes.push(format!("walks by {name} are off (TCR_EL{el}.EPD)"));
                continue;
            }
            match shape_of_half(tcr, half) {
                Ok(shape) => found.roots.push(Root {
                    memory: of("MAIR").map(MemoryTypes),
                    shareability: field(tcr, if half == AddressHalf::Lower { 12 } else { 28 }, 2) as u8,
                    ignores_hierarchy: flag(tcr, if half == AddressHalf::Lower { 41 } else { 42 }),
                    manages_dirty_state: flag(tcr, 40),
                    ..with_controls(regime, ttbr, shape, sctlr, origin)
                }),
                Err(error) => found.notes.push(format!("{name} with TCR_EL{el} {tcr:#x}: {error}; left out")),
            }
        }
    }

    /// EL2 with one range of addresses.
    fn el2(&self, origin: &Origin, found: &mut Roots) {
        let (Some(tcr), Some(ttbr)) = (self.get("TCR_EL2"), self.get("TTBR0_EL2")) else { return };
        let sctlr = self.get("SCTLR_EL2").unwrap_or(0);
        if !flag(sctlr, SCTLR_M) {
            return;
        }
        match shape_of_el2(tcr) {
            Ok(shape) => found.roots.push(Root {
                memory: self.get("MAIR_EL2").map(MemoryTypes),
                shareability: field(tcr, 12, 2) as u8,
                ignores_hierarchy: flag(tcr, 24),
                manages_dirty_state: flag(tcr, 22),
                has_one_privilege: true,
                ..with_controls(Regime::El2Lower, ttbr, shape, sctlr, origin)
            }),
            Err(error) => found.notes.push(format!("TTBR0_EL2 with TCR_EL2 {tcr:#x}: {error}; left out")),
        }
    }

    fn stage2(&self, hcr: u64, origin: &Origin, found: &mut Roots) {
        let (Some(vtcr), Some(vttbr)) = (self.get("VTCR_EL2"), self.get("VTTBR_EL2")) else {
            found.notes.push("stage 2 is on, but the source has no VTCR_EL2 and VTTBR_EL2".to_owned());
            return;
        };
        if flag(vtcr, VTCR_S2PIE) {
            found.notes.push(indirect("VTCR_EL2.S2PIE"));
        }
        match shape_of_stage2(vtcr) {
            Ok(shape) => found.roots.push(Root {
                shareability: field(vtcr, 12, 2) as u8,
                manages_dirty_state: flag(vtcr, 22),
                forces_write_back: flag(hcr, HCR_FWB),
                ..with_controls(Regime::Stage2, vttbr, shape, self.get("SCTLR_EL2").unwrap_or(0), origin)
            }),
            Err(error) => found.notes.push(format!("VTTBR_EL2 with VTCR_EL2 {vtcr:#x}: {error}; left out")),
        }
    }
}

fn indirect(what: &str) -> String {
    format!("{what} = 1: permissions are indirect, which is not decoded here: those shown are not true")
}

/// A root with what its TTBR and SCTLR say.
fn with_controls(regime: Regime, ttbr: u64, shape: Shape, sctlr: u64, origin: &Origin) -> Root {
    let address = decode_ttbr(shape.layout, ttbr).align_down(64);
    Root {
        identifier: (ttbr >> 48) as u16,
        is_big_endian: flag(sctlr, SCTLR_EE),
        writable_is_no_execute: flag(sctlr, SCTLR_WXN) && regime != Regime::Stage2,
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

/// The shape of one half of a regime with two, from TCR_EL1 (D23.2.173) or TCR_EL2 with E2H.
pub fn shape_of_half(tcr: u64, half: AddressHalf) -> Result<Shape, ShapeError> {
    let (page_size, width) = match half {
        AddressHalf::Lower => (lower_page_size(field(tcr, 14, 2))?, field(tcr, 0, 6)),
        AddressHalf::Upper => (upper_page_size(field(tcr, 30, 2))?, field(tcr, 16, 6)),
    };
    Shape::stage1(page_size, layout(page_size, flag(tcr, 59), field(tcr, 32, 3)), 64 - width as u32, half)
}

/// The shape that TCR_EL2 gives where HCR_EL2.E2H is 0.
pub fn shape_of_el2(tcr: u64) -> Result<Shape, ShapeError> {
    let page_size = lower_page_size(field(tcr, 14, 2))?;
    let layout = layout(page_size, flag(tcr, 32), field(tcr, 16, 3));
    Shape::stage1(page_size, layout, 64 - field(tcr, 0, 6) as u32, AddressHalf::Lower)
}

/// The shape that VTCR_EL2 gives (D23.2.188): the start level is SL0, with SL2 for level −1.
pub fn shape_of_stage2(vtcr: u64) -> Result<Shape, ShapeError> {
    if flag(vtcr, VTCR_D128) {
        return Err(ShapeError::new("VTCR_EL2.D128 = 1: 128-bit descriptors are not read here"));
    }
    let page_size = lower_page_size(field(vtcr, 14, 2))?;
    let layout = layout(page_size, flag(vtcr, 32), field(vtcr, 16, 3));
    let start = match (page_size, field(vtcr, 6, 2), flag(vtcr, 33)) {
        (PageSize::Size4K, 0b00, true) if layout == Layout::Lpa2 => -1,
        (PageSize::Size4K, 0b11, _) => 3,
        (PageSize::Size4K, start, _) => 2 - start as i8,
        (_, start, _) => 3 - start as i8,
    };
    let start = Level::new(start).unwrap_or(Level::L0);
    Shape::stage2(page_size, layout, 64 - field(vtcr, 0, 6) as u32, start)
}

/// TG0: 00 4 KiB, 01 64 KiB, 10 16 KiB.
fn lower_page_size(field: u64) -> Result<PageSize, ShapeError> {
    match field {
        0b00 => Ok(PageSize::Size4K),
        0b01 => Ok(PageSize::Size64K),
        0b10 => Ok(PageSize::Size16K),
        _ => Err(ShapeError::new("TG0 = 11 is reserved")),
    }
}

/// TG1: 01 16 KiB, 10 4 KiB, 11 64 KiB.
fn upper_page_size(field: u64) -> Result<PageSize, ShapeError> {
    match field {
        0b01 => Ok(PageSize::Size16K),
        0b10 => Ok(PageSize::Size4K),
        0b11 => Ok(PageSize::Size64K),
        _ => Err(ShapeError::new("TG1 = 00 is reserved")),
    }
}

/// LPA2 by DS at 4 and 16 KiB; LPA by a 52-bit output size at 64 KiB.
fn layout(page_size: PageSize, ds: bool, output_range: u64) -> Layout {
    match page_size {
        PageSize::Size64K if output_range == 6 => Layout::Lpa,
        PageSize::Size4K | PageSize::Size16K if ds => Layout::Lpa2,
        _ => Layout::Bits48,
    }
}

#[cfg(test)]
mod tests {
    use vmsa::PhysAddr;

    use super::*;

    fn registers(values: &[(&str, u64)]) -> Registers {
        let mut registers = Registers::default();
        for (name, value) in values {
            assert!(registers.set(name, *value), "{name}");
        }
        registers
    }

    /// The registers of an emulated machine under Linux: 4 KiB, 48 bits.
    #[test]
    fn linux_registers_name_two_roots() {
        let registers = registers(&[
            ("TCR_EL1", 0x0000_07f5_b550_3510),
            ("TTBR0_EL1", 0x0001_0000_4312_3000),
            ("TTBR1_EL1", 0x0000_0000_4209_1000),
            ("SCTLR", 0x2000_0000_34f4_d91d),
            ("MAIR_EL1", 0x0000_0004_0044_f0ff),
        ]);
        let found = registers.roots(&Origin::Flags);
        assert_eq!(found.notes, [""; 0]);
        let [upper, lower] = &found.roots[..] else { panic!("{found:?}") };
        assert_eq!((upper.regime, upper.address), (Regime::El1Upper, PhysAddr::new(0x4209_1000)));
        assert_eq!((lower.identifier, lower.address), (1, PhysAddr::new(0x4312_3000)));
        assert_eq!((upper.shape.input_bits, upper.shape.page_size), (48, PageSize::Size4K));
        assert_eq!(upper.memory, Some(MemoryTypes(0x0000_0004_0044_f0ff)));
        assert!(upper.ignores_hierarchy && upper.manages_dirty_state && !upper.is_big_endian);
    }

    #[test]
    fn what_is_off_or_impossible_is_noted() {
        let off = registers(&[("TCR_EL1", 0), ("SCTLR_EL1", 0), ("TTBR0_EL1", 0)]).roots(&Origin::Flags);
        assert!(off.roots.is_empty() && off.notes[0].contains("off"));
        let tcr = 10 | 10 << 16 | 1 << 7;
        let wrong = registers(&[("TCR_EL1", tcr), ("TTBR0_EL1", 0), ("TTBR1_EL1", 0)]).roots(&Origin::Flags);
        assert!(wrong.roots.is_empty() && wrong.notes.len() == 2, "{wrong:?}");
        assert!(wrong.notes[0].contains("TG1 = 00 is reserved"), "{wrong:?}");
    }

    #[test]
    fn what_is_not_decoded_is_said() {
        let tcr = [("TCR_EL1", 0x15_b510_3510), ("TTBR1_EL1", 0x4000_0000)];
        let with = |more: &[(&str, u64)]| registers(&[&tcr[..], more].concat()).roots(&Origin::Flags);
        let indirect = with(&[("TCR2_EL1", 1 << 1)]);
        assert!(indirect.roots.len() == 1 && indirect.notes[0].contains("PIE = 1"), "{indirect:?}");
        let wide = with(&[("TCR2_EL1", 1 << 5)]);
        assert!(wide.roots.is_empty() && wide.notes[0].contains("128-bit"), "{wide:?}");
        let stage2 = [("HCR_EL2", 1), ("VTTBR_EL2", 0), ("VTCR_EL2", 1 << 36 | 0x8002_3558)];
        assert!(with(&stage2).notes[0].contains("S2PIE"));
        assert!(shape_of_stage2(1 << 38 | 0x8002_3558).is_err());
    }

    /// VTCR_EL2 of a monitor: 39 bits of intermediate address, level 1, one table.
    #[test]
    fn stage_2_starts_where_the_register_says() {
        let shape = shape_of_stage2(0x8002_3559).expect("a shape");
        assert_eq!((shape.input_bits, shape.start, shape.entries(Level::L1)), (39, Level::L1, 512));
        let found = registers(&[("HCR_EL2", 1), ("VTCR_EL2", 0x8002_3558), ("VTTBR_EL2", 0x7_0000_4100_0000)]);
        let roots = found.roots(&Origin::Flags).roots;
        assert_eq!(roots[0].shape.entries(Level::L1), 1024, "two concatenated tables");
        assert_eq!((roots[0].identifier, roots[0].address), (7, PhysAddr::new(0x4100_0000)));
        let lpa2 = shape_of_stage2(12 | 1 << 32 | 1 << 33).expect("a shape");
        assert_eq!((lpa2.start, lpa2.layout), (Level::MINUS_1, Layout::Lpa2));
    }

    #[test]
    fn el2_has_one_range_and_with_e2h_two() {
        let el2 = [("TCR_EL2", 0x8085_3510), ("TTBR0_EL2", 0x4000_0000), ("SCTLR_EL2", 1), ("HCR_EL2", 0)];
        let roots = registers(&el2).roots(&Origin::Flags).roots;
        assert_eq!(roots.iter().map(|root| root.regime).collect::<Vec<_>>(), [Regime::El2Lower]);
        let host = [
            ("TCR_EL2", 0x0000_0015_b510_3510),
            ("TTBR0_EL2", 0x4000_0000),
            ("TTBR1_EL2", 0x4100_0000),
            ("SCTLR_EL2", 1),
            ("HCR_EL2", 1 << 34),
        ];
        let roots = registers(&host).roots(&Origin::Flags).roots;
        assert_eq!(roots.iter().map(|root| root.regime).collect::<Vec<_>>(), [Regime::El2Upper, Regime::El2Lower]);
    }
}
