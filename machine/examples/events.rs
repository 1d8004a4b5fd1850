//! How many random events per second one core takes, for each kind of machine; the concrete TLBs are not run.
//! `cargo run --release -p machine --example events -- [SEED] [EVENTS] [SETTING]`: 1, a million, all of them.

use std::time::Instant;

#[allow(dead_code, unused_macros, reason = "it uses a part of what tests use")]
#[path = "../tests/common/mod.rs"]
#[macro_use]
mod common;
use common::random::Setting;

fn name(setting: Setting) -> &'static str {
    match setting {
        Setting::El1 => "EL1&0, stage 1",
        Setting::El2 => "EL2",
        Setting::Host => "EL2&0",
        Setting::Combined => "EL1&0, both stages",
        Setting::Flat => "EL1&0, stage 2 alone",
        Setting::Wide => "EL1&0, 64 KiB pages",
        Setting::Upper => "EL1&0, 16 KiB pages, upper half",
    }
}

fn number(argument: Option<String>, default: u64) -> u64 {
    argument.map_or(default, |it| {
        it.parse().unwrap_or_else(|_| {
            eprintln!("events: {it:?} is no number; expected [SEED] [EVENTS] [SETTING]");
            std::process::exit(2)
        })
    })
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seed = number(arguments.next(), 1);
    let events = number(arguments.next(), 1_000_000);
    let only = arguments.next();
    let is_asked = |setting: &Setting| only.as_ref().is_none_or(|only| *only == format!("{setting:?}"));
    let settings: Vec<Setting> = Setting::ALL.into_iter().filter(is_asked).collect();
    if settings.is_empty() {
        eprintln!("events: no such setting; expected one of {:?}", Setting::ALL);
        std::process::exit(2);
    }
    println!("seed {seed}, at least {events} events each; wall time of one core");
    println!("{:<9} {:<32} {:>10} {:>13}  digest", "setting", "", "events", "per second");
    for setting in settings {
        let start = Instant::now();
        let (done, digest) = common::random::run_plain(seed, events, setting);
        let per_second = done as f64 / start.elapsed().as_secs_f64();
        println!("{:<9} {:<32} {done:>10} {per_second:>13.0}  {digest:016x}", format!("{setting:?}"), name(setting));
    }
}
