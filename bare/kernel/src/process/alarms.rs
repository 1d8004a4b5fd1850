//! ITIMER_REAL: a signal when a time has come.

use alloc::collections::BTreeMap;

use hardware::lock::Lock;
use hardware::timer;

use super::signals::{Info, SIGALRM};
use super::table;

/// By process: when, in ticks of the counter, and after how many ticks again; 0 for never.
static ALARMS: Lock<BTreeMap<i32, (u64, u64)>> = Lock::new(BTreeMap::new());

/// Sets the alarm of a process, or takes it away; gives what it was.
pub(crate) fn set(process: i32, alarm: Option<(u64, u64)>) -> Option<(u64, u64)> {
    ALARMS.with(|alarms| match alarm {
        Some(alarm) => alarms.insert(process, alarm),
        None => alarms.remove(&process),
    })
}

/// The alarm of a process.
pub(crate) fn get(process: i32) -> Option<(u64, u64)> {
    ALARMS.with(|alarms| alarms.get(&process).copied())
}

/// Gives back what the alarms have of the heap: there is no process any more.
pub(crate) fn forget() {
    drop(ALARMS.with(core::mem::take));
}

/// When the next is due.
pub(crate) fn next() -> Option<u64> {
    ALARMS.with(|alarms| alarms.values().map(|(when, _)| *when).min())
}

/// Sends the signals that are due.
pub(crate) fn fire() {
    let now = timer::read_counter();
    while let Some(number) = ALARMS.with(|alarms| take_due(alarms, now)) {
        if let Ok(process) = table::find(number) {
            process.send(SIGALRM, Info::of_kernel());
        }
    }
}

fn take_due(alarms: &mut BTreeMap<i32, (u64, u64)>, now: u64) -> Option<i32> {
    let (number, (when, period)) =
        alarms.iter().find(|(_, (when, _))| *when <= now).map(|(number, alarm)| (*number, *alarm))?;
    match period {
        0 => alarms.remove(&number),
        _ => alarms.insert(number, (now.max(when) + period, period)),
    };
    Some(number)
}
