//! One alarm: whom it tells, by which clock, and how it stands.
//!
//! ```text
//! armed ──its time──▶ told: one signal waits ──is taken──▶ armed for the next period; those that passed meanwhile are overruns
//! ```
//!
//! No two signals of a timer are nearer to each other than [`LEAST_PERIOD`]. Timers of what a process has run (ITIMER_VIRTUAL, ITIMER_PROF) are armed for the next period at once, as on Linux.

use kerncore::countdown::Countdown;

use super::queued::Charge;
use super::signals::{Info, SI_TIMER, Signal};
use super::{numbers, table};
use crate::clock::{self, monotonic_nanoseconds};

/// Which alarm of a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Name {
    /// ITIMER_REAL, ITIMER_VIRTUAL and ITIMER_PROF, by their numbers.
    Interval(u32),
    /// One that the process has made, by its number.
    Made(i32),
}

impl Name {
    pub(super) const REAL: Self = Self::Interval(0);
}

/// Whom an alarm tells that its time has come.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Notice {
    /// None if nobody is told: who wants to know looks at the time that is left.
    pub(crate) signal: Option<Signal>,
    /// The thread that is meant, if not any of the process.
    pub(crate) thread: Option<i32>,
    pub(crate) value: u64,
}

/// What an alarm's time is counted by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) enum Clock {
    #[default]
    Monotonic,
    /// What a process, or a thread, has run.
    Process(i32),
    Thread(i32),
}

impl Clock {
    /// What it says; nothing of who is gone.
    pub(crate) fn now(self) -> Option<u64> {
        match self {
            Self::Monotonic => Some(monotonic_nanoseconds()),
            Self::Process(number) => table::find(number).ok().map(|process| process.nanoseconds()),
            Self::Thread(number) => numbers::find_thread(number).ok().map(|one| clock::nanoseconds(one.spent().ticks)),
        }
    }
}

/// A first time, and after how long again: nanoseconds, 0 for never.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Setting {
    pub(crate) first: u64,
    pub(crate) period: u64,
}

/// Nanoseconds between two signals of one alarm by CLOCK_MONOTONIC, at least. Periods in between are overruns.
const LEAST_PERIOD: u64 = 100_000;

/// When an armed alarm is due: by CLOCK_MONOTONIC, or by the clock of what somebody has run.
pub(super) type Armed = (Option<Clock>, u64);

#[derive(Default)]
pub(super) struct Alarm {
    /// What one that a process has made counts for.
    _charge: Option<Charge>,
    pub(super) notice: Notice,
    pub(super) clock: Clock,
    countdown: Countdown,
    /// Set while it is armed.
    pub(super) armed: Option<Armed>,
    /// Its signal has been sent, and nobody has taken it.
    pub(super) is_told: bool,
    /// Counts what a signal may tell of. One that tells of something earlier tells of nothing.
    pub(super) sequence: u64,
    /// Periods that had passed when the last signal was taken, beyond the one that it told of.
    pub(super) overruns: u64,
}

impl Alarm {
    /// One that is not armed.
    pub(super) fn new(clock: Clock, notice: Notice, charge: Option<Charge>) -> Self {
        Self { clock, notice, _charge: charge, ..Self::default() }
    }

    fn now(&self) -> u64 {
        self.clock.now().unwrap_or(0)
    }

    fn forward(&mut self) -> u64 {
        self.countdown.forward(self.now())
    }

    pub(super) fn arm(&mut self) {
        let due = self.countdown.due;
        self.armed = Some(match self.clock {
            Clock::Monotonic => (None, due),
            clock @ (Clock::Process(_) | Clock::Thread(_)) => (Some(clock), due),
        });
    }

    /// Arms it for its next period, though not for a moment so near that its program would do nothing else.
    fn arm_again(&mut self) {
        self.arm();
        if let Some((None, due)) = &mut self.armed {
            *due = (*due).max(monotonic_nanoseconds().saturating_add(LEAST_PERIOD));
        }
    }

    /// Whether its time has come.
    pub(super) fn is_due(&self) -> bool {
        self.armed.is_some() && self.now() >= self.countdown.due
    }

    pub(super) fn left(&self, name: Name) -> Setting {
        let mut countdown = self.countdown;
        let period = countdown.period;
        let tells = self.notice.signal.is_some();
        if tells && self.armed.is_none() && (period == 0 || name == Name::REAL) {
            return Setting { first: 0, period };
        }
        if self.armed.is_none() {
            countdown.forward(self.now());
        }
        // An armed one that is due has not come yet; 0 would say that there is none.
        Setting { first: countdown.due.saturating_sub(self.now()).max(tells.into()), period }
    }

    pub(super) fn set(&mut self, setting: Setting, is_absolute: bool) {
        (self.countdown, self.armed, self.is_told, self.overruns) = (Countdown::default(), None, false, 0);
        self.sequence += 1;
        if setting.first == 0 {
            return;
        }
        let start = if is_absolute { 0 } else { self.now() };
        self.countdown = Countdown::new(start, setting.first, setting.period);
        if self.notice.signal.is_some() {
            self.arm();
        }
    }

    /// Its time has come. What is told of it, and to whom.
    pub(super) fn expire(&mut self, name: Name) -> (Notice, Info) {
        (self.armed, self.is_told) = (None, self.countdown.period > 0);
        let told = (self.notice, self.info(name));
        if self.is_told && matches!(name, Name::Interval(_)) && name != Name::REAL {
            self.forward();
            self.arm();
        }
        told
    }

    pub(super) fn info(&self, name: Name) -> Info {
        let Name::Made(number) = name else { return Info::of_kernel() };
        Info { code: SI_TIMER, words: [number as u64, self.notice.value], timer: Some(self.sequence) }
    }

    /// A signal that tells of it is taken: the overruns.
    pub(super) fn take(&mut self) -> u64 {
        self.sequence += 1;
        if self.is_told {
            self.is_told = false;
            self.overruns = (self.forward().saturating_sub(1)).min(i32::MAX as u64);
            self.arm_again();
        }
        self.overruns
    }
}
