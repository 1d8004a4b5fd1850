//! What the host does to a realm's requests: how far it gets with one at a time, and which it refuses, from a seed.

use core::ops::Range;

use kerncore::list::List;
use seed::Seed;

use super::{ACCEPT, Answer, ERROR_UNKNOWN, GRANULE_BYTES, REJECT, SUCCESS, Space, State, error};

/// Addresses that can be listed.
pub const MAX_ADDRESSES: usize = 8;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The realm's addresses.
    pub space: Space,
    /// Devices are at their protected addresses too, for a guest that does not know that it is a realm.
    pub has_protected_devices: bool,
    /// Pages that a request gets on with at a time; 0: all.
    pub step: u64,
    /// The seed of every choice.
    pub seed: u64,
    /// One request in so many is refused; 0: none.
    pub rate: u64,
    /// How many requests pass before the first may be refused at this rate.
    pub after: u64,
    /// A refusal is an error, which no RMM gives, and not a rejection.
    pub is_error: bool,
    /// Pages for each of which one request is refused, however it comes to them.
    pub addresses: List<u64, MAX_ADDRESSES>,
}

/// Bits of the realm's addresses where nothing else is said: QEMU's devices end at 2^40.
const BITS: u32 = 41;

impl Settings {
    /// A host that does what it is asked.
    pub const DEFAULT: Self = Self {
        space: Space::new(BITS).expect("they are from 33 to 48"),
        has_protected_devices: false,
        step: 0,
        seed: 1,
        rate: 0,
        after: 0,
        is_error: false,
        addresses: List::new(0),
    };
}

/// What becomes of a request to change the state of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It is carried out up to this address.
    Until(u64),
    /// Nothing of it is carried out, and this is the answer.
    Refused(Answer),
}

/// The host of one run.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    settings: Settings,
    random: Seed,
    /// Requests that are still to pass.
    to_pass: u64,
    /// Listed addresses whose request is still to be refused.
    listed: List<u64, MAX_ADDRESSES>,
}

impl Host {
    /// Nothing was asked of it.
    pub const fn new(settings: Settings) -> Self {
        let random = Seed::new(settings.seed);
        Self { settings, random, to_pass: settings.after, listed: settings.addresses }
    }

    /// Decides on a request for a range of whole pages, which is not empty. `memory_end` is where the memory ends that
    /// the host has from the start of the range on.
    pub fn decide(&mut self, range: Range<u64>, state: State, memory_end: u64) -> Decision {
        if self.is_chosen() || self.is_listed(range.start) {
            return Decision::Refused(self.refusal(range.start, state));
        }
        let backed = if state == State::Ram { memory_end } else { range.end };
        if backed <= range.start {
            // There is no memory: a host cannot but reject this.
            return Decision::Refused([SUCCESS, range.start, REJECT, 0]);
        }
        let step = match self.settings.step {
            0 => range.end,
            pages => range.start.saturating_add(pages.saturating_mul(GRANULE_BYTES)),
        };
        let listed = self.listed.iter().map(|address| address & !(GRANULE_BYTES - 1));
        let listed = listed.filter(|page| range.contains(page)).min().unwrap_or(range.end);
        Decision::Until(range.end.min(backed).min(step).min(listed))
    }

    fn is_chosen(&mut self) -> bool {
        if let Some(left) = self.to_pass.checked_sub(1) {
            self.to_pass = left;
            return false;
        }
        self.settings.rate != 0 && self.random.below(self.settings.rate) == 0
    }

    /// Whether a request that begins with a listed page is to be refused, which it is once.
    fn is_listed(&mut self, start: u64) -> bool {
        let found = self.listed.iter().position(|address| address & !(GRANULE_BYTES - 1) == start);
        found.map(|index| self.listed.remove(index)).is_some()
    }

