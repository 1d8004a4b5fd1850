//! The arithmetic of timers: when one is due, how many of its periods have passed, and how soon expired timers are served again.
//! No step takes longer the more periods have passed.

use core::ops::Range;

/// The longest time that is distinguished from longer ones, in nanoseconds.
pub const LONGEST: u64 = i64::MAX as u64;

/// A time, and a period after which it comes again: nanoseconds of one clock.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Countdown {
    /// When it is due, or was.
    pub due: u64,
    /// 0 if it comes once.
    pub period: u64,
}

impl Countdown {
    /// Due `first` after `start`.
    pub fn new(start: u64, first: u64, period: u64) -> Self {
        Self { due: start.saturating_add(first).min(LONGEST), period }
    }

    /// Moves the due time beyond `now` by whole periods; returns how many.
    pub fn forward(&mut self, now: u64) -> u64 {
        let late = now.checked_sub(self.due).filter(|_| self.period > 0);
        let periods = late.map_or(0, |late| (late / self.period).saturating_add(1));
        self.due = self.due.saturating_add(periods.saturating_mul(self.period)).min(LONGEST);
        periods
    }
}

/// The moment from which expired timers are served again, after a round that took from `begun` to `ended`. Three times as long as the
/// round took, programs have the CPU, whatever periods they ask for; but at least `pause.start`, and at most `pause.end`, as a machine
/// that was stopped meanwhile says nothing of the round.
pub fn next_round(begun: u64, ended: u64, pause: Range<u64>) -> u64 {
    let rest = ended.saturating_sub(begun).saturating_mul(3);
    ended.saturating_add(rest.clamp(pause.start, pause.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As [`Countdown::forward`], one period after another.
    fn forward_slowly(countdown: &mut Countdown, now: u64) -> u64 {
        let mut periods = 0;
        while countdown.period > 0 && countdown.due <= now {
            countdown.due += countdown.period;
            periods += 1;
        }
        periods
    }

    #[test]
    fn periods_are_counted_as_one_by_one() {
        for period in [0, 1, 2, 3, 7, 100, 101] {
            for due in [0, 1, 99, 100, 101] {
                for now in 0..330 {
                    let (mut fast, mut slow) = (Countdown { due, period }, Countdown { due, period });
                    assert_eq!(fast.forward(now), forward_slowly(&mut slow, now), "{due} again {period}, at {now}");
                    assert_eq!(fast, slow, "{due} again {period}, at {now}");
                }
            }
        }
    }

    #[test]
    fn the_longest_times_do_not_overflow() {
        let mut countdown = Countdown::new(u64::MAX, u64::MAX, 1);
        assert_eq!((countdown.due, countdown.forward(LONGEST - 1)), (LONGEST, 0));
        assert_eq!((countdown.forward(u64::MAX), countdown.due), ((1 << 63) + 1, LONGEST));
        let mut all = Countdown { due: 0, period: 1 };
        assert_eq!((all.forward(u64::MAX), all.due), (u64::MAX, LONGEST));
        let mut seldom = Countdown { due: LONGEST, period: LONGEST };
        assert_eq!((seldom.forward(LONGEST), seldom.due), (1, LONGEST));
    }

    #[test]
    fn programs_have_three_quarters_between_rounds() {
        let next = |begun, ended| next_round(begun, ended, 50..5000);
        assert_eq!([1000, 1016, 1017, 2000].map(|ended| next(1000, ended)), [1050, 1066, 1068, 5000]);
        assert_eq!([2666, 2667, 9000].map(|ended| next(1000, ended)), [7664, 7667, 14_000]);
        assert_eq!(next(0, u64::MAX), u64::MAX);
        assert_eq!(next(2000, 1000), 1050, "a counter that goes back");
    }
}
