//! Pages of a realm that are shared one by one: from pieces that are shared as a whole, each as large as a large leaf, so that the linear
//! map is not torn.
//!
//! ```text
//! piece  |taken|taken|free|taken|   ◀── the next page: the first free one of the piece with the most taken
//! piece  |free |taken|free|free |
//! piece  |free |free |free|free |   ──▶ taken back, and its leaf is whole again
//! ```

use vmsa::PhysAddr;

use crate::list::{Full, List};
use crate::range::PhysicalRange;

/// Bytes of a piece, where memory is not in smaller ones: a block of 4K pages, a contiguous group of larger ones.
pub const PIECE_BYTES: u64 = 2 << 20;
/// Pages of a piece, at most.
const MOST_PAGES: usize = 512;
/// Pieces of a pool, at most.
const MOST_PIECES: usize = 128;
const WORDS: usize = MOST_PAGES / WORD_BITS;
const WORD_BITS: usize = u64::BITS as usize;

#[derive(Clone, Copy, Debug)]
struct Piece {
    range: PhysicalRange,
    /// A bit for each page that is taken, and for each behind the last.
    taken: [u64; WORDS],
    /// Pages that are taken.
    count: usize,
}

impl Piece {
    const NONE: Self = Self { range: PhysicalRange::EMPTY, taken: [0; WORDS], count: 0 };

    fn first_free(&self) -> Option<usize> {
        let (number, word) = self.taken.iter().enumerate().find(|(_, word)| **word != u64::MAX)?;
        Some(number * WORD_BITS + word.trailing_ones() as usize)
    }
}

/// The pool: who has which page. Whether they are shared is the caller's affair.
pub struct Pool {
    page_shift: u32,
    pieces: List<Piece, MOST_PIECES>,
}

impl Pool {
    /// Without a piece, for pages of `1 << page_shift` bytes.
    pub const fn new(page_shift: u32) -> Self {
        Self { page_shift, pieces: List::new(Piece::NONE) }
    }

    /// Adds a piece whose pages are free: whole pages, 512 at most.
    pub fn add(&mut self, range: PhysicalRange) -> Result<(), Full> {
        let pages = (range.size_bytes() >> self.page_shift) as usize;
        assert!((1..=MOST_PAGES).contains(&pages), "a piece has 1 to {MOST_PAGES} pages");
        let mut piece = Piece { range, ..Piece::NONE };
        for page in pages..MOST_PAGES {
            piece.taken[page / WORD_BITS] |= 1 << (page % WORD_BITS);
        }
        self.pieces.push(piece)
    }

    /// Takes a page, unless every piece is full.
    pub fn take(&mut self) -> Option<PhysAddr> {
        let with_room = self.pieces.iter_mut().filter_map(|piece| Some((piece.first_free()?, piece)));
        let (page, piece) = with_room.max_by_key(|(_, piece)| piece.count)?;
        piece.taken[page / WORD_BITS] |= 1 << (page % WORD_BITS);
        piece.count += 1;
        Some(piece.range.start + ((page as u64) << self.page_shift))
    }

    /// Takes a page back. Gives the piece that is free by that, which is no longer the pool's.
    pub fn free(&mut self, page: PhysAddr) -> Option<PhysicalRange> {
        let place = self.pieces.iter().position(|piece| piece.range.contains(page)).expect("a page of the pool's");
        let piece = &mut self.pieces[place];
        let number = ((page - piece.range.start) >> self.page_shift) as usize;
        let bit = 1 << (number % WORD_BITS);
        assert!(piece.taken[number / WORD_BITS] & bit != 0, "a page that is taken");
        piece.taken[number / WORD_BITS] &= !bit;
        piece.count -= 1;
        (piece.count == 0).then(|| self.pieces.remove(place).range)
    }

    /// Pieces, and pages of them that are taken.
    pub fn counts(&self) -> (usize, usize) {
        (self.pieces.len(), self.pieces.iter().map(|piece| piece.count).sum())
    }
}
