//! What is chosen, what strikes, and what ends it.

use super::*;

const MERCILESS: Settings = Settings { is_merciless: true, rate: 1, ..Settings::DEFAULT };

fn settings(addresses: &[u64], settings: Settings) -> Settings {
    let mut list = List::new(0);
    addresses.iter().for_each(|address| list.push(*address).unwrap());
    Settings { addresses: list, ..settings }
}

#[test]
fn the_same_seed_makes_the_same_choices_at_the_rate_that_was_asked_for() {
    let run = |seed| {
        let mut conflicts = Conflicts::new(Settings { seed, rate: 10, is_merciless: true, ..Settings::DEFAULT });
        core::array::from_fn::<_, 4000, _>(|_| conflicts.choose(OF_ONE, &[1, 2, 3]))
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
    let moments = run(7).iter().flatten().count();
    assert!((300..500).contains(&moments), "{moments} of 4000");
    assert!([1, 2, 3].iter().all(|pointer| run(7).contains(&Some(*pointer))));
}

#[test]
fn the_first_tlbis_pass() {
    let mut conflicts = Conflicts::new(Settings { after: 2, ..MERCILESS });
    assert_eq!([0; 4].map(|_| conflicts.choose(OF_ONE, &[5])), [None, None, Some(5), Some(5)]);
}

/// A handler of conflicts has forgotten everything by its TLBI: what it then works with cannot conflict.
#[test]
fn a_tlbi_of_everything_is_no_moment_for_what_its_cpu_works_with() {
    let everything = [OWN, EVERY, TlbiOp::VMALLE1OS, OWN.without_xs(), EVERY.without_xs()];
    let mut conflicts = Conflicts::new(MERCILESS);
    assert_eq!(everything.map(|op| conflicts.choose(op, &[5])), [None; 5]);
    let others = [TlbiOp::VALE1IS, TlbiOp::VAAE1, TlbiOp::ASIDE1IS, TlbiOp::RVAE1IS];
    assert_eq!(others.map(|op| conflicts.choose(op, &[5])), [Some(5); 4]);
    let mut faithful = Conflicts::new(Settings { rate: 1, ..Settings::DEFAULT });
    assert!(faithful.begin_resize(0x10_0000..0x20_0000));
    assert!(everything.iter().all(|op| faithful.choose(*op, &[5]).is_some()), "a resize goes on");
}

const OF_ONE: TlbiOp = TlbiOp::VALE1IS;
const OWN: TlbiOp = TlbiOp::VMALLE1;
const EVERY: TlbiOp = TlbiOp::VMALLE1IS;

const fn at(address: u64) -> Access {
    Access { address, is_walk: false, cpu: 0, is_immune: false }
}

fn strike(is_last: bool) -> Option<Strike> {
    Some(Strike::Guest { is_last })
}

#[test]
fn faithful_conflicts_are_where_a_resize_was_announced_and_not_invalidated() {
    let mut conflicts = Conflicts::new(Settings { rate: 1, ..Settings::DEFAULT });
    assert_eq!(conflicts.choose(OF_ONE, &[0x5000]), None, "nothing is being resized");
    assert!(!conflicts.begin_resize(0x3000..0x3000));
    assert!(conflicts.begin_resize(0x10_0000..0x20_0000));
    let address = conflicts.choose(OF_ONE, &[0x5000]).expect("a resize is under way");
    assert!((0x10_0000..0x20_0000).contains(&address));
    assert_eq!(conflicts.arm(0x8000, address), None);
    assert_eq!(conflicts.strike(0x8000, at(0x5000)), Some(Strike::Spared), "an alias that is not resized");
    conflicts.arm(0x8000, address);
    assert_eq!(conflicts.strike(0x8000, at(address)), strike(true));
    assert_eq!(conflicts.strike(0x8000, at(address)), None, "one abort was asked for");
    conflicts.arm(0x8000, address);
    assert!(!conflicts.end_resize(0..0x1000));
    assert_eq!(conflicts.take_ended(), None);
    assert!(conflicts.end_resize(0x10_0000..0x20_0000));
    assert_eq!((conflicts.take_ended(), conflicts.take_ended()), (Some(0x8000), None), "every TLB has forgotten");
    assert_eq!(conflicts.choose(OF_ONE, &[]), None);
}

#[test]
fn a_resize_is_a_moment_at_the_rate_and_not_before_the_first_tlbis_have_passed() {
    let mut conflicts = Conflicts::new(Settings { rate: 4, after: 1, ..Settings::DEFAULT });
    assert!((0..100).all(|_| !conflicts.is_moment()));
    assert_eq!(conflicts.choose(OF_ONE, &[]), None);
    let moments = (0..4000).filter(|_| conflicts.is_moment()).count();
    assert!((900..1100).contains(&moments), "{moments} of 4000");
    let range = 0x20_0000..0x40_0000;
    let chosen: [u64; 100] = core::array::from_fn(|_| conflicts.choose_in(&range));
    assert!(chosen.iter().all(|address| range.contains(address)));
    assert!(chosen.iter().any(|address| address >> 20 == 2) && chosen.iter().any(|address| address >> 20 == 3));
}

#[test]
fn resizes_that_are_too_many_are_not_noted() {
    let mut conflicts = Conflicts::new(Settings::DEFAULT);
    let noted = (0..20).filter(|number| conflicts.begin_resize(number << 12..(number + 1) << 12)).count();
    assert_eq!(noted, MAX_RESIZES);
}

#[test]
fn a_burst_ends_by_itself_or_by_a_tlbi() {
    let mut conflicts = Conflicts::new(Settings { burst: 3, ..MERCILESS });
    conflicts.arm(0x8000, 0x1234);
    assert_eq!(conflicts.note_tlbi(EVERY, 0), None, "a conflict that has not struck goes on");
    assert_eq!(
        [0; 4].map(|_| conflicts.strike(0x8000, at(0x1234))),
        [strike(false), strike(false), strike(true), None]
    );
    conflicts.arm(0x8000, 0x1234);
    conflicts.strike(0x8000, at(0x1234));
    assert_eq!((conflicts.note_tlbi(EVERY, 5), conflicts.note_tlbi(EVERY, 5)), (Some(0x8000), None));
}

#[test]
fn a_conflict_ends_by_an_invalidation_of_everything_where_it_struck() {
    let mut conflicts = Conflicts::new(Settings { burst: 3, ..MERCILESS });
    conflicts.arm(0x8000, 0x1234);
    conflicts.strike(0x8000, Access { cpu: 2, ..at(0x1234) });
    for op in [TlbiOp::VAE1, TlbiOp::VAAE1IS, TlbiOp::VALE1IS, TlbiOp::ASIDE1IS, TlbiOp::RVAE1IS] {
        assert_eq!(conflicts.note_tlbi(op, 2), None, "{:?}", op.name());
    }
    assert_eq!(conflicts.note_tlbi(OWN, 1), None, "another CPU's entries stay");
    assert_eq!(conflicts.note_tlbi(OWN, 2), Some(0x8000));
}

#[test]
fn each_listed_address_has_one_conflict() {
    let mut conflicts = Conflicts::new(settings(&[0x1000, 0x2008], Settings { rate: 1, ..Settings::DEFAULT }));
    for address in [0x1000, 0x2008] {
        assert_eq!(conflicts.choose(OF_ONE, &[7]), Some(address));
        let page = address & !PAGE_MASK | 0x8_0000;
        conflicts.arm(page, address);
        assert_eq!(conflicts.strike(page, at(address + 0x5000)), Some(Strike::Spared));
        conflicts.arm(page, address);
        assert_eq!(conflicts.take_ended(), None, "it needs no resize");
        assert_eq!(conflicts.strike(page, at(address)), strike(true));
    }
    assert_eq!(conflicts.choose(OF_ONE, &[7]), None);
}

#[test]
fn walks_are_spared_and_stage_2_is_not_the_guests() {
    let mut conflicts = Conflicts::new(Settings { is_stage2: true, ..MERCILESS });
    for (is_walk, strike) in [(true, Strike::Spared), (false, Strike::Stage2)] {
        conflicts.arm(0x8000, 0x1000);
        assert_eq!(conflicts.strike(0x8000, Access { is_walk, ..at(0x1000) }), Some(strike));
        assert_eq!(conflicts.strike(0x8000, at(0x1000)), None);
    }
}

#[test]
fn a_cpu_that_never_conflicts_is_spared_by_the_faithful() {
    for (is_merciless, struck) in [(false, Some(Strike::Spared)), (true, strike(true))] {
        let mut conflicts = Conflicts::new(Settings { is_merciless, ..Settings::DEFAULT });
        assert!(conflicts.begin_resize(0..0x1000));
        conflicts.arm(0x8000, 0);
        assert_eq!(conflicts.strike(0x8000, Access { is_immune: true, ..at(0) }), struck);
    }
}

#[test]
fn the_oldest_page_gives_way() {
    let mut conflicts = Conflicts::new(MERCILESS);
    assert_eq!(conflicts.arm(0x8000, 1), None);
    assert_eq!(conflicts.arm(0x8000, 2), None, "the same page again");
    for number in 1..MAX_ARMED as u64 {
        assert_eq!(conflicts.arm(0x8000 + (number << 12), 3), None);
    }
    assert_eq!(conflicts.arm(0x4000, 3), Some(0x8000));
    assert_eq!(conflicts.strike(0x8000, at(1)), None);
    assert_eq!(conflicts.strike(0x4000, at(3)), strike(true));
}

#[test]
fn a_conflict_that_has_struck_does_not_give_way() {
    let mut conflicts = Conflicts::new(Settings { burst: 3, ..MERCILESS });
    conflicts.arm(0x8000, 1);
    assert_eq!(conflicts.strike(0x8000, at(1)), strike(false));
    for number in 1..40 {
        conflicts.arm(0x8000 + (number << 12), 3);
    }
    assert_eq!(conflicts.arm(0x8000, 1), None);
    assert_eq!([0; 2].map(|_| conflicts.strike(0x8000, at(1))), [strike(false), strike(true)]);
}
