//! tries
use checks::explore::{exhaustive, random};
use checks::parameters::Parameters;
use checks::prepare::Prepared;
use checks::workloads::ALL;
use std::time::Instant;
fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let filter = std::env::args().nth(1).unwrap_or_default();
    let cpus: usize = std::env::args().nth(2).and_then(|it| it.parse().ok()).unwrap_or(2);
    for workload in ALL.iter().filter(|it| it.name.contains(&filter) && it.is_small) {
        let p = Prepared::new(workload.scenario_with(1, Parameters { cpus, ..Parameters::PLAIN }, &[]), None);
        if let Some(f) = &p.failure { println!("{}: BUILD {f}", workload.name); continue; }
        let r = random::replay(&p, &[]);
        if let Some(c) = &r.caught { println!("{}: {}", workload.name, c.failure); }
        let t = Instant::now();
        let e = exhaustive::explore(&p, exhaustive::Limits { states: 200_000 });
        println!("{:20} steps {} complete {} {:?} {:?}", workload.name, r.steps, e.is_complete, e.tally, t.elapsed());
        if let Some(c) = &e.caught { println!("   {:?} {}", c.choices, c.failure); }
    }
}
