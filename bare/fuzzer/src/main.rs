//! The fuzzer: a guest at EL1 without an MMU that makes random calls to firmware, runs random system instructions and tries
//! to reach memory that is not its own. It passes if none of that memory answers; that the monitor still runs at the end is
//! the other half of the test.
//!
//! `fuzz.seed=` and `fuzz.rounds=`, in decimal, stand on its command line. The same seed gives the same rounds.
#![no_std]
#![no_main]

mod attempts;
mod console;

use core::slice;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hardware::registers::read_affinity;
use hardware::{fuzzer, hypercall, image, interrupts};
use kerncore::command_line::Words;
use kerncore::devicetree::{self, MachineDescription};
use kerncore::finding::Findings;

use attempts::Attempts;
use console::say;

hardware::fuzzer_entry_points! {
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

fn main(device_tree: u64) -> ! {
    // SAFETY: the boot protocol has the address of a device tree in x0, whose header says how long it is.
    let header = unsafe { (device_tree as *const [u8; 8]).read() };
    let bytes = devicetree::claimed_size_bytes(&header).unwrap_or(0);
    // SAFETY: as above; nothing writes it while this runs.
    let blob = unsafe { slice::from_raw_parts(device_tree as *const u8, bytes as usize) };
    let (mut machine, mut findings) = (MachineDescription::new(), Findings::new());
    devicetree::read(blob, &mut machine, &mut findings);
    for word in Words::new(machine.bootargs) {
        let number = word.value.and_then(|value| value.parse().ok());
        match (word.name, number) {
            ("fuzz.seed", Some(seed)) => SEED.store(seed, Ordering::Relaxed),
            ("fuzz.rounds", Some(rounds)) => ROUNDS.store(rounds, Ordering::Relaxed),
            _ => {}
        }
    }
    let (seed, rounds) = (SEED.load(Ordering::Relaxed), ROUNDS.load(Ordering::Relaxed));
    // The bank that ends before the last piece of RAM has lost it to the monitor's tables.
    let end = machine.banks.last().map_or(0, |bank| bank.end.bits());
    attempts::HIDDEN_ABOVE.store(end, Ordering::Relaxed);
    attempts::HIDDEN_BELOW.store(image::whole().start - PIECE_BYTES, Ordering::Relaxed);
    let mut cpus = 1;
    for cpu in machine.cpus.iter().filter(|cpu| cpu.affinity != read_affinity()) {
        // SAFETY: the number is new.
        cpus += usize::from(unsafe { fuzzer::start(cpus, cpu.affinity) }.is_ok());
    }
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
    say!("# verdict");
    match reached {
        0 => say!("verdict: passed (1 checks)"),
        _ => say!("verdict: failed (1 of 1 checks)"),
    }
    hypercall::exit((reached != 0).into());
    loop {
        interrupts::wait();
    }
}

fn secondary(cpu: usize) -> ! {
    work(cpu);
    loop {
        interrupts::wait();
    }
}

fn work(cpu: usize) {
    let mut attempts = Attempts::new(cpu, SEED.load(Ordering::Relaxed));
    for _ in 0..ROUNDS.load(Ordering::Relaxed) {
        if attempts.make_one() {
            REACHED.fetch_add(1, Ordering::Relaxed);
        }
    }
    DONE.fetch_add(1, Ordering::Relaxed);
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    say!("panic: {}", info.message());
    hypercall::exit(1);
    loop {
        interrupts::wait();
    }
}
