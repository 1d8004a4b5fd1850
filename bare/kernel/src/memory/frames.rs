//! Pages that programs and files have, counted: one page may be in many page tables, and in a file.

use alloc::vec::Vec;
use core::ops::Range;
use core::slice;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hardware::cache;
use kerncore::counts::Counts;
use kerncore::range::PhysicalRange;
use spin::Once;
use vmsa::PhysAddr;

use crate::facts::{facts, page_size};
use crate::fallible::List;
use crate::memory::{folios, pages, ranges};

/// Bytes that stay free where a fault takes a page: what the kernel needs to go on when programs have taken the rest.
///
/// ```text
///   free   all ── calls: content of files, large lists ── 2 kept ── faults, tables ── kept ── small lists ── kept / 2 ── who ends ── 0
/// ```
/// A call that finds no memory fails. A fault cannot: for it a process ends. So calls find none first.
const KEPT_BYTES: u64 = 8 << 20;
/// The same in parts of all memory, where that is less.
const KEPT_PART: u64 = 16;

/// How many have each page of a range of memory.
struct Counted {
    start: PhysAddr,
    bytes: u64,
    /// log2 of the bytes of a page: at hand where a fault looks.
    shift: u32,
    counts: Counts<'static, AtomicU32>,
}

static COUNTED: Once<Vec<Counted>> = Once::new();
static ZERO: Once<PhysAddr> = Once::new();
/// A block of zeros, once a program has read where one may be, or [`NO_ZEROS`].
static ZEROS: AtomicU64 = AtomicU64::new(NO_ZEROS);
const NO_ZEROS: u64 = u64::MAX;
/// They stay while there are programs, so that they are made only of memory of which this part is free.
const ZEROS_PART: u64 = 16;
/// Pages that are counted now.
static TAKEN: AtomicU64 = AtomicU64::new(0);
/// Those of them that are tables of programs.
static TABLES: AtomicU64 = AtomicU64::new(0);
static KEPT: AtomicU64 = AtomicU64::new(0);

/// Pages can be counted from now on. Whether there is memory for it.
pub(crate) fn start() -> bool {
    let shift = page_size().shift();
    let free = pages::with_pages(|pages| pages.free_bytes());
    KEPT.store(KEPT_BYTES.min(free / KEPT_PART), Ordering::Relaxed);
    let mut all = Vec::new();
    for range in ranges::mappable().iter().copied() {
        let count = (range.size_bytes() >> shift) as usize;
        let mut counts = Vec::new();
        if counts.try_reserve_exact(count).is_err() {
            return false;
        }
        counts.resize_with(count, AtomicU32::default);
        let counts = Counts::new((range.start.bits() >> shift) as usize, counts.leak());
        if all.try_push(Counted { start: range.start, bytes: range.size_bytes(), shift, counts }).is_err() {
            return false;
        }
    }
    COUNTED.call_once(|| all);
    let Some(zero) = take() else { return false };
    self::zero(zero);
    ZERO.call_once(|| zero);
    true
}

/// The counts that a page's is among, and its place there.
#[inline]
fn counted(frame: PhysAddr) -> (&'static Counted, usize) {
    find(frame).expect("a page of a program's comes from what the linear map covers")
}

#[inline]
fn find(frame: PhysAddr) -> Option<(&'static Counted, usize)> {
    COUNTED.get()?.iter().find_map(|counted| {
        // One comparison for both ends.
        let offset = frame.bits().wrapping_sub(counted.start.bits());
        (offset < counted.bytes).then_some((counted, (offset >> counted.shift) as usize))
    })
}

/// Bytes that programs may take by faults: what is free beside what is kept.
pub(crate) fn available_bytes() -> u64 {
    pages::with_pages(|pages| pages.free_bytes()).saturating_sub(KEPT.load(Ordering::Relaxed))
}

/// Whether programs may take so many pages more.
pub(crate) fn has_room(count: u64) -> bool {
    available_bytes() >= count * page_size().size_bytes()
}

