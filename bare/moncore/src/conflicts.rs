//! When and where TLB conflict aborts are to come, from a seed.
//!
//! A conflict has three steps. At a *moment*, a TLBI of the guest's, an address is chosen and its page is *armed*: stage 2
//! does not map it. The next access to it, whoever's and wherever, comes to the monitor and takes a conflict abort, until
//! the guest invalidates, or [`Settings::burst`] times. Then stage 2 maps the page again.

use core::ops::Range;

use kerncore::list::List;

use crate::random::Random;

/// Addresses that can be listed, and resizes that can be under way at a time.
pub const MAX_ADDRESSES: usize = 8;
const MAX_RESIZES: usize = 16;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The seed of every choice.
    pub seed: u64,
    /// One TLBI in so many is a moment; not 0.
    pub rate: u64,
    /// How many TLBIs pass before the first moment.
    pub after: u64,
    /// How often a conflict aborts before it goes away by itself; not 0.
    pub burst: u64,
    /// Anywhere, not only where the guest has announced a resize.
    pub is_merciless: bool,
    /// The conflicts are stage 2's: the monitor's to handle, and nothing that a guest notices.
    pub is_stage2: bool,
    /// Addresses that each have one conflict, as soon as they are mapped.
    pub addresses: List<u64, MAX_ADDRESSES>,
}

impl Settings {
    /// Faithful, one moment in 16 TLBIs, one abort each.
    pub const DEFAULT: Self =
        Self { seed: 1, rate: 16, after: 0, burst: 1, is_merciless: false, is_stage2: false, addresses: List::new(0) };
}

/// A page that is armed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Armed {
    /// Its intermediate physical address.
    page: u64,
    /// The page of virtual memory that it was chosen for, where an address was listed.
    listed: Option<u64>,
    /// Aborts that are still to come.
    left: u64,
    /// Whether one has come.
    has_struck: bool,
}

/// What becomes of an access to an armed page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strike {
    /// The guest takes a conflict abort; then the page is armed no more if `is_last`.
    Guest {
        /// Whether stage 2 is to map the page again.
        is_last: bool,
    },
    /// The conflict is the monitor's to handle, and the page is armed no more.
    Stage2,
    /// No conflict may be there: the page is armed no more.
    Spared,
}

/// The choices of one run.
#[derive(Clone, Copy, Debug)]
pub struct Conflicts {
    settings: Settings,
    random: Random,
    /// TLBIs that are still to pass before the first moment.
    to_pass: u64,
    /// What the guest is resizing, as it has announced: start and end.
    resizes: List<(u64, u64), MAX_RESIZES>,
    /// How many of the listed addresses have had their conflict.
    struck_addresses: usize,
    armed: Option<Armed>,
}

/// Bits of an address within the pages that stage 2 maps.
const PAGE_MASK: u64 = 0xfff;

impl Conflicts {
    /// Nothing has happened.
    pub const fn new(settings: Settings) -> Self {
        let random = Random::new(settings.seed);
        Self { settings, random, to_pass: settings.after, resizes: List::new((0, 0)), struck_addresses: 0, armed: None }
    }

    /// Notes that the guest begins to resize a range. Whether there was room to note it.
    pub fn begin_resize(&mut self, range: Range<u64>) -> bool {
        range.start < range.end && self.resizes.push((range.start, range.end)).is_ok()
    }

    /// Notes that every TLB has forgotten what a range was. Whether its beginning had been announced.
    pub fn end_resize(&mut self, range: Range<u64>) -> bool {
        let found = self.resizes.iter().position(|resize| *resize == (range.start, range.end));
        found.map(|index| self.resizes.remove(index)).is_some()
    }

    /// The guest has executed a TLBI: a conflict that has struck is over. Gives a page to take out of arms.
    pub fn note_tlbi(&mut self) -> Option<u64> {
        let armed = self.armed.filter(|armed| armed.has_struck)?;
        self.armed = None;
        Some(armed.page)
    }

    /// Whether this is a moment, and for what virtual address. `pointers` are the guest's registers, which mostly lead to
    /// what it is working with.
    pub fn choose(&mut self, pointers: &[u64]) -> Option<u64> {
        if let Some(left) = self.to_pass.checked_sub(1) {
            self.to_pass = left;
            return None;
        }
        if let Some(address) = self.settings.addresses.get(self.struck_addresses) {
            return Some(*address);
        }
        if self.random.below(self.settings.rate) != 0 {
            return None;
        }
        if self.settings.is_merciless {
            return pointers.get(self.random.below(pointers.len().max(1) as u64) as usize).copied();
        }
        let resizes = self.resizes.len() as u64;
        let (start, end) = *self.resizes.get(self.random.below(resizes.max(1)) as usize)?;
        Some(start + self.random.below(end - start))
    }

    /// Arms the page at an intermediate physical address, for a virtual address from [`Self::choose`]. Gives the page that
    /// was armed before, if it is another.
    pub fn arm(&mut self, page: u64, address: u64) -> Option<u64> {
        let before = self.armed.map(|armed| armed.page);
        let is_listed = self.settings.addresses.get(self.struck_addresses) == Some(&address);
        self.armed = Some(Armed {
            page,
            listed: is_listed.then_some(address & !PAGE_MASK),
            left: self.settings.burst,
            has_struck: false,
        });
        before.filter(|before| *before != page)
    }

