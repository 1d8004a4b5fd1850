//! TLBIs: decoded from opcode and operand, they mark what they select; a DSB of the same CPU completes them.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::Machine;
use crate::context::{Regime, Tag, is_host};
use crate::event::Level;
use crate::registers::{HCR_E2H, HCR_FB, HCRX_FNXS, Register};
use crate::tlb::entry::Entry;
use crate::tlb::holders::{Cpus, Holders};
use crate::tlb::late::Sweep;
use crate::tlb::passed::Passed;
use crate::tlb::places::Place;
use crate::tlb::stale::{Mark, NearMiss};
use crate::tlbi::{Invalidation, Miss, Opcode, Operation, Scope, Selector, What};

/// What a TLBI found to do.
#[derive(Clone, Copy, Default)]
pub(crate) struct Effect {
    pub(crate) has_leaves: bool,
    pub(crate) has_tables: bool,
    pub(crate) has_contexts: bool,
    pub(crate) cpus: Cpus,
    /// A leaf was missed only for a wrong hint.
    pub(crate) has_hint_miss: bool,
    /// Something that was missed.
    pub(crate) missed: Option<Entry>,
}

impl Machine {
    /// A TLBI.
    pub fn tlbi(&mut self, cpu: u8, opcode: Opcode, operand: u64) {
        self.tlbi_after(cpu, opcode, operand, 0);
    }

    /// A TLBI that is ordered behind a load, made at event `moment` or before: its operand depends on what was loaded, or a
    /// context synchronization event is between the TLBI and a branch that does. (DDI 0487, B2.3)
    pub fn tlbi_after(&mut self, cpu: u8, opcode: Opcode, operand: u64, moment: u64) {
        self.event += 1;
        self.cpus[cpu as usize].has_open_tlbis = true;
        let Some(operation) = opcode.decode() else { return self.report_undefined(cpu, operand) };
        let operation = self.adjusted(cpu, operation);
        let features = self.cpus[cpu as usize].features;
        let has_ds = self.has_ds(cpu, &operation);
        let (invalidation, flaw) = Invalidation::decode(operation, operand, has_ds, &features);
        if let Some(flaw) = flaw {
            self.report_flaw(cpu, &operation, operand, flaw);
        }
        let Some(invalidation) = invalidation else { return };
        let selector = self.selector(cpu, invalidation);
        self.check_recovery(cpu, &selector);
        let reached = self.reached(cpu, &operation);
        self.mark_late(cpu, &selector, reached, moment);
        let mut effect = self.mark_stale(cpu, &selector, reached);
        self.mark_kept(cpu, &selector, reached, &mut effect);
        self.check_effect(cpu, &selector, operand, &effect);
    }

    /// A TLBI, or an MSR where there is no operation, that needs `level`: at the level of `cpu` it is UNDEFINED.
    pub(crate) fn refuse(&mut self, cpu: u8, operation: Option<Operation>, operand: u64, level: Level) {
        self.event += 1;
        self.report_too_low(cpu, operation, operand, level);
    }

    /// What a TLBI of `cpu` would select, and on which CPUs, without executing it.
    pub(crate) fn selector_of(&self, cpu: u8, opcode: Opcode, operand: u64) -> Option<(Selector, Cpus)> {
        let operation = self.adjusted(cpu, opcode.decode()?);
        let has_ds = self.has_ds(cpu, &operation);
        let features = &self.cpus[cpu as usize].features;
        let invalidation = Invalidation::decode(operation, operand, has_ds, features).0?;
        Some((self.selector(cpu, invalidation), self.reached(cpu, &operation)))
    }

    /// HCR_EL2.FB broadcasts what EL1 means to be local; HCRX_EL2.FnXS makes its operations nXS.
    fn adjusted(&self, cpu: u8, mut operation: Operation) -> Operation {
        let it = &self.cpus[cpu as usize];
        let registers = it.newest_registers();
        if it.level != Level::El2 && it.features.el2 {
            if operation.scope == Scope::Local && registers.get(Register::HcrEl2) & HCR_FB != 0 {
                operation.scope = Scope::Inner;
            }
            operation.is_nxs |= it.features.xs && registers.get(Register::HcrxEl2) & HCRX_FNXS != 0;
        }
        operation
    }

    /// DS of the regime that the operation is for.
    fn has_ds(&self, cpu: u8, operation: &Operation) -> bool {
        let it = &self.cpus[cpu as usize];
        let registers = it.newest_registers();
        let is_two = registers.get(Register::HcrEl2) & HCR_E2H != 0;
        let is_host = it.level == Level::El2 && is_host(&registers);
        it.features.lpa2
            && match (operation.what, operation.is_el2) {
                (What::Intermediate, _) => registers.bit(Register::VtcrEl2, 32),
                (_, true) if !is_two => registers.bit(Register::TcrEl2, 32),
                (_, true) => registers.bit(Register::TcrEl2, 59),
                (_, false) if is_host => registers.bit(Register::TcrEl2, 59),
                _ => registers.bit(Register::TcrEl1, 59),
            }
    }

