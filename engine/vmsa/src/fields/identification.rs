// data: the fields of identification registers, from the manual's register descriptions (D23.2).
//! MIDR_EL1 and the ID registers that memory management reads.

use super::{Register, flag, named, number};

const NO_YES: &[(u64, &str)] = &[(0, "no"), (1, "yes")];

registers! {
    /// MIDR_EL1.
    MIDR_EL1 = [
        named(
            "Implementer",
            31,
            24,
            "who made it",
            &[
                (0x00, "software"),
                (0x41, "Arm"),
                (0x42, "Broadcom"),
                (0x43, "Cavium"),
                (0x46, "Fujitsu"),
                (0x48, "HiSilicon"),
                (0x4e, "NVIDIA"),
                (0x50, "Applied Micro"),
                (0x51, "Qualcomm"),
                (0x53, "Samsung"),
                (0x56, "Marvell"),
                (0x61, "Apple"),
                (0x6d, "Microsoft"),
                (0xc0, "Ampere"),
            ],
        ),
        number("Variant", 23, 20, "major revision, rN"),
        number("Architecture", 19, 16, "15: told by the ID registers"),
        number("PartNum", 15, 4, "model"),
        number("Revision", 3, 0, "minor revision, pN"),
    ];
}

const EL: &[(u64, &str)] = &[(0, "not implemented"), (1, "AArch64 only"), (2, "AArch64 and AArch32")];

