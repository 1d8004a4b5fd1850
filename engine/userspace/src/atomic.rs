//! Atomic instructions: they read memory and write it in one access. Where nothing is mapped, the CPU tells of the read alone
//! (ISS.WnR is 0), because a read would have faulted as well.
//!
//! ```text
//!  bits 29 to 24  ──▶  rows: mask, value  ──▶  one of them, or none
//! ```
//! (DDI 0487, C4.1.94; FEAT_LSE, LSE128, LSUI, LSFE.) What is not here stays a read: exclusives, LDAPR and LD64B, which only read;
//! ST64B, which only writes, and is told as that; those of FEAT_THE, which write descriptors.

/// Words that under a mask have a value.
type Rows = &'static [(u32, u32)];

const ATOMIC: Rows = &[
    // LD<op> and ST<op>, which is LD<op> to the zero register.
    (0x3f20_8c00, 0x3820_0000),
    // SWP.
    (0x3f20_fc00, 0x3820_8000),
];

/// CASP, whose bit 31 tells it from an exclusive pair; CAS.
const COMPARE: Rows = &[(0xbfa0_7c00, 0x0820_7c00), (0x3fa0_7c00, 0x08a0_7c00)];

/// CASPT, CAST.
const COMPARE_UNPRIVILEGED: Rows = &[(0xffa0_7c00, 0x4980_7c00), (0xffa0_7c00, 0xc980_7c00)];

const WIDE_AND_UNPRIVILEGED: Rows = &[
    // LDCLRP, LDSETP, SWPP.
    (0xff20_fc00, 0x1920_1000),
    (0xff20_fc00, 0x1920_3000),
    (0xff20_fc00, 0x1920_8000),
    // LDTADD, LDTCLR, LDTSET, SWPT.
    (0xbf20_fc00, 0x1920_0400),
    (0xbf20_fc00, 0x1920_1400),
    (0xbf20_fc00, 0x1920_3400),
    (0xbf20_fc00, 0x1920_8400),
];

const FLOATING: Rows = &[
    // LDFADD; LDFMAX, LDFMIN, LDFMAXNM, LDFMINNM.
    (0x3f20_fc00, 0x3c20_0000),
    (0x3f20_cc00, 0x3c20_4000),
    // STFADD; STFMAX, STFMIN, STFMAXNM, STFMINNM.
    (0x3fa0_fc1f, 0x3c20_801f),
    (0x3fa0_cc1f, 0x3c20_c01f),
];

/// Whether an A64 instruction reads memory and writes it in one access. An exclusive does not: it reads, or it writes.
pub fn is_atomic(word: u32) -> bool {
    let rows = match word >> 24 & 0x3f {
        0x08 => COMPARE,
        0x09 => COMPARE_UNPRIVILEGED,
        0x19 => WIDE_AND_UNPRIVILEGED,
        0x38 => ATOMIC,
        0x3c => FLOATING,
        _ => return false,
    };
    rows.iter().any(|(mask, value)| word & mask == *value)
}
