//! What programs say about memory, ASIDs, VMIDs and access rights: that they have been given away, or revoked. These are
//! the moments at which a forgotten entry does harm.

use super::Machine;
use crate::attributes::Permissions;
use crate::context::{Regime, Tag};
use crate::event::Owned;
use crate::finding::{Finding, Rule};
use crate::tlb::entry::{Body, Entry};
use crate::tlb::holders::{GLOBAL, Holders};
use crate::tlb::question::Question;
use crate::tlb::reach::Found;

impl Machine {
    /// Physical memory gets another owner. A leaf that is still linked is no finding: the linear map has one for every
    /// frame; an entry that only a TLB still holds is, and for a table any link.
    pub fn release(&mut self, cpu: u8, address: u64, size_bytes: u64, owned: Owned) {
        self.event += 1;
        let last = address + (size_bytes - 1);
        let refers = |entry: &Entry| match entry.body {
            Body::Table { next, .. } => next >= address && next <= last,
            Body::Leaf { output, .. } => {
                let bytes_less_one = entry.last() - entry.start;
                let is_near = output <= last && output.wrapping_add(bytes_less_one) >= address;
                // Members of a contiguous set that were taken out refer to nothing.
                let is_member = || {
                    let first = entry.start + address.saturating_sub(output);
                    let end = entry.start + (last - output).min(bytes_less_one);
                    entry.overlaps(first, end)
                };
                owned == Owned::Frame && is_near && is_member()
            }
        };
        let kept =
            self.may.stale.iter().find(|(entry, _)| refers(entry)).map(|(entry, it)| (*entry, it.holders.clone()));
        let kept = kept.or_else(|| self.unfinished_reference(&refers));
        let kept = kept.or_else(|| if owned == Owned::Table { self.link_to(address, last) } else { None });
        if let Some((entry, holders)) = kept {
            self.report_reuse(cpu, address, Some(entry), &holders);
        } else if owned == Owned::Table && self.is_live_root(address, last) {
            self.report_reuse(cpu, address, None, &Holders::of(GLOBAL, self.all_cpus()));
        } else if owned == Owned::Table {
            (address >> 12..=last >> 12).for_each(|page| self.may.forget_table(page << 12));
        }
    }

    /// An entry that refers to the memory through a value whose replacement is not finished.
    fn unfinished_reference(&self, refers: &dyn Fn(&Entry) -> bool) -> Option<(Entry, Holders)> {
        let old: alloc::vec::Vec<(u64, u64)> =
            self.may.visible.words().flat_map(|(word, old)| old.iter().map(move |it| (word, it.value))).collect();
        old.into_iter().find_map(|(word, value)| {
            let found = self.may.entries_through(word, value);
            found.into_iter().find(|(entry, _)| refers(entry) && self.may.memory.word(word) != value)
        })
    }

    /// A table entry that walks still find and that leads to the memory.
    fn link_to(&self, address: u64, last: u64) -> Option<(Entry, Holders)> {
        let mut found = None;
        for (space, base, level) in self.may.table_spaces(address) {
            let tag = self.may.space(space).space.tag();
            let question = Question { deepest: level - 1, near: Some(space), ..Question::about(base, base) };
            self.may.each_reached(tag, &question, &mut |seen, holders| {
                if let Found::Entry { entry, .. } = seen.found
                    && let Body::Table { next, .. } = entry.body
                    && next >= address
                    && next <= last
                {
                    found.get_or_insert((entry, holders.clone()));
                }
            });
        }
        found
    }

    fn is_live_root(&self, address: u64, last: u64) -> bool {
        let is_within = |root: u64| root >= address && root <= last;
        self.may
            .spaces()
            .any(|(_, it)| !it.live.is_empty() && is_within(it.space.root()) && !crate::tlb::reach::is_flat(&it.space))
    }

