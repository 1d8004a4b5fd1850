//! A realm and a host that behaves badly: whatever it does, a request ends, and nothing is used that is not RAM for certain.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use kerncore::handing::{Map, NotHanded, hand};
use kerncore::range::PhysicalRange;
use kerncore::realm::{self, Rmm, State, Stopped, Why, Wish};
use proptest::prelude::*;
use vmsa::PhysAddr;

const GRANULE: u64 = 4096;
const START: u64 = 0x4000_0000;
const GRANULES: u64 = 64;

/// What the host does to one request.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// It gets on by so many granules; 0: it does nothing.
    Some(u64),
    /// The same, and rejects the rest.
    Rejects(u64),
    /// The RMM answers with this.
    Error(u64),
    /// An address that cannot be an answer.
    Nonsense(u64),
    /// It does so many granules, and the RMM answers with an error.
    Hides(u64),
}

/// The states of the granules from `START` on, and what the host does next; then it does all that is asked.
struct Realm(RefCell<(Vec<u64>, Vec<Does>, u64)>);

impl Realm {
    fn new(does: &[Does]) -> Self {
        Self(RefCell::new((vec![1; GRANULES as usize], does.iter().rev().copied().collect(), 0)))
    }

    fn state(&self, granule: u64) -> u64 {
        self.0.borrow().0[granule as usize]
    }

    fn calls(&self) -> u64 {
        self.0.borrow().2
    }
}

impl Rmm for Realm {
    fn call(&self, function: u32, [base, top, state, flags]: [u64; 4]) -> [u64; 4] {
        let (states, does, calls) = &mut *self.0.borrow_mut();
        *calls += 1;
        let number = |address: u64| ((address - START) / GRANULE) as usize;
        match function {
            0xc400_0197 => {
                assert!(base < top && state < 2 && flags < 2, "{base:#x}..{top:#x}, {state}, {flags}");
                let mut set = |count: u64| {
                    let end = top.min(base.saturating_add(count * GRANULE));
                    for old in &mut states[number(base)..number(end)] {
                        *old = if *old == 2 && flags == 0 { 2 } else { state };
                    }
                    end
                };
                match does.pop().unwrap_or(Does::Some(GRANULES)) {
                    Does::Some(count) => [0, set(count), 0, 0],
                    Does::Rejects(count) => [0, set(count), 1, 0],
                    Does::Error(error) => [error, 0, 0, 0],
                    Does::Nonsense(address) => [0, address, 0, 0],
                    Does::Hides(count) => {
                        set(count);
                        [4, 0, 0, 0]
                    }
                }
            }
            0xc400_0198 => {
                let first = states[number(base)];
                let run = states[number(base)..number(top)].iter().take_while(|state| **state == first).count();
                [0, base + run as u64 * GRANULE, first, 0]
            }
            _ => panic!("{function:#x} is not asked"),
        }
    }
}

fn granules(first: u64, end: u64) -> PhysicalRange {
    PhysicalRange::new(PhysAddr::new(START + first * GRANULE), PhysAddr::new(START + end * GRANULE))
}

fn does() -> impl Strategy<Value = Does> {
    prop_oneof![
        4 => (0u64..20).prop_map(Does::Some),
        2 => (0u64..20).prop_map(Does::Rejects),
        1 => (1u64..6).prop_map(Does::Error),
        1 => prop_oneof![Just(0), Just(START - GRANULE), Just(START + 1), Just(u64::MAX - 0xfff)].prop_map(Does::Nonsense),
        1 => (0u64..20).prop_map(Does::Hides),
    ]
}

proptest! {
    #[test]
    fn what_is_shown_again_is_ram(script in prop::collection::vec(does(), 0..12), pages in 1u64..4, shift in 0u32..5, shares in any::<bool>()) {
        let realm = Realm::new(&script);
        let (in_page, first) = (1 << shift, 1u64 << shift);
        let range = granules(first, (first + pages * in_page).min(GRANULES));
        let before: Vec<_> = (0..GRANULES).map(|granule| realm.state(granule)).collect();
        let wish = if shares { Wish::Empty } else { Wish::Ram };
        let asked = first..first + pages * in_page;
        match realm::hand_over(&realm, range, wish) {
            Ok(()) => prop_assert!(asked.clone().all(|granule| realm.state(granule) == u64::from(!shares))),
            Err(Stopped { reached, .. }) => {
                prop_assert!(range.start <= reached && reached < range.end);
                let mut shown = BTreeSet::new();
                realm::take_back(&realm, range, in_page * GRANULE, |page| _ = shown.insert((page.bits() - START) / GRANULE));
                for page in (asked.start..asked.end).step_by(in_page as usize) {
                    let is_ram = (page..page + in_page).all(|granule| realm.state(granule) == 1);
                    prop_assert_eq!(shown.contains(&page), is_ram);
                }
                prop_assert!(shown.iter().all(|page| asked.contains(page)));
            }
        }
        let others = (0..GRANULES).filter(|granule| !asked.contains(granule));
        prop_assert!(others.into_iter().all(|granule| realm.state(granule) == before[granule as usize]));
    }
}

#[test]
fn a_host_that_gets_no_further_is_given_up() {
    let realm = Realm::new(&[Does::Some(0); 1000]);
    let stopped = realm::hand_over(&realm, granules(3, 5), Wish::Empty).unwrap_err();
    assert_eq!(stopped, Stopped { reached: granules(3, 5).start, why: Why::NoProgress });
    assert!(realm.calls() < 100);
}

