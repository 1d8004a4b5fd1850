//! The two views of the TLBs agree: one million random events, every step checked.

mod common;
#[path = "common/random.rs"]
mod random;

#[test]
fn every_concrete_entry_may_be_cached() {
    let tally = random::refine(1, 60_000);
    assert!(tally.findings > 0 && tally.conflicts > 0 && tally.mixed > 0, "the runs reach what they should: {tally:?}");
}
