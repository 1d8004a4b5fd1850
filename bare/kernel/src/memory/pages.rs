//! Pages, once the linear map leads to all of them.

use core::fmt;
use core::slice;
use core::sync::atomic::AtomicU64;

use hardware::{access, probe};
use kerncore::buddy::{AddError, Buddy, Layout, MAX_ORDER, PageSet, RemoveError, WrongLength};
use kerncore::early::{EarlyAllocator, EarlyError, Request};
use kerncore::list::List;
use kerncore::memory_map::{Kind, MAX_RANGES, MemoryMap, Purpose};
use kerncore::range::PhysicalRange;
use spin::Once;
use vmsa::{PhysAddr, VirtAddr};

use crate::console::say;
use crate::facts::{facts, page_size};
use crate::locks::{Lock, order};
use crate::memory::failing;
use crate::memory::ranges;

static LAYOUT: Once<Layout> = Once::new();
static SECRET: Once<PageSet<'static>> = Once::new();
static LOST_TO_HOST: Once<PageSet<'static>> = Once::new();
static PAGES: Lock<Option<Buddy<'static>>> = Lock::new(order::PAGES, None);

/// Why there is no page allocator.
#[derive(Debug)]
pub(crate) enum StartError {
    Notes(EarlyError),
    Length(WrongLength),
    Memory(AddError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Notes(error) => error.fmt(f),
            Self::Length(error) => write!(f, "page allocator: {error}"),
            Self::Memory(error) => write!(f, "page allocator: {error}"),
        }
    }
}

/// Whether memory is at both ends of a range that nobody uses, mapped `offset` above its physical address.
pub(crate) fn answers(range: PhysicalRange, offset: u64) -> bool {
    let ends = [range.start.bits().next_multiple_of(8), (range.end.bits() - 8) & !7];
    ends.into_iter().all(|address| {
        // SAFETY: free memory by the device tree, mapped, and this CPU is alone with it.
        unsafe { probe::is_memory(VirtAddr::new(address.wrapping_add(offset))) }
    })
}

/// Free ranges where no memory answers: a device tree may lie.
pub(crate) type Absent = List<PhysicalRange, MAX_RANGES>;

/// Gives up free ranges where no memory answers. They are still mapped.
pub(crate) fn forget_what_is_not_there(map: &mut MemoryMap) -> Absent {
    let mut absent = Absent::new(PhysicalRange::EMPTY);
    for range in map.free(page_size()).filter(|range| !answers(*range, facts().linear.offset())) {
        absent.push(range).expect("the list is as long as the map");
    }
    for range in absent.iter() {
        say!("warning: memory: {range} does not answer, expected RAM as the device tree says; unused");
        // Marking a whole free piece needs no room.
        map.mark(*range, Kind::Lost).ok();
    }
    absent
}

/// Hands what is free over to the page allocator.
pub(crate) fn start(mut early: EarlyAllocator) -> Result<(), StartError> {
    let layout = LAYOUT.call_once(|| Layout::new(page_size(), early.map().mappable(page_size())));
    let sets = if facts().realm.is_some() { 2 } else { 1 };
    let all_words = layout.words() + sets * PageSet::words(layout);
    let size_bytes = all_words as u64 * 8;
    let request = Request { size_bytes, ..Request::page(page_size(), Purpose::PageAllocator) };
    let notes = early.allocate(&request).map_err(StartError::Notes)?;
    let address = facts().linear.address(notes.start).bits();
    // SAFETY: the early allocator gives memory out once, the linear map holds it writable, and it is large enough. Any
    // bits are a u64.
    let notes = unsafe { slice::from_raw_parts_mut(address as *mut u64, layout.words()) };
    let behind = address as usize + size_of_val(notes);
    // SAFETY: as above, of the words behind.
    let bits = unsafe { slice::from_raw_parts(behind as *const AtomicU64, sets * PageSet::words(layout)) };
    for (set, bits) in [&SECRET, &LOST_TO_HOST].into_iter().zip(bits.chunks(PageSet::words(layout).max(1))) {
        set.try_call_once(|| PageSet::new(layout, bits)).map_err(StartError::Length)?;
    }
    ranges::start(early.map());
    let mut pages = Buddy::new(layout, notes).map_err(StartError::Length)?;
    early.hand_over(&mut pages).map_err(StartError::Memory)?;
    PAGES.with(|slot| *slot = Some(pages));
    Ok(())
}

