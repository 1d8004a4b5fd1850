//! The two views of the TLBs agree: at every step of random runs what is cached may be cached, what an access does is
//! among the possible answers, and while no rule is broken no access reaches a frame that is not its own.
//! `cargo run --release --example refine` does ten million steps.

use crate::common::{protocol, random};

/// Debug builds check every step too, at about a tenth of the speed.
const EVENTS: u64 = if cfg!(debug_assertions) { 60_000 } else { 1_000_000 };

#[test]
fn every_concrete_entry_may_be_cached() {
    let tally = random::refine(1, EVENTS);
    assert!(tally.findings > 0 && tally.conflicts > 0 && tally.mixed > 0, "the runs reach what they should: {tally:?}");
}

#[test]
fn while_no_rule_is_broken_no_access_is_wrong() {
    let tally = protocol::run(2, EVENTS);
    assert!(tally.silent_machines > tally.machines / 4 && tally.accesses_while_silent > EVENTS / 8, "{tally:?}");
    assert!(tally.wrong_after_a_finding > 0, "a broken rule can be shown as a wrong address: {tally:?}");
}
