//! Memory that is together in virtual addresses alone: blocks, the largest first, side by side, by the largest leaves that they make. A
//! part of it can be protected: leaves split on demand, and the same pages in the linear map follow, in one list with it. A part of it can
//! be freed: its addresses lead nowhere then, until the area goes.
//!
//! ```text
//! area      |== 32 MiB ==|= 8 MiB =|4K|guard|          freed: permissions reset, unmapped, every CPU has forgotten it, memory free
//! memory        block        block  block
//! ```

use crate::fallible::List;
use crate::locks::{Lock, order};
use alloc::vec::Vec;
use core::fmt;
use core::iter;
use core::ops::Range;

use kerncore::buddy::MAX_ORDER;
use linearmap::{Context, Leaves, Refused, Wanted};
use pagetable::Change;
use vmsa::{PhysAddr, VirtAddr};

use crate::facts::{facts, page_size, protects_aliases};
use crate::memory::layout::VMALLOC;
use crate::memory::tables::{READ_WRITE, map, map_pages};
use crate::memory::{going, kernel_table, linear_map, pages};

/// Blocks that go at once with an area.
const AT_ONCE: usize = 16;

/// The addresses of every area with its guard, ascending.
static TAKEN: Lock<Vec<Range<u64>>> = Lock::new(order::TAKEN, Vec::new());

/// Memory until it is dropped.
#[derive(Debug)]
pub(crate) struct Area {
    start: u64,
    bytes: u64,
    /// Its memory, ascending.
    blocks: Vec<Block>,
    /// Blocks before this offset are mapped.
    mapped: u64,
    /// Some part was read-only.
    is_protected: bool,
}

/// Why nothing has changed.
#[derive(Debug)]
pub(crate) enum AreaError {
    /// For the list of what would change.
    NoMemory,
    /// These offsets are not whole pages of the area.
    NoSuchPages(Range<u64>),
    Refused(Refused),
}

impl From<Refused> for AreaError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl fmt::Display for AreaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory => f.write_str("no memory for a list of its parts"),
            Self::NoSuchPages(Range { start, end }) => write!(f, "{start:#x} to {end:#x} are no pages of it"),
            Self::Refused(refused) => refused.fmt(f),
        }
    }
}

/// `1 << order` pages that were allocated as one, and where they are in their area.
#[derive(Clone, Copy, Debug)]
struct Block {
    offset: u64,
    first: PhysAddr,
    order: usize,
}

impl Block {
    fn offsets(self) -> Range<u64> {
        self.offset..self.offset + (page_size().size_bytes() << self.order)
    }

    /// The part of it that is among some offsets, if any.
    fn part(self, of: &Range<u64>) -> Option<Range<u64>> {
        let own = self.offsets();
        let part = own.start.max(of.start)..own.end.min(of.end);
        (part.start < part.end).then_some(part)
    }

    /// Its memory, from and to some of its offsets.
    fn memory(self, part: &Range<u64>) -> Range<PhysAddr> {
        self.first + (part.start - self.offset)..self.first + (part.end - self.offset)
    }

    fn halves(self) -> [Self; 2] {
        let order = self.order - 1;
        let bytes = page_size().size_bytes() << order;
        [Self { order, ..self }, Self { offset: self.offset + bytes, first: self.first + bytes, order }]
    }
}

impl Area {
    /// So many bytes in whole pages, whatever they hold: readable and writable.
    pub(crate) fn take(bytes: u64) -> Option<Self> {
        Self::take_from(VMALLOC.start, bytes)
    }

    /// The same where instructions that name their distance in pages of 4 KiB (ADRP) reach the image and what is near it, and back.
    pub(crate) fn take_near_image(bytes: u64) -> Option<Self> {
        Self::take_from(VMALLOC.end - (1 << 30), bytes)
    }

