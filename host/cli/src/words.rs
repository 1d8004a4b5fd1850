//! The words of the text format for one descriptor.

use image::Root;
use vmsa::ptdump::{Naming, Permitted, Ptdump};
use vmsa::{Descriptor, Level};

/// What comes before the words in a line: two addresses, a size and a level.
const HEAD_CHARS: usize = 54;

/// What the formatter must know of a page table.
pub(crate) fn naming(root: &Root) -> Naming {
    Naming {
        page_size: root.shape.page_size,
        start: root.shape.start,
        layout: root.shape.layout,
        memory: root.memory_or_common(),
        shareability: root.shareability,
        has_one_privilege: root.control.has_one_privilege,
    }
}

/// The words that the formatter prints for a leaf, with their gaps.
pub(crate) fn words(naming: Naming, level: Level, (descriptor, permits): (Descriptor, Permitted)) -> String {
    let mut dump = Ptdump::new(String::new(), naming, &[]);
    let line = dump.entry_that(permits, 0, level, descriptor).and_then(|()| dump.finish(0x1000)).unwrap_or_default();
    line.trim_end().get(HEAD_CHARS..).unwrap_or_default().to_owned()
}
