//! The end of all programs: once the first has ended the kernel ends the others. What then is still there is told, and fails the boot:
//! a process that does not end, and a page of memory that nobody has any more.

use core::fmt;

use super::{alarms, calls, end, futex, numbers, ownership, queued, stacks, table};
use crate::console::say;
use crate::files::tree;
use crate::memory::frames::{self, Frame};
use crate::memory::ledger::Ledger;
use crate::memory::{linear_map, modules, strays};
use crate::report::finish::{claim_the_end, finish};
use crate::report::{json, outcome, sections};
use crate::threads::queue;

/// What is checked once programs have ended.
const ENDED: &str = "every process ends";
const NOTHING_LOST: &str = "no page of memory is lost";
const EXPLAINED: &str = "areas explain every leaf";

/// Ends the machine while some process goes on.
pub(super) fn give_up() {
    claim_the_end();
    let has_ended = check_processes();
    json::checks("after init", [(ENDED, has_ended)].into_iter());
    finish(sections::verdict());
}

/// Looks at what programs have left; `before` is what there was before the first.
pub(super) fn check(before: &Ledger) {
    let has_ended = check_processes();
    let is_nothing_lost = has_ended.then(|| check_memory(before));
    let is_explained = strays::result().map(|result| match result {
        Ok(compared) => outcome::note(EXPLAINED, true, format_args!("compared {compared} times")),
        Err(address) => outcome::note(EXPLAINED, false, format_args!("{address:#x} was the first other")),
    });
    let all = [
        Some((ENDED, has_ended)),
        is_nothing_lost.map(|is_ok| (NOTHING_LOST, is_ok)),
        is_explained.map(|is_ok| (EXPLAINED, is_ok)),
    ];
    json::checks("after init", all.into_iter().flatten());
}

/// The first program has not begun.
pub(super) fn fail(why: impl fmt::Display) {
    say!("# after init");
    json::checks("after init", [(ENDED, outcome::note(ENDED, false, why))].into_iter());
}

fn check_processes() -> bool {
    say!("# after init");
    let mut left = 0;
    let what = if end::status().is_some() { "cannot be killed" } else { "waits for ever" };
    for process in table::all() {
        let number = process.number;
        left += 1;
        if process.life.with(|life| life.is_over) {
            say!("process {number} has ended, and nobody was told");
        }
        for thread in process.threads() {
            let (state, call) = (queue::state(&thread), calls::last_of(&thread));
            process.with_name(None, |name| {
                say!("process {number} ({name}) {what}: thread {} {state}; its last call: {call}", thread.number());
            });
        }
    }
    outcome::note(ENDED, left == 0, format_args!("{} of {}", table::begun() - left, table::begun()))
}

/// Takes away what programs may leave, files and modules, and compares.
fn check_memory(before: &Ledger) -> bool {
    stacks::forget_kept();
    queue::forget();
    alarms::forget();
    futex::forget();
    ownership::forget();
    table::forget_empty();
    numbers::forget_empty();
    queued::forget_empty();
    frames::forget_zeros();
    let (modules, of_files) = (modules::unload_all(), tree::clear());
    linear_map::get().heal_all();
    let now = Ledger::read();
    let lost = now.beyond(before);
    // Who would not see a page that somebody has sees none that nobody has.
    let sees_one = Frame::zeroed().is_some_and(|_one| Ledger::read().pages_beyond(&now) == 1);
    let is_ok = lost.is_none() && sees_one;
    outcome::note(
        NOTHING_LOST,
        is_ok,
        fmt::from_fn(|f| match &lost {
            Some(lost) => write!(f, "{lost}"),
            None if !sees_one => f.write_str("a page that is held is not seen"),
            None => {
                let (kib, heap) =
                    (now.free_bytes() >> 10, (before.free_bytes() as i64 - now.free_bytes() as i64) >> 10);
                match heap {
                    0 => write!(f, "free memory is what it was, to the page: {kib} KiB")?,
                    heap => {
                        write!(f, "as many objects as before are in {heap} KiB more of the heap; {kib} KiB are free")?
                    }
                }
                write!(f, "; files had {of_files} pages, {modules} modules were loaded")
            }
        }),
    )
}
