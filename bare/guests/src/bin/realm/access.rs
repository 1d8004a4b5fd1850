//! Memory of each CPU's own, and accesses to it that may fault.

use guests::rsi::{GRANULE_BYTES, Granule};
use hardware::guest::{self, execute, read_exceptions, read_fault};

use crate::facts::CPUS;

/// Pages of each CPU.
pub(crate) const PAGES: usize = 16;

/// Every CPU's pages lie beside another's.
static AREAS: [[Granule; PAGES]; CPUS] = [const { [const { Granule::new() }; PAGES] }; CPUS];

/// One of the pages of CPU `cpu`.
pub(crate) fn page(cpu: usize, index: usize) -> &'static Granule {
    &AREAS[cpu][index]
}

/// The first address of a CPU's page, and one behind the last.
pub(crate) fn range(cpu: usize, first: usize, end: usize) -> (u64, u64) {
    let start = AREAS[cpu][0].address();
    (start + first as u64 * GRANULE_BYTES, start + end as u64 * GRANULE_BYTES)
}

/// What became of an access.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// What was read, or 0.
    Done(u64),
    /// EC and the fault status of the exception, and its address.
    Fault { class: u64, status: u64, address: u64 },
}

/// EC of aborts from the same exception level, and the status of a synchronous external abort.
const INSTRUCTION_ABORT: u64 = 0x21;
const DATA_ABORT: u64 = 0x25;
const EXTERNAL: u64 = 0x10;

impl Outcome {
    /// What a realm takes of data that is not there.
    pub(crate) const fn external_data_abort(address: u64) -> Self {
        Self::Fault { class: DATA_ABORT, status: EXTERNAL, address }
    }

    /// And of instructions.
    pub(crate) const fn external_instruction_abort(address: u64) -> Self {
        Self::Fault { class: INSTRUCTION_ABORT, status: EXTERNAL, address }
    }

    /// A number that tells outcomes apart in a report: of a fault 0xfa, 40 bits of the address, EC and the status.
    pub(crate) const fn number(self) -> u64 {
        match self {
            Self::Done(value) => value,
            Self::Fault { class, status, address } => {
                0xfa << 56 | (address & 0xff_ffff_ffff) << 16 | class << 8 | status
            }
        }
    }
}

fn outcome(before: u64, value: u64) -> Outcome {
    if read_exceptions() == before {
        return Outcome::Done(value);
    }
    let (syndrome, address) = read_fault();
    Outcome::Fault { class: syndrome >> 26 & 0x3f, status: syndrome & 0x3f, address }
}

/// Reads a word.
pub(crate) fn read(cpu: usize, address: u64) -> Outcome {
    const LDR_X0_X1: u32 = 0xf940_0020;
    let before = read_exceptions();
    // SAFETY: it changes x0 alone.
    let value = unsafe { execute(cpu, LDR_X0_X1, [0, address, 0, 0]) };
    outcome(before, value)
}

/// Writes a word of a page of [`page`], by any of its addresses.
pub(crate) fn write(cpu: usize, address: u64, value: u64) -> Outcome {
    const STR_X0_X1: u32 = 0xf900_0020;
    let before = read_exceptions();
    // SAFETY: it writes memory that is atomic, and no register.
    unsafe { execute(cpu, STR_X0_X1, [value, address, 0, 0]) };
    outcome(before, 0)
}

/// Calls what is at an address. A page that was scrubbed or is all 0 holds no instruction: there the exception is of another
/// class.
pub(crate) fn fetch(address: u64) -> Outcome {
    let before = read_exceptions();
    // SAFETY: the fetch, or the first instruction, is refused.
    unsafe { guest::fetch(address) };
    outcome(before, 0)
}
