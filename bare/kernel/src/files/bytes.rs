//! The bytes of a pipe: in parts of a page at most, so that no pipe needs memory side by side. One part is always there: what is written
//! as one finds room in an empty pipe however little memory there is.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use crate::fallible::{NoMemory, try_box};

/// Bytes of a part.
pub(super) const PART: usize = 4096;

/// Bytes, the first written first.
pub(crate) struct Bytes {
    /// Has room for as many as [`Self::reserve`] was asked for.
    parts: VecDeque<Box<[u8; PART]>>,
    /// Where the first byte is in the first part.
    start: usize,
    count: usize,
}

impl Bytes {
    /// None, and memory for the first part.
    pub(super) fn new(most: usize) -> Result<Self, NoMemory> {
        let mut bytes = Self { parts: VecDeque::new(), start: 0, count: 0 };
        bytes.reserve(most)?;
        bytes.add_part()?;
        Ok(bytes)
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Has a list for so many bytes, whose parts are taken as they are needed.
    pub(super) fn reserve(&mut self, most: usize) -> Result<(), NoMemory> {
        // The first byte may be anywhere in its part.
        let parts = most.div_ceil(PART) + 1;
        self.parts.try_reserve_exact(parts.saturating_sub(self.parts.len())).map_err(|_| NoMemory)
    }

    fn add_part(&mut self) -> Result<(), NoMemory> {
        // The comparison leaves the compiler no way to a list that grows.
        if self.parts.len() == self.parts.capacity() {
            return Err(NoMemory);
        }
        self.parts.push_back(try_box([0; PART])?);
        Ok(())
    }

    /// Adds bytes, as many as there is memory for, if it is at least so many; how many.
    pub(super) fn add(&mut self, from: &[u8], least: usize) -> usize {
        let end = self.start + self.count;
        while self.parts.len() * PART < end + from.len() && self.add_part().is_ok() {}
        let count = from.len().min(self.parts.len() * PART - end);
        if count < least {
            return 0;
        }
        let mut done = 0;
        while done < count {
            let at = end + done;
            let place = &mut self.parts[at / PART][at % PART..];
            let more = place.len().min(count - done);
            place[..more].copy_from_slice(&from[done..done + more]);
            done += more;
        }
        self.count += count;
        count
    }

    /// Copies what stands behind the first `skipped` bytes, as much as fits; how much.
    pub(super) fn look(&self, skipped: usize, to: &mut [u8]) -> usize {
        let count = to.len().min(self.count.saturating_sub(skipped));
        let mut done = 0;
        while done < count {
            let at = self.start + skipped + done;
            let place = &self.parts[at / PART][at % PART..];
            let more = place.len().min(count - done);
            to[done..done + more].copy_from_slice(&place[..more]);
            done += more;
        }
        count
    }

    /// Forgets the first `count`, and gives back parts that hold nothing.
    fn forget(&mut self, count: usize) {
        self.count -= count;
        self.start += count;
        while self.start >= PART {
            self.start -= PART;
            if self.parts.len() > 1 {
                self.parts.pop_front();
            }
        }
        if self.count == 0 {
            self.start = 0;
            self.parts.truncate(1);
        }
    }

    /// Takes the first, as many as fit; how many.
    pub(super) fn take(&mut self, to: &mut [u8]) -> usize {
        let count = self.look(0, to);
        self.forget(count);
        count
    }
}
