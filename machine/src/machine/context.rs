//! System registers: which contexts a CPU may walk, now and while a write is not yet synchronized.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{Cpu, Machine};
use crate::context::{Regime, contexts, current_vmid};
use crate::event::Level;
use crate::registers::{Register, Registers};
use crate::tlb::entry::SpaceId;
use crate::tlb::holders::{Cpus, GLOBAL, Holders};
use crate::tlb::space::Space;

impl Machine {
    /// MSR: from now on walks may use either value, until a context synchronization event.
    pub fn write_register(&mut self, cpu: u8, register: Register, value: u64) {
        self.event += 1;
        self.cpus[cpu as usize].written.push((register, value));
        self.named.retain(|it| (it.cpu, it.register) != (cpu, register));
        self.relive(cpu);
    }

    /// Exception entry or return to `level`: a context synchronization event (EIS and EOS are 1 here). (D1.4)
    pub fn enter(&mut self, cpu: u8, level: Level) {
        self.event += 1;
        self.cpus[cpu as usize].level = level;
        self.synchronize(cpu);
        if level != Level::El2 && core::mem::take(&mut self.cpus[cpu as usize].is_above) {
            self.relive(cpu);
        }
    }

    /// A DSB that waits for loads, those of walks among them.
    pub(super) fn finish_walks(&mut self, cpu: u8) {
        let it = &mut self.cpus[cpu as usize];
        if self.stops_walks && it.level == Level::El2 {
            it.is_above = true;
            self.relive(cpu);
        }
    }

    /// A context synchronization event on `cpu`.
    pub(super) fn synchronize(&mut self, cpu: u8) {
        let event = self.event;
        let it = &mut self.cpus[cpu as usize];
        it.registers = it.newest_registers();
        let had_writes = !it.written.is_empty();
        it.written.clear();
        it.synchronized = event;
        if had_writes {
            self.relive(cpu);
        }
        self.finish_own(cpu);
    }

    /// Every combination of old and new values that may be in effect on `cpu`; of one that writes in order, every moment.
    pub(super) fn possible_registers(&self, cpu: u8) -> Vec<Registers> {
        let it = &self.cpus[cpu as usize];
        let mut possible = alloc::vec![it.registers];
        let mut newest = it.registers;
        for (register, value) in &it.written {
            newest.set(*register, *value);
            if it.features.orders_writes {
                possible.push(newest);
                continue;
            }
            for at in 0..possible.len() {
                let mut other = possible[at];
                other.set(*register, *value);
                if !possible.contains(&other) {
                    possible.push(other);
                }
            }
            // A program that writes many registers unsynchronized means to have the MMU off; the newest are enough.
            if possible.len() > 64 {
                possible.drain(..possible.len() - 64);
            }
        }
        possible
    }

    /// The VMID that a TLBI of `cpu` acts on, if that is certain.
    pub(super) fn certain_vmid(&self, cpu: u8) -> Option<u16> {
        let features = &self.cpus[cpu as usize].features;
        self.certain(cpu, |registers| current_vmid(registers, features))
    }

    /// What `read` says of the registers of `cpu`, if writes that are not synchronized make no difference to it.
    pub(super) fn certain<T: PartialEq>(&self, cpu: u8, read: impl Fn(&Registers) -> T) -> Option<T> {
        let mut possible = self.possible_registers(cpu).into_iter();
        let first = read(&possible.next()?);
        possible.all(|it| read(&it) == first).then_some(first)
    }

    /// Reads off which page tables `cpu` may walk, and tells the may-TLB what changed.
    fn relive(&mut self, cpu: u8) {
        let Cpu { features, is_above, .. } = self.cpus[cpu as usize];
        let mut now = BTreeSet::new();
        for registers in self.possible_registers(cpu) {
            let walked = contexts(&registers, &features);
            for context in walked.filter(|it| !is_above || it.stage1.tag.regime != Regime::El10) {
                let space = self.may.intern(Space::One(context.stage1));
                let asid = if context.stage1.has_el0() { u32::from(context.asid) } else { GLOBAL };
                now.insert((space, asid, context.is_common));
                if let Some(stage2) = context.stage1.stage2 {
                    now.insert((self.may.intern(Space::Two(stage2)), GLOBAL, false));
                }
            }
        }
        let now: Vec<_> = now.into_iter().collect();
        let before = core::mem::replace(&mut self.cpus[cpu as usize].contexts, now.clone());
        let mut changed: BTreeSet<SpaceId> = before.iter().chain(&now).map(|it| it.0).collect();
        if before.iter().chain(&now).any(|it| it.2) {
            changed.extend(self.cpus.iter().flat_map(|it| it.contexts.iter().map(|it| it.0)));
        }
        let mut order: Vec<SpaceId> = changed.into_iter().collect();
        // Stage 2 first: it says where the tables of stage 1 are.
        order.sort_by_key(|id| matches!(self.may.space(*id).space, Space::One(_)));
        for space in order {
            let were = self.may.space(space).live.cpus();
            let come = self.may.set_live(space, self.live_holders(space));
            if !come.is_empty() {
                self.check_seen(cpu, space, &come);
                self.check_entered(cpu, space, &come, were);
            }
        }
        self.check_returned(cpu);
    }

    /// Who may walk `space`. With TTBR.CnP, what one CPU caches all of them may use. (FEAT_TTCNP)
    fn live_holders(&self, space: SpaceId) -> Holders {
        let mut holders = Holders::none();
        let common: Cpus = self
            .cpus
            .iter()
            .enumerate()
            .filter(|(_, cpu)| cpu.contexts.iter().any(|it| it.2))
            .fold(0, |all, (number, _)| all | 1 << number);
        for (number, cpu) in self.cpus.iter().enumerate() {
            for (_, asid, is_common) in cpu.contexts.iter().filter(|it| it.0 == space) {
                holders.add(*asid, if *is_common { common } else { 1 << number });
            }
        }
        holders
    }
}
