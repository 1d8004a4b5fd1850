//! Page tables of a test's beginning: 4 KiB granule, 48 bits, from level 0. The encoding is spelled out here, so that a
//! test does not depend on the decoder that it is to check. (DDI 0487, D8.3)

use std::collections::BTreeMap;

/// 4 KiB.
pub const PAGE: u64 = 4096;
/// Output address bits of a descriptor.
pub const ADDRESS: u64 = 0x0000_ffff_ffff_f000;

/// Which stage a table is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Stage 1.
    One,
    /// Stage 2.
    Two,
}

/// Attributes of a leaf: every bit but those that say where it leads and of what kind it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf(pub u64);

impl Leaf {
    /// Stage 1: access flag, inner shareable, non-global, read-write at EL1 and EL0, never executed, MAIR attribute 0.
    pub const STAGE1: Self = Self(3 << 53 | 1 << 10 | 3 << 8 | 1 << 11 | 1 << 6);
    /// Stage 2: access flag, inner shareable, read-write, never executed, Normal write-back.
    pub const STAGE2: Self = Self(2 << 53 | 1 << 10 | 3 << 8 | 3 << 6 | 15 << 2);

    /// What data has by default at `stage`.
    pub const fn data(stage: Stage) -> Self {
        match stage {
            Stage::One => Self::STAGE1,
            Stage::Two => Self::STAGE2,
        }
    }

    /// The same with a field of `stage` by the manual's name; `None` for one that it has not, or a value that is too large.
    pub fn with(self, stage: Stage, field: &str, value: u64) -> Option<Self> {
        let (low, bits) = match (stage, field) {
            (_, "DBM") => (51, 1),
            (_, "Contiguous") => (52, 1),
            (Stage::One, "PXN") => (53, 1),
            (Stage::One, "UXN") => (54, 1),
            (Stage::Two, "XN") => (53, 2),
            (Stage::One, "nG") => (11, 1),
            (_, "AF") => (10, 1),
            (_, "SH") => (8, 2),
            (_, "AP" | "S2AP") => (6, 2),
            (Stage::One, "NS") => (5, 1),
            (Stage::One, "AttrIndx") => (2, 3),
            (Stage::Two, "MemAttr") => (2, 4),
            _ => return None,
        };
        (value >> bits == 0).then_some(Self(self.0 & !(((1 << bits) - 1) << low) | value << low))
    }

    /// The descriptor of `level` for `output`.
    pub const fn descriptor(self, level: u8, output: u64) -> u64 {
        let kind = if level == 3 { 3 } else { 1 };
        output & ADDRESS & !(size(level) - 1) | self.0 | kind
    }
}

/// Bytes that a descriptor of `level` covers.
pub const fn size(level: u8) -> u64 {
    PAGE << (9 * (3 - level as u32))
}

/// A page table under construction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Stage.
    pub stage: Stage,
    /// Physical address of the root; further tables follow it.
    pub root: u64,
    next: u64,
}

impl Table {
    /// An empty table at `root`, which goes to `memory`.
    pub fn new(stage: Stage, root: u64) -> Self {
        Self { stage, root, next: root + PAGE }
    }

    /// Its pages: those that are in use now.
    pub fn pages(&self) -> impl Iterator<Item = u64> + use<> {
        (self.root..self.next).step_by(PAGE as usize)
    }

    /// The address of the descriptor of `level` for `input`, or `None` if there is no such table.
    pub fn slot(&self, memory: &BTreeMap<u64, u64>, input: u64, level: u8) -> Option<u64> {
        let mut table = self.root;
        for above in 0..level {
            let descriptor = memory.get(&place(table, input, above)).copied().unwrap_or(0);
            if descriptor & 3 != 3 {
                return None;
            }
            table = descriptor & ADDRESS;
        }
        Some(place(table, input, level))
    }

    /// Sets the descriptor of `level` for `input`, and makes the tables above it. False if a block is in the way.
    pub fn set(&mut self, memory: &mut BTreeMap<u64, u64>, input: u64, level: u8, descriptor: u64) -> bool {
        let mut table = self.root;
        for above in 0..level {
            let slot = place(table, input, above);
            let found = memory.get(&slot).copied().unwrap_or(0);
            table = match found & 3 {
                3 => found & ADDRESS,
                1 => return false,
                _ => {
                    let made = self.next;
                    self.next += PAGE;
                    memory.insert(slot, made | 3);
                    made
                }
            };
        }
        memory.insert(place(table, input, level), descriptor);
        true
    }

    /// Makes the tables down to `level` for `input`, where no descriptor says what is there instead.
    pub fn reach(&mut self, memory: &mut BTreeMap<u64, u64>, input: u64, level: u8) {
        let mut table = self.root;
        for above in 0..level {
            let slot = place(table, input, above);
            let next = self.next;
            let found = *memory.entry(slot).or_insert(next | 3);
            self.next += if found == next | 3 { PAGE } else { 0 };
            if found & 3 != 3 {
                return;
            }
            table = found & ADDRESS;
        }
    }

    /// Where `input` leads: output address and level of the leaf.
    pub fn translate(&self, memory: &BTreeMap<u64, u64>, input: u64) -> Option<u64> {
        (1..=3).find_map(|level| {
            let descriptor = memory.get(&self.slot(memory, input, level)?).copied().unwrap_or(0);
            let is_leaf = descriptor & 3 == if level == 3 { 3 } else { 1 };
            let inside = size(level) - 1;
            is_leaf.then_some(descriptor & ADDRESS & !inside | input & inside)
        })
    }
}

const fn place(table: u64, input: u64, level: u8) -> u64 {
    table + (input >> (12 + 9 * (3 - level as u32)) & 511) * 8
}
