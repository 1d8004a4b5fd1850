// data: the fields of registers that shape translation, from the manual's register descriptions (D23.2).
//! TCR, VTCR, TTBR, VTTBR and MAIR.

use super::{Field, Register, Values, flag, named, number};

const CACHEABILITY: &[(u64, &str)] = &[
    (0, "non-cacheable"),
    (1, "write-back, allocating"),
    (2, "write-through"),
    (3, "write-back, no write allocation"),
];
const SHAREABILITY: &[(u64, &str)] = &[(0, "non-shareable"), (2, "outer shareable"), (3, "inner shareable")];
const TG0: &[(u64, &str)] = &[(0, "4K"), (1, "64K"), (2, "16K")];
const TG1: &[(u64, &str)] = &[(1, "16K"), (2, "4K"), (3, "64K")];
const OUTPUT_SIZE: &[(u64, &str)] = &[
    (0, "32 bits, 4 GiB"),
    (1, "36 bits, 64 GiB"),
    (2, "40 bits, 1 TiB"),
    (3, "42 bits, 4 TiB"),
    (4, "44 bits, 16 TiB"),
    (5, "48 bits, 256 TiB"),
    (6, "52 bits, 4 PiB"),
    (7, "56 bits, 64 PiB"),
];

const fn width(name: &'static str, high: u8, low: u8, purpose: &'static str) -> Field {
    Field { name, high, low, purpose, values: Values::Width }
}

/// A regime with one range of addresses: EL2 with HCR_EL2.E2H = 0, and EL3.
const ONE_RANGE: [Field; 17] = [
    flag("MTX", 33, "bits 59:56 of an address are a tag (FEAT_MTE_NO_ADDRESS_TAGS)"),
    flag("DS", 32, "LPA2 descriptors and 52-bit addresses with 4K and 16K (FEAT_LPA2)"),
    flag("RES1_31", 31, "reserved, one"),
    flag("TCMA", 30, "tag 0b0000 is not checked (FEAT_MTE2)"),
    flag("TBID", 29, "TBI is for data alone"),
    number("HWU", 28, 25, "hardware may use descriptor bits 62:59"),
    flag("HPD", 24, "hierarchical control is off (FEAT_HPDS)"),
    flag("RES1_23", 23, "reserved, one"),
    flag("HD", 22, "hardware manages the dirty state (FEAT_HAFDBS)"),
    flag("HA", 21, "hardware sets the access flag (FEAT_HAFDBS)"),
    flag("TBI", 20, "the top byte of an address is ignored"),
    named("PS", 18, 16, "size of output addresses", OUTPUT_SIZE),
    named("TG0", 15, 14, "granule", TG0),
    named("SH0", 13, 12, "walks", SHAREABILITY),
    named("ORGN0", 11, 10, "walks, outer", CACHEABILITY),
    named("IRGN0", 9, 8, "walks, inner", CACHEABILITY),
    width("T0SZ", 5, 0, "size of the input space"),
];

/// What TCR_EL3 has above these.
const EL3: [Field; 25] = {
    let mut fields = [ONE_RANGE[0]; 25];
    let above = [
        flag("DisCH0", 43, "the Contiguous bit of the root is off (FEAT_D128)"),
        flag("HAFT", 42, "hardware sets the access flag of tables (FEAT_HAFT)"),
        flag("PTTWI", 41, "permits incoherent walks (FEAT_THE)"),
        flag("D128", 38, "128-bit descriptors (FEAT_D128)"),
        flag("AIE", 37, "bit 59 of a descriptor extends AttrIndx (FEAT_AIE)"),
        flag("POE", 36, "permission overlays (FEAT_S1POE)"),
        flag("PIE", 35, "permissions are indirect, by PIR_EL3 (FEAT_S1PIE)"),
        flag("PnCH", 34, "bit 52 of a descriptor is Protected (FEAT_THE)"),
    ];
    let mut index = 0;
    while index < fields.len() {
        fields[index] = if index < above.len() { above[index] } else { ONE_RANGE[index - above.len()] };
        index += 1;
    }
    fields
};

