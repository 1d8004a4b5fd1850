//! What differs between two page tables: where something is mapped in one of them alone, or otherwise.

use crate::space::Space;

/// How a place differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Gone = 0,
    Come = 1,
    Other = 2,
}

/// A place that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Change {
    pub(super) kind: Kind,
    pub(super) start: u64,
    pub(super) bytes: u64,
}

/// A page table before and after: one of them at least is there.
#[derive(Clone, Copy)]
pub(super) struct Pair<'s> {
    pub(super) before: Option<&'s Space>,
    pub(super) after: Option<&'s Space>,
    /// Either.
    pub(super) space: &'s Space,
}

impl Pair<'_> {
    /// What became of the whole page table, if it is not in both.
    pub(super) const fn fate(&self) -> Option<Kind> {
        match (self.before, self.after) {
            (Some(_), None) => Some(Kind::Gone),
            (None, Some(_)) => Some(Kind::Come),
            _ => None,
        }
    }
}

/// The later page tables, each with the one before that is of the same regime and shape; then those that are gone.
pub(super) fn pairs<'s>(before: &'s [Space], after: &'s [Space]) -> Vec<Pair<'s>> {
    let is_like = |old: &Space, new: &Space| old.root.regime == new.root.regime && old.root.shape == new.root.shape;
    let mut left: Vec<&Space> = before.iter().collect();
    let mut pairs = Vec::new();
    for new in after {
        let place = left.iter().position(|old| is_like(old, new));
        pairs.push(Pair { before: place.map(|place| left.remove(place)), after: Some(new), space: new });
    }
    pairs.extend(left.into_iter().map(|old| Pair { before: Some(old), after: None, space: old }));
    pairs
}

/// A run, and what of it matters at each of its addresses.
#[derive(Clone, Copy)]
struct Piece {
    /// From the base of the page table.
    start: u64,
    end: u64,
    distance: u64,
    attributes: u64,
    leaf_bytes: u64,
}

impl Piece {
    fn of(space: Option<&Space>, number: usize) -> Option<Self> {
        let space = space?;
        let run = space.runs.get(number)?;
        let (start, bytes) = (run.input.wrapping_sub(space.root.shape.base()), run.bytes(&space.root));
        Some(Self {
            start,
            end: start.saturating_add(bytes),
            distance: if run.repeats { u64::MAX } else { run.output.wrapping_sub(run.input) },
            attributes: run.attributes(&space.root),
            leaf_bytes: bytes / run.count,
        })
    }

    /// Where what holds at `at` ends.
    const fn until(&self, at: u64) -> u64 {
        if at < self.start { self.start } else { self.end }
    }

    fn is_like(&self, other: &Self) -> bool {
        (self.distance, self.attributes, self.leaf_bytes) == (other.distance, other.attributes, other.leaf_bytes)
    }
}

/// Every place that differs, in ascending order.
pub(super) fn changes(of: &Pair<'_>) -> Vec<Change> {
    let base = of.space.root.shape.base();
    let mut all: Vec<Change> = Vec::new();
    let (mut one, mut other, mut at) = (0, 0, 0);
    loop {
        let (old, new) = (Piece::of(of.before, one), Piece::of(of.after, other));
        let ends = [old, new].into_iter().flatten().map(|piece| piece.until(at));
        let Some(until) = ends.min() else { return all };
        let here = |piece: Option<Piece>| piece.filter(|piece| piece.start <= at);
        let kind = match (here(old), here(new)) {
            (Some(_), None) => Some(Kind::Gone),
            (None, Some(_)) => Some(Kind::Come),
            (Some(old), Some(new)) if !old.is_like(&new) => Some(Kind::Other),
            _ => None,
        };
        if let Some(kind) = kind {
            let (start, bytes) = (base.wrapping_add(at), until - at);
            match all.last_mut() {
                Some(last) if last.kind == kind && last.start.wrapping_add(last.bytes) == start => last.bytes += bytes,
                _ => all.push(Change { kind, start, bytes }),
            }
        }
        at = until;
        one += usize::from(old.is_some_and(|piece| piece.end <= at));
        other += usize::from(new.is_some_and(|piece| piece.end <= at));
    }
}
