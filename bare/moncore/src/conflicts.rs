//! When and where TLB conflict aborts are to come, from a seed.
//!
//! A conflict has three steps. At a *moment*, a TLBI of the guest's or its announcement of a resize, addresses are chosen and
//! their pages are *armed*: stage 2 does not map them. The next access to one, whoever's and wherever, comes to the monitor
//! and takes a conflict abort, until the guest invalidates, or [`Settings::burst`] times. Then stage 2 maps the page again.

use core::ops::Range;

use kerncore::list::List;
use vmsa::TlbiOp;

use crate::random::Random;

/// Addresses that can be listed, and resizes that can be under way at a time.
pub const MAX_ADDRESSES: usize = 8;
const MAX_RESIZES: usize = 16;
/// Pages that are armed at a time; the oldest gives way. A resize that begins arms as many.
pub const MAX_ARMED: usize = 16;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The seed of every choice.
    pub seed: u64,
    /// One TLBI, or resize, in so many is a moment; not 0.
    pub rate: u64,
    /// How many TLBIs pass before the first moment.
    pub after: u64,
    /// How often a conflict aborts before it goes away by itself, if no TLBI ends it ([`Conflicts::note_tlbi`]); not 0.
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
    /// The virtual address that it was chosen for.
    address: u64,
    /// Whether that was listed: no other page of virtual memory conflicts then.
    is_listed: bool,
    /// Aborts that are still to come.
    left: u64,
    /// The CPUs on which one has come, a bit each.
    struck: u64,
}

impl Armed {
    const NONE: Self = Self { page: 0, address: 0, is_listed: false, left: 0, struck: 0 };
}

/// An access that stage 2 refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Its virtual address.
    pub address: u64,
    /// Whether stage 1's walk made it.
    pub is_walk: bool,
    /// Whose it was; below 64.
    pub cpu: usize,
    /// Whether that CPU never raises a conflict abort (FEAT_BBM level 3): only a merciless one, or one that was listed, comes
    /// to it.
    pub is_immune: bool,
}

/// What becomes of an access to an armed page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strike {
    /// The guest takes a conflict abort; then the page is armed no more if `is_last`.
    Guest {
        /// Whether stage 2 is to map the page again: it has aborted [`Settings::burst`] times.
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
    /// The oldest first, no page twice.
    armed: List<Armed, MAX_ARMED>,
}

/// Bits of an address within the pages that stage 2 maps.
const PAGE_MASK: u64 = 0xfff;

impl Conflicts {
    /// Nothing has happened.
    pub const fn new(settings: Settings) -> Self {
        Self {
            settings,
            random: Random::new(settings.seed),
            to_pass: settings.after,
            resizes: List::new((0, 0)),
            struck_addresses: 0,
            armed: List::new(Armed::NONE),
        }
    }

    /// What was asked for.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Notes that the guest begins to resize a range. Whether there was room to note it.
    pub fn begin_resize(&mut self, range: Range<u64>) -> bool {
        range.start < range.end && self.resizes.push((range.start, range.end)).is_ok()
    }

    /// Whether a resize that begins is a moment: conflicts may come from now on, while no TLBI has been executed yet.
    pub fn is_moment(&mut self) -> bool {
        self.to_pass == 0 && self.random.below(self.settings.rate) == 0
    }

    /// An address of a range that is not empty.
    pub fn choose_in(&mut self, range: &Range<u64>) -> u64 {
        range.start + self.random.below(range.end - range.start)
    }

    /// Notes that every TLB has forgotten what a range was. Whether its beginning had been announced.
    pub fn end_resize(&mut self, range: Range<u64>) -> bool {
        let found = self.resizes.iter().position(|resize| *resize == (range.start, range.end));
        found.map(|index| self.resizes.remove(index)).is_some()
    }

    /// Takes a page out of arms whose conflict may not come any more. To be asked after [`Self::end_resize`], until there is
    /// none.
    pub fn take_ended(&mut self) -> Option<u64> {
        let has_ended = |armed: &Armed| !armed.is_listed && !self.may_conflict(armed.address);
        let index = self.armed.iter().position(has_ended)?;
        Some(self.armed.remove(index).page)
    }

