//! Which step is missing: read off what the may-TLB knows of the entry's life. Only stories depend on it.

use crate::finding::{Finding, Missing, Rule};
use crate::machine::Machine;
use crate::tlb::entry::Entry;
use crate::tlbi::{Miss, What};

impl Machine {
    /// Fills in `origin` and `missing` from `cached`, and recognizes V12.
    pub(crate) fn explain(&self, finding: &mut Finding) {
        if let Some(cached) = finding.cached {
            self.explain_by(finding, &cached);
        }
    }

    /// The same where `cached` is what led to the finding's own entry.
    pub(super) fn explain_by(&self, finding: &mut Finding, cached: &Entry) {
        let Some(record) = self.may().stale.get(cached) else {
            finding.missing = self.missing_of_reachable(cached);
            return;
        };
        finding.origin = Some(record.origin);
        finding.missing = match (record.marks.first(), record.near) {
            (Some(mark), _) if mark.awaits_sync => Missing::Synchronization(mark.issuer),
            (Some(mark), None) => Missing::DsbAfterTlbi(mark.issuer),
            _ if !record.passed.is_empty() => Missing::Repetition,
            (_, Some(near)) if cached.is_combined && near.why == Miss::Stage2Only => {
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
        let unfinished = self.may().visible.words().find(|(word, old)| {
            let places = self.may().places_of(*word);
            let is_on_way = places.iter().any(|it| it.start <= cached.start && it.last >= cached.start);
            is_on_way && !old.is_empty()
        });
        match unfinished {
            Some((_, old)) => Missing::DsbAfterStore(old[0].writer),
            None => Missing::Break,
        }
    }
}
