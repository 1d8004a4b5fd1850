//! Page tables of a test's own making, written into an image of memory: nothing of what is tested computes an address here.

use std::collections::BTreeMap;

/// Physical memory from `base` on, of which tables are taken one after another.
pub(crate) struct Image {
    pub(crate) base: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Image {
    pub(crate) fn new(base: u64) -> Self {
        Self { base, bytes: Vec::new() }
    }

    /// A place of zeros, aligned to its size (a power of two).
    pub(crate) fn take(&mut self, size: u64) -> u64 {
        let at = (self.base + self.bytes.len() as u64).next_multiple_of(size);
        self.bytes.resize((at - self.base + size) as usize, 0);
        at
    }

    pub(crate) fn word(&self, at: u64) -> u64 {
        let at = (at - self.base) as usize;
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    pub(crate) fn put(&mut self, at: u64, word: u64) {
        let at = (at - self.base) as usize;
        self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
}

/// A page table: its granule's shift, its start level, and the bits of its input addresses.
pub(crate) struct Tree {
    pub(crate) granule: u32,
    pub(crate) start: i32,
    pub(crate) bits: u32,
    /// The root, as the machine's register has it.
    pub(crate) root: u64,
    /// Where the tables are, if not where their descriptors say: intermediate to physical, by granule.
    pub(crate) behind: Option<BTreeMap<u64, u64>>,
}

impl Tree {
    /// A page table with its root, which may be several tables side by side.
    pub(crate) fn new(image: &mut Image, granule: u32, start: i32, bits: u32) -> Self {
        let mut tree = Self { granule, start, bits, root: 0, behind: None };
        let root_bytes = 8u64 << bits.saturating_sub(tree.shift(start));
        tree.root = image.take(root_bytes.max(64));
        tree
    }

    /// log2 of what a descriptor of `level` covers.
    pub(crate) fn shift(&self, level: i32) -> u32 {
        self.granule + (3 - level) as u32 * (self.granule - 3)
    }

    fn place(&self, at: u64) -> u64 {
        let page = at >> self.granule << self.granule;
        self.behind.as_ref().map_or(at, |pages| pages[&page] + (at - page))
    }

    /// Writes a leaf of `level` that leads from `input` to `output`, and the tables on the way, each from `take`.
    pub(crate) fn map(
        &self,
        image: &mut Image,
        take: &mut dyn FnMut(&mut Image) -> u64,
        (input, output): (u64, u64),
        level: i32,
        attributes: u64,
    ) {
        let input = input & ((1 << self.bits) - 1);
        let mut table = self.root;
        for at_level in self.start..=level {
            let whole = input >> self.shift(at_level);
            let index = if at_level == self.start { whole } else { whole & ((1 << (self.granule - 3)) - 1) };
            let at = self.place(table + index * 8);
            if at_level == level {
                let kind = if level == 3 { 3 } else { 1 };
                return image.put(at, output | attributes | kind);
            }
            if image.word(at) & 1 == 0 {
                let next = take(image);
                image.put(at, next | 3);
            }
            table = image.word(at) & 0x0000_ffff_ffff_f000;
        }
    }
}
