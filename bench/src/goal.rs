//! What the engine must need at most, and what it is to reach, beside what was measured.

use std::fmt;

use vmsa::PageSize;

use crate::case::{Case, Row};
use crate::measurement::Measurement;
use crate::roster::Contender;

/// How much worse than on record a row may be that has no bound of its own, in percent.
const SLACK: f64 = 3.0;

/// What is bounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Measure {
    /// Instructions per unit.
    Instructions,
    /// Bytes of tables afterwards.
    Bytes,
    /// TLBIs of the whole row.
    Tlbis,
}

impl Measure {
    /// To the hundredth: what the region itself adds is less.
    fn of(self, measured: &Measurement) -> f64 {
        let found = match self {
            Self::Instructions => measured.each(),
            Self::Bytes => measured.table_bytes() as f64,
            Self::Tlbis => measured.outcome.tlbis as f64,
        };
        (found * 100.0).round() / 100.0
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Bytes => "bytes",
            Self::Tlbis => "TLBIs",
        }
    }
}

/// A bound of one measure of one case.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Goal {
    measure: Measure,
    /// What `--must` demands.
    must: f64,
    /// What would be better still.
    aim: f64,
}

impl Goal {
    const fn instructions(must: f64, aim: f64) -> Self {
        Self { measure: Measure::Instructions, must, aim }
    }

    /// The goals of a case; none but at 4K.
    pub(crate) fn all(case: Case) -> Vec<Self> {
        if case.page_size != PageSize::Size4K {
            return Vec::new();
        }
        let bytes = Self { measure: Measure::Bytes, must: f64::from(12 << 10), aim: f64::from(12 << 10) };
        let tlbis = Self { measure: Measure::Tlbis, must: 1.0, aim: 1.0 };
        match (case.row, case.is_live) {
            (Row::MapLargest, false) => vec![Self::instructions(8.07, 6.0)],
            (Row::ProtectSplit, false) => vec![Self::instructions(1800.0, 1300.0)],
            (Row::ProtectSplit, true) => vec![Self::instructions(2200.0, 1700.0)],
            (Row::ProtectPage, false) => vec![Self::instructions(66.0, 58.0)],
            (Row::ProtectPage, true) => vec![Self::instructions(130.0, 110.0)],
            (Row::ProtectList, true) => vec![tlbis],
            (Row::TranslateLargest, _) => vec![Self::instructions(29.0, 28.0)],
            (Row::TranslateSplit, _) => vec![Self::instructions(42.0, 41.0)],
            (Row::TranslatePage, _) => vec![Self::instructions(49.0, 45.0)],
            (Row::UnmapSplit, false) => vec![Self::instructions(70.0, 54.0)],
            (Row::LinearPage | Row::LinearHidden, true) => vec![Self::instructions(1000.0, 1000.0)],
            (Row::LinearBlock, true) => vec![Self::instructions(8500.0, 5000.0)],
            (Row::Collapse, false) => vec![Self::instructions(6000.0, 3000.0), bytes],
            _ => Vec::new(),
        }
    }

    pub(crate) const fn is_of_bytes(self) -> bool {
        matches!(self.measure, Measure::Bytes)
    }

    /// The goal, and what of it `ours` meets.
    pub(crate) fn verdict(self, ours: &Measurement) -> String {
        let found = self.measure.of(ours);
        match () {
            () if found <= self.aim => format!("{self}: met"),
            () if found <= self.must => format!("{self}: must met"),
            () => format!("{self}: not met"),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { measure, must, aim } = self;
        write!(f, "≤ {must}")?;
        if aim < must {
            write!(f, ", aim {aim}")?;
        }
        if *measure == Measure::Instructions { Ok(()) } else { write!(f, " {}", measure.unit()) }
    }
}

/// The engine's measurements that miss what they must reach, one line each. A row without a bound is held against the record, as
/// stage 2 is, which has none.
pub(crate) fn missed(measured: &[Measurement], recorded: &[Measurement]) -> Vec<String> {
    let ours = measured.iter().filter(|one| Contender::ENGINE.contains(&one.contender));
    ours.flat_map(|one| {
        let goals = if one.contender == Contender::Ours { Goal::all(one.case) } else { Vec::new() };
        let is_bounded = goals.iter().any(|goal| goal.measure == Measure::Instructions);
        let mut lines: Vec<String> = goals.iter().filter_map(|goal| goal.miss(one)).collect();
        let before = recorded.iter().find(|it| it.case == one.case && it.contender == one.contender);
        if let Some(before) = before.filter(|before| !is_bounded && one.each() > before.each() * (1.0 + SLACK / 100.0))
        {
            let (now, then) = (one.each(), before.each());
            lines.push(format!(
                "{} {}: {now:.2} instructions, {SLACK} % more than on record at most ({then:.2})",
                one.case,
                one.contender.name()
            ));
        }
        lines
    })
    .collect()
}

impl Goal {
    fn miss(self, ours: &Measurement) -> Option<String> {
        let (found, must, unit) = (self.measure.of(ours), self.must, self.measure.unit());
        (found > must).then(|| format!("{}: {found:.2} {unit}, {must} at most", ours.case))
    }
}

/// The peer that needed the fewest instructions for a case.
pub(crate) fn best_peer(all: &[Measurement]) -> Option<&Measurement> {
    let peers = all.iter().filter(|one| Contender::PEERS.contains(&one.contender));
    peers.min_by(|one, other| one.each().total_cmp(&other.each()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Outcome;

    fn measured(case: &str, instructions: u64, tlbis: u64) -> Measurement {
        let case = Case::named(case).expect("a case");
        let outcome = Outcome { units: 10, found: 0, checksum: 0, frames: 3, tlbis };
        Measurement { case, contender: Contender::Ours, instructions, outcome }
    }

    #[test]
    fn a_bound_is_missed_by_what_exceeds_it() {
        assert_eq!(missed(&[measured("protect-page/4k", 660, 0)], &[]), [""; 0]);
        assert_eq!(
            missed(&[measured("protect-page/4k", 661, 0)], &[]),
            ["protect-page/4k: 66.10 instructions, 66 at most"]
        );
        assert_eq!(
            missed(&[measured("protect-list/4k/live", 1, 2)], &[]),
            ["protect-list/4k/live: 2.00 TLBIs, 1 at most"]
        );
    }

    #[test]
    fn what_has_no_bound_is_held_against_the_record() {
        let recorded = [measured("unmap-page/64k", 1000, 0)];
        assert_eq!(missed(&[measured("unmap-page/64k", 1030, 0)], &recorded), [""; 0]);
        assert_eq!(missed(&[measured("unmap-page/64k", 1031, 0)], &recorded).len(), 1);
        assert_eq!(missed(&[measured("unmap-page/64k", 9999, 0)], &[]), [""; 0], "nothing is on record");
        let stage2 = |instructions| Measurement {
            contender: Contender::Stage2,
            ..measured("translate-page/16k", instructions, 0)
        };
        assert_eq!(missed(&[stage2(1031)], &[stage2(1000)]).len(), 1, "stage 2 has a record alone");
    }

    #[test]
    fn a_verdict_tells_must_and_aim_apart() {
        let verdict = |instructions| {
            let one = measured("protect-page/4k", instructions, 0);
            Goal::all(one.case)[0].verdict(&one)
        };
        assert_eq!(verdict(580), "≤ 66, aim 58: met");
        assert_eq!(verdict(600), "≤ 66, aim 58: must met");
        assert_eq!(verdict(670), "≤ 66, aim 58: not met");
    }
}
