//! The counts of pages beside a list of them, where nobody else counts: all that a folio's count in one word leaves to be seen is how
//! many have each page. (`checks/tests/counts` has several CPUs count.)

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use kerncore::counts::Counts;
use proptest::prelude::*;

const PAGES: usize = 32;
/// The number of the first page: no folio of two begins there.
const FIRST: usize = 5;

fn words() -> Vec<AtomicU32> {
    (0..PAGES).map(|_| AtomicU32::new(0)).collect()
}

/// Where each run of pages that are free by that begins, and ends.
fn freed(counts: &Counts<'_, AtomicU32>, pages: Range<usize>) -> Vec<(usize, usize)> {
    let mut freed = vec![];
    counts.release_run(pages, |free| freed.push((free.start, free.end)));
    freed
}

#[test]
fn what_all_have_alike_is_one_step() {
    let words = words();
    let counts = Counts::new(FIRST, &words);
    counts.take_folio(3, 3);
    counts.take_folio(11, 3);
    counts.share_run(3..19);
    // Only the first page of each has changed.
    let now: Vec<_> = words[3..19].iter().map(|word| word.load(Ordering::Relaxed)).collect();
    assert_eq!((&now[1..8], &now[9..16]), (&[now[1]; 7][..], &[now[1]; 7][..]));
    assert_eq!(freed(&counts, 3..19), []);
    assert_eq!(freed(&counts, 3..19), [(3, 19)]);
    assert!((0..PAGES).all(|page| counts.holders(page) == 0));
}

#[test]
fn what_free_pages_say_is_not_believed() {
    let words = words();
    let counts = Counts::new(FIRST, &words);
    counts.take_folio(3, 3);
    assert_eq!(freed(&counts, 3..11), [(3, 11)]);
    assert_eq!(counts.holders(7), 0);
    // The first page is a folio's again, which is smaller: the others are none of its pages.
    counts.take_folio(3, 1);
    assert_eq!([3, 4, 5, 7].map(|page| counts.holders(page)), [1, 1, 0, 0]);
    counts.take(7);
    counts.share(7);
    assert_eq!([6, 7, 8].map(|page| counts.holders(page)), [0, 2, 0]);
    // Or it is a page alone.
    assert_eq!(freed(&counts, 3..5), [(3, 5)]);
    counts.take(3);
    assert_eq!([3, 4, 5].map(|page| counts.holders(page)), [1, 0, 0]);
}

#[test]
#[should_panic(expected = "who shares or releases a page has it")]
fn a_page_that_nobody_has_is_not_released() {
    let words = words();
    let counts = Counts::new(FIRST, &words);
    counts.take_folio(3, 3);
    assert_eq!(freed(&counts, 3..11), [(3, 11)]);
    counts.take(3);
    counts.release(4);
}

proptest! {
    #[test]
    fn they_count_as_a_list_does(steps in prop::collection::vec((0..6, 0..PAGES, 1..PAGES, 1u32..4), 1..120)) {
        let words = words();
        let counts = Counts::new(FIRST, &words);
        let mut list = [0; PAGES];
        for (what, first, length, order) in steps {
            // As far as all have what is shared or released, or nobody has what is taken.
            let is_taken = what < 2;
            let run = first..first + list[first..].iter().take(length).take_while(|have| (**have == 0) == is_taken).count();
            match what {
                _ if run.is_empty() => {}
                0 => {
                    counts.take(first);
                    list[first] = 1;
                }
                1 => {
                    let start = (first + FIRST).next_multiple_of(1 << order) - FIRST;
                    if start + (1 << order) <= run.end {
                        counts.take_folio(start, order);
                        list[start..start + (1 << order)].fill(1);
                    }
                }
                2 => {
                    counts.share(first);
                    list[first] += 1;
                }
                3 => {
                    counts.share_run(run.clone());
                    list[run].iter_mut().for_each(|have| *have += 1);
                }
                4 => {
                    list[first] -= 1;
                    prop_assert_eq!(counts.release(first), list[first] == 0);
                }
                _ => {
                    list[run.clone()].iter_mut().for_each(|have| *have -= 1);
                    let free: Vec<_> = freed(&counts, run.clone()).into_iter().flat_map(|(start, end)| start..end).collect();
                    prop_assert_eq!(free, run.filter(|page| list[*page] == 0).collect::<Vec<_>>());
                }
            }
            let told: Vec<_> = (0..PAGES).map(|page| counts.holders(page)).collect();
            prop_assert_eq!(&told[..], &list[..]);
        }
    }
}
