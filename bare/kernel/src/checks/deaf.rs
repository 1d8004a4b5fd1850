//! A CPU that waits with interrupts masked and answers no call to park, as a lock may that an embedder wrote: a change for which that CPU
//! is to park is refused whole, and names it. One for which it need not park is made.

use core::sync::atomic::{AtomicBool, Ordering};

use hardware::per_cpu::MAX_CPUS;
use hardware::{interrupts, timer};
use linearmap::{Context, NotParked, Refused, Wanted};

use super::detail::{Detail, tell};
use crate::cpus::{calls, parking, walkers};
use crate::facts::{facts, page_size};
use crate::locks::{Lock, order};
use crate::memory::{current, linear_map, pages};

/// log2 of the pages of the block of which one is changed: a part of some leaf.
const ORDER: usize = 4;

/// Whether a CPU that runs is to be deaf.
pub(super) fn is_deaf(cpu: usize) -> bool {
    facts().options.cpus[cpu].is_deaf == Some(true) && walkers::running() >> cpu & 1 != 0
}

/// Waits for `flag` and answers nobody.
fn wait_deaf(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        interrupts::pause();
    }
}

pub(super) fn is_named(detail: &mut Detail) -> bool {
    let Some(block) = pages::allocate(ORDER) else { return false };
    let start = facts().linear.address(block) + page_size().size_bytes();
    let map = linear_map::get();
    let change = |wanted| map.change(&[start..start + page_size().size_bytes()], wanted, Context::MayWait);
    let table = current::upper();
    let look = || (table.summary(table.range()), table.translate(start), map.counters().splits);
    let (has_begun, is_over, seen) = (AtomicBool::new(false), AtomicBool::new(false), Lock::new(order::DEAF, None));
    calls::while_idle_on_every_cpu(&|cpu| match cpu {
        0 => {
            wait_deaf(&has_begun);
            let before = look();
            let [(refused, seconds), (_, seconds_again)] = [(); 2].map(|()| {
                let begin = timer::read_counter();
                (change(Wanted::ReadOnly), (timer::read_counter() - begin) / timer::read_frequency())
            });
            let is_asked = (1..MAX_CPUS).any(|cpu| is_deaf(cpu) && parking::asks(cpu));
            // Nobody waits long for a CPU that has not come once.
            let is_right = look() == before && seconds_again < seconds.div_ceil(2);
            seen.with(|seen| *seen = Some((refused, seconds, is_right, is_asked)));
            is_over.store(true, Ordering::Release);
        }
        cpu if is_deaf(cpu) => {
            let masks = interrupts::mask();
            has_begun.store(true, Ordering::Release);
            wait_deaf(&is_over);
            interrupts::restore(masks);
        }
        _ => {}
    });
    let again = change(Wanted::ReadOnly).and_then(|()| change(Wanted::Writable));
    map.heal_all();
    pages::free(block, ORDER);
    match seen.with(|seen| *seen) {
        Some((Ok(()), _, _, false)) => {
            tell!(detail, "it need not park, and the change was made");
            again.is_ok()
        }
        Some((Err(Refused::NotParked(NotParked(Some(cpu)))), seconds, true, true)) if is_deaf(cpu) => {
            tell!(detail, "cpu {cpu} after {seconds} s; once it answers: {again:?}");
            again.is_ok()
        }
        seen => {
            tell!(detail, "expected a refusal that changes nothing and names it, then another at once, got {seen:?}");
            false
        }
    }
}
