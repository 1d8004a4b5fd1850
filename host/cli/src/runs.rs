//! Runs: neighbouring leaves of one size with the same attributes, whose outputs follow one another too.

use image::{Root, Span};
use vmsa::{Descriptor, Level, TableAttributes};

use crate::leaf;

/// Leaves that differ in nothing but their place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// The first input address.
    pub(crate) input: u64,
    /// The first output address; for what is not a leaf, 0.
    pub(crate) output: u64,
    pub(crate) level: Level,
    /// How many leaves, at least one.
    pub(crate) count: u64,
    /// The first descriptor.
    pub(crate) descriptor: Descriptor,
    pub(crate) inherited: TableAttributes,
    /// All lead to one output address (a page of zeros mapped everywhere).
    pub(crate) repeats: bool,
    pub(crate) is_leaf: bool,
}

impl Run {
    /// The run that a span is; of repeated leaves all but one go to the same place.
    pub(crate) fn of(root: &Root, span: &Span) -> Self {
        let is_leaf = leaf::is_leaf(root, span);
        Self {
            input: span.input,
            output: if is_leaf { leaf::output(root, span) } else { 0 },
            level: span.level,
            count: span.count,
            descriptor: span.descriptor,
            inherited: span.inherited,
            repeats: span.count > 1,
            is_leaf,
        }
    }

    /// Bytes of input space.
    pub(crate) fn bytes(&self, root: &Root) -> u64 {
        self.count << root.shape.shift(self.level)
    }

    /// The bits that are neither output address nor what hardware may change.
    pub(crate) fn attributes(&self, root: &Root) -> u64 {
        attributes(root, self.level, self.descriptor)
    }

    /// Takes in `next` if it carries on where this run ends.
    pub(crate) fn join(&mut self, root: &Root, next: &Self) -> bool {
        let is_like = self.level == next.level
            && self.is_leaf == next.is_leaf
            && self.inherited == next.inherited
            && self.attributes(root) == next.attributes(root);
        let follows = self.input.wrapping_add(self.bytes(root)) == next.input;
        let continues = match (self.is_leaf, self.repeats || next.repeats) {
            (false, _) => self.descriptor == next.descriptor,
            (true, true) => self.descriptor == next.descriptor && (self.repeats || self.count == 1),
            (true, false) => self.output.wrapping_add(self.bytes(root)) == next.output,
        };
        let joins = is_like && follows && continues;
        if joins {
            self.count += next.count;
            self.repeats |= next.repeats;
        }
        joins
    }
}

/// The attribute bits of a leaf, and its Contiguous bit and type.
pub(crate) fn attributes(root: &Root, level: Level, descriptor: Descriptor) -> u64 {
    descriptor.bits() & !root.shape.layout.output_mask(root.shape.shift(level))
}

/// Joins spans to runs.
#[derive(Default)]
pub(crate) struct Runs {
    pending: Option<Run>,
}

impl Runs {
    /// Takes the next span, and returns the run that it completes, if it does. Holes end a run and are none.
    pub(crate) fn span(&mut self, root: &Root, span: &Span) -> Option<Run> {
        if span.descriptor.bits() == 0 {
            return self.finish();
        }
        let next = Run::of(root, span);
        if self.pending.as_mut().is_some_and(|run| run.join(root, &next)) {
            return None;
        }
        self.pending.replace(next)
    }

    /// The run that is pending.
    pub(crate) fn finish(&mut self) -> Option<Run> {
        self.pending.take()
    }
}