/// Bytes that stay free where the heap takes so many for the thread that runs, which does not end.
pub(crate) fn left_by_heap(bytes: u64) -> u64 {
    /// As much as a program has with most calls, however large what it passes.
    const FEW: u64 = 32 << 10;
    let kept = KEPT.load(Ordering::Relaxed);
    if bytes > FEW { 2 * kept } else { kept / 2 }
}

/// All pages that the linear map covers.
pub(crate) fn all_pages() -> u64 {
    ranges::mapped_bytes() >> page_size().shift()
}

/// A page, whatever it holds, that one has: for a fault.
pub(crate) fn take() -> Option<PhysAddr> {
    take_leaving(KEPT.load(Ordering::Relaxed))
}

fn take_leaving(bytes: u64) -> Option<PhysAddr> {
    let frame = pages::allocate_page_leaving(bytes)?;
    hold(frame);
    TAKEN.fetch_add(1, Ordering::Relaxed);
    Some(frame)
}

/// `1 << order` pages side by side, aligned to their size, each of which one has.
pub(crate) fn take_folio(order: u32) -> Option<PhysAddr> {
    if order == 0 {
        return take();
    }
    let first = pages::allocate_pages_leaving(order as usize, KEPT.load(Ordering::Relaxed))?;
    let (counted, place) = counted(first);
    counted.counts.take_folio(place, order);
    TAKEN.fetch_add(1 << order, Ordering::Relaxed);
    Some(first)
}

/// A page for a table of a program's.
pub(crate) fn take_table() -> Option<PhysAddr> {
    take().inspect(|_| _ = TABLES.fetch_add(1, Ordering::Relaxed))
}

/// Takes back what [`take_table`] gave out.
pub(crate) fn release_table(table: PhysAddr) {
    TABLES.fetch_sub(1, Ordering::Relaxed);
    release(table);
}

/// One has a page that was not taken here, and gives it back elsewhere.
#[inline]
pub(crate) fn hold(frame: PhysAddr) {
    let (counted, place) = counted(frame);
    counted.counts.take(place);
}

/// One more has it.
pub(crate) fn share(frame: PhysAddr) {
    let (counted, place) = counted(frame);
    counted.counts.share(place);
}

/// One less; with the last it is free.
pub(crate) fn release(frame: PhysAddr) {
    let (counted, place) = counted(frame);
    if counted.counts.release(place) {
        TAKEN.fetch_sub(1, Ordering::Relaxed);
        pages::free(frame, 0);
    }
}

/// The same of so many pages side by side.
pub(crate) fn release_run(first: PhysAddr, count: usize) {
    for_each_range(first, count, |counted, places| {
        counted.counts.release_run(places, |free| {
            TAKEN.fetch_sub(free.len() as u64, Ordering::Relaxed);
            let start = counted.start + ((free.start as u64) << counted.shift);
            pages::free_pages(PhysicalRange::from_size(start, (free.len() as u64) << counted.shift));
        });
    });
}

/// One more has each of so many pages side by side.
pub(crate) fn share_run(first: PhysAddr, count: usize) {
    for_each_range(first, count, |counted, places| counted.counts.share_run(places));
}

