//! Who takes part in which case.

use vmsa::{Granule4K, Granule16K, Granule64K, PageSize};

use crate::case::{Case, Row};
use crate::memory::{Counting, Silent};
use crate::naive::Naive;
use crate::ours::Ours;
use crate::rows::{Outcome, Scale, run};

/// One who is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contender {
    Ours,
    Naive,
}

impl Contender {
    pub(crate) const ALL: [Self; 2] = [Self::Ours, Self::Naive];

    /// The name on the command line and in the table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Naive => "naive",
        }
    }

    /// Why it does not take part in a case, if it does not.
    pub(crate) fn lacks(self, case: Case) -> Option<&'static str> {
        match self {
            Self::Ours => None,
            Self::Naive if case.is_live => Some("knows no live tables"),
            Self::Naive if case.row == Row::Collapse => Some("cannot collapse"),
            Self::Naive => None,
        }
    }

    /// Runs a case in this process.
    pub(crate) fn run(self, case: Case, scale: Scale) -> Outcome {
        use PageSize::{Size4K, Size16K, Size64K};
        let run: fn(Case, Scale) -> Outcome = match (self, case.page_size, case.is_live) {
            (Self::Ours, Size4K, false) => run::<Ours<Granule4K, Silent>>,
            (Self::Ours, Size16K, false) => run::<Ours<Granule16K, Silent>>,
            (Self::Ours, Size64K, false) => run::<Ours<Granule64K, Silent>>,
            (Self::Ours, Size4K, true) => run::<Ours<Granule4K, Counting>>,
            (Self::Ours, Size16K, true) => run::<Ours<Granule16K, Counting>>,
            (Self::Ours, Size64K, true) => run::<Ours<Granule64K, Counting>>,
            (Self::Naive, Size4K, _) => run::<Naive<Granule4K>>,
            (Self::Naive, Size16K, _) => run::<Naive<Granule16K>>,
            (Self::Naive, Size64K, _) => run::<Naive<Granule64K>>,
        };
        run(case, scale)
    }
}
