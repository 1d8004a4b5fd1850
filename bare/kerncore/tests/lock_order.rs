//! The order of locks: every pair of five locks, and what may not sleep.

use kerncore::lock_order::{Broken, Class, Held, Kind, check_sleep, check_take};

const fn class(rank: u8, name: &'static str, kind: Kind, is_by_address: bool) -> Class {
    Class { rank, name, kind, is_by_address }
}

const FILE: Held = Held(class(0, "file", Kind::Sleeping, false), 0x100);
const PIPE: Held = Held(class(1, "pipe", Kind::Sleeping, true), 0x200);
const NEXT_PIPE: Held = Held(class(1, "pipe", Kind::Sleeping, true), 0x300);
const FOLDER: Held = Held(class(2, "folder", Kind::Open, false), 0x400);
const HEAP: Held = Held(class(3, "heap", Kind::Spin, false), 0x500);

/// In the order in which they may be taken.
const ALL: [Held; 5] = [FILE, PIPE, NEXT_PIPE, FOLDER, HEAP];

#[test]
fn a_lock_is_taken_under_those_before_it_alone() {
    for (last, held) in ALL.iter().enumerate() {
        for (next, taken) in ALL.iter().enumerate() {
            let expected = if last < next { Ok(()) } else { Err(Broken::Order(taken.0.name, held.0.name)) };
            assert_eq!(check_take(Some(*held), *taken, false), expected, "{taken:?} under {held:?}");
        }
    }
}

#[test]
fn two_locks_of_a_class_without_addresses_exclude_each_other() {
    for address in [0x3ff, 0x400, 0x401] {
        let other = Held(FOLDER.0, address);
        assert_eq!(check_take(Some(FOLDER), other, false), Err(Broken::Order("folder", "folder")));
    }
}

#[test]
fn all_but_spin_locks_are_taken_with_interrupts_open() {
    for taken in ALL {
        let expected = if taken.0.kind == Kind::Spin { Ok(()) } else { Err(Broken::Masked(taken.0.name)) };
        assert_eq!(check_take(None, taken, true), expected);
        assert_eq!(check_take(None, taken, false), Ok(()));
    }
}

#[test]
fn nobody_leaves_with_a_lock_whose_owner_stays_or_masked() {
    for held in ALL {
        let expected = if held.0.kind == Kind::Sleeping { Ok(()) } else { Err(Broken::Sleep(held.0.name)) };
        assert_eq!(check_sleep(Some(held), false), expected);
    }
    assert_eq!(check_sleep(None, false), Ok(()));
    assert_eq!(check_sleep(None, true), Err(Broken::MaskedSleep));
    assert_eq!(check_sleep(Some(FILE), true), Err(Broken::MaskedSleep));
}

#[test]
fn a_report_has_both_names() {
    let broken = check_take(Some(HEAP), PIPE, false).expect_err("it stands before");
    assert_eq!(broken.to_string(), "lock order: pipe is taken under heap");
}
