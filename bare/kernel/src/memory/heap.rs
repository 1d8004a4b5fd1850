//! The kernel's heap: objects of one size share a page, larger ones are blocks of pages. A page goes back as soon as nothing is
//! left in it, so that what a process took is free to the page when it has ended.
//!
//! ```text
//! page   | head: size, used, free objects, neighbours |  object | object | ...
//! ```

use core::alloc::{GlobalAlloc, Layout};
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use vmsa::PhysAddr;

use crate::facts::{facts, page_size};
use crate::locks::{Lock, order};
use crate::memory::{failing, frames, pages};
use crate::threads::dispatcher;

/// log2 of the smallest object, and how many sizes there are, each twice the one before.
const SMALLEST: u32 = 5;
const SIZES: usize = 10;

/// The head of a page of objects.
struct Head {
    /// log2 of the size of its objects.
    shift: u32,
    used: u32,
    free: *mut Free,
    previous: *mut Head,
    next: *mut Head,
}

/// An object that nobody has.
struct Free {
    next: *mut Free,
}

/// For each size the pages in which something is free.
struct Sizes {
    pages: [*mut Head; SIZES],
    objects: Objects,
}

/// Objects of each size that shares pages, and pages of larger ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Objects {
    pub(crate) shared: [u32; SIZES],
    pub(crate) pages_of_larger: u32,
}

// SAFETY: what the pointers lead to is the heap's alone, and reached under its lock.
unsafe impl Send for Sizes {}

struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;
static OBJECTS: Lock<Sizes> = Lock::new(
    order::HEAP,
    Sizes { pages: [ptr::null_mut(); SIZES], objects: Objects { shared: [0; SIZES], pages_of_larger: 0 } },
);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes of pages that the heap has.
pub(crate) fn bytes() -> u64 {
    BYTES.load(Ordering::Relaxed)
}

/// What the heap holds.
pub(crate) fn objects() -> Objects {
    OBJECTS.with(|sizes| sizes.objects)
}

impl Objects {
    /// What there is more of than `before`: bytes of an object, and how many.
    pub(crate) fn beyond(&self, before: &Self) -> impl Iterator<Item = (u64, u32)> {
        let larger = (page_size().size_bytes(), self.pages_of_larger, before.pages_of_larger);
        let shared = self.shared.iter().zip(before.shared).zip(SMALLEST..);
        let shared = shared.map(|((now, before), shift)| (1 << shift, *now, before));
        shared.chain([larger]).filter(|(_, now, before)| now > before).map(|(bytes, now, before)| (bytes, now - before))
    }
}

/// log2 of the size of an object for this layout.
fn shift(layout: Layout) -> u32 {
    layout.size().max(layout.align()).next_power_of_two().trailing_zeros().max(SMALLEST)
}

/// Whether objects of this size share a page: at least three of them with its head.
fn is_shared(shift: u32) -> bool {
    shift + 2 <= page_size().shift() && ((shift - SMALLEST) as usize) < SIZES
}

fn order(shift: u32) -> usize {
    shift.saturating_sub(page_size().shift()) as usize
}

fn take_pages(order: usize) -> Option<*mut u8> {
    let bytes = page_size().size_bytes() << order;
    let left = if dispatcher::runs_a_thread() { frames::left_by_heap(bytes) } else { 0 };
    let block = pages::allocate_leaving(order, left)?;
    BYTES.fetch_add(bytes, Ordering::Relaxed);
    Some(facts().linear.address(block).bits() as *mut u8)
}

fn give_pages(block: *mut u8, order: usize) {
    BYTES.fetch_sub(page_size().size_bytes() << order, Ordering::Relaxed);
    pages::free(PhysAddr::new((block as u64).wrapping_sub(facts().linear.offset())), order);
}

fn take_larger(order: usize) -> *mut u8 {
    let Some(block) = take_pages(order) else { return ptr::null_mut() };
    OBJECTS.with(|sizes| sizes.objects.pages_of_larger += 1 << order);
    block
}

