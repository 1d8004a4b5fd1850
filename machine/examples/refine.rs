//! The refinement check at any length: `cargo run --release --example refine -- [SEED] [EVENTS]`.

use std::time::Instant;

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/random.rs"]
mod random;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|it| it.parse().expect("a number"));
    let seed = arguments.next().unwrap_or(1);
    let events = arguments.next().unwrap_or(10_000_000);
    let start = Instant::now();
    let tally = random::refine(seed, events);
    println!("{tally:?}");
    println!("{:.0} events per second", tally.events as f64 / start.elapsed().as_secs_f64());
}
