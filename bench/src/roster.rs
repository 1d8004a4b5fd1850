//! Who takes part in which case, and why not in the others.

use pagetable::Stage2;
use vmsa::{Granule4K, Granule16K, Granule64K, PageSize};

use crate::careful::Careful;
use crate::case::{Case, Row};
use crate::chosen::{Chosen, Fixed};
use crate::linear;
use crate::memory::{Counting, Silent};
use crate::naive::Naive;
use crate::ours::Ours;
use crate::rows::{Outcome, Scale, run};

/// One who is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contender {
    /// The engine, stage 1 of EL1&0.
    Ours,
    /// The engine, stage 2.
    Stage2,
    /// The plain loop.
    Naive,
    /// The plain loop that makes the engine's tests when it translates.
    Careful,
    /// The engine, its operations called by name.
    Fixed,
    /// The engine, its operations called through pointers chosen at run time.
    Chosen,
    Aarch64Paging,
    Multiarch,
    Generic,
    X86_64,
}

impl Contender {
    pub(crate) const ALL: [Self; 10] = [
        Self::Ours,
        Self::Stage2,
        Self::Naive,
        Self::Careful,
        Self::Fixed,
        Self::Chosen,
        Self::Aarch64Paging,
        Self::Multiarch,
        Self::Generic,
        Self::X86_64,
    ];

    /// The engine, whose rows are bounded.
    pub(crate) const ENGINE: [Self; 2] = [Self::Ours, Self::Stage2];

    /// The crates that do what the engine does.
    pub(crate) const PEERS: [Self; 4] = [Self::Aarch64Paging, Self::Multiarch, Self::Generic, Self::X86_64];

    /// The name on the command line and in the table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Stage2 => "stage2",
            Self::Naive => "naive",
            Self::Careful => "careful",
            Self::Fixed => "fixed",
            Self::Chosen => "chosen",
            Self::Aarch64Paging => "aarch64-paging",
            Self::Multiarch => "page_table_multiarch",
            Self::Generic => "page-table-generic",
            Self::X86_64 => "x86_64",
        }
    }

    /// The contender with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|contender| contender.name() == name)
    }

    /// Why it does not take part in a case, if it does not.
    pub(crate) fn lacks(self, case: Case) -> Option<&'static str> {
        let is_4k = case.page_size == PageSize::Size4K;
        let splits = matches!(case.row, Row::ProtectSplit | Row::TranslateSplit | Row::UnmapSplit);
        match self {
            Self::Ours => None,
            _ if case.row.is_of_linear_map() => Some("has no linear map"),
            Self::Stage2 => None,
            _ if case.row == Row::Collapse => Some("cannot collapse"),
            Self::Generic if case.is_live && matches!(case.row, Row::MapLargest | Row::MapBlock | Row::MapPage) => {
                Some("maps the same, live or not")
            }
            Self::Generic => None,
            Self::Aarch64Paging | Self::Multiarch | Self::X86_64 if !is_4k => Some("knows only 4K"),
            Self::Aarch64Paging if case.is_live && matches!(case.row, Row::ProtectSplit | Row::UnmapSplit) => {
                Some("splits no live block")
            }
            Self::Aarch64Paging => None,
            Self::Multiarch | Self::X86_64 if splits => Some("splits no block"),
            Self::Multiarch | Self::X86_64 if case.is_live => Some("knows no live tables"),
            Self::Multiarch | Self::X86_64 => None,
            Self::Fixed | Self::Chosen if !is_4k || case.is_live => Some("compared for 4K tables that are not live"),
            Self::Fixed | Self::Chosen => None,
            Self::Careful if !case.row.is_reading() => Some("is for translate alone"),
            Self::Naive | Self::Careful if case.is_live => Some("knows no live tables"),
            Self::Naive | Self::Careful => None,
        }
    }

    /// The program that has this contender of a case in it, if that is another than this one: a peer is compiled alone.
    pub(crate) fn program(self, case: Case) -> Option<String> {
        let live = if case.is_live { "-live" } else { "" };
        let name = || format!("peer-{}-{}{live}", self.name(), case.page_size).to_lowercase();
        Self::PEERS.contains(&self).then(name)
    }

    /// Runs a case in this process; nothing, if it is in another program.
    pub(crate) fn run(self, case: Case, scale: Scale) -> Option<Outcome> {
        use PageSize::{Size4K, Size16K, Size64K};
        let run: fn(Case, Scale) -> Outcome = match (self, case.page_size, case.is_live) {
            (Self::Ours, ..) if case.row.is_of_linear_map() => linear::run,
            (Self::Ours, Size4K, false) => run::<Ours<Granule4K, Silent>>,
            (Self::Ours, Size16K, false) => run::<Ours<Granule16K, Silent>>,
            (Self::Ours, Size64K, false) => run::<Ours<Granule64K, Silent>>,
            (Self::Ours, Size4K, true) => run::<Ours<Granule4K, Counting>>,
            (Self::Ours, Size16K, true) => run::<Ours<Granule16K, Counting>>,
            (Self::Ours, Size64K, true) => run::<Ours<Granule64K, Counting>>,
            (Self::Stage2, Size4K, false) => run::<Ours<Granule4K, Silent, Stage2>>,
            (Self::Stage2, Size16K, false) => run::<Ours<Granule16K, Silent, Stage2>>,
            (Self::Stage2, Size64K, false) => run::<Ours<Granule64K, Silent, Stage2>>,
            (Self::Stage2, Size4K, true) => run::<Ours<Granule4K, Counting, Stage2>>,
            (Self::Stage2, Size16K, true) => run::<Ours<Granule16K, Counting, Stage2>>,
            (Self::Stage2, Size64K, true) => run::<Ours<Granule64K, Counting, Stage2>>,
            (Self::Naive, Size4K, _) => run::<Naive<Granule4K>>,
            (Self::Naive, Size16K, _) => run::<Naive<Granule16K>>,
            (Self::Naive, Size64K, _) => run::<Naive<Granule64K>>,
            (Self::Careful, Size4K, _) => run::<Careful<Granule4K>>,
            (Self::Careful, Size16K, _) => run::<Careful<Granule16K>>,
            (Self::Careful, Size64K, _) => run::<Careful<Granule64K>>,
            (Self::Fixed, ..) => run::<Fixed>,
            (Self::Chosen, ..) => run::<Chosen>,
            (Self::Aarch64Paging | Self::Multiarch | Self::Generic | Self::X86_64, ..) => return None,
        };
        Some(run(case, scale))
    }
}
