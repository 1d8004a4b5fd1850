//! Address spaces on the simulated machine, under as many random schedules as a test has time for.

use checks::spaces;

#[test]
fn cpus_fault_fork_protect_and_unmap_against_each_other() {
    let (mut events, mut faults, mut folios) = (0, 0, 0);
    for seed in 0..RUNS {
        let ran = spaces::run(seed, 6).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        (events, faults, folios) = (events + ran.events, faults + ran.faults, folios + ran.folios);
    }
    assert!(faults > RUNS, "{faults} faults in {events} events");
    assert!(folios > RUNS / 8, "{folios} folios");
}

/// Seeds that are run.
const RUNS: u64 = 60;
