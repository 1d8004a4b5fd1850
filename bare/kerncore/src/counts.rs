//! How many have each page of memory. A folio is counted whole, in the word of its first page, until somebody has a part of it more or
//! less often than the rest: then it dissolves, and each of its pages counts for itself until it is free.
//!
//! ```text
//!   whole        │ 2 of 4 pages             │ see the first │ see the first │ see the first │
//!   dissolving   │ 2 of 4 pages, dissolving │ see the first │ 2             │ 2             │   the last page first
//!   by pages     │ 2                        │ 2             │ 2             │ 2             │
//! ```
//! Nobody waits: while a folio dissolves the count stays, and who meets that goes through with it as well. Each step is made once, whoever
//! makes it: that it was late finds its word changed, which nobody changes back as long as one has any of the pages. What the words
//! of free pages say is left over.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

/// The word of a page.
pub trait Word {
    /// See [`AtomicU32::load`].
    fn load(&self, order: Ordering) -> u32;
    /// See [`AtomicU32::store`].
    fn store(&self, value: u32, order: Ordering);
    /// See [`AtomicU32::compare_exchange`]: whether it was `from`. Where it was not, nothing is ordered.
    fn exchange(&self, from: u32, to: u32, order: Ordering) -> bool;
    /// See [`AtomicU32::fetch_add`].
    fn fetch_add(&self, value: u32, order: Ordering) -> u32;
    /// See [`AtomicU32::fetch_sub`].
    fn fetch_sub(&self, value: u32, order: Ordering) -> u32;
}

impl Word for AtomicU32 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }

    #[inline(always)]
    fn store(&self, value: u32, order: Ordering) {
        self.store(value, order);
    }

    #[inline(always)]
    fn exchange(&self, from: u32, to: u32, order: Ordering) -> bool {
        self.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.fetch_add(value, order)
    }

    #[inline(always)]
    fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        self.fetch_sub(value, order)
    }
}

/// The page is counted as one of a folio. Without this bit the word is how many have the page.
const FOLIO: u32 = 1 << 31;
/// It is the first one, and has the count.
const FIRST: u32 = 1 << 30;
/// Pages of the folio are being given counts of their own.
const DISSOLVING: u32 = 1 << 29;
/// Where the folio's order is: told by each page, so that a word that is left over from another folio agrees with no first page.
const ORDER_SHIFT: u32 = 25;
/// How many have the folio: more than there can be processes.
const COUNT: u32 = (1 << ORDER_SHIFT) - 1;

const fn member(order: u32) -> u32 {
    FOLIO | order << ORDER_SHIFT
}

const fn order(word: u32) -> u32 {
    (word & !(FOLIO | FIRST | DISSOLVING)) >> ORDER_SHIFT
}

/// The counts of pages side by side, which are named by their places among them. Who shares and releases a page has it.
pub struct Counts<'w, W> {
    /// The number of the first page in memory, by which folios are aligned.
    first: usize,
    words: &'w [W],
}

impl<'w, W: Word> Counts<'w, W> {
    /// The words of pages of which the first has this number in memory: zeros, of which nobody has one.
    pub const fn new(first: usize, words: &'w [W]) -> Self {
        Self { first, words }
    }

    /// How many pages there are.
    #[inline]
    pub const fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// One has a page that nobody had.
    #[inline]
    pub fn take(&self, page: usize) {
        self.words[page].store(1, Ordering::Relaxed);
    }

    /// One has `1 << order` pages that nobody had, aligned to their size.
    pub fn take_folio(&self, first: usize, order: u32) {
        let Some((head, rest)) = self.words[first..first + (1 << order)].split_first() else { return };
        head.store(member(order) | FIRST | 1, Ordering::Relaxed);
        rest.iter().for_each(|word| word.store(member(order), Ordering::Relaxed));
    }

    /// One more has a page.
    #[inline]
    pub fn share(&self, page: usize) {
        let word = &self.words[page];
        if word.load(Ordering::Relaxed) & FOLIO != 0 {
            self.dissolve(page);
        }
        word.fetch_add(1, Ordering::Relaxed);
    }

