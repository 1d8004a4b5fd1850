//! The PL011 UART, written to and nothing else: firmware has set its line, and polling needs no more than two
//! registers.
//!
//! A driver of its own, because a report must get out while another context is in the middle of a line, and because its
//! address changes when the kernel leaves the identity map.

use vmsa::VirtAddr;

use crate::probe::read_word;

/// UARTDR, the data register.
const DATA: usize = 0x00;
/// UARTFR, the flag register.
const FLAGS: usize = 0x18;
/// TXFF: the transmit FIFO is full.
const TRANSMIT_FULL: u32 = 1 << 5;
/// BUSY: not everything has left the UART.
const BUSY: u32 = 1 << 3;

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

/// A UART at a mapped address.
#[derive(Clone, Copy, Debug)]
pub struct Pl011 {
    base: usize,
}

impl Pl011 {
    /// The UART whose registers are at `base`.
    ///
    /// # Safety
    ///
    /// While it is used, `base` is mapped as Device memory (or the MMU is off) and leads to a PL011.
    pub const unsafe fn new(base: usize) -> Self {
        Self { base }
    }

    /// Sends a byte. Waits while the FIFO is full, but not for ever: a UART that never drains loses bytes, and the
    /// machine goes on.
    pub fn write_byte(self, byte: u8) {
        for _ in 0..1 << 20 {
            if self.read_flags() & TRANSMIT_FULL == 0 {
                break;
            }
        }
        // SAFETY: the promise given to `new`.
        unsafe { ((self.base + DATA) as *mut u32).write_volatile(byte.into()) };
    }

    /// Waits until everything has left the UART, within bounds.
    pub fn flush(self) {
        for _ in 0..1 << 20 {
            if self.read_flags() & BUSY == 0 {
                break;
            }
        }
    }

    fn read_flags(self) -> u32 {
        // SAFETY: the promise given to `new`.
        unsafe { ((self.base + FLAGS) as *const u32).read_volatile() }
    }
}