/// Gives `each` the places of pages side by side, be it in several ranges of memory that touch.
fn for_each_range(mut first: PhysAddr, mut count: usize, each: impl Fn(&'static Counted, Range<usize>)) {
    while count > 0 {
        let (counted, place) = counted(first);
        let here = count.min(counted.counts.len() - place);
        each(counted, place..place + here);
        first = first + ((here as u64) << counted.shift);
        count -= here;
    }
}

/// Whether one alone has it, who asks.
pub(crate) fn is_sole(frame: PhysAddr) -> bool {
    holders(frame) == 1
}

/// How many have it.
pub(crate) fn holders(frame: PhysAddr) -> u32 {
    let (counted, place) = counted(frame);
    counted.counts.holders(place)
}

/// How many have it, of a page that may be nobody's or not of a program's.
pub(crate) fn known_holders(frame: PhysAddr) -> Option<u32> {
    let (counted, place) = find(frame)?;
    Some(counted.counts.holders(place)).filter(|count| *count > 0)
}

/// A page of zeros, which nobody writes.
pub(crate) fn zero_frame() -> PhysAddr {
    *ZERO.get().expect("`start` comes before programs")
}

/// `1 << order` pages of zeros side by side, aligned to their size, which nobody writes: a block, always of the same order. `None` where
/// memory has no block to spare.
pub(crate) fn zeros(order: u32) -> Option<PhysAddr> {
    // With the release below: the block is wiped.
    let zeros = ZEROS.load(Ordering::Acquire);
    if zeros != NO_ZEROS {
        return Some(PhysAddr::new(zeros));
    }
    if !has_room(ZEROS_PART << order) {
        return None;
    }
    let made = pages::allocate_leaving(order as usize, KEPT.load(Ordering::Relaxed))?;
    pages::wipe(made, order as usize);
    match ZEROS.compare_exchange(NO_ZEROS, made.bits(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(made),
        Err(zeros) => {
            // Another CPU was faster.
            pages::free(made, order as usize);
            Some(PhysAddr::new(zeros))
        }
    }
}

/// Frees the block of zeros: no program is left that could have it mapped.
pub(crate) fn forget_zeros() {
    let zeros = ZEROS.swap(NO_ZEROS, Ordering::AcqRel);
    if zeros != NO_ZEROS {
        pages::free(PhysAddr::new(zeros), folios::block() as usize);
    }
}

/// Bytes of pages that programs and files have.
pub(crate) fn taken_bytes() -> u64 {
    TAKEN.load(Ordering::Relaxed) * page_size().size_bytes()
}

/// Pages that are tables of programs.
pub(crate) fn tables() -> u64 {
    TABLES.load(Ordering::Relaxed)
}

/// The bytes of a page by the linear map. A program that has it mapped may change them meanwhile: for copies alone.
#[expect(clippy::mut_from_ref, reason = "it is no reference to the address that is passed")]
pub(crate) fn bytes(frame: &PhysAddr) -> &mut [u8] {
    let address = facts().linear.address(*frame).bits();
    // SAFETY: the linear map holds every page that is taken, writable; any bits are bytes. Who asks has the page.
    unsafe { slice::from_raw_parts_mut(address as *mut u8, page_size().size_bytes() as usize) }
}

/// Fills a page with zeros.
pub(crate) fn zero(frame: PhysAddr) {
    pages::wipe(frame, 0);
}

/// Copies a page.
pub(crate) fn copy(to: PhysAddr, from: PhysAddr) {
    bytes(&to).copy_from_slice(bytes(&from));
}

/// Lets every CPU fetch what a page holds, at the addresses of programs too.
pub(crate) fn make_fetchable(frame: PhysAddr) {
    let start = bytes(&frame).as_ptr() as usize;
    cache::synchronize_aliased_instructions(start..start + page_size().size_bytes() as usize);
}

/// A page that one has until it is dropped.
pub(crate) struct Frame(pub(crate) PhysAddr);

impl Frame {
    /// A page of zeros, for a fault.
    pub(crate) fn zeroed() -> Option<Self> {
        take().map(Self::of_zeros)
    }

    /// A page of zeros, for a call, which fails without one.
    pub(crate) fn zeroed_for_call() -> Option<Self> {
        take_leaving(2 * KEPT.load(Ordering::Relaxed)).map(Self::of_zeros)
    }

    fn of_zeros(frame: PhysAddr) -> Self {
        zero(frame);
        Self(frame)
    }
}

impl Clone for Frame {
    fn clone(&self) -> Self {
        share(self.0);
        Self(self.0)
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        release(self.0);
    }
}
