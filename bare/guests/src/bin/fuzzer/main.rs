//! The fuzzer: a guest at EL1 without an MMU that makes random calls to firmware, of RSI too, runs random system instructions
//! and tries to reach memory that is not its own. It passes if none of that memory answers; that the monitor still runs at the end is
//! the other half of the test.
//!
//! `fuzz.seed=` and `fuzz.rounds=`, in decimal, stand on its command line. The same seed gives the same rounds.
//! `fuzz.opcodes=all` has it try every encoding of the system instructions and registers first, a number one in so many.
#![no_std]
#![no_main]

mod attempts;
mod encodings;

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use guests::rsi::{self, Granule};
use guests::{console, machine, say};
use hardware::psci::Conduit;
use hardware::{hypercall, image, interrupts};
use kerncore::command_line::Words;
use moncore::call;

use attempts::Attempts;

hardware::guest_entry_points! {
    main: main,
    secondary: secondary,
}

static SEED: AtomicU64 = AtomicU64::new(1);
static ROUNDS: AtomicU64 = AtomicU64::new(20_000);
/// CPUs that have made all their rounds, and times that something answered that must not.
static DONE: AtomicUsize = AtomicUsize::new(0);
static REACHED: AtomicU64 = AtomicU64::new(0);

/// What is where the monitor's memory is: just below this image, and in the last bytes of RAM.
const PIECE_BYTES: u64 = 2 << 20;
/// The call by which the monitor tells who it is.
const UID_FUNCTION: u32 = 0x8600_ff01;

fn main(device_tree: u64) -> ! {
    static CONFIGURATION: Granule = Granule::new();
    if let Some(unprotected) = rsi::find_unprotected(&CONFIGURATION) {
        console::set_offset(unprotected);
        attempts::UNPROTECTED.store(unprotected, Ordering::Relaxed);
    }
    // SAFETY: the boot protocol has one in x0; nothing writes it while this runs.
    let machine = unsafe { machine::read(device_tree) };
    for word in Words::new(machine.bootargs) {
        let number = match word.value {
            Some("all") => Some(1),
            value => value.and_then(|value| value.parse().ok()),
        };
        match (word.name, number) {
            ("fuzz.seed", Some(seed)) => SEED.store(seed, Ordering::Relaxed),
            ("fuzz.rounds", Some(rounds)) => ROUNDS.store(rounds, Ordering::Relaxed),
            ("fuzz.opcodes", Some(step)) => encodings::STEP.store(step, Ordering::Relaxed),
            _ => {}
        }
    }
    let (seed, rounds) = (SEED.load(Ordering::Relaxed), ROUNDS.load(Ordering::Relaxed));
    // The bank that ends before the last piece of RAM has lost it to the monitor's tables.
    let end = machine.banks.last().map_or(0, |bank| bank.end.bits());
    attempts::HIDDEN_ABOVE.store(end, Ordering::Relaxed);
    attempts::HIDDEN_BELOW.store(image::whole().start - PIECE_BYTES, Ordering::Relaxed);
    // SAFETY: none was before.
    let cpus = unsafe { machine::start_others(&machine) };
    say!("# fuzzing");
    say!("{cpus} CPUs, {rounds} rounds each, fuzz.seed={seed}");
    work(0);
    while DONE.load(Ordering::Relaxed) < cpus {
        interrupts::pause();
    }
    let reached = REACHED.load(Ordering::Relaxed);
    let verdict = if reached == 0 { "ok" } else { "FAILED" };
    say!("# checks");
    say!("check nothing of the monitor answers: {verdict} ({reached} of its addresses and of those beyond memory did)");
    let answers = hypercall::call(Conduit::Hvc, UID_FUNCTION, [0; 4]) == call::UID;
    let verdict = if answers { "ok" } else { "FAILED" };
    let (tried, refused) = (encodings::TRIED.load(Ordering::Relaxed), encodings::REFUSED.load(Ordering::Relaxed));
    say!("check the monitor answers to the end: {verdict} ({tried} encodings tried, {refused} of them no instruction)");
    machine::end(2, usize::from(reached != 0) + usize::from(!answers))
}

fn secondary(cpu: usize) -> ! {
    work(cpu);
    machine::rest()
}

fn work(cpu: usize) {
    let mut attempts = Attempts::new(cpu, SEED.load(Ordering::Relaxed));
    encodings::try_share(&mut attempts, cpu);
    for _ in 0..ROUNDS.load(Ordering::Relaxed) {
        if attempts.make_one() {
            REACHED.fetch_add(1, Ordering::Relaxed);
        }
    }
    DONE.fetch_add(1, Ordering::Relaxed);
}
