//! What a file holds, byte by byte: a file as it is, or one that has to be put in order first.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

/// Bytes by their offsets.
pub(crate) trait Contents {
    /// Reads what is there at an offset, at most all of `into`; 0 at the end.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Where the contents have anything but zeros, ascending.
    fn data(&self) -> io::Result<Vec<Range<u64>>>;

    /// Reads all of `into`, or fails.
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < into.len() {
            let at = offset.checked_add(done as u64).ok_or(ErrorKind::UnexpectedEof)?;
            match self.read_at(&mut into[done..], at) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A file of more parts than this counts as whole from there on.
const MOST_PARTS: usize = 1 << 16;

impl Contents for File {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, offset)
    }

    /// Holes of a sparse file are no data: a small file may claim to have exabytes.
    fn data(&self) -> io::Result<Vec<Range<u64>>> {
        let end = self.metadata()?.len();
        let seek = |from: u64, whence| match lseek(self, i64::try_from(from).unwrap_or(i64::MAX), whence) {
            Ok(found) => Ok(found as u64),
            Err(Errno::ENXIO) => Ok(end),
            Err(error) => Err(error),
        };
        let mut parts = Vec::new();
        let mut at = 0;
        while at < end && parts.len() < MOST_PARTS {
            // A file system that cannot say has no holes.
            let Ok(start) = seek(at, Whence::SeekData) else { break };
            let Ok(stop) = seek(start, Whence::SeekHole) else { break };
            parts.push(start..stop);
            at = stop;
        }
        if at < end {
            parts.push(at..end);
        }
        Ok(parts)
    }
}