fn give_larger(block: *mut u8, order: usize) {
    OBJECTS.with(|sizes| sizes.objects.pages_of_larger -= 1 << order);
    give_pages(block, order);
}

// SAFETY: blocks come from the page allocator, which gives each out once; objects lie in such blocks, on multiples of their size.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if failing::fails() {
            return ptr::null_mut();
        }
        let shift = shift(layout);
        match is_shared(shift) {
            true => OBJECTS.with(|sizes| sizes.take(shift)),
            false => take_larger(order(shift)),
        }
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        let shift = shift(layout);
        match is_shared(shift) {
            // SAFETY: the caller gives back what `alloc` gave out with this layout.
            true => OBJECTS.with(|sizes| unsafe { sizes.give(object, shift) }),
            false => give_larger(object, order(shift)),
        }
    }
}

impl Sizes {
    fn take(&mut self, shift: u32) -> *mut u8 {
        let list = (shift - SMALLEST) as usize;
        if self.pages[list].is_null() {
            let Some(page) = take_pages(0) else { return ptr::null_mut() };
            self.pages[list] = fill(page, shift);
        }
        // SAFETY: pages in the list have a head and a free object, and are reached under the lock alone.
        let head = unsafe { &mut *self.pages[list] };
        let object = head.free;
        // SAFETY: a free object holds its successor.
        head.free = unsafe { (*object).next };
        head.used += 1;
        self.objects.shared[list] += 1;
        if head.free.is_null() {
            self.unlink(head);
        }
        object.cast()
    }

    /// # Safety
    ///
    /// The object came from [`Self::take`] with this size, and nobody has it any more.
    unsafe fn give(&mut self, object: *mut u8, shift: u32) {
        let page = object as u64 & !(page_size().size_bytes() - 1);
        // SAFETY: objects lie in pages that begin with a head.
        let head = unsafe { &mut *(page as *mut Head) };
        let was_full = head.free.is_null();
        let object = object.cast::<Free>();
        // SAFETY: as large as the least object, and nobody's.
        unsafe { object.write(Free { next: head.free }) };
        head.free = object;
        head.used -= 1;
        self.objects.shared[(shift - SMALLEST) as usize] -= 1;
        if was_full {
            self.link(head, shift);
        }
        if head.used == 0 {
            self.unlink(head);
            give_pages(ptr::from_mut(head).cast(), 0);
        }
    }

    fn link(&mut self, head: &mut Head, shift: u32) {
        let first = &mut self.pages[(shift - SMALLEST) as usize];
        (head.previous, head.next) = (ptr::null_mut(), *first);
        // SAFETY: what is in the list is a head, or null.
        if let Some(next) = unsafe { first.as_mut() } {
            next.previous = head;
        }
        *first = head;
    }

    fn unlink(&mut self, head: &mut Head) {
        // SAFETY: neighbours in the list are heads, or null.
        match unsafe { head.previous.as_mut() } {
            Some(previous) => previous.next = head.next,
            None => self.pages[(head.shift - SMALLEST) as usize] = head.next,
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { head.next.as_mut() } {
            next.previous = head.previous;
        }
    }
}

/// Makes a page one of free objects.
fn fill(page: *mut u8, shift: u32) -> *mut Head {
    let size = 1usize << shift;
    let first = size_of::<Head>().next_multiple_of(size);
    let mut free = ptr::null_mut();
    for at in (first..page_size().size_bytes() as usize).step_by(size).rev() {
        // SAFETY: inside the page, which is the heap's.
        let object = unsafe { page.add(at) }.cast::<Free>();
        // SAFETY: as above.
        unsafe { object.write(Free { next: free }) };
        free = object;
    }
    let head = page.cast::<Head>();
    // SAFETY: the page begins with its head, and objects lie behind.
    unsafe { head.write(Head { shift, used: 0, free, previous: ptr::null_mut(), next: ptr::null_mut() }) };
    head
}
