// data: the attribute fields of descriptors, from the manual's descriptor formats (D8.3.1, D8.3.2).
//! Descriptors as fields. The output address is none of them: where it is depends on granule, level and layout.

use super::{Register, flag, named, number};

const SHAREABILITY: &[(u64, &str)] = &[(0, "non-shareable"), (2, "outer shareable"), (3, "inner shareable")];

/// A stage-1 block or page, without LPA2 (where bits 9:8 and 49:48 are output address).
pub const STAGE1_LEAF: Register = Register {
    name: "stage-1 leaf",
    section: "D8.3.1",
    fields: &[
        number("PBHA", 62, 59, "page-based hardware attributes (FEAT_HPDS2)"),
        number("Software", 58, 55, "left to software"),
        flag("UXN", 54, "EL0 may not execute (XN where there is one privilege level)"),
        flag("PXN", 53, "EL1 may not execute"),
        flag("Contiguous", 52, "one of a contiguous group"),
        flag("DBM", 51, "hardware may make it writable on a write (FEAT_HAFDBS)"),
        flag("GP", 50, "guarded: indirect branches must land on BTI (FEAT_BTI)"),
        flag("nT", 16, "blocks: do not cache the translation (FEAT_BBM)"),
        named("nG", 11, 11, "who it belongs to", &[(0, "every ASID"), (1, "one ASID")]),
        flag("AF", 10, "accessed"),
        named("SH", 9, 8, "shareability", SHAREABILITY),
        named(
            "AP",
            7,
            6,
            "data accesses",
            &[(0, "EL1 read-write"), (1, "EL1 and EL0 read-write"), (2, "EL1 read-only"), (3, "EL1 and EL0 read-only")],
        ),
        flag("NS", 5, "leads to the Non-secure space"),
        number("AttrIndx", 4, 2, "memory type, by MAIR"),
        named("Type", 1, 0, "type", &[(0, "invalid"), (1, "block"), (2, "invalid"), (3, "page")]),
    ],
};

/// A stage-1 block or page where permissions are indirect (TCR2_ELx.PIE), without LPA2.
pub const STAGE1_INDIRECT_LEAF: Register = Register {
    name: "stage-1 leaf, indirect",
    section: "D8.3.1, D8.4.2",
    fields: &[
        number("POIndex", 62, 60, "overlay, by POR_ELx (FEAT_S1POE)"),
        flag("AttrIndx3", 59, "bit 3 of AttrIndx (FEAT_AIE)"),
        number("Software", 58, 55, "left to software"),
        flag("PIIndex3", 54, "bit 3 of PIIndex: permissions, by PIR_ELx"),
        flag("PIIndex2", 53, "bit 2 of PIIndex: permissions, by PIR_ELx"),
        flag("Contiguous", 52, "one of a contiguous group"),
        flag("PIIndex1", 51, "bit 1 of PIIndex: permissions, by PIR_ELx"),
        flag("GP", 50, "guarded: indirect branches must land on BTI (FEAT_BTI)"),
        flag("nT", 16, "blocks: do not cache the translation (FEAT_BBM)"),
        named("nG", 11, 11, "who it belongs to", &[(0, "every ASID"), (1, "one ASID")]),
        flag("AF", 10, "accessed"),
        named("SH", 9, 8, "shareability", SHAREABILITY),
        flag("nDirty", 7, "clean: a write faults, or hardware makes it dirty"),
        flag("PIIndex0", 6, "bit 0 of PIIndex: permissions, by PIR_ELx"),
        flag("NS", 5, "leads to the Non-secure space"),
        number("AttrIndx", 4, 2, "memory type, by MAIR"),
        named("Type", 1, 0, "type", &[(0, "invalid"), (1, "block"), (2, "invalid"), (3, "page")]),
    ],
};

