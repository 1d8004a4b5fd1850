//! Alarms: ITIMER_REAL and its kin, and the timers that a process makes. Each sends a signal when its time has come.
//!
//! ```text
//! timer's interrupt ──▶ the thread's time is over ──▶ tick ──▶ a round: at most 32 alarms ──▶ a pause for programs, three times as long
//! a CPU between threads ────────────────────────────────────▶ a round ──▶ the next thread
//! ```
//!
//! Rounds have interrupts open and hold no spin lock.

use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

use hardware::timer;
use kerncore::countdown;
use userspace::Map;

use super::alarm::{Alarm, Armed};
pub(crate) use super::alarm::{Clock, Name, Notice, Setting};
use super::queued::Charge;
use super::signals::{Info, Pending, SIGALRM, SIGKILL, SIGPROF, SIGVTALRM, SIGXCPU, Signal};
use super::table::Process;
use super::{resources, sending, table};
use crate::clock;
use crate::fallible::NoMemory;
use crate::locks::{OpenLock, order};
use crate::threads::dispatcher;

/// A process, and which of its alarms.
type Key = (i32, Name);

/// Alarms that one round serves.
const MOST_AT_ONCE: usize = 32;
/// Nanoseconds that programs have from one round to the next, at least and at most.
const PAUSE: Range<u64> = 100_000..10_000_000;

struct Alarms {
    all: Map<Key, Alarm>,
    /// Those that are armed: by CLOCK_MONOTONIC, then by the clocks of what has run.
    order: Vec<(Armed, Key)>,
}

static ALARMS: OpenLock<Alarms> = OpenLock::new(order::ALARMS, Alarms { all: Map::new(), order: Vec::new() });
/// Some are armed whose time is what somebody has run. Written under the lock.
static HAS_RUNNING: AtomicBool = AtomicBool::new(false);

impl Alarms {
    fn change<T>(&mut self, key: Key, body: impl FnOnce(&mut Alarm) -> T) -> Option<T> {
        let alarm = self.all.get_mut(&key)?;
        let before = alarm.armed;
        let result = body(alarm);
        if before != alarm.armed {
            let armed = alarm.armed;
            before.into_iter().for_each(|armed| self.leave_order((armed, key)));
            armed.into_iter().for_each(|armed| self.enter_order((armed, key)));
        }
        Some(result)
    }

    fn remove(&mut self, key: Key) -> bool {
        let found = self.all.remove(&key);
        if let Some(armed) = found.as_ref().and_then(|alarm| alarm.armed) {
            self.leave_order((armed, key));
        }
        if let (Some(alarm), Name::Made(_)) = (&found, key.1)
            && alarm.notice.signal.is_some()
        {
            // Its signal needs no room any more.
            with_target(key.0, alarm.notice, |pending| pending.release_timer());
        }
        if self.all.is_empty() {
            self.order = Vec::new();
        }
        found.is_some()
    }

    /// Has memory for one alarm more, armed or not.
    fn add(&mut self, key: Key, alarm: Alarm) -> Result<(), NoMemory> {
        self.order.try_reserve(self.all.len() + 1 - self.order.len()).map_err(|_| NoMemory)?;
        self.all.insert(key, alarm).map(drop)
    }

    fn enter_order(&mut self, entry: (Armed, Key)) {
        let (Ok(place) | Err(place)) = self.order.binary_search(&entry);
        // The comparison leaves the compiler no way to a list that grows: see `add`.
        if self.order.len() < self.order.capacity() {
            self.order.insert(place, entry);
        }
    }

    fn leave_order(&mut self, entry: (Armed, Key)) {
        if let Ok(place) = self.order.binary_search(&entry) {
            self.order.remove(place);
        }
    }

    /// Sends an alarm's signal. Under the lock, so that who sees that an alarm has come has its signal.
    fn expire(&mut self, key: Key) {
        if let Some((notice, info)) = self.change(key, |alarm| alarm.expire(key.1)) {
            tell(key.0, notice, info);
        }
    }

    /// Sends the signals of the first alarms of a clock that are due.
    fn expire_first(&mut self, clock: Option<Clock>, now: u64) {
        let start = ((clock, 0), (i32::MIN, Name::REAL));
        for _ in 0..MOST_AT_ONCE {
            let next = self.order.get(self.order.partition_point(|entry| *entry < start)).copied();
            let Some((_, key)) = next.filter(|((one, due), _)| *one == clock && *due <= now) else { return };
            self.expire(key);
        }
    }
}

fn with<T>(body: impl FnOnce(&mut Alarms) -> T) -> T {
    ALARMS.with(|alarms| {
        let result = body(alarms);
        let next = alarms.order.first().filter(|((clock, _), _)| clock.is_none());
        dispatcher::set_due(next.map_or(u64::MAX, |((_, due), _)| clock::ticks(*due)));
        let has_running = alarms.order.last().is_some_and(|((clock, _), _)| clock.is_some());
        HAS_RUNNING.store(has_running, Ordering::Relaxed);
        result
    })
}

/// Makes an alarm that is not armed.
pub(crate) fn make(key: (i32, i32), clock: Clock, notice: Notice, charge: Charge) -> Result<(), NoMemory> {
    let (process, number) = key;
    if notice.signal.is_some() {
        // To tell of it takes no memory then.
        with_target(process, notice, |pending| pending.reserve_timer()).unwrap_or(Ok(()))?;
    }
    let alarm = Alarm::new(clock, notice, Some(charge));
    let made = with(|alarms| alarms.add((process, Name::Made(number)), alarm));
    if made.is_err() && notice.signal.is_some() {
        with_target(process, notice, |pending| pending.release_timer());
    }
    made
}

