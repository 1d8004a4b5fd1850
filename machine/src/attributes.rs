//! What a leaf says about the memory behind it: type, shareability, permissions.
//! (DDI 0487, D8.4 permissions, D8.6 memory attributes, D24.2 MAIR_ELx.)

/// Cacheability of Normal memory, weakest first. Allocation hints are left out: they never need break-before-make.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cacheability {
    /// Non-cacheable.
    NonCacheable,
    /// Write-through.
    WriteThrough,
    /// Write-back.
    WriteBack,
}

/// A memory type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MemoryType {
    /// Device; the number orders nGnRnE (0), nGnRE, nGRE, GRE (3).
    Device(u8),
    /// Normal, by inner and outer cacheability.
    Normal {
        /// Inner cacheability.
        inner: Cacheability,
        /// Outer cacheability.
        outer: Cacheability,
    },
}

impl MemoryType {
    /// Normal, write-back inside and outside.
    pub const WRITE_BACK: Self = Self::Normal { inner: Cacheability::WriteBack, outer: Cacheability::WriteBack };

    /// The type that one byte of MAIR_ELx encodes.
    pub const fn from_mair(byte: u8) -> Self {
        match (byte >> 4, byte & 0xf) {
            (0, low) => Self::Device(low >> 2),
            // FEAT_MTE's tagged Normal memory is write-back.
            (0xf, 0) => Self::WRITE_BACK,
            (0xa, 0) => Self::Normal { inner: Cacheability::WriteThrough, outer: Cacheability::WriteThrough },
            (0x4, 0) => Self::Normal { inner: Cacheability::NonCacheable, outer: Cacheability::NonCacheable },
            (high, low) => Self::Normal { inner: cacheability(low), outer: cacheability(high) },
        }
    }

    /// The type of stage-2 MemAttr without FEAT_S2FWB. (D8.6.5)
    pub const fn from_stage2(attribute: u8) -> Self {
        match attribute >> 2 {
            0 => Self::Device(attribute & 3),
            outer => Self::Normal { inner: stage2_cacheability(attribute & 3), outer: stage2_cacheability(outer) },
        }
    }

    /// Both stages together: Device wins, then the weaker cacheability. (D8.6.5)
    pub fn combine(self, other: Self) -> Self {
        match (self, other) {
            (Self::Device(a), Self::Device(b)) => Self::Device(a.min(b)),
            (Self::Device(a), _) | (_, Self::Device(a)) => Self::Device(a),
            (Self::Normal { inner: a, outer: b }, Self::Normal { inner: c, outer: d }) => {
                Self::Normal { inner: a.min(c), outer: b.min(d) }
            }
        }
    }
}

const fn cacheability(nibble: u8) -> Cacheability {
    match nibble {
        0b0100 => Cacheability::NonCacheable,
        0b0000..=0b0011 | 0b1000..=0b1011 => Cacheability::WriteThrough,
        _ => Cacheability::WriteBack,
    }
}

const fn stage2_cacheability(field: u8) -> Cacheability {
    match field {
        2 => Cacheability::WriteThrough,
        3 => Cacheability::WriteBack,
        _ => Cacheability::NonCacheable,
    }
}

/// The XS attribute of a MAIR byte: accesses may take very long, and nXS TLBIs do not wait for them. (FEAT_XS)
pub(crate) const fn is_xs(byte: u8) -> bool {
    let fast_device = byte >> 4 == 0 && byte & 3 == 1;
    let fast_normal = matches!(byte, 0x40 | 0xa0 | 0xf0);
    let write_back = byte >> 6 == 3 && byte >> 2 & 3 == 3;
    !(fast_device || fast_normal || write_back)
}

/// What each exception level may do, as bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Permissions(pub u8);

impl Permissions {
    /// Read at the privileged level (EL1 or EL2; at stage 2: both).
    pub const READ: u8 = 1;
    /// Write at the privileged level.
    pub const WRITE: u8 = 2;
    /// Fetch at the privileged level.
    pub const EXECUTE: u8 = 4;
    /// Read at EL0.
    pub const USER_READ: u8 = 8;
    /// Write at EL0.
    pub const USER_WRITE: u8 = 16;
    /// Fetch at EL0.
    pub const USER_EXECUTE: u8 = 32;
    /// Everything.
    pub const ALL: Self = Self(63);
    /// Nothing.
    pub const NONE: Self = Self(0);

    /// True when all of `bits` are granted.
    pub const fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }

    /// True when a level may write.
    pub const fn is_writable(self) -> bool {
        self.0 & (Self::WRITE | Self::USER_WRITE) != 0
    }

    /// True when a level may fetch.
    pub const fn is_executable(self) -> bool {
        self.0 & (Self::EXECUTE | Self::USER_EXECUTE) != 0
    }

    /// What both grant.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What `self` grants and `other` does not.
    pub const fn beyond(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl core::fmt::Display for Permissions {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (bit, letter) in "rwx".chars().enumerate() {
            write!(f, "{}", if self.0 >> bit & 1 == 1 { letter } else { '-' })?;
        }
        write!(f, "/")?;
        for (bit, letter) in "rwx".chars().enumerate() {
            write!(f, "{}", if self.0 >> (bit + 3) & 1 == 1 { letter } else { '-' })?;
        }
        Ok(())
    }
}

impl core::fmt::Display for MemoryType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        const DEVICES: [&str; 4] = ["nGnRnE", "nGnRE", "nGRE", "GRE"];
        match *self {
            Self::Device(kind) => write!(f, "Device-{}", DEVICES[usize::from(kind & 3)]),
            Self::Normal { inner, outer } if inner == outer => write!(f, "Normal {inner}"),
            Self::Normal { inner, outer } => write!(f, "Normal inner {inner} outer {outer}"),
        }
    }
}

impl core::fmt::Display for Cacheability {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NonCacheable => "non-cacheable",
            Self::WriteThrough => "write-through",
            Self::WriteBack => "write-back",
        })
    }
}

/// Everything a leaf says but its address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Attributes {
    /// Memory type and cacheability.
    pub memory: MemoryType,
    /// SH\[1:0\], as the descriptor (or TCR, with LPA2) has it.
    pub shareability: u8,
    /// What may be done now.
    pub permissions: Permissions,
    /// Hardware may grant write by setting the dirty state (DBM = 1 with HD = 1).
    pub hardware_dirty: bool,
    /// Matches every ASID.
    pub is_global: bool,
    /// The Contiguous bit.
    pub is_contiguous: bool,
    /// The XS attribute.
    pub is_xs: bool,
}

impl Attributes {
    /// True when the memory may be written through this leaf, or hardware may make it so.
    pub const fn may_write(&self) -> bool {
        self.permissions.is_writable() || self.hardware_dirty
    }
}
