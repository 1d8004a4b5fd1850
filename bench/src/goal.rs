//! What each row is to reach at 4K, and what stands beside it.

use std::fmt;

use vmsa::PageSize;

use crate::case::{Case, Row};
use crate::measurement::Measurement;
use crate::roster::Contender;

/// What the engine is to reach.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Goal {
    /// Instructions per unit, at most.
    Each(f64),
    /// Fewer instructions than the best peer, and at most this many times those of the loop that makes the same tests.
    Ahead(f64),
    /// Bytes of tables afterwards, at most.
    Bytes(u64),
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Each(most) => write!(f, "≤ {most}"),
            Self::Ahead(ratio) => write!(f, "< peer, ≤ {ratio} × careful"),
            Self::Bytes(most) => write!(f, "≤ {} KiB", most >> 10),
        }
    }
}

impl Goal {
    /// The goal of a case, if it has one.
    pub(crate) fn of(case: Case) -> Option<Self> {
        if case.page_size != PageSize::Size4K || case.is_live && case.row != Row::UnmapPage {
            return None;
        }
        Some(match case.row {
            Row::MapLargest | Row::MapBlock => Self::Each(6.0),
            Row::MapPage => Self::Each(4.0),
            Row::ProtectSplit => Self::Each(1300.0),
            Row::ProtectPage => Self::Each(58.0),
            Row::TranslateLargest | Row::TranslateSplit | Row::TranslatePage => Self::Ahead(1.1),
            Row::UnmapLargest => Self::Each(22.0),
            Row::UnmapPage => Self::Each(0.2),
            Row::Collapse => Self::Bytes(12 << 10),
        })
    }

    /// Whether the engine has reached it, beside all that was measured of one case; `None` if those that it is to beat were
    /// not measured.
    pub(crate) fn is_met(self, ours: &Measurement, all: &[Measurement]) -> Option<bool> {
        match self {
            Self::Each(most) => Some(ours.each() <= most),
            Self::Bytes(most) => Some(ours.table_bytes() <= most),
            Self::Ahead(ratio) => {
                let careful = all.iter().find(|one| one.contender == Contender::Careful)?;
                Some(ours.each() < best_peer(all)?.each() && ours.each() <= ratio * careful.each())
            }
        }
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

    fn measured(contender: Contender, instructions: u64) -> Measurement {
        let case = Case::named("translate-page/4k").expect("a case");
        let outcome = Outcome { units: 10, found: 0, checksum: 0, frames: 3, tlbis: 0 };
        Measurement { case, contender, instructions, outcome }
    }

    #[test]
    fn to_be_ahead_is_to_beat_the_best_peer_and_keep_up_with_the_loop() {
        let is_met = |ours, peer, careful| {
            let ours = measured(Contender::Ours, ours);
            let slow = measured(Contender::Generic, peer + 100);
            let all = [ours, slow, measured(Contender::X86_64, peer), measured(Contender::Careful, careful)];
            assert_eq!(Goal::Ahead(1.1).is_met(&ours, &[ours, slow]), None, "there is no loop beside it");
            Goal::Ahead(1.1).is_met(&ours, &all)
        };
        assert_eq!(is_met(109, 110, 100), Some(true));
        assert_eq!(is_met(110, 110, 100), Some(false), "no better than the best peer");
        assert_eq!(is_met(111, 200, 100), Some(false), "more than 1.1 times the loop");
    }

    #[test]
    fn goals_of_numbers_are_bounds() {
        let ours = measured(Contender::Ours, 40);
        let is_met = |goal: Goal| goal.is_met(&ours, &[ours]);
        assert_eq!((is_met(Goal::Each(4.0)), is_met(Goal::Each(3.9))), (Some(true), Some(false)));
        assert_eq!((is_met(Goal::Bytes(12 << 10)), is_met(Goal::Bytes(8 << 10))), (Some(true), Some(false)));
    }
}
