//! Which physical memory there is, and who has it: a sorted set of disjoint ranges, each of one kind.
//!
//! ```text
//!   0x40000000       0x40200000  0x40800000      0x48000000 0x48100000                0xc0000000
//!   |      free      |   image   |      free     |device tree|         free           |
//! ```
//!
//! It is made from the device tree, the early allocator takes from it, and the buddy allocator starts with what is free
//! then. Ranges are byte-granular; whole pages are cut from them inward when asked for.

mod kind;
mod make;
pub(crate) mod problem;

pub use kind::{Kind, MAX_RANGES, Purpose};
pub use make::Occupants;
pub use problem::Problem;

use core::fmt;

use vmsa::{PageSize, PhysAddr};

use crate::list::List;
use crate::range::{Bytes, PHYSICAL_END, PhysicalRange};

/// A piece of memory and who has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Never empty.
    pub range: PhysicalRange,
    /// Who has it.
    pub kind: Kind,
}

/// The map has no room for another range, and no free range is left that could be forgotten for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapFull;

/// What may come and go: a large leaf of every page size, a block of 4K pages, a contiguous group of others.
pub const COMING_BYTES: u64 = 2 << 20;

/// The map: about 5 KiB, so keep it in a static. Operations take time linear in the number of ranges.
#[derive(Clone)]
pub struct MemoryMap {
    /// Sorted, disjoint, and no two that touch are of the same kind.
    pieces: List<Piece, MAX_RANGES>,
    /// Free memory that was forgotten for want of room.
    forgotten_bytes: u64,
}

impl MemoryMap {
    /// No memory.
    pub const fn new() -> Self {
        let filler = Piece { range: PhysicalRange::EMPTY, kind: Kind::Lost };
        Self { pieces: List::new(filler), forgotten_bytes: 0 }
    }

    /// Every piece, from the lowest address.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Makes all of `range` memory of `kind`, whatever was there.
    pub fn insert(&mut self, range: PhysicalRange, kind: Kind) -> Result<(), MapFull> {
        if range.is_empty() {
            return Ok(());
        }
        // What removing needs and leaves is room enough for the new piece.
        self.remove(range)?;
        let index = self.pieces.partition_point(|piece| piece.range.start < range.start);
        self.pieces.insert(index, Piece { range, kind }).map_err(|_| MapFull)?;
        self.coalesce();
        Ok(())
    }

    /// Makes `range` no memory.
    pub fn remove(&mut self, range: PhysicalRange) -> Result<(), MapFull> {
        self.split_at_ends(range)?;
        while let Some(index) = self.pieces.iter().position(|piece| range.overlaps(&piece.range)) {
            self.pieces.remove(index);
        }
        Ok(())
    }

    /// Gives what memory there is in `range` to `kind`.
    pub fn mark(&mut self, range: PhysicalRange, kind: Kind) -> Result<(), MapFull> {
        self.split_at_ends(range)?;
        for piece in self.pieces.iter_mut().filter(|piece| range.overlaps(&piece.range)) {
            piece.kind = kind;
        }
        self.coalesce();
        Ok(())
    }

    /// Makes memory at and above `limit` `Lost`, and returns how many bytes were not yet, whoever had them.
    pub fn clip(&mut self, limit: PhysAddr) -> Result<u64, MapFull> {
        let lost_before = self.bytes(|kind| kind == Kind::Lost);
        self.mark(PhysicalRange::new(limit, PHYSICAL_END), Kind::Lost)?;
        Ok(self.bytes(|kind| kind == Kind::Lost) - lost_before)
    }

    /// Withholds so many bytes of free memory, from the top, in units of what may come and go, but no more than half. How many it was.
    pub fn withhold(&mut self, bytes: u64) -> Result<u64, MapFull> {
        let half = self.bytes(|kind| kind == Kind::Free) / 2;
        let wanted = bytes.min(half) / COMING_BYTES * COMING_BYTES;
        let mut left = wanted;
        while left > 0 {
            let free = self.pieces.iter().rev().filter(|piece| piece.kind == Kind::Free);
            let mut whole = free.map(|piece| piece.range.shrink_to(COMING_BYTES)).filter(|range| !range.is_empty());
            let Some(range) = whole.next() else { break };
            let taken = range.size_bytes().min(left);
            self.mark(PhysicalRange::new(PhysAddr::new(range.end.bits() - taken), range.end), Kind::Withheld)?;
            left -= taken;
        }
        Ok(wanted - left)
    }

    /// Whether a range can be given to somebody else, and nothing is forgotten for it.
    pub fn has_room(&self) -> bool {
        self.pieces.room() >= 2
    }

    /// Whether all of `range` is memory of a kind that `is_meant`.
    pub fn is_all(&self, range: PhysicalRange, is_meant: impl Fn(Kind) -> bool) -> bool {
        self.joined(is_meant).any(|joined| joined.covers(&range))
    }

