//! The self-checks of every boot. Each does what must not be possible, or must be, and looks at what happens.

mod coming;
mod deaf;
mod detail;
mod executable;
mod exhausted;
mod handed;
mod late;
mod leaves;
mod memory;
pub(crate) mod moments;
mod moved_page;
mod one_page;
mod pool;
mod protections;
mod range;
mod ring;
mod same_map;
mod secret;
mod stack;
mod unneeded;
mod vmalloc;

use detail::{Detail, tell};
use hardware::per_cpu::MAX_CPUS;
pub(crate) use one_page::find_room;

use crate::console::say;
use crate::facts::facts;
use crate::report::times::{self, Step};
use crate::report::{json, outcome};
use crate::stress;

/// A check: whether it passed. What it writes to its detail is printed either way.
type Check = fn(&mut Detail) -> bool;

const CHECKS: [(&str, Check); 21] = [
    ("a write to read-only data faults", protections::write_to_read_only_data),
    ("a write to text by its linear alias faults", protections::write_to_text_alias),
    ("a write to read-only data by its linear alias faults", protections::write_to_read_only_alias),
    ("no page of text or read-only data can be written", leaves::read_only),
    ("data is not executed", protections::execute_data),
    ("nothing but text can be executed", leaves::executable),
    ("what exceptions need is in pages by themselves", leaves::of_exceptions),
    ("a stack that runs out is caught and named", stack::overflow),
    ("every page of memory is in the linear map", memory::read_every_page),
    ("nothing else is in the linear map", leaves::linear_map),
    ("every CPU has the same map", same_map::compare),
    ("a page that moves is found by every CPU", moved_page::follow),
    ("one page of a block is protected alone", one_page::protect),
    ("an area of virtual addresses is of the largest leaves, and leaves nothing", vmalloc::take),
    ("text that comes at run time is executed by every CPU and written by none", executable::run),
    ("memory is shared with a realm's host and taken back", handed::passed),
    ("a thousand pages that are shared one by one split few blocks", pool::take),
    ("a ring in shared memory is printed by the monitor", ring::say),
    ("secret memory is not in the linear map while it is held", secret::hold),
    ("memory goes and comes back", coming::go_and_come),
    ("what early boot alone needed is free", unneeded::freed),
];

/// Where CPUs were held back.
const LATE: (&str, Check) = ("a CPU that comes late has the same map", late::join);
/// Where one is to be deaf.
const DEAF: (&str, Check) = ("a CPU that does not answer is named, and nothing is changed", deaf::is_named);
/// Where that was asked for: it has changes of the linear map be refused, which its report then tells.
const EXHAUSTED: (&str, Check) =
    ("memory is exhausted at every step, and nothing is lost or half done", exhausted::at_every_step);
/// Where one was asked for.
const STRESS: (&str, Check) = ("a stress leaves the linear map as it was", |detail| {
    tell!(detail, "it was made before these checks");
    stress::has_passed() == Some(true)
});
/// Last of all.
const MOMENTS: (&str, Check) = ("the linear map is changed at every moment of boot", moments::passed);

/// Runs every check and prints how it went.
pub(crate) fn run_all() {
    say!("# checks");
    let has_late = facts().options.late_cpus.is_some_and(|late| late > 0);
    let has_deaf = (1..MAX_CPUS).any(deaf::is_deaf);
    let exhausts = facts().options.exhausts == Some(true);
    let all = CHECKS
        .iter()
        .chain(exhausts.then_some(&EXHAUSTED))
        .chain(has_late.then_some(&LATE))
        .chain(has_deaf.then_some(&DEAF));
    let all = all.chain(stress::has_passed().map(|_| &STRESS)).chain([&MOMENTS]);
    let (mut passed, mut checks) = ([false; CHECKS.len() + 5], 0);
    for (name, check) in all.clone() {
        let mut detail = Detail::EMPTY;
        let is_ok = check(&mut detail);
        passed[checks] = is_ok;
        checks += 1;
        if checks == 1 {
            times::record(Step::FirstCheck);
        }
        outcome::note(name, is_ok, detail);
    }
    json::checks("checks", all.zip(passed).map(|((name, _), is_ok)| (*name, is_ok)));
}
