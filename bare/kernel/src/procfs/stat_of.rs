//! `/proc/N/stat`: a process, or one of its threads, in one line of numbers.

use crate::fallible::Arc;
use core::fmt::Write;

use super::areas::line;
use crate::clock;
use crate::facts::page_size;
use crate::files::text::Text;
use crate::process::resources::RESIDENT;
use crate::process::table::Process;
use crate::threads::queue;
use crate::threads::thread::Thread;

/// PF_RANDOMIZE, which every process has on Linux.
const FLAGS: u64 = 0x40_0000;
const HUNDREDTH: u64 = clock::SECOND / 100;

/// Writes it.
pub(super) fn write(text: &mut Text, process: &Arc<Process>, thread: Option<&Arc<Thread>>) {
    let (parent, group, session, threads, by_children) =
        process.life.with(|life| (life.parent, life.group, life.session, life.threads.len(), life.spent_by_children));
    let usage = process.try_space().map(|space| space.usage()).unwrap_or_default();
    let spent = thread.map_or_else(|| process.spent(), |thread| thread.spent());
    let hundredths = |ticks: u64| clock::nanoseconds(ticks) / HUNDREDTH;
    let state = state(process, thread);
    let first = process.first_thread();
    let shown = thread.or(first.as_ref());
    let limit = process.limits.with(|limits| limits.0[RESIDENT][0]);
    let (stack, places) = process.image.with(|image| (image.stack, image.places));
    let heap = process.try_space().map_or(0, |space| space.heap().start);
    // A process that is over has no memory that anything could be in.
    let is_there = u64::from(process.try_space().is_some());
    let number = thread.map_or(process.number, |thread| thread.number());
    process.with_name(thread, |name| {
        let _ = write!(text, "{number} ({name}) {state} {parent} {group} {session} 0 -1 {FLAGS} ");
    });
    let _ = write!(text, "{} {} 0 0 {} 0 ", spent.faults, by_children.faults, hundredths(spent.ticks));
    let _ = write!(text, "{} 0 20 0 {threads} 0 ", hundredths(by_children.ticks));
    let (bytes, resident) = (usage.mapped << page_size().shift(), usage.anonymous + usage.file);
    let _ = write!(text, "{} {bytes} {resident} {limit} ", hundredths(process.begun));
    let [code, data] = [places.code, places.data].map(|range| range.map(|place| place * is_there));
    let _ = write!(text, "{} {} {} 0 0 ", code[0], code[1], stack * is_there);
    signals(text, process, shown);
    let waits = u32::from(state == 'S');
    let _ = write!(text, "{waits} 0 0 17 0 0 0 0 0 0 {} {} {heap} ", data[0], data[1]);
    let [arguments, environment] =
        [places.arguments, places.environment].map(|range| range.map(|place| place * is_there));
    let status = process.life.with(|life| life.status.filter(|_| life.is_over)).unwrap_or(0);
    line!(text, "{} {} {} {} {status}", arguments[0], arguments[1], environment[0], environment[1]);
}

/// The first 31 signals: that wait, are masked, ignored and handled.
fn signals(text: &mut Text, process: &Process, thread: Option<&Arc<Thread>>) {
    const OLD: u64 = 0x7fff_ffff;
    let (waiting, mask) = thread.map_or((0, 0), |thread| (thread.task().pending.set(), thread.task().mask()));
    let (mut ignored, mut handled) = (0u64, 0u64);
    process.actions.with(|actions| {
        for (index, action) in actions.iter().enumerate() {
            ignored |= u64::from(action.handler == 1) << index;
            handled |= u64::from(action.is_handled()) << index;
        }
    });
    let _ = write!(text, "{} {} {} {} ", waiting & OLD, mask & OLD, ignored & OLD, handled & OLD);
}

/// What a process is at, or one thread of it, in a letter.
pub(super) fn state(process: &Process, thread: Option<&Arc<Thread>>) -> char {
    if process.life.with(|life| life.is_over) {
        return 'Z';
    }
    match process.stops.by() {
        Some(_) => 'T',
        None if thread.map_or_else(|| process.threads().all(|one| queue::is_parked(&one)), queue::is_parked) => 'S',
        None => 'R',
    }
}
