//! Who reads the kernel's tables beside their editor, without its lock: a table that is unlinked is not used again before they are
//! done with it.
//!
//! ```text
//! reader   number becomes odd ── reads ── number becomes even      exceptions are masked, so that no change comes in between
//! editor   unlinks, TLBIs, DSB ── for each other CPU: is its number odd? until it is another ── the table is free
//! ```

use core::sync::atomic::{AtomicU32, Ordering, fence};

use hardware::interrupts;
use hardware::per_cpu::{self, MAX_CPUS};

/// How often each CPU has begun to read, and ended.
static NUMBERS: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];

/// Runs `body`, which reads the kernel's tables, and not for long: exceptions are masked, and an editor may wait for its end. It takes
/// no lock: who waits for one may be parked, and whoever parked it would wait for its end for ever.
pub(crate) fn read<T>(body: impl FnOnce() -> T) -> T {
    let masks = interrupts::mask();
    let number = &NUMBERS[per_cpu::index()];
    // One that reads while it reads, such as a report of a fault in a reader, begins nothing and ends nothing.
    let begins = number.load(Ordering::Relaxed).is_multiple_of(2);
    if begins {
        // Before the first load of a descriptor, or the editor could look in between and not wait.
        number.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
    let result = body();
    if begins {
        // Behind the last load.
        number.fetch_add(1, Ordering::Release);
    }
    interrupts::restore(masks);
    result
}

/// Waits until every reading that is under way on another CPU has ended. What was unlinked is out of all CPUs' sight.
pub(crate) fn wait() {
    fence(Ordering::SeqCst);
    let others = NUMBERS.iter().enumerate().filter(|(cpu, _)| *cpu != per_cpu::index());
    for (_, number) in others {
        let seen = number.load(Ordering::Acquire);
        while !seen.is_multiple_of(2) && number.load(Ordering::Acquire) == seen {
            interrupts::pause();
        }
    }
}
