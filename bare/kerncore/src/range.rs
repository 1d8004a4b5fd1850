//! Ranges of physical addresses, and sizes for people to read.

use core::fmt;

/// Physical addresses from `start` up to, but not including, `end`; both in bytes and below 2^52, `start <= end`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalRange {
    /// The first address.
    pub start: u64,
    /// The address after the last one.
    pub end: u64,
}

/// No output address of the 48-bit, LPA or LPA2 descriptor layouts reaches 2^52 (DDI 0487, D8.1).
pub const PHYSICAL_END: u64 = 1 << 52;

impl PhysicalRange {
    /// No addresses.
    pub const EMPTY: Self = Self { start: 0, end: 0 };

    /// The addresses from `start` up to `end`; empty where `end` comes first.
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end: if end < start { start } else { end } }
    }

    /// `size_bytes` bytes from `start`, cut off at 2^52.
    pub fn from_size(start: u64, size_bytes: u64) -> Self {
        Self::new(start.min(PHYSICAL_END), start.saturating_add(size_bytes).min(PHYSICAL_END))
    }

    /// How many bytes it covers.
    pub const fn size_bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Whether it covers nothing.
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether the two share an address.
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Whether every address of `other` is in it.
    pub const fn covers(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Whether `address` is in it.
    pub const fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    /// The whole pages of `1 << page_shift` bytes inside it.
    pub fn shrink_to_pages(&self, page_shift: u32) -> Self {
        let mask = (1 << page_shift) - 1;
        Self::new((self.start + mask) & !mask, self.end & !mask)
    }
}

/// Both ends inclusive, in sixteen digits: `0x0000000040000000-0x000000005fffffff`.
impl fmt::Display for PhysicalRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return write!(f, "nothing at {:#018x}", self.start);
        }
        write!(f, "{:#018x}-{:#018x}", self.start, self.end - 1)
    }
}

impl fmt::Debug for PhysicalRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}..{:#x}", self.start, self.end)
    }
}

/// A number of bytes, printed exactly with the largest unit that divides it: `512M`, `36K`, `17B`. Width is honoured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [char; 6] = ['B', 'K', 'M', 'G', 'T', 'P'];
        let unit = if self.0 == 0 { 0 } else { (self.0.trailing_zeros() as usize / 10).min(UNITS.len() - 1) };
        let width = f.width().unwrap_or(0).saturating_sub(1);
        write!(f, "{:>width$}{}", self.0 >> (10 * unit), UNITS[unit])
    }
}
