//! Levels of lookup.

use core::fmt;

/// A level of lookup, −1 to 3. Pages are at level 3; a lower number is nearer to the root (D8.2.8).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(i8);

impl Level {
    /// Level −1: the root of a 52-bit 4 KiB translation.
    pub const MINUS_1: Self = Self(-1);
    /// Level 0.
    pub const L0: Self = Self(0);
    /// Level 1.
    pub const L1: Self = Self(1);
    /// Level 2.
    pub const L2: Self = Self(2);
    /// Level 3: the level of pages.
    pub const L3: Self = Self(3);
    /// Every level, from the root down.
    pub const ALL: [Self; 5] = [Self::MINUS_1, Self::L0, Self::L1, Self::L2, Self::L3];

    /// The level with this number, or `None` if it is not −1 to 3.
    pub const fn new(number: i8) -> Option<Self> {
        if number < -1 || number > 3 { None } else { Some(Self(number)) }
    }

    /// The number, −1 to 3.
    pub const fn number(self) -> i8 {
        self.0
    }

    /// How many levels of lookup lie below this one: 0 for level 3, 4 for level −1.
    pub const fn below(self) -> u32 {
        (3 - self.0) as u32
    }

    /// The level that a table descriptor of this level leads to; `None` at level 3.
    pub const fn next(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "level {}", self.0)
    }
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_go_down_to_pages_and_end_there() {
        assert_eq!(Level::new(-2), None);
        assert_eq!(Level::new(4), None);
        let mut level = Level::MINUS_1;
        for expected in Level::ALL {
            assert_eq!(level, expected);
            assert_eq!(level.below() as i8, 3 - level.number());
            level = level.next().unwrap_or(Level::MINUS_1);
        }
        assert_eq!(Level::L3.next(), None);
    }
}
