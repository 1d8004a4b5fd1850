//! The two views of the TLBs agree: at every step of random runs what is cached may be cached, what an access does is
//! among the possible answers, and while no rule is broken no access reaches a frame that is not its own.

use machine::concrete::Concrete;
use machine::event::Event;
use machine::registers::{Features, Register};
use machine::seed::Seed;

use crate::common::{AF, ISH, L3, PAGE, TCR_48, el1, msr, protocol, random};

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

#[test]
fn no_walker_comes_between_what_an_exchange_finds_and_what_it_writes() {
    let mut machine = el1(1, Features::full(0));
    msr(&mut machine, 0, &[(Register::TcrEl1, TCR_48 | 1 << 23 | 1 << 39)]);
    let mut concrete = Concrete::new(machine, Seed::new(1), 8);
    concrete.speculate_on(&[0]);
    let mut marked = 0;
    for _ in 0..100 {
        let clean = PAGE & !AF | 0x8000_0000;
        concrete.step(0, &Event::Store { address: L3, value: clean, is_release: false });
        concrete.step(0, &Event::Barrier(ISH));
        let expected = concrete.machine().word(L3);
        marked += usize::from(expected != clean);
        concrete.step(0, &Event::CompareExchange { address: L3, expected, value: 0 });
        assert_eq!(concrete.machine().word(L3), 0);
    }
    assert!(0 < marked && marked < 100, "a walker sets access flags, but not of every page: {marked}");
}
