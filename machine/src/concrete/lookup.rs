//! Accesses of the concrete machine: a hit, several hits, or a walk.

use alloc::vec::Vec;

use super::{Cached, Concrete};
use crate::machine::Outcome;
use crate::rules::compatible;
use crate::syndrome::{AccessKind, Fault, FaultKind};
use crate::tlb::holders::GLOBAL;
use crate::walker::combined::needed;

impl Concrete {
    /// An access of `cpu`: one of the outcomes that the machine says are possible, or, where two entries hit that must
    /// not be there together and BBM level 0 lets hardware mix them, an address that is in neither.
    pub fn access(&mut self, cpu: u8, address: u64, kind: AccessKind) -> Outcome {
        let registers = self.machine.cpus()[cpu as usize].newest_registers();
        let Some(tag) = self.machine.regime(cpu, &registers) else { return Outcome::Translated(address) };
        let asids: Vec<u32> = self.machine.usable_asids(cpu, tag);
        let hits: Vec<Cached> = self.tlbs[cpu as usize]
            .iter()
            .filter(|it| it.entry.tag == tag && !it.entry.is_table())
            .filter(|it| it.first <= address && address <= it.last)
            .filter(|it| it.asid == GLOBAL || asids.contains(&it.asid))
            .filter(|it| self.machine.may_use(cpu, &it.entry))
            .copied()
            .collect();
        if hits.is_empty() {
            return match self.walk(cpu, address) {
                Ok(found) => self.answer(cpu, &found, address, kind),
                Err(fault) => Outcome::Fault(fault),
            };
        }
        let chosen = *self.seed.pick(&hits);
        let bbm = self.machine.cpus()[cpu as usize].features().bbm;
        let memory = self.machine.may().memory();
        let clash = hits.iter().find(|it| {
            it.entry != chosen.entry
                && (compatible(&it.entry, &chosen.entry, 0, memory).is_some()
                    || compatible(&chosen.entry, &it.entry, 0, memory).is_some())
        });
        if let Some(clash) = clash.copied() {
            match self.seed.below(3) {
                0 if bbm < 3 => return Outcome::Fault(Fault::stage1(FaultKind::Conflict, 0)),
                // RFVQCK: an amalgamation of both.
                1 if bbm == 0 => {
                    let mixed = clash.entry.output_at(address) | chosen.entry.output_at(address);
                    return Outcome::Translated(mixed);
                }
                _ => {}
            }
        }
        self.answer(cpu, &chosen, address, kind)
    }

    fn answer(&mut self, cpu: u8, found: &Cached, address: u64, kind: AccessKind) -> Outcome {
        let needed = needed(kind, self.is_user(cpu));
        let entry = &found.entry;
        let Some(attributes) = entry.attributes() else {
            return Outcome::Fault(Fault::stage1(FaultKind::Translation, entry.level));
        };
        if let Some(fault) = self.machine.may().refusal(entry, address, needed) {
            return Outcome::Fault(fault);
        }
        if kind == AccessKind::Write && attributes.hardware_dirty && !entry.is_combined {
            self.set_dirty(cpu, found);
        }
        Outcome::Translated(entry.output_at(address))
    }

    /// Hardware sets the dirty state, if memory still holds what the entry came from.
    fn set_dirty(&mut self, cpu: u8, found: &Cached) {
        let value = self.machine.word(found.word);
        let state = self.machine.may().space(found.entry.space);
        let settled = state.space.format().settled(found.entry.level, value);
        if settled == found.entry.descriptor && settled != value {
            self.machine.mark(cpu, found.word, settled);
        }
    }
}
