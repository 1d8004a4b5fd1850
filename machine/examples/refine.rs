//! The refinement check at any length: `cargo run --release --example refine -- [SEED] [EVENTS]`.

use std::time::Instant;

#[allow(dead_code, unused_macros, reason = "it uses a part of what tests use")]
#[path = "../tests/common/mod.rs"]
#[macro_use]
mod common;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|it| it.parse().expect("a number"));
    let seed = arguments.next().unwrap_or(1);
    let events = arguments.next().unwrap_or(10_000_000);
    let start = Instant::now();
    let tally = common::random::refine(seed, events);
    println!("{tally:?}");
    println!("{:.0} events per second", tally.events as f64 / start.elapsed().as_secs_f64());
}
