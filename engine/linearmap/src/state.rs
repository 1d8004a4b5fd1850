//! What the lock of a map guards.

use pagetable::{El1, PageTable, Platform, Refusal, Reserve, Retired};
use vmsa::Granule;

use crate::counters::Counters;
use crate::healing::Healing;
use crate::shape::Map;
use crate::standing::Standing;

/// What the lock guards.
#[derive(Debug)]
pub struct State<G: Granule> {
    pub(crate) map: Map<G>,
    pub(crate) standing: Standing,
    pub(crate) reserve: Reserve,
    pub(crate) reserve_target: usize,
    pub(crate) healing: Healing,
    pub(crate) counters: Counters,
}

impl<G: Granule> State<G> {
    /// The page table on this platform, as its CPUs are now.
    pub(crate) fn table<'p, P: Platform>(&self, platform: &'p P) -> Result<PageTable<'p, G, El1, P>, Refusal> {
        let Map { root, geometry, regime, leaves, .. } = self.map;
        let regime = El1 { tlb: self.standing.tlb(), ..regime };
        Ok(PageTable::live(platform, geometry, regime, root)?.with_largest(leaves.largest()))
    }

    /// The reserve is not what it was.
    pub(crate) const fn note_reserve(&mut self) {
        self.counters.reserve = self.reserve.count() as u64;
    }

    /// Tables that the reserve lacks.
    pub(crate) fn lacking(&self) -> usize {
        self.reserve_target.saturating_sub(self.reserve.count())
    }

    /// Takes into the reserve what it lacks, out of `supply`.
    pub(crate) fn stock<P: Platform>(&mut self, platform: &P, supply: &mut Reserve) {
        while self.lacking() > 0 {
            let Some(table) = supply.take(platform) else { break };
            self.reserve.add(platform, table);
        }
        self.note_reserve();
    }

    /// Takes out of the reserve what it has too many.
    pub(crate) fn spill<P: Platform>(&mut self, platform: &P, excess: &mut Reserve) {
        while self.reserve.count() > self.reserve_target {
            let Some(table) = self.reserve.take(platform) else { break };
            excess.add(platform, table);
        }
        self.note_reserve();
    }

    /// Tables came free: the reserve takes what it lacks, the rest goes to `excess`.
    pub(crate) fn recycle<P: Platform>(&mut self, platform: &P, mut retired: Retired, excess: &mut Reserve) {
        while let Some(table) = retired.take(platform) {
            if self.lacking() > 0 { &mut self.reserve } else { &mut *excess }.add(platform, table);
        }
        self.note_reserve();
    }
}
