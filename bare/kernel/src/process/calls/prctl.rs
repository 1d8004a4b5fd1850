//! `prctl`: what a program asks and tells of itself.

use core::sync::atomic::Ordering;

use super::call::Call;
use crate::cpus::capabilities;
use crate::errno::*;
use crate::fallible::{Lossy, try_format};
use crate::memory::failing;
use crate::process::copies;
use crate::process::signals::SIGNALS;
use crate::process::wishes::Wishes;

/// The longest name of a thread.
const NAME_BYTES: usize = 15;
const LAST_CAPABILITY: u64 = 40;
/// Whether a program may ask for vectors of so many bytes: flags of inheritance beside, which change nothing here.
fn is_vector(argument: u64) -> bool {
    const FLAGS: u64 = 3 << 17;
    let bytes = argument & !FLAGS;
    (16..=8192).contains(&bytes) && bytes.is_multiple_of(16)
}

pub(super) fn prctl(call: &mut Call, what: u32, argument: u64, second: u64, third: u64, fourth: u64) -> Answer {
    const SET_DEATH_SIGNAL: u32 = 1;
    const GET_DEATH_SIGNAL: u32 = 2;
    const GET_DUMPABLE: u32 = 3;
    const SET_DUMPABLE: u32 = 4;
    const SET_NAME: u32 = 15;
    const GET_NAME: u32 = 16;
    const READ_CAPABILITY: u32 = 23;
    const SET_CHILD_SUBREAPER: u32 = 36;
    const GET_CHILD_SUBREAPER: u32 = 37;
    const GET_CLEARED_ADDRESS: u32 = 40;
    const SVE_SET_VECTOR: u32 = 50;
    const SVE_GET_VECTOR: u32 = 51;
    /// No program of Linux knows it: has the allocation of this number fail that the next calls make, or none; gives what was left.
    const FAIL_ALLOCATION: u32 = 0x5645_4c46;
    /// Bytes of a vector, whatever is asked for.
    const VECTOR: u64 = 16;
    let process = call.process();
    match what {
        SET_CHILD_SUBREAPER => {
            process.is_reaper.store(argument != 0, Ordering::Relaxed);
            Ok(0)
        }
        GET_CHILD_SUBREAPER => {
            copies::write_half(argument, process.is_reaper.load(Ordering::Relaxed).into()).map(|()| 0)
        }
        SET_DEATH_SIGNAL if argument <= SIGNALS as u64 => {
            process.death_signal.store(argument as u32, Ordering::Relaxed);
            Ok(0)
        }
        GET_DEATH_SIGNAL => copies::write_half(argument, process.death_signal.load(Ordering::Relaxed)).map(|()| 0),
        SET_NAME => {
            let name = copies::read_start(argument, NAME_BYTES)?;
            process.set_name(Some(call.thread), try_format!("{}", Lossy(&name))?);
            Ok(0)
        }
        GET_NAME => {
            let mut bytes = [0; NAME_BYTES + 1];
            process.with_name(Some(call.thread), |name| {
                let shown = name.len().min(NAME_BYTES);
                bytes[..shown].copy_from_slice(&name.as_bytes()[..shown]);
            });
            copies::write(argument, &bytes).map(|()| 0)
        }
        GET_CLEARED_ADDRESS => copies::write_words(argument, &[call.thread.task().clear_at_end.get()]).map(|()| 0),
        SVE_GET_VECTOR if capabilities::has("sve") => Ok(VECTOR),
        SVE_SET_VECTOR if is_vector(argument) && capabilities::has("sve") => Ok(VECTOR),
        FAIL_ALLOCATION => Ok(failing::exchange(argument as u32).into()),
        GET_DUMPABLE => Ok(process.dumpable.load(Ordering::Relaxed).into()),
        SET_DUMPABLE if argument < 2 => {
            process.dumpable.store(argument as u32, Ordering::Relaxed);
            Ok(0)
        }
        // PR_CAPBSET_READ: nobody has fewer than all.
        READ_CAPABILITY if argument <= LAST_CAPABILITY => Ok(1),
        _ if [second, third, fourth] == [0; 3] => process.wishes.with(|wishes| wish(wishes, what, argument)),
        _ => Err(EINVAL),
    }
}

/// What is kept: PR_SET_THP_DISABLE, of which nothing follows, and PR_SET_TAGGED_ADDR_CTRL.
fn wish(wishes: &mut Wishes, what: u32, argument: u64) -> Answer {
    match (what, argument) {
        (41, _) => wishes.is_without_blocks = argument != 0,
        (42, 0) => return Ok(wishes.is_without_blocks.into()),
        (55, 0 | 1) => wishes.has_tags = argument == 1,
        (56, 0) => return Ok(wishes.has_tags.into()),
        _ => return Err(EINVAL),
    }
    Ok(0)
}
