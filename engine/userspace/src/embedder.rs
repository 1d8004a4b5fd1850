//! What a kernel brings: frames, files, a lock.

use core::ops::Range;

use pagetable::{Licence, Platform};
use vmsa::{Granule, PhysAddr};

/// Parts of an address space, in which faults go side by side.
pub const PARTS: usize = 16;

/// A lock. It is held for as long as a call edits tables and areas, which for a large range is long: a lock whose waiters sleep is
/// meant, or one that is taken with interrupts enabled. Nothing is zeroed, copied or read from a file while it is held.
///
/// ```text
///   with         ├── one, and nobody beside ──┤
///   with_part    ├── one of part 0 ──┤ ├── one of part 1 ──┤ … ├── one of part 15 ──┤      any of these side by side
/// ```
pub trait Lock<T> {
    /// A lock of this.
    fn new(held: T) -> Self;

    /// Runs `body` with what it guards, which nobody else sees meanwhile, be it in a part.
    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R;

    /// Runs `body` with what it guards, while nobody else has that part, one of [`PARTS`], or the whole; who has other parts sees it
    /// beside. Where no part is told from others each is the whole, and faults of one process come one after the other.
    fn with_part<R>(&self, part: usize, body: impl FnOnce(&T) -> R) -> R {
        let _ = part;
        self.with(|held| body(held))
    }

    /// Runs `body` with what it guards if a part, or the whole, is free at once. What is seen may change beside.
    fn try_with<R>(&self, body: impl FnOnce(&T) -> R) -> Option<R> {
        Some(self.with(|held| body(held)))
    }
}

/// Frames: pages of memory, each of which counts who refers to it. May be called while the lock of an address space is held, but for
/// [`Self::zero_folio`], [`Self::copy`] and [`Self::zeros`], which never are.
#[expect(unused_variables, reason = "what is given here looks at few of them")]
pub trait Frames {
    /// A frame with one reference, whatever it holds; `None` if there is none.
    fn take(&self) -> Option<PhysAddr>;

    /// `1 << order` frames side by side, aligned to their size, each of them as [`Self::take`] gives it out: a folio. `None` if there is
    /// none, and pages are taken one by one.
    fn take_folio(&self, order: u32) -> Option<PhysAddr> {
        if order == 0 { self.take() } else { None }
    }

    /// One reference more.
    fn share(&self, frame: PhysAddr);

    /// The same of so many frames side by side, of `1 << shift` bytes each.
    fn share_run(&self, first: PhysAddr, frames: u64, shift: u32) {
        (0..frames).for_each(|frame| self.share(first + (frame << shift)));
    }

    /// One reference less; without any the frame is free.
    fn release(&self, frame: PhysAddr);

    /// The same of so many frames side by side, of `1 << shift` bytes each.
    fn release_run(&self, first: PhysAddr, frames: u64, shift: u32) {
        (0..frames).for_each(|frame| self.release(first + (frame << shift)));
    }

    /// Whether there is one reference alone.
    fn is_sole(&self, frame: PhysAddr) -> bool;

    /// Writes zeros all over a frame that nobody else knows of.
    fn zero(&self, frame: PhysAddr) {
        self.zero_folio(frame, 0);
    }

    /// The same of `1 << order` frames side by side.
    fn zero_folio(&self, first: PhysAddr, order: u32);

    /// Copies a frame to one that nobody else knows of. What other CPUs may be writing to `from` meanwhile may be torn: nobody sees
    /// the copy then.
    fn copy(&self, to: PhysAddr, from: PhysAddr);

    /// Lets every CPU fetch what a frame holds as instructions, at whatever address: what was written to it may be in caches of data
    /// alone, and what it held before in those of instructions. Called before a program may execute the page.
    fn make_fetchable(&self, frame: PhysAddr);

    /// The frame of zeros, which is nobody's and never written. It is not counted.
    fn zero_frame(&self) -> PhysAddr;

    /// `1 << order` frames side by side, aligned to their size, of which the same holds: what is read of a range that nobody has written, as
    /// large as a block. `None` if there are none, and one page is read. Never called while a lock is held: they may be made only then.
    fn zeros(&self, order: u32) -> Option<PhysAddr> {
        None
    }

    /// A page for a table, in no other use.
    fn take_table(&self) -> Option<PhysAddr> {
        self.take()
    }

