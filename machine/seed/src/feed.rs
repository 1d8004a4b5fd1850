//! Feeds readers with inputs that nobody made on purpose: a few of them in a plain test, or as many as a minute has.

use std::eprintln;
use std::time::{Duration, Instant};
use std::vec::Vec;

use crate::Seed;

/// Turns of a plain run.
const TURNS: u64 = 300;

/// Names the seed of a turn that panics.
struct Turn(&'static str, u64);

impl Drop for Turn {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat with VELLUM_FUZZ_SEED={} cargo test fuzz {}", self.1, self.0);
        }
    }
}

/// Calls `target` with what `make` makes of each seed: a few, or for VELLUM_FUZZ_SECONDS, or of VELLUM_FUZZ_SEED alone.
pub fn feed(name: &'static str, make: impl Fn(&mut Seed) -> Vec<u8>, target: impl Fn(&[u8])) {
    let number = |variable: &str| std::env::var(variable).ok().and_then(|text| text.parse::<u64>().ok());
    let turn = |seed: u64| {
        let _turn = Turn(name, seed);
        target(&make(&mut Seed::new(seed)));
    };
    if let Some(seed) = number("VELLUM_FUZZ_SEED") {
        return turn(seed);
    }
    match number("VELLUM_FUZZ_SECONDS") {
        Some(seconds) => {
            let end = Instant::now() + Duration::from_secs(seconds);
            let first = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
            (first..).take_while(|_| Instant::now() < end).for_each(turn);
        }
        None => (0..TURNS).for_each(turn),
    }
}

/// A text of these lines in another order, some again, some without words, some with a byte changed.
pub fn damaged(lines: &[&str], random: &mut Seed) -> Vec<u8> {
    let mut bytes = Vec::new();
    let start = random.index(lines.len());
    for place in 0..1 + random.index(40) {
        let line = if random.one_in(8) {
            *random.pick(lines)
        } else {
            lines[(start * usize::from(place > 8) + place) % lines.len()]
        };
        let mut words: Vec<&str> = line.split(' ').collect();
        if random.one_in(8) {
            words.remove(random.index(words.len()));
        }
        if random.one_in(8) {
            words.push(random.pick(lines).split(' ').next_back().unwrap_or_default());
        }
        bytes.extend(words.join(" ").bytes());
        bytes.push(b'\n');
    }
    while random.one_in(2) {
        let at = random.index(bytes.len());
        bytes[at] = random.bits() as u8;
    }
    bytes
}
