//! V7, V10 and the lint: TLBIs whose encoding does not say what was meant, that need not resolve a conflict, or that do
//! more than is needed; barriers with nothing to do.

use alloc::vec::Vec;

use crate::barrier::Barrier;
use crate::context::{Regime, Tag};
use crate::event::Level;
use crate::finding::{Finding, Lint, Missing, Rule};
use crate::machine::{Effect, Machine};
use crate::tlb::entry::Entry;
use crate::tlb::found::Found;
use crate::tlb::question::Question;
use crate::tlb::stale::{NearMiss, Record};
use crate::tlb::visible::words_of;
use crate::tlbi::{Flaw, Miss, Operation, Scope, Selector, What};

impl Machine {
    /// V7: an instruction of `level`, which `cpu` is below. Nothing else happens.
    pub(crate) fn report_too_low(&mut self, cpu: u8, operation: Option<Operation>, operand: u64, level: Level) {
        let mut finding = Finding::new(Rule::Encoding, self.events(), cpu, operand);
        finding.operation = operation;
        finding.missing = Missing::Level(level);
        self.report(finding);
    }

    /// V7: not a TLBI of this architecture.
    pub(crate) fn report_undefined(&mut self, cpu: u8, operand: u64) {
        let mut finding = Finding::new(Rule::Encoding, self.events(), cpu, operand);
        finding.missing = Missing::Encoding(Some(Flaw::Undefined));
        self.report(finding);
    }

    /// V7: the operand is wrong in itself.
    pub(crate) fn report_flaw(&mut self, cpu: u8, operation: &Operation, operand: u64, flaw: Flaw) {
        let mut finding = Finding::new(Rule::Encoding, self.events(), cpu, operand);
        finding.operation = Some(*operation);
        finding.missing = Missing::Encoding(Some(flaw));
        self.report(finding);
    }

    /// V10: after a conflict abort only whole forms are sure to help. (RBLRKC, IJCCRT)
    pub(crate) fn check_recovery(&mut self, cpu: u8, selector: &Selector) {
        if !self.cpus()[cpu as usize].conflict {
            return;
        }
        let what = selector.operation().what;
        let has_stage2 = self.cpus()[cpu as usize].contexts.iter().any(|(space, ..)| {
            let it = self.may().space(*space);
            it.space.tag().regime == Regime::Stage2
        });
        let is_enough = match what {
            What::All | What::VmallS12 => true,
            What::Vmall => !has_stage2,
            _ => false,
        };
        if is_enough {
            self.cpu_mut(cpu).conflict = false;
            return;
        }
        let mut finding = Finding::new(Rule::Recovery, self.events(), cpu, selector.invalidation.first);
        finding.operation = Some(*selector.operation());
        finding.missing = Missing::WholeInvalidation;
        self.report(finding);
    }

    /// What a TLBI found to do tells whether its hint was wrong (V7), and whether it was needed (lint).
    pub(crate) fn check_effect(&mut self, cpu: u8, selector: &Selector, operand: u64, effect: &Effect) {
        let operation = *selector.operation();
        if effect.has_hint_miss && !effect.has_leaves {
            let mut finding = Finding::new(Rule::Encoding, self.events(), cpu, selector.invalidation.first);
            finding.operation = Some(operation);
            finding.cached = effect.missed;
            finding.missing = Missing::Encoding(None);
            return self.report(finding);
        }
        let is_idle = !(effect.has_leaves || effect.has_tables || effect.has_contexts);
        if is_idle {
            self.note_misencoded(selector, operand);
        }
        if self.is_linting() {
            self.lint_tlbi(cpu, selector, effect, is_idle);
        }
    }

