//! The clocks. There is none on this machine that runs while it is off: 1970 begins with the boot.

use core::sync::atomic::{AtomicU64, Ordering};

use hardware::timer;
pub(crate) use kerncore::countdown::LONGEST;

pub(crate) const SECOND: u64 = 1_000_000_000;
/// The most that CLOCK_REALTIME is set beyond CLOCK_MONOTONIC.
const LATEST: u64 = LONGEST - 30 * 365 * 86_400 * SECOND;
/// CLOCK_REALTIME minus CLOCK_MONOTONIC, in nanoseconds.
static OFFSET: AtomicU64 = AtomicU64::new(0);

/// Nanoseconds in so many ticks of the counter.
pub(crate) fn nanoseconds(ticks: u64) -> u64 {
    (u128::from(ticks) * u128::from(SECOND) / u128::from(timer::read_frequency().max(1))) as u64
}

/// Ticks of the counter in so many nanoseconds, and no fewer.
pub(crate) fn ticks(nanoseconds: u64) -> u64 {
    let ticks = (u128::from(nanoseconds) * u128::from(timer::read_frequency())).div_ceil(u128::from(SECOND));
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// Nanoseconds since the counter was 0.
pub(crate) fn monotonic_nanoseconds() -> u64 {
    nanoseconds(timer::read_counter())
}

/// Nanoseconds since 1970.
pub(crate) fn real_nanoseconds() -> u64 {
    monotonic_nanoseconds().wrapping_add(OFFSET.load(Ordering::Relaxed))
}

/// Sets what [`real_nanoseconds`] counts from, if the clock is not less than CLOCK_MONOTONIC then, and can go on for thirty years.
pub(crate) fn set_real(now: u64) -> Option<()> {
    let offset = now.checked_sub(monotonic_nanoseconds()).filter(|offset| *offset <= LATEST)?;
    OFFSET.store(offset, Ordering::Relaxed);
    Some(())
}

/// A moment in nanoseconds since 1970, as nanoseconds of the counter.
pub(crate) fn since_boot(real: u64) -> u64 {
    real.saturating_sub(OFFSET.load(Ordering::Relaxed))
}
