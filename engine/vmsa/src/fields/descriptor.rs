// data: the attribute fields of descriptors, from the manual's descriptor formats (D8.3.1, D8.3.2).
//! Descriptors as fields, each with what a change of it asks for in a live leaf. The output address is none of them: where it is
//! depends on granule, level and layout; with LPA2 it has the bits of SH too.

use super::{Field, Register, flag, named, number};

/// A descriptor's fields, and what else there is to know of its bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    /// Its fields.
    pub register: Register,
    /// The bits of a leaf that are left to software: a change of these needs no TLB maintenance.
    pub software: u64,
    /// The bits of a leaf that may change while it is live, with a TLBI afterwards; any other needs break-before-make (RHWZWS).
    pub in_place: u64,
    /// Bits that hardware does not look at, and that have no name.
    pub ignored: u64,
}

impl Format {
    /// The field of this name, for a constant of its own: one that is not there does not compile.
    pub const fn the(&self, name: &str) -> Field {
        self.register.the(name)
    }

    /// The bits that are reserved as zero where `output` are those of the output address.
    pub const fn reserved(&self, output: u64) -> u64 {
        self.register.unnamed(!(self.ignored | output))
    }
}

/// What a change of a field asks for in a live leaf.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    Tlbi,
    BreakBeforeMake,
}
use Change::{BreakBeforeMake as Break, Nothing, Tlbi};

type Row = (Change, Field);

const fn mask(rows: &[Row], change: Change) -> u64 {
    let (mut mask, mut index) = (0, 0);
    while index < rows.len() {
        if rows[index].0 as u8 == change as u8 {
            mask |= rows[index].1.mask();
        }
        index += 1;
    }
    mask
}

const fn fields<const N: usize>(rows: &[Row; N]) -> [Field; N] {
    let mut fields = [rows[0].1; N];
    let mut index = 0;
    while index < N {
        fields[index] = rows[index].1;
        index += 1;
    }
    fields
}

macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $section:literal, $ignored:expr, [$($row:expr),* $(,)?];)*) => { $(
        $(#[$doc])*
        pub const $name: Format = {
            const ROWS: &[Row; [$(stringify!($row)),*].len()] = &[$($row),*];
            Format {
                register: Register { name: $text, section: $section, fields: &const { fields(ROWS) } },
                software: mask(ROWS, Nothing),
                in_place: mask(ROWS, Nothing) | mask(ROWS, Tlbi),
                ignored: $ignored,
            }
        };
    )* };
}

/// Bit 63 of a leaf; bits 58:52, 11 and 9:2 of a table, and at stage 2, which limits nothing below, 63:59.
const LEAF: u64 = 1 << 63;
const TABLE: u64 = 0x07f0_0000_0000_0bfc;
const STAGE2: u64 = TABLE | 0xf800_0000_0000_0000;

const PBHA: Row = (Break, number("PBHA", 62, 59, "page-based hardware attributes (FEAT_HPDS2)"));
const SOFTWARE: Row = (Nothing, number("Software", 58, 55, "left to software"));
const CONTIGUOUS: Row = (Break, flag("Contiguous", 52, "one of a contiguous group"));
const DBM: Row = (Tlbi, flag("DBM", 51, "hardware may make it writable on a write (FEAT_HAFDBS)"));
const GP: Row = (Tlbi, flag("GP", 50, "guarded: indirect branches must land on BTI (FEAT_BTI)"));
const NT: Row = (Break, flag("nT", 16, "blocks: do not cache the translation (FEAT_BBM)"));
const NG: Row = (Break, named("nG", 11, 11, "who it belongs to", &[(0, "every ASID"), (1, "one ASID")]));
const FNXS: Row = (Break, flag("FnXS", 11, "accesses do not have the XS attribute (FEAT_XS)"));
const AF: Row = (Tlbi, flag("AF", 10, "accessed"));
const TABLE_AF: Row = (Tlbi, flag("AF", 10, "accessed (FEAT_HAFT)"));
const SH: Row =
    (Break, named("SH", 9, 8, "shareability", &[(0, "non-shareable"), (2, "outer shareable"), (3, "inner shareable")]));
const NS: Row = (Break, flag("NS", 5, "leads to the Non-secure space"));
const ATTR_INDX: Row = (Break, number("AttrIndx", 4, 2, "memory type, by MAIR"));
const MEM_ATTR: Row = (Break, number("MemAttr", 5, 2, "memory type, by HCR_EL2.FWB"));
const LEAF_TYPE: Row =
    (Break, named("Type", 1, 0, "type", &[(0, "invalid"), (1, "block"), (2, "invalid"), (3, "page")]));
const TABLE_TYPE: Row = (Break, named("Type", 1, 0, "type", &[(0, "invalid"), (2, "invalid"), (3, "table")]));

