//! Barriers: a DSB finishes its CPU's stores and completes its CPU's TLBIs, an ISB takes the last doubt from the CPU
//! itself. (DDI 0487, D8.17: RPSMWS, RYNJCP, RBLDZX; D8.2.6: RSPVBD)

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::Machine;
use crate::barrier::{Accesses, Barrier, Domain};
use crate::tlb::entry::Entry;
use crate::tlb::holders::Held;
use crate::tlb::holders::{Cpus, GLOBAL, Holders};
use crate::tlb::stale::{Lost, Mark, Origin};
use crate::tlbi::Selector;

impl Machine {
    /// A barrier.
    pub fn barrier(&mut self, cpu: u8, barrier: Barrier) {
        self.event += 1;
        match barrier {
            Barrier::Isb => {
                self.lint_isb(cpu);
                self.synchronize(cpu);
            }
            Barrier::Dmb { accesses: Accesses::Loads, .. } => {}
            Barrier::Dmb { domain, .. } => self.order_stores(cpu, domain),
            Barrier::Dsb { domain, accesses, is_nxs } => {
                self.lint_dsb(cpu, barrier);
                if accesses == Accesses::All {
                    self.complete_tlbis(cpu, domain, is_nxs);
                }
                if accesses != Accesses::Loads {
                    self.order_stores(cpu, domain);
                    let walkers = if domain == Domain::NonShareable { 1 << cpu } else { !0 };
                    self.may.finish_stores(cpu, walkers, self.event);
                }
                let it = &mut self.cpus[cpu as usize];
                let until = match accesses {
                    Accesses::All => self.event,
                    Accesses::Loads => it.loaded,
                    Accesses::Stores => it.stored,
                };
                it.behind = it.behind.max(until);
                it.behind_lock = it.locked;
                // Software is held to what it has seen by a lock.
                let until = if self.may.visible.settles { until } else { it.locked };
                self.may.finish_settled(cpu, self.event, until);
                if accesses != Accesses::Stores {
                    self.finish_walks(cpu);
                }
            }
        }
    }

    /// Other CPUs see a barrier's order only in a domain that they are in.
    fn order_stores(&mut self, cpu: u8, domain: Domain) {
        self.may.order_stores(cpu);
        if domain != Domain::NonShareable {
            self.may.visible.settle_stores(cpu, self.event);
        }
    }

    /// TLBIs of `cpu` are complete on the CPUs that `domain` reaches.
    fn complete_tlbis(&mut self, cpu: u8, domain: Domain, is_nxs: bool) {
        self.cpus[cpu as usize].has_open_tlbis = false;
        if !is_nxs {
            self.may.finish_sweeps(cpu, self.event, domain);
        }
        let own: Cpus = 1 << cpu;
        let is_done = |mark: &Mark| {
            // A DSB nXS does not wait for a TLBI without nXS.
            if is_nxs && !mark.selector.operation().is_nxs {
                return None;
            }
            Some(if mark.selector.scope().is_within(domain) { !0 } else { own })
        };
        let marked = self.may.stale.marked_by(cpu);
        self.end(cpu, marked, &is_done, true);
        // What was kept of a whole context may be executable: this CPU itself is sure only once it synchronizes.
        self.may.complete_kept(cpu, &is_done, own);
    }

    /// A context synchronization event of `cpu` ends what its own completed TLBIs left to it.
    pub(super) fn finish_own(&mut self, cpu: u8) {
        let own: Cpus = 1 << cpu;
        let marked = self.may.stale.marked_by(cpu);
        let is_done = |mark: &Mark| mark.awaits_sync.then_some(own);
        if !marked.is_empty() {
            self.end(cpu, marked, &is_done, false);
        }
        self.may.complete_kept(cpu, &is_done, 0);
    }

