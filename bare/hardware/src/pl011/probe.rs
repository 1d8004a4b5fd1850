//! Whether a UART is where one is said to be.

use vmsa::VirtAddr;

use super::FLAGS;
use crate::probe::read_word;

/// UARTPCellID0 to 3: one byte in each of four words, the same for every PrimeCell.
const CELL_IDENTIFICATION: [usize; 4] = [0xff0, 0xff4, 0xff8, 0xffc];
const PRIME_CELL: [u32; 4] = [0x0d, 0xf0, 0x05, 0xb1];

/// What answers at an address where a UART is said to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Nothing: the read is refused.
    Nothing,
    /// Something that does not say it is a PrimeCell: an SBSA UART need not.
    Something,
    /// A PrimeCell.
    PrimeCell,
}

/// Asks what is there.
///
/// # Safety
///
/// The page at `base` is mapped as Device memory, and reading it does no harm.
pub unsafe fn probe(base: u64) -> Answer {
    let read = |offset: usize| {
        // SAFETY: the caller's promise.
        unsafe { read_word(VirtAddr::new(base + offset as u64)) }
    };
    if read(FLAGS).is_err() {
        return Answer::Nothing;
    }
    match CELL_IDENTIFICATION.map(|offset| read(offset).unwrap_or(0) & 0xff) == PRIME_CELL {
        true => Answer::PrimeCell,
        false => Answer::Something,
    }
}