#[test]
fn a_host_that_is_slow_is_waited_for() {
    let mut script = vec![];
    for _ in 0..8 {
        script.extend([Does::Some(0); 60]);
        script.push(Does::Some(1));
    }
    let realm = Realm::new(&script);
    assert_eq!(realm::hand_over(&realm, granules(0, 8), Wish::Empty), Ok(()));
}

#[test]
fn what_the_host_did_and_did_not_tell_is_asked_back() {
    // It shares five granules, and the RMM answers with an error: by then nothing is known of them.
    let realm = Realm::new(&[Does::Hides(5)]);
    let range = granules(0, 8);
    let stopped = realm::hand_over(&realm, range, Wish::Empty).unwrap_err();
    assert_eq!(stopped, Stopped { reached: range.start, why: Why::Error(4) });
    let mut shown = 0;
    realm::take_back(&realm, range, 4 * GRANULE, |_| shown += 1);
    assert_eq!(shown, 2);
    // One that rejects that they become RAM: the page that holds them is lost, the other is not.
    let realm = Realm::new(&[Does::Hides(3), Does::Rejects(1)]);
    realm::hand_over(&realm, range, Wish::Empty).unwrap_err();
    let mut shown = vec![];
    realm::take_back(&realm, range, 4 * GRANULE, |page| shown.push(page));
    assert_eq!(shown, [granules(4, 8).start]);
}

#[test]
fn what_is_destroyed_stays_so_at_boot() {
    let realm = Realm::new(&[]);
    realm.0.borrow_mut().0[2] = 2;
    assert_eq!(realm::hand_over(&realm, granules(0, 4), Wish::RamAtBoot), Ok(()));
    assert_eq!(realm::state(&realm, granules(2, 4)), Some((State::Destroyed, granules(3, 4).start)));
    assert!(!realm::is_ram(&realm, granules(0, 4)) && realm::is_ram(&realm, granules(3, 4)));
    assert_eq!(realm::hand_over(&realm, granules(0, 4), Wish::Ram), Ok(()));
    assert!(realm::is_ram(&realm, granules(0, 4)));
}

/// Answers by function.
struct Answers(BTreeMap<u32, [u64; 4]>);

impl Rmm for Answers {
    fn call(&self, function: u32, _: [u64; 4]) -> [u64; 4] {
        self.0.get(&function).copied().unwrap_or([u64::MAX, 0, 0, 0])
    }
}

#[test]
fn a_realm_is_found() {
    let found = |version: u64, config: u64, bits: u64| {
        let answers = [(0xc400_0190, [version, 0x1_0000, 0x1_0000, 0]), (0xc400_0196, [config, 0, 0, 0])];
        realm::find(&Answers(answers.into()), PhysAddr::new(0x1000), || bits)
    };
    assert_eq!(found(0, 0, 41), Some(41));
    // Another version; a configuration that was not written; addresses that cannot be.
    assert_eq!(found(1, 0, 41), None);
    assert_eq!(found(0, 1, 41), None);
    assert_eq!([0, 31, 53, 1 << 32].map(|bits| found(0, 0, bits)), [None; 4]);
    assert_eq!(realm::find(&Answers(BTreeMap::new()), PhysAddr::new(0x1000), || panic!("nothing was written")), None);
}

#[test]
fn answers_about_states_that_are_none_are_not_believed() {
    let told = |answer| realm::state(&Answers([(0xc400_0198, answer)].into()), granules(1, 3));
    assert_eq!(told([0, START + 2 * GRANULE, 0, 0]), Some((State::Empty, granules(2, 3).start)));
    assert_eq!(told([0, START + 3 * GRANULE, 3, 0]), Some((State::Other, granules(3, 3).start)));
    for (result, end) in
        [(1, START + 2 * GRANULE), (0, START + GRANULE), (0, START + 4 * GRANULE), (0, START + GRANULE + 1)]
    {
        assert_eq!(told([result, end, 1, 0]), None);
    }
}

#[test]
fn an_answer_that_is_no_granule_is_not_believed() {
    let range = granules(2, 6);
    let at = range.start.bits() + GRANULE;
    for nonsense in [at + 1, at + 8, at + GRANULE / 2] {
        let stopped = realm::hand_over(&Realm::new(&[Does::Nonsense(nonsense)]), range, Wish::Empty).unwrap_err();
        assert_eq!(stopped, Stopped { reached: range.start, why: Why::Nonsense(nonsense) });
    }
}

/// A map that refuses to hide, or has no memory to show.
struct Poor {
    hides: bool,
}

impl Map for Poor {
    type Refused = &'static str;

    fn hide(&self, _: PhysicalRange) -> Result<(), &'static str> {
        if self.hides { Ok(()) } else { Err("no") }
    }

    fn show(&self, _: PhysicalRange, _: bool) -> bool {
        false
    }
}

#[test]
fn the_host_is_not_asked_where_nothing_is_hidden() {
    let realm = Realm::new(&[]);
    let handed = hand(&realm, &Poor { hides: false }, granules(0, 8), Wish::Empty, GRANULE);
    assert_eq!((handed, realm.calls()), (Err(NotHanded::Refused("no")), 0));
}

#[test]
fn what_cannot_be_shown_is_lost() {
    let handed = |does: &[Does]| {
        hand(&Realm::new(does), &Poor { hides: true }, granules(0, 8), Wish::Empty, 2 * GRANULE).unwrap_err()
    };
    assert_eq!(handed(&[]), NotHanded::NotShown(4));
    assert_eq!(handed(&[Does::Error(3)]), NotHanded::Stopped(Why::Error(3), 4));
    assert_eq!([handed(&[]).lost(), handed(&[Does::Error(3)]).lost()], [4; 2]);
}
