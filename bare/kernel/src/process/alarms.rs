//! Alarms: ITIMER_REAL and its kin, and the timers that a process makes. Each sends a signal when its time has come.
//!
//! ```text
//! armed ──its time──▶ told: one signal waits ──is taken──▶ armed for the next period; those that passed meanwhile are overruns
//! ```

use alloc::collections::{BTreeMap, BTreeSet};
use core::sync::atomic::{AtomicBool, Ordering};

use hardware::lock::Lock;
use hardware::timer;

use super::signals::{Info, SI_TIMER, SIGALRM, SIGPROF, SIGVTALRM, Signal};
use super::{sending, table};
use crate::clock::{self, LONGEST, monotonic_nanoseconds, real_nanoseconds};
use crate::threads::dispatcher;
use crate::threads::thread::try_current;

/// Which alarm of a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Name {
    /// ITIMER_REAL, ITIMER_VIRTUAL and ITIMER_PROF, by their numbers.
    Interval(u32),
    /// One that the process has made, by its number.
    Made(i32),
}

/// A process, and which of its alarms.
type Key = (i32, Name);

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
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Clock {
    #[default]
    Monotonic,
    /// CLOCK_REALTIME, which may be set.
    Real,
    /// What a process, or a thread, has run.
    Process(i32),
    Thread(i32),
}

impl Clock {
    fn is_of_running(self) -> bool {
        matches!(self, Self::Process(_) | Self::Thread(_))
    }

    /// What it says; nothing of who is gone.
    pub(crate) fn now(self) -> Option<u64> {
        match self {
            Self::Monotonic => Some(monotonic_nanoseconds()),
            Self::Real => Some(real_nanoseconds()),
            Self::Process(number) => table::find(number).ok().map(|process| process.nanoseconds()),
            Self::Thread(number) => table::find_thread(number).ok().map(|one| clock::nanoseconds(one.spent().ticks)),
        }
    }
}

/// Where alarms stand in the order whose time is what somebody has run.
const BY_RUNNING: u64 = u64::MAX;

/// A first time, and after how long again: nanoseconds, 0 for never.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Setting {
    pub(crate) first: u64,
    pub(crate) period: u64,
}

#[derive(Clone, Copy, Default)]
struct Alarm {
    notice: Notice,
    clock: Clock,
    /// When it is due, or was.
    due: u64,
    /// By which clock: not by CLOCK_REALTIME, unless the program said a point of that.
    due_by: Clock,
    period: u64,
    /// When it is due by CLOCK_MONOTONIC, or [`BY_RUNNING`], while it is armed; where it stands in [`Alarms::order`].
    armed: Option<u64>,
    /// Its signal has been sent, and nobody has taken it.
    is_told: bool,
    /// Counts what a signal may tell of. One that tells of something earlier tells of nothing.
    sequence: u64,
    /// Periods that had passed when the last signal was taken, beyond the one that it told of.
    overruns: u64,
}

impl Alarm {
    fn now(&self) -> u64 {
        self.due_by.now().unwrap_or(0)
    }

    fn arm(&mut self) {
        self.armed = Some(match self.due_by {
            Clock::Monotonic => self.due,
            Clock::Real => clock::since_boot(self.due),
            Clock::Process(_) | Clock::Thread(_) => BY_RUNNING,
        });
    }

    /// Has it due beyond now; how many periods that takes.
    fn forward(&mut self) -> u64 {
        let late = self.now().checked_sub(self.due).filter(|_| self.period > 0);
        let periods = late.map_or(0, |late| late / self.period + 1);
        self.due = self.due.saturating_add(periods.saturating_mul(self.period)).min(LONGEST);
        periods
    }

    fn left(mut self) -> Setting {
        let period = self.period;
        let tells = self.notice.signal.is_some();
        if tells && period == 0 && self.armed.is_none() {
            return Setting::default();
        }
        if self.armed.is_none() {
            self.forward();
        }
        // An armed one that is due has not come yet; 0 would say that there is none.
        Setting { first: self.due.saturating_sub(self.now()).max(tells.into()), period }
    }

    fn set(&mut self, setting: Setting, is_absolute: bool) {
        (self.due, self.period, self.armed, self.is_told, self.overruns) = (0, 0, None, false, 0);
        self.sequence += 1;
        if setting.first == 0 {
            return;
        }
        self.period = setting.period;
        self.due_by = if is_absolute || self.clock.is_of_running() { self.clock } else { Clock::Monotonic };
        let start = if is_absolute { 0 } else { self.now() };
        self.due = start.saturating_add(setting.first).min(LONGEST);
        if self.notice.signal.is_some() {
            self.arm();
        }
    }

