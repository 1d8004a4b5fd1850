//! One page of a block becomes read-only; its neighbours stay what they were.

use core::fmt;
use core::ops::Range;

use hardware::catch::{Fault, catch};
use hardware::probe;
use kerncore::buddy::MAX_ORDER;
use kerncore::range::Bytes;
use pagetable::Change;
use vmsa::{FaultStatus, LeafSize, PhysAddr, Stage1Attributes, VirtAddr};

use super::detail::{Detail, tell};
use super::range;
use crate::facts::page_size;
use crate::memory::tables::{READ_WRITE, map};
use crate::memory::{current, kernel_table, layout, pages};

/// Every so many pages one is looked at; no power of two, so that it falls on all places of smaller leaves.
const SPREAD: u64 = 61;
/// Pages that are looked at on either side of the one that is protected.
const NEAR: u64 = 33;

/// A leaf in a range of its own.
struct Block {
    size: LeafSize,
    memory: PhysAddr,
    order: usize,
}

pub(super) fn protect(detail: &mut Detail) -> bool {
    let Some(block) = Block::make() else {
        tell!(detail, "no memory for a block or a contiguous group");
        return false;
    };
    tell!(detail, "{}", block.size);
    let is_ok = block.check(detail).is_some();
    let is_undone = range::clear(detail);
    if is_undone {
        pages::free(block.memory, block.order);
    }
    is_ok && is_undone
}

/// Too little memory is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooLittle {
    free_bytes: u64,
    wanted_bytes: u64,
}

impl fmt::Display for TooLittle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (free, wanted) = (Bytes(self.free_bytes), Bytes(self.wanted_bytes));
        write!(
            f,
            "memory: too little: {free} are free, but no aligned {wanted} in one piece, as the self-checks expect; "
        )?;
        f.write_str("cannot go on")
    }
}

/// Whether there is memory for the checks: a block, or the smallest contiguous group, of its own. See [`Block::make`].
pub(crate) fn find_room() -> Result<(), TooLittle> {
    let smallest = leaves().last().map_or(page_size().size_bytes(), |size| size.size_bytes(page_size()));
    pages::with_pages(|pages| {
        let has_room =
            (0..=MAX_ORDER).any(|order| pages.free_blocks(order) > 0 && pages.block_bytes(order) >= smallest);
        let too_little = TooLittle { free_bytes: pages.free_bytes(), wanted_bytes: smallest };
        if has_room { Ok(()) } else { Err(too_little) }
    })
}

/// Leaves that fit the checks' range, from the largest, pages left out.
fn leaves() -> impl Iterator<Item = LeafSize> {
    let room = layout::CHECKS.end - layout::CHECKS.start;
    LeafSize::all(page_size(), current::upper().shape().layout)
        .filter(move |size| *size != LeafSize::PAGE && size.size_bytes(page_size()) <= room)
}

impl Block {
    /// The largest leaf for which there is memory of its own, and which fits the range.
    fn make() -> Option<Self> {
        leaves().find_map(|size| {
            let order = (size.shift(page_size()) - page_size().shift()) as usize;
            let memory = (order <= MAX_ORDER).then(|| pages::allocate(order))??;
            let block = Self { size, memory, order };
            match block.map() {
                true => Some(block),
                false => {
                    pages::free(memory, order);
                    None
                }
            }
        })
    }

    fn bytes(&self) -> u64 {
        self.size.size_bytes(page_size())
    }

    fn range(&self) -> Range<VirtAddr> {
        let start = VirtAddr::new(layout::CHECKS.start);
        start..start + self.bytes()
    }

    fn map(&self) -> bool {
        let from = self.memory.bits();
        kernel_table::change(&[map(from..from + self.bytes(), self.range().start.bits(), READ_WRITE)], false).is_ok()
    }

