//! Which frames a buddy allocator can hold, and what memory it needs to note them.
//!
//! Memory has holes, and banks may lie terabytes apart, so frames are numbered without the holes: each span of memory, cut
//! at boundaries of the largest block, gets the next numbers. The buddy of a block thus always lies in the same span.
//!
//! ```text
//!   addresses   |== span 0 ==|            |====== span 1 ======|
//!   numbers     0           n|n                              m|
//! ```

use vmsa::{PageSize, PhysAddr};

use super::MAX_ORDER;
use super::bits::{BitSet, BitTree};
use crate::list::List;
use crate::memory_map::MAX_RANGES;
use crate::range::PhysicalRange;

/// Memory in whole blocks of the largest order, `1 << MAX_ORDER` frames each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// Physical address by the size of a block.
    first_block: u64,
    blocks: u64,
    /// How many blocks all spans before it have.
    blocks_before: u64,
}

/// The frames of some ranges of memory: about 3 KiB, so keep it in a static.
pub struct Layout {
    page_size: PageSize,
    /// Sorted by address; no two touch.
    spans: List<Span, MAX_RANGES>,
}

/// Where the sets of each order lie in the words of an allocator.
pub(super) struct Sets {
    /// Blocks that are free.
    pub(super) free: [BitTree; MAX_ORDER + 1],
    /// Blocks that were given out, each in the set of the order that was asked for.
    pub(super) given: [BitSet; MAX_ORDER + 1],
    /// How many words they take.
    pub(super) words: usize,
}

impl Layout {
    /// Frames for `ranges`, sorted by address: all memory that may ever be given to the allocator, such as the mapped
    /// ranges of the memory map. At most 128 ranges count.
    pub fn new(page_size: PageSize, ranges: impl Iterator<Item = PhysicalRange>) -> Self {
        let mut layout = Self { page_size, spans: List::new(Span { first_block: 0, blocks: 0, blocks_before: 0 }) };
        for range in ranges.filter(|range| !range.is_empty()) {
            layout.add_span(range);
        }
        layout
    }

    /// Covers `range`, together with the span before it if they touch or share a block.
    fn add_span(&mut self, range: PhysicalRange) {
        let shift = self.block_shift();
        let (first_block, last_block) = (range.start.bits() >> shift, (range.end.bits() - 1) >> shift);
        let blocks_before = self.blocks();
        if let Some(span) = self.spans.last_mut()
            && first_block <= span.first_block + span.blocks
        {
            span.blocks = span.blocks.max(last_block + 1 - span.first_block);
            return;
        }
        // A memory map has no more ranges than this list; of a longer list the rest is memory that `add` refuses.
        self.spans.push(Span { first_block, blocks: last_block + 1 - first_block, blocks_before }).ok();
    }

    /// log2 of the bytes in a block of the largest order.
    fn block_shift(&self) -> u32 {
        self.page_size.shift() + MAX_ORDER as u32
    }

    fn blocks(&self) -> u64 {
        self.spans.last().map_or(0, |span| span.blocks_before + span.blocks)
    }

    /// The page size of its frames.
    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// How many frames it has, holes at the ends of spans included.
    pub fn frames(&self) -> usize {
        (self.blocks() as usize) << MAX_ORDER
    }

    /// How many words an allocator needs for these frames: half a byte for a frame and a little more.
    pub fn words(&self) -> usize {
        self.sets().words
    }

    /// Places the sets one behind another.
    pub(super) fn sets(&self) -> Sets {
        let mut words = 0;
        let blocks = |order: usize| self.frames() >> order;
        let free = core::array::from_fn(|order| BitTree::place(blocks(order), &mut words));
        let given = core::array::from_fn(|order| BitSet::place(blocks(order), &mut words));
        Sets { free, given, words }
    }

    /// The number of the frame that begins at `address`.
    pub(super) fn frame(&self, address: PhysAddr) -> Option<usize> {
        let block = address.bits() >> self.block_shift();
        let index = self.spans.partition_point(|span| span.first_block <= block).checked_sub(1)?;
        let span = &self.spans[index];
        let offset = block - span.first_block;
        if offset >= span.blocks || !address.is_aligned(self.page_size.size_bytes()) {
            return None;
        }
        let within = (address.bits() >> self.page_size.shift()) as usize % (1 << MAX_ORDER);
        Some((((span.blocks_before + offset) as usize) << MAX_ORDER) + within)
    }

    /// Where the frame of this number begins; the number is below `frames`.
    pub(super) fn address(&self, frame: usize) -> PhysAddr {
        let block = (frame >> MAX_ORDER) as u64;
        let index = self.spans.partition_point(|span| span.blocks_before <= block).saturating_sub(1);
        let span = &self.spans[index];
        let within = (frame % (1 << MAX_ORDER)) as u64;
        let block = span.first_block + (block - span.blocks_before);
        PhysAddr::new((block << self.block_shift()) + (within << self.page_size.shift()))
    }
}
