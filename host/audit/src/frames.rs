//! For each 4 KiB of the guest's memory one word, which is all that a store costs elsewhere: a table is there, or which CPU last
//! stored there, and after how many of its barriers.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Frames of a region: 1 GiB.
const FRAMES: usize = 1 << 18;
/// Regions: 48 bits of physical addresses.
const REGIONS: usize = 1 << 18;
/// CPUs at most, and of a tag the bits that count.
const CPUS: usize = 64;
const COUNT_BITS: u32 = 26;

/// A table is there.
const TABLE: u32 = u32::MAX;

/// One word for each frame; made when somebody stores there.
type Region = OnceLock<Box<[AtomicU32]>>;

/// What is known of every frame.
#[derive(Debug)]
pub struct Frames {
    regions: Vec<Region>,
    /// What each CPU marks a frame with that it stores to.
    tags: [AtomicU32; CPUS],
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
            regions: (0..REGIONS).map(|_| Region::new()).collect(),
            tags: std::array::from_fn(|cpu| AtomicU32::new((cpu as u32) << COUNT_BITS | 1)),
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
        held != tag && frame.fetch_update(Ordering::Relaxed, Ordering::Relaxed, mark).is_err()
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
        let frames = region.get_or_init(|| (0..FRAMES).map(|_| AtomicU32::new(0)).collect());
        Some(&frames[(address >> 12) as usize % FRAMES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs store in threads of their own: who marks a frame does not take away what another has just made known.
    #[test]
    fn a_table_stays_one_whoever_stores_beside() {
        const ROUNDS: u64 = 200_000;
        let frames = Frames::default();
        let (begun, ended) = (AtomicU32::new(0), AtomicU32::new(0));
        let mut lost = 0;
        let wait_for = |count: &AtomicU32, round: u64| {
            while u64::from(count.load(Ordering::Acquire)) < round {
                std::hint::spin_loop();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    wait_for(&begun, round);
                    frames.store(1, round << 12);
                    ended.fetch_add(1, Ordering::Release);
                }
            });
            for round in 1..=ROUNDS {
                begun.fetch_add(1, Ordering::Release);
                frames.set_table(round << 12, true);
                wait_for(&ended, round);
                lost += u32::from(!frames.store(0, round << 12));
            }
        });
        assert_eq!(lost, 0, "tables that were lost");
    }
}