    /// `asid` gets another owner: nothing tagged with it may be left.
    pub fn reuse_asid(&mut self, cpu: u8, tag: Tag, asid: u16) {
        self.event += 1;
        let asid = u32::from(asid);
        let found = self.may.stale.iter().find(|(it, record)| it.tag == tag && record.holders.exactly(asid) != 0);
        if let Some((entry, record)) = found {
            let (entry, holders) = (*entry, record.holders.clone());
            return self.report_reuse(cpu, u64::from(asid), Some(entry), &holders);
        }
        let kept = self.may.spaces().find_map(|(id, it)| {
            let cpus = it.kept.holders.exactly(asid) | it.live.exactly(asid);
            (it.space.tag() == tag && cpus != 0).then_some((id, cpus))
        });
        if let Some((space, cpus)) = kept
            && self.has_entries(space, asid)
        {
            self.report_reuse(cpu, u64::from(asid), None, &Holders::of(asid, cpus));
        }
    }

    /// True when a context with `asid` has, or may have kept, anything at all that is tagged with it.
    fn has_entries(&self, space: crate::tlb::entry::SpaceId, asid: u32) -> bool {
        let state = self.may.space(space);
        let (first, last) = state.space.bounds();
        let question = Question { near: Some(space), ..Question::about(first, last) };
        let mut is_any = false;
        self.may.each_reached(state.space.tag(), &question, &mut |seen, holders| {
            let is_entry = matches!(seen.found, Found::Entry { is_untranslated: false, .. });
            is_any |= is_entry && holders.exactly(asid) != 0;
        });
        is_any
    }

    /// `vmid` gets another owner.
    pub fn reuse_vmid(&mut self, cpu: u8, vmid: u16) {
        self.event += 1;
        let is_its = |tag: Tag| tag.vmid == vmid && matches!(tag.regime, Regime::El10 | Regime::Stage2);
        let stale =
            self.may.stale.iter().find(|(it, _)| is_its(it.tag)).map(|(it, record)| (*it, record.holders.clone()));
        if let Some((entry, holders)) = stale {
            return self.report_reuse(cpu, u64::from(vmid), Some(entry), &holders);
        }
        let kept = self.may.spaces().find(|(_, it)| is_its(it.space.tag()) && it.is_used());
        if let Some((_, it)) = kept {
            let mut holders = it.live.clone();
            holders.merge(&it.kept.holders);
            self.report_reuse(cpu, u64::from(vmid), None, &holders);
        }
    }

    fn report_reuse(&mut self, cpu: u8, address: u64, entry: Option<Entry>, holders: &Holders) {
        let mut finding = Finding::new(Rule::Reuse, self.event, cpu, address);
        finding.cached = entry;
        finding.cpus = holders.cpus();
        self.explain(&mut finding);
        self.report(finding);
    }

    /// The program takes it that nothing beyond `allowed` can be done at `first..=last`, on any CPU.
    pub fn revoked(&mut self, cpu: u8, tag: Tag, asid: Option<u16>, first: u64, last: u64, allowed: Permissions) {
        self.event += 1;
        let mut worst = None;
        self.may.each_seen(tag, &Question::about(first, last), &mut |seen, holders| {
            let Found::Entry { entry, is_untranslated: false, .. } = seen.found else { return };
            let Some(attributes) = entry.attributes() else { return };
            let cpus = asid.map_or(holders.cpus(), |asid| holders.usable_by(u32::from(asid)));
            if cpus != 0 && attributes.permissions.beyond(allowed) != Permissions::NONE {
                worst.get_or_insert((entry, cpus));
            }
        });
        if let Some((entry, cpus)) = worst {
            let mut finding = Finding::new(Rule::Revocation, self.event, cpu, first);
            finding.cached = Some(entry);
            finding.cpus = cpus;
            self.explain(&mut finding);
            self.report(finding);
        }
    }

    /// From now on `cpu` cannot do without `first..=last`.
    pub fn needs(&mut self, cpu: u8, first: u64, last: u64) {
        self.event += 1;
        self.cpus[cpu as usize].needs.push((first, last));
    }

    /// `cpu` can do without again.
    pub fn needs_nothing(&mut self, cpu: u8) {
        self.event += 1;
        self.cpus[cpu as usize].needs.clear();
    }

    /// `cpu` takes a TLB conflict abort: until an ALL or VMALL form, it may take another.
    pub fn conflict_abort(&mut self, cpu: u8) {
        self.event += 1;
        self.cpus[cpu as usize].conflict = true;
    }
}
