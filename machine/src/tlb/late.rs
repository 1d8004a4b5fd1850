//! What a broadcast TLBI does beside removing entries: it waits for walks that were begun before it.
//!
//! Faults that are late: the value that gave them went out of sight, but a walk begun before may still bring them, to a
//! CPU that has not synchronized since and lacks FEAT_ETS2. (DDI 0487, D8.2.6)

use alloc::collections::BTreeMap;

use super::holders::Cpus;
use crate::tlbi::Selector;

/// A broadcast TLBI underway that comes after a settled store: no walk that is begun before its end misses the store, or it
/// waits for the access. (RWWQZZ)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sweep {
    pub(crate) issuer: u8,
    pub(crate) selector: Selector,
    /// What was stored to.
    pub(crate) word: u64,
    /// Stores settled until then come before the TLBI: the last DSB of its CPU before it.
    pub(crate) event: u64,
}

/// A word whose faulting value went out of sight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    /// When.
    pub(crate) event: u64,
    /// Since when the store over that value was settled: whatever is ordered behind that does not fault.
    pub(crate) settled: u64,
    /// CPUs with a broadcast TLBI for it underway: once complete, no access begun before it is left. (RWWQZZ)
    pub(crate) ending: Cpus,
}

/// Every such word.
#[derive(Clone, Debug, Default)]
pub(crate) struct LateFaults(BTreeMap<u64, Late>);

impl LateFaults {
    pub(crate) fn add(&mut self, word: u64, event: u64, settled: u64) {
        self.0.insert(word, Late { event, settled, ending: 0 });
    }

    pub(crate) fn get(&self, word: u64) -> Option<&Late> {
        if self.0.is_empty() { None } else { self.0.get(&word) }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Late)> {
        self.0.iter().map(|(word, late)| (*word, late))
    }

    /// `cpu` has issued a broadcast TLBI that covers `word`.
    pub(crate) fn mark(&mut self, cpu: u8, word: u64) {
        if let Some(late) = self.0.get_mut(&word) {
            late.ending |= 1 << cpu;
        }
    }

    /// The broadcast TLBIs of `cpu` are complete.
    pub(crate) fn complete(&mut self, cpu: u8) {
        self.0.retain(|_, late| late.ending >> cpu & 1 == 0);
    }
}

/// A leaf whose access flag software has cleared, where hardware may set it. To keep the leaf hardware must set the flag
/// first: while that is clear, a TLB can have it only from before. (D8.5.1)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unset {
    /// When it was stored.
    pub(crate) stored: u64,
    /// A broadcast TLBI has ended what was there from before.
    pub(crate) is_swept: bool,
}
