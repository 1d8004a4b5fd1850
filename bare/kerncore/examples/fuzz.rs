//! Damages device trees and reads them: `cargo run --release -p kerncore --example fuzz -- SECONDS [FIRST-SEED [BLOB…]]`.
//!
//! It begins with the given blobs, or with the tests' own. A failure prints the seed that repeats it.

#[path = "../tests/support/mod.rs"]
mod support;

use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use support::fuzz::{damage, fuzz_device_tree, seeds};

static SEED: AtomicU64 = AtomicU64::new(0);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = || arguments.next().map(|argument| argument.parse::<u64>());
    let (Some(Ok(seconds)), Ok(first_seed)) = (number(), number().unwrap_or(Ok(0))) else {
        eprintln!("usage: fuzz SECONDS [FIRST-SEED [BLOB...]]");
        exit(2);
    };
    let blobs: Vec<Vec<u8>> = arguments.map(|path| std::fs::read(path).expect("a blob that can be read")).collect();
    let blobs = if blobs.is_empty() { seeds() } else { blobs };
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}\nrepeat it with: fuzz 1 {}", SEED.load(Ordering::Relaxed));
    }));
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut seed = first_seed;
    while Instant::now() < end {
        SEED.store(seed, Ordering::Relaxed);
        fuzz_device_tree(&damage(&blobs, seed));
        seed += 1;
    }
    println!("{} damaged blobs were survived", seed - first_seed);
}
