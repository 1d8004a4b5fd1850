//! The pages of a realm's pool: nobody gets one twice, and a piece goes back as soon as it is free.

use std::collections::{BTreeMap, BTreeSet};

use kerncore::pool::{PIECE_BYTES, Pool};
use kerncore::range::PhysicalRange;
use proptest::prelude::*;
use vmsa::PhysAddr;

const START: u64 = 0x4000_0000;

fn piece(number: u64, bytes: u64) -> PhysicalRange {
    PhysicalRange::from_size(PhysAddr::new(START + number * PIECE_BYTES), bytes)
}

#[test]
fn a_thousand_pages_are_of_the_fewest_pieces() {
    for page_shift in [12, 14, 16] {
        let pages_of_piece = (PIECE_BYTES >> page_shift) as usize;
        let (mut pool, mut pieces, mut pages) = (Pool::new(page_shift), 0, vec![]);
        while pages.len() < 1000 {
            match pool.take() {
                Some(page) => pages.push(page),
                None => {
                    pool.add(piece(pieces, PIECE_BYTES)).unwrap();
                    pieces += 1;
                }
            }
        }
        assert_eq!(pieces as usize, 1000usize.div_ceil(pages_of_piece));
        assert_eq!(pool.counts(), (pieces as usize, 1000));
        let freed = pages.into_iter().filter_map(|page| pool.free(page)).count();
        assert_eq!((freed, pool.counts()), (pieces as usize, (0, 0)));
    }
}

#[test]
fn the_next_page_is_of_the_fullest_piece() {
    let mut pool = Pool::new(12);
    pool.add(piece(0, 3 * 4096)).unwrap();
    pool.add(piece(1, 3 * 4096)).unwrap();
    let all: Vec<_> = core::iter::from_fn(|| pool.take()).collect();
    assert_eq!(all.len(), 6);
    // Two are left in one piece, one in the other: that one runs empty, if it is not asked for more.
    let of = |number: usize| all.iter().copied().filter(move |page| piece(number as u64, 3 * 4096).contains(*page));
    let (few, many): (Vec<_>, Vec<_>) = (of(0).collect(), of(1).collect());
    assert_eq!([few[0], few[2], many[1]].map(|page| pool.free(page)), [None; 3]);
    assert_eq!(pool.take(), Some(many[1]));
    assert_eq!(pool.free(few[1]), Some(piece(0, 3 * 4096)));
    assert_eq!(pool.take(), None);
}

#[test]
#[should_panic(expected = "a page that is taken")]
fn a_page_is_not_freed_twice() {
    let mut pool = Pool::new(12);
    pool.add(piece(0, 4 * 4096)).unwrap();
    let [one, _] = [pool.take().unwrap(), pool.take().unwrap()];
    pool.free(one);
    pool.free(one);
}

proptest! {
    #[test]
    fn it_is_a_set_of_pages(steps in prop::collection::vec((0usize..4, any::<prop::sample::Index>(), 0u32..10), 0..400), shift in prop::sample::select(vec![12u32, 14, 16])) {
        let mut pool = Pool::new(shift);
        let (mut taken, mut pieces, mut next) = (BTreeSet::new(), BTreeMap::new(), 0);
        for (what, which, order) in steps {
            if what == 0 && !taken.is_empty() {
                let page = *which.get(&taken.iter().copied().collect::<Vec<u64>>());
                taken.remove(&page);
                let (&start, &end) = pieces.range(..=page).next_back().unwrap();
                let is_free = taken.range(start..end).next().is_none();
                let gone = pool.free(PhysAddr::new(page));
                prop_assert_eq!(gone.map(|gone| (gone.start.bits(), gone.end.bits())), is_free.then_some((start, end)));
                if is_free {
                    pieces.remove(&start);
                }
                continue;
            }
            match pool.take() {
                Some(page) => {
                    let (_, &end) = pieces.range(..=page.bits()).next_back().unwrap();
                    prop_assert!(page.bits() + (1 << shift) <= end && page.bits().is_multiple_of(1 << shift));
                    prop_assert!(taken.insert(page.bits()), "nobody has it");
                }
                None => {
                    let room: u64 = pieces.iter().map(|(start, end)| (end - start) >> shift).sum();
                    prop_assert_eq!(room as usize, taken.len());
                    let range = piece(next, (1 << order.min(21 - shift)) << shift);
                    if pool.add(range).is_ok() {
                        pieces.insert(range.start.bits(), range.end.bits());
                    }
                    next += 1;
                }
            }
            prop_assert_eq!(pool.counts(), (pieces.len(), taken.len()));
        }
    }
}
