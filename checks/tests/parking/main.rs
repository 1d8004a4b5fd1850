//! The protocol of parking (`kerncore::parking`), the real code, in every order of the steps of one to four CPUs: CPUs that change the map, a
//! spin lock of somebody else's around that, CPUs that spin with interrupts masked, that arrive at any step, come to their end, and
//! answer nobody. Nobody waits for ever, and while a leaf changes size whoever walks the tables tolerates that or is parked. What each
//! side is obliged to is left out in turn, and missed.

mod explorer;
mod system;
mod weak;

use std::cell::RefCell;
use std::collections::BTreeSet;

use explorer::Patience::{self, Long, Never, Short};
use system::Step::{self, *};
use system::{Kernel, Mistake};
use vmsa::BbmLevel::{self, Level2, Level3};

/// What a CPU tolerates: nothing at levels 0 and 1, which are the same to the protocol.
const LEVELS: [Option<BbmLevel>; 3] = [None, Some(Level2), Some(Level3)];

type Parts = &'static [&'static [Step]];

/// Every CPU with every part in it.
const SHAPES: [Parts; 10] = [
    &[&[Change, ChangeUnderLock, ChangeAlone, Spin]],
    &[&[Change, Change], &[ChangeUnderLock]],
    &[&[ChangeUnderLock, ChangeAlone], &[Spin, Change]],
    &[&[Admit(1), Change], &[Arrive, Change]],
    &[&[Change, Tell], &[SpinUntilTold, ChangeAlone]],
    &[&[Change], &[ChangeUnderLock], &[Spin]],
    &[&[Change], &[Admit(2)], &[Arrive, Change]],
    &[&[ChangeUnderLock, Tell], &[SpinUntilTold], &[Spin]],
    &[&[ChangeUnderLock], &[Spin], &[], &[]],
    &[&[Change], &[Admit(3)], &[], &[Arrive]],
];

/// Some that do not come: those of the first list.
const ABSENT: [(&[usize], Parts); 4] = [
    (&[1], &[&[Change], &[FallSilent]]),
    (&[1], &[&[ChangeUnderLock, Change], &[FallSilent], &[Change]]),
    (&[2], &[&[Change], &[ChangeAlone], &[Leave]]),
    (&[2, 3], &[&[Change], &[], &[FallSilent], &[Leave]]),
];

/// Every mix of levels; one of those in which CPUs with the same part have changed places.
fn mixes(parts: Parts) -> Vec<Vec<Option<BbmLevel>>> {
    let more = |mixes: Vec<Vec<_>>, _| {
        mixes.into_iter().flat_map(|mix| LEVELS.map(|level| [&mix[..], &[level]].concat())).collect()
    };
    let mut mixes = (0..parts.len()).fold(vec![Vec::new()], more);
    mixes.retain(|mix| (1..mix.len()).all(|cpu| parts[cpu - 1] != parts[cpu] || mix[cpu - 1] <= mix[cpu]));
    mixes
}

fn explore(
    parts: Parts,
    levels: &[Option<BbmLevel>],
    patience: Patience,
    mistake: Mistake,
) -> Result<(usize, BTreeSet<usize>), String> {
    let kernel = Kernel { parts, levels, patience, mistake, named: RefCell::default() };
    let states = kernel.explore()?;
    Ok((states, kernel.named.into_inner()))
}

fn right(parts: Parts, levels: &[Option<BbmLevel>], patience: Patience) -> (usize, BTreeSet<usize>) {
    explore(parts, levels, patience, Mistake::None).unwrap_or_else(|what| panic!("{parts:?}, {levels:?}: {what}"))
}

/// States of every mix of levels, and all who are named.
fn every_mix(parts: Parts, patience: Patience) -> usize {
    mixes(parts).iter().map(|levels| right(parts, levels, patience).0).sum()
}

#[test]
fn nobody_waits_for_ever_and_nobody_walks_what_changes() {
    for parts in SHAPES {
        let states = every_mix(parts, Never);
        println!("{states} states: {parts:?}");
        assert!(states > 100, "{parts:?}: {states} states");
    }
}

#[test]
fn two_of_four_change() {
    for levels in [[None; 4], [Some(Level2), None, None, Some(Level3)], [None, Some(Level3), None, Some(Level2)]] {
        let states = right(&[&[Change], &[ChangeAlone], &[], &[]], &levels, Never).0;
        println!("{states} states: {levels:?}");
        assert!(states > 10_000, "{levels:?}: {states} states");
    }
}

#[test]
fn who_does_not_park_is_named_and_nothing_changes() {
    for (absent, parts) in ABSENT {
        let mut named = BTreeSet::new();
        for levels in mixes(parts) {
            let of_these = right(parts, &levels, Long).1;
            assert!(of_these.iter().all(|cpu| absent.contains(cpu)), "{parts:?}, {levels:?}: {of_these:?} are named");
            // Who changes what it does not tolerate itself cannot do without anybody.
            let must = levels[0].is_none() && parts[absent[0]] == [FallSilent];
            assert!(!must || of_these.contains(&absent[0]), "{parts:?}, {levels:?}: {of_these:?} are named");
            named.extend(of_these);
        }
        assert_eq!(Vec::from_iter(named), absent, "{parts:?}");
    }
}

#[test]
fn who_has_left_is_not_waited_for_and_walks_nothing_that_changes() {
    let parts: Parts = &[&[SpinUntilTold, Change], &[Leave]];
    for levels in mixes(parts) {
        let expected = if levels.contains(&None) { BTreeSet::from([1]) } else { BTreeSet::new() };
        assert_eq!(right(parts, &levels, Never).1, expected, "{levels:?}");
    }
}

#[test]
fn who_comes_when_patience_is_out_walks_nothing_that_changes() {
    for parts in SHAPES.into_iter().filter(|parts| parts.len() < 3) {
        every_mix(parts, Short);
    }
    let levels = [Some(Level3), None, Some(Level2)];
    right(&[&[Change, Change], &[Spin], &[ChangeUnderLock]], &levels, Short);
}

/// A masked wait that does not answer calls: who waits for it finds out, names it, and leaves the map as it was.
#[test]
fn a_lock_that_does_not_answer_is_caught() {
    let (parts, levels): (Parts, _) = (&[&[ChangeUnderLock], &[Spin]], [None, None]);
    let waits = explore(parts, &levels, Never, Mistake::LockDoesNotAnswer).expect_err("it is not noticed");
    assert!(waits.contains("all wait for ever"), "{waits}");
    let (_, named) = explore(parts, &levels, Long, Mistake::LockDoesNotAnswer).expect("it gets by");
    assert_eq!(named, BTreeSet::from([1]));
    assert_eq!(right(parts, &levels, Long).1, BTreeSet::new());
}

#[test]
fn each_obligation_is_missed() {
    for (mistake, expected) in [
        (Mistake::LockDoesNotAnswer, "all wait for ever"),
        (Mistake::LoopDoesNotAnswer, "all wait for ever"),
        (Mistake::SeesTooEarly, "a CPU walks what changes"),
        (Mistake::LeavesTooEarly, "a CPU walks what changes"),
        (Mistake::EventComesEarly, "all wait for ever"),
        (Mistake::MapIsNotLocked, ""),
        (Mistake::GateDoesNotWait, "a CPU walks what changes"),
    ] {
        let caught = SHAPES.iter().find_map(|parts| {
            let found = explore(parts, &vec![None; parts.len()], Never, mistake).err();
            found.filter(|what| what.contains(expected))
        });
        println!("{mistake:?}: {}", caught.unwrap_or_else(|| panic!("{mistake:?} is not noticed")));
    }
}
