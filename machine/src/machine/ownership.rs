//! What programs say about ASIDs, VMIDs and access rights: that they have been given away, or revoked. These, and what
//! `release` says of memory, are the moments at which a forgotten entry does harm.

use alloc::vec::Vec;

use super::Machine;
use crate::attributes::Permissions;
use crate::context::{Regime, Tag};
use crate::finding::{Finding, Rule};
use crate::tlb::entry::{Entry, SpaceId};
use crate::tlb::found::Found;
use crate::tlb::holders::{Cpus, Holders};
use crate::tlb::question::Question;

impl Machine {
    /// `asid` gets another owner: nothing tagged with it may be left.
    pub fn reuse_asid(&mut self, cpu: u8, tag: Tag, asid: u16) {
        self.event += 1;
        let asid = u32::from(asid);
        let found = self.may.stale.iter().find(|(it, record)| it.tag == tag && record.holders.exactly(asid) != 0);
        if let Some((entry, record)) = found {
            let (entry, holders) = (*entry, record.holders.clone());
            return self.report_reuse(cpu, u64::from(asid), Some(entry), &holders, Vec::new());
        }
        let kept = self.may.spaces().find_map(|(id, it)| {
            let cpus = it.kept.holders.exactly(asid) | it.live.exactly(asid);
            (it.space.tag() == tag && cpus != 0).then_some((id, cpus))
        });
        if let Some((space, cpus)) = kept
            && self.has_entries(space, Some(asid))
        {
            self.report_reuse(cpu, u64::from(asid), None, &Holders::of(asid, cpus), Vec::new());
        }
    }

    /// True when a context has, or may have kept, anything at all: that is tagged with `asid`, if there is one.
    fn has_entries(&self, space: SpaceId, asid: Option<u32>) -> bool {
        let state = self.may.space(space);
        let (first, last) = state.space.bounds();
        let question = Question { near: Some(space), ..Question::about(first, last) };
        let mut is_any = false;
        self.may.each_reached(state.space.tag(), &question, &mut |seen, holders| {
            let is_entry = matches!(seen.found, Found::Entry { is_untranslated: false, .. });
            is_any |= is_entry && asid.is_none_or(|asid| holders.exactly(asid) != 0);
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
            return self.report_reuse(cpu, u64::from(vmid), Some(entry), &holders, Vec::new());
        }
        let kept = self.may.spaces().find_map(|(id, it)| {
            let is_asked = is_its(it.space.tag()) && it.is_used();
            (is_asked && self.has_entries(id, None)).then_some(it)
        });
        if let Some(it) = kept {
            let mut holders = it.live.clone();
            holders.merge(&it.kept.holders);
            self.report_reuse(cpu, u64::from(vmid), None, &holders, Vec::new());
        }
    }

    pub(super) fn report_reuse(
        &mut self,
        cpu: u8,
        address: u64,
        entry: Option<Entry>,
        holders: &Holders,
        also: Vec<(Entry, u64)>,
    ) {
        let mut finding = Finding::new(Rule::Reuse, self.event, cpu, address);
        finding.cached = entry;
        finding.also = also;
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
        let worst = worst.or_else(|| self.combined_beyond(tag, first, last, allowed));
        if let Some((entry, cpus)) = worst {
            let mut finding = Finding::new(Rule::Revocation, self.event, cpu, first);
            finding.cached = Some(entry);
            finding.cpus = cpus;
            self.explain(&mut finding);
            self.report(finding);
        }
    }

    /// An entry that only TLBs hold, and that combines stage 1 with what stage 2 granted at intermediate `first..=last`.
    fn combined_beyond(&self, tag: Tag, first: u64, last: u64, allowed: Permissions) -> Option<(Entry, Cpus)> {
        let is_beyond = |entry: &Entry| {
            let bytes = entry.last() - entry.start;
            entry.second.is_some_and(|it| it.intermediate <= last && it.intermediate + bytes >= first)
                && entry.attributes().is_some_and(|it| it.permissions.beyond(allowed) != Permissions::NONE)
        };
        let above = (tag.regime == Regime::Stage2).then_some(Tag::el10(tag.vmid));
        let mut stale = above.into_iter().flat_map(|above| self.may.stale.of(above));
        stale.find(|(entry, _)| is_beyond(entry)).map(|(entry, record)| (*entry, record.holders.cpus()))
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
