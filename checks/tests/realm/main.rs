//! Memory of a realm changes hands on the simulated machine, whose two stages the kernel and the RMM change in turn: the kernel's protocol
//! (`kerncore::handing`) over the linear map's real code, above hosts that do a part of what they are asked, nothing, refuse, and lie.
//!
//! ```text
//! VA ─ stage 1: the kernel's ─▶ IPA ─ stage 2: the RMM's ─▶ memory
//!                               protected    ▶ the realm's own, where it is RAM
//!                               unprotected  ▶ the host's, where it is EMPTY
//! ```
//! One CPU changes the map; another one, of any level, walks it from the start, comes while the host is asked, or never. Whenever the RMM is asked, and when all is over, each CPU looks at each page: every answer that a TLB could give counts.

mod host;
mod kernel;
mod mistake;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use host::{Does, Host};
use kerncore::handing::{NotHanded, hand};
use kerncore::range::PhysicalRange;
use kerncore::realm::Wish;
use kernel::{BLOCK, GRANULE, HOSTS, Linear, OWN, PAGES, arrive, look, realm, start};
use machine::seed::Seed;
use mistake::{MISTAKES, Mistake};
use vmsa::{BbmLevel, PhysAddr};

/// How often each came of what was asked.
#[derive(Default, Debug)]
struct Seen {
    done: usize,
    stopped: usize,
    lost: u64,
}

/// Shares some of the pages and takes them back, above hosts that do what a seed says; what is wrong, if anything is.
fn run(seed: u64, mistake: Mistake, seen: &mut Seen) -> Result<(), String> {
    let mut seed = Seed::new(seed);
    let realm = realm([(); 2].map(|()| *seed.pick(&LEVELS)));
    let linear = Linear { map: start(&realm), mistake };
    realm.forgets.set(mistake == Mistake::ForgetsTlbs);
    realm.parks_nobody.set(mistake == Mistake::ParksNobody);
    let comes = || arrive(&realm, &linear.map);
    let mut meanwhile: Option<&dyn Fn()> = None;
    match seed.below(4) {
        0 => {}
        1 => meanwhile = Some(&comes),
        _ => comes(),
    }
    linear.map.settle();
    let host = Host {
        realm: &realm,
        ram: Cell::new(!0),
        script: RefCell::default(),
        meanwhile: RefCell::new(meanwhile),
        mistake,
        wrong: RefCell::default(),
    };
    // 64 KiB, or less; pages of one granule or of four.
    let page_granules = *seed.pick(&[1, 4]);
    let first = seed.below(PAGES / page_granules) * page_granules;
    let count = page_granules * (1 + seed.below((PAGES - first) / page_granules));
    let range = PhysicalRange::from_size(PhysAddr::new(BLOCK + first * GRANULE), count * GRANULE);
    let mut lost = BTreeSet::new();
    for wish in [Wish::Empty, Wish::Ram] {
        *host.script.borrow_mut() = (0..seed.below(6)).map(|_| draw(&mut seed, range)).collect();
        let handed = hand(&host, &linear, range, wish, page_granules * GRANULE);
        let is_shared = handed.is_ok() && wish == Wish::Empty;
        if let Err(NotHanded::Stopped(..)) = handed {
            let asked = (first..first + count).step_by(page_granules as usize);
            lost = asked.filter(|page| (*page..page + page_granules).any(|page| !host.is_ram(page))).collect();
        }
        let said = handed.as_ref().err().map_or(0, NotHanded::lost);
        if said != lost.len() as u64 {
            return Err(format!("{said} pages are said to be lost, and {lost:?} are"));
        }
        for page in 0..2 * PAGES {
            let is_its = (first..first + count).contains(&page);
            let memory = if is_its && is_shared { HOSTS } else { OWN } + page * GRANULE;
            let is_lost = is_its && lost.contains(&((page - first) / page_granules * page_granules + first));
            let expected = if is_lost { Err(false) } else { Ok(memory) };
            let found = look(&realm, page);
            if found != BTreeSet::from([expected]) {
                return Err(format!("{wish:?}, {handed:?}: page {page} is {found:x?}, expected {expected:x?}"));
            }
        }
        if handed.is_err() {
            seen.stopped += 1;
            seen.lost += said;
            break;
        }
        seen.done += 1;
    }
    if let Some(wrong) = host.wrong.borrow().first() {
        return Err(wrong.clone());
    }
    match realm.machine.borrow().findings().iter().find(|finding| !finding.is_lint()) {
        Some(finding) => Err(finding.to_string()),
        None => Ok(()),
    }
}

fn draw(seed: &mut Seed, range: PhysicalRange) -> Does {
    let count = seed.below(PAGES);
    match seed.below(8) {
        0..3 => Does::Some(count),
        3 => Does::Some(0),
        4 | 5 => Does::Rejects(count),
        6 => Does::Error(count),
        _ => Does::Nonsense(*seed.pick(&[0, range.end.bits() + GRANULE, range.start.bits() + 8, u64::MAX])),
    }
}

const SEEDS: u64 = 150;
const LEVELS: [BbmLevel; 4] = [BbmLevel::Level0, BbmLevel::Level1, BbmLevel::Level2, BbmLevel::Level3];

#[test]
fn memory_is_in_the_right_hands_whatever_the_host_does() {
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        run(seed, Mistake::None, &mut seen).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
    assert!(seen.done > 20 && seen.stopped > 20 && seen.lost > 20, "{seen:?}");
}

#[test]
fn each_mistake_is_found() {
    for mistake in MISTAKES {
        let found = (0..SEEDS).find_map(|seed| run(seed, mistake, &mut Seen::default()).err());
        assert!(found.is_some(), "{mistake:?} is not noticed");
    }
}
