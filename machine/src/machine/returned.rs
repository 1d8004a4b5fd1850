//! V3 of memory that comes back: a register or a store makes walks come to a table again that was given away. Either the way
//! there is older than that, or the table is used anew with what it held then.

use alloc::vec::Vec;

use super::Machine;
use super::release::Freed;
use crate::finding::{Finding, Missing, Rule};
use crate::registers::Register;
use crate::tlb::entry::Entry;
use crate::tlb::holders::Cpus;

/// A root that was given away while a register of a CPU that did not walk there named it.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedRoot {
    pub(super) cpu: u8,
    pub(super) register: Register,
    pub(super) freed: Freed,
    pub(super) event: u64,
}

/// A table that walks come to: its address, by which entry if it is no root, on which CPUs, and the event that gave it away.
struct Returned {
    address: u64,
    entry: Option<Entry>,
    cpus: Cpus,
    event: u64,
}

impl Machine {
    /// What names or links `freed`, where no walk comes now.
    pub(super) fn note_ways(&mut self, freed: &Freed) {
        let event = self.event;
        let aside: Vec<u64> = self.links_aside(freed).into_iter().map(|(_, word)| word).collect();
        aside.into_iter().for_each(|word| self.may.freed.add_link(word, event));
        for (cpu, it) in (0..).zip(&self.cpus) {
            let registers = it.newest_registers();
            let roots = Register::ALL.into_iter().filter(|register| register.is_root());
            let named = roots.filter(|register| freed.has(registers.get(*register) & 0x0000_ffff_ffff_fffe));
            self.named.extend(named.map(|register| NamedRoot { cpu, register, freed: *freed, event }));
        }
    }

    /// Whether walks come now to tables that were given away. What one event of `cpu` brings back is one mistake, and a root comes
    /// before what it leads to.
    pub(super) fn check_returned(&mut self, cpu: u8) {
        let mut found: Vec<Returned> = self.named_root().into_iter().collect();
        for at in self.may.freed.returning.iter().copied().collect::<Vec<u64>>() {
            match self.way_back(at) {
                Some(returned) => found.push(returned),
                None if self.may.freed.link(at).is_some() || self.may.freed.piece(at).is_some() => continue,
                None => {}
            }
            self.may.freed.returning.remove(&at);
            self.may.freed.forget(at);
        }
        found.sort_by_key(|it| it.entry.map(|entry| entry.level));
        if let Some(Returned { address, entry, cpus, event }) = found.first() {
            let mut finding = Finding::new(Rule::Reuse, self.event, cpu, *address);
            (finding.cached, finding.cpus, finding.missing) = (*entry, *cpus, Missing::NewTable(*event));
            self.report(finding);
        }
    }

    /// A root that a register has named since before it was given away.
    fn named_root(&mut self) -> Option<Returned> {
        let at = self.named.iter().position(|it| self.live_roots(&it.freed) >> it.cpu & 1 == 1)?;
        let NamedRoot { cpu, freed, event, .. } = self.named.swap_remove(at);
        Some(Returned { address: freed.first, entry: None, cpus: 1 << cpu, event })
    }

    /// How walks come to the link or the table at `at`.
    fn way_back(&self, at: u64) -> Option<Returned> {
        let link = self.may.freed.link(at).and_then(|event| {
            let entries = self.may.entries_through(at, self.may.memory.word(at));
            let found = entries.into_iter().find(|(entry, holders)| entry.is_table() && !holders.is_empty())?;
            Some(Returned { address: found.0.output_span().1, entry: Some(found.0), cpus: found.1.cpus(), event })
        });
        link.or_else(|| {
            let (piece, event) = self.may.freed.piece(at)?;
            let freed = Freed { first: *piece.start(), last: *piece.end() };
            // An empty table may be used anew as it is.
            if self.may.is_empty(freed.first, freed.last) {
                return None;
            }
            let roots = self.live_roots(&freed);
            if roots != 0 {
                return Some(Returned { address: at, entry: None, cpus: roots, event });
            }
            let (entry, holders) = self.links_to(&freed).into_iter().next()?;
            Some(Returned { address: at, entry: Some(entry), cpus: holders.cpus(), event })
        })
    }
}
