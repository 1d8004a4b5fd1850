//! Physical memory kept in a file: pieces of it, each at an offset.
//!
//! Reads go through `pread` into the caller's table-sized buffer. That is as fast as a mapping for tables, needs no
//! `unsafe`, and a file that shrinks meanwhile is an error instead of a signal.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use vmsa::PhysAddr;

use crate::memory::{Memory, ReadError, join};
use crate::{Error, interrupt};

/// Where a file keeps one piece of physical memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The physical address of its first byte.
    pub start: u64,
    /// Bytes of memory.
    pub size_bytes: u64,
    /// Where in the file its first byte is.
    pub offset: u64,
    /// Bytes of it that the file holds; the rest reads as zeros.
    pub file_bytes: u64,
}

impl Piece {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.size_bytes)
    }
}

/// A file that holds physical memory.
pub struct FileMemory {
    file: File,
    pieces: Vec<Piece>,
}

impl FileMemory {
    /// The memory in `file` at these pieces. Where pieces overlap, the one that starts last counts.
    pub fn new(file: File, mut pieces: Vec<Piece>) -> Self {
        pieces.retain(|piece| piece.size_bytes > 0);
        pieces.sort_by_key(|piece| piece.start);
        Self { file, pieces }
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
        if base.checked_add(size_bytes).is_none() {
            return Err(Error::new(format!("{what}: {size_bytes:#x} bytes at {base:#x} do not fit in 64 bits")));
        }
        Ok(Self::new(file, vec![Piece { start: base, size_bytes, offset: 0, file_bytes: size_bytes }]))
    }

    fn piece(&self, at: u64) -> Option<&Piece> {
        let after = self.pieces.partition_point(|piece| piece.start <= at);
        self.pieces[..after].iter().rev().find(|piece| at < piece.end())
    }

    /// Reads what one piece holds of `into`, and says how much that was.
    fn read_piece(&self, at: u64, into: &mut [u8]) -> Result<usize, ReadError> {
        let piece = self.piece(at).ok_or(ReadError::Outside)?;
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

    fn ranges(&self) -> Vec<Range<u64>> {
        join(self.pieces.iter().map(|piece| piece.start..piece.end()).collect())
    }

    fn holds(&self, at: PhysAddr, bytes: u64) -> bool {
        // The usual case, without joining: one piece holds it all.
        let one = self.piece(at.bits()).is_some_and(|piece| bytes <= piece.end() - at.bits());
        one || at
            .bits()
            .checked_add(bytes)
            .is_some_and(|end| self.ranges().iter().any(|range| range.start <= at.bits() && end <= range.end))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn memory(bytes: &[u8], pieces: Vec<Piece>) -> FileMemory {
        let path = std::env::temp_dir().join(format!("vellum-file-{}-{:p}", std::process::id(), &pieces));
        File::create(&path).and_then(|mut file| file.write_all(bytes)).expect("a file");
        let memory = FileMemory::new(File::open(&path).expect("the file"), pieces);
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
}
