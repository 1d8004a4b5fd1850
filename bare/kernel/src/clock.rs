//! The clock. There is none on this machine that runs while it is off: 1970 begins with the boot, and CLOCK_REALTIME is CLOCK_MONOTONIC.

use hardware::timer;
pub(crate) use kerncore::countdown::LONGEST;

pub(crate) const SECOND: u64 = 1_000_000_000;

/// Nanoseconds in so many ticks of the counter.
pub(crate) fn nanoseconds(ticks: u64) -> u64 {
    (u128::from(ticks) * u128::from(SECOND) / u128::from(timer::read_frequency().max(1))) as u64
}

/// Ticks of the counter in so many nanoseconds, and no fewer.
pub(crate) fn ticks(nanoseconds: u64) -> u64 {
    let ticks = (u128::from(nanoseconds) * u128::from(timer::read_frequency())).div_ceil(u128::from(SECOND));
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// Nanoseconds since the counter was 0, by every clock that does not count what somebody has run.
pub(crate) fn monotonic_nanoseconds() -> u64 {
    nanoseconds(timer::read_counter())
}
