//! For each 4 KiB of the guest's memory one word, which is all that a store costs elsewhere: a table is there, or which CPU last
//! stored there, and after how many of its barriers.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::fresh::Fresh;
use crate::locks::Locks;

/// Frames of a region: 1 GiB.
const FRAMES: usize = 1 << 18;
/// Regions: 48 bits of physical addresses.
const REGIONS: usize = 1 << 18;
/// CPUs at most, and of a tag the bits that count.
const CPUS: usize = 64;
const COUNT_BITS: u32 = 26;

/// A table is there.
const TABLE: u32 = u32::MAX;

/// Pieces of a region of which it is known whether memory is there: 2 MiB.
const PIECES: usize = 512;

/// What is known of 1 GiB; made when somebody stores there.
#[derive(Debug)]
struct Region {
    /// One word for each frame.
    frames: Box<[AtomicU32]>,
    /// One bit for each piece in which some CPU has stored: memory is there, and no device.
    memory: [AtomicU64; PIECES / 64],
}

/// What is known of every frame.
#[derive(Debug)]
pub struct Frames {
    regions: Vec<OnceLock<Region>>,
    /// What each CPU marks a frame with that it stores to.
    tags: [AtomicU32; CPUS],
    /// What each CPU may use before walks are sure to find it.
    pub fresh: Fresh,
    /// Who has to tell of locks.
    pub locks: Locks,
}

/// Who stored to a frame last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Writer {
    /// The CPU.
    pub cpu: u8,
    /// How many barriers for stores it had executed, and one.
    pub count: u32,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            regions: (0..REGIONS).map(|_| OnceLock::new()).collect(),
            tags: std::array::from_fn(|cpu| AtomicU32::new((cpu as u32) << COUNT_BITS | 1)),
            fresh: Fresh::default(),
            locks: Locks::default(),
        }
    }
}

impl Frames {
    /// `cpu` has stored at `address`: true where a table is, otherwise remembered.
    #[inline]
    pub fn store(&self, cpu: u8, address: u64) -> bool {
        let Some(frame) = self.frame(address) else { return false };
        let (held, tag) = (frame.load(Ordering::Relaxed), self.tags[usize::from(cpu)].load(Ordering::Relaxed));
        // Mostly it is marked so already. A table that another CPU's thread makes known meanwhile stays one.
        let mark = |held| (held != TABLE).then_some(tag);
        if held == 0 {
            self.note_memory(address);
        }
        held != tag && frame.fetch_update(Ordering::Relaxed, Ordering::Relaxed, mark).is_err()
    }

    /// Whether memory is known to be there: some CPU has stored in the same 2 MiB. Where a device is, to read may do something,
    /// and takes a lock of QEMU's that a CPU may hold which waits for ours.
    pub fn has_memory(&self, address: u64) -> bool {
        let known = self.regions.get((address >> 30) as usize).and_then(OnceLock::get);
        let piece = (address >> 21) as usize % PIECES;
        known.is_some_and(|it| it.memory[piece / 64].load(Ordering::Relaxed) >> (piece % 64) & 1 == 1)
    }

    #[cold]
    fn note_memory(&self, address: u64) {
        let piece = (address >> 21) as usize % PIECES;
        if let Some(known) = self.regions.get((address >> 30) as usize).and_then(OnceLock::get) {
            known.memory[piece / 64].fetch_or(1 << (piece % 64), Ordering::Relaxed);
        }
    }

    /// `cpu` has executed a barrier that orders its stores.
    pub fn order(&self, cpu: u8) {
        let tag = &self.tags[usize::from(cpu)];
        let count = (tag.load(Ordering::Relaxed) + 1) & ((1 << COUNT_BITS) - 1);
        // 0 is nobody's, and all ones are a table's.
        let count = if count == (1 << COUNT_BITS) - 1 { 1 } else { count };
        tag.store(u32::from(cpu) << COUNT_BITS | count, Ordering::Relaxed);
    }

    /// What `cpu` marks frames with now.
    pub fn now(&self, cpu: u8) -> u32 {
        self.tags[usize::from(cpu)].load(Ordering::Relaxed) & ((1 << COUNT_BITS) - 1)
    }

    /// Who stored there last, where no table is.
    pub fn writer(&self, address: u64) -> Option<Writer> {
        let tag = self.frame(address)?.load(Ordering::Relaxed);
        let is_known = tag != 0 && tag != TABLE;
        is_known.then_some(Writer { cpu: (tag >> COUNT_BITS) as u8, count: tag & ((1 << COUNT_BITS) - 1) })
    }

    /// Whether a table is there.
    pub fn is_table(&self, address: u64) -> bool {
        self.frame(address).is_some_and(|frame| frame.load(Ordering::Relaxed) == TABLE)
    }

    /// From now on a table is there, or none any more.
    pub fn set_table(&self, address: u64, is_table: bool) {
        if let Some(frame) = self.frame(address) {
            frame.store(if is_table { TABLE } else { 0 }, Ordering::Relaxed);
        }
    }

    #[inline]
    fn frame(&self, address: u64) -> Option<&AtomicU32> {
        let region = self.regions.get((address >> 30) as usize)?;
        let made = || Region {
            frames: (0..FRAMES).map(|_| AtomicU32::new(0)).collect(),
            memory: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Some(&region.get_or_init(made).frames[(address >> 12) as usize % FRAMES])
    }
}
