//! `prctl`: what a program asks and tells of itself.

use core::sync::atomic::Ordering;

use super::call::Call;
use crate::cpus::capabilities;
use crate::fallible::{Lossy, try_format};
use crate::memory::failing;
use crate::process::copies;
use crate::process::errno::*;
use crate::process::signals::SIGNALS;
use crate::process::wishes::{SLACK, USUAL, Wishes};

/// The longest name of a thread.
const NAME_BYTES: usize = 15;
const LAST_CAPABILITY: u64 = 40;
/// What nobody can change: PR_GET_TIMING, PR_SET_TIMING, PR_GET_SECCOMP, and those of events.
const FIXED: [(u32, u64); 5] = [(13, 0), (14, 0), (21, 0), (31, 0), (32, 0)];

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
    if let Some((_, answer)) = FIXED.iter().find(|(one, _)| *one == what) {
        // None can be asked for but what there is.
        return if what == 14 && argument != 0 { Err(EINVAL) } else { Ok(*answer) };
    }
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
        _ => {
            if matches!(what, DROP_CAPABILITY | SET_SECURE) {
                call.check_root()?;
            }
            process.wishes.with(|wishes| wish(wishes, what, [argument, second, third, fourth]))
        }
    }
}

const DROP_CAPABILITY: u32 = 24;
const SET_SECURE: u32 = 28;

/// What is kept for who asks.
fn wish(wishes: &mut Wishes, what: u32, arguments: [u64; 4]) -> Answer {
    const GET_KEEPS: u32 = 7;
    const SET_KEEPS: u32 = 8;
    const GET_SECURE: u32 = 27;
    /// SECBIT_KEEP_CAPS, which is the same wish.
    const KEEPS: u64 = 1 << 4;
    const READ_CAPABILITY: u32 = 23;
    const SET_SLACK: u32 = 29;
    const GET_SLACK: u32 = 30;
    const SET_WHEN_MEMORY_FAILS: u32 = 33;
    const GET_WHEN_MEMORY_FAILS: u32 = 34;
    const SET_GAINS_NOTHING: u32 = 38;
    const GET_GAINS_NOTHING: u32 = 39;
    const SET_WITHOUT_BLOCKS: u32 = 41;
    const GET_WITHOUT_BLOCKS: u32 = 42;
    const AMBIENT: u32 = 47;
    const SET_TAGS: u32 = 55;
    const GET_TAGS: u32 = 56;
    const SET_FLUSHES: u32 = 57;
    const GET_FLUSHES: u32 = 58;
    let [argument, others @ ..] = arguments;
    let is_alone = others == [0; 3];
    match what {
        GET_KEEPS => return Ok(wishes.keeps_capabilities.into()),
        SET_KEEPS if argument < 2 => wishes.keeps_capabilities = argument == 1,
        GET_SECURE => return Ok(u64::from(wishes.keeps_capabilities) * KEEPS),
        SET_SECURE if argument & !KEEPS == 0 => wishes.keeps_capabilities = argument == KEEPS,
        READ_CAPABILITY if argument <= LAST_CAPABILITY => return Ok(wishes.capabilities >> argument & 1),
        DROP_CAPABILITY if argument <= LAST_CAPABILITY => wishes.capabilities &= !(1 << argument),
        SET_SLACK => wishes.slack = if argument == 0 { SLACK } else { argument },
        GET_SLACK => return Ok(wishes.slack),
        SET_WHEN_MEMORY_FAILS if argument == 0 && is_alone => wishes.when_memory_fails = USUAL,
        SET_WHEN_MEMORY_FAILS if argument == 1 && others[0] <= USUAL.into() && others[1..] == [0; 2] => {
            wishes.when_memory_fails = others[0] as u32;
        }
        GET_WHEN_MEMORY_FAILS if argument == 0 && is_alone => return Ok(wishes.when_memory_fails.into()),
        SET_GAINS_NOTHING if argument == 1 && is_alone => wishes.gains_nothing = true,
        GET_GAINS_NOTHING if argument == 0 && is_alone => return Ok(wishes.gains_nothing.into()),
        SET_WITHOUT_BLOCKS if is_alone => wishes.is_without_blocks = argument != 0,
        GET_WITHOUT_BLOCKS if argument == 0 && is_alone => return Ok(wishes.is_without_blocks.into()),
        // Nothing is inherited, so that nothing can be raised: PR_CAP_AMBIENT_IS_SET, RAISE, LOWER, CLEAR_ALL.
        AMBIENT if argument == 4 && is_alone => {}
        AMBIENT if others[0] <= LAST_CAPABILITY && others[1..] == [0; 2] => match argument {
            1 | 3 => {}
            2 => return Err(EPERM),
            _ => return Err(EINVAL),
        },
        SET_TAGS if argument < 2 && is_alone => wishes.has_tags = argument == 1,
        GET_TAGS if argument == 0 && is_alone => return Ok(wishes.has_tags.into()),
        SET_FLUSHES if argument < 2 && is_alone => wishes.flushes = argument == 1,
        GET_FLUSHES if argument == 0 && is_alone => return Ok(wishes.flushes.into()),
        _ => return Err(EINVAL),
    }
    Ok(0)
}
