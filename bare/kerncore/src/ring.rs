//! A ring of bytes in a granule that a kernel shares with the monitor beneath it, which prints them. Neither believes the other.
//!
//! ```text
//! granule  | written | read | …           | 2048 bytes of text |      word 0 is the kernel's, word 1 the monitor's
//! ```
//! Both words count bytes from the first on, and wrap; a byte is at its number, modulo 2048.

use core::fmt;

/// The monitor's function that prints a ring: x1 is the granule's address, x0 how many bytes were printed, or a negative number.
pub const PRINT_FUNCTION: u32 = 0xc600_0005;
/// Bytes of text.
pub const ROOM: usize = 2048;
/// The words of a granule: how many bytes were written, how many were read, and where the text begins.
pub const WRITTEN: usize = 0;
/// See [`WRITTEN`].
pub const READ: usize = 1;
/// See [`WRITTEN`].
pub const TEXT: usize = 256;

/// A word of the text, and where in it a byte is.
const fn place(number: u64) -> (usize, u32) {
    let at = number as usize % ROOM;
    (TEXT + at / 8, 8 * (at as u32 % 8))
}

/// Bytes that are written and not read, unless the two cannot be.
fn pending(written: u64, read: u64) -> Option<usize> {
    usize::try_from(written.wrapping_sub(read)).ok().filter(|pending| *pending <= ROOM)
}

/// The kernel's side.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writer {
    written: u64,
}

impl Writer {
    /// Writes as much of a text as there is room for, where nobody reads before `store` of the first word: give that release
    /// semantics. Gives the rest; nothing, where what was read cannot be.
    pub fn write<'t>(
        &mut self,
        text: &'t [u8],
        load: impl Fn(usize) -> u64,
        mut store: impl FnMut(usize, u64),
    ) -> Option<&'t [u8]> {
        let room = ROOM - pending(self.written, load(READ))?;
        let (now, rest) = text.split_at(room.min(text.len()));
        for byte in now {
            let (word, shift) = place(self.written);
            store(word, load(word) & !(0xff << shift) | u64::from(*byte) << shift);
            self.written = self.written.wrapping_add(1);
        }
        store(WRITTEN, self.written);
        Some(rest)
    }
}

/// The monitor's side: copies what is written and not read, and gives how many bytes these are, and the number of the next. Each word is
/// loaded once, for the kernel may be writing. Nothing, where the two numbers cannot be.
pub fn read(load: impl Fn(usize) -> u64, text: &mut [u8; ROOM]) -> Option<(usize, u64)> {
    let (written, read) = (load(WRITTEN), load(READ));
    let count = pending(written, read)?;
    let mut word = (usize::MAX, 0);
    for (step, byte) in text[..count].iter_mut().enumerate() {
        let (index, shift) = place(read.wrapping_add(step as u64));
        if word.0 != index {
            word = (index, load(index));
        }
        *byte = (word.1 >> shift) as u8;
    }
    Some((count, written))
}

/// Text of somebody who is not trusted, each line marked, and nothing in it that a terminal obeys.
pub struct Shown<'t>(pub &'t [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.0.split_inclusive(|byte| *byte == b'\n') {
            f.write_str("ring: ")?;
            for byte in line.iter().filter(|byte| **byte != b'\n') {
                let is_plain = matches!(byte, b' '..=b'~');
                write!(f, "{}", if is_plain { char::from(*byte) } else { '?' })?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}
