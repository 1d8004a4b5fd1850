//! The registers that turn a page table into a translation: MAIR, TCR and TTBR of EL1 and EL2, VTCR and VTTBR.

mod hypervisor;

pub use hypervisor::{El2Control, Stage2Control, encode_vttbr};

use crate::fields::Field;
use crate::{Layout, PageSize, PhysAddr, fields};

/// MAIR_EL1: eight memory types, chosen by AttrIndx (D23.2.104).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MemoryTypes(pub u64);

/// The encoding of one memory type in MAIR_EL1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MemoryType(pub u8);

impl MemoryType {
    /// Normal, inner and outer write-back, allocating.
    pub const NORMAL: Self = Self(0xff);
    /// Normal write-back, with allocation tags: for CPUs with FEAT_MTE2 alone.
    pub const NORMAL_TAGGED: Self = Self(0xf0);
    /// Normal, not cached.
    pub const NORMAL_NC: Self = Self(0x44);
    /// Device, nothing relaxed.
    pub const DEVICE_NGNRNE: Self = Self(0x00);
    /// Device, writes may be acknowledged early.
    pub const DEVICE_NGNRE: Self = Self(0x04);
    /// Device, reordering allowed.
    pub const DEVICE_NGRE: Self = Self(0x08);
    /// Device, gathering and reordering allowed.
    pub const DEVICE_GRE: Self = Self(0x0c);

    /// Whether it is one of the Device types.
    pub const fn is_device(self) -> bool {
        self.0 & 0xf0 == 0
    }
}

impl MemoryTypes {
    /// The order that Linux uses too, so that tools for either read the other: 0 Normal, 1 Normal-Tagged, 2 Normal-NC,
    /// 3 Device-nGnRnE, 4 Device-nGnRE.
    pub const COMMON: Self = Self(0x0000_0004_0044_f0ff);
    /// The same with Normal in the place of Normal-Tagged, whose encoding is reserved without FEAT_MTE2.
    pub const WITHOUT_TAGS: Self = Self(Self::COMMON.0 | (MemoryType::NORMAL.0 as u64) << 8);

    /// The type that AttrIndx `index`, 0 to 7, chooses.
    pub const fn get(self, index: u8) -> MemoryType {
        MemoryType((self.0 >> (8 * (index & 7))) as u8)
    }
}

