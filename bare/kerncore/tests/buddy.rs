//! The buddy allocator against a naive model: a set of pages, and what was given out.

mod support;

use std::collections::BTreeMap;

use expect_test::expect;
use kerncore::buddy::{AddError, Buddy, FreeError, Layout, MAX_ORDER, RemoveError};
use kerncore::range::PhysicalRange;
use proptest::prelude::*;
use seed::Seed;
use support::{GIB, KIB, MIB, TIB, range};
use vmsa::{PageSize, PhysAddr};

/// An allocator with all of `ranges`, lent to `test`.
fn with_buddy<T>(page_size: PageSize, ranges: &[PhysicalRange], test: impl FnOnce(&mut Buddy<'_>) -> T) -> T {
    let layout = Layout::new(page_size, ranges.iter().copied());
    let mut notes = vec![!0; layout.words()];
    let mut buddy = Buddy::new(&layout, &mut notes).unwrap();
    for &range in ranges {
        buddy.add(range).unwrap();
    }
    test(&mut buddy)
}

/// Banks as a damaged machine has them: near each other, terabytes apart, at 0, of one page, up to 2^52.
fn banks(page_size: PageSize) -> Vec<PhysicalRange> {
    let page = page_size.size_bytes();
    vec![
        range(0, 3 * page),
        range(4 * page, 100 * page),
        range((1 << 20) * page, 5000 * page),
        range(GIB * 200 + page, page),
        range((1 << 52) - 20_000 * page, 20_000 * page),
    ]
}

#[test]
fn lowest_blocks_first_and_halves_join_again() {
    with_buddy(PageSize::Size4K, &[range(0x4000_0000, 64 * MIB)], |buddy| {
        assert_eq!(buddy.free_blocks(MAX_ORDER), 2);
        let blocks: Vec<PhysAddr> = (0..4).map(|order| buddy.allocate(order).unwrap()).collect();
        expect![[r#"
            [0x40000000, 0x40002000, 0x40004000, 0x40008000]
            65476K free, 60K given out; free blocks: 1 of 4K, 1 of 64K, 1 of 128K, 1 of 256K, 1 of 512K, 1 of 1M, 1 of 2M, 1 of 4M, 1 of 8M, 1 of 16M, 1 of 32M"#]].assert_eq(&format!("{blocks:?}\n{buddy}"));
        for (order, &block) in blocks.iter().enumerate() {
            buddy.free(block, order).unwrap();
        }
        assert_eq!(buddy.free_blocks(MAX_ORDER), 2);
        expect!["64M free, 0B given out; free blocks: 2 of 32M"].assert_eq(&buddy.to_string());
    });
}

#[test]
fn a_wrong_free_is_refused() {
    let bank = range(0x4000_0000, MIB);
    with_buddy(PageSize::Size16K, &[bank], |buddy| {
        let block = buddy.allocate(2).unwrap();
        let before = buddy.to_string();
        let wrong = [
            (block, 1),
            (block, 3),
            (block + 0x4000, 0),
            (block + 0x4000, 2),
            (block + 1, 2),
            (block + 0x1_0000, 2),
            (PhysAddr::new(0), 0),
            (PhysAddr::new(u64::MAX), 0),
            (block, MAX_ORDER + 1),
            (block, usize::MAX),
        ];
        let errors: Vec<String> =
            wrong.iter().map(|&(at, order)| buddy.free(at, order).unwrap_err().to_string()).collect();
        expect![[r#"
            0x0000000040000000 was not freed, expected a block of order 1 that is given out
            0x0000000040000000 was not freed, expected a block of order 3 that is given out
            0x0000000040004000 was not freed, expected a block of order 0 that is given out
            0x0000000040004000 was not freed, expected a block of order 2 that is given out
            0x0000000040000001 was not freed, expected a block of order 2 that is given out
            0x0000000040010000 was not freed, expected a block of order 2 that is given out
            0x0000000000000000 was not freed, expected a block of order 0 that is given out
            0xffffffffffffffff was not freed, expected a block of order 0 that is given out
            order 14 was not freed, expected 13 at most
            order 18446744073709551615 was not freed, expected 13 at most"#]]
        .assert_eq(&errors.join("\n"));
        assert_eq!(buddy.to_string(), before);
        buddy.free(block, 2).unwrap();
        assert_eq!(buddy.free(block, 2), Err(FreeError::NotGiven(block, 2)));
    });
}

#[test]
fn a_block_is_freed_by_parts() {
    let ranges = banks(PageSize::Size4K);
    with_buddy(PageSize::Size4K, &ranges, |buddy| {
        let (free, before) = (buddy.free_bytes(), buddy.to_string());
        let block = buddy.allocate(3).unwrap();
        buddy.divide(block, 3, 2).unwrap();
        buddy.divide(block, 2, 1).unwrap();
        let wrong =
            [(block, 3, 2), (block, 2, 0), (block, 1, 1), (block, 1, 2), (block + 0x1000, 2, 0), (block, 14, 0)];
        for (at, order, parts) in wrong {
            assert!(buddy.divide(at, order, parts).is_err(), "order {order} at {at}");
        }
        for (at, order) in [(block, 3), (block, 2)] {
            assert_eq!(buddy.free(at, order), Err(FreeError::NotGiven(at, order)));
        }
        assert_eq!(buddy.given_bytes(), 8 * 0x1000);
        buddy.divide(block + 0x4000, 2, 0).unwrap();
        let pages = (4..8).map(|page| (block + page * 0x1000, 0));
        for (at, order) in pages.chain([(block, 1), (block + 0x2000, 1)]) {
            buddy.free(at, order).unwrap();
        }
        assert_eq!((buddy.free_bytes(), buddy.to_string()), (free, before));
    });
}

/// The notes of a large block's pages are whole words, and those of a small one's are part of a word.
#[test]
fn each_page_of_a_block_is_freed_by_itself() {
    with_buddy(PageSize::Size4K, &[range(0x4000_0000, 64 * MIB)], |buddy| {
        let before = buddy.to_string();
        for order in [9, 7, 6, 5, 1] {
            let (other, block) = (buddy.allocate(order).unwrap(), buddy.allocate(order).unwrap());
            buddy.divide(block, order, 0).unwrap();
            // The same at once.
            let pages = buddy.allocate_pages(order).unwrap();
            assert_eq!(pages, block + (0x1000 << order));
            assert_eq!(buddy.given_bytes(), 3 * (0x1000 << order));
            for page in (0..2 << order).rev() {
                buddy.free(block + page * 0x1000, 0).unwrap();
                assert!(buddy.free(block + page * 0x1000, 0).is_err());
            }
            assert!(buddy.free(block + (0x2000 << order), 0).is_err());
            assert!(buddy.free(other, 0).is_err());
            buddy.free(other, order).unwrap();
            assert_eq!(buddy.to_string(), before);
        }
    });
}

/// Who asks for blocks of one size and of another in turn gets the smallest block that fits, as if each were cut at once.
#[test]
fn blocks_of_every_order_are_cut_in_turn() {
    with_buddy(PageSize::Size4K, &[range(0x4000_0000, 64 * MIB)], |buddy| {
        let before = buddy.to_string();
        // A page, and what is left of its block of 16 pages: 1, 2, 4, 8.
        let at = |order, is_divided: bool, buddy: &mut Buddy| {
            let block = if is_divided { buddy.allocate_pages(order) } else { buddy.allocate(order) };
            (block.unwrap().bits() - 0x4000_0000) >> 12
        };
        let taken = [(0, 0), (2, 4), (0, 1), (2, 8), (3, 16), (1, 2), (2, 12), (4, 32), (0, 24)];
        for (number, (order, page)) in taken.into_iter().enumerate() {
            assert_eq!(at(order, number % 2 == 1, buddy), page, "number {number}");
        }
        assert_eq!(buddy.allocate(14), None);
        assert_eq!(buddy.allocate_pages(64), None);
        for (number, (order, page)) in taken.into_iter().enumerate() {
            let (pages, order) = if number % 2 == 1 { (1 << order, 0) } else { (1, order) };
            (0..pages).for_each(|one| buddy.free(PhysAddr::new(0x4000_0000 + ((page + one) << 12)), order).unwrap());
        }
        assert_eq!(buddy.to_string(), before);
    });
}

#[test]
fn pages_are_freed_side_by_side() {
    let bank = range(0x4000_0000, 64 * MIB);
    with_buddy(PageSize::Size4K, &[bank], |buddy| {
        let before = buddy.to_string();
        let pages: Vec<_> = (0..3000).map(|_| buddy.allocate(0).expect("a page").bits()).collect();
        let part = |from: usize, to: usize| range(pages[from], (to - from) as u64 * 4096);
        buddy.free_pages(part(1, 2077)).expect("they were given out");
        for wrong in [part(0, 3), part(2076, 3000), range(pages[2999] + 4096, 4096)] {
            buddy.free_pages(wrong).expect_err("one of them was free");
        }
        for rest in [part(0, 1), part(2077, 3000)] {
            buddy.free_pages(rest).expect("they were given out");
        }
        assert_eq!(buddy.to_string(), before);
    });
}

#[test]
fn memory_is_added_once() {
    let bank = range(0x4000_0000, 8 * MIB);
    let layout = Layout::new(PageSize::Size4K, [bank].into_iter());
    let mut notes = vec![0; layout.words()];
    let mut buddy = Buddy::new(&layout, &mut notes).unwrap();
    buddy.add(range(0x4000_0000, 4 * MIB)).unwrap();
    let page = buddy.allocate(0).unwrap();
    let given = range(page.bits(), 4 * KIB);
    let wrong = [
        given,
        range(0x4000_1000, 0x1000),
        range(0x403f_f000, 0x2000),
        range(0x4000_0000, 8 * MIB),
        range(0x4040_0000, 100),
        range(0x3fff_f000, 0x1000),
        range(0x4400_0000, 64 * MIB),
    ];
    let errors: Vec<String> = wrong.iter().map(|&range| buddy.add(range).unwrap_err().to_string()).collect();
    expect![[r#"
        0x0000000040000000-0x0000000040000fff was not added, expected memory that is new to the allocator
        0x0000000040001000-0x0000000040001fff was not added, expected memory that is new to the allocator
        0x00000000403ff000-0x0000000040400fff was not added, expected memory that is new to the allocator
        0x0000000040000000-0x00000000407fffff was not added, expected memory that is new to the allocator
        0x0000000040400000-0x0000000040400063 was not added, expected whole pages
        0x000000003ffff000-0x000000003fffffff was not added, expected memory that the allocator was laid out for
        0x0000000044000000-0x0000000047ffffff was not added, expected memory that the allocator was laid out for"#]]
    .assert_eq(&errors.join("\n"));
    assert_eq!(buddy.free_bytes(), 4 * MIB - 4 * KIB);
    buddy.add(range(0x4040_0000, 4 * MIB)).unwrap();
    buddy.free(page, 0).unwrap();
    assert_eq!((buddy.free_bytes(), buddy.free_blocks(11)), (8 * MIB, 1));
    assert_eq!(buddy.add(range(0, 0)), Ok(()));
}

#[test]
fn what_is_given_out_is_not_removed() {
    with_buddy(PageSize::Size4K, &[range(0x4000_0000, 32 * MIB), range(GIB * 5, 32 * MIB)], |buddy| {
        let page = buddy.allocate(0).unwrap();
        let block = buddy.allocate(9).unwrap();
        let before = buddy.to_string();
        let wrong = [
            range(page.bits(), 2 * MIB),
            range(block.bits() - 2 * MIB + 4 * KIB, 4 * MIB),
            range(block.bits() + MIB, 4 * KIB),
            range(0x41ff_f000, 8 * KIB),
            range(0x4180_0000, 64),
            range(0x4180_0001, 4095),
        ];
        let errors: Vec<_> = wrong.iter().map(|&range| buddy.remove(range).unwrap_err().to_string()).collect();
        expect![[r#"
            0x0000000040000000 was not removed, expected a free page, but it is given out
            0x0000000040200000 was not removed, expected a free page, but it is given out
            0x0000000040300000 was not removed, expected a free page, but it is given out
            0x0000000042000000 was not removed, expected memory that the allocator has
            0x0000000041800000-0x000000004180003f was not removed, expected whole pages
            0x0000000041800001-0x0000000041800fff was not removed, expected whole pages"#]]
        .assert_eq(&errors.join("\n"));
        assert_eq!(buddy.to_string(), before);
        assert_eq!(buddy.remove(range(0x4180_0000, 0)), Ok(()));
        assert_eq!(buddy.remove(range(0x4000_1000, 4 * KIB)), Ok(()));
        assert_eq!(buddy.remove(range(0x4000_1000, 4 * KIB)), Err(RemoveError::Foreign(page + 0x1000)));
        assert_eq!(buddy.free(page + 0x1000, 0), Err(FreeError::NotGiven(page + 0x1000, 0)));
        buddy.add(range(0x4000_1000, 4 * KIB)).unwrap();
        assert_eq!(buddy.to_string(), before);
    });
}

#[test]
fn notes_of_another_length_are_refused() {
    let layout = Layout::new(PageSize::Size4K, [range(0, GIB)].into_iter());
    let mut notes = vec![0; layout.words() + 1];
    let error = Buddy::new(&layout, &mut notes).err().unwrap();
    expect!["16523 words for the allocator's notes, expected 16522"].assert_eq(&error.to_string());
}

#[test]
fn notes_stay_small_and_holes_cost_nothing() {
    let bytes = |ranges: &[PhysicalRange]| 8 * Layout::new(PageSize::Size4K, ranges.iter().copied()).words() as u64;
    let of_2_gib = bytes(&[range(GIB, 2 * GIB)]);
    let with_hole = bytes(&[range(GIB, GIB), range(1 << 51, GIB)]);
    let of_4_tib = bytes(&[range(0, 4 * TIB)]);
    let smallest = bytes(&[range(GIB, 4 * KIB)]);
    let figures = [of_2_gib, with_hole, of_4_tib, smallest].map(|bytes| bytes / KIB);
    expect!["[258, 258, 528416, 4] KiB"].assert_eq(&format!("{figures:?} KiB"));
    assert!(size_of::<Buddy<'_>>() <= 1280, "{}", size_of::<Buddy<'_>>());
    assert!(size_of::<Layout>() <= 3088, "{}", size_of::<Layout>());
}

#[test]
fn every_page_of_every_bank_is_given_once() {
    for page_size in PageSize::ALL {
        let banks = banks(page_size);
        with_buddy(page_size, &banks, |buddy| {
            let pages = buddy.free_bytes() / page_size.size_bytes();
            let mut given: Vec<PhysAddr> = core::iter::from_fn(|| buddy.allocate(0)).collect();
            assert_eq!((given.len() as u64, buddy.free_bytes()), (pages, 0));
            given.sort();
            let expected = banks.iter().flat_map(|bank| {
                (bank.start.bits()..bank.end.bits()).step_by(page_size.size_bytes() as usize).map(PhysAddr::new)
            });
            assert!(given.iter().copied().eq(expected));
            given.iter().for_each(|&page| buddy.free(page, 0).unwrap());
            let again = with_buddy(page_size, &banks, |fresh| fresh.to_string());
            assert_eq!(buddy.to_string(), again);
        });
    }
}

/// What was given out: start and end of each block, by its start.
type Given = BTreeMap<u64, (u64, usize)>;

fn check_new(given: &Given, banks: &[PhysicalRange], block: PhysicalRange) -> Result<(), TestCaseError> {
    prop_assert!(banks.iter().any(|bank| bank.covers(&block)), "{block:?} was never added");
    let before = given.range(..block.end.bits()).next_back();
    prop_assert!(before.is_none_or(|(_, &(end, _))| end <= block.start.bits()), "{block:?} is given out twice");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn blocks_never_overlap_and_all_join_again(seed: u64, size in 0..3usize, steps in 0..600usize) {
        let page_size = PageSize::ALL[size];
        let banks = banks(page_size);
        let mut random = Seed::new(seed);
        let mut given = Given::new();
        with_buddy(page_size, &banks, |buddy| -> Result<(), TestCaseError> {
            let fresh = buddy.to_string();
            let total = buddy.free_bytes();
            for _ in 0..steps {
                let order = random.index(random_limit(&mut Seed::new(seed)));
                if random.index(5) < 3 {
                    let Some(start) = buddy.allocate(order) else { continue };
                    let block = range(start.bits(), buddy.block_bytes(order));
                    prop_assert!(start.is_aligned(buddy.block_bytes(order)));
                    check_new(&given, &banks, block)?;
                    given.insert(start.bits(), (block.end.bits(), order));
                } else if let Some((&start, &(_, order))) = given.range(random.bits() % (1 << 52)..).next() {
                    given.remove(&start);
                    prop_assert_eq!(buddy.free(PhysAddr::new(start), order), Ok(()));
                    prop_assert!(buddy.free(PhysAddr::new(start), order).is_err());
                }
                let given_bytes: u64 = given.iter().map(|(start, (end, _))| end - start).sum();
                prop_assert_eq!((buddy.given_bytes(), buddy.free_bytes()), (given_bytes, total - given_bytes));
            }
            for (start, (_, order)) in given {
                prop_assert_eq!(buddy.free(PhysAddr::new(start), order), Ok(()));
            }
            prop_assert_eq!(buddy.to_string(), fresh);
            Ok(())
        })?;
    }

    /// Memory added piece by piece, in any order, is the same as memory added at once; a piece again is refused.
    #[test]
    fn pieces_join(seed: u64, cuts in prop::collection::btree_set(1..40_000u64, 0..30)) {
        let bank = range(0x1234_5000, 40_000 * 4096);
        let mut ends: Vec<u64> = cuts.into_iter().chain([0, 40_000]).map(|page| 0x1234_5000 + page * 4096).collect();
        ends.sort();
        let mut pieces: Vec<_> = ends.windows(2).map(|pair| range(pair[0], pair[1] - pair[0])).collect();
        let mut random = Seed::new(seed);
        (1..pieces.len()).for_each(|index| pieces.swap(index, random.index(index + 1)));
        let layout = Layout::new(PageSize::Size4K, [bank].into_iter());
        let mut notes = vec![0; layout.words()];
        let mut buddy = Buddy::new(&layout, &mut notes).unwrap();
        for &piece in &pieces {
            prop_assert_eq!(buddy.add(piece), Ok(()));
            prop_assert_eq!(buddy.add(piece), Err(AddError::Known(piece)));
        }
        let at_once = with_buddy(PageSize::Size4K, &[bank], |buddy| buddy.to_string());
        prop_assert_eq!(buddy.to_string(), at_once);
    }
}

proptest! {
    /// What is removed is given to nobody; what is left is as if nothing else had ever been added, and added again it joins.
    #[test]
    fn what_is_removed_is_not_there(size in 0..3usize, starts in prop::collection::vec((0..40_000u64, 1..9_000u64), 1..6)) {
        let page_size = PageSize::ALL[size];
        let page = page_size.size_bytes();
        let bank = range(3 * page, 40_000 * page);
        with_buddy(page_size, &[bank], |buddy| -> Result<(), TestCaseError> {
            let whole = buddy.to_string();
            let mut gone: Vec<PhysicalRange> = Vec::new();
            for (start, pages) in starts {
                let part = range((3 + start) * page, pages.min(40_000 - start) * page);
                let is_there = gone.iter().all(|other| !other.overlaps(&part));
                prop_assert_eq!(buddy.remove(part).is_ok(), is_there);
                gone.extend(is_there.then_some(part));
                gone.sort();
                let rest: Vec<_> = bank.without(&gone).collect();
                prop_assert_eq!(buddy.to_string(), with_buddy(page_size, &rest, |fresh| fresh.to_string()));
            }
            let free: Vec<_> = core::iter::from_fn(|| buddy.allocate(0)).collect();
            prop_assert!(free.iter().all(|page| gone.iter().all(|range| !range.contains(*page))));
            free.iter().for_each(|page| buddy.free(*page, 0).unwrap());
            gone.iter().for_each(|part| buddy.add(*part).unwrap());
            prop_assert_eq!(buddy.to_string(), whole);
            Ok(())
        })?;
    }
}

/// Some runs ask for small blocks only, some for all.
fn random_limit(random: &mut Seed) -> usize {
    1 + random.index(MAX_ORDER + 2)
}
