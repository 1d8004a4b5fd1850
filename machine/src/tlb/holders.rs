//! Who may hold an entry: a set of (ASID, CPU) pairs, small and sorted, so that equal sets are equal values.

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use super::entry::Entry;

/// A set of CPUs, one bit each.
pub type Cpus = u64;

/// Stands for every ASID: the key of global entries.
pub const GLOBAL: u32 = 0x1_0000;

/// An entry and whoever could hold it.
pub(crate) type Held = (Entry, Holders);

/// Nearly every set has no more pairs than this, and needs no allocation.
const FEW: usize = 2;

/// A set of (ASID or [`GLOBAL`], CPU) pairs.
#[derive(Clone, Debug)]
pub struct Holders(Pairs);

/// Sorted by ASID, no CPUs empty.
#[derive(Clone, Debug)]
enum Pairs {
    Few(usize, [(u32, Cpus); FEW]),
    Many(Vec<(u32, Cpus)>),
}

impl Holders {
    /// Nobody.
    pub const fn none() -> Self {
        Self(Pairs::Few(0, [(0, 0); FEW]))
    }

    /// `cpus`, tagged with `asid`.
    pub fn of(asid: u32, cpus: Cpus) -> Self {
        Self(Pairs::Few(usize::from(cpus != 0), [(asid, cpus), (0, 0)]))
    }

    fn pairs(&self) -> &[(u32, Cpus)] {
        match &self.0 {
            Pairs::Few(count, pairs) => &pairs[..*count],
            Pairs::Many(pairs) => pairs,
        }
    }

    /// True when there is no pair.
    pub fn is_empty(&self) -> bool {
        self.pairs().is_empty()
    }

    /// The pairs, by ASID.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Cpus)> + '_ {
        self.pairs().iter().copied()
    }

    /// CPUs of every ASID.
    pub fn cpus(&self) -> Cpus {
        self.iter().fold(0, |all, (_, cpus)| all | cpus)
    }

    /// CPUs tagged with exactly `asid`.
    pub fn exactly(&self, asid: u32) -> Cpus {
        self.iter().find(|(key, _)| *key == asid).map_or(0, |(_, cpus)| cpus)
    }

    /// CPUs on which a lookup with `asid` may hit.
    pub fn usable_by(&self, asid: u32) -> Cpus {
        if asid == GLOBAL { self.cpus() } else { self.exactly(asid) | self.exactly(GLOBAL) }
    }

    /// Adds `cpus` under `asid`.
    pub fn add(&mut self, asid: u32, cpus: Cpus) {
        if cpus == 0 {
            return;
        }
        let at = self.pairs().partition_point(|(key, _)| *key < asid);
        match &mut self.0 {
            Pairs::Few(count, pairs) if at < *count && pairs[at].0 == asid => pairs[at].1 |= cpus,
            Pairs::Many(pairs) if at < pairs.len() && pairs[at].0 == asid => pairs[at].1 |= cpus,
            Pairs::Few(count, pairs) if *count < FEW => {
                pairs.copy_within(at..*count, at + 1);
                pairs[at] = (asid, cpus);
                *count += 1;
            }
            Pairs::Few(_, pairs) => {
                let mut many = pairs.to_vec();
                many.insert(at, (asid, cpus));
                self.0 = Pairs::Many(many);
            }
            Pairs::Many(pairs) => pairs.insert(at, (asid, cpus)),
        }
    }

    /// Keeps of each pair what `kept` says.
    fn keep(&mut self, kept: impl Fn(u32, Cpus) -> Cpus) {
        match &mut self.0 {
            Pairs::Few(count, pairs) => {
                let before = core::mem::take(count);
                for at in 0..before {
                    let (asid, cpus) = pairs[at];
                    let cpus = kept(asid, cpus);
                    if cpus != 0 {
                        pairs[*count] = (asid, cpus);
                        *count += 1;
                    }
                }
            }
            Pairs::Many(pairs) => pairs.retain_mut(|(asid, cpus)| {
                *cpus = kept(*asid, *cpus);
                *cpus != 0
            }),
        }
    }

    /// Takes every pair of `other` away.
    pub fn subtract(&mut self, other: &Self) {
        self.keep(|asid, kept| kept & !other.exactly(asid));
    }

    /// Adds every pair of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (asid, cpus) in other.iter() {
            self.add(asid, cpus);
        }
    }

    /// Keeps only the pairs that `other` has too.
    pub fn intersect(&mut self, other: &Self) {
        self.keep(|asid, kept| kept & other.exactly(asid));
    }

    /// Keeps only `cpus`.
    pub fn restrict(&mut self, cpus: Cpus) {
        self.keep(|_, kept| kept & cpus);
    }

    /// CPUs on which entries of both sets may answer the same lookup.
    pub fn meets(&self, other: &Self) -> Cpus {
        let mut meeting = 0;
        for (asid, cpus) in self.iter() {
            meeting |= cpus & other.usable_by(asid);
        }
        meeting
    }
}

/// `held` lose `holes` more members of a set; `parts` says of each holder which it lost so far.
pub(super) fn punch(parts: &mut Vec<(Holders, u128)>, held: &Holders, holes: u128) {
    let mut fresh = held.clone();
    for (holders, lost) in core::mem::take(parts) {
        let (mut both, mut rest) = (Holders::none(), holders.clone());
        for (asid, cpus) in holders.iter() {
            both.add(asid, cpus & held.exactly(asid));
        }
        rest.subtract(&both);
        fresh.subtract(&both);
        for (holders, lost) in [(both, lost | holes), (rest, lost)] {
            if !holders.is_empty() {
                parts.push((holders, lost));
            }
        }
    }
    if !fresh.is_empty() {
        parts.push((fresh, holes));
    }
}

impl Default for Holders {
    fn default() -> Self {
        Self::none()
    }
}

impl PartialEq for Holders {
    fn eq(&self, other: &Self) -> bool {
        self.pairs() == other.pairs()
    }
}

impl Eq for Holders {}

impl Hash for Holders {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pairs().hash(state);
    }
}
