//! On some CPUs a broadcast TLBI of another CPU and its DSB are over too early: what they select may still be used, until
//! a second TLBI that selects it, issued behind that DSB, is complete too. (CVE-2025-10263)

use alloc::vec::Vec;

use super::holders::Holders;
use crate::tlbi::Selector;

/// Who was passed by once, by which TLBI, and for which members of a contiguous set (0: all of the entry).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Passed(Vec<(Holders, u128, Selector)>);

impl Passed {
    /// True when nobody was.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The part of `holders` from whom a first TLBI was to take `holes` members, or more.
    pub(crate) fn known(&self, holders: &Holders, holes: u128) -> Holders {
        let mut known = Holders::none();
        for (passed, of, _) in &self.0 {
            if members(*of) & members(holes) == members(holes) {
                let mut both = holders.clone();
                both.intersect(passed);
                known.merge(&both);
            }
        }
        known
    }

    /// A first TLBI is complete.
    pub(crate) fn note(&mut self, holders: Holders, holes: u128, selector: Selector) {
        let noted = (holders, holes, selector);
        if !noted.0.is_empty() && !self.0.contains(&noted) {
            self.0.push(noted);
        }
    }

    /// What `holders` have is part of what `other` is about.
    pub(crate) fn merge(&mut self, other: &Self, holders: &Holders) {
        for (passed, holes, selector) in &other.0 {
            let mut both = passed.clone();
            both.intersect(holders);
            self.note(both, *holes, *selector);
        }
    }

    /// `holders` have it anew.
    pub(crate) fn forget(&mut self, holders: &Holders) {
        self.0.iter_mut().for_each(|(passed, ..)| passed.subtract(holders));
        self.0.retain(|(passed, ..)| !passed.is_empty());
    }

    /// The first TLBIs that `holders` were passed by.
    pub(crate) fn selectors(&self, holders: &Holders) -> Vec<Selector> {
        let is_theirs = |passed: &Holders| {
            let mut both = passed.clone();
            both.intersect(holders);
            !both.is_empty()
        };
        self.0.iter().filter(|(passed, ..)| is_theirs(passed)).map(|(.., selector)| *selector).collect()
    }
}

const fn members(holes: u128) -> u128 {
    if holes == 0 { u128::MAX } else { holes }
}
