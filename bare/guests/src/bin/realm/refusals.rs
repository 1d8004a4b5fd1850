//! Requests for another state, made until the host has done all of it, each answer held against Arm DEN 0137, A5.4.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use guests::rsi::{self, EMPTY, ERROR_UNKNOWN, GRANULE_BYTES, IPA_STATE_GET, IPA_STATE_SET, RAM, SUCCESS};

use crate::facts::STEP;
use crate::found::{Found, expect};

/// RSI_REJECT.
const REJECT: u64 = 1;
/// RSI_CHANGE_DESTROYED.
const CHANGE_DESTROYED: u64 = 1;
/// Refusals of one request after which the host is taken to mean it.
const MOST_REFUSALS: u64 = 1000;

/// Answers that were not everything, from the start.
static IN_PART: AtomicU64 = AtomicU64::new(0);
static REJECTED: AtomicU64 = AtomicU64::new(0);
static IGNORED: AtomicU64 = AtomicU64::new(0);
static ERRORS: AtomicU64 = AtomicU64::new(0);

/// How many answers were not everything.
pub(crate) struct Told;

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [in_part, rejected, ignored, errors] =
            [&IN_PART, &REJECTED, &IGNORED, &ERRORS].map(|count| count.load(Ordering::Relaxed));
        write!(f, "requests: {in_part} done in part, {rejected} rejected, {ignored} ignored, {errors} in error")
    }
}

/// Changes the state of a range of this CPU's pages.
pub(crate) fn set(base: u64, top: u64, state: u64) -> Result<(), Found> {
    let (mut at, mut refusals) = (base, 0);
    while at < top {
        let step = STEP.load(Ordering::Relaxed);
        let end = if step == 0 { top } else { top.min(at + step * GRANULE_BYTES) };
        let before = rsi::call(IPA_STATE_GET, [at, top, 0, 0]);
        let [result, new_base, response, x3] = rsi::call(IPA_STATE_SET, [at, top, state, CHANGE_DESTROYED]);
        expect(0, x3)?;
        let refused = match (result, response, new_base == at) {
            (SUCCESS, 0, false) => {
                expect(end, new_base)?;
                IN_PART.fetch_add((new_base < top).into(), Ordering::Relaxed);
                (at, refusals) = (new_base, 0);
                continue;
            }
            (SUCCESS, REJECT, true) if state == RAM => &REJECTED,
            (SUCCESS, 0, true) if state == EMPTY => &IGNORED,
            (ERROR_UNKNOWN, ..) => &ERRORS,
            _ => return Err(Found { expected: SUCCESS, found: result << 32 | response }),
        };
        refused.fetch_add(1, Ordering::Relaxed);
        refusals += 1;
        expect(1, (refusals < MOST_REFUSALS).into())?;
        // What was refused has changed nothing.
        let after = rsi::call(IPA_STATE_GET, [at, top, 0, 0]);
        for (before, after) in before.into_iter().zip(after) {
            expect(before, after)?;
        }
    }
    Ok(())
}
