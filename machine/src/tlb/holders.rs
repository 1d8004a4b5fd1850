//! Who may hold an entry: a set of (ASID, CPU) pairs, small and sorted, so that equal sets are equal values.

use alloc::vec::Vec;

/// A set of CPUs, one bit each.
pub type Cpus = u64;

/// Stands for every ASID: the key of global entries.
pub const GLOBAL: u32 = 0x1_0000;

/// A set of (ASID or [`GLOBAL`], CPU) pairs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Holders(Vec<(u32, Cpus)>);

impl Holders {
    /// Nobody.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// `cpus`, tagged with `asid`.
    pub fn of(asid: u32, cpus: Cpus) -> Self {
        let mut holders = Self::none();
        holders.add(asid, cpus);
        holders
    }

    /// True when there is no pair.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pairs, by ASID.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Cpus)> + '_ {
        self.0.iter().copied()
    }

    /// CPUs of every ASID.
    pub fn cpus(&self) -> Cpus {
        self.0.iter().fold(0, |all, (_, cpus)| all | cpus)
    }

    /// CPUs tagged with exactly `asid`.
    pub fn exactly(&self, asid: u32) -> Cpus {
        self.0.iter().find(|(key, _)| *key == asid).map_or(0, |(_, cpus)| *cpus)
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
        match self.0.binary_search_by_key(&asid, |(key, _)| *key) {
            Ok(at) => self.0[at].1 |= cpus,
            Err(at) => self.0.insert(at, (asid, cpus)),
        }
    }

    /// Takes `cpus` away from `asid`.
    pub fn remove(&mut self, asid: u32, cpus: Cpus) {
        if let Ok(at) = self.0.binary_search_by_key(&asid, |(key, _)| *key) {
            self.0[at].1 &= !cpus;
            if self.0[at].1 == 0 {
                self.0.remove(at);
            }
        }
    }

    /// Takes every pair of `other` away.
    pub fn subtract(&mut self, other: &Self) {
        for (asid, cpus) in other.iter() {
            self.remove(asid, cpus);
        }
    }

    /// Adds every pair of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (asid, cpus) in other.iter() {
            self.add(asid, cpus);
        }
    }

    /// Keeps only the pairs that `other` has too.
    pub fn intersect(&mut self, other: &Self) {
        self.0.retain_mut(|(asid, kept)| {
            *kept &= other.exactly(*asid);
            *kept != 0
        });
    }

    /// Keeps only `cpus`.
    pub fn restrict(&mut self, cpus: Cpus) {
        self.0.retain_mut(|(_, kept)| {
            *kept &= cpus;
            *kept != 0
        });
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