    /// `None` says that the detail tells what is wrong.
    fn check(&self, detail: &mut Detail) -> Option<()> {
        let leaf = current::upper().translate(self.range().start);
        if leaf.map(|leaf| leaf.size) != Some(self.size) {
            tell!(detail, ": mapped by {leaf:x?}");
            return None;
        }
        self.for_sampled_pages(detail, |page| write(page, value(page)))?;
        let page = self.changed();
        let (set, clear) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty());
        let change = Change::Protect { from: page..page + page_size().size_bytes(), set, clear };
        if let Err(error) = kernel_table::change(&[change], true) {
            tell!(detail, ": {error}");
            return None;
        }
        self.check_page(page, detail)?;
        self.check_neighbours(page, detail)?;
        let pages = self.bytes() / page_size().size_bytes();
        tell!(detail, " of {}: page {} of {pages} read-only, the others as before", Bytes(self.bytes()), pages / 2 + 1);
        Some(())
    }

    /// The page can be read, and not written.
    fn check_page(&self, page: VirtAddr, detail: &mut Detail) -> Option<()> {
        // SAFETY: memory of this check.
        let read = unsafe { probe::read(page) };
        // SAFETY: memory of this check.
        let written = unsafe { probe::write(page, 0) };
        let is_refused = |fault: &Fault| {
            let is_permission = matches!(fault.syndrome.fault(), Some(FaultStatus::Permission(_)));
            is_permission && fault.syndrome.is_write() && fault.address == page
        };
        if read == Ok(value(page)) && written.as_ref().is_err_and(is_refused) {
            return Some(());
        }
        tell!(detail, ": the page reads {read:x?}, and a write to it gives {written:x?}");
        None
    }

    /// Of the other pages a sample holds its value and can be written; all have the descriptor bits they had, their place
    /// in the block apart.
    fn check_neighbours(&self, changed: VirtAddr, detail: &mut Detail) -> Option<()> {
        self.for_sampled_pages(detail, |page| {
            page == changed || (read(page) == value(page) && write(page, !value(page)))
        })?;
        self.for_sampled_pages(detail, |page| page == changed || read(page) == !value(page))?;
        let table = current::upper();
        for offset in (0..self.bytes()).step_by(page_size().size_bytes() as usize) {
            let page = self.range().start + offset;
            let leaf = table.translate(page);
            let is_right = leaf.is_some_and(|leaf| {
                let is_read_only = leaf.descriptor.bits() & Stage1Attributes::READ_ONLY.bits() != 0;
                leaf.output == self.memory + offset && is_read_only == (page == changed)
            });
            if !is_right {
                tell!(detail, ": {page} is {leaf:x?}");
                return None;
            }
        }
        Some(())
    }

    /// The page that is protected: just beyond the middle, so that the first of a group is not special.
    fn changed(&self) -> VirtAddr {
        self.range().start + (self.bytes() / 2 + page_size().size_bytes())
    }

    /// The ends, the neighbourhood of the page that is protected, and a spread of others: to touch every page of 512 MiB
    /// would have an emulator's host find all that memory.
    fn is_sampled(&self, page: VirtAddr) -> bool {
        let bytes = page_size().size_bytes();
        let number = |address: VirtAddr| (address - self.range().start) / bytes;
        let last = self.bytes() / bytes - 1;
        number(page) == last
            || number(page).is_multiple_of(SPREAD)
            || number(page).abs_diff(number(self.changed())) <= NEAR
    }

    fn for_sampled_pages(&self, detail: &mut Detail, mut holds: impl FnMut(VirtAddr) -> bool) -> Option<()> {
        let Range { start, end } = self.range();
        let body = || {
            let offsets = (0..end - start).step_by(page_size().size_bytes() as usize);
            let mut pages = offsets.map(|offset| start + offset).filter(|page| self.is_sampled(*page));
            pages.find(|page| !holds(*page))
        };
        // SAFETY: the loop holds nothing that needs to be dropped.
        match unsafe { catch(body) } {
            Ok(None) => return Some(()),
            Ok(Some(page)) => tell!(detail, ": {page} holds the wrong value"),
            Err(fault) => tell!(detail, ": {} at {}", fault.syndrome, fault.address),
        }
        None
    }
}

/// What a page is filled with.
fn value(page: VirtAddr) -> u64 {
    page.bits() ^ 0x1234_5678_9abc_def0
}

fn read(page: VirtAddr) -> u64 {
    // SAFETY: memory of this check, mapped or faulting within a `catch`.
    unsafe { (page.bits() as *const u64).read_volatile() }
}

fn write(page: VirtAddr, value: u64) -> bool {
    // SAFETY: memory of this check, mapped or faulting within a `catch`.
    unsafe { (page.bits() as *mut u64).write_volatile(value) };
    true
}
