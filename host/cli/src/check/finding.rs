//! Findings: what kinds there are, what each costs or risks, and where to read about it.

use std::collections::BTreeMap;

/// How bad a finding is; the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    /// It breaks the architecture's rules, or the protection of the kernel.
    Danger,
    /// It weakens a protection, or may be meant.
    Risk,
    /// It takes memory, or TLB entries.
    Cost,
}

/// A kind of finding, by its name on the command line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Writable and executable by the kernel
    Wx,
    /// Read-only memory that is writable under another address
    Alias,
    /// One physical page with different memory types
    Types,
    /// A contiguous group that is not uniform
    Contiguous,
    /// Bits or encodings that the architecture reserves
    Reserved,
    /// A table outside memory
    Outside,
    /// A table that leads to itself
    Loop,
    /// Writable and executable by a process
    UserWx,
    /// A table that could be one block
    Fold,
    /// Leaves that could be a contiguous group
    Larger,
    /// A table without an entry
    Empty,
    /// A table shared so often that it was not walked again
    Shared,
}

/// What is the same for all findings of a kind.
pub(crate) struct About {
    pub(crate) name: &'static str,
    pub(crate) rank: Rank,
    pub(crate) title: &'static str,
    pub(crate) risk: &'static str,
    pub(crate) read: &'static str,
}

const fn about(name: &'static str, rank: Rank, title: &'static str, risk: &'static str, read: &'static str) -> About {
    About { name, rank, title, risk, read }
}

impl Kind {
    pub(crate) fn about(self) -> &'static About {
        match self {
            Self::Wx => &WX,
            Self::Alias => &ALIAS,
            Self::Types => &TYPES,
            Self::Contiguous => &CONTIGUOUS,
            Self::Reserved => &RESERVED,
            Self::Outside => &OUTSIDE,
            Self::Loop => &LOOP,
            Self::UserWx => &USER_WX,
            Self::Fold => &FOLD,
            Self::Larger => &LARGER,
            Self::Empty => &EMPTY,
            Self::Shared => &SHARED,
        }
    }
}

const WX: About = about(
    "wx",
    Rank::Danger,
    "writable and executable",
    "whoever can write one word there runs code at EL1",
    "DDI 0487, D8.4.6; SCTLR_EL1.WXN",
);
const ALIAS: About = about(
    "alias",
    Rank::Danger,
    "a writable alias of read-only memory",
    "the protection holds for one address alone: a stray or hostile write through the other changes it",
    "Linux: rodata= (admin-guide, kernel-parameters)",
);
const TYPES: About = about(
    "types",
    Rank::Danger,
    "one physical page with different memory types",
    "accesses lose coherency, order and single-copy atomicity between the two",
    "DDI 0487, B2.10 (mismatched memory attributes)",
);
const CONTIGUOUS: About = about(
    "contiguous",
    Rank::Danger,
    "a contiguous group that is not uniform",
    "a TLB may hold one entry for all of it: wrong address, wrong permissions, or a conflict abort",
    "DDI 0487, D8.7.1 (misprogramming of the Contiguous bit)",
);
const RESERVED: About = about(
    "reserved",
    Rank::Danger,
    "bits or encodings that the architecture reserves",
    "today ignored or a fault; on a later CPU they mean something",
    "DDI 0487, D8.3.1",
);
const OUTSIDE: About = about(
    "outside",
    Rank::Danger,
    "a table outside memory",
    "a walk there is an external abort, or reads a device",
    "DDI 0487, D8.2",
);
const LOOP: About = about(
    "loop",
    Rank::Danger,
    "a table that leads to itself",
    "page tables can be reached and changed through their own translations",
    "DDI 0487, D8.2",
);
const USER_WX: About = about(
    "user-wx",
    Rank::Risk,
    "writable and executable by a process",
    "a compiler at run time may want it; anything else should not",
    "DDI 0487, D8.4.6",
);
const FOLD: About = about(
    "fold",
    Rank::Cost,
    "a table that could be one block",
    "a page of memory for the table, and a TLB entry for each page instead of one",
    "DDI 0487, D8.3.1; rodata=full maps pages by intent where blocks cannot be split live",
);
const LARGER: About = about(
    "larger",
    Rank::Cost,
    "leaves that could be a contiguous group",
    "a TLB entry for each leaf instead of one for all",
    "DDI 0487, D8.7.1",
);
const EMPTY: About = about("empty", Rank::Cost, "a table without an entry", "a page of memory", "DDI 0487, D8.3.1");
const SHARED: About = about(
    "shared",
    Rank::Cost,
    "a table shared so often that it was not walked again",
    "what lies below it is missing here",
    "DDI 0487, D8.2",
);

/// Something found, at a place in one of the page tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub(crate) kind: Kind,
    /// Which of the roots.
    pub(crate) root: usize,
    pub(crate) input: u64,
    pub(crate) bytes: u64,
    /// How many leaves, groups or tables it is about.
    pub(crate) count: u64,
    pub(crate) what: String,
    /// Where the same memory is mapped otherwise: how far above, and in which of the roots. Neighbours that are as far from
    /// theirs are one finding.
    pub(crate) other: Option<(u64, usize)>,
}

impl Finding {
    pub(crate) fn new(kind: Kind, root: usize, input: u64, bytes: u64, count: u64, what: &str) -> Self {
        Self { kind, root, input, bytes, count, what: what.to_owned(), other: None }
    }

    /// The address of the other mapping of its first byte.
    pub(crate) fn other_input(&self) -> Option<u64> {
        self.other.map(|(distance, _)| self.input.wrapping_add(distance))
    }

    fn ends_where(&self, next: &Self) -> bool {
        self.input.wrapping_add(self.bytes) == next.input && self.what == next.what && self.other == next.other
    }
}

/// Findings as they come, neighbours of one kind joined.
#[derive(Default)]
pub(super) struct Findings(BTreeMap<(Kind, usize), Vec<Finding>>);

impl Findings {
    pub(crate) fn add(&mut self, finding: Finding) {
        let all = self.0.entry((finding.kind, finding.root)).or_default();
        match all.last_mut() {
            Some(last) if last.ends_where(&finding) => {
                last.bytes += finding.bytes;
                last.count += finding.count;
            }
            _ => all.push(finding),
        }
    }

    /// The worst first; within a kind by root and address.
    pub(crate) fn ranked(self) -> Vec<Finding> {
        let mut all: Vec<Finding> = self.0.into_values().flatten().collect();
        all.sort_by_key(|finding| (finding.kind.about().rank, finding.kind, finding.root, finding.input));
        all
    }
}