    /// A host cannot reject that memory becomes EMPTY (A5.4): it can only do nothing about it.
    fn refusal(&self, base: u64, state: State) -> Answer {
        match (self.settings.is_error, state) {
            (true, _) => error(ERROR_UNKNOWN),
            (false, State::Ram) => [SUCCESS, base, REJECT, 0],
            (false, State::Empty) => [SUCCESS, base, ACCEPT, 0],
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;
    use Decision::{Refused, Until};

    const PAGE: u64 = GRANULE_BYTES;
    const RANGE: Range<u64> = 0x10 * PAGE..0x20 * PAGE;
    const MEMORY_END: u64 = 0x100 * PAGE;

    fn host(settings: Settings) -> Host {
        Host::new(settings)
    }

    fn listed(pages: &[u64], settings: Settings) -> Settings {
        let mut addresses = List::new(0);
        pages.iter().for_each(|page| addresses.push(page * PAGE + 8).unwrap());
        Settings { addresses, ..settings }
    }

    /// The bases that a guest sees which asks until all is done, and how often it was refused.
    fn ask_all(host: &mut Host, state: State) -> (Vec<u64>, usize) {
        let (mut base, mut bases, mut refused) = (RANGE.start, Vec::new(), 0);
        while base < RANGE.end {
            match host.decide(base..RANGE.end, state, MEMORY_END) {
                Until(end) => base = end,
                Refused(_) => refused += 1,
            }
            bases.push(base / PAGE);
        }
        (bases, refused)
    }

    #[test]
    fn a_willing_host_does_all_at_once() {
        for state in [State::Empty, State::Ram] {
            assert_eq!(host(Settings::DEFAULT).decide(RANGE, state, MEMORY_END), Until(RANGE.end));
        }
    }

    #[test]
    fn a_request_gets_on_by_steps() {
        let mut slow = host(Settings { step: 7, ..Settings::DEFAULT });
        assert_eq!(ask_all(&mut slow, State::Ram), ([0x17, 0x1e, 0x20].to_vec(), 0));
        let mut endless = host(Settings { step: u64::MAX, ..Settings::DEFAULT });
        assert_eq!(endless.decide(RANGE, State::Ram, MEMORY_END), Until(RANGE.end));
    }

    #[test]
    fn ram_is_only_where_the_host_has_memory() {
        let mut host = host(Settings::DEFAULT);
        assert_eq!(host.decide(RANGE, State::Ram, 0x18 * PAGE), Until(0x18 * PAGE));
        let rejected = Refused([0, RANGE.start, 1, 0]);
        assert_eq!(host.decide(RANGE, State::Ram, RANGE.start), rejected);
        assert_eq!(host.decide(RANGE, State::Empty, RANGE.start), Until(RANGE.end));
    }

    #[test]
    fn only_ram_can_be_rejected() {
        let all = Settings { rate: 1, ..Settings::DEFAULT };
        assert_eq!(host(all).decide(RANGE, State::Ram, MEMORY_END), Refused([0, RANGE.start, 1, 0]));
        assert_eq!(host(all).decide(RANGE, State::Empty, MEMORY_END), Refused([0, RANGE.start, 0, 0]));
        let errors = Settings { is_error: true, ..all };
        for state in [State::Empty, State::Ram] {
            assert_eq!(host(errors).decide(RANGE, state, MEMORY_END), Refused([4, 0, 0, 0]));
        }
    }

    #[test]
    fn each_listed_page_is_refused_once_and_nothing_behind_it_before() {
        let mut host = host(listed(&[0x10, 0x15, 0x40], Settings::DEFAULT));
        assert_eq!(ask_all(&mut host, State::Ram), ([0x10, 0x15, 0x15, 0x20].to_vec(), 2));
        assert_eq!(ask_all(&mut host, State::Ram), ([0x20].to_vec(), 0));
    }

    #[test]
    fn the_same_seed_refuses_the_same_requests_at_the_rate_that_was_asked_for() {
        let run = |seed, after| {
            let mut host = host(Settings { seed, rate: 10, after, ..Settings::DEFAULT });
            let is_refused = |_| matches!(host.decide(RANGE, State::Ram, MEMORY_END), Refused(_));
            (0..4000).map(is_refused).collect::<Vec<bool>>()
        };
        assert_eq!(run(7, 0), run(7, 0));
        assert_ne!(run(7, 0), run(8, 0));
        let refused = run(7, 0).iter().filter(|is_refused| **is_refused).count();
        assert!((300..500).contains(&refused), "{refused} of 4000");
        assert!(!run(7, 100)[..100].contains(&true));
        assert_eq!(run(7, 100)[100..], run(7, 0)[..3900], "the first requests take no choice");
    }
}
