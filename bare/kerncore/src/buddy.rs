//! The page allocator: blocks of `1 << order` pages, cut in halves to serve smaller requests and joined again when freed.
//!
//! Its notes are bits beside the memory: for each order a set of the free blocks, searched by a tree of summaries, and a set
//! of those given out. So a wrong `free` is always found, and the lowest block that fits is given out: runs repeat, and
//! high memory stays whole. What it costs, in instructions on x86-64 (under callgrind, at 1bbde1b), and what lists with links in a
//! side array cost, which are the alternative without `unsafe`:
//!
//! | | bits | lists |
//! |---|---|---|
//! | notes for a page, all zeroed at first | 4 bits and 1/126 more | 9 bytes |
//! | notes for 2 GiB, for 4 TiB of 4K pages | 258 KiB, 516 MiB | 4.5 MiB, 9 GiB |
//! | taking 2 GiB in, checked to be new | 290 000: 0.6 a page | 1 000, not checked |
//! | allocating and freeing a page, among others | 330 | 205 |
//! | the same, all memory one block to cut and join | 1970 | 1120 |
//! | the same in random order over 64 GiB, time | 1.5 | 1 |
//!
//! The notes decided: a kernel that only boots should not give 0.2 % of memory for it, nor write that much first. A cache
//! of pages for each CPU belongs above this, and locking is the caller's.

mod bits;
mod layout;
mod page_set;
mod refusals;

pub use layout::Layout;
pub use page_set::PageSet;
pub use refusals::{AddError, FreeError, RemoveError, WrongLength};

use core::fmt;
use core::ops::Range;

use vmsa::PhysAddr;

use crate::range::{Bytes, PhysicalRange};
use layout::Sets;

/// The largest order. The smallest that makes a level 2 block of every granule: 2 MiB is order 9 of 4K pages, 32 MiB is
/// order 11 of 16K pages, 512 MiB is order 13 of 64K pages. Blocks of it are 32 MiB, 128 MiB and 512 MiB.
pub const MAX_ORDER: usize = 13;

/// How many orders there are.
const ORDERS: usize = MAX_ORDER + 1;

/// A page allocator; its notes are in `'n`. About 1.2 KiB.
pub struct Buddy<'n> {
    layout: &'n Layout,
    notes: &'n mut [u64],
    sets: Sets,
    /// How many blocks of each order are free: the members of its set.
    free_blocks: [usize; ORDERS],
    /// Bit n is set if `free_blocks[n]` is not 0.
    free_orders: u32,
    free_frames: usize,
    given_frames: usize,
    /// What is left of the block that blocks of one order are cut from, one behind another: free, and in no set before [`Self::close`].
    open: Range<usize>,
    /// Their order.
    open_order: usize,
    /// What the first address of `open` is above its bytes by its number.
    open_offset: u64,
}

impl<'n> Buddy<'n> {
    /// An allocator without any memory yet. `notes` has exactly as many words as `layout` says; what they hold is
    /// overwritten.
    pub fn new(layout: &'n Layout, notes: &'n mut [u64]) -> Result<Self, WrongLength> {
        let sets = layout.sets();
        if notes.len() != sets.words {
            return Err(WrongLength { expected: sets.words, found: notes.len() });
        }
        notes.fill(0);
        let free_blocks = [0; ORDERS];
        let (free_orders, free_frames, given_frames) = (0, 0, 0);
        Ok(Self {
            layout,
            notes,
            sets,
            free_blocks,
            free_orders,
            free_frames,
            given_frames,
            open: 0..0,
            open_order: 0,
            open_offset: 0,
        })
    }

    /// Takes `range` in as free memory: whole pages that were never added, or removed since.
    pub fn add(&mut self, range: PhysicalRange) -> Result<(), AddError> {
        let page_bytes = self.layout.page_size().size_bytes();
        if !range.start.is_aligned(page_bytes) || !range.end.is_aligned(page_bytes) {
            return Err(AddError::Misaligned(range));
        }
        self.close();
        for (address, order) in self.blocks(range) {
            let frame = self.layout.frame(address).ok_or(AddError::Outside(range))?;
            if self.is_known(frame >> order, order) {
                return Err(AddError::Known(range));
            }
        }
        for (address, order) in self.blocks(range) {
            let frame = self.layout.frame(address).ok_or(AddError::Outside(range))?;
            self.join(frame >> order, order);
            self.free_frames += 1 << order;
        }
        Ok(())
    }