    /// The regime and VMID that the operation acts on here.
    fn selector(&self, cpu: u8, invalidation: Invalidation) -> Selector {
        let is_el2 = self.cpus[cpu as usize].level == Level::El2;
        let operation = invalidation.operation;
        let is_guest_only = matches!(operation.what, What::All | What::VmallS12 | What::Intermediate);
        let regime = self.certain(cpu, |registers| {
            if operation.is_el2 {
                if registers.get(Register::HcrEl2) & HCR_E2H != 0 { Regime::El20 } else { Regime::El2 }
            } else if !is_guest_only && is_el2 && is_host(registers) {
                Regime::El20
            } else {
                Regime::El10
            }
        });
        Selector { invalidation, regime, vmid: self.certain_vmid(cpu) }
    }

    /// CPUs that must act on the operation: a CPU without range TLBIs need not act on a broadcast one. (RXMZFH)
    fn reached(&self, cpu: u8, operation: &Operation) -> Cpus {
        if operation.scope == Scope::Local {
            return 1 << cpu;
        }
        let able = |features: &crate::registers::Features| {
            (features.range_tlbi || !operation.is_range) && (features.xs || !operation.is_nxs)
        };
        let cpus = self.cpus.iter().enumerate();
        cpus.filter(|(_, it)| able(&it.features)).fold(0, |all, (number, _)| all | 1 << number)
    }

    /// A TLBI waits for accesses that were begun before it, also for those that fault, and for those whose walk missed a
    /// store that comes before it. (RWWQZZ)
    fn mark_late(&mut self, cpu: u8, selector: &Selector, reached: Cpus, moment: u64) {
        if selector.operation().is_nxs {
            return;
        }
        // A CPU that need not act on the TLBI waits for nothing, nor does one where it takes two.
        let passed_by = self.all_cpus() & !reached | self.repeating(cpu);
        // Only what comes before the TLBI.
        let until = self.cpus[cpu as usize].behind.max(moment);
        let seen = if self.may.visible.settles { until } else { self.cpus[cpu as usize].behind_lock };
        let is_before = |settled: Option<u64>| settled.is_some_and(|settled| settled <= seen);
        let mut unseen = BTreeSet::new();
        if self.may.visible.settles {
            let late = self.late().filter(|(_, settled, _)| is_before(Some(*settled))).map(|(word, ..)| word);
            unseen = late.filter(|it| self.sweeps(selector, *it)).collect();
        }
        let visible = &self.may.visible;
        let old = visible.settled().filter(|word| visible.old(*word).iter().any(|it| is_before(it.settled)));
        unseen.extend(old.filter(|it| self.sweeps(selector, *it)));
        let is_swept = |word: &u64| self.sweeps(selector, *word) && self.may.sweeps_unset(*word, selector);
        let mut unset = if passed_by == 0 { self.may.unset_near(selector) } else { Vec::new() };
        unset.retain(is_swept);
        let (selector, walkers) = (*selector, !passed_by);
        let sweep = |word, until, ends_unset| Sweep { issuer: cpu, selector, walkers, word, until, ends_unset };
        self.may.sweeps.extend(unseen.into_iter().map(|word| sweep(word, seen, false)));
        self.may.sweeps.extend(unset.into_iter().map(|word| sweep(word, until, true)));
    }

    /// True when `selector` selects whatever walks may find by `word`: for a table that is all of its input addresses.
    fn sweeps(&self, selector: &Selector, word: u64) -> bool {
        let range = &selector.invalidation;
        let values = self.may.visible.old(word).iter().map(|old| old.value);
        let is_table = values.chain([self.may.memory.word(word)]).any(|value| value & 3 == 3);
        let is_selected = |place: &Place| {
            let state = self.may.space(place.space);
            let needs_asid = matches!(range.operation.what, What::Address | What::Asid) && state.space.has_asid();
            let (meets, covers) = (
                place.start <= range.last && place.last >= range.first,
                place.start >= range.first && place.last <= range.last,
            );
            selector.covers_context(state.space.tag())
                && (covers || meets && !(is_table && place.level < 3))
                && (!needs_asid || state.live.iter().all(|(asid, _)| asid == u32::from(range.asid)))
        };
        let places = self.may.places_of(word);
        // Where no walk comes any more decides nothing.
        let is_walked = |place: &Place| self.may.is_walked_at(word, place);
        places.iter().any(|place| is_selected(place) && is_walked(place))
            && places.iter().all(|place| is_selected(place) || !is_walked(place))
    }

