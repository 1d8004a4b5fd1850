//! Ranges of physical addresses, and sizes for people to read.

use core::fmt;

use vmsa::{PageSize, PhysAddr};

/// Physical addresses from `start` up to, but not including, `end`; both at most 2^52, `start <= end`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalRange {
    /// The first address.
    pub start: PhysAddr,
    /// The address after the last one.
    pub end: PhysAddr,
}

/// No output address of the 48-bit, LPA or LPA2 descriptor layouts reaches 2^52 (DDI 0487, D8.1).
pub const PHYSICAL_END: PhysAddr = PhysAddr::new(1 << 52);

impl PhysicalRange {
    /// No addresses.
    pub const EMPTY: Self = Self { start: PhysAddr::new(0), end: PhysAddr::new(0) };

    /// The addresses from `start` up to `end`, cut off at 2^52; empty where `end` comes first.
    pub fn new(start: PhysAddr, end: PhysAddr) -> Self {
        let start = start.min(PHYSICAL_END);
        Self { start, end: end.min(PHYSICAL_END).max(start) }
    }

    /// `size_bytes` bytes from `start`, cut off at 2^52.
    pub fn from_size(start: PhysAddr, size_bytes: u64) -> Self {
        Self::new(start, start.checked_add(size_bytes).unwrap_or(PHYSICAL_END))
    }

    /// How many bytes it covers.
    pub fn size_bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Whether it covers nothing.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether the two share an address.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start.max(other.start) < self.end.min(other.end)
    }

    /// Whether every address of `other` is in it.
    pub fn covers(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Whether `address` is in it.
    pub fn contains(&self, address: PhysAddr) -> bool {
        self.start <= address && address < self.end
    }

    /// The addresses that are in both; empty if there are none.
    pub fn intersection(&self, other: &Self) -> Self {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// What is left of it without `holes`, from the bottom.
    pub fn without<'h>(&self, holes: &'h [Self]) -> impl Iterator<Item = Self> + use<'h> {
        let mut rest = *self;
        core::iter::from_fn(move || {
            while !rest.is_empty() {
                let within = holes.iter().filter(|hole| hole.overlaps(&rest));
                let hole = within.min_by_key(|hole| hole.start).copied();
                let hole = hole.unwrap_or(Self { start: rest.end, end: rest.end });
                let below = Self::new(rest.start, hole.start);
                rest = Self::new(hole.end.min(rest.end), rest.end);
                if !below.is_empty() {
                    return Some(below);
                }
            }
            None
        })
    }

    /// The whole pages inside it.
    pub fn shrink_to_pages(&self, page_size: PageSize) -> Self {
        self.shrink_to(page_size.size_bytes())
    }

    /// What is inside it from a multiple of `bytes`, a power of two, to another.
    pub fn shrink_to(&self, bytes: u64) -> Self {
        Self::new(self.start.align_up(bytes).unwrap_or(PHYSICAL_END), self.end.align_down(bytes))
    }
}

/// Both ends inclusive, in sixteen digits: `0x0000000040000000-0x000000005fffffff`.
impl fmt::Display for PhysicalRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return write!(f, "nothing at {}", self.start);
        }
        write!(f, "{}-{:#018x}", self.start, self.end.bits() - 1)
    }
}

impl fmt::Debug for PhysicalRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}..{:?}", self.start, self.end)
    }
}

/// A number of bytes, printed with the largest unit that divides it: `512M`, `36K`, `17B`. What would take more than six
/// digits is rounded to a larger unit, after a `~`. Width is honoured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [char; 7] = ['B', 'K', 'M', 'G', 'T', 'P', 'E'];
        let mut unit = if self.0 == 0 { 0 } else { self.0.trailing_zeros() as usize / 10 };
        let is_exact = self.0 >> (10 * unit) < 1_000_000;
        while self.0 >> (10 * unit) >= 1_000_000 {
            unit += 1;
        }
        let half = if unit == 0 { 0 } else { 1 << (10 * unit - 1) };
        let number = self.0.saturating_add(if is_exact { 0 } else { half }) >> (10 * unit);
        let (about, digits) = (if is_exact { "" } else { "~" }, number.checked_ilog10().unwrap_or(0) as usize + 1);
        let padding = f.width().unwrap_or(0).saturating_sub(about.len() + digits + 1);
        write!(f, "{:padding$}{about}{number}{}", "", UNITS[unit])
    }
}
