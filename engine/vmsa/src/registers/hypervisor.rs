//! The registers of a hypervisor: VTCR_EL2 and VTTBR_EL2 of stage 2, TCR_EL2 of EL2 with one range of addresses.
//!
//! ```text
//!        33  32  31 22 21 19 18  16 15 14 13   8 7   6 5    0
//! VTCR  |SL2|DS | 1|HD|HA|VS|  PS  | TG0 | walks | SL0 | T0SZ |
//! TCR_EL2   |DS | 1|HD|HA| 0|  PS  | TG0 | walks |     | T0SZ |     and bit 23, which is 1
//! ```

use super::{code, control, decode_tg0, encode_ttbr};
use crate::{Geometry, Granule, Layout, Level, PageSize, PhysAddr, fields};

/// The fields of VTCR_EL2 that this project sets and reads (D23.2.220). Walks are inner shareable and write-back.
///
/// ```
/// use vellum_vmsa::registers::{Stage2Control, encode_vttbr};
/// use vellum_vmsa::{Geometry, Granule4K, Layout, Level, PhysAddr};
///
/// // 40 bits of intermediate address from two tables at level 1; outputs of 48 bits, VMIDs of 16.
/// let geometry = Geometry::<Granule4K>::stage2(40, Level::L1, Layout::Bits48).unwrap();
/// let control = Stage2Control { has_wide_vmids: true, ..Stage2Control::new(geometry, 5) };
/// assert_eq!(control.encode(), Some(0x800d_3558));
/// assert_eq!(encode_vttbr(Layout::Bits48, PhysAddr::new(0x8000_2000), 7, false), 0x0007_0000_8000_2000);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stage2Control {
    /// Bits of intermediate address (64 − T0SZ), 1 to 64.
    pub input_bits: u32,
    /// The level of the root (SL0, SL2).
    pub start: Level,
    /// The granule (TG0).
    pub page_size: PageSize,
    /// The field PS: the size of output addresses, as ID_AA64MMFR0_EL1.PARange encodes it.
    pub output_range: u8,
    /// VS: VMIDs have 16 bits.
    pub has_wide_vmids: bool,
    /// HA: hardware sets the access flag.
    pub sets_access_flag: bool,
    /// HD: hardware manages the dirty state.
    pub manages_dirty_state: bool,
    /// DS: LPA2 descriptors.
    pub is_lpa2: bool,
}

/// A field of VTCR_EL2. Its root's level is in two, by the granule, so that no list of fields makes its bits.
macro_rules! vtcr {
    ($field:ident) => {
        const { fields::VTCR_EL2.the(stringify!($field)) }
    };
}

impl Stage2Control {
    /// For page tables of this shape, with outputs of `output_range` (as ID_AA64MMFR0_EL1.PARange encodes it, where 48-bit
    /// layouts want 5 at most), 8-bit VMIDs, and no updates by hardware.
    pub const fn new<G: Granule>(geometry: Geometry<G>, output_range: u8) -> Self {
        Self {
            input_bits: geometry.input_bits(),
            start: geometry.start(),
            page_size: G::PAGE_SIZE,
            output_range,
            has_wide_vmids: false,
            sets_access_flag: false,
            manages_dirty_state: false,
            is_lpa2: matches!(geometry.layout(), Layout::Lpa2),
        }
    }

    /// The value of VTCR_EL2; `None` if the granule has no root at that level. Input bits beyond what T0SZ holds, 1 to 64,
    /// are taken for the nearest that it does.
    pub const fn encode(self) -> Option<u64> {
        let Some((sl2, sl0)) = encode_start(self.page_size, self.start) else { return None };
        Some(
            vtcr!(T0SZ).put(code::width::encode(self.input_bits))
                | vtcr!(SL0).put(sl0)
                | vtcr!(IRGN0).put(1)
                | vtcr!(ORGN0).put(1)
                | vtcr!(SH0).put(3)
                | vtcr!(TG0).put(code::lower_granule::encode(self.page_size))
                | vtcr!(PS).put(self.output_range as u64)
                | vtcr!(VS).put(self.has_wide_vmids as u64)
                | vtcr!(HA).put(self.sets_access_flag as u64)
                | vtcr!(HD).put(self.manages_dirty_state as u64)
                | vtcr!(RES1_31).put(1)
                | vtcr!(DS).put(self.is_lpa2 as u64)
                | vtcr!(SL2).put(sl2),
        )
    }

    /// The fields of a value of VTCR_EL2; `None` if TG0, SL0 or SL2 hold a reserved value.
    pub const fn decode(vtcr: u64) -> Option<Self> {
        let Some(page_size) = decode_tg0(vtcr!(TG0).get(vtcr)) else { return None };
        let is_lpa2 = vtcr!(DS).get(vtcr) != 0;
        // SL2 counts with DS alone.
        let sl2 = if is_lpa2 { vtcr!(SL2).get(vtcr) } else { 0 };
        let Some(start) = decode_start(page_size, sl2, vtcr!(SL0).get(vtcr)) else { return None };
        Some(Self {
            input_bits: 64 - vtcr!(T0SZ).get(vtcr) as u32,
            start,
            page_size,
            output_range: vtcr!(PS).get(vtcr) as u8,
            has_wide_vmids: vtcr!(VS).get(vtcr) != 0,
            sets_access_flag: vtcr!(HA).get(vtcr) != 0,
            manages_dirty_state: vtcr!(HD).get(vtcr) != 0,
            is_lpa2,
        })
    }
}

