//! The plain loop: nothing is checked, nothing is ordered, nothing can fail. Its stores are as
//! atomic as everyone's where a walker might be.

use std::marker::PhantomData;

use vmsa::Granule;

use crate::contender::{Contender, Found};
use crate::memory::{give_frame, load, store, store_unreached, take_frame, take_zeroed_frame};

/// Bits 47:12: an output address or a table's.
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
/// Valid, and at level 3 and in table descriptors bit 1 too.
const VALID: u64 = 0b01;
const TABLE: u64 = 0b11;
const READ_ONLY: u64 = 1 << 7;
/// Inner shareable, accessed, never executable, memory type 0.
const DATA: u64 = 0b11 << 53 | 1 << 10 | 0b11 << 8;

/// Stores `count` descriptors that lead to neighbours of `step` bytes into a table that nobody can reach, eight a turn. The
/// descriptor that would follow.
#[inline(always)]
fn fill(mut slot: u64, count: u64, mut descriptor: u64, step: u64) -> u64 {
    for _ in 0..count / 8 {
        for index in 0..8 {
            store_unreached(slot + index * 8, descriptor + index * step);
        }
        slot += 64;
        descriptor += 8 * step;
    }
    for _ in 0..count % 8 {
        store_unreached(slot, descriptor);
        slot += 8;
        descriptor += step;
    }
    descriptor
}

/// A root, and nothing else.
#[derive(Debug)]
pub(crate) struct Naive<G: Granule> {
    root: u64,
    granule: PhantomData<G>,
}

impl<G: Granule> Naive<G> {
    /// The address of the root table.
    pub(crate) const fn root(&self) -> u64 {
        self.root
    }

    /// The level of a 48-bit page table's root.
    const START: i32 = 4 - (48 - G::SHIFT).div_ceil(G::INDEX_BITS) as i32;

    const fn shift(level: i32) -> u32 {
        G::SHIFT + (3 - level) as u32 * G::INDEX_BITS
    }

    const fn index(level: i32, input: u64) -> u64 {
        input >> Self::shift(level) & (G::ENTRIES as u64 - 1)
    }

    const fn slot(table: u64, level: i32, input: u64) -> u64 {
        table + Self::index(level, input) * 8
    }

    /// The table of `level` on the way to `input`, built if it is not there.
    fn table(&self, level: i32, input: u64) -> u64 {
        let mut table = self.root;
        for above in Self::START..level {
            let slot = Self::slot(table, above, input);
            table = match load(slot) {
                0 => {
                    let below = take_zeroed_frame(G::SIZE_BYTES);
                    store(slot, below | TABLE);
                    below
                }
                descriptor => descriptor & ADDRESS,
            };
        }
        table
    }

    /// A table of `level` that says what the block descriptor above it said.
    #[inline(never)]
    fn split(block: u64, level: i32) -> u64 {
        let table = take_frame(G::SIZE_BYTES);
        let count = G::ENTRIES as u64;
        match level {
            3 => fill(table, count, block | TABLE, 1 << Self::shift(3)),
            _ => fill(table, count, block, 1 << Self::shift(2)),
        };
        table
    }

    /// The slot of the page at `input`, unless a block stands above it.
    #[inline(always)]
    fn page_slot(&self, input: u64) -> Option<u64> {
        let mut table = self.root;
        macro_rules! turn {
            ($level:literal) => {
                if Self::START <= $level {
                    let descriptor = load(Self::slot(table, $level, input));
                    if descriptor & 0b10 == 0 {
                        return None;
                    }
                    table = descriptor & ADDRESS;
                }
            };
        }
        turn!(0);
        turn!(1);
        turn!(2);
        Some(Self::slot(table, 3, input))
    }

    /// Splits the blocks above the page at `input`. Its slot.
    #[inline(never)]
    fn split_above(&self, input: u64) -> u64 {
        let mut table = self.root;
        for level in Self::START..3 {
            let slot = Self::slot(table, level, input);
            let descriptor = load(slot);
            if descriptor & TABLE == TABLE {
                table = descriptor & ADDRESS;
            } else {
                table = Self::split(descriptor, level + 1);
                store(slot, table | TABLE);
            }
        }
        Self::slot(table, 3, input)
    }

