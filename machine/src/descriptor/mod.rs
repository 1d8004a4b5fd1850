//! What a 64-bit word means as a descriptor: the machine's own reading of DDI 0487, D8.3, shared with nobody.
//! A leaf is decoded down to its attributes; a word that gives a Translation, Address size or Access flag fault is
//! uncacheable (IWZCBG), and a write of one is what the manual calls a break.

pub(crate) mod stage1;
pub(crate) mod stage2;

use crate::attributes::Attributes;
use crate::context::{Hardware, Stage1, Stage2};
use crate::geometry::{Geometry, Layout};

/// Valid.
pub(crate) const VALID: u64 = 1;
/// Access flag.
pub(crate) const ACCESS_FLAG: u64 = 1 << 10;
/// Dirty Bit Modifier.
pub(crate) const DIRTY_MODIFIER: u64 = 1 << 51;
/// AP[2] of stage 1: read-only, or clean where DBM is set.
pub(crate) const READ_ONLY: u64 = 1 << 7;
/// S2AP[1] of stage 2: writable, or dirty where DBM is set.
pub(crate) const STAGE2_WRITE: u64 = 1 << 7;
/// Contiguous.
pub(crate) const CONTIGUOUS: u64 = 1 << 52;
/// Block only: no translation caching. (IPJZBK)
pub(crate) const NO_TRANSLATION: u64 = 1 << 16;

/// Limits that table descriptors put on everything below them. (D8.4.3)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Hierarchy(u8);

impl Hierarchy {
    pub(crate) const PRIVILEGED_NEVER_EXECUTES: u8 = 1;
    pub(crate) const USER_NEVER_EXECUTES: u8 = 2;
    pub(crate) const NO_USER: u8 = 4;
    pub(crate) const READ_ONLY: u8 = 8;

    /// Bits 62:59 of a table descriptor add to what its parents demand. NSTable (63) has no meaning here: the machine
    /// is Non-secure.
    pub(crate) const fn below(self, table: u64) -> Self {
        Self(self.0 | (table >> 59 & 0xf) as u8)
    }

    pub(crate) const fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

/// The meaning of a word at some level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Descriptor {
    /// A Translation fault.
    Invalid,
    /// An Address size fault: an address beyond the output size.
    AddressSize,
    /// A leaf that faults because its access flag is clear and hardware does not set it.
    AccessFlag,
    /// Points to the next table.
    Table {
        /// Address of the next table.
        next: u64,
        /// Limits on everything below.
        hierarchy: Hierarchy,
    },
    /// A block or page.
    Leaf {
        /// Output address of its first byte.
        output: u64,
        /// Everything else.
        attributes: Attributes,
        /// True for a block whose nT bit keeps it out of the TLBs.
        is_untranslated: bool,
    },
}

/// How to read descriptors: of stage 1 or of stage 2.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format<'a> {
    Stage1(&'a Stage1),
    Stage2(&'a Stage2),
}

impl<'a> Format<'a> {
    pub(crate) const fn geometry(&self) -> &'a Geometry {
        match self {
            Self::Stage1(stage1) => &stage1.geometry,
            Self::Stage2(stage2) => &stage2.geometry,
        }
    }

    pub(crate) const fn hardware(&self) -> Hardware {
        match self {
            Self::Stage1(stage1) => stage1.hardware,
            Self::Stage2(stage2) => stage2.hardware,
        }
    }

    /// `word` as hardware may rewrite it at any time: access flag set, and written to where that needs no software.
    /// Entries are compared in this form, because an update by hardware must not look like a change. (D8.5)
    pub(crate) const fn settled(&self, level: i8, word: u64) -> u64 {
        let is_leaf = word & VALID != 0 && (level == 3) == (word & 2 != 0);
        let hardware = self.hardware();
        if !is_leaf || !hardware.access_flag {
            return word;
        }
        let word = word | ACCESS_FLAG;
        match self {
            _ if !hardware.dirty_state || word & DIRTY_MODIFIER == 0 => word,
            Self::Stage1(_) => word & !READ_ONLY,
            Self::Stage2(_) => word | STAGE2_WRITE,
        }
    }

    /// Decodes `word` at `level`. (D8.3.1, D8.3.2)
    pub(crate) fn decode(&self, level: i8, word: u64, hierarchy: Hierarchy) -> Descriptor {
        let geometry = self.geometry();
        if word & VALID == 0 || level == 3 && word & 2 == 0 {
            return Descriptor::Invalid;
        }
        if level < 3 && word & 2 != 0 {
            let next = geometry.address(word, geometry.granule.shift());
            if next >> geometry.output_bits != 0 {
                return Descriptor::AddressSize;
            }
            let hierarchy = match self {
                Self::Stage1(stage1) if !stage1.ignores_hierarchy => hierarchy.below(word),
                _ => hierarchy,
            };
            return Descriptor::Table { next, hierarchy };
        }
        if level < 3 && !geometry.has_block(level) {
            return Descriptor::Invalid;
        }
        let output = geometry.address(word, geometry.slot_shift(level));
        if output >> geometry.output_bits != 0 {
            return Descriptor::AddressSize;
        }
        if word & ACCESS_FLAG == 0 && !self.hardware().access_flag {
            return Descriptor::AccessFlag;
        }
        let (attributes, has_nt) = match self {
            Self::Stage1(stage1) => (stage1::attributes(stage1, level, word, hierarchy), stage1.has_nt),
            Self::Stage2(stage2) => (stage2::attributes(stage2, level, word), stage2.has_nt),
        };
        // Bit 16 is an address bit of no block: the smallest block is 2 MiB.
        let is_untranslated = has_nt && level < 3 && word & NO_TRANSLATION != 0;
        Descriptor::Leaf { output, attributes, is_untranslated }
    }

    /// SH of a leaf: with LPA2 the field holds address bits, and TCR's takes its place. (D8.6.2)
    const fn shareability(&self, word: u64) -> u8 {
        match self {
            Self::Stage1(Stage1 { shareability, .. }) | Self::Stage2(Stage2 { shareability, .. })
                if matches!(self.geometry().layout, Layout::Lpa2) =>
            {
                *shareability
            }
            _ => (word >> 8 & 3) as u8,
        }
    }
}