formats! {
    /// A stage-1 block or page.
    STAGE1_LEAF = "stage-1 leaf", "D8.3.1", LEAF, [
        PBHA,
        SOFTWARE,
        (Tlbi, flag("UXN", 54, "EL0 may not execute (XN where there is one privilege level)")),
        (Tlbi, flag("PXN", 53, "EL1 may not execute")),
        CONTIGUOUS,
        DBM,
        GP,
        NT,
        NG,
        AF,
        SH,
        (Tlbi, named("AP", 7, 6, "data accesses", &[
            (0, "EL1 read-write"),
            (1, "EL1 and EL0 read-write"),
            (2, "EL1 read-only"),
            (3, "EL1 and EL0 read-only"),
        ])),
        NS,
        ATTR_INDX,
        LEAF_TYPE,
    ];
    /// A stage-1 block or page where permissions are indirect (TCR2_ELx.PIE).
    STAGE1_INDIRECT_LEAF = "stage-1 leaf, indirect", "D8.3.1, D8.4.2", LEAF, [
        (Tlbi, number("POIndex", 62, 60, "overlay, by POR_ELx (FEAT_S1POE)")),
        (Break, flag("AttrIndx3", 59, "bit 3 of AttrIndx (FEAT_AIE)")),
        SOFTWARE,
        (Tlbi, flag("PIIndex3", 54, "bit 3 of PIIndex: permissions, by PIR_ELx")),
        (Tlbi, flag("PIIndex2", 53, "bit 2 of PIIndex: permissions, by PIR_ELx")),
        CONTIGUOUS,
        (Tlbi, flag("PIIndex1", 51, "bit 1 of PIIndex: permissions, by PIR_ELx")),
        GP,
        NT,
        NG,
        AF,
        SH,
        (Tlbi, flag("nDirty", 7, "clean: a write faults, or hardware makes it dirty")),
        (Tlbi, flag("PIIndex0", 6, "bit 0 of PIIndex: permissions, by PIR_ELx")),
        NS,
        ATTR_INDX,
        LEAF_TYPE,
    ];
    /// A stage-1 table descriptor.
    STAGE1_TABLE = "stage-1 table", "D8.3.1", TABLE, [
        (Break, flag("NSTable", 63, "all below is Non-secure")),
        (Break, named("APTable", 62, 61, "limits below", &[
            (0, "none"),
            (1, "no EL0 access"),
            (2, "no writes"),
            (3, "no writes, no EL0 access"),
        ])),
        (Break, flag("UXNTable", 60, "EL0 may not execute anything below")),
        (Break, flag("PXNTable", 59, "EL1 may not execute anything below")),
        TABLE_AF,
        TABLE_TYPE,
    ];
    /// A block or page of a regime with one privilege: EL2 with HCR_EL2.E2H = 0, and EL3.
    ONE_PRIVILEGE_LEAF = "leaf, one privilege", "D8.3.1", LEAF, [
        PBHA,
        SOFTWARE,
        (Tlbi, flag("XN", 54, "may not execute")),
        CONTIGUOUS,
        DBM,
        GP,
        NT,
        (Break, flag("NSE", 11, "at EL3 with FEAT_RME: with NS, the space it leads to; elsewhere reserved")),
        AF,
        SH,
        (Tlbi, named("AP", 7, 6, "data accesses", &[
            (0, "read-write, and AP[1] is reserved as one"),
            (1, "read-write"),
            (2, "read-only, and AP[1] is reserved as one"),
            (3, "read-only"),
        ])),
        NS,
        ATTR_INDX,
        LEAF_TYPE,
    ];
    /// A table descriptor of a regime with one privilege.
    ONE_PRIVILEGE_TABLE = "table, one privilege", "D8.3.1", TABLE, [
        (Break, flag("NSTable", 63, "all below is Non-secure")),
        (Break, flag("APTable", 62, "nothing below may be written")),
        (Break, flag("XNTable", 60, "nothing below may be executed")),
        TABLE_AF,
        TABLE_TYPE,
    ];
    /// A stage-2 table descriptor: it limits nothing below.
    STAGE2_TABLE = "stage-2 table", "D8.3.2", STAGE2, [TABLE_AF, TABLE_TYPE];
    /// A stage-2 block or page.
    STAGE2_LEAF = "stage-2 leaf", "D8.3.2", LEAF, [
        PBHA,
        SOFTWARE,
        (Tlbi, named("XN", 54, 53, "execution (with FEAT_XNX)", &[
            (0, "EL1 and EL0"),
            (1, "EL0 alone"),
            (2, "nobody"),
            (3, "EL1 alone"),
        ])),
        CONTIGUOUS,
        DBM,
        NT,
        FNXS,
        AF,
        SH,
        (Tlbi, named("S2AP", 7, 6, "data accesses", &[
            (0, "none"),
            (1, "read-only"),
            (2, "write-only"),
            (3, "read-write"),
        ])),
        MEM_ATTR,
        LEAF_TYPE,
    ];
    /// A stage-2 block or page where permissions are indirect (VTCR_EL2.S2PIE).
    STAGE2_INDIRECT_LEAF = "stage-2 leaf, indirect", "D8.3.2, D8.4.2", LEAF, [
        (Tlbi, number("POIndex", 62, 59, "overlay, by S2POR_EL1 (FEAT_S2POE)")),
        SOFTWARE,
        (Tlbi, flag("PIIndex3", 54, "bit 3 of PIIndex: permissions, by S2PIR_EL2")),
        (Tlbi, flag("PIIndex2", 53, "bit 2 of PIIndex: permissions, by S2PIR_EL2")),
        CONTIGUOUS,
        (Tlbi, flag("PIIndex1", 51, "bit 1 of PIIndex: permissions, by S2PIR_EL2")),
        NT,
        FNXS,
        AF,
        SH,
        (Tlbi, flag("Dirty", 7, "dirty: without it a write faults, or hardware sets it")),
        (Tlbi, flag("PIIndex0", 6, "bit 0 of PIIndex: permissions, by S2PIR_EL2")),
        MEM_ATTR,
        LEAF_TYPE,
    ];
}