registers! {
    /// ID_AA64PFR0_EL1.
    ID_AA64PFR0_EL1 = [
        named("CSV3", 63, 60, "loads that fault forward no data", NO_YES),
        number("CSV2", 59, 56, "branch prediction is contained"),
        number("RME", 55, 52, "realm management (FEAT_RME)"),
        named("DIT", 51, 48, "data independent timing", NO_YES),
        number("AMU", 47, 44, "activity monitors"),
        number("MPAM", 43, 40, "memory partitioning, major version"),
        named("SEL2", 39, 36, "Secure EL2", NO_YES),
        named("SVE", 35, 32, "scalable vectors", NO_YES),
        number("RAS", 31, 28, "reliability extension"),
        number("GIC", 27, 24, "system registers of the interrupt controller"),
        named("AdvSIMD", 23, 20, "SIMD", &[(0, "yes"), (1, "yes, half precision"), (15, "no")]),
        named("FP", 19, 16, "floating point", &[(0, "yes"), (1, "yes, half precision"), (15, "no")]),
        named("EL3", 15, 12, "EL3", EL),
        named("EL2", 11, 8, "EL2", EL),
        named("EL1", 7, 4, "EL1", EL),
        named("EL0", 3, 0, "EL0", EL),
    ];
    /// ID_AA64PFR1_EL1.
    ID_AA64PFR1_EL1 = [
        named("PFAR", 63, 60, "PFAR_ELx, the physical address of a fault", NO_YES),
        named("DF2", 59, 56, "double faults, second version", NO_YES),
        number("MTEX", 55, 52, "tag checks of canonical addresses, and memory without address tags"),
        named("THE", 51, 48, "translation hardening", NO_YES),
        named("GCS", 47, 44, "guarded control stacks", NO_YES),
        number("MTE_frac", 43, 40, "asynchronous tag checks, in part"),
        named("NMI", 39, 36, "interrupts with superpriority", NO_YES),
        number("CSV2_frac", 35, 32, "branch prediction is contained, in part"),
        named("RNDR_trap", 31, 28, "random numbers can trap", NO_YES),
        named("SME", 27, 24, "matrices", &[(0, "no"), (1, "SME"), (2, "SME2")]),
        number("MPAM_frac", 19, 16, "memory partitioning, minor version"),
        number("RAS_frac", 15, 12, "reliability extension, in part"),
        named("MTE", 11, 8, "memory tagging", &[(0, "no"), (1, "instructions"), (2, "MTE2"), (3, "MTE3")]),
        named("SSBS", 7, 4, "bypassing stores can be forbidden", &[(0, "no"), (1, "yes"), (2, "yes, with MSR and MRS")]),
        named("BT", 3, 0, "branch targets (BTI)", NO_YES),
    ];
    /// ID_AA64PFR2_EL1.
    ID_AA64PFR2_EL1 = [
        named("FPMR", 35, 32, "FPMR", NO_YES),
        named("UINJ", 19, 16, "undefined instruction exceptions can be injected", NO_YES),
        named("GCIE", 15, 12, "system registers of GICv5", NO_YES),
        named("MTEFAR", 11, 8, "FAR holds the tag of a tag check fault", NO_YES),
        named("MTESTOREONLY", 7, 4, "tags can be checked for stores alone", NO_YES),
        named("MTEPERM", 3, 0, "memory whose tags are not accessible", NO_YES),
    ];
    /// ID_AA64ISAR0_EL1.
    ID_AA64ISAR0_EL1 = [
        named("RNDR", 63, 60, "random numbers", NO_YES),
        named("TLB", 59, 56, "TLBIs", &[(0, "inner shareable"), (1, "and outer shareable"), (2, "and by range")]),
        number("TS", 55, 52, "condition flag instructions"),
        named("FHM", 51, 48, "FMLAL", NO_YES),
        named("DP", 47, 44, "dot products", NO_YES),
        named("SM4", 43, 40, "SM4", NO_YES),
        named("SM3", 39, 36, "SM3", NO_YES),
        named("SHA3", 35, 32, "SHA3", NO_YES),
        named("RDM", 31, 28, "SQRDMLAH", NO_YES),
        named("TME", 27, 24, "transactions", NO_YES),
        named("Atomic", 23, 20, "atomics", &[(0, "no"), (2, "LSE"), (3, "LSE and LSE128")]),
        named("CRC32", 19, 16, "CRC32", NO_YES),
        named("SHA2", 15, 12, "SHA2", &[(0, "no"), (1, "SHA256"), (2, "SHA256 and SHA512")]),
        named("SHA1", 11, 8, "SHA1", NO_YES),
        named("AES", 7, 4, "AES", &[(0, "no"), (1, "AES"), (2, "AES and PMULL")]),
    ];
    /// ID_AA64ISAR1_EL1.
    ID_AA64ISAR1_EL1 = [
        number("LS64", 63, 60, "loads and stores of 64 bytes"),
        named("XS", 59, 56, "the XS attribute, and nXS of TLBI and DSB", NO_YES),
        number("I8MM", 55, 52, "matrix multiplication"),
        number("DGH", 51, 48, "data gathering hints"),
        number("BF16", 47, 44, "BFloat16"),
        number("SPECRES", 43, 40, "prediction restriction"),
        named("SB", 39, 36, "speculation barrier", NO_YES),
        number("FRINTTS", 35, 32, "rounding to integers"),
        number("GPI", 31, 28, "generic pointer authentication, of the maker's"),
        number("GPA", 27, 24, "generic pointer authentication, QARMA5"),
        number("LRCPC", 23, 20, "release consistency"),
        number("FCMA", 19, 16, "complex numbers"),
        number("JSCVT", 15, 12, "conversion as JavaScript has it"),
        number("API", 11, 8, "pointer authentication, of the maker's"),
        number("APA", 7, 4, "pointer authentication, QARMA5"),
        number("DPB", 3, 0, "cleaning to the point of persistence"),
    ];
}

const STAGE2_GRANULE: &[(u64, &str)] = &[(0, "as stage 1"), (1, "no"), (2, "yes"), (3, "yes, with LPA2")];