    /// Whether this page is armed.
    pub fn is_armed(&self, page: u64) -> bool {
        self.armed.is_some_and(|armed| armed.page == page)
    }

    /// An access to the armed page, at a virtual address; `is_walk` where stage 1's walk made it.
    pub fn strike(&mut self, address: u64, is_walk: bool) -> Strike {
        let Some(armed) = &mut self.armed else { return Strike::Spared };
        let may_conflict = match armed.listed {
            Some(page) => address & !PAGE_MASK == page,
            None => {
                let is_resized = self.resizes.iter().any(|(start, end)| (*start..*end).contains(&address));
                self.settings.is_merciless || is_resized
            }
        };
        if is_walk || !may_conflict {
            self.armed = None;
            return Strike::Spared;
        }
        if armed.listed.is_some() && !armed.has_struck {
            self.struck_addresses += 1;
        }
        if self.settings.is_stage2 {
            self.armed = None;
            return Strike::Stage2;
        }
        armed.has_struck = true;
        armed.left -= 1;
        let is_last = armed.left == 0;
        if is_last {
            self.armed = None;
        }
        Strike::Guest { is_last }
    }
}

#[cfg(test)]
mod tests {
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
            core::array::from_fn::<_, 4000, _>(|_| conflicts.choose(&[1, 2, 3]))
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
        assert_eq!([0; 4].map(|_| conflicts.choose(&[5])), [None, None, Some(5), Some(5)]);
    }

    #[test]
    fn faithful_conflicts_are_where_a_resize_was_announced_and_not_invalidated() {
        let mut conflicts = Conflicts::new(Settings { rate: 1, ..Settings::DEFAULT });
        assert_eq!(conflicts.choose(&[0x5000]), None, "nothing is being resized");
        assert!(!conflicts.begin_resize(0x3000..0x3000));
        assert!(conflicts.begin_resize(0x10_0000..0x20_0000));
        let address = conflicts.choose(&[0x5000]).expect("a resize is under way");
        assert!((0x10_0000..0x20_0000).contains(&address));
        assert_eq!(conflicts.arm(0x8000, address), None);
        assert_eq!(conflicts.strike(0x5000, false), Strike::Spared, "an alias that is not resized");
        conflicts.arm(0x8000, address);
        assert_eq!(conflicts.strike(address, false), Strike::Guest { is_last: true });
        conflicts.arm(0x8000, address);
        assert!(!conflicts.end_resize(0..0x1000) && conflicts.end_resize(0x10_0000..0x20_0000));
        assert_eq!(conflicts.strike(address, false), Strike::Spared, "every TLB has forgotten");
        assert_eq!(conflicts.choose(&[]), None);
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
        assert_eq!(conflicts.note_tlbi(), None, "a conflict that has not struck goes on");
        let strikes = [false, false, true].map(|is_last| Strike::Guest { is_last });
        assert_eq!([0; 3].map(|_| conflicts.strike(0x1234, false)), strikes);
        assert!(!conflicts.is_armed(0x8000));
        conflicts.arm(0x8000, 0x1234);
        conflicts.strike(0x1234, false);
        assert_eq!(conflicts.note_tlbi(), Some(0x8000));
        assert!(!conflicts.is_armed(0x8000));
    }

    #[test]
    fn each_listed_address_has_one_conflict() {
        let mut conflicts = Conflicts::new(settings(&[0x1000, 0x2008], Settings { rate: 1, ..Settings::DEFAULT }));
        for address in [0x1000, 0x2008] {
            assert_eq!(conflicts.choose(&[7]), Some(address));
            conflicts.arm(address + 0x8000, address);
            assert_eq!(conflicts.strike(address + 0x5000, false), Strike::Spared);
            conflicts.arm(address + 0x8000, address);
            assert_eq!(conflicts.strike(address, false), Strike::Guest { is_last: true });
        }
        assert_eq!(conflicts.choose(&[7]), None);
    }

    #[test]
    fn walks_are_spared_and_stage_2_is_not_the_guests() {
        let mut conflicts = Conflicts::new(Settings { is_stage2: true, ..MERCILESS });
        for (is_walk, strike) in [(true, Strike::Spared), (false, Strike::Stage2)] {
            conflicts.arm(0x8000, 0x1000);
            assert_eq!(conflicts.strike(0x1000, is_walk), strike);
            assert!(!conflicts.is_armed(0x8000));
        }
    }

    #[test]
    fn the_page_that_was_armed_before_is_given_back() {
        let mut conflicts = Conflicts::new(MERCILESS);
        assert_eq!(conflicts.arm(0x8000, 1), None);
        assert_eq!(conflicts.arm(0x8000, 2), None);
        assert_eq!(conflicts.arm(0x9000, 3), Some(0x8000));
        assert!(conflicts.is_armed(0x9000) && !conflicts.is_armed(0x8000));
    }
}
