//! Operands of TLBIs by range (FEAT_TLBIRANGE, D8.17.6).

use crate::{Granule, Layout, Level};

/// How one range operand covers pages: (NUM + 1) << (5 × SCALE + 1) of them.
///
/// ```text
///  63   48 47 46 45   44 43 39 38 37 36       0
/// | ASID  | TG  | SCALE | NUM | TTL | BaseADDR |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RangeOperand {
    num: u8,
    scale: u8,
}

impl RangeOperand {
    /// The most pages that one operand covers: 32 << 16.
    pub const MOST_PAGES: u64 = 32 << 16;

    /// The operand that covers as many as possible of `pages` from `address`, but no more; `None` if that is fewer than
    /// two pages, or if the base cannot be told: with LPA2 it is kept in units of 64 KiB.
    pub const fn largest<G: Granule>(layout: Layout, address: u64, pages: u64) -> Option<Self> {
        if address & ((1 << Self::base_shift::<G>(layout)) - 1) != 0 {
            return None;
        }
        let mut scale = 3;
        loop {
            let units = pages >> (5 * scale + 1);
            if units > 0 {
                let num = if units > 32 { 31 } else { units - 1 };
                return Some(Self { num: num as u8, scale: scale as u8 });
            }
            if scale == 0 {
                return None;
            }
            scale -= 1;
        }
    }

    /// Pages that it covers.
    pub const fn pages(self) -> u64 {
        (self.num as u64 + 1) << (5 * self.scale + 1)
    }

    /// The operand. `level` is the level of every leaf in the range, if known; it is left out where the manual wants a
    /// base aligned to that level's block and this one is not (ITYBWT).
    pub const fn encode<G: Granule>(self, layout: Layout, asid: u16, level: Option<Level>, address: u64) -> u64 {
        let granule: u64 = match G::SHIFT {
            12 => 0b01,
            14 => 0b10,
            _ => 0b11,
        };
        let hint = match level {
            Some(level) if level.number() > 0 && address & ((1 << G::PAGE_SIZE.level_shift(level)) - 1) == 0 => {
                level.number() as u64
            }
            _ => 0,
        };
        let base = address >> Self::base_shift::<G>(layout) & ((1 << 37) - 1);
        (asid as u64) << 48 | granule << 46 | (self.scale as u64) << 44 | (self.num as u64) << 39 | hint << 37 | base
    }

    /// log2 of the unit of BaseADDR: a page, or 64 KiB with LPA2.
    const fn base_shift<G: Granule>(layout: Layout) -> u32 {
        match layout {
            Layout::Lpa2 => 16,
            _ => G::SHIFT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Granule4K, Granule16K, Granule64K};

    #[test]
    fn an_operand_covers_no_more_than_asked() {
        for pages in 0..100_000 {
            let operand = RangeOperand::largest::<Granule4K>(Layout::Bits48, 0, pages);
            assert_eq!(operand.is_none(), pages < 2);
            if let Some(operand) = operand {
                assert!(operand.pages() <= pages && operand.pages() * 2 > pages, "{pages} {operand:?}");
                assert!(operand.num < 32 && operand.scale < 4, "{pages} {operand:?}");
            }
        }
        for pages in [32 << 16, 33 << 16, 34 << 16, 64 << 16, u64::MAX] {
            let most = RangeOperand::largest::<Granule4K>(Layout::Bits48, 0, pages).unwrap();
            assert_eq!((most.pages(), most.num), (RangeOperand::MOST_PAGES, 31), "{pages:#x}");
        }
    }

    #[test]
    fn fields_are_where_the_manual_puts_them() {
        let two = RangeOperand { num: 0, scale: 0 };
        let address = 0xffff_8000_1234_0000;
        assert_eq!(two.encode::<Granule4K>(Layout::Bits48, 0xab, None, address), 0x00ab_4018_0001_2340);
        assert_eq!(two.encode::<Granule64K>(Layout::Bits48, 0, None, 0x1_0000_0000), 0x0000_c000_0001_0000);
        assert_eq!(two.encode::<Granule16K>(Layout::Bits48, 0, Some(Level::L3), 0x4000), 0x0000_8060_0000_0001);
        let most = RangeOperand { num: 31, scale: 3 };
        let operand = most.encode::<Granule4K>(Layout::Bits48, 0, Some(Level::L2), 0x20_0000);
        assert_eq!(operand, 1 << 46 | 3 << 44 | 31 << 39 | 2 << 37 | 0x200);
    }

    #[test]
    fn a_base_that_is_not_of_the_level_gets_no_hint() {
        let two = RangeOperand { num: 0, scale: 0 };
        let hint = |level, address| two.encode::<Granule4K>(Layout::Bits48, 0, Some(level), address) >> 37 & 0b11;
        assert_eq!(hint(Level::L2, 0x20_0000), 2);
        assert_eq!(hint(Level::L2, 0x20_1000), 0);
        assert_eq!(hint(Level::L3, 0x20_1000), 3);
        assert_eq!((hint(Level::L1, 1 << 30), hint(Level::L2, 0x20_0001)), (1, 0));
        assert_eq!((hint(Level::L0, 0), hint(Level::MINUS_1, 0)), (0, 0));
    }

    #[test]
    fn a_base_is_the_start_of_a_page() {
        for off in [1, 2, 0x800, 0x1000] {
            assert_eq!(RangeOperand::largest::<Granule16K>(Layout::Bits48, 0x8000 + off, 100), None, "{off:#x}");
        }
        let two = RangeOperand::largest::<Granule16K>(Layout::Bits48, 0x8000, 2).map(RangeOperand::pages);
        assert_eq!(two, Some(2));
    }

    #[test]
    fn lpa2_bases_count_64_kib() {
        assert_eq!(RangeOperand::largest::<Granule4K>(Layout::Lpa2, 0x1000, 100), None);
        let two = RangeOperand::largest::<Granule4K>(Layout::Lpa2, 0x3_0000, 2).unwrap();
        assert_eq!(two.encode::<Granule4K>(Layout::Lpa2, 0, None, 0x3_0000) & 0xff, 3);
    }
}