/// What code says of a register, and the register's bits, from one list of fields: what is encoded is what is decoded. Each row:
/// a member, its type, how it is encoded ([`code`]), the field's name in the table; then the fields that are always the same.
macro_rules! control {
    (
        $(#[$doc:meta])* $name:ident of $register:ident {
            $($(#[$member_doc:meta])* $member:ident: $type:ty = $code:ident $field:ident;)*
        }
        with { $($fixed:ident = $value:literal;)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name {
            $($(#[$member_doc])* pub $member: $type,)*
        }

        impl $name {
            /// The register's value. Input bits beyond what a field holds, 1 to 64, are taken for the nearest that it does.
            pub const fn encode(self) -> u64 {
                $(const { fields::$register.the(stringify!($fixed)) }.put($value))|*
                $(| const { fields::$register.the(stringify!($field)) }.put(code::$code::encode(self.$member)))*
            }

            /// What a value of the register says; `None` if a granule's field holds a reserved value.
            pub const fn decode(register: u64) -> Option<Self> {
                $(
                    let field = const { fields::$register.the(stringify!($field)) }.get(register);
                    let Some($member) = code::$code::decode(field) else { return None };
                )*
                Some(Self { $($member),* })
            }
        }
    };
}
pub(crate) use control;

/// How fields say what code says. Decoders of fields that have no reserved value find one always.
pub(crate) mod code {
    /// TxSZ: 64 − input bits, of which the field holds 1 to 64: none is taken for 1, more for 64.
    pub(crate) mod width {
        pub(crate) const fn encode(input_bits: u32) -> u64 {
            match input_bits {
                0 => 63,
                bits => 64u64.saturating_sub(bits as u64),
            }
        }

        pub(crate) const fn decode(field: u64) -> Option<u32> {
            Some(64 - field as u32)
        }
    }

    /// TG0: 00 4 KiB, 01 64 KiB, 10 16 KiB.
    pub(crate) mod lower_granule {
        use crate::PageSize;

        pub(crate) const fn encode(size: PageSize) -> u64 {
            match size {
                PageSize::Size4K => 0b00,
                PageSize::Size64K => 0b01,
                PageSize::Size16K => 0b10,
            }
        }

        pub(crate) use super::super::decode_tg0 as decode;
    }

    /// TG1: 01 16 KiB, 10 4 KiB, 11 64 KiB.
    pub(crate) mod upper_granule {
        use crate::PageSize;

        pub(crate) const fn encode(size: PageSize) -> u64 {
            match size {
                PageSize::Size16K => 0b01,
                PageSize::Size4K => 0b10,
                PageSize::Size64K => 0b11,
            }
        }

        pub(crate) use super::super::decode_tg1 as decode;
    }

    /// A number that is the field.
    pub(crate) mod number {
        pub(crate) const fn encode(number: u8) -> u64 {
            number as u64
        }

        pub(crate) const fn decode(field: u64) -> Option<u8> {
            Some(field as u8)
        }
    }

    /// A field of one bit.
    pub(crate) mod flag {
        pub(crate) const fn encode(flag: bool) -> u64 {
            flag as u64
        }

        pub(crate) const fn decode(field: u64) -> Option<bool> {
            Some(field != 0)
        }
    }
}

/// The granule of a field TG0, of TCR_ELx or VTCR_EL2; `None` for the reserved value.
pub const fn decode_tg0(field: u64) -> Option<PageSize> {
    match field & 0b11 {
        0b00 => Some(PageSize::Size4K),
        0b01 => Some(PageSize::Size64K),
        0b10 => Some(PageSize::Size16K),
        _ => None,
    }
}

/// The granule of a field TG1, of TCR_EL1; `None` for the reserved value.
pub const fn decode_tg1(field: u64) -> Option<PageSize> {
    match field & 0b11 {
        0b01 => Some(PageSize::Size16K),
        0b10 => Some(PageSize::Size4K),
        0b11 => Some(PageSize::Size64K),
        _ => None,
    }
}

control! {
    /// The fields of TCR_EL1, and of TCR_EL2 with HCR_EL2.E2H = 1, that this project sets and reads (D23.2.173). Walks are inner
    /// shareable, write-back, allocating.
    TranslationControl of TCR_EL1 {
        /// Input bits of the lower half (64 − T0SZ), 1 to 64.
        lower_bits: u32 = width T0SZ;
        /// Input bits of the upper half (64 − T1SZ), 1 to 64.
        upper_bits: u32 = width T1SZ;
        /// The granule of the lower half (TG0).
        lower_page_size: PageSize = lower_granule TG0;
        /// The granule of the upper half (TG1).
        upper_page_size: PageSize = upper_granule TG1;
        /// The field IPS: the size of output addresses, as ID_AA64MMFR0_EL1.PARange encodes it.
        output_range: u8 = number IPS;
        /// EPD0: no walks of the lower half.
        is_lower_off: bool = flag EPD0;
        /// EPD1: no walks of the upper half.
        is_upper_off: bool = flag EPD1;
        /// AS: ASIDs have 16 bits.
        has_wide_asids: bool = flag AS;
        /// HA: hardware sets the access flag.
        sets_access_flag: bool = flag HA;
        /// HD: hardware manages the dirty state.
        manages_dirty_state: bool = flag HD;
        /// DS: LPA2 descriptors.
        is_lpa2: bool = flag DS;
    }
    with { SH0 = 3; ORGN0 = 1; IRGN0 = 1; SH1 = 3; ORGN1 = 1; IRGN1 = 1; }
}

const ASID: Field = fields::TTBR0_EL1.the("ASID");
const BADDR: Field = fields::TTBR0_EL1.the("BADDR");
const CNP: Field = fields::TTBR0_EL1.the("CnP");

/// TTBR0_EL1 or TTBR1_EL1: ASID 63:48, BADDR 47:1, CnP 0. With 52-bit addresses BADDR\[5:2\] holds root\[51:48\].
pub const fn encode_ttbr(layout: Layout, root: PhysAddr, asid: u16, is_common: bool) -> u64 {
    let high = match layout {
        Layout::Bits48 => 0,
        Layout::Lpa | Layout::Lpa2 => (root.bits() >> 48 & 0xf) << 2,
    };
    ASID.put(asid as u64) | root.bits() & BADDR.mask() | high | CNP.put(is_common as u64)
}

/// The root table's address in a TTBR. A root that is smaller than 64 bytes does not occur with 52-bit addresses, so bits
/// 5:2 are free for root\[51:48\].
pub const fn decode_ttbr(layout: Layout, ttbr: u64) -> PhysAddr {
    PhysAddr::new(match layout {
        Layout::Bits48 => ttbr & BADDR.mask(),
        Layout::Lpa | Layout::Lpa2 => ttbr & BADDR.mask() & !0x3f | (ttbr >> 2 & 0xf) << 48,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_types_stand_in_the_common_order() {
        let expected = [
            MemoryType::NORMAL,
            MemoryType::NORMAL_TAGGED,
            MemoryType::NORMAL_NC,
            MemoryType::DEVICE_NGNRNE,
            MemoryType::DEVICE_NGNRE,
        ];
        for (index, memory) in (0..).zip(expected) {
            assert_eq!(MemoryTypes::COMMON.get(index), memory);
            assert_eq!(memory.is_device(), index >= 3);
            let untagged = if index == 1 { MemoryType::NORMAL } else { memory };
            assert_eq!(MemoryTypes::WITHOUT_TAGS.get(index), untagged);
        }
    }

    /// 4K, 48 bits in both halves, 48-bit output, 16-bit ASIDs: the value that a common kernel of this shape uses.
    #[test]
    fn translation_control_matches_the_manual() {
        let control = TranslationControl {
            lower_bits: 48,
            upper_bits: 48,
            lower_page_size: PageSize::Size4K,
            upper_page_size: PageSize::Size4K,
            output_range: 5,
            is_lower_off: false,
            is_upper_off: false,
            has_wide_asids: true,
            sets_access_flag: false,
            manages_dirty_state: false,
            is_lpa2: false,
        };
        assert_eq!(control.encode(), 0x0000_0015_b510_3510);
        assert_eq!(TranslationControl::decode(0), None, "TG1 = 00 is reserved");
    }

    #[test]
    fn input_bits_beyond_the_field_are_the_nearest_and_leave_other_fields_alone() {
        let whole = TranslationControl::decode(0x0000_0015_b500_3500).unwrap();
        assert_eq!((whole.lower_bits, whole.upper_bits), (64, 64));
        for (bits, nearest) in [(0, 1), (1, 1), (64, 64), (65, 64), (u32::MAX, 64)] {
            let control = TranslationControl { lower_bits: bits, upper_bits: bits, ..whole };
            let expected = TranslationControl { lower_bits: nearest, upper_bits: nearest, ..whole };
            assert_eq!(TranslationControl::decode(control.encode()), Some(expected), "{bits}");
        }
    }

    #[test]
    fn roots_above_48_bits_fit_a_ttbr() {
        let root = PhysAddr::new(0x000a_1234_5678_0000);
        for layout in [Layout::Lpa, Layout::Lpa2] {
            let ttbr = encode_ttbr(layout, root, 0x42, true);
            assert_eq!(ttbr, 0x0042_1234_5678_0029);
            assert_eq!(decode_ttbr(layout, ttbr), root);
        }
        let root = PhysAddr::new(0x1234_5678_9010);
        assert_eq!(decode_ttbr(Layout::Bits48, encode_ttbr(Layout::Bits48, root, 7, false)), root);
    }
}