    fn take_from(least: u64, bytes: u64) -> Option<Self> {
        let page = page_size().size_bytes();
        // What no room can hold takes no memory first.
        let room = VMALLOC.end - least - page;
        let bytes = bytes.checked_next_multiple_of(page).filter(|bytes| (1..=room).contains(bytes))?;
        let mut area = Self { start: 0, bytes: 0, blocks: Vec::new(), mapped: 0, is_protected: false };
        let mut most = MAX_ORDER;
        while area.bytes < bytes {
            most = most.min(((bytes - area.bytes) / page).ilog2() as usize);
            area.blocks.try_reserve(1).ok()?;
            // The next smaller where there is none: so a block begins at a multiple of its size.
            match pages::allocate(most) {
                Some(first) => {
                    area.blocks.try_push(Block { offset: area.bytes, first, order: most }).ok()?;
                    area.bytes += page << most;
                }
                None => most = most.checked_sub(1)?,
            }
        }
        let largest = page << area.blocks.first()?.order;
        area.start = TAKEN.with(|taken| {
            let room = find_room(taken, least, largest, bytes + page);
            leave_no_list(taken);
            room
        })?;
        for place in 0..area.blocks.len() {
            let block = area.blocks[place];
            let (from, at) = (block.memory(&block.offsets()), area.start + block.offset);
            // Who wants a linear map whose leaves never change size wants none here.
            let map = if facts().leaves == Leaves::Pages { map_pages } else { map };
            // What was mapped goes with the area.
            kernel_table::change(&[map(from.start.bits()..from.end.bits(), at, READ_WRITE)], false).ok()?;
            area.mapped = block.offsets().end;
        }
        Some(area)
    }

    /// Its addresses.
    pub(crate) fn range(&self) -> Range<VirtAddr> {
        VirtAddr::new(self.start)..VirtAddr::new(self.start + self.bytes)
    }

    /// Bytes of its first block, which is its largest; its memory and its addresses begin at a multiple of as many.
    pub(crate) fn first_block_bytes(&self) -> u64 {
        self.blocks.first().map_or(0, |block| page_size().size_bytes() << block.order)
    }

    /// Has pages of it be read-only, or writable again, here and, unless `rodata=` asks for less, in the linear map: all of them, or none.
    pub(crate) fn protect(&mut self, offsets: Range<u64>, is_read_only: bool) -> Result<(), AreaError> {
        self.check(&offsets)?;
        let has_alias = protects_aliases();
        let alias = |memory: &_| has_alias.then(|| linear(memory));
        let ranges = list(self.parts(offsets).flat_map(|(here, memory)| iter::once(here).chain(alias(&memory))))?;
        let wanted = if is_read_only { Wanted::ReadOnly } else { Wanted::Writable };
        linear_map::get().change(&ranges, wanted, Context::MayWait)?;
        self.is_protected |= is_read_only && has_alias;
        Ok(())
    }

    /// Frees whole pages of it: all of them, or none.
    pub(crate) fn free(&mut self, offsets: Range<u64>) -> Result<(), AreaError> {
        self.check(&offsets)?;
        [offsets.start, offsets.end].into_iter().try_for_each(|offset| self.cut(offset))?;
        let here = list(self.parts(offsets.clone()).map(|(here, _)| here))?;
        let protected = if self.is_protected { offsets.clone() } else { 0..0 };
        let aliases = list(self.parts(protected).map(|(_, memory)| linear(&memory)))?;
        going::take_down(&here, &aliases)?;
        self.blocks.retain(|block| {
            let is_kept = block.part(&offsets).is_none();
            if !is_kept {
                pages::free(block.first, block.order);
            }
            is_kept
        });
        Ok(())
    }

    fn check(&self, offsets: &Range<u64>) -> Result<(), AreaError> {
        let is_page = |offset: u64| offset.is_multiple_of(page_size().size_bytes());
        let is_part = offsets.start <= offsets.end && offsets.end <= self.bytes;
        if is_part && is_page(offsets.start) && is_page(offsets.end) {
            return Ok(());
        }
        Err(AreaError::NoSuchPages(offsets.clone()))
    }

