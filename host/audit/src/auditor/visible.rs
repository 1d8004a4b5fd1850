//! What a kernel maps and uses before it is sure that walks find it. An entry that is invalid is in no TLB, so that no TLBI is
//! missing: a DSB of the CPU that stored is, and for fetches, or without FEAT_ETS2, a context synchronization event behind it.
//!
//! ```text
//! store that makes valid ──DSB of that CPU──▶ ──ISB, exception──▶
//!   accesses of all CPUs judged    its own judged      none: one look at the span of `Fresh`
//! ```

use std::collections::BTreeSet;

use machine::barrier::{Accesses, Barrier, Domain};
use machine::event::{Event, Level};
use machine::registers::{HCR_E2H, Register};
use machine::syndrome::AccessKind;

use super::{Auditor, Guest};
use crate::fresh::Span;
use crate::record::Record;

impl Auditor<'_> {
    /// `cpu` uses an address that [`crate::fresh::Fresh`] has. Where a user's address faults, the kernel repeats what faulted: of
    /// these nothing is said.
    pub fn access(&mut self, guest: &dyn Guest, cpu: u8, place: u64, address: u64, kind: AccessKind) {
        self.commit(guest, cpu);
        let hcr = self.machine.cpus()[usize::from(cpu)].newest_registers().get(Register::HcrEl2);
        let is_upper = address >> 63 == 1;
        let is_kernels = match self.cpus[usize::from(cpu)].level {
            Level::El0 => false,
            Level::El1 => is_upper,
            Level::El2 | Level::El3 => is_upper || hcr & HCR_E2H == 0,
        };
        if is_kernels {
            self.happen(guest, Record::of(cpu, place, Event::Access { address, kind }));
        }
    }

    /// `cpu` is about to store `value` over `found`: whether that maps something for the kernel.
    pub(super) fn note_mapped(&mut self, cpu: u8, word: u64, found: u64, value: u64) -> bool {
        let range = if found & 1 == 0 && value & 1 == 1 { self.machine.kernel_addresses(word) } else { None };
        let span = range.map(|(first, last)| Span { first, last });
        self.cpus[usize::from(cpu)].mapped.extend(span);
        span.into_iter().for_each(|span| self.frames.fresh.add(span));
        span.is_some()
    }

    /// `cpu` has executed this, and the machine was shown it.
    pub(super) fn note_visible(&mut self, cpu: u8, event: &Event) {
        let it = &mut self.cpus[usize::from(cpu)];
        match *event {
            Event::Barrier(Barrier::Dsb { domain, accesses, .. }) if accesses != Accesses::Loads => {
                if it.mapped.is_empty() {
                    return;
                }
                it.finished_map.extend(&it.mapped);
                if domain != Domain::NonShareable {
                    it.mapped.clear();
                }
            }
            Event::Barrier(Barrier::Isb) | Event::Enter(_) if !it.finished_map.is_empty() => it.finished_map.clear(),
            _ => return,
        }
        self.publish();
    }

    /// What was found is told once, and not of every word that is used there.
    pub(super) fn forget_mapped(&mut self, address: u64) {
        for it in &mut self.cpus {
            it.mapped.retain(|span| !span.has(address));
            it.finished_map.retain(|span| !span.has(address));
        }
        self.publish();
    }

    /// Who asks knows no more of many spans than the lowest and the highest address.
    pub(super) fn publish(&self) {
        let all = |spans: &BTreeSet<Span>| spans.iter().copied().fold(Span::NOTHING, Span::with);
        let mapped = self.cpus.iter().map(|it| all(&it.mapped)).fold(Span::NOTHING, Span::with);
        for (cpu, it) in (0..).zip(&self.cpus) {
            self.frames.fresh.set(cpu, mapped.with(all(&it.finished_map)));
        }
    }
}