registers! {
    /// ID_AA64MMFR0_EL1.
    ID_AA64MMFR0_EL1 = [
        named("ECV", 63, 60, "enhanced counter virtualisation", &[(0, "no"), (1, "yes"), (2, "yes, with an offset")]),
        named("FGT", 59, 56, "fine-grained traps", &[(0, "no"), (1, "yes"), (2, "yes, FGT2")]),
        named("ExS", 47, 44, "exceptions that do not synchronise context", NO_YES),
        named("TGran4_2", 43, 40, "4K at stage 2", STAGE2_GRANULE),
        named("TGran64_2", 39, 36, "64K at stage 2", &[(0, "as stage 1"), (1, "no"), (2, "yes")]),
        named("TGran16_2", 35, 32, "16K at stage 2", STAGE2_GRANULE),
        named("TGran4", 31, 28, "4K", &[(0, "yes"), (1, "yes, with LPA2"), (15, "no")]),
        named("TGran64", 27, 24, "64K", &[(0, "yes"), (15, "no")]),
        named("TGran16", 23, 20, "16K", &[(0, "no"), (1, "yes"), (2, "yes, with LPA2")]),
        named("BigEndEL0", 19, 16, "mixed endianness at EL0", NO_YES),
        named("SNSMem", 15, 12, "Secure and Non-secure memory are told apart", NO_YES),
        named("BigEnd", 11, 8, "mixed endianness", NO_YES),
        named("ASIDBits", 7, 4, "ASIDs", &[(0, "8 bits"), (2, "16 bits")]),
        named(
            "PARange",
            3,
            0,
            "physical addresses",
            &[
                (0, "32 bits"),
                (1, "36 bits"),
                (2, "40 bits"),
                (3, "42 bits"),
                (4, "44 bits"),
                (5, "48 bits"),
                (6, "52 bits"),
                (7, "56 bits"),
            ],
        ),
    ];
    /// ID_AA64MMFR1_EL1.
    ID_AA64MMFR1_EL1 = [
        named("ECBHB", 63, 60, "branch history is contained", NO_YES),
        named("CMOW", 59, 56, "cache maintenance needs write permission", NO_YES),
        named("TIDCP1", 55, 52, "traps of IMPLEMENTATION DEFINED registers from EL0", NO_YES),
        named("nTLBPA", 51, 48, "walks cache no intermediate results by physical address", NO_YES),
        named("AFP", 47, 44, "alternate floating point", NO_YES),
        named("HCX", 43, 40, "HCRX_EL2", NO_YES),
        named(
            "ETS",
            39,
            36,
            "enhanced translation synchronization",
            &[(0, "no"), (1, "no (ETS1 promises nothing)"), (2, "ETS2"), (3, "ETS3")],
        ),
        named("TWED", 35, 32, "delayed traps of WFE", NO_YES),
        named("XNX", 31, 28, "execute-never by privilege at stage 2", NO_YES),
        named("SpecSEI", 27, 24, "SErrors of speculative reads", NO_YES),
        named("PAN", 23, 20, "privileged access never", &[(0, "no"), (1, "PAN"), (2, "PAN2"), (3, "PAN3")]),
        named("LO", 19, 16, "limited ordering regions", NO_YES),
        named("HPDS", 15, 12, "hierarchical control can be off", &[(0, "no"), (1, "yes"), (2, "yes, with PBHA")]),
        named("VH", 11, 8, "virtualization host extensions", NO_YES),
        named("VMIDBits", 7, 4, "VMIDs", &[(0, "8 bits"), (2, "16 bits")]),
        named(
            "HAFDBS",
            3,
            0,
            "hardware updates",
            &[
                (0, "none"),
                (1, "access flag"),
                (2, "access flag and dirty state"),
                (3, "and access flags of tables"),
                (4, "and structures that track dirty state"),
            ],
        ),
    ];
    /// ID_AA64MMFR2_EL1.
    ID_AA64MMFR2_EL1 = [
        named("E0PD", 63, 60, "EL0 can be kept from a half at constant cost", NO_YES),
        named("EVT", 59, 56, "traps of TLBIs and cache identification", &[(0, "none"), (1, "some"), (2, "all")]),
        named(
            "BBM",
            55,
            52,
            "live leaves that change size",
            &[
                (0, "break before make"),
                (1, "nT, or break before make"),
                (2, "in place, conflict aborts may come"),
                (3, "in place, without conflict aborts (FEAT_BBML3)"),
            ],
        ),
        named("TTL", 51, 48, "level hints in TLBIs", NO_YES),
        named("FWB", 43, 40, "stage 2 can force write-back", NO_YES),
        named("IDS", 39, 36, "syndrome of traps of ID registers", &[(0, "0x0"), (1, "0x18"), (2, "0x18, and more")]),
        named("AT", 35, 32, "unaligned single-copy atomics", NO_YES),
        named("ST", 31, 28, "small tables", NO_YES),
        named("NV", 27, 24, "nested virtualisation", &[(0, "no"), (1, "NV"), (2, "NV2"), (3, "NV2p1")]),
        named("CCIDX", 23, 20, "layout of CCSIDR_EL1", &[(0, "32 bits"), (1, "64 bits")]),
        named("VARange", 19, 16, "virtual addresses", &[(0, "48 bits"), (1, "52 bits with 64K"), (2, "56 bits")]),
        named("IESB", 15, 12, "errors synchronised on exceptions", NO_YES),
        named("LSM", 11, 8, "controls of load and store multiple", NO_YES),
        named("UAO", 7, 4, "user access override", NO_YES),
        named("CnP", 3, 0, "common, not private", NO_YES),
    ];
    /// ID_AA64MMFR3_EL1.
    ID_AA64MMFR3_EL1 = [
        number("Spec_FPACC", 63, 60, "speculation after pointer authentication"),
        number("ADERR", 59, 56, "asynchronous errors on Device reads"),
        number("SDERR", 55, 52, "synchronous errors on Device reads"),
        number("ANERR", 47, 44, "asynchronous errors on Normal reads"),
        number("SNERR", 43, 40, "synchronous errors on Normal reads"),
        named("D128_2", 39, 36, "128-bit descriptors at stage 2", NO_YES),
        named("D128", 35, 32, "128-bit descriptors", NO_YES),
        number("MEC", 31, 28, "memory encryption contexts"),
        named("AIE", 27, 24, "extended AttrIndx", NO_YES),
        named("S2POE", 23, 20, "permission overlays at stage 2", NO_YES),
        named("S1POE", 19, 16, "permission overlays at stage 1", NO_YES),
        named("S2PIE", 15, 12, "permission indirection at stage 2", NO_YES),
        named("S1PIE", 11, 8, "permission indirection at stage 1", NO_YES),
        named("SCTLRX", 7, 4, "SCTLR2", NO_YES),
        named("TCRX", 3, 0, "TCR2", NO_YES),
    ];
    /// ID_AA64MMFR4_EL1, the fields that concern translation and EL2.
    ID_AA64MMFR4_EL1 = [
        number("TLBID", 43, 40, "TLBI domains (FEAT_TLBID)"),
        named("E2H0", 27, 24, "HCR_EL2.E2H can be 0", &[(0, "yes"), (14, "no, and NV1 is reserved"), (15, "no")]),
        number("NV_frac", 23, 20, "nested virtualisation, in part"),
        named("FGWTE3", 19, 16, "write traps of EL3", NO_YES),
        named("HACDBS", 15, 12, "hardware cleans dirty state", NO_YES),
        named("ASID2", 11, 8, "an ASID for each half", NO_YES),
        number("EIESB", 7, 4, "SErrors synchronised before exceptions"),
    ];
}

registers! {
    /// CTR_EL0.
    CTR_EL0 = [
        number("TminLine", 37, 32, "lines with tags, words by power of two (FEAT_MTE2)"),
        flag("RES1_31", 31, "reserved, one"),
        flag("DIC", 29, "new instructions need no invalidation of instruction caches"),
        flag("IDC", 28, "new instructions need no cleaning of data caches"),
        number("CWG", 27, 24, "most words written back at once, by power of two"),
        number("ERG", 23, 20, "most words of an exclusive reservation, by power of two"),
        number("DminLine", 19, 16, "smallest line of data caches, words by power of two"),
        named("L1Ip", 15, 14, "instruction caches are indexed", &[
            (0, "virtually, tagged by VMID (VPIPT)"),
            (2, "virtually, tagged physically (VIPT)"),
            (3, "physically (PIPT)"),
        ]),
        number("IminLine", 3, 0, "smallest line of instruction caches, words by power of two"),
    ];
}
