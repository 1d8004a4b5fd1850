//! The architectural walk: one value per word, one answer. The concrete TLB fills from it; what *might* be walked, with
//! every value a word may show, is in `tlb::reach`. Both decode with `descriptor`. (DDI 0487, D8.2)

pub mod combined;
pub mod stage1;
pub mod stage2;

use crate::attributes::Attributes;
use crate::descriptor::Hierarchy;

/// Reads the descriptor at a physical address, as one walker sees it now.
pub trait Reader {
    /// The 64-bit word at `address`.
    fn word(&mut self, address: u64) -> u64;
}

impl<F: FnMut(u64) -> u64> Reader for F {
    fn word(&mut self, address: u64) -> u64 {
        self(address)
    }
}

/// The leaf that a walk ended at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// Level.
    pub level: i8,
    /// The descriptor itself.
    pub descriptor: u64,
    /// Physical address of the descriptor.
    pub word: u64,
    /// Base-2 logarithm of the leaf's size in bytes.
    pub size_log2: u8,
    /// Output address of the leaf's first byte.
    pub output: u64,
    /// Attributes, hierarchy included.
    pub attributes: Attributes,
    /// What table descriptors on the way demanded.
    pub hierarchy: Hierarchy,
    /// A block with nT set: used, but not cached.
    pub is_untranslated: bool,
}

impl Leaf {
    /// The output for input address `address`, which this leaf must cover.
    pub const fn translate(&self, address: u64) -> u64 {
        self.output | (address & ((1 << self.size_log2) - 1))
    }
}