/// SL2 and SL0: 4 KiB counts from level 2, its level 3 being an afterthought (FEAT_TTST), the others from level 3.
const fn encode_start(size: PageSize, start: Level) -> Option<(u64, u64)> {
    match (size, start.number()) {
        (PageSize::Size4K, -1) => Some((1, 0b00)),
        (PageSize::Size4K, 3) => Some((0, 0b11)),
        (PageSize::Size4K, level @ 0..=2) => Some((0, 2 - level as u64)),
        (PageSize::Size16K, level @ 0..=3) | (PageSize::Size64K, level @ 1..=3) => Some((0, 3 - level as u64)),
        _ => None,
    }
}

const fn decode_start(size: PageSize, sl2: u64, sl0: u64) -> Option<Level> {
    let mut number = -1;
    while let Some(level) = Level::new(number) {
        if let Some((two, zero)) = encode_start(size, level)
            && two == sl2
            && zero == sl0
        {
            return Some(level);
        }
        number += 1;
    }
    None
}

/// VTTBR_EL2: VMID 63:48, BADDR 47:1, CnP 0. With 52-bit addresses BADDR\[5:2\] holds root\[51:48\].
pub const fn encode_vttbr(layout: Layout, root: PhysAddr, vmid: u16, is_common: bool) -> u64 {
    encode_ttbr(layout, root, vmid, is_common)
}

control! {
    /// The fields of TCR_EL2 with HCR_EL2.E2H = 0 that this project sets (D23.2.174): one range of addresses, no ASIDs. With
    /// E2H = 1 the register has the fields of TCR_EL1: [`super::TranslationControl`]. Walks are inner shareable and write-back.
    El2Control of TCR_EL2 {
        /// Bits of virtual address (64 − T0SZ), 1 to 64.
        input_bits: u32 = width T0SZ;
        /// The granule (TG0).
        page_size: PageSize = lower_granule TG0;
        /// The field PS: the size of output addresses, as ID_AA64MMFR0_EL1.PARange encodes it.
        output_range: u8 = number PS;
        /// HA: hardware sets the access flag.
        sets_access_flag: bool = flag HA;
        /// HD: hardware manages the dirty state.
        manages_dirty_state: bool = flag HD;
        /// DS: LPA2 descriptors.
        is_lpa2: bool = flag DS;
    }
    with { SH0 = 3; ORGN0 = 1; IRGN0 = 1; RES1_23 = 1; RES1_31 = 1; }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Granule4K, Granule16K, Granule64K};

    /// SL2:SL0 of every start level: the tables of VTCR_EL2.SL0 and SL2.
    #[test]
    fn start_levels_are_encoded_as_the_manual_says() {
        let none = None;
        let table = [
            (PageSize::Size4K, [Some(0b100), Some(0b010), Some(0b001), Some(0b000), Some(0b011)]),
            (PageSize::Size16K, [none, Some(0b011), Some(0b010), Some(0b001), Some(0b000)]),
            (PageSize::Size64K, [none, none, Some(0b010), Some(0b001), Some(0b000)]),
        ];
        for (size, fields) in table {
            for (level, field) in Level::ALL.into_iter().zip(fields) {
                let encoded = encode_start(size, level).map(|(sl2, sl0)| sl2 << 2 | sl0);
                assert_eq!(encoded, field, "{size} {level}");
                if let Some(field) = field {
                    assert_eq!(decode_start(size, field >> 2, field & 0b11), Some(level), "{size} {level}");
                }
            }
        }
        assert_eq!(decode_start(PageSize::Size64K, 0, 0b11), None);
        assert_eq!(decode_start(PageSize::Size4K, 1, 0b01), None);
    }

    /// Values made by hand from the figures of the register.
    #[test]
    fn stage_2_control_matches_the_manual() {
        let geometry = Geometry::<Granule4K>::stage2(40, Level::L1, Layout::Bits48).unwrap();
        assert_eq!(Stage2Control::new(geometry, 2).encode(), Some(0x8002_3558));
        let geometry = Geometry::<Granule4K>::stage2(52, Level::MINUS_1, Layout::Lpa2).unwrap();
        assert_eq!(Stage2Control::new(geometry, 6).encode(), Some(0x3_8006_350c));
        let geometry = Geometry::<Granule16K>::stage2(48, Level::L1, Layout::Bits48).unwrap();
        assert_eq!(Stage2Control::new(geometry, 5).encode(), Some(0x8005_b590));
        let geometry = Geometry::<Granule64K>::stage2(42, Level::L2, Layout::Bits48).unwrap();
        assert_eq!(Stage2Control::new(geometry, 3).encode(), Some(0x8003_7556));
        let none = Stage2Control { start: Level::L0, ..Stage2Control::new(geometry, 3) };
        assert_eq!(none.encode(), None);
    }

    #[test]
    fn el2_control_matches_the_manual() {
        let control = El2Control {
            input_bits: 48,
            page_size: PageSize::Size4K,
            output_range: 2,
            sets_access_flag: false,
            manages_dirty_state: false,
            is_lpa2: false,
        };
        assert_eq!(control.encode(), 0x8082_3510);
    }

    #[test]
    fn input_bits_beyond_the_field_are_the_nearest_and_leave_other_fields_alone() {
        let el2 = El2Control::decode(0x8082_3510).unwrap();
        let stage2 = Stage2Control::decode(0x8002_3558).unwrap();
        for (bits, nearest) in [(0, 1), (1, 1), (64, 64), (65, 64), (u32::MAX, 64)] {
            let encoded = El2Control { input_bits: bits, ..el2 }.encode();
            assert_eq!(El2Control::decode(encoded), Some(El2Control { input_bits: nearest, ..el2 }), "{bits}");
            let encoded = Stage2Control { input_bits: bits, ..stage2 }.encode().unwrap();
            assert_eq!(Stage2Control::decode(encoded), Some(Stage2Control { input_bits: nearest, ..stage2 }), "{bits}");
        }
    }
}
