//! The PL011 UART, written to and nothing else: firmware has set its line, and polling needs no more than two
//! registers.
//!
//! A driver of its own, because a report must get out while another context is in the middle of a line, and because its
//! address changes when the kernel leaves the identity map.

#[cfg(feature = "kernel")]
mod probe;

use crate::mmio;

#[cfg(feature = "kernel")]
pub use probe::{Answer, probe};

/// UARTDR, the data register.
pub(crate) const DATA: usize = 0x00;
/// UARTFR, the flag register.
pub(crate) const FLAGS: usize = 0x18;
/// TXFF: the transmit FIFO is full.
pub(crate) const TRANSMIT_FULL: u32 = 1 << 5;
/// BUSY: not everything has left the UART.
const BUSY: u32 = 1 << 3;

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
        unsafe { mmio::write(self.base + DATA, byte.into()) };
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
        unsafe { mmio::read(self.base + FLAGS) }
    }
}
