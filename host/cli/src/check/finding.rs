//! Findings: what was found where, neighbours joined.

use std::collections::BTreeMap;

use super::kinds::Kind;

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