    /// Its time has come. What is told of it, and to whom.
    fn expire(&mut self, name: Name) -> (Notice, Info) {
        (self.armed, self.is_told) = (None, self.period > 0);
        let told = (self.notice, self.info(name));
        if matches!(name, Name::Interval(_)) && self.period > 0 {
            self.forward();
            self.arm();
        }
        told
    }

    fn info(&self, name: Name) -> Info {
        let Name::Made(number) = name else { return Info::of_kernel() };
        Info { code: SI_TIMER, words: [number as u64, self.notice.value], timer: Some(self.sequence) }
    }

    /// A signal that tells of it is taken: the overruns.
    fn take(&mut self) -> u64 {
        self.sequence += 1;
        if self.is_told {
            self.is_told = false;
            self.overruns = (self.forward().saturating_sub(1)).min(i32::MAX as u64);
            self.arm();
        }
        self.overruns
    }
}

struct Alarms {
    all: BTreeMap<Key, Alarm>,
    /// Those that are armed, by CLOCK_MONOTONIC.
    order: BTreeSet<(u64, Key)>,
    /// How many of all were made.
    made: u64,
}

static ALARMS: Lock<Alarms> = Lock::new(Alarms { all: BTreeMap::new(), order: BTreeSet::new(), made: 0 });
/// Some are armed whose time is what somebody has run. Written under the lock.
static HAS_RUNNING: AtomicBool = AtomicBool::new(false);

impl Alarms {
    fn change<T>(&mut self, key: Key, body: impl FnOnce(&mut Alarm) -> T) -> Option<T> {
        let alarm = self.all.get_mut(&key)?;
        let before = alarm.armed;
        let result = body(alarm);
        if before != alarm.armed {
            before.map(|when| self.order.remove(&(when, key)));
            alarm.armed.map(|when| self.order.insert((when, key)));
        }
        Some(result)
    }

    fn remove(&mut self, key: Key) -> bool {
        let found = self.all.remove(&key);
        if let Some(when) = found.and_then(|alarm| alarm.armed) {
            self.order.remove(&(when, key));
        }
        self.made -= u64::from(found.is_some() && matches!(key.1, Name::Made(_)));
        found.is_some()
    }
}

fn with<T>(body: impl FnOnce(&mut Alarms) -> T) -> T {
    ALARMS.with(|alarms| {
        let result = body(alarms);
        let next = alarms.order.first().filter(|(when, _)| *when != BY_RUNNING);
        dispatcher::set_due(next.map_or(u64::MAX, |(when, _)| clock::ticks(*when)));
        HAS_RUNNING.store(alarms.order.last().is_some_and(|(when, _)| *when == BY_RUNNING), Ordering::Relaxed);
        result
    })
}

/// How many were made by all processes, and are there.
pub(crate) fn made() -> u64 {
    ALARMS.with(|alarms| alarms.made)
}

/// Makes an alarm that is not armed.
pub(crate) fn make(process: i32, number: i32, clock: Clock, notice: Notice) {
    with(|alarms| {
        alarms.all.insert((process, Name::Made(number)), Alarm { clock, notice, ..Alarm::default() });
        alarms.made += 1;
    });
}

/// Takes an alarm away. Whether there was one.
pub(crate) fn delete(process: i32, number: i32) -> bool {
    with(|alarms| alarms.remove((process, Name::Made(number))))
}

/// Takes away what a process has made, and the others unless the process goes on with another program.
pub(crate) fn delete_all(process: i32, goes_on: bool) {
    let first = (process, if goes_on { Name::Made(0) } else { Name::Interval(0) });
    // One by one: interrupts are masked meanwhile.
    while with(|alarms| {
        let next = alarms.all.range(first..=(process, Name::Made(i32::MAX))).next().map(|(key, _)| *key);
        next.is_some_and(|key| alarms.remove(key))
    }) {}
}