    fn mark_stale(&mut self, cpu: u8, selector: &Selector, reached: Cpus) -> Effect {
        let mut effect = Effect::default();
        let mut selected = Vec::new();
        let mut missed = Vec::new();
        let is_local = selector.scope() == Scope::Local;
        let mut consider = |(entry, record): &(Entry, crate::tlb::stale::Record)| {
            self.may.effort.spend();
            match selector.select(entry, &record.holders) {
                Ok((mut holders, holes)) => {
                    effect.cpus |= holders.cpus();
                    holders.restrict(reached);
                    if record.holders.cpus() & !reached != 0 {
                        missed.push((*entry, if is_local { Miss::Scope } else { Miss::Feature }));
                    }
                    if !holders.is_empty() {
                        effect.has_tables |= entry.is_table();
                        effect.has_leaves |= !entry.is_table();
                        selected.push((*entry, holders, holes));
                    }
                }
                Err(Miss::Context) => {}
                Err(miss) => missed.push((*entry, miss)),
            }
        };
        let range = &selector.invalidation;
        let tag = Tag { regime: selector.regime.unwrap_or(Regime::El10), vmid: selector.vmid.unwrap_or(0) };
        match range.operation.what {
            _ if range.is_whole() => self.may.stale.iter().for_each(&mut consider),
            What::Intermediate => {
                let tag = Tag::stage2(tag.vmid);
                self.may.stale.overlapping(tag, range.first, range.last).for_each(&mut consider);
                // Combined entries cannot be found by intermediate address: all of them are near misses.
                self.may.stale.iter().filter(|(it, _)| it.is_combined).for_each(&mut consider);
            }
            _ => {
                let vmid = if tag.regime == Regime::El10 { tag.vmid } else { 0 };
                let tag = Tag { vmid, ..tag };
                self.may.stale.overlapping(tag, range.first, range.last).for_each(&mut consider);
            }
        }
        for (entry, why) in missed {
            if why != Miss::Address {
                effect.has_hint_miss |= why == Miss::Hint && !entry.is_table();
                effect.missed.get_or_insert(entry);
                let near = NearMiss { event: self.event, operation: *selector.operation(), why };
                self.may.stale.note_near(&entry, near);
            }
        }
        let repeating = self.repeating(cpu);
        for (entry, mut holders, holes) in selected {
            let passed = self.may.stale.get(&entry).map(|it| &it.passed);
            let first = take_first(&mut holders, holes, repeating, passed);
            for (holders, is_first) in [(holders, false), (first, true)] {
                let mark = Mark { issuer: cpu, selector: *selector, holders, holes, awaits_sync: false, is_first };
                self.may.stale.mark(&entry, mark);
            }
        }
        effect
    }

    /// CPUs on which a TLBI of `cpu` must be repeated.
    fn repeating(&self, cpu: u8) -> Cpus {
        let others = self.cpus.iter().enumerate().filter(|(number, _)| *number != usize::from(cpu));
        others.filter(|(_, it)| it.features.repeat_tlbi).fold(0, |all, (number, _)| all | 1 << number)
    }

    /// A whole-context operation also ends what CPUs kept of contexts they left.
    fn mark_kept(&mut self, cpu: u8, selector: &Selector, reached: Cpus, effect: &mut Effect) {
        if !selector.invalidation.is_whole() {
            return;
        }
        let is_asid = selector.operation().what == What::Asid;
        let repeating = self.repeating(cpu);
        for id in 0..self.may.space_count() {
            let state = self.may.space_mut(id);
            if !selector.covers_context(state.space.tag()) {
                continue;
            }
            let asid = u32::from(selector.invalidation.asid);
            let mut holders =
                if is_asid { Holders::of(asid, state.kept.holders.exactly(asid)) } else { state.kept.holders.clone() };
            effect.cpus |= holders.cpus();
            holders.restrict(reached);
            if holders.is_empty() {
                continue;
            }
            effect.has_contexts = true;
            // Global leaves survive an ASID operation; `holes` says so here.
            let holes = u128::from(is_asid);
            let first = take_first(&mut holders, holes, repeating, Some(&state.kept.passed));
            for (holders, is_first) in [(holders, false), (first, true)] {
                if !holders.is_empty() {
                    let mark = Mark { issuer: cpu, selector: *selector, holders, holes, awaits_sync: false, is_first };
                    state.kept.marks.push(mark);
                }
            }
        }
    }
}

/// Takes those of `holders` away for whom this is but the first of two TLBIs, being on `repeating` CPUs.
fn take_first(holders: &mut Holders, holes: u128, repeating: Cpus, passed: Option<&Passed>) -> Holders {
    let mut first = holders.clone();
    first.restrict(repeating);
    if let (false, Some(passed)) = (first.is_empty(), passed) {
        first.subtract(&passed.known(&first, holes));
    }
    holders.subtract(&first);
    first
}
