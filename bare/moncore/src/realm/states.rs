//! The state of every protected page (RIPAS, Arm DEN 0137, A5.2.2): a bit for each, set for RAM.

use core::ops::Range;

use super::GRANULE_BYTES;

/// What a protected address is to the realm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Nothing of the realm's: what the host has there is shared, at the unprotected alias.
    Empty = 0,
    /// The realm's own memory.
    Ram = 1,
}

impl State {
    /// The state of this number in bits 7:0, if a realm may ask for it. The other bits should be 0, and are not looked at.
    pub const fn decode(number: u64) -> Option<Self> {
        match number as u8 {
            0 => Some(Self::Empty),
            1 => Some(Self::Ram),
            _ => None,
        }
    }
}

/// The states of all protected pages. Those behind the last word are EMPTY.
#[derive(Debug)]
pub struct States<'w> {
    words: &'w mut [u64],
}

/// Pages of a word.
const PAGES: u64 = 64;

impl<'w> States<'w> {
    /// How many words hold the states of all pages below `end`.
    pub const fn words(end: u64) -> usize {
        end.div_ceil(GRANULE_BYTES * PAGES) as usize
    }

    /// Everything is EMPTY.
    pub fn new(words: &'w mut [u64]) -> Self {
        words.fill(0);
        Self { words }
    }

    fn word(&self, page: u64) -> u64 {
        usize::try_from(page / PAGES).ok().and_then(|index| self.words.get(index)).copied().unwrap_or(0)
    }

    /// The state of the page of a protected address.
    pub fn state(&self, address: u64) -> State {
        let page = address / GRANULE_BYTES;
        if self.word(page) >> (page % PAGES) & 1 == 1 { State::Ram } else { State::Empty }
    }

    /// The state of the first page of a range of whole pages, which is not empty, and where in it that ends.
    pub fn run(&self, range: Range<u64>) -> (State, u64) {
        let state = self.state(range.start);
        let same = if state == State::Ram { u64::MAX } else { 0 };
        let (mut page, end) = (range.start / GRANULE_BYTES, range.end / GRANULE_BYTES);
        while page < end {
            if page / PAGES >= self.words.len() as u64 {
                // Nothing is RAM from here on.
                let run_end = if state == State::Empty { range.end } else { page * GRANULE_BYTES };
                return (state, run_end);
            }
            let different = (self.word(page) ^ same) >> (page % PAGES);
            match different.trailing_zeros() {
                64 => page = (page / PAGES + 1) * PAGES,
                pages => return (state, ((page + u64::from(pages)) * GRANULE_BYTES).min(range.end)),
            }
        }
        (state, range.end)
    }

    /// Sets the state of a range of whole pages. RAM behind the last word cannot be noted.
    pub fn set(&mut self, range: Range<u64>, state: State) {
        for page in range.start / GRANULE_BYTES..range.end / GRANULE_BYTES {
            let Some(word) = self.words.get_mut((page / PAGES) as usize) else { return };
            let bit = 1 << (page % PAGES);
            *word = if state == State::Ram { *word | bit } else { *word & !bit };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = GRANULE_BYTES;

    #[test]
    fn words_cover_their_pages() {
        assert_eq!([0, 1, PAGE, 64 * PAGE, 64 * PAGE + 1].map(States::words), [0, 1, 1, 1, 2]);
    }

    #[test]
    fn runs_end_where_a_naive_model_says() {
        const PAGES: u64 = 200;
        // Bits of a fixed pattern with long runs, short runs and runs over the ends of words.
        let ram = |page: u64| matches!(page, 3..=70 | 72 | 74..=127 | 130..=191);
        let mut words = [!0; 3];
        let mut states = States::new(&mut words);
        for page in (0..192).filter(|page| ram(*page)) {
            states.set(page * PAGE..(page + 1) * PAGE, State::Ram);
        }
        for start in 0..PAGES {
            for end in start + 1..=PAGES {
                let state = if ram(start) { State::Ram } else { State::Empty };
                let naive = (start..end).find(|page| ram(*page) != ram(start)).unwrap_or(end);
                assert_eq!(states.run(start * PAGE..end * PAGE), (state, naive * PAGE), "{start}..{end}");
            }
        }
    }

    #[test]
    fn what_is_behind_the_last_word_is_empty_however_much_it_is() {
        let mut words = [0; 1];
        let mut states = States::new(&mut words);
        states.set(0..128 * PAGE, State::Ram);
        assert_eq!(states.run(0..1 << 47), (State::Ram, 64 * PAGE));
        assert_eq!(states.run(64 * PAGE..1 << 47), (State::Empty, 1 << 47));
        assert_eq!(states.state(1 << 47), State::Empty);
    }

    #[test]
    fn setting_changes_the_range_and_nothing_else() {
        let mut words = [0; 3];
        let mut states = States::new(&mut words);
        states.set(10 * PAGE..150 * PAGE, State::Ram);
        states.set(60 * PAGE..70 * PAGE, State::Empty);
        let found = (0..192).filter(|page| states.state(page * PAGE + 8) == State::Ram);
        assert!(found.eq((10..60).chain(70..150)));
    }
}
