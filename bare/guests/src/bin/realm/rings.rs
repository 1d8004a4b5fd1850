//! Rings that the monitor prints, which this guest fills with numbers that cannot be.

use guests::rsi::{EMPTY, GRANULE_BYTES, RAM};
use hardware::hypercall;
use hardware::psci::Conduit;
use kerncore::ring::{PRINT_FUNCTION, READ, ROOM, TEXT, WRITTEN};

use crate::access::{Outcome, range, read, write};
use crate::facts::unprotected;
use crate::found::{Found, SCRUBBED, expect, expect_outcome};
use crate::refusals::set;

/// INVALID_PARAMETERS.
const REFUSED: u64 = -2i64 as u64;
/// QEMU's UART.
const UART: u64 = 0x0900_0000;

/// What is written, what is read, and how many bytes are printed.
const NUMBERS: [(u64, u64, u64); 9] = [
    (0, 0, 0),
    (ROOM as u64 + 1, 0, REFUSED),
    (0, 1, REFUSED),
    (u64::MAX, 0, REFUSED),
    (1 << 63, 1 << 62, REFUSED),
    (7, 7, 0),
    (9, 4, 5),
    // Both wrap.
    (3, -2i64 as u64, 5),
    (ROOM as u64 + 12, ROOM as u64 + 9, 3),
];

fn ask(address: u64) -> u64 {
    hypercall::call(Conduit::Smc, PRINT_FUNCTION, [address, 0, 0, 0])[0]
}

pub(crate) fn print(cpu: usize) -> Result<(), Found> {
    let (start, end) = range(cpu, 13, 14);
    let alias = start + unprotected();
    let strangers = [start, alias, UART, UART + unprotected(), unprotected() << 1, !(GRANULE_BYTES - 1), 0];
    strangers.into_iter().try_for_each(|address| expect(REFUSED, ask(address)))?;
    set(start, end, EMPTY)?;
    [start, alias + 8, alias + 2048].into_iter().try_for_each(|address| expect(REFUSED, ask(address)))?;
    let word = |index: usize| alias + 8 * index as u64;
    // Nothing but dots and ends of lines, so that all that this guest says can be told from that.
    (TEXT..512).try_for_each(|index| done(write(cpu, word(index), 0x0a2e_2e2e_2e2e_2e2e)))?;
    for (written, before, printed) in NUMBERS {
        done(write(cpu, word(WRITTEN), written))?;
        done(write(cpu, word(READ), before))?;
        expect(printed, ask(alias))?;
        let after = if printed == REFUSED { before } else { written };
        for (index, value) in [(WRITTEN, written), (READ, after), (READ + 1, SCRUBBED), (TEXT - 1, SCRUBBED)] {
            expect_outcome(Outcome::Done(value), read(cpu, word(index)))?;
        }
    }
    set(start, end, RAM)?;
    expect(REFUSED, ask(alias))
}

fn done(outcome: Outcome) -> Result<(), Found> {
    expect_outcome(Outcome::Done(0), outcome)
}
