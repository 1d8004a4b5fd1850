//! The frames that every contender builds its tables with, and the one way to their descriptors.
//!
//! Physical addresses are the host's own, so that no contender pays for a translation between the two. This file and
//! `peers/` are the bench's only unsafe ones: tables are raw memory to whoever walks them.

use std::alloc::{Layout, alloc_zeroed};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use pagetable::{Platform, Slot};
use vmsa::{Descriptor, Maintenance};

/// Bytes of the arena: more than the tables of any row.
const ARENA_BYTES: usize = 256 << 20;
/// Frames are aligned to the largest granule.
const ALIGNMENT: usize = 1 << 16;

/// A stack of free frames above a mark that only rises. Whoever takes a frame finds it zeroed only if it asks.
#[derive(Debug, Default)]
struct Arena {
    next: Cell<u64>,
    /// The first free frame, whose first word is the address of the next; 0 if there is none.
    free: Cell<u64>,
    in_use: Cell<u64>,
}

thread_local! {
    static ARENA: Arena = const { Arena { next: Cell::new(0), free: Cell::new(0), in_use: Cell::new(0) } };
}

/// Reserves the arena. A run does so once, before anything is measured.
pub(crate) fn reserve_arena() {
    // Aligned by hand: memory of a large alignment would be cleared at once, and all of it be touched.
    let layout = Layout::from_size_align(ARENA_BYTES + ALIGNMENT, 1).expect("a layout");
    // SAFETY: the layout has a size. What is allocated is never freed.
    let base = unsafe { alloc_zeroed(layout) };
    assert!(!base.is_null(), "no memory for {ARENA_BYTES} bytes of tables");
    ARENA.with(|arena| arena.next.set(base.expose_provenance().next_multiple_of(ALIGNMENT) as u64));
}

/// A frame, with whatever it held before.
#[inline]
pub fn take_frame(bytes: u64) -> u64 {
    ARENA.with(|arena| {
        arena.in_use.set(arena.in_use.get() + 1);
        let free = arena.free.get();
        if free != 0 {
            arena.free.set(load(free));
            return free;
        }
        let frame = arena.next.get();
        arena.next.set(frame + bytes);
        frame
    })
}

/// A frame of zeros.
#[inline]
pub fn take_zeroed_frame(bytes: u64) -> u64 {
    let frame = take_frame(bytes);
    // SAFETY: the frame is `bytes` of the arena, and nobody else's.
    unsafe { pointer(frame).cast::<u8>().write_bytes(0, bytes as usize) };
    frame
}

/// Gives a frame back. All frames of a run have one size.
#[inline]
pub fn give_frame(frame: u64) {
    ARENA.with(|arena| {
        arena.in_use.set(arena.in_use.get() - 1);
        store(frame, arena.free.get());
        arena.free.set(frame);
    });
}

/// Frames taken and not given back.
pub(crate) fn frames_in_use() -> u64 {
    ARENA.with(|arena| arena.in_use.get())
}

/// The memory at a physical address of the arena.
#[inline(always)]
fn pointer(address: u64) -> *mut u64 {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// Reads the descriptor at a physical address, which hardware might be writing.
#[inline(always)]
pub(crate) fn load(address: u64) -> u64 {
    // SAFETY: every address that a contender follows is that of a slot in a frame of the arena, which is never freed.
    unsafe { pointer(address).read_volatile() }
}

/// Writes the descriptor at a physical address, which hardware might be reading.
#[inline(always)]
pub(crate) fn store(address: u64, bits: u64) {
    // SAFETY: as in `load`.
    unsafe { pointer(address).write_volatile(bits) };
}

/// Writes a descriptor of a table that nobody can reach: the compiler may store several at once.
#[inline(always)]
pub(crate) fn store_unreached(address: u64, bits: u64) {
    // SAFETY: as in `load`.
    unsafe { pointer(address).write(bits) };
}

#[inline(always)]
fn exchange(address: u64, old: u64, new: u64) -> Result<(), u64> {
    // SAFETY: as in `load`.
    let slot = unsafe { AtomicU64::from_ptr(pointer(address)) };
    slot.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed).map(|_| ())
}

/// What the engine works on: a platform, made anew for each page table.
pub(crate) trait Machine: Platform + Default + 'static {
    /// Whether the page tables on it are walked by hardware.
    const IS_LIVE: bool;

    /// TLBIs that were issued.
    fn tlbis(&self) -> u64;
}

/// Memory whose barriers and TLBIs are empty.
#[derive(Debug, Default)]
pub(crate) struct Silent;

/// Memory that counts TLBIs.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    tlbis: Cell<u64>,
}

macro_rules! platform {
    ($name:ident, $is_live:literal, |$machine:ident, $operation:ident| $maintain:expr, $tlbis:expr) => {
        impl Platform for $name {
            #[inline(always)]
            fn load(&self, slot: Slot) -> Descriptor {
                Descriptor::new(load(slot.address().bits()))
            }

            #[inline(always)]
            fn store(&self, slot: Slot, descriptor: Descriptor) {
                store(slot.address().bits(), descriptor.bits());
            }

            #[inline(always)]
            fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
                exchange(slot.address().bits(), old.bits(), new.bits()).map_err(Descriptor::new)
            }

            #[inline(always)]
            fn maintain(&self, $operation: Maintenance) {
                let $machine = self;
                $maintain
            }
        }

        impl Machine for $name {
            const IS_LIVE: bool = $is_live;

            fn tlbis(&self) -> u64 {
                let $machine = self;
                $tlbis
            }
        }
    };
}

platform!(Silent, false, |_machine, _operation| (), 0);
platform!(
    Counting,
    true,
    |machine, operation| if let Maintenance::Invalidate(..) = operation {
        machine.tlbis.set(machine.tlbis.get() + 1);
    },
    machine.tlbis.get()
);