/// Sets an alarm, or has it never come; gives what was left. None if there is no such alarm.
pub(crate) fn set(process: i32, name: Name, setting: Setting, is_absolute: bool) -> Option<Setting> {
    let before = with(|alarms| {
        let key = (process, name);
        if let Name::Interval(which) = name {
            let (signal, clock) = match which {
                0 => (SIGALRM, Clock::Monotonic),
                1 => (SIGVTALRM, Clock::Process(process)),
                _ => (SIGPROF, Clock::Process(process)),
            };
            let notice = Notice { signal: Some(signal), ..Notice::default() };
            alarms.all.entry(key).or_insert(Alarm { notice, clock, ..Alarm::default() });
        }
        alarms.change(key, |alarm| {
            let before = alarm.left();
            alarm.set(setting, is_absolute);
            before
        })
    });
    fire();
    before
}

/// What is left of an alarm's time. None if there is no such alarm.
pub(crate) fn get(process: i32, name: Name) -> Option<Setting> {
    ALARMS.with(|alarms| alarms.all.get(&(process, name)).map(|alarm| alarm.left()))
}

/// The overruns of the last signal that was taken.
pub(crate) fn overruns(process: i32, number: i32) -> Option<u64> {
    ALARMS.with(|alarms| alarms.all.get(&(process, Name::Made(number))).map(|alarm| alarm.overruns))
}

/// A signal of an alarm is taken: the overruns; none if the alarm was set anew or deleted after the signal was sent.
pub(super) fn take(process: i32, number: i32, sequence: u64) -> Option<u64> {
    with(|alarms| {
        let is_of_this = |alarm: &mut Alarm| (alarm.sequence == sequence).then(|| alarm.take());
        alarms.change((process, Name::Made(number)), is_of_this).flatten()
    })
}

/// A process no longer ignores a signal: alarms with a period tell it again what it ignored.
pub(crate) fn tell_again(process: i32, signal: Signal) {
    ALARMS.with(|alarms| {
        for ((_, name), alarm) in alarms.all.range((process, Name::Made(0))..=(process, Name::Made(i32::MAX))) {
            if alarm.is_told && alarm.notice.signal == Some(signal) {
                tell(process, alarm.notice, alarm.info(*name));
            }
        }
    });
}

/// CLOCK_REALTIME was set: what waits for a point of it waits for another time.
pub(crate) fn move_real() {
    with(|alarms| {
        let is_real = |alarm: &Alarm| alarm.due_by == Clock::Real && alarm.armed.is_some();
        let moved = alarms.all.iter().filter(|(_, alarm)| is_real(alarm)).map(|(key, _)| *key);
        for key in moved.collect::<alloc::vec::Vec<_>>() {
            alarms.change(key, Alarm::arm);
        }
    });
    fire();
}

/// Sends the signals that are due.
pub(crate) fn fire() {
    // What comes due meanwhile comes later: a short period may not keep this CPU.
    let now = timer::read_counter();
    while dispatcher::due().is_some_and(|due| due <= now) {
        // Under the lock, so that who sees that an alarm has come has its signal.
        let told = with(|alarms| {
            let (_, key) = *alarms.order.first().filter(|(when, _)| clock::ticks(*when) <= now)?;
            alarms.change(key, |alarm| alarm.expire(key.1)).map(|(notice, info)| tell(key.0, notice, info))
        });
        if told.is_none() {
            return;
        }
    }
}

/// The timer's interrupt. The thread that runs here has run for a while.
pub(crate) fn tick() {
    fire();
    if let Some(thread) = try_current() {
        thread.task().process.limit_seconds();
        fire_by_running();
    }
}

/// Sends the signals that are due by what threads have run; one of them has run until now.
pub(crate) fn fire_by_running() {
    let first = (BY_RUNNING, (0, Name::Interval(0)));
    while HAS_RUNNING.load(Ordering::Relaxed) {
        let told = with(|alarms| {
            let is_due = |key: &Key| alarms.all.get(key).is_some_and(|alarm| alarm.now() >= alarm.due);
            let key = alarms.order.range(first..).map(|(_, key)| *key).find(is_due)?;
            alarms.change(key, |alarm| alarm.expire(key.1)).map(|(notice, info)| tell(key.0, notice, info))
        });
        if told.is_none() {
            return;
        }
    }
}

fn tell(process: i32, notice: Notice, info: Info) {
    let (Ok(process), Some(signal)) = (table::find(process), notice.signal) else { return };
    match notice.thread {
        None => process.send(signal, info),
        Some(number) => {
            if let Some(thread) = process.thread(number) {
                sending::send_to(&thread, signal, info);
            }
        }
    }
}

/// Gives back what the alarms have of the heap: there is no process any more.
pub(crate) fn forget() {
    drop(ALARMS.with(|alarms| (core::mem::take(&mut alarms.all), core::mem::take(&mut alarms.order))));
}