registers! {
    /// TCR_EL1, and TCR_EL2 with HCR_EL2.E2H = 1.
    TCR_EL1 = [
        flag("MTX1", 61, "upper half: bits 59:56 of an address are a tag (FEAT_MTE_NO_ADDRESS_TAGS)"),
        flag("MTX0", 60, "lower half: bits 59:56 of an address are a tag"),
        flag("DS", 59, "LPA2 descriptors and 52-bit addresses with 4K and 16K (FEAT_LPA2)"),
        flag("TCMA1", 58, "upper half: tag 0b1111 is not checked (FEAT_MTE2)"),
        flag("TCMA0", 57, "lower half: tag 0b0000 is not checked (FEAT_MTE2)"),
        flag("E0PD1", 56, "EL0 accesses to the upper half fault at constant cost (FEAT_E0PD)"),
        flag("E0PD0", 55, "EL0 accesses to the lower half fault at constant cost (FEAT_E0PD)"),
        flag("NFD1", 54, "no walks of the upper half for non-fault accesses of EL0 (SVE)"),
        flag("NFD0", 53, "no walks of the lower half for non-fault accesses of EL0 (SVE)"),
        flag("TBID1", 52, "upper half: TBI1 is for data alone"),
        flag("TBID0", 51, "lower half: TBI0 is for data alone"),
        number("HWU1", 50, 47, "upper half: hardware may use descriptor bits 62:59"),
        number("HWU0", 46, 43, "lower half: hardware may use descriptor bits 62:59"),
        flag("HPD1", 42, "upper half: hierarchical control is off (FEAT_HPDS)"),
        flag("HPD0", 41, "lower half: hierarchical control is off (FEAT_HPDS)"),
        flag("HD", 40, "hardware manages the dirty state (FEAT_HAFDBS)"),
        flag("HA", 39, "hardware sets the access flag (FEAT_HAFDBS)"),
        flag("TBI1", 38, "upper half: the top byte of an address is ignored"),
        flag("TBI0", 37, "lower half: the top byte of an address is ignored"),
        named("AS", 36, 36, "size of ASIDs", &[(0, "8 bits"), (1, "16 bits")]),
        named("IPS", 34, 32, "size of output addresses", OUTPUT_SIZE),
        named("TG1", 31, 30, "granule of the upper half", TG1),
        named("SH1", 29, 28, "walks of the upper half", SHAREABILITY),
        named("ORGN1", 27, 26, "walks of the upper half, outer", CACHEABILITY),
        named("IRGN1", 25, 24, "walks of the upper half, inner", CACHEABILITY),
        flag("EPD1", 23, "no walks of the upper half"),
        named("A1", 22, 22, "the ASID is that of", &[(0, "TTBR0_EL1"), (1, "TTBR1_EL1")]),
        width("T1SZ", 21, 16, "size of the upper half"),
        named("TG0", 15, 14, "granule of the lower half", TG0),
        named("SH0", 13, 12, "walks of the lower half", SHAREABILITY),
        named("ORGN0", 11, 10, "walks of the lower half, outer", CACHEABILITY),
        named("IRGN0", 9, 8, "walks of the lower half, inner", CACHEABILITY),
        flag("EPD0", 7, "no walks of the lower half"),
        width("T0SZ", 5, 0, "size of the lower half"),
    ];
    /// TCR2_EL1, the fields that change what descriptors mean.
    TCR2_EL1 = [
        flag("DisCH1", 15, "upper half: the Contiguous bit of the root is off (FEAT_D128)"),
        flag("DisCH0", 14, "lower half: the Contiguous bit of the root is off (FEAT_D128)"),
        flag("HAFT", 11, "hardware sets the access flag of tables (FEAT_HAFT)"),
        flag("PTTWI", 10, "permits incoherent walks (FEAT_THE)"),
        flag("D128", 5, "128-bit descriptors (FEAT_D128)"),
        flag("AIE", 4, "bit 59 of a descriptor extends AttrIndx (FEAT_AIE)"),
        flag("POE", 3, "permission overlays for EL1 (FEAT_S1POE)"),
        flag("E0POE", 2, "permission overlays for EL0 (FEAT_S1POE)"),
        flag("PIE", 1, "permissions are indirect, by PIR_EL1 (FEAT_S1PIE)"),
        flag("PnCH", 0, "bit 52 of a descriptor is Protected (FEAT_THE)"),
    ];
    /// TCR_EL2 with HCR_EL2.E2H = 0.
    TCR_EL2 "E2H = 0" = ONE_RANGE;
    /// TCR_EL3.
    TCR_EL3 = EL3;
    /// VTCR_EL2.
    VTCR_EL2 = [
        flag("HDBSS", 45, "hardware keeps a list of what it made dirty (FEAT_HDBSS)"),
        flag("HAFT", 44, "hardware sets the access flag of tables (FEAT_HAFT)"),
        flag("TL0", 41, "TopLevel of the lower half is checked (FEAT_THE)"),
        flag("GCSH", 40, "guarded control stacks are AssuredOnly (FEAT_THE)"),
        flag("D128", 38, "128-bit descriptors (FEAT_D128)"),
        flag("S2POE", 37, "permission overlays (FEAT_S2POE)"),
        flag("S2PIE", 36, "permissions are indirect, by S2PIR_EL2 (FEAT_S2PIE)"),
        flag("TL1", 35, "TopLevel of the upper half is checked (FEAT_THE)"),
        flag("AssuredOnly", 34, "AssuredOnly is checked (FEAT_THE)"),
        flag("SL2", 33, "with DS and SL0 = 00, lookup starts at level -1"),
        flag("DS", 32, "LPA2 descriptors and 52-bit addresses with 4K and 16K (FEAT_LPA2)"),
        flag("RES1_31", 31, "reserved, one"),
        flag("NSA", 30, "Non-secure stage 2 leads to the Non-secure space"),
        flag("NSW", 29, "Non-secure stage 2 is walked in the Non-secure space"),
        number("HWU", 28, 25, "hardware may use descriptor bits 62:59"),
        flag("HD", 22, "hardware manages the dirty state (FEAT_HAFDBS)"),
        flag("HA", 21, "hardware sets the access flag (FEAT_HAFDBS)"),
        named("VS", 19, 19, "size of VMIDs", &[(0, "8 bits"), (1, "16 bits")]),
        named("PS", 18, 16, "size of output addresses", OUTPUT_SIZE),
        named("TG0", 15, 14, "granule", TG0),
        named("SH0", 13, 12, "walks", SHAREABILITY),
        named("ORGN0", 11, 10, "walks, outer", CACHEABILITY),
        named("IRGN0", 9, 8, "walks, inner", CACHEABILITY),
        number("SL0", 7, 6, "start level: with 4K 2, 1, 0, 3; with 16K and 64K 3, 2, 1, 0"),
        width("T0SZ", 5, 0, "size of the input space"),
    ];
}

