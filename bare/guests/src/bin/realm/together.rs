//! What all CPUs do together: a page that all of them use changes hands, and none may go on with what it knew.

use core::sync::atomic::{AtomicUsize, Ordering};

use guests::rsi::{EMPTY, Granule, RAM};
use hardware::interrupts;

use crate::access::{Outcome, read, write};
use crate::facts::{COUNT, ROUNDS, unprotected};
use crate::found::{Found, expect_outcome};
use crate::refusals;

/// CPUs that have come to a meeting, from the start.
static ARRIVED: AtomicUsize = AtomicUsize::new(0);

/// Waits until every CPU has come here as often as this one.
pub(crate) fn meet() {
    let count = COUNT.load(Ordering::Relaxed);
    let number = ARRIVED.fetch_add(1, Ordering::AcqRel);
    let end = (number / count + 1) * count;
    while ARRIVED.load(Ordering::Acquire) < end {
        interrupts::pause();
    }
}

/// The first CPU shares a page, every CPU writes to it and sees what all others wrote; then it is private again, for every
/// CPU at once.
pub(crate) fn change_hands(cpu: usize) -> Result<(), Found> {
    static PAGE: Granule = Granule::new();
    let mut result = Ok(());
    for round in 0..ROUNDS.load(Ordering::Relaxed) {
        // Whatever was found, no CPU stays away from a meeting.
        let found = one_round(cpu, &PAGE, round);
        result = result.and(found);
    }
    result
}

fn one_round(cpu: usize, page: &Granule, round: u64) -> Result<(), Found> {
    let (protected, alias) = (page.address(), page.address() + unprotected());
    let word = |cpu: usize| 8 * cpu as u64;
    let value = |cpu: usize| round << 8 | cpu as u64 | 1 << 40;
    let turn = |state| if cpu == 0 { refusals::set(protected, protected + 4096, state) } else { Ok(()) };
    let shared = turn(EMPTY);
    meet();
    let written = write(cpu, alias + word(cpu), value(cpu));
    let private = read(cpu, protected);
    meet();
    let seen = (0..COUNT.load(Ordering::Relaxed))
        .try_for_each(|other| expect_outcome(Outcome::Done(value(other)), read(cpu, alias + word(other))));
    meet();
    let taken = turn(RAM);
    meet();
    let lost = read(cpu, alias + word(cpu));
    let own = write(cpu, protected + word(cpu), value(cpu));
    let kept = read(cpu, protected + word(cpu));
    meet();
    shared.and(taken).and(seen)?;
    expect_outcome(Outcome::Done(0), written)?;
    expect_outcome(Outcome::external_data_abort(protected), private)?;
    expect_outcome(Outcome::external_data_abort(alias + word(cpu)), lost)?;
    expect_outcome(Outcome::Done(0), own)?;
    expect_outcome(Outcome::Done(value(cpu)), kept)
}
