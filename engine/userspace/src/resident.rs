//! How many pages are in tables: a program's own, and those of files.

use crate::shape::{Leaf, Note};

/// Pages in tables, or a part of that sum, which may be less than nothing.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Resident {
    pub(crate) own: u64,
    pub(crate) file: u64,
}

impl Resident {
    /// So many pages more with this leaf.
    pub(crate) fn add_many(&mut self, leaf: &Leaf, pages: u64) {
        let count = self.count(leaf);
        *count = count.wrapping_add(pages * u64::from(leaf.has(Note::COUNTED)));
    }

    /// So many pages less.
    pub(crate) fn subtract_many(&mut self, leaf: &Leaf, pages: u64) {
        let count = self.count(leaf);
        *count = count.wrapping_sub(pages * u64::from(leaf.has(Note::COUNTED)));
    }

    fn count(&mut self, leaf: &Leaf) -> &mut u64 {
        if leaf.has(Note::OWN) { &mut self.own } else { &mut self.file }
    }
}