    /// A TLBI that a CPU below 64 has executed ends a conflict that has struck: an invalidation of all entries does, of the
    /// CPU's own or of every CPU's. One by address or by ASID is not sure to find all entries that conflict (RBLRKC).
    /// Gives a page to take out of arms, and is to be asked until there is none.
    pub fn note_tlbi(&mut self, op: TlbiOp, cpu: usize) -> Option<u64> {
        let cpus = match op.name() {
            Some("VMALLE1") => 1 << cpu,
            Some("VMALLE1IS" | "VMALLE1OS") => u64::MAX,
            _ => 0,
        };
        let index = self.armed.iter().position(|armed| armed.struck & cpus != 0)?;
        Some(self.armed.remove(index).page)
    }

    /// Whether a TLBI is a moment, and for what virtual address. `pointers` are the guest's registers, which mostly lead to
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
        Some(self.choose_in(&(start..end)))
    }

    /// Arms the page at an intermediate physical address, for a virtual address that was chosen. Gives a page that is armed
    /// no more.
    pub fn arm(&mut self, page: u64, address: u64) -> Option<u64> {
        let is_listed = self.settings.addresses.get(self.struck_addresses) == Some(&address);
        let before = self.armed.iter().position(|armed| armed.page == page);
        let is_full = before.is_none() && self.armed.room() == 0;
        let gives_way = before.or(is_full.then_some(0)).map(|index| self.armed.remove(index).page);
        let armed = Armed { page, address, is_listed, left: self.settings.burst, struck: 0 };
        self.armed.push(armed).expect("one gave way if there was no room");
        gives_way.filter(|before| *before != page)
    }

    fn may_conflict(&self, address: u64) -> bool {
        self.settings.is_merciless || self.resizes.iter().any(|(start, end)| (*start..*end).contains(&address))
    }

    /// An access to a page that stage 2 does not map. `None` where it is not armed, or not any more.
    pub fn strike(&mut self, page: u64, access: Access) -> Option<Strike> {
        let index = self.armed.iter().position(|armed| armed.page == page)?;
        let armed = self.armed[index];
        let may_conflict = match armed.is_listed {
            true => access.address & !PAGE_MASK == armed.address & !PAGE_MASK,
            false => self.may_conflict(access.address) && (self.settings.is_merciless || !access.is_immune),
        };
        if access.is_walk || !may_conflict {
            self.armed.remove(index);
            return Some(Strike::Spared);
        }
        if armed.is_listed && armed.struck == 0 {
            self.struck_addresses += 1;
        }
        if self.settings.is_stage2 {
            self.armed.remove(index);
            return Some(Strike::Stage2);
        }
        let is_last = armed.left == 1;
        if is_last {
            self.armed.remove(index);
        } else {
            self.armed[index] = Armed { left: armed.left - 1, struck: armed.struck | 1 << access.cpu, ..armed };
        }
        Some(Strike::Guest { is_last })
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
        assert_eq!(conflicts.choose(&[0x5000]), None, "nothing is being resized");
        assert!(!conflicts.begin_resize(0x3000..0x3000));
        assert!(conflicts.begin_resize(0x10_0000..0x20_0000));
        let address = conflicts.choose(&[0x5000]).expect("a resize is under way");
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
        assert_eq!(conflicts.choose(&[]), None);
    }

    #[test]
    fn a_resize_is_a_moment_at_the_rate_and_not_before_the_first_tlbis_have_passed() {
        let mut conflicts = Conflicts::new(Settings { rate: 4, after: 1, ..Settings::DEFAULT });
        assert!((0..100).all(|_| !conflicts.is_moment()));
        assert_eq!(conflicts.choose(&[]), None);
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
            assert_eq!(conflicts.choose(&[7]), Some(address));
            let page = address & !PAGE_MASK | 0x8_0000;
            conflicts.arm(page, address);
            assert_eq!(conflicts.strike(page, at(address + 0x5000)), Some(Strike::Spared));
            conflicts.arm(page, address);
            assert_eq!(conflicts.take_ended(), None, "it needs no resize");
            assert_eq!(conflicts.strike(page, at(address)), strike(true));
        }
        assert_eq!(conflicts.choose(&[7]), None);
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
}
