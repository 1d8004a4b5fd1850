//! Which step is missing: read off what the may-TLB knows of the entry's life. Only stories depend on it.

use crate::context::Tag;
use crate::descriptor::VALID;
use crate::finding::{Finding, Missing, Rule};
use crate::machine::Machine;
use crate::tlb::entry::Entry;
use crate::tlb::holders::Cpus;
use crate::tlb::question::Question;
use crate::tlbi::{Miss, What};

impl Machine {
    /// Fills in `origin` and `missing` from `cached`, and recognizes V12.
    pub(crate) fn explain(&self, finding: &mut Finding) {
        if let Some(cached) = finding.cached {
            let table = self.table_before(&cached, finding.cpus);
            self.explain_by(finding, &table.unwrap_or(cached));
        }
    }

    /// The stale table entry by which walks of `cpus` find `entry`, if that is not stale itself.
    fn table_before(&self, entry: &Entry, cpus: Cpus) -> Option<Entry> {
        if self.may().stale.get(entry).is_some() {
            return None;
        }
        let mut tables = self.may().stale.tables(entry.tag, entry.start, entry.last());
        let found = tables.find(|(table, record)| {
            let (mut is_found, walkers) = (false, record.holders.cpus() & cpus);
            if table.space == entry.space {
                self.may().reach_kept(table, walkers, &Question::of(entry), &mut |seen| is_found |= seen.is(entry));
            }
            is_found
        });
        found.map(|it| it.0)
    }

    /// The same where `cached` is what led to the finding's own entry.
    fn explain_by(&self, finding: &mut Finding, cached: &Entry) {
        let Some(record) = self.may().stale.get(cached) else {
            finding.missing = self.missing_of_reachable(cached);
            return;
        };
        finding.origin = Some(record.origin);
        finding.missing = match (record.marks.first(), record.near) {
            (Some(mark), _) if mark.awaits_sync => Missing::Synchronization(mark.issuer),
            (Some(mark), None) => Missing::DsbAfterTlbi(mark.issuer),
            _ if !record.passed.is_empty() => Missing::Repetition,
            (_, Some(near)) if near.why == Miss::Stage2Only => {
                finding.rule = Rule::StageOrder;
                Missing::Stage1AfterStage2
            }
            (_, Some(near)) => {
                if near.why == Miss::Misencoded {
                    finding.rule = Rule::Encoding;
                }
                Missing::BetterTlbi(near)
            }
            (None, None) => Missing::Tlbi,
        };
        let is_late_loss = record.origin.word.is_none();
        if cached.is_combined && is_late_loss && finding.missing == Missing::Tlbi {
            finding.rule = Rule::StageOrder;
            finding.missing = Missing::Stage1AfterStage2;
        }
        // An operation that selects no input address never comes near a stage-1 entry.
        if matches!(finding.missing, Missing::BetterTlbi(near) if near.operation.what == What::Intermediate && !cached.is_combined)
        {
            finding.missing = Missing::Tlbi;
        }
    }

    /// A walk can still find it: through a store that its CPU has not finished, or because nothing was stored.
    fn missing_of_reachable(&self, cached: &Entry) -> Missing {
        let beneath = Tag::stage2(cached.tag.vmid);
        let second = cached.second.map(|it| (beneath, it.intermediate, it.level));
        let halves = [Some((cached.tag, cached.own_start.max(cached.start), cached.level)), second];
        let mut writers = halves.into_iter().flatten().filter_map(|(tag, at, level)| self.unfinished(tag, at, level));
        let is_above_stale = cached.is_combined && self.may().stale.of(beneath).next().is_some();
        match writers.next() {
            Some(writer) => Missing::DsbAfterStore(writer),
            None if is_above_stale => Missing::Tlbi,
            None => Missing::Break,
        }
    }

    /// Who has not finished a store over what walks of `tag` read on the way to `address`, down to `level`.
    fn unfinished(&self, tag: Tag, address: u64, level: i8) -> Option<u8> {
        let question = Question { deepest: level, ..Question::about(address, address) };
        let mut writer = None;
        self.may().each_reached(tag, &question, &mut |seen, _| {
            let mut old = self.may().visible.old(seen.word).iter();
            writer = writer.or_else(|| old.find(|it| it.value & VALID != 0).map(|it| it.writer));
        });
        writer
    }
}
