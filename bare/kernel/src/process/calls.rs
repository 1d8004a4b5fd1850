//! System calls: by number to a function, one file for each family.

/// Rows of the table: of each call the number, the name, and what answers it.
macro_rules! calls {
    ($(($number:literal, $name:literal, $function:path)),* $(,)?) => {
        &[$((
            $number,
            $name,
            |call, registers| $crate::process::calls::parameters::Function::answer($function, call, registers),
        )),*]
    };
}

pub(crate) mod advice;
mod amounts;
mod call;
mod cloning;
mod counters;
pub(crate) mod descriptors;
pub(crate) mod folders;
mod identity;
pub(crate) mod input;
mod lengths;
mod lists;
mod locks;
pub(crate) mod memory;
pub(crate) mod modules;
mod moving;
mod parameters;
pub(crate) mod paths;
mod piping;
mod prctl;
pub(crate) mod processes;
mod regular;
mod scheduling;
pub(crate) mod signals;
pub(crate) mod status;
pub(crate) mod synchronization;
pub(crate) mod time;
pub(crate) mod timers;
mod users;
pub(crate) mod waiting;

use core::sync::atomic::{AtomicU64, Ordering};

use call::{Call, NO_ANSWER, Row};
use hardware::exception::Frame;

use crate::console::say;
use crate::errno::*;
use crate::memory::failing;
use crate::threads::thread::{Thread, current};

static FAMILIES: [&[Row]; 21] = [
    memory::CALLS,
    advice::CALLS,
    input::CALLS,
    lists::CALLS,
    descriptors::CALLS,
    paths::CALLS,
    folders::CALLS,
    status::CALLS,
    processes::CALLS,
    synchronization::CALLS,
    signals::CALLS,
    time::CALLS,
    timers::CALLS,
    waiting::CALLS,
    identity::CALLS,
    scheduling::CALLS,
    modules::CALLS,
    cloning::CALLS,
    counters::CALLS,
    moving::CALLS,
    users::CALLS,
];

/// Where the call of a number is: its family, and its row in it, counted from 1; 0 for none.
static PLACES: [(u8, u8); 512] = {
    let (mut places, mut family) = ([(0, 0); 512], 0);
    while family < FAMILIES.len() {
        let mut row = 0;
        while row < FAMILIES[family].len() {
            places[FAMILIES[family][row].0 as usize] = (family as u8, row as u8 + 1);
            row += 1;
        }
        family += 1;
    }
    places
};

fn find(number: u64) -> Option<&'static Row> {
    let (family, row) = PLACES.get(number as usize)?;
    FAMILIES[usize::from(*family)].get(usize::from(*row).checked_sub(1)?)
}

/// How often each call was made that there is not; all whose numbers no table has are one.
static UNKNOWN: [AtomicU64; PLACES.len() + 1] = [const { AtomicU64::new(0) }; PLACES.len() + 1];

/// Carries out the call that a program makes; `body` is what threads run.
pub(super) fn answer(frame: &mut Frame, body: fn(Frame)) {
    let thread = current();
    let number = frame.registers[8];
    thread.call.store((number as u32).wrapping_add(1), Ordering::Relaxed);
    let registers = core::array::from_fn(|index| frame.registers[index]);
    let mut call = Call { thread: &thread, frame, body };
    let answer = match find(number) {
        Some((_, _, function)) => counted(&thread, || function(&mut call, registers)),
        None => {
            let number = usize::try_from(number).map_or(PLACES.len(), |number| number.min(PLACES.len()));
            UNKNOWN[number].fetch_add(1, Ordering::Relaxed);
            Err(ENOSYS)
        }
    };
    match answer {
        Ok(value) => frame.registers[0] = value,
        Err(NO_ANSWER) => {}
        // Whatever the handler says, of which it comes back to the call.
        Err(ERESTART_ALWAYS) => frame.return_address -= 4,
        Err(ERESTART) => {
            thread.interrupted.set(Some(registers[0]));
            frame.registers[0] = (-i64::from(EINTR.0)) as u64;
        }
        Err(Errno(number)) => frame.registers[0] = (-i64::from(number)) as u64,
    }
}

/// Makes a call; an allocation of it fails, if the thread has asked for that.
fn counted(thread: &Thread, call: impl FnOnce() -> Answer) -> Answer {
    let fails = &thread.task().fails;
    failing::exchange(fails.get());
    let answer = call();
    fails.set(failing::exchange(0));
    answer
}

/// Tells of the calls that there are not.
pub(crate) fn report() {
    let counts = UNKNOWN.iter().map(|count| count.swap(0, Ordering::Relaxed)).enumerate();
    for (number, count) in counts.filter(|(_, count)| *count > 0) {
        if number == PLACES.len() {
            say!("init: calls from {number} on are not there, asked for {count} times: ENOSYS");
            continue;
        }
        say!("init: call {number} is not there (docs/linux-compat.md), asked for {count} times: ENOSYS");
    }
}

/// The call that a thread made last.
pub(super) fn last_of(thread: &Thread) -> &'static str {
    match thread.call.load(Ordering::Relaxed) {
        0 => "none",
        number => find(u64::from(number - 1)).map_or("one that is not there", |(_, name, _)| name),
    }
}

/// An error in words, for the kernel's own lines.
pub(crate) fn words(error: Errno) -> &'static str {
    match error {
        ENOENT => "no such file",
        EACCES => "not executable, or no regular file",
        ENOEXEC => "not a static program for arm64, or not aligned for this page size",
        ENOMEM => "no memory",
        ENOTDIR => "a part of the path is no folder",
        _ => "it cannot be run",
    }
}
