//! Physical memory kept in a file: pieces of it, each at an offset.
//!
//! Reads go through `pread` into the caller's table-sized buffer. That is as fast as a mapping for tables, needs no
//! `unsafe`, and a file that shrinks meanwhile is an error instead of a signal.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use vmsa::PhysAddr;

use crate::contents::Contents;
use crate::memory::{END, Memory, ReadError, join};
use crate::{Error, interrupt};

/// Where a file keeps one piece of physical memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// The physical address of its first byte.
    pub(crate) start: u64,
    /// Bytes of memory.
    pub(crate) size_bytes: u64,
    /// Where in the file its first byte is.
    pub(crate) offset: u64,
    /// Bytes of it that the file holds; the rest reads as zeros.
    pub(crate) file_bytes: u64,
}

impl Piece {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.size_bytes)
    }

    /// What it has from `from` up to `to`.
    fn part(&self, from: u64, to: u64) -> Self {
        let skipped = from - self.start;
        Self {
            start: from,
            size_bytes: to - from,
            offset: self.offset.saturating_add(skipped),
            file_bytes: self.file_bytes.saturating_sub(skipped).min(to - from),
        }
    }

    /// Takes in `next` if it carries on where this one ends, in memory and in the file.
    fn join(&mut self, next: &Self) -> bool {
        let joins = self.file_bytes == self.size_bytes
            && self.end() == next.start
            && self.offset.checked_add(self.size_bytes) == Some(next.offset);
        if joins {
            self.size_bytes += next.size_bytes;
            self.file_bytes += next.file_bytes;
        }
        joins
    }
}

/// The same memory in pieces that do not overlap, ascending: of several at one address the one that starts last counts.
fn disjoint(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.retain(|piece| piece.size_bytes > 0);
    pieces.sort_by_key(|piece| piece.start);
    let mut all: Vec<Piece> = Vec::new();
    // Pieces that may go on behind one that starts later; the last is on top.
    let mut open: Vec<Piece> = Vec::new();
    let mut at = 0;
    let last = pieces.last().map(|last| Piece { start: u64::MAX, ..*last });
    for piece in pieces.into_iter().chain(last) {
        while let Some(top) = open.last().filter(|_| at < piece.start) {
            let end = top.end();
            if at < end {
                let part = top.part(at, end.min(piece.start));
                if !all.last_mut().is_some_and(|before| before.join(&part)) {
                    all.push(part);
                }
                at = part.end();
            }
            if end <= at {
                open.pop();
            }
        }
        at = piece.start;
        open.push(piece);
    }
    all
}

/// A file that holds physical memory.
pub struct FileMemory {
    file: Box<dyn Contents>,
    pieces: Vec<Piece>,
    ranges: Vec<Range<u64>>,
    held: Vec<Range<u64>>,
}

impl FileMemory {
    /// The memory in `file` at these pieces. Where pieces overlap, the one that starts last counts. `data` are the parts of the
    /// file that are not zeros, if it can say.
    pub(crate) fn new(file: Box<dyn Contents>, pieces: Vec<Piece>, data: Option<&[Range<u64>]>) -> Self {
        let pieces = disjoint(pieces);
        let ranges = join(pieces.iter().map(|piece| piece.start..piece.end()).collect());
        let held = join(pieces.iter().flat_map(|piece| held(piece, data)).collect());
        Self { file, pieces, ranges, held }
    }

    /// A whole file as the memory from `base` on: a raw image, or the shared file behind a running machine's RAM.
    pub fn open(path: &Path, base: u64) -> Result<Self, Error> {
        let what = path.display();
        let file = File::open(path).map_err(|error| Error::io(&what, &error))?;
        let metadata = file.metadata().map_err(|error| Error::io(&what, &error))?;
        if metadata.is_dir() {
            return Err(Error::new(format!("{what}: a folder, expected a memory image: name a file in it")));
        }
        let size_bytes = metadata.len();
        if size_bytes == 0 {
            return Err(Error::new(format!("{what}: the file is empty, expected a memory image: save it again")));
        }
        if base.checked_add(size_bytes).is_none_or(|end| end > END) {
            let most = END.ilog2();
            return Err(Error::new(format!("{what}: {size_bytes:#x} bytes at {base:#x} do not fit in {most} bits")));
        }
        let data = file.data().map_err(|error| Error::io(&what, &error))?;
        let piece = Piece { start: base, size_bytes, offset: 0, file_bytes: size_bytes };
        Ok(Self::new(Box::new(file), vec![piece], Some(&data)))
    }

    /// Reads what one piece holds of `into`, and says how much that was.
    fn read_piece(&self, at: u64, into: &mut [u8]) -> Result<usize, ReadError> {
        let after = self.pieces.partition_point(|piece| piece.start <= at);
        let piece = self.pieces[..after].last().filter(|piece| at < piece.end()).ok_or(ReadError::Outside)?;
        let within = at - piece.start;
        let bytes = into.len().min(usize::try_from(piece.size_bytes - within).unwrap_or(usize::MAX));
        let held = usize::try_from(piece.file_bytes.saturating_sub(within)).unwrap_or(usize::MAX).min(bytes);
        let (from_file, zeros) = into[..bytes].split_at_mut(held);
        zeros.fill(0);
        let offset = piece.offset.checked_add(within).ok_or(ReadError::Outside)?;
        self.file.read_exact_at(from_file, offset).map_err(|error| why(&error))?;
        Ok(bytes)
    }
}

