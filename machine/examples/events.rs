//! How many events per second the machine takes without concrete TLBs:
//! `cargo run --release --example events -- [SEED] [EVENTS] [WORLD]`.

use std::time::Instant;

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/random.rs"]
mod random;

fn main() {
    let mut arguments = std::env::args().skip(1).take(2).map(|it| it.parse().expect("a number"));
    let seed = arguments.next().unwrap_or(1);
    let events = arguments.next().unwrap_or(1_000_000);
    let only = std::env::args().nth(3);
    for world in random::World::ALL {
        if only.as_ref().is_some_and(|it| *it != format!("{world:?}")) {
            continue;
        }
        let start = Instant::now();
        let digest = random::run_plain(seed, events, world);
        println!(
            "{world:?}: {:.0} events per second (digest {digest:#x})",
            events as f64 / start.elapsed().as_secs_f64()
        );
    }
}