    fn end(&mut self, cpu: u8, marked: Vec<Entry>, is_done: &dyn Fn(&Mark) -> Option<Cpus>, is_dsb: bool) {
        for entry in marked {
            let keeps = if is_dsb && self.cpus[cpu as usize].keeps(&entry) { 1 << cpu } else { 0 };
            let before = if self.may.stale.will_lose(&entry, cpu, is_done, keeps) {
                self.may.entries_beyond(&entry)
            } else {
                Vec::new()
            };
            let lost = self.may.stale.complete(&entry, cpu, is_done, keeps);
            if !lost.is_empty() {
                self.may.forget_entry(&entry);
            }
            if !before.is_empty() {
                self.lose_beyond(cpu, before, &lost, is_dsb);
            }
        }
    }

    /// A table entry or stage-2 entry is gone: what could be walked through it stays cached, except what the TLBI that
    /// ended the one also ends. On the CPU itself that one may be waiting for its synchronization still.
    fn lose_beyond(&mut self, cpu: u8, before: Vec<Held>, lost: &[Lost], is_dsb: bool) {
        // At its synchronization nothing is left for the CPU to wait for.
        let own: Cpus = 1 << cpu;
        let issuer = &self.cpus[cpu as usize];
        let lingers = |entry: &Entry| is_dsb && issuer.keeps(entry);
        let is_spared =
            |entry: &Entry, holders: &Holders| spared(entry, holders, lost, if lingers(entry) { !own } else { !0 });
        let had = |entry: &Entry| self.may.stale.get(entry).map_or(0, |record| record.holders.cpus());
        let lingering = before.iter().map(|it| it.0).filter(|it| lingers(it));
        let lingering: Vec<Entry> = lingering.filter(|it| had(it) & own == 0).collect();
        let origin = Origin { event: self.event, cpu, word: None };
        self.may.lose(before, origin, &is_spared);
        for entry in lingering {
            let Some(record) = self.may.stale.get(&entry) else { continue };
            let spared = spared(&entry, &record.holders, lost, own);
            let marks: Vec<Mark> = lost
                .iter()
                .filter_map(|Lost { holders: of, selector, .. }| {
                    let (mut holders, holes) = selector.select(&entry, &record.holders).ok()?;
                    holders.restrict(of.cpus() & own);
                    if holes == 0 {
                        holders.intersect(&spared);
                    }
                    let mark =
                        Mark { issuer: cpu, selector: *selector, holders, holes, awaits_sync: true, is_first: false };
                    (!mark.holders.is_empty()).then_some(mark)
                })
                .collect();
            marks.into_iter().for_each(|mark| self.may.stale.mark(&entry, mark));
        }
    }
}

/// The part of `holders` that lost `entry` by the same TLBI as the way to it. A global leaf may have been reached through
/// tables of any ASID: it is spared only where each of those fell to a TLBI that selects the leaf as well.
fn spared(entry: &Entry, holders: &Holders, lost: &[Lost], waits: Cpus) -> Holders {
    let whole = |selector: &Selector| match selector.select(entry, holders) {
        Ok((selected, 0)) => selected,
        _ => Holders::none(),
    };
    // Where it took two TLBIs, one of each round must have selected it.
    let both = |it: &Lost| {
        let mut selected = whole(&it.selector);
        if !it.first.is_empty() {
            let mut first = Holders::none();
            it.first.iter().for_each(|selector| first.merge(&whole(selector)));
            selected.intersect(&first);
        }
        selected
    };
    let selected: Vec<Holders> = lost.iter().map(both).collect();
    let asids: BTreeSet<u32> = lost.iter().flat_map(|it| it.holders.iter()).map(|(asid, _)| asid).collect();
    let mut spared = Holders::none();
    for (key, cpus) in holders.iter() {
        let mut left = 0;
        for asid in asids.iter().copied().filter(|asid| key == GLOBAL || *asid == GLOBAL || *asid == key) {
            let (mut ways, mut covered) = (0, 0);
            for (Lost { holders: of, .. }, selected) in lost.iter().zip(&selected) {
                ways |= of.exactly(asid);
                covered |= of.exactly(asid) & selected.exactly(key);
            }
            left |= ways & !covered;
        }
        spared.add(key, cpus & !left & waits);
    }
    spared
}