    /// The leaf at `input` with its level: a loop over the levels, turn by turn.
    #[inline(always)]
    fn leaf(&self, input: u64) -> Option<(u64, i32)> {
        let mut descriptor = self.root;
        macro_rules! turn {
            ($level:literal) => {
                if Self::START <= $level {
                    descriptor = load(Self::slot(descriptor & ADDRESS, $level, input));
                    if $level == 3 || descriptor & 0b10 == 0 {
                        return if descriptor & VALID != 0 { Some((descriptor, $level)) } else { None };
                    }
                }
            };
        }
        turn!(0);
        turn!(1);
        turn!(2);
        turn!(3);
        None
    }

    /// Empties the part of a table that is asked for, and frees what is below it.
    fn clear(table: u64, level: i32, from: u64, to: u64) {
        let span = 1 << Self::shift(level);
        let mut at = from;
        while at < to {
            let slot = Self::slot(table, level, at);
            let end = (at & !(span - 1)) + span;
            let descriptor = load(slot);
            if level < 3 && descriptor & TABLE == TABLE {
                let below = descriptor & ADDRESS;
                if at & (span - 1) == 0 && end <= to {
                    Self::free(below, level + 1);
                } else {
                    Self::clear(below, level + 1, at, to.min(end));
                    at = end;
                    continue;
                }
            }
            store(slot, 0);
            at = end;
        }
    }

    fn free(table: u64, level: i32) {
        for index in 0..if level < 3 { G::ENTRIES as u64 } else { 0 } {
            let descriptor = load(table + index * 8);
            if descriptor & TABLE == TABLE {
                Self::free(descriptor & ADDRESS, level + 1);
            }
        }
        give_frame(table);
    }
}

impl<G: Granule> Contender for Naive<G> {
    fn new() -> Self {
        Self { root: take_zeroed_frame(G::SIZE_BYTES), granule: PhantomData }
    }

    fn map(&mut self, from: u64, bytes: u64, to: u64, leaf_bytes: u64) {
        let level = 3 - ((leaf_bytes.ilog2() - G::SHIFT) / G::INDEX_BITS) as i32;
        let kind = if level == 3 { TABLE } else { VALID };
        let mut descriptor = to | DATA | kind;
        let mut at = from;
        while at < from + bytes {
            let first = Self::index(level, at);
            let count = (G::ENTRIES as u64 - first).min((from + bytes - at) / leaf_bytes);
            let table = self.table(level, at);
            descriptor = match level {
                3 => fill(table + first * 8, count, descriptor, 1 << Self::shift(3)),
                2 => fill(table + first * 8, count, descriptor, 1 << Self::shift(2)),
                _ => fill(table + first * 8, count, descriptor, 1 << Self::shift(1)),
            };
            at += count * leaf_bytes;
        }
    }

    fn protect(&mut self, page: u64, is_read_only: bool) {
        let slot = self.page_slot(page).unwrap_or_else(|| self.split_above(page));
        store(slot, load(slot) & !READ_ONLY | if is_read_only { READ_ONLY } else { 0 });
    }

    fn translate(&self, inputs: &[u64]) -> u64 {
        inputs.iter().fold(0, |mixed, &input| {
            mixed
                ^ match self.leaf(input) {
                    Some((descriptor, level)) => {
                        let within = (1 << Self::shift(level)) - 1;
                        descriptor & ADDRESS & !within | input & within
                    }
                    None => 0,
                }
        })
    }

    fn unmap(&mut self, from: u64, bytes: u64, _: u64) {
        Self::clear(self.root, Self::START, from, from + bytes);
    }

    fn find(&self, input: u64) -> Option<Found> {
        let (descriptor, _) = self.leaf(input)?;
        Some(Found { output: self.translate(&[input]), is_read_only: descriptor & READ_ONLY != 0 })
    }
}