    /// Takes `range` out, all of which is free: whole pages, which are as if they had never been added.
    pub fn remove(&mut self, range: PhysicalRange) -> Result<(), RemoveError> {
        let page_bytes = self.layout.page_size().size_bytes();
        if !range.start.is_aligned(page_bytes) || !range.end.is_aligned(page_bytes) {
            return Err(RemoveError::Misaligned(range));
        }
        self.close();
        let mut page = range.start;
        while page < range.end {
            page = self.free_block(page).ok_or_else(|| self.why_not_free(page))?.1.end;
        }
        let mut page = range.start;
        while page < range.end
            && let Some((order, block)) = self.free_block(page)
        {
            let first = self.layout.frame(block.start).expect("a block of a page that has a frame");
            self.take_free(first >> order, order);
            // What is left of a block joins nothing: each buddy has some of the range.
            for rest in block.without(&[range]) {
                for (part, order) in self.blocks(rest) {
                    self.put_free((first + ((part - block.start) / page_bytes) as usize) >> order, order);
                }
            }
            page = block.end;
        }
        self.free_frames -= (range.size_bytes() / page_bytes) as usize;
        Ok(())
    }

    /// Gives out the lowest free block that is not larger than need be: `1 << order` pages, aligned to their size. `None`
    /// if no block is large enough, or the order is above `MAX_ORDER`.
    #[inline]
    pub fn allocate(&mut self, order: usize) -> Option<PhysAddr> {
        let frame = self.cut(order)?;
        self.sets.given[order].set(self.notes, frame >> order, true);
        Some(self.open_address(frame))
    }

    /// The same, where each of the pages is given out by itself, so that it can be freed alone: [`Self::divide`].
    #[inline]
    pub fn allocate_pages(&mut self, order: usize) -> Option<PhysAddr> {
        let frame = self.cut(order)?;
        self.sets.given[0].insert_all(self.notes, frame..frame + (1 << order));
        Some(self.open_address(frame))
    }

    /// Blocks of one order that are asked for one after another come from the same block: cutting all of it at the first leaves the same.
    #[inline]
    fn cut(&mut self, order: usize) -> Option<usize> {
        if self.open.is_empty() || self.open_order != order {
            self.open_block(order)?;
        }
        let frame = self.open.start;
        self.open.start += 1 << order;
        self.free_frames -= 1 << order;
        self.given_frames += 1 << order;
        Some(frame)
    }

    /// The address of a frame of the open block.
    #[inline]
    fn open_address(&self, frame: usize) -> PhysAddr {
        PhysAddr::new(((frame as u64) << self.layout.page_size().shift()).wrapping_add(self.open_offset))
    }

    /// Blocks of an order are cut from another block from now on, if there is one.
    #[cold]
    #[inline(never)]
    fn open_block(&mut self, order: usize) -> Option<()> {
        self.close();
        let fitting = self.free_orders.checked_shr(order as u32)?;
        if fitting == 0 {
            return None;
        }
        let shift = self.layout.page_size().shift();
        let from = order + fitting.trailing_zeros() as usize;
        let block = self.sets.free[from].first(self.notes)?;
        self.take_free(block, from);
        self.open = block << from..(block + 1) << from;
        self.open_order = order;
        self.open_offset = self.layout.address(self.open.start).bits().wrapping_sub((self.open.start as u64) << shift);
        Some(())
    }

    /// Makes blocks of what is left of the open one. Each has a buddy with a page that is given out, so that none joins.
    fn close(&mut self) {
        while !self.open.is_empty() {
            let order = self.open.len().trailing_zeros() as usize;
            self.put_free(self.open.start >> order, order);
            self.open.start += 1 << order;
        }
    }

    /// Takes back what `allocate` gave out at `address` for `order`.
    pub fn free(&mut self, address: PhysAddr, order: usize) -> Result<(), FreeError> {
        let given = *self.sets.given.get(order).ok_or(FreeError::NoSuchOrder(order))?;
        let not_given = FreeError::NotGiven(address, order);
        let frame = self.layout.frame(address).filter(|frame| frame.is_multiple_of(1 << order)).ok_or(not_given)?;
        if !given.contains(self.notes, frame >> order) {
            return Err(not_given);
        }
        self.close();
        given.set(self.notes, frame >> order, false);
        self.join(frame >> order, order);
        self.free_frames += 1 << order;
        self.given_frames -= 1 << order;
        Ok(())
    }

    /// Takes back pages side by side, each of which was given out alone. Those before one that was not are free all the same.
    pub fn free_pages(&mut self, range: PhysicalRange) -> Result<(), FreeError> {
        self.close();
        for (address, order) in self.blocks(range) {
            let not_given = FreeError::NotGiven(address, 0);
            let frame = self.layout.frame(address).ok_or(not_given)?;
            if !self.sets.given[0].remove_all(self.notes, frame..frame + (1 << order)) {
                return Err(not_given);
            }
            self.join(frame >> order, order);
            self.free_frames += 1 << order;
            self.given_frames -= 1 << order;
        }
        Ok(())
    }