/// A stage-1 table descriptor.
pub const STAGE1_TABLE: Register = Register {
    name: "stage-1 table",
    section: "D8.3.1",
    fields: &[
        flag("NSTable", 63, "all below is Non-secure"),
        named(
            "APTable",
            62,
            61,
            "limits below",
            &[(0, "none"), (1, "no EL0 access"), (2, "no writes"), (3, "no writes, no EL0 access")],
        ),
        flag("UXNTable", 60, "EL0 may not execute anything below"),
        flag("PXNTable", 59, "EL1 may not execute anything below"),
        flag("AF", 10, "accessed (FEAT_HAFT)"),
        named("Type", 1, 0, "type", &[(0, "invalid"), (2, "invalid"), (3, "table")]),
    ],
};

/// A stage-2 table descriptor: it limits nothing below.
pub const STAGE2_TABLE: Register = Register {
    name: "stage-2 table",
    section: "D8.3.2",
    fields: &[
        flag("AF", 10, "accessed (FEAT_HAFT)"),
        named("Type", 1, 0, "type", &[(0, "invalid"), (2, "invalid"), (3, "table")]),
    ],
};

/// A stage-2 block or page, without LPA2.
pub const STAGE2_LEAF: Register = Register {
    name: "stage-2 leaf",
    section: "D8.3.2",
    fields: &[
        number("PBHA", 62, 59, "page-based hardware attributes (FEAT_HPDS2)"),
        number("Software", 58, 55, "left to software"),
        named(
            "XN",
            54,
            53,
            "execution (with FEAT_XNX)",
            &[(0, "EL1 and EL0"), (1, "EL0 alone"), (2, "nobody"), (3, "EL1 alone")],
        ),
        flag("Contiguous", 52, "one of a contiguous group"),
        flag("DBM", 51, "hardware may make it writable on a write (FEAT_HAFDBS)"),
        flag("nT", 16, "blocks: do not cache the translation (FEAT_BBM)"),
        flag("FnXS", 11, "accesses do not have the XS attribute (FEAT_XS)"),
        flag("AF", 10, "accessed"),
        named("SH", 9, 8, "shareability", SHAREABILITY),
        named("S2AP", 7, 6, "data accesses", &[(0, "none"), (1, "read-only"), (2, "write-only"), (3, "read-write")]),
        number("MemAttr", 5, 2, "memory type, by HCR_EL2.FWB"),
        named("Type", 1, 0, "type", &[(0, "invalid"), (1, "block"), (2, "invalid"), (3, "page")]),
    ],
};

/// A stage-2 block or page where permissions are indirect (VTCR_EL2.S2PIE), without LPA2.
pub const STAGE2_INDIRECT_LEAF: Register = Register {
    name: "stage-2 leaf, indirect",
    section: "D8.3.2, D8.4.2",
    fields: &[
        number("POIndex", 62, 59, "overlay, by S2POR_EL1 (FEAT_S2POE)"),
        number("Software", 58, 55, "left to software"),
        flag("PIIndex3", 54, "bit 3 of PIIndex: permissions, by S2PIR_EL2"),
        flag("PIIndex2", 53, "bit 2 of PIIndex: permissions, by S2PIR_EL2"),
        flag("Contiguous", 52, "one of a contiguous group"),
        flag("PIIndex1", 51, "bit 1 of PIIndex: permissions, by S2PIR_EL2"),
        flag("nT", 16, "blocks: do not cache the translation (FEAT_BBM)"),
        flag("FnXS", 11, "accesses do not have the XS attribute (FEAT_XS)"),
        flag("AF", 10, "accessed"),
        named("SH", 9, 8, "shareability", SHAREABILITY),
        flag("Dirty", 7, "dirty: without it a write faults, or hardware sets it"),
        flag("PIIndex0", 6, "bit 0 of PIIndex: permissions, by S2PIR_EL2"),
        number("MemAttr", 5, 2, "memory type, by HCR_EL2.FWB"),
        named("Type", 1, 0, "type", &[(0, "invalid"), (1, "block"), (2, "invalid"), (3, "page")]),
    ],
};
