//! Physical memory: 64-bit words, zero until stored to, shared between snapshots until one of them writes.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use crate::descriptor::CONTIGUOUS;
use crate::seed::mix;

const WORDS: usize = 512;
const PAGE_BYTES: u64 = 4096;

/// One bit for each word of a page.
type Bits = [u64; WORDS / 64];

/// 4 KiB, and which of its words have bit 0 set, and which beside it the Contiguous bit: walks look at those alone, and
/// tables are mostly empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Page {
    words: [u64; WORDS],
    odd: Bits,
    contiguous: Bits,
}

impl Page {
    const ZERO: Self = Self { words: [0; WORDS], odd: [0; WORDS / 64], contiguous: [0; WORDS / 64] };

    fn set(&mut self, slot: usize, value: u64) {
        self.words[slot] = value;
        let is_odd = value & 1 == 1;
        for (bits, is_set) in [(&mut self.odd, is_odd), (&mut self.contiguous, is_odd && value & CONTIGUOUS != 0)] {
            bits[slot / 64] = bits[slot / 64] & !(1 << (slot % 64)) | u64::from(is_set) << (slot % 64);
        }
    }

    pub(crate) const fn word(&self, slot: usize) -> u64 {
        self.words[slot]
    }

    /// The first word from `slot` on that has bit 0 set.
    pub(crate) fn next_odd(&self, slot: usize) -> Option<usize> {
        next(&self.odd, slot)
    }

    /// True when there are words with the Contiguous bit.
    pub(crate) fn has_contiguous(&self) -> bool {
        self.contiguous != Bits::default()
    }

    /// The first of them that has the Contiguous bit too.
    pub(crate) fn next_contiguous(&self, slot: usize) -> Option<usize> {
        next(&self.contiguous, slot)
    }
}

/// The first bit from `slot` on.
fn next(bits: &Bits, slot: usize) -> Option<usize> {
    let mut mask = !0 << (slot % 64);
    for (group, bits) in bits.iter().enumerate().skip(slot / 64) {
        let found = bits & mask;
        if found != 0 {
            return Some(group * 64 + found.trailing_zeros() as usize);
        }
        mask = !0;
    }
    None
}

/// Sparse memory of 64-bit words. A clone shares its pages with the original until either writes to them.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pages: BTreeMap<u64, Arc<Page>>,
    /// Sum of one mixed value per non-zero word: equal contents give equal digests, whatever the order of the stores.
    digest: u64,
}

impl Memory {
    /// The word at physical `address`, whose low three bits are ignored.
    pub fn word(&self, address: u64) -> u64 {
        self.page(address).map_or(0, |page| page.words[slot(address)])
    }

    /// Sets the word at physical `address`, whose low three bits are ignored; returns what was there.
    pub fn set_word(&mut self, address: u64, value: u64) -> u64 {
        let address = address & !7;
        let old = self.word(address);
        if old == value {
            return old;
        }
        let page = self.pages.entry(address / PAGE_BYTES).or_insert_with(|| Arc::new(Page::ZERO));
        Arc::make_mut(page).set(slot(address), value);
        self.digest = self.digest.wrapping_sub(weight(address, old)).wrapping_add(weight(address, value));
        old
    }

    /// The 4 KiB page that holds `address`, if any of its words was ever stored to.
    pub(crate) fn page(&self, address: u64) -> Option<&Page> {
        self.pages.get(&(address / PAGE_BYTES)).map(|page| &**page)
    }

    /// A value that equal contents share.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// True when the `size_bytes` from `left` hold what those from `right` hold. Pages never stored to are equal.
    pub fn is_same(&self, left: u64, right: u64, size_bytes: u64) -> bool {
        left == right
            || !self.differs_one_way(left, right, size_bytes) && !self.differs_one_way(right, left, size_bytes)
    }

    /// True when a word that was stored to within `from` differs from its counterpart.
    fn differs_one_way(&self, from: u64, other: u64, size_bytes: u64) -> bool {
        let last = from + (size_bytes - 1);
        self.pages.range(from / PAGE_BYTES..=last / PAGE_BYTES).any(|(number, page)| {
            (0..WORDS).any(|slot| {
                let address = number * PAGE_BYTES + slot as u64 * 8;
                address >= from && address <= last && page.words[slot] != self.word(other + (address - from))
            })
        })
    }
}

/// Memory of which some words are known; the others are zero.
#[derive(Clone, Debug, Default)]
pub struct KnownMemory {
    memory: Memory,
    /// Which are known, by page.
    known: BTreeMap<u64, Bits>,
}

impl KnownMemory {
    /// The word at physical `address`, a multiple of 8, holds `value`; false if what it holds was known before.
    pub fn learn(&mut self, address: u64, value: u64) -> bool {
        let bits = self.known.entry(address / PAGE_BYTES).or_default();
        let (group, bit) = (slot(address) / 64, 1 << (slot(address) % 64));
        if bits[group] & bit != 0 {
            return false;
        }
        bits[group] |= bit;
        self.memory.set_word(address, value);
        true
    }

    /// What the word at physical `address` holds, if that is known.
    pub fn get(&self, address: u64) -> Option<u64> {
        let bits = self.known.get(&(address / PAGE_BYTES))?;
        let is_known = bits[slot(address) / 64] >> (slot(address) % 64) & 1 == 1;
        is_known.then(|| self.memory.word(address))
    }

    /// All of it.
    pub const fn memory(&self) -> &Memory {
        &self.memory
    }
}

const fn slot(address: u64) -> usize {
    (address as usize / 8) % WORDS
}

const fn weight(address: u64, value: u64) -> u64 {
    if value == 0 { 0 } else { mix(address ^ mix(value)) }
}

impl PartialEq for Memory {
    fn eq(&self, other: &Self) -> bool {
        let covered = |a: &Self, b: &Self| {
            a.pages.iter().all(|(number, page)| {
                b.pages.get(number).map_or(page.words.iter().all(|word| *word == 0), |other| page == other)
            })
        };
        self.digest == other.digest && covered(self, other) && covered(other, self)
    }
}

impl Eq for Memory {}

impl core::hash::Hash for Memory {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.digest);
    }
}
