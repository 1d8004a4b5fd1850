//! Searches in small memories made by hand.

use std::ops::Range;

use seed::Seed;

use super::*;
use crate::memory::Bytes;

const BASE: u64 = 0x4000_0000;

fn set(memory: &mut Bytes<Vec<u8>>, at: u64, word: u64) {
    let at = (at - BASE) as usize;
    memory.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// 8 MiB whose linear map, in pages of `page_size`, has tables from 1 MiB on: the root, one table for each level below,
/// and as many tables of pages as it takes. Returns the root's address.
fn linear_map(memory: &mut Bytes<Vec<u8>>, page_size: PageSize, levels: u64) -> u64 {
    let step = page_size.size_bytes();
    let root = BASE + 0x10_0000;
    let pages = memory.bytes.len() as u64 / step;
    for level in 0..levels - 2 {
        set(memory, root + level * step, (root + (level + 1) * step) | 0b11);
    }
    let above = root + (levels - 2) * step;
    for page in 0..pages {
        let table = above + step + page / page_size.entries() as u64 * step;
        set(memory, above + page / page_size.entries() as u64 * 8, table | 0b11);
        set(memory, table + page % page_size.entries() as u64 * 8, (BASE + page * step) | 0x0060_0000_0000_0703);
    }
    root
}

/// Words that are no tables, everywhere but in the second mebibyte.
fn noise() -> Bytes<Vec<u8>> {
    let mut memory = Bytes::new(BASE, vec![0; 8 << 20]);
    let mut seed = Seed::new(1);
    for at in (BASE..BASE + (8 << 20)).step_by(8).filter(|at| !(BASE + 0x10_0000..BASE + 0x20_0000).contains(at)) {
        set(&mut memory, at, seed.bits());
    }
    memory
}

#[test]
fn a_linear_map_is_found_in_every_granule() {
    let table = [
        (PageSize::Size4K, 4, 48),
        (PageSize::Size4K, 3, 39),
        (PageSize::Size16K, 3, 47),
        (PageSize::Size16K, 2, 36),
        (PageSize::Size64K, 3, 48),
        (PageSize::Size64K, 2, 42),
    ];
    for (page_size, levels, input_bits) in table {
        let mut memory = noise();
        let root = linear_map(&mut memory, page_size, levels);
        let found = search(&mut memory, &mut |_, _| {}).expect("memory");
        let best = found.first().unwrap_or_else(|| panic!("nothing found: {page_size} {levels}"));
        assert_eq!(best.address.bits(), root, "{best}");
        assert_eq!((best.shape.page_size, best.shape.input_bits), (page_size, input_bits), "{best}");
        assert!(matches!(best.origin, Origin::Search(90..=99, _)), "{best}");
    }
}

/// A page that was something else may lead to the kernel's root: alone, where no root has a link, or as one link among many.
#[test]
fn a_stale_page_does_not_hide_a_root() {
    let table = [
        (PageSize::Size4K, 4, Some(100)),
        (PageSize::Size4K, 3, None),
        (PageSize::Size16K, 3, Some(100)),
        (PageSize::Size16K, 2, None),
        (PageSize::Size64K, 2, Some(2000)),
        (PageSize::Size64K, 3, Some(1)),
    ];
    for (page_size, levels, alone) in table {
        let step = page_size.size_bytes();
        let stale = BASE + 0x18_0000;
        // Links, by their slots; the first leads to the root, others into noise.
        let many = [(5, 0), (6, BASE + 0x30_0000), (9, BASE + 0x40_0000), (77, BASE + 0x50_0000)];
        for links in alone.map(|slot| vec![(slot, 0)]).into_iter().chain([many.to_vec()]) {
            // And perhaps behind another one; or that behind this one too.
            for others in 0..3 {
                let mut memory = noise();
                let root = linear_map(&mut memory, page_size, levels);
                for (slot, next) in &links {
                    set(&mut memory, stale + slot * 8, if *next == 0 { root } else { *next } | 0b11);
                }
                if others > 0 {
                    set(&mut memory, stale + step + 300 * 8, stale | 0b11);
                }
                if others > 1 {
                    set(&mut memory, stale + 300 * 8, (stale + step) | 0b11);
                }
                let found = search(&mut memory, &mut |_, _| {}).expect("memory");
                let best = found.first().map(|best| best.address.bits());
                assert_eq!(best, Some(root), "{page_size} {levels} {links:x?} {others}: {found:?}");
            }
        }
    }
}

/// A machine that goes away while it is searched.
struct Gone;

impl Memory for Gone {
    fn read(&mut self, _: PhysAddr, _: &mut [u8]) -> Result<(), ReadError> {
        Err(ReadError::Failed("the stub closed the connection".to_owned()))
    }

    fn ranges(&self) -> &[Range<u64>] {
        const ALL: Range<u64> = BASE..BASE + 0x20_0000;
        std::slice::from_ref(&ALL)
    }
}

#[test]
fn a_machine_that_goes_away_is_an_error_not_a_machine_without_tables() {
    let gone = Err(ReadError::Failed("the stub closed the connection".to_owned()));
    assert_eq!(search(&mut Gone, &mut |_, _| {}), gone);
    assert_eq!(crate::vmcoreinfo::find_in_memory(&mut Gone).map(|_| Vec::new()), gone);
}

#[test]
fn noise_has_no_page_table() {
    assert_eq!(search(&mut noise(), &mut |_, _| {}), Ok(Vec::new()));
}

#[test]
fn a_table_of_user_pages_is_told_as_one_of_the_lower_half() {
    let mut memory = noise();
    let root = BASE + 0x10_0000;
    for level in 0..3 {
        set(&mut memory, root + level * 0x1000, (root + (level + 1) * 0x1000) | 0b11);
    }
    set(&mut memory, root + 0x3000, BASE | 0x0020_0000_0000_0fc3);
    let found = search(&mut memory, &mut |_, _| {}).expect("memory");
    assert_eq!(found.first().map(|root| root.regime), Some(Regime::El1Lower));
    assert!(matches!(found[0].origin, Origin::Search(0..=30, _)), "{}", found[0]);
}
