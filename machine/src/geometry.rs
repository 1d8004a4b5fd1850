//! The shape of a page table: which input bits each level resolves, and how large its leaves are.
//! (DDI 0487, D8.2: translation process; D8.3: descriptor formats.)

/// The size of a page and of a full table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Granule {
    /// 4 KiB: 9 bits per level.
    Size4K,
    /// 16 KiB: 11 bits per level.
    Size16K,
    /// 64 KiB: 13 bits per level.
    Size64K,
}

impl Granule {
    /// Every granule.
    pub const ALL: [Self; 3] = [Self::Size4K, Self::Size16K, Self::Size64K];

    /// Base-2 logarithm of the page size in bytes.
    pub const fn shift(self) -> u8 {
        match self {
            Self::Size4K => 12,
            Self::Size16K => 14,
            Self::Size64K => 16,
        }
    }

    /// Input bits that one full table resolves.
    pub const fn index_bits(self) -> u8 {
        self.shift() - 3
    }
}

/// Where a descriptor keeps the address bits above 47. (D8.3.1)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Layout {
    /// No address bits above 47.
    Bits48,
    /// FEAT_LPA, 64 KiB granule: address bits 51:48 in descriptor bits 15:12.
    Lpa,
    /// FEAT_LPA2 (TCR.DS = 1), 4 and 16 KiB granules: bits 49:48 in place, 51:50 in descriptor bits 9:8.
    Lpa2,
}

/// The shape of one page table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Geometry {
    /// Page size.
    pub granule: Granule,
    /// Descriptor layout.
    pub layout: Layout,
    /// Bits of the input address that the table translates.
    pub input_bits: u8,
    /// Level of the root table, -1 to 3.
    pub start_level: i8,
    /// Bits of the output address; more is an Address size fault.
    pub output_bits: u8,
}

impl Geometry {
    /// Base-2 logarithm of what one entry at `level` covers, in bytes.
    pub const fn slot_shift(&self, level: i8) -> u8 {
        self.granule.shift() + (3 - level) as u8 * self.granule.index_bits()
    }

    /// Number of entries of a table at `level`; the root may be shorter, or longer where stage 2 concatenates tables.
    pub const fn slots(&self, level: i8) -> u64 {
        if level == self.start_level {
            let shift = self.slot_shift(level);
            if self.input_bits > shift { 1 << (self.input_bits - shift) } else { 1 }
        } else {
            1 << self.granule.index_bits()
        }
    }

    /// The entry of a table at `level` that translates input address `address`.
    pub const fn index(&self, level: i8, address: u64) -> u64 {
        ((address & self.input_mask()) >> self.slot_shift(level)) & (self.slots(level) - 1)
    }

    /// Ones in the translated bits of an input address.
    pub const fn input_mask(&self) -> u64 {
        (1 << self.input_bits) - 1
    }

    /// Base-2 logarithm of the number of entries in a contiguous set at `level`, or `None` where the bit has no meaning.
    /// (D8.7.1, table of contiguous entries.)
    pub const fn contiguous_log2(&self, level: i8) -> Option<u8> {
        match (self.granule, level) {
            (Granule::Size4K, 1..=3) => Some(4),
            (Granule::Size16K, 2) | (Granule::Size64K, 2 | 3) => Some(5),
            (Granule::Size16K, 3) => Some(7),
            _ => None,
        }
    }

    /// True where `level` may hold a block. (D8.3.1.1)
    pub const fn has_block(&self, level: i8) -> bool {
        match (self.granule, level) {
            (Granule::Size4K, 1 | 2) | (Granule::Size16K | Granule::Size64K, 2) => true,
            (Granule::Size4K, 0) | (Granule::Size16K, 1) => matches!(self.layout, Layout::Lpa2),
            (Granule::Size64K, 1) => matches!(self.layout, Layout::Lpa),
            _ => false,
        }
    }

    /// The address field of a descriptor of this layout, down to bit `low`. (D8.3.1)
    pub const fn address(&self, descriptor: u64, low: u8) -> u64 {
        let (top, high) = match self.layout {
            Layout::Bits48 => (48, 0),
            Layout::Lpa => (48, (descriptor >> 12 & 0xf) << 48),
            Layout::Lpa2 => (50, (descriptor >> 8 & 0x3) << 50),
        };
        (descriptor & ((1 << top) - 1)) >> low << low | high
    }

    /// Bytes that the root table occupies.
    pub const fn root_bytes(&self) -> u64 {
        self.slots(self.start_level) * 8
    }

    /// The start level of a stage-1 walk for this many input bits. (D8.2.5)
    pub const fn stage1_start(granule: Granule, input_bits: u8) -> i8 {
        let bits = input_bits - granule.shift();
        4 - bits.div_ceil(granule.index_bits()) as i8
    }
}