    /// Takes back what [`Self::take_table`] gave out.
    fn release_table(&self, table: PhysAddr) {
        self.release(table);
    }
}

/// Why a file has no such page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileError {
    /// It ends before: SIGBUS.
    Beyond,
    /// There is no memory to hold it.
    NoMemory,
}

/// What can be mapped and is not anonymous: a file, memory that processes share. A clone is another reference to the same.
#[expect(unused_variables, reason = "what is given here looks at few of them")]
pub trait File: Clone + PartialEq {
    /// The frame that holds page `index`, with one reference more, which is the caller's. Never called while a lock is held.
    fn frame(&self, index: u64) -> Result<PhysAddr, FileError>;

    /// Gives `sink` the number and the frame of each of these pages that is in memory, with one reference more, which is the caller's:
    /// it may be mapped around another that is read. Never called while a lock is held.
    fn resident_frames(&self, pages: Range<u64>, sink: impl FnMut(u64, PhysAddr)) {}

    /// A program may write page `index` from now on, through a shared mapping.
    fn mark_written(&self, index: u64) {}

    /// Whether page `index` is in memory: what `mincore` says of a page that no table maps.
    fn is_resident(&self, index: u64) -> bool {
        true
    }
}

/// A kernel, as its address spaces see it. A clone is the same kernel.
#[expect(unused_variables, reason = "what is given here looks at few of them")]
pub trait Embedder: Frames + Clone {
    /// The page size.
    type Granule: Granule;
    /// How tables are read and written.
    type Platform: Platform;
    /// What can be mapped.
    type File: File;
    /// A lock.
    type Lock<T>: Lock<T>;

    /// The platform.
    fn platform(&self) -> &Self::Platform;

    /// What a shared anonymous mapping of so many pages maps: a file of zeros without a name.
    fn shared_memory(&self, pages: u64) -> Option<Self::File>;

    /// Whether the heap may give so many bytes to a program's areas: a call for which it may not reports [`crate::Error::NoMemory`], as
    /// does one that the heap then has no memory for.
    fn has_heap(&self, bytes: usize) -> bool {
        true
    }

    /// The orders of the folios that a write to anonymous memory may fill at once, a bit each, of memory that was advised to have large
    /// ones (MADV_HUGEPAGE) or of any other: the largest that has room is taken, and a page where none has. The size of a contiguous
    /// group or of a block makes one leaf; none is larger than a block.
    fn folio_orders(&self, is_advised: bool) -> u32 {
        0
    }

    /// How a live leaf becomes smaller, and how a contiguous group may not be written any more. Unless every CPU tolerates that in place it is
    /// invalid for a moment: who meets it then, be it in a copy of the kernel's, has its fault made good by [`crate::AddressSpace::fault`], which
    /// waits for the lock.
    fn licence(&self) -> Licence<'_> {
        Licence::break_before_make(self)
    }

    /// Runs `resize`, in which live leaves of a range may change size in place, or members of a contiguous group differ for a moment: for a kernel
    /// that tells somebody beneath of it. Not
    /// called under a licence by which a leaf is broken before it is made, as no TLB holds both then, nor where CPUs do not keep it
    /// meanwhile (nT).
    fn announce(&self, range: Range<u64>, resize: &mut dyn FnMut()) {
        resize();
    }

    /// Long calls ask this in each of their rounds, with the lock of the space held or not: others may run meanwhile. Whether the call goes on:
    /// where the thread that makes it is to end, what may be done in part ends with [`crate::Error::Interrupted`]. What must be done as a
    /// whole goes on all the same.
    fn goes_on(&self) -> bool {
        true
    }

    /// Called at the end of each call, under the lock of the whole. `find_stray` reads all tables and returns an address that is mapped outside
    /// every area, or whose leaf goes on beyond its area or has other rights: a fault of this crate. By default only debug builds look.
    ///
    /// # Panics
    ///
    /// If there is such an address and debug assertions are on.
    fn check(&self, find_stray: &dyn Fn() -> Option<u64>) {
        debug_assert_eq!(find_stray(), None, "a leaf that its area does not explain");
    }

    /// Counts so many pages as promised, which programs may write one day; `false` if that is more than the kernel promises.
    fn commit(&self, pages: u64) -> bool {
        true
    }

    /// So many are promised no longer.
    fn uncommit(&self, pages: u64) {}
}
