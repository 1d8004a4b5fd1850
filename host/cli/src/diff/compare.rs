//! Two lists of regions, side by side.

use super::parse::{Entry, Region};

/// A range that is not what it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Change {
    pub(super) input: u64,
    pub(super) last: u64,
    pub(super) before: Option<Entry>,
    pub(super) after: Option<Entry>,
}

impl Change {
    pub(super) fn kind(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, _) => "mapped",
            (_, None) => "unmapped",
            (Some(before), Some(after)) if before.permissions().eq(after.permissions()) => "resized",
            _ => "changed",
        }
    }

    /// Takes in the next range if it changed in the same way.
    fn joins(&mut self, next: &Self) -> bool {
        let joins =
            self.last.checked_add(1) == Some(next.input) && self.before == next.before && self.after == next.after;
        if joins {
            self.last = next.last;
        }
        joins
    }
}

/// What is in one list and not so in the other.
pub(super) fn compare(before: &[Region], after: &[Region]) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let (mut one, mut other) = (before.iter().peekable(), after.iter().peekable());
    let mut at = Some(0);
    while let Some(input) = at {
        while one.next_if(|region| region.last < input).is_some() {}
        while other.next_if(|region| region.last < input).is_some() {}
        let (was, was_until) = seen(one.peek().copied(), input);
        let (is, is_until) = seen(other.peek().copied(), input);
        let last = was_until.min(is_until);
        if was != is {
            let change = Change { input, last, before: was.cloned(), after: is.cloned() };
            if !changes.last_mut().is_some_and(|before| before.joins(&change)) {
                changes.push(change);
            }
        }
        at = last.checked_add(1);
    }
    changes
}

/// What stands at an address, and up to where nothing else does.
fn seen(region: Option<&Region>, at: u64) -> (Option<&Entry>, u64) {
    match region {
        Some(region) if region.input <= at => (Some(&region.entry), region.last),
        Some(region) => (None, region.input - 1),
        None => (None, u64::MAX),
    }
}
