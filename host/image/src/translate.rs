//! Where one input address leads.

use vmsa::{Level, Meaning};

use crate::memory::Memory;
use crate::root::Root;
use crate::walk::{Span, Visitor, walk};

/// Remembers the leaf that translates one address.
struct At<'a> {
    root: &'a Root,
    input: u64,
    output: Option<u64>,
}

impl Visitor for At<'_> {
    fn span(&mut self, span: &Span) {
        let shape = self.root.shape;
        if let Meaning::Leaf(output, _) = span.descriptor.meaning(shape.page_size, shape.layout, span.level) {
            self.output = Some(output.bits() | self.input & offset_mask(self.root, span.level));
        }
    }
}

/// The bits of an input address that a leaf at `level` leaves as they are.
pub(crate) fn offset_mask(root: &Root, level: Level) -> u64 {
    (1 << root.shape.shift(level)) - 1
}

/// The output address of `input`, or `None` if nothing translates it.
pub fn translate(memory: &mut dyn Memory, root: &Root, input: u64) -> Option<u64> {
    let mut at = At { root, input, output: None };
    walk(memory, root, input, input, &mut at).ok()?;
    at.output
}