    /// No block is on both sides of an offset.
    fn cut(&mut self, offset: u64) -> Result<(), AreaError> {
        let is_cut = |block: &Block| block.offset < offset && offset < block.offsets().end;
        while let Some(place) = self.blocks.iter().position(is_cut) {
            self.blocks.try_reserve(1).map_err(|_| AreaError::NoMemory)?;
            let block = self.blocks[place];
            pages::divide(block.first, block.order, block.order - 1);
            let [lower, upper] = block.halves();
            self.blocks[place] = lower;
            self.blocks.try_insert(place + 1, upper).map_err(|_| AreaError::NoMemory)?;
        }
        Ok(())
    }

    /// The parts of a range of offsets that lie in one block each: their addresses and their memory.
    fn parts(&self, offsets: Range<u64>) -> impl Iterator<Item = (Range<VirtAddr>, Range<PhysAddr>)> {
        self.blocks.iter().filter_map(move |block| {
            let part = block.part(&offsets)?;
            let here = VirtAddr::new(self.start + part.start)..VirtAddr::new(self.start + part.end);
            Some((here, block.memory(&part)))
        })
    }

    /// Has some blocks go. Whether their memory is nobody's now, and what free memory is.
    fn take_down(&self, blocks: &[Block]) -> bool {
        const NONE: Range<VirtAddr> = VirtAddr::new(0)..VirtAddr::new(0);
        let (mut here, mut aliases, mut count) = ([NONE; AT_ONCE], [NONE; AT_ONCE], 0);
        for block in blocks.iter().filter(|block| block.offset < self.mapped) {
            let Range { start, end } = block.offsets();
            here[count] = VirtAddr::new(self.start + start)..VirtAddr::new(self.start + end);
            aliases[count] = linear(&block.memory(&block.offsets()));
            count += 1;
        }
        let aliases = if self.is_protected { &aliases[..count] } else { &[] };
        going::take_down(&here[..count], aliases).is_ok()
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        let mut is_whole = true;
        // Without a list of all, for which there may be no memory; and what is freed is there for the next.
        for blocks in self.blocks.chunks(AT_ONCE) {
            // Memory that somebody may still reach, or that is not what free memory is, is nobody's.
            match self.take_down(blocks) {
                true => blocks.iter().for_each(|block| pages::free(block.first, block.order)),
                false => is_whole = false,
            }
        }
        if is_whole && self.start != 0 {
            give_back(self.start);
        }
    }
}

fn linear(memory: &Range<PhysAddr>) -> Range<VirtAddr> {
    facts().linear.address(memory.start)..facts().linear.address(memory.end)
}

/// As `collect`, where there may be no memory.
fn list<T>(items: impl Iterator<Item = T>) -> Result<Vec<T>, AreaError> {
    let mut all = Vec::new();
    for item in items {
        all.try_push(item).map_err(|_| AreaError::NoMemory)?;
    }
    Ok(all)
}

/// Takes the first room from `least` on for so many bytes that begins on a multiple of `alignment`.
fn find_room(taken: &mut Vec<Range<u64>>, least: u64, alignment: u64, bytes: u64) -> Option<u64> {
    taken.try_reserve(1).ok()?;
    let mut start = least.next_multiple_of(alignment);
    let place = taken.iter().position(|area| {
        let fits = bytes <= area.start.saturating_sub(start);
        if !fits {
            start = start.max(area.end.next_multiple_of(alignment));
        }
        fits
    });
    if bytes > VMALLOC.end.saturating_sub(start) {
        return None;
    }
    taken.try_insert(place.unwrap_or(taken.len()), start..start + bytes).ok()?;
    Some(start)
}

/// Whether a list is empty: then it has no memory either.
fn leave_no_list<T>(list: &mut Vec<T>) -> bool {
    if list.is_empty() {
        *list = Vec::new();
    }
    list.is_empty()
}

/// The addresses of an area are free. With the last one all tables go, and the list too; nobody gets room meanwhile.
fn give_back(start: u64) {
    TAKEN.with(|taken| {
        taken.retain(|area| area.start != start);
        if leave_no_list(taken) {
            let from = VirtAddr::new(VMALLOC.start)..VirtAddr::new(VMALLOC.end);
            let _ = kernel_table::change(&[Change::Unmap { from }], false);
        }
    });
}
