//! cpio archives in the `newc` format (cpio(5)), one after the other, as an initial RAM disk has them.

use thiserror::Error;

/// A file of an archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Its path, from the root, without a zero byte.
    pub name: &'a [u8],
    /// The number that names of one file share.
    pub inode: u32,
    /// Kind and permissions, as in `st_mode`.
    pub mode: u32,
    /// How many names the file has.
    pub links: u32,
    /// Seconds since 1970.
    pub modified: u32,
    /// Of a device: major and minor number.
    pub device: (u32, u32),
    /// What is in it; of a link, where it leads.
    pub content: &'a [u8],
}

/// Why the rest of an archive was not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Problem {
    /// No header begins there.
    #[error("initrd: at byte {0} expected a cpio header (newc: 070701), uncompressed")]
    Header(usize),
    /// The archive ends inside an entry.
    #[error("initrd: the entry at byte {0} is cut short")]
    Short(usize),
}

const HEADER_BYTES: usize = 6 + 13 * 8;
const TRAILER: &[u8] = b"TRAILER!!!";

/// The entries of archives, trailers left out. After a problem comes nothing more.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    archive: &'a [u8],
    at: usize,
}

impl<'a> Entries<'a> {
    /// Of these bytes.
    pub const fn new(archive: &'a [u8]) -> Self {
        Self { archive, at: 0 }
    }

    fn read(&mut self) -> Result<Option<Entry<'a>>, Problem> {
        // Between two archives, and behind the last, there may be zeros.
        let rest = self.archive.get(self.at..).unwrap_or_default();
        let Some(zeros) = rest.iter().position(|byte| *byte != 0) else { return Ok(None) };
        self.at += zeros;
        let at = self.at;
        let header = self.archive.get(at..at + HEADER_BYTES).ok_or(Problem::Header(at))?;
        if &header[..6] != b"070701" && &header[..6] != b"070702" {
            return Err(Problem::Header(at));
        }
        let mut numbers = [0; 13];
        for (number, digits) in numbers.iter_mut().zip(header[6..].chunks_exact(8)) {
            let digits = core::str::from_utf8(digits).map_err(|_| Problem::Header(at))?;
            *number = u32::from_str_radix(digits, 16).map_err(|_| Problem::Header(at))?;
        }
        let [inode, mode, _, _, links, modified, bytes, _, _, major, minor, name_bytes, _] = numbers;
        let part = |start: usize, bytes: u32| {
            let end = start.checked_add(bytes as usize).ok_or(Problem::Short(at))?;
            self.archive.get(start..end).map(|part| (part, end)).ok_or(Problem::Short(at))
        };
        let (name, end) = part(at + HEADER_BYTES, name_bytes)?;
        let (content, end) = part(end.next_multiple_of(4), bytes)?;
        self.at = end.next_multiple_of(4);
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let device = (major, minor);
        Ok(Some(Entry { name, inode, mode, links, modified, device, content }))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let read = self.read().transpose()?;
            match read {
                Ok(Entry { name: TRAILER, .. }) => {}
                Err(_) => {
                    self.at = self.archive.len();
                    return Some(read);
                }
                Ok(_) => return Some(read),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;
    use std::vec::Vec;

    use super::*;

    fn entry(name: &str, mode: u32, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::from(*b"070701");
        let name_bytes = name.len() as u32 + 1;
        for number in [7, mode, 0, 0, 1, 9, content.len() as u32, 0, 0, 5, 1, name_bytes, 0] {
            bytes.extend(format!("{number:08x}").bytes());
        }
        bytes.extend(name.bytes().chain([0]));
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn names(archive: &[u8]) -> Vec<Result<&[u8], Problem>> {
        Entries::new(archive).map(|entry| entry.map(|entry| entry.name)).collect()
    }

    #[test]
    fn two_archives_with_zeros_between() {
        let end = entry("TRAILER!!!", 0, &[]);
        let archive =
            [entry("a", 0o100755, b"abcde"), end.clone(), [0; 512].into(), entry("b", 0o40755, &[]), end].concat();
        assert_eq!(names(&archive), [Ok(&b"a"[..]), Ok(b"b")]);
        let first = Entries::new(&archive).next().expect("an entry").expect("whole");
        let Entry { inode, mode, links, modified, device, content, .. } = first;
        assert_eq!((inode, mode, links, modified, device, content), (7, 0o100755, 1, 9, (5, 1), &b"abcde"[..]));
        assert_eq!(names(&[]), []);
    }

    #[test]
    fn every_cut_and_every_changed_byte_ends_with_a_problem_or_entries() {
        let archive = [entry("a/b", 0o100644, b"0123456789"), entry("TRAILER!!!", 0, &[])].concat();
        assert_eq!(names(&archive[..120]), [Err(Problem::Short(0))]);
        assert_eq!(names(b"\x1f\x8b compressed"), [Err(Problem::Header(0))]);
        for at in 0..archive.len() {
            let _ = names(&archive[..at]).len();
            let mut damaged = archive.clone();
            damaged[at] = b'f';
            assert!(names(&damaged).len() <= 3, "byte {at}");
        }
    }
}