    /// Makes a block that is given out blocks of the order `parts`, which is smaller, so that each can be freed alone. Nothing changes
    /// where it fails.
    pub fn divide(&mut self, address: PhysAddr, order: usize, parts: usize) -> Result<(), FreeError> {
        let given = *self.sets.given.get(order).ok_or(FreeError::NoSuchOrder(order))?;
        let not_given = FreeError::NotGiven(address, order);
        let frame = self.layout.frame(address).filter(|frame| frame.is_multiple_of(1 << order)).ok_or(not_given)?;
        if parts >= order {
            return Err(FreeError::NoSuchOrder(parts));
        }
        if !given.contains(self.notes, frame >> order) {
            return Err(not_given);
        }
        given.set(self.notes, frame >> order, false);
        let first = frame >> parts;
        self.sets.given[parts].insert_all(self.notes, first..first + (1 << (order - parts)));
        Ok(())
    }

    /// Free memory in bytes.
    pub fn free_bytes(&self) -> u64 {
        (self.free_frames as u64) << self.layout.page_size().shift()
    }

    /// Whether so many bytes are free beside `1 << order` pages.
    #[inline]
    pub fn has_room(&self, order: usize, bytes: u64) -> bool {
        let rest = self.free_frames.checked_sub(1 << order);
        rest.is_some_and(|frames| (frames as u64) << self.layout.page_size().shift() >= bytes)
    }

    /// Memory given out and not freed, in bytes.
    pub fn given_bytes(&self) -> u64 {
        (self.given_frames as u64) << self.layout.page_size().shift()
    }

    /// How many blocks of `order` are free, those in larger free blocks not counted.
    pub fn free_blocks(&self, order: usize) -> usize {
        self.free_blocks.get(order).map_or(0, |blocks| blocks + (self.open.len() >> order & 1))
    }

    /// Bytes in a block of `order`.
    pub fn block_bytes(&self, order: usize) -> u64 {
        self.layout.page_size().size_bytes() << order
    }

    /// `range` cut into the largest blocks that begin and end at multiples of their size, with their orders.
    fn blocks(&self, range: PhysicalRange) -> impl Iterator<Item = (PhysAddr, usize)> + use<> {
        let shift = self.layout.page_size().shift();
        let (mut page, end) = (range.start.bits() >> shift, range.end.bits() >> shift);
        core::iter::from_fn(move || {
            let largest = (end - page).checked_ilog2()?.min(MAX_ORDER as u32).min(page.trailing_zeros());
            let block = (PhysAddr::new(page << shift), largest as usize);
            page += 1 << largest;
            Some(block)
        })
    }

    /// The free block that holds a page, and its order.
    fn free_block(&self, page: PhysAddr) -> Option<(usize, PhysicalRange)> {
        let frame = self.layout.frame(page)?;
        let is_free = |order: &usize| self.sets.free[*order].members().contains(self.notes, frame >> order);
        let order = (0..ORDERS).find(is_free)?;
        Some((order, PhysicalRange::from_size(page.align_down(self.block_bytes(order)), self.block_bytes(order))))
    }

    fn why_not_free(&self, page: PhysAddr) -> RemoveError {
        match self.layout.frame(page) {
            Some(frame) if self.is_known(frame, 0) => RemoveError::Given(page),
            _ => RemoveError::Foreign(page),
        }
    }

    /// Whether any page of a block was added before: in a block that holds it, or in blocks that it holds.
    fn is_known(&self, block: usize, order: usize) -> bool {
        (0..ORDERS).any(|other| {
            let blocks = match other.checked_sub(order) {
                Some(above) => block >> above..(block >> above) + 1,
                None => block << (order - other)..(block + 1) << (order - other),
            };
            self.sets.free[other].members().has_any(self.notes, blocks.clone())
                || self.sets.given[other].has_any(self.notes, blocks)
        })
    }

    /// Makes a block free, joined with its buddy for as long as that is free too.
    fn join(&mut self, mut block: usize, mut order: usize) {
        while order < MAX_ORDER && self.sets.free[order].members().contains(self.notes, block ^ 1) {
            self.take_free(block ^ 1, order);
            block /= 2;
            order += 1;
        }
        self.put_free(block, order);
    }

    fn put_free(&mut self, block: usize, order: usize) {
        self.sets.free[order].insert(self.notes, block);
        self.free_blocks[order] += 1;
        self.free_orders |= 1 << order;
    }

    fn take_free(&mut self, block: usize, order: usize) {
        self.sets.free[order].remove(self.notes, block);
        self.free_blocks[order] -= 1;
        if self.free_blocks[order] == 0 {
            self.free_orders &= !(1 << order);
        }
    }
}

/// One line: `2041M free, 7M given out; free blocks: 1 of 4K, 63 of 32M`.
impl fmt::Display for Buddy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} free, {} given out; free blocks:", Bytes(self.free_bytes()), Bytes(self.given_bytes()))?;
        let mut separator = "";
        for order in (0..ORDERS).filter(|&order| self.free_blocks(order) > 0) {
            write!(f, "{separator} {} of {}", self.free_blocks(order), Bytes(self.block_bytes(order)))?;
            separator = ",";
        }
        if separator.is_empty() { f.write_str(" none") } else { Ok(()) }
    }
}