    /// One less has a page. Whether it is free by that.
    #[inline]
    pub fn release(&self, page: usize) -> bool {
        let word = &self.words[page];
        if is_freed(word) {
            return true;
        }
        if word.load(Ordering::Relaxed) & FOLIO != 0 {
            self.dissolve(page);
        }
        word.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// One more has each of these.
    pub fn share_run(&self, pages: Range<usize>) {
        let mut at = pages.start;
        while at < pages.end {
            at += self.share_folios(at..pages.end);
            at += self.share_pairs(at..pages.end);
            if at == pages.end {
                return;
            }
            let word = &self.words[at];
            let found = word.load(Ordering::Relaxed);
            if found & FOLIO == 0 {
                word.fetch_add(1, Ordering::Relaxed);
                at += 1;
            } else {
                // Of a folio that was whole somebody else may have been faster: then it is looked at once more.
                let _ = self.whole(at, found, pages.end);
            }
        }
    }

    /// The same of folios that are counted whole, up to the first that is not. How many pages those have.
    fn share_folios(&self, pages: Range<usize>) -> usize {
        let mut words = &self.words[pages];
        let all = words.len();
        while let Some(word) = words.first() {
            let found = word.load(Ordering::Relaxed);
            let size = 1 << order(found);
            let is_whole = found & (FOLIO | FIRST | DISSOLVING) == FOLIO | FIRST && size <= words.len();
            if !is_whole || !word.exchange(found, found + 1, Ordering::Relaxed) {
                break;
            }
            words = &words[size..];
        }
        all - words.len()
    }

    /// The same of pages that count for themselves, two at once, up to the first that does not. How many those were.
    fn share_pairs(&self, pages: Range<usize>) -> usize {
        if !(pages.start + self.first).is_multiple_of(2) {
            return 0;
        }
        let (pairs, _) = self.words[pages].as_chunks::<2>();
        let share = |[one, other]: &&[W; 2]| {
            // Both are of one folio, or of none, and of a folio the other is the first to count for itself.
            let are_counted = one.load(Ordering::Acquire) & FOLIO == 0;
            if are_counted {
                one.fetch_add(1, Ordering::Relaxed);
                other.fetch_add(1, Ordering::Relaxed);
            }
            are_counted
        };
        2 * pairs.iter().take_while(share).count()
    }

    /// One less has each of these. Those that are free by that are told, side by side.
    pub fn release_run(&self, pages: Range<usize>, mut free: impl FnMut(Range<usize>)) {
        let (mut start, mut at) = (pages.start, pages.start);
        while at < pages.end {
            at += self.words[at..pages.end].iter().take_while(|word| is_freed(*word)).count();
            if at == pages.end {
                break;
            }
            let Some((size, is_free)) = self.release_of_run(at, pages.end) else { continue };
            if !is_free {
                if start < at {
                    free(start..at);
                }
                start = at + size;
            }
            at += size;
        }
        if start < pages.end {
            free(start..pages.end);
        }
    }

    /// One less has a page that others have, or its folio. How many pages that was, and whether they are free; `None` to look again.
    fn release_of_run(&self, at: usize, end: usize) -> Option<(usize, bool)> {
        let word = &self.words[at];
        let found = word.load(Ordering::Relaxed);
        if found & FOLIO == 0 {
            return Some((1, word.fetch_sub(1, Ordering::AcqRel) == 1));
        }
        let size = self.whole(at, found, end)?;
        word.exchange(found, found - 1, Ordering::AcqRel).then_some((size, found & COUNT == 1))
    }

    /// How many pages the folio has that begins here, is counted whole, and ends before `end`. Of any other none is left.
    #[inline(never)]
    fn whole(&self, at: usize, found: u32, end: usize) -> Option<usize> {
        let size = 1 << order(found);
        if found & (FIRST | DISSOLVING) == FIRST && size <= end - at {
            return Some(size);
        }
        self.dissolve(at);
        None
    }

    /// The place of the first page of the folio of this order around a page.
    const fn first_of(&self, page: usize, order: u32) -> usize {
        ((page + self.first) >> order << order) - self.first
    }

    /// The first page of the folio that a page's word tells of, and what that one's says, if it has the count of such a folio.
    fn find(&self, page: usize, found: u32) -> Option<(usize, u32)> {
        let first = self.first_of(page, order(found));
        let word = self.words[first].load(Ordering::Acquire);
        (word & !(DISSOLVING | COUNT) == member(order(found)) | FIRST).then_some((first, word))
    }

    /// A page counts for itself from now on, and so does each of its folio.
    #[cold]
    #[inline(never)]
    fn dissolve(&self, page: usize) {
        loop {
            let found = self.words[page].load(Ordering::Acquire);
            if found & FOLIO == 0 {
                return;
            }
            let Some((first, word)) = self.find(page, found) else {
                let now = self.words[page].load(Ordering::Relaxed);
                return assert!(now & FOLIO == 0, "who shares or releases a page has it");
            };
            let head = &self.words[first];
            let dissolving = word | DISSOLVING;
            // From here on the count stays.
            if word != dissolving && !head.exchange(word, dissolving, Ordering::Acquire) {
                continue;
            }
            let (order, count) = (order(found), word & COUNT);
            for member_of in self.words[first + 1..first + (1 << order)].iter().rev() {
                // One that is not as it was counts for itself already, by somebody else's doing.
                member_of.exchange(member(order), count, Ordering::Release);
            }
            // Behind the others, which find their count here until they have one.
            head.exchange(dissolving, count, Ordering::Release);
        }
    }

    /// How many have a page: 0 if nobody has it, be it that it was a folio's once.
    #[inline]
    pub fn holders(&self, page: usize) -> u32 {
        let found = self.words[page].load(Ordering::Acquire);
        if found & FOLIO == 0 { found } else { self.holders_of_folio(page, found) }
    }

    #[inline(never)]
    fn holders_of_folio(&self, page: usize, found: u32) -> u32 {
        if let Some((_, word)) = self.find(page, found) {
            return word & COUNT;
        }
        // It has dissolved meanwhile, or is free.
        let now = self.words[page].load(Ordering::Acquire);
        if now & FOLIO == 0 { now } else { 0 }
    }
}

/// Makes a page free that the caller has alone. Whether this is one.
#[inline]
fn is_freed(word: &impl Word) -> bool {
    // Whoever had it is done with it before another takes it.
    let is_sole = word.load(Ordering::Acquire) == 1;
    if is_sole {
        // Nobody else has it, so that nobody else changes this.
        word.store(0, Ordering::Relaxed);
    }
    is_sole
}