    /// Who has the memory at `address`; `None` where there is none.
    pub fn kind_at(&self, address: PhysAddr) -> Option<Kind> {
        self.pieces.iter().find(|piece| piece.range.contains(address)).map(|piece| piece.kind)
    }

    /// Memory whoever has it, touching pieces taken as one: the machine's RAM, less what was forgotten.
    pub fn ram(&self) -> impl Iterator<Item = PhysicalRange> {
        self.joined(|_| true)
    }

    /// What the linear map covers: the whole pages of RAM that may be mapped and can be reached, whoever has them.
    pub fn mapped(&self, page_size: PageSize) -> impl Iterator<Item = PhysicalRange> {
        self.joined(Kind::is_mapped)
            .map(move |range| range.shrink_to_pages(page_size))
            .filter(|range| !range.is_empty())
    }

    /// The same, and what is withheld: all that it may ever cover.
    pub fn mappable(&self, page_size: PageSize) -> impl Iterator<Item = PhysicalRange> {
        self.joined(|kind| kind.is_mapped() || kind == Kind::Withheld)
            .map(move |range| range.shrink_to_pages(page_size))
            .filter(|range| !range.is_empty())
    }

    /// The whole pages of free memory.
    pub fn free(&self, page_size: PageSize) -> impl DoubleEndedIterator<Item = PhysicalRange> {
        let free = self.pieces.iter().filter(|piece| piece.kind == Kind::Free);
        free.map(move |piece| piece.range.shrink_to_pages(page_size)).filter(|range| !range.is_empty())
    }

    /// How many bytes are of a kind that `is_meant`.
    pub fn bytes(&self, is_meant: impl Fn(Kind) -> bool) -> u64 {
        self.pieces.iter().filter(|piece| is_meant(piece.kind)).map(|piece| piece.range.size_bytes()).sum()
    }

    /// How many free bytes were forgotten because the map had no room for another range.
    pub fn forgotten_bytes(&self) -> u64 {
        self.forgotten_bytes
    }

    /// Ranges of the pieces chosen by kind, those that touch made one.
    fn joined(&self, is_meant: impl Fn(Kind) -> bool) -> impl Iterator<Item = PhysicalRange> {
        let mut pieces =
            self.pieces.iter().filter(move |piece| is_meant(piece.kind)).map(|piece| piece.range).peekable();
        core::iter::from_fn(move || {
            let mut joined = pieces.next()?;
            while let Some(next) = pieces.next_if(|next| next.start == joined.end) {
                joined.end = next.end;
            }
            Some(joined)
        })
    }

    /// Cuts pieces so that none crosses an end of `range`; an empty range has no ends.
    fn split_at_ends(&mut self, range: PhysicalRange) -> Result<(), MapFull> {
        if range.is_empty() {
            return Ok(());
        }
        self.make_room(range)?;
        for address in [range.start, range.end] {
            let crosses = |piece: &Piece| piece.range.start < address && address < piece.range.end;
            let Some(index) = self.pieces.iter().position(crosses) else { continue };
            let upper =
                Piece { range: PhysicalRange::new(address, self.pieces[index].range.end), ..self.pieces[index] };
            self.pieces[index].range.end = address;
            self.pieces.insert(index + 1, upper).map_err(|_| MapFull)?;
        }
        Ok(())
    }

    /// Forgets the smallest free pieces until two more fit, as many as one operation adds. What is free in `needed` stays:
    /// to forget it would undo what the caller is about to do.
    fn make_room(&mut self, needed: PhysicalRange) -> Result<(), MapFull> {
        while self.pieces.room() < 2 {
            let spare = |piece: &Piece| piece.kind == Kind::Free && !piece.range.overlaps(&needed);
            let candidates = self.pieces.iter().enumerate().filter(|(_, piece)| spare(piece));
            let smallest = candidates.min_by_key(|(_, piece)| piece.range.size_bytes()).map(|(index, _)| index);
            self.forgotten_bytes += self.pieces.remove(smallest.ok_or(MapFull)?).range.size_bytes();
        }
        Ok(())
    }

    /// Joins touching pieces of the same kind.
    fn coalesce(&mut self) {
        let mut index = 1;
        while index < self.pieces.len() {
            let (before, piece) = (self.pieces[index - 1], self.pieces[index]);
            if before.kind == piece.kind && before.range.end == piece.range.start {
                self.pieces[index - 1].range.end = piece.range.end;
                self.pieces.remove(index);
            } else {
                index += 1;
            }
        }
    }
}

impl Default for MemoryMap {
    fn default() -> Self {
        Self::new()
    }
}

/// A line per piece: `0x0000000040000000-0x000000005fffffff     512M  free`, ends inclusive.
impl fmt::Display for MemoryMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Piece { range, kind } in self.pieces() {
            writeln!(f, "{range}{:>9}  {kind}", Bytes(range.size_bytes()))?;
        }
        Ok(())
    }
}