/// The memory of a piece that lies in data of the file.
fn held<'a>(piece: &'a Piece, data: Option<&'a [Range<u64>]>) -> impl Iterator<Item = Range<u64>> + 'a {
    let end = piece.offset.saturating_add(piece.file_bytes);
    let whole = data.is_none().then_some(piece.offset..end);
    let parts = data.unwrap_or_default();
    let first = parts.partition_point(|part| part.end <= piece.offset);
    let parts = parts[first..].iter().take_while(move |part| part.start < end).cloned();
    whole.into_iter().chain(parts).map(move |part| {
        let (from, to) = (part.start.max(piece.offset), part.end.min(end));
        piece.start + (from - piece.offset)..piece.start + (to - piece.offset)
    })
}

/// A file that ends early or has a hole (`/proc/kcore` over memory that is gone) does not hold the bytes.
fn why(error: &io::Error) -> ReadError {
    match error.raw_os_error() {
        None if error.kind() == io::ErrorKind::UnexpectedEof => ReadError::Outside,
        // EFAULT and ENXIO are how /proc/kcore says so.
        Some(14 | 6) => ReadError::Outside,
        _ => ReadError::Failed(error.to_string()),
    }
}

impl Memory for FileMemory {
    fn read(&mut self, at: PhysAddr, into: &mut [u8]) -> Result<(), ReadError> {
        interrupt::check()?;
        let mut done = 0;
        while done < into.len() {
            let at = at.bits().checked_add(done as u64).ok_or(ReadError::Outside)?;
            done += self.read_piece(at, &mut into[done..])?;
        }
        Ok(())
    }

    fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    fn held(&self) -> &[Range<u64>] {
        &self.held
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn memory(bytes: &[u8], pieces: Vec<Piece>) -> FileMemory {
        let path = std::env::temp_dir().join(format!("vellum-file-{}-{:p}", std::process::id(), &pieces));
        File::create(&path).and_then(|mut file| file.write_all(bytes)).expect("a file");
        let memory = FileMemory::new(Box::new(File::open(&path).expect("the file")), pieces, None);
        std::fs::remove_file(path).expect("removed");
        memory
    }

    #[test]
    fn reads_cross_pieces_and_fill_with_zeros() {
        let first = Piece { start: 0x1000, size_bytes: 4, offset: 0, file_bytes: 2 };
        let second = Piece { start: 0x1004, size_bytes: 4, offset: 2, file_bytes: 4 };
        let mut memory = memory(&[1, 2, 3, 4, 5, 6], vec![second, first]);
        let mut bytes = [9; 8];
        assert_eq!(memory.read(PhysAddr::new(0x1000), &mut bytes), Ok(()));
        assert_eq!(bytes, [1, 2, 0, 0, 3, 4, 5, 6]);
        assert_eq!(memory.read(PhysAddr::new(0x1001), &mut bytes), Err(ReadError::Outside));
        assert_eq!(memory.ranges().first(), Some(&(0x1000..0x1008)));
        assert_eq!(memory.held(), [0x1000..0x1002, 0x1004..0x1008]);
        assert!(memory.holds(PhysAddr::new(0x1002), 6) && !memory.holds(PhysAddr::new(0x1002), 7));
    }

    #[test]
    fn what_is_no_image_is_refused_in_one_line() {
        let refused = |path: &str, base| FileMemory::open(Path::new(path), base).err().map(|error| error.to_string());
        assert_eq!(refused("/", 0).as_deref(), Some("/: a folder, expected a memory image: name a file in it"));
        assert_eq!(
            refused("/dev/null", 0).as_deref(),
            Some("/dev/null: the file is empty, expected a memory image: save it again")
        );
    }

    #[test]
    fn a_file_shorter_than_it_says_is_outside() {
        let piece = Piece { start: u64::MAX - 7, size_bytes: 7, offset: u64::MAX - 2, file_bytes: 7 };
        let mut lying = memory(&[0; 4], vec![piece]);
        assert!(lying.read(PhysAddr::new(u64::MAX - 7), &mut [0; 4]).is_err());
        let piece = Piece { start: 0, size_bytes: 100, offset: 0, file_bytes: 100 };
        let mut short = memory(&[0; 4], vec![piece]);
        assert_eq!(short.read(PhysAddr::new(0), &mut [0; 8]), Err(ReadError::Outside));
    }

    /// Against a plain search for each byte: of the pieces that hold it, the one that starts last.
    #[test]
    fn of_pieces_at_one_address_the_one_that_starts_last_counts() {
        for turn in 0..2000 {
            let mut seed = seed::Seed::new(turn);
            let mut piece = |offset| {
                let size_bytes = seed.below(12);
                Piece { start: seed.below(40), size_bytes, offset, file_bytes: seed.below(size_bytes + 1) }
            };
            let mut pieces: Vec<Piece> = (0..8).map(|place| piece(place * 100)).collect();
            let flat = disjoint(pieces.clone());
            assert!(flat.windows(2).all(|two| two[0].end() <= two[1].start), "{turn}: {flat:?}");
            pieces.sort_by_key(|piece| piece.start);
            let at = |pieces: &[Piece], byte: u64| {
                let piece = pieces.iter().rev().find(|piece| (piece.start..piece.end()).contains(&byte))?;
                let within = byte - piece.start;
                Some((piece.offset + within, within < piece.file_bytes))
            };
            for byte in 0..60 {
                let (found, expected) = (at(&flat, byte), at(&pieces, byte));
                let is_zero = |it: Option<(u64, bool)>| it.is_some_and(|(_, is_held)| !is_held);
                assert!(
                    found == expected || is_zero(found) && is_zero(expected),
                    "{turn}, {byte}: {flat:?} of {pieces:?}"
                );
            }
        }
    }
}
