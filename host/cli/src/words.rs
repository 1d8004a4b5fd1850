//! The words of the text format for one descriptor.

use vmsa::ptdump::{Naming, Permitted, Ptdump};
use vmsa::registers::MemoryTypes;
use vmsa::{Descriptor, Layout, Level};

/// What comes before the words in a line: two addresses, a size and a level.
const HEAD_CHARS: usize = 54;

/// The words that the formatter prints for a leaf, with their gaps.
pub(crate) fn words(
    layout: Layout,
    memory: MemoryTypes,
    level: Level,
    (descriptor, permits): (Descriptor, Permitted),
) -> String {
    let naming = Naming { start: Level::MINUS_1, layout, memory, shareability: 3 };
    let mut dump = Ptdump::new(String::new(), naming, &[]);
    let line = dump.entry_that(permits, 0, level, descriptor).and_then(|()| dump.finish(0x1000)).unwrap_or_default();
    line.trim_end().get(HEAD_CHARS..).unwrap_or_default().to_owned()
}