const TTBR: [Field; 3] = [
    number("ASID", 63, 48, "address space"),
    number("BADDR", 47, 1, "address of the root, from bit 1; with 52-bit addresses bits 5:2 are its bits 51:48"),
    flag("CnP", 0, "common, not private: shared by all PEs of the inner shareable domain (FEAT_TTCNP)"),
];

registers! {
    /// TTBR0_EL1, and TTBR0_EL2.
    TTBR0_EL1 = TTBR;
    /// TTBR1_EL1, and TTBR1_EL2.
    TTBR1_EL1 = TTBR;
    /// TTBR0_EL3: there are no ASIDs.
    TTBR0_EL3 = [TTBR[1], TTBR[2]];
    /// VTTBR_EL2.
    VTTBR_EL2 = [
        number("VMID", 63, 48, "virtual machine"),
        number("BADDR", 47, 1, "address of the root, from bit 1; with 52-bit addresses bits 5:2 are its bits 51:48"),
        flag("CnP", 0, "common, not private (FEAT_TTCNP)"),
    ];
}

const fn memory(name: &'static str, index: u8) -> Field {
    let purpose = "memory type of leaves with this AttrIndx";
    Field { name, high: index * 8 + 7, low: index * 8, purpose, values: Values::MemoryType }
}

registers! {
    /// MAIR_EL1, and MAIR_EL2 and MAIR_EL3.
    MAIR_EL1 = [
        memory("Attr7", 7),
        memory("Attr6", 6),
        memory("Attr5", 5),
        memory("Attr4", 4),
        memory("Attr3", 3),
        memory("Attr2", 2),
        memory("Attr1", 1),
        memory("Attr0", 0),
    ];
}