/// Passes `body` where an alarm's signal waits.
fn with_target<T>(process: i32, notice: Notice, body: impl FnOnce(&Pending) -> T) -> Option<T> {
    let process = table::find(process).ok()?;
    match notice.thread {
        None => Some(body(&process.pending)),
        Some(number) => process.thread(number).map(|thread| body(&thread.task().pending)),
    }
}

/// Takes an alarm away. Whether there was one.
pub(crate) fn delete(process: i32, number: i32) -> bool {
    with(|alarms| alarms.remove((process, Name::Made(number))))
}

/// Takes away what a process has made, and the others unless the process goes on with another program.
pub(crate) fn delete_all(process: i32, goes_on: bool) {
    let first = (process, if goes_on { Name::Made(0) } else { Name::REAL });
    // One by one: who waits for the lock gets its turn.
    while with(|alarms| {
        let next = alarms.all.at_least(&first).next().map(|(key, _)| *key).filter(|key| key.0 == process);
        next.is_some_and(|key| alarms.remove(key))
    }) {}
}

/// Sets an alarm, or has it never come; gives what was left. None if there is no such alarm.
pub(crate) fn set(process: i32, name: Name, setting: Setting, is_absolute: bool) -> Result<Option<Setting>, NoMemory> {
    with(|alarms| {
        let key = (process, name);
        if let Name::Interval(which) = name {
            let (signal, clock) = match which {
                0 => (SIGALRM, Clock::Monotonic),
                1 => (SIGVTALRM, Clock::Process(process)),
                _ => (SIGPROF, Clock::Process(process)),
            };
            let notice = Notice { signal: Some(signal), ..Notice::default() };
            if !alarms.all.contains_key(&key) {
                alarms.add(key, Alarm::new(clock, notice, None))?;
            }
        }
        let changed = alarms.change(key, |alarm| {
            let before = alarm.left(name);
            alarm.set(setting, is_absolute);
            (before, alarm.is_due())
        });
        let Some((before, is_due)) = changed else { return Ok(None) };
        // What is over by now needs no round: who asks for it pays for it.
        if is_due {
            alarms.expire(key);
        }
        Ok(Some(before))
    })
}

/// What is left of an alarm's time. None if there is no such alarm.
pub(crate) fn get(process: i32, name: Name) -> Option<Setting> {
    ALARMS.with(|alarms| alarms.all.get(&(process, name)).map(|alarm| alarm.left(name)))
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

/// A SIGALRM is taken, whoever sent it: ITIMER_REAL counts on, as on Linux.
pub(super) fn take_real(process: i32) {
    with(|alarms| alarms.change((process, Name::REAL), |alarm| alarm.take()));
}

/// A process no longer ignores a signal: alarms with a period tell it again what it ignored.
pub(crate) fn tell_again(process: i32, signal: Signal) {
    ALARMS.with(|alarms| {
        let all = alarms.all.at_least(&(process, Name::Made(0)));
        for ((_, name), alarm) in all.take_while(|((owner, _), _)| *owner == process) {
            if alarm.is_told && alarm.notice.signal == Some(signal) {
                tell(process, alarm.notice, alarm.info(*name));
            }
        }
    });
}

/// Serves alarms that are due. Interrupts are open.
pub(crate) fn fire() {
    let now = timer::read_counter();
    // One CPU has each round. The others look again soon: it is never as if nothing were due.
    if dispatcher::take_due(now, now + clock::ticks(PAUSE.start)) {
        with(|alarms| alarms.expire_first(None, clock::nanoseconds(now)));
    }
}

/// The time of a thread that runs here is over, or an alarm is due.
pub(super) fn tick(process: &Process, thread: i32) {
    let begun = timer::read_counter();
    if dispatcher::due_here().is_some_and(|due| due <= begun) {
        fire();
        let pause = clock::ticks(PAUSE.start)..clock::ticks(PAUSE.end);
        dispatcher::pause_until(countdown::next_round(begun, timer::read_counter(), pause));
    }
    limit_seconds(process);
    fire_by_running(process.number, thread);
}

/// Sends SIGXCPU to a process that has run as long as it may, and each second from then on. Its hard
/// limit ends it.
fn limit_seconds(process: &Process) {
    let seconds = process.nanoseconds() / clock::SECOND;
    let signal = process.limits.with(|limits| match &mut limits.0[resources::SECONDS] {
        [_, hard] if *hard <= seconds => Some(SIGKILL),
        [soft, _] if *soft <= seconds => {
            *soft += 1;
            Some(SIGXCPU)
        }
        _ => None,
    });
    signal.into_iter().for_each(|signal| process.send(signal, Info::of_kernel()));
}

/// Sends the signals that are due by what this thread, and its process, have run.
pub(super) fn fire_by_running(process: i32, thread: i32) {
    if !HAS_RUNNING.load(Ordering::Relaxed) {
        return;
    }
    for clock in [Clock::Process(process), Clock::Thread(thread)] {
        if let Some(now) = clock.now() {
            with(|alarms| alarms.expire_first(Some(clock), now));
        }
    }
}

fn tell(process: i32, notice: Notice, info: Info) {
    let (Ok(process), Some(signal)) = (table::find(process), notice.signal) else { return };
    match notice.thread {
        None => process.send(signal, info),
        Some(number) => {
            if let Some(thread) = process.thread(number) {
                let _ = sending::send_to(&thread, signal, info);
            }
        }
    }
}

/// Gives back what the alarms have of the heap: there is no process any more.
pub(crate) fn forget() {
    drop(ALARMS.with(|alarms| (core::mem::take(&mut alarms.all), core::mem::take(&mut alarms.order))));
}
