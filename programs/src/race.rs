//! Calls that are made beside each other: round after round, each begun by all threads at once.
//!
//! ```text
//! prepare ──▶ every racer, at once ──▶ check ──▶ prepare …        what a check finds must be so in whatever order the calls came
//! ```

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use crate::errno::Answer;

/// What one thread does in each round.
pub type Racer<'r> = &'r (dyn Fn() -> Answer + Sync);

/// Has racers run beside each other, in rounds. `prepare` makes the object, `check` gets what came of each, in order; how many rounds it
/// found wrong.
pub fn race<const N: usize>(
    rounds: u32,
    mut prepare: impl FnMut(),
    racers: [Racer<'_>; N],
    mut check: impl FnMut([Answer; N]) -> bool,
) -> u32 {
    // Who has nothing to do sleeps: on a machine of few CPUs those who wait would take the time of those who work.
    let (gate, ready) = (Barrier::new(N + 1), AtomicU32::new(0));
    let answers = racers.map(|_| Mutex::new(Ok(0)));
    let mut wrong = 0;
    thread::scope(|scope| {
        for (racer, answer) in racers.iter().zip(&answers) {
            let (gate, ready) = (&gate, &ready);
            scope.spawn(move || {
                for number in 1..=rounds {
                    gate.wait();
                    // The last steps are without the kernel, so that all begin together.
                    ready.fetch_add(1, Ordering::AcqRel);
                    let mut tries = 0;
                    while ready.load(Ordering::Acquire) < number * N as u32 {
                        tries += 1;
                        if tries % 1024 == 0 {
                            thread::yield_now();
                        }
                    }
                    let found = racer();
                    *answer.lock().expect("nobody fails") = found;
                    gate.wait();
                }
            });
        }
        for _ in 0..rounds {
            prepare();
            gate.wait();
            gate.wait();
            let found = answers.each_ref().map(|answer| *answer.lock().expect("nobody fails"));
            wrong += u32::from(!check(found));
        }
    });
    wrong
}

/// How many rounds a program has: its argument, or few.
pub fn rounds() -> u32 {
    const FEW: u32 = 25;
    std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(FEW)
}

/// One line: how many rounds went wrong. The program fails if any did.
pub fn tell_race(what: &str, wrong: u32) {
    println!("{what}: {wrong} wrong");
    assert_eq!(wrong, 0, "{what}");
}
