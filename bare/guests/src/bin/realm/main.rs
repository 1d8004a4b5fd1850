//! A guest that is a realm: it asks for everything that RSI has, holds each answer against the document, and looks whether
//! stage 2 agrees, on every CPU at once. Requests that the host does in part or refuses are made again.
//!
//! `realm.step=` on its command line says how many pages its host gets on with at a time; `realm.seed=` and `realm.rounds=`,
//! all in decimal, are of its random changes.
#![no_std]
#![no_main]

mod access;
mod changes;
mod checks;
mod facts;
mod found;
mod refusals;
mod rings;
mod together;

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use guests::rsi::{self, Granule};
use guests::{console, machine, say};
use hardware::interrupts;
use kerncore::command_line::Words;

use checks::CHECKS;
use facts::{COUNT, CPUS, ROUNDS, SEED, STEP, UNPROTECTED};
use found::Found;

hardware::guest_entry_points! {
    main: main,
    secondary: secondary,
}

/// CPUs that have made all checks.
static DONE: AtomicUsize = AtomicUsize::new(0);

/// What a check found on one CPU: whether it failed, what it expected, and what was there.
static RESULTS: [[[AtomicU64; 3]; CHECKS.len()]; CPUS] =
    [const { [const { [const { AtomicU64::new(0) }; 3] }; CHECKS.len()] }; CPUS];

fn main(device_tree: u64) -> ! {
    static CONFIGURATION: Granule = Granule::new();
    let Some(unprotected) = rsi::find_unprotected(&CONFIGURATION) else {
        say!("# checks");
        say!("check this guest is a realm: FAILED (RSI_VERSION or RSI_REALM_CONFIG is refused)");
        machine::end(1, 1)
    };
    console::set_offset(unprotected);
    UNPROTECTED.store(unprotected, Ordering::Relaxed);
    // SAFETY: the boot protocol has one in x0; nothing writes it while this runs.
    let machine = unsafe { machine::read(device_tree) };
    for word in Words::new(machine.bootargs) {
        let number = word.value.and_then(|value| value.parse().ok());
        match (word.name, number) {
            ("realm.step", Some(step)) => STEP.store(step, Ordering::Relaxed),
            ("realm.seed", Some(seed)) => SEED.store(seed, Ordering::Relaxed),
            ("realm.rounds", Some(rounds)) => ROUNDS.store(rounds, Ordering::Relaxed),
            _ => {}
        }
    }
    // SAFETY: none was before.
    let cpus = unsafe { machine::start_others(&machine) };
    COUNT.store(cpus, Ordering::Release);
    let (seed, rounds) = (SEED.load(Ordering::Relaxed), ROUNDS.load(Ordering::Relaxed));
    say!("# realm");
    say!("{cpus} CPUs, unprotected from {unprotected:#x}, {rounds} rounds each, realm.seed={seed}");
    work(0);
    while DONE.load(Ordering::Acquire) < cpus {
        interrupts::pause();
    }
    say!("{}", refusals::Told);
    say!("# checks");
    let failed = (0..CHECKS.len()).filter(|check| !tell(*check, cpus)).count();
    machine::end(CHECKS.len(), failed)
}

fn secondary(cpu: usize) -> ! {
    while COUNT.load(Ordering::Acquire) == 0 {
        interrupts::pause();
    }
    work(cpu);
    machine::rest()
}

/// Makes every check on this CPU.
fn work(cpu: usize) {
    for (index, (_, check)) in CHECKS.iter().enumerate() {
        let [has_failed, expected, found] = &RESULTS[cpu][index];
        if let Err(Found { expected: wanted, found: instead }) = check(cpu) {
            expected.store(wanted, Ordering::Relaxed);
            found.store(instead, Ordering::Relaxed);
            has_failed.store(1, Ordering::Relaxed);
        }
        // However a check ends, the CPUs begin the next one together.
        together::meet();
    }
    DONE.fetch_add(1, Ordering::Release);
}

/// Prints what a check found on all CPUs; whether it has passed on each.
fn tell(check: usize, cpus: usize) -> bool {
    let (name, _) = CHECKS[check];
    let load = |cpu: usize| RESULTS[cpu][check].each_ref().map(|word: &AtomicU64| word.load(Ordering::Relaxed));
    let failed = (0..cpus).map(|cpu| (cpu, load(cpu))).find(|(_, [has_failed, ..])| *has_failed != 0);
    match failed {
        None => say!("check {name}: ok ({cpus} CPUs)"),
        Some((cpu, [_, wanted, instead])) => {
            say!("check {name}: FAILED (cpu {cpu}: expected {wanted:#x}, found {instead:#x})");
        }
    }
    failed.is_none()
}
