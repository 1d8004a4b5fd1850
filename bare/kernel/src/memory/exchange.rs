//! One instruction of text that CPUs may be executing gives way to another. Where the Arm ARM lets the two be exchanged freely, CPUs
//! execute one or the other until they synchronize; else all others are parked, and synchronize before they leave.

use core::fmt;
use core::ops::Range;

use common::supply::ChangeError;
use hardware::image;
use linearmap::NotParked;
use vmsa::VirtAddr;

use crate::cpus::{calls, parking};
use crate::memory::layout::CODE;
use crate::memory::{current, linear_map, poke};

/// Why nothing has changed.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// The address is no instruction's, or one that a change of text itself needs.
    NotText,
    /// This is there, and not what was expected.
    Found(u32),
    Tables(ChangeError),
    NotParked(NotParked),
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotText => f.write_str("no text that may change"),
            Self::Found(word) => write!(f, "{word:#010x} is there, expected another instruction"),
            Self::Tables(error) => error.fmt(f),
            Self::NotParked(error) => write!(f, "CPUs could not be parked: {error:?}"),
        }
    }
}

/// Puts `new` in the place of `old`.
pub(crate) fn exchange(at: VirtAddr, old: u32, new: u32) -> Result<(), ExchangeError> {
    let texts: [Range<u64>; 2] = [image::vectors().end..image::text().end, CODE];
    let is_text = at.bits().is_multiple_of(4) && texts.iter().any(|text| text.contains(&at.bits()));
    let find = || current::upper().translate(at).map(|found| found.output).filter(|_| is_text);
    let found = find().ok_or(ExchangeError::NotText)?;
    let alias = poke::Alias::of(found, 1).map_err(ExchangeError::Tables)?;
    // SAFETY: text, which EL1 may read.
    let read = || unsafe { (at.bits() as *const u32).read_volatile() };
    let mut result = Ok(());
    let store = || match read() {
        word if word == old => {
            alias.store(found, 0..1, |_| new);
            poke::fetch_anew(found, 1);
            Ok(())
        }
        word => Err(ExchangeError::Found(word)),
    };
    // The lock of the map: one exchanges at a time, and one parks.
    linear_map::get().with_standing(&mut |_| {
        result = match is_free(old) && is_free(new) {
            // Memory of text that has gone since is another's. What is text now stays so while the lock is held.
            _ if find() != Some(found) => Err(ExchangeError::NotText),
            true => store(),
            false => {
                let mut stored = Ok(());
                parking::run_alone(|| stored = store()).map_err(ExchangeError::NotParked).and(stored)
            }
        };
    });
    result?;
    // Those that were not parked may execute the old one until then.
    calls::on_every_cpu(&|_| poke::synchronize());
    Ok(())
}

/// Whether it is of those that may be exchanged while CPUs execute them: B, BL, BRK, HVC, ISB, NOP, SMC, SVC (B2.2.5).
const fn is_free(word: u32) -> bool {
    let is_branch = word & 0x7c00_0000 == 0x1400_0000;
    let is_exception = matches!(word & 0xffe0_001f, 0xd400_0001..=0xd400_0003 | 0xd420_0000);
    is_branch || is_exception || word & 0xffff_f0ff == 0xd503_30df || word == 0xd503_201f
}
