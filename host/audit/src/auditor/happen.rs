//! One event happens to the machine, and what its rules find is told, the same fault once.

use machine::barrier::{Accesses, Barrier};
use machine::event::Event;
use machine::finding::{Finding, Missing, Rule};
use machine::machine::Update;
use machine::trace::Act;

use super::{Auditor, Guest};
use crate::record::Record;
use crate::report::{self, Story, Told};

/// How many faults are told with their story.
const MOST_TOLD: usize = 1000;

impl Auditor<'_> {
    pub(super) fn apply(&mut self, record: &Record) {
        let Record { cpu, act, .. } = *record;
        let it = &mut self.cpus[usize::from(cpu)];
        if let Act::Event(Event::Store { .. } | Event::Tlbi { .. }) | Act::Exchange { .. } = act {
            (it.awaits_dsb, it.awaits_sync) = (true, true);
        }
        match act {
            Act::Exchange { address, value, is_release, .. } => {
                if is_release {
                    self.machine.make_release(cpu);
                }
                self.machine.exchange(cpu, address, value);
            }
            Act::Load { address, value } => {
                let update = Update { word: address, from: self.machine.word(address), to: value };
                self.machine.update_by_hardware(cpu, &update);
            }
            Act::Event(event) => {
                match event {
                    Event::Write { .. } => it.awaits_sync = true,
                    Event::Lock => it.awaits_dsb = true,
                    Event::Enter(_) | Event::Barrier(Barrier::Isb) => it.awaits_sync = false,
                    // What it completes, the CPU itself is sure of once it synchronizes.
                    Event::Barrier(Barrier::Dsb { accesses, is_nxs, .. }) => {
                        it.awaits_sync = true;
                        it.awaits_dsb &= accesses != Accesses::All || is_nxs;
                    }
                    _ => {}
                }
                self.machine.apply(cpu, &event);
                self.note_visible(cpu, &event);
            }
            // Written to the trace where they are learnt, or never: the auditor sees no other register.
            Act::Holds { .. } | Act::Data { .. } | Act::FreeAsid(_) | Act::Revoked { .. } | Act::Unknown { .. } => {}
        }
    }

    pub(super) fn find(&mut self, guest: &dyn Guest, record: &Record, finding: &Finding) {
        if let Act::Event(Event::Access { .. }) = record.act {
            self.forget_mapped(finding.address);
        }
        let place = |event: u64| self.log.of(event).map_or(0, |record| record.place);
        let cause = match finding.missing {
            Missing::Visibility(word) => self.log.writer(word, finding.event).map_or(0, |record| record.place),
            _ => finding.origin.map_or(0, |origin| place(origin.event)),
        };
        let at = place(finding.event);
        // Every page is freed in a few places: who frees it is what differs, and what an excuse names.
        let chain = if finding.rule == Rule::Reuse { guest.chain() } else { Vec::new() };
        let key = (finding.rule, at, cause, chain);
        if let Some(known) = self.index.get(&key) {
            self.told[*known].count += 1;
            return;
        }
        if self.told.len() == MOST_TOLD {
            return;
        }
        self.index.insert(key, self.told.len());
        let told = Told { rule: finding.rule.label(), place: at, cause, count: 1 };
        let story = Story { log: &self.log, finding }.to_string();
        guest.tell(&report::finding(&told, finding, &story, guest.instructions(), &guest.chain()));
        self.told.push(told);
    }
}