    /// It selects nothing, but would if the operand had been an address that was not shifted, or shifted by the
    /// granule's size. Only what is found later about such an entry says so: a TLBI
    /// that is not needed may look like this by chance.
    fn note_misencoded(&mut self, selector: &Selector, operand: u64) {
        let (event, operation) = (self.events(), *selector.operation());
        let shifted = |by: u8| (((operand << 20) as i64 >> 20) as u64) << by;
        let mut meant = alloc::vec![shifted(14), shifted(16)];
        if operand.is_multiple_of(0x1000) {
            meant.push(shifted(0));
        }
        let stale = &self.may().stale;
        // Why it was missed at this event is known better.
        let is_open = |record: &Record| record.near.is_none_or(|near| near.event != event);
        let tags: Vec<Tag> = stale.tags().filter(|tag| selector.covers_context(*tag)).collect();
        let tags = tags.into_iter();
        let found: Vec<Entry> = match operation.what {
            What::Address | What::AddressAllAsids | What::Intermediate if shifted(0) != 0 => tags
                .flat_map(|tag| {
                    meant.iter().flat_map(move |at| stale.overlapping(tag, *at, *at).map(move |it| (at, it)))
                })
                .filter(|(at, (entry, record))| entry.own_start <= **at && entry.own_last() >= **at && is_open(record))
                .map(|(_, it)| it.0)
                .collect(),
            _ => Vec::new(),
        };
        let near = NearMiss { event, operation, why: Miss::Misencoded };
        for entry in found {
            self.may_mut().stale.note_near(&entry, near);
        }
    }

    fn lint_tlbi(&mut self, cpu: u8, selector: &Selector, effect: &Effect, is_idle: bool) {
        let operation = *selector.operation();
        let whole = selector.invalidation.is_whole();
        let lint = if is_idle && !self.is_unfinished(selector) {
            Lint::NothingCached
        } else if is_idle {
            return;
        } else if !effect.has_tables && !whole && !operation.is_last_level {
            Lint::LastLevelSuffices
        } else if operation.scope != Scope::Local && effect.cpus == 1 << cpu {
            Lint::LocalSuffices
        } else {
            return;
        };
        let mut finding = Finding::new(Rule::Lint(lint), self.events(), cpu, selector.invalidation.first);
        finding.operation = Some(operation);
        self.report(finding);
    }

    /// True when the TLBI came before the store it is for was complete: then it is not idle but early.
    fn is_unfinished(&self, selector: &Selector) -> bool {
        self.may().visible.words().any(|(word, _)| {
            self.may().places_of(word).iter().any(|place| {
                let tag = self.may().space(place.space).space.tag();
                selector.covers_context(tag)
                    && place.start <= selector.invalidation.last
                    && place.last >= selector.invalidation.first
            })
        })
    }

    /// Lint: a DSB that finishes no store and completes no TLBI.
    pub(crate) fn lint_dsb(&mut self, cpu: u8, barrier: Barrier) {
        if !self.is_linting() {
            return;
        }
        let has_stores = !self.may().visible.unfinished_by(cpu).is_empty()
            || self.may().loose.range(words_of(cpu)).next().is_some()
            || self.may().unseen.range(words_of(cpu)).next().is_some();
        if !has_stores && !self.cpus()[cpu as usize].has_open_tlbis {
            self.report_barrier(cpu, barrier, Lint::NothingToComplete);
        }
    }

    /// Lint: an ISB with no register write, no completed TLBI of its own and no new mapping before it.
    pub(crate) fn lint_isb(&mut self, cpu: u8) {
        if !self.is_linting() {
            return;
        }
        let it = &self.cpus()[cpu as usize];
        let is_new_mapping = self.may().late.iter().any(|(_, late)| late.is_left_to(cpu, it.synchronized));
        let is_waiting = !self.may().stale.marked_by(cpu).is_empty();
        if it.written.is_empty() && !is_new_mapping && !is_waiting {
            self.report_barrier(cpu, Barrier::Isb, Lint::NothingToSynchronize);
        }
    }

    fn report_barrier(&mut self, cpu: u8, barrier: Barrier, lint: Lint) {
        let mut finding = Finding::new(Rule::Lint(lint), self.events(), cpu, 0);
        finding.barrier = Some(barrier);
        self.report(finding);
    }

    /// The leaves that walks find for one address now: for tests and tools.
    pub fn leaves(&self, tag: Tag, address: u64) -> Vec<Entry> {
        let mut leaves = Vec::new();
        self.may().each_reached(tag, &Question::about(address, address), &mut |seen, _| {
            if let Found::Entry { entry, .. } = seen.found
                && !entry.is_table()
                && !leaves.contains(&entry)
            {
                leaves.push(entry);
            }
        });
        leaves
    }
}