/// Runs `body` with the page allocator.
pub(crate) fn with_pages<R>(body: impl FnOnce(&mut Buddy<'static>) -> R) -> R {
    PAGES.with(|pages| body(pages.as_mut().expect("the page allocator starts before anyone asks")))
}

/// The pages that are held as secret memory, if there is a page allocator.
pub(crate) fn secret() -> Option<&'static PageSet<'static>> {
    SECRET.get()
}

/// The pages that a realm's host has, or may have, for ever.
pub(crate) fn lost_to_host() -> Option<&'static PageSet<'static>> {
    LOST_TO_HOST.get()
}

/// Clears pages that the linear map leads to, which nobody else uses.
pub(crate) fn wipe(first: PhysAddr, order: usize) {
    // SAFETY: the caller's pages, writable in the linear map.
    unsafe { clear(facts().linear.address(first).bits(), page_size().size_bytes() << order) };
}

/// Clears so many bytes of whole pages.
///
/// # Safety
///
/// They are mapped writable, as Normal memory, and the caller's.
pub(crate) unsafe fn clear(start: u64, bytes: u64) {
    let Some(block_bytes) = access::zeroed_bytes() else {
        // SAFETY: the caller's promise.
        return unsafe { (start as *mut u8).write_bytes(0, bytes as usize) };
    };
    let (mut at, end) = (start, start + bytes);
    let bytes_at_once = access::BLOCKS_AT_ONCE * block_bytes;
    while end - at >= bytes_at_once {
        // SAFETY: as above.
        unsafe { access::zero_blocks(at, block_bytes) };
        at += bytes_at_once;
    }
    // DCZID_EL0 has no block above 2 KiB, so that pages are whole blocks.
    while at < end {
        // SAFETY: as above.
        unsafe { access::zero_block(at) };
        at += block_bytes;
    }
}

/// Who shows a block before it is given out, and hides it before it is free again; both from any context. Whether it could.
#[derive(Clone, Copy)]
pub(crate) struct Keeper {
    pub(crate) show: fn(PhysicalRange) -> bool,
    pub(crate) hide: fn(PhysicalRange) -> bool,
    /// Replaces the tables that either took, by [`allocate_table`], so that the next finds as many.
    pub(crate) restock: fn(),
}

static KEEPER: Once<Keeper> = Once::new();

/// Has every free block hidden, now and from now on: all are taken, and given back. Before another CPU runs.
pub(crate) fn keep_hidden(keeper: Keeper) {
    let all = Taken::all();
    KEEPER.call_once(|| keeper);
    drop(all);
}

/// Blocks that were free, given back when this is dropped. Each has in its first bytes which was taken before it.
pub(crate) struct Taken(Option<(PhysAddr, usize)>);

impl Taken {
    /// All of them, the largest first.
    pub(crate) fn all() -> Self {
        let mut taken = Self(None);
        for order in (0..=MAX_ORDER).rev() {
            while let Some(block) = allocate(order) {
                taken.push(block, order);
            }
        }
        taken
    }

    /// Gives one page back. Whether there was one.
    pub(crate) fn free_page(&mut self) -> bool {
        let Some((page, mut order)) = self.pop() else { return false };
        while order > 0 {
            order -= 1;
            divide(page, order + 1, order);
            self.push(page + (page_size().size_bytes() << order), order);
        }
        free(page, 0);
        true
    }

    fn push(&mut self, block: PhysAddr, order: usize) {
        // SAFETY: just allocated, and mapped by the linear map; any bits are such a pair.
        unsafe { note(block).write(self.0) };
        self.0 = Some((block, order));
    }

    fn pop(&mut self) -> Option<(PhysAddr, usize)> {
        let (block, order) = self.0?;
        // SAFETY: written when it was taken, and nobody else has it.
        self.0 = unsafe { note(block).read() };
        Some((block, order))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        while let Some((block, order)) = self.pop() {
            free(block, order);
        }
    }
}

/// A block's first bytes: the block that was taken before it, and that one's order.
fn note(block: PhysAddr) -> *mut Option<(PhysAddr, usize)> {
    facts().linear.address(block).bits() as *mut _
}

fn range(block: PhysAddr, order: usize) -> PhysicalRange {
    PhysicalRange::from_size(block, page_size().size_bytes() << order)
}

/// Gives out `1 << order` pages. Those that cannot be shown stay free.
pub(crate) fn allocate(order: usize) -> Option<PhysAddr> {
    allocate_leaving(order, 0)
}

/// The same, if so many bytes are free afterwards.
#[inline]
pub(crate) fn allocate_leaving(order: usize, bytes: u64) -> Option<PhysAddr> {
    if failing::fails() {
        return None;
    }
    shown(take(order, bytes)?, order)
}

/// A page alone, if so many bytes are free afterwards.
#[inline]
pub(crate) fn allocate_page_leaving(bytes: u64) -> Option<PhysAddr> {
    if failing::fails() {
        return None;
    }
    // A closure of its own: it is compiled for a page.
    let page = with_pages(|pages| if pages.has_room(0, bytes) { pages.allocate(0) } else { None });
    shown(page?, 0)
}

/// `1 << order` pages side by side, each of which is given out by itself, if so many bytes are free afterwards.
pub(crate) fn allocate_pages_leaving(order: usize, bytes: u64) -> Option<PhysAddr> {
    if failing::fails() {
        return None;
    }
    let block = with_pages(|pages| if pages.has_room(order, bytes) { pages.allocate_pages(order) } else { None });
    let Some(keeper) = KEEPER.get() else { return block };
    let block = block?;
    // What could not be shown is free again as it was given out: page by page.
    let is_shown = (keeper.show)(range(block, order));
    if !is_shown {
        give_back_pages(range(block, order));
    }
    (keeper.restock)();
    is_shown.then_some(block)
}

/// What was taken, shown to who asked for it.
#[inline]
fn shown(block: PhysAddr, order: usize) -> Option<PhysAddr> {
    let Some(keeper) = KEEPER.get() else { return Some(block) };
    let shown = keeper.give_out(block, order);
    (keeper.restock)();
    shown
}

/// A page for a table of the linear map. Who restocks asks for it: nothing is restocked.
pub(crate) fn allocate_table() -> Option<PhysAddr> {
    let page = take(0, 0)?;
    KEEPER.get().map_or(Some(page), |keeper| keeper.give_out(page, 0))
}

#[inline]
fn take(order: usize, bytes: u64) -> Option<PhysAddr> {
    with_pages(|pages| if pages.has_room(order, bytes) { pages.allocate(order) } else { None })
}

impl Keeper {
    /// Shows a block. One that cannot be shown is hidden as it was, and free.
    fn give_out(&self, block: PhysAddr, order: usize) -> Option<PhysAddr> {
        let is_shown = (self.show)(range(block, order));
        if !is_shown {
            give_back(block, order);
        }
        is_shown.then_some(block)
    }
}

/// Takes back what [`allocate`] gave out.
pub(crate) fn free(address: PhysAddr, order: usize) {
    let Some(keeper) = KEEPER.get() else { return give_back(address, order) };
    (keeper.hide)(range(address, order));
    give_back(address, order);
    (keeper.restock)();
}

/// Takes back pages side by side that [`allocate`] gave out one by one.
pub(crate) fn free_pages(range: PhysicalRange) {
    if KEEPER.get().is_some() {
        let pages = (0..range.size_bytes() >> page_size().shift()).map(|page| page << page_size().shift());
        return pages.for_each(|offset| free(range.start + offset, 0));
    }
    give_back_pages(range);
}

fn give_back_pages(range: PhysicalRange) {
    if let Err(error) = with_pages(|pages| pages.free_pages(range)) {
        panic!("{error}");
    }
}

/// Makes what [`allocate`] gave out blocks of a smaller order.
pub(crate) fn divide(address: PhysAddr, order: usize, parts: usize) {
    if let Err(error) = with_pages(|pages| pages.divide(address, order, parts)) {
        panic!("{error}");
    }
}

fn give_back(address: PhysAddr, order: usize) {
    if let Err(error) = with_pages(|pages| pages.free(address, order)) {
        panic!("{error}");
    }
}

/// Takes free memory out: nobody gets it any more, and the linear map leads to it. The page that somebody has, or nothing where it
/// could not be shown.
pub(crate) fn remove(range: PhysicalRange) -> Result<(), Option<RemoveError>> {
    with_pages(|pages| pages.remove(range))?;
    if KEEPER.get().is_none_or(|keeper| (keeper.show)(range)) {
        return Ok(());
    }
    take_in(range);
    Err(None)
}

/// Takes memory in that is new, or was removed, and that the linear map leads to.
pub(crate) fn add(range: PhysicalRange) {
    if let Some(keeper) = KEEPER.get() {
        (keeper.hide)(range);
    }
    take_in(range);
}

fn take_in(range: PhysicalRange) {
    if let Err(error) = with_pages(|pages| pages.add(range)) {
        panic!("{error}");
    }
}

/// Takes back a page that was a table. One that the early allocator gave out is new to the page allocator, which has it from now on.
pub(crate) fn free_table(table: PhysAddr) {
    let (page, keeper) = (range(table, 0), KEEPER.get());
    // Before it is free: from then on it may be somebody's.
    keeper.map(|keeper| (keeper.hide)(page));
    if with_pages(|pages| pages.free(table, 0).is_err() && pages.add(page).is_err()) {
        keeper.map(|keeper| (keeper.show)(page));
    }
}
