//! Registers that stand beside ESR, and TLBIs of every level.

use expect_test::{expect, expect_file};
use vmsa::TlbiOp;

use super::*;

fn text(what: &str, values: &[&str]) -> String {
    let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
    text_of(what, &values, &PLAIN)
}

/// The conclusions alone.
fn says(what: &str, value: &str, mmfr0: Option<u64>) -> Vec<String> {
    let words = decode(what, &[value.to_owned()], &PLAIN, mmfr0).unwrap_or_else(|Failure(line)| panic!("{line}"));
    words.conclusions
}

#[test]
fn numbers_are_as_kernels_print_them() {
    for (value, start) in [
        ("96000044", "ESR = 0x0000000096000044: data abort, translation fault, level 0, on a write"),
        ("0x9600_0044UL", "ESR = 0x0000000096000044: "),
        ("0d2516582468", "ESR = 0x0000000096000044: "),
        ("f2000800", "ESR = 0x00000000f2000800: BRK instruction"),
    ] {
        assert!(text("esr", &[value]).starts_with(start), "{value}");
    }
    let level2 = EncodingArguments { level: Level::L2, ..PLAIN };
    let descriptor = |value: &str| text_of("descriptor", &[value.to_owned()], &level2);
    assert!(
        descriptor("800000001801003")
            .starts_with("0x0800000001801003 at level 2, 4K granule, Bits48: table of level 3")
    );
    assert!(descriptor("00680007f8e00f01").contains("2M block to 0x7f8e00000"));
    assert_eq!(text("esr", &["0d000044"]), "`0d000044` is hexadecimal or decimal: write 0x0d000044 or 0d_000044");
    assert!(text("esr", &["data abort"]).contains("hexadecimal, with or without 0x; 0d… is decimal"));
    assert!(text("esr", &[]).contains("takes one value, not 0"));
}

#[test]
fn addresses_are_of_a_half_or_of_none() {
    let far = |value: u64| says("far", &format!("{value:x}"), None).join("; ");
    assert!(
        far(0xffff_a4f4_4000_1638)
            .starts_with("upper half (TTBR1), where it has 47 bits or more; in neither half with 36, 39, 42 bits")
    );
    assert!(
        far(0xffff_7000_0000_0000)
            .starts_with("upper half (TTBR1), where it has 48 bits or more; in neither half with 36, 39, 42, 47 bits")
    );
    assert!(far(0x7fff_ffff_ffff).starts_with("lower half (TTBR0), where it has 47 bits or more"));
    assert!(far(0x0010_0000_0000_0000).contains("in neither half at any width"));
    assert!(!far(0x000f_ffff_ffff_ffff).contains("at any width"));
    assert!(far(0xf0ff_8000_1234_5678).contains("its top byte 0xf0 is a tag"));
    assert!(far(0x18).contains("a null pointer and 0x18 bytes"));
    assert!(!far(0x1000).contains("null") && far(0xfff).contains("null") && far(0).contains("null"));
    assert!(far(u64::MAX).starts_with("upper half (TTBR1)"));
    assert!(
        !far(0xf_ffff_ffff).contains("where")
            && far(0x10_0000_0000).contains("37 bits or more; in neither half with 36 bits")
    );
}

#[test]
fn registers_beside_a_syndrome() {
    let rows = [
        ("hpfar_el2", "0x80"),
        ("spsr_el2", "600003c9"),
        ("pstate", "80000010"),
        ("ctr_el0", "0x84448004"),
        ("tcr_el3", "80823510"),
        ("mair_el3", "ff"),
        ("hcr", "0x488000001"),
        ("ttbr0_el3", "0x4001000"),
        ("ttbr0_el3", "0x0042000004001001"),
        ("sctlr_el2", "30c5183d"),
        ("sctlr_el3", "32cd183f"),
        ("sctlr_el3", "0x0000030000000000"),
        ("tcr2_el2", "0xa"),
        ("id_aa64pfr1", "0x21"),
    ];
    let kept = |line: &&str| !line.contains("no: ") && !line.contains(": 0  ") && !line.ends_with(": no");
    let all: String = rows
        .iter()
        .map(|(what, value)| {
            text(what, &[value]).lines().filter(kept).flat_map(|line| [line, "\n"]).collect::<String>()
        })
        .collect();
    expect_file!["registers.txt"].assert_eq(&all);
    for wrong in ["ttbr1_el3", "tcr_el4", "far_el4", "spsr_el0", "sctlr_el0", "sctlr_el4"] {
        assert!(text(wrong, &["0"]).starts_with("nothing known of"), "{wrong}");
    }
}

/// VTCR and TCR against what a CPU has: one below, at, above each bound.
#[test]
fn sizes_are_held_against_the_cpu() {
    // PARange by code, and T0SZ for so many bits.
    let vtcr = |bits: u64, sl0: u64, ps: u64| format!("{:#x}", 0x8000_3500_u64 | ps << 16 | sl0 << 6 | (64 - bits));
    let line = |vtcr: &str, pa: u64| says("vtcr", vtcr, Some(pa)).join("; ");
    assert!(!line(&vtcr(40, 1, 2), 2).contains("fault"), "40 bits of 40");
    assert!(line(&vtcr(40, 1, 2), 2).contains("PS is PARange: 40 bits"));
    assert!(line(&vtcr(41, 1, 2), 2).contains("T0SZ asks for 41 bits of intermediate address, PARange is 40"));
    assert!(line(&vtcr(39, 1, 3), 2).contains("PS is above PARange: the CPU has 40 bits"));
    assert!(line(&vtcr(39, 1, 1), 2).contains("PS is below PARange: what lies above 36 bits is an address size fault"));
    assert!(line(&vtcr(42, 2, 3), 3).contains("a root at level 0 needs PARange of 44 bits, not 42"));
    assert!(!line(&vtcr(44, 2, 4), 4).contains("needs"));
    assert!(!line(&vtcr(48, 2, 5), 6).contains("T0SZ asks"), "48 bits of 52");
    assert!(says("vtcr", &vtcr(40, 1, 2), None).join("; ").contains("needs PARange of 40 bits or more (give --mmfr0)"));
    assert!(says("tcr", "0x5b5103510", Some(2)).join("; ").contains("IPS is above PARange"));
    assert!(says("tcr", "0x5b5103510", Some(5)).join("; ").contains("IPS is PARange"));
}

#[test]
fn tlbis_of_every_level() {
    let rows: [&[&str]; 10] = [
        &["vae3is", "0x40000"],
        &["rvale3os", "0x40000"],
        &["alle3", "0x1"],
        &["paallos"],
        &["rpaos", "0x600000040000"],
        &["vaae1is", "0xffff000040001000"],
        &["vae1is", "0x40001000"],
        &["ipas2e1is", "0x8000000000040000"],
        &["vale1is,", "0x40000"],
        &["d5088321", "0x40000"],
    ];
    let all: String = rows.iter().map(|values| text("tlbi", values)).collect();
    expect![[r#"
        tlbi vae3is (sys #6, c8, c3, #1; DDI 0487, C5.5)
          EL3: all levels; every PE of the inner shareable domain
          RES0  [63:48]  0x0      reserved: there are no ASIDs
          TTL   [47:44]  0x0      leaves of any level
          VA    [43:0]   0x40000  0x40000000
          if 0x40000 is the address, it was not shifted: the operand is 0x40 (by 12 at every granule)
        tlbi rvale3os (sys #6, c8, c5, #5; DDI 0487, C5.5)
          EL3: last level, by range; every PE of the outer shareable domain
          RES0      [63:48]  0x0      reserved: there are no ASIDs
          TG        [47:46]  0x0      reserved
          SCALE     [45:44]  0x0      units of 2 pages
          NUM       [43:39]  0x0      1 units, 2 pages
          TTL       [38:37]  0x0      leaves of any level
          BaseADDR  [36:0]   0x40000  0x40000000 to 0x40001fff; with LPA2 0x400000000 to 0x400001fff
        tlbi alle3 (sys #6, c8, c7, #0; DDI 0487, C5.5)
          EL3: everything; this PE alone
          its operand is ignored
        tlbi paallos (sys #6, c8, c1, #4; DDI 0487, C5.5)
          granule protection table (FEAT_RME): everything; every PE of the outer shareable domain
        tlbi rpaos (sys #6, c8, c4, #3; DDI 0487, C5.5)
          granule protection table (FEAT_RME): a range of physical addresses, all levels; every PE of the outer shareable domain
          SIZE     [47:44]  0x6      1G
          Address  [43:0]   0x40000  0x40000000
        tlbi vaae1is (sys #0, c8, c3, #3; DDI 0487, C5.5)
          EL1&0: all levels, any ASID; every PE of the inner shareable domain
          ASID  [63:48]  0xffff      ignored: any ASID
          TTL   [47:44]  0x0         leaves of any level
          VA    [43:0]   0x40001000  0x40001000000
          ASID and TTL look like the top of an address that was not shifted: 0xffff000040001000 >> 12 is 0xff000040001
        tlbi vae1is (sys #0, c8, c3, #1; DDI 0487, C5.5)
          EL1&0: all levels, one ASID; every PE of the inner shareable domain
          ASID  [63:48]  0x0         0
          TTL   [47:44]  0x0         leaves of any level
          VA    [43:0]   0x40001000  0x40001000000
          if 0x40001000 is the address, it was not shifted: the operand is 0x40001 (by 12 at every granule)
        tlbi ipas2e1is (sys #4, c8, c0, #1; DDI 0487, C5.5)
          EL1&0: stage 2, all levels; every PE of the inner shareable domain
          NS   [63]     0x1      the Non-secure intermediate space, in Secure state; else no matter
          TTL  [47:44]  0x0      leaves of any level
          IPA  [39:0]   0x40000  0x40000000
        tlbi vale1is (sys #0, c8, c3, #5; DDI 0487, C5.5)
          EL1&0: last level, one ASID; every PE of the inner shareable domain
          ASID  [63:48]  0x0      0
          TTL   [47:44]  0x0      leaves of any level
          VA    [43:0]   0x40000  0x40000000
          if 0x40000 is the address, it was not shifted: the operand is 0x40 (by 12 at every granule)
        tlbi vae1is (sys #0, c8, c3, #1; DDI 0487, C5.5)
          EL1&0: all levels, one ASID; every PE of the inner shareable domain
          ASID  [63:48]  0x0      0
          TTL   [47:44]  0x0      leaves of any level
          VA    [43:0]   0x40000  0x40000000
          if 0x40000 is the address, it was not shifted: the operand is 0x40 (by 12 at every granule)
    "#]].assert_eq(&all);
}

#[test]
fn what_is_no_tlbi_is_refused() {
    assert!(text("tlbi", &["vae4is"]).starts_with("no TLBI `vae4is`"));
    assert!(
        text("tlbi", &["vmalls12e3"]).starts_with("no TLBI") && text("tlbi", &["ipas2e3is"]).starts_with("no TLBI")
    );
}

/// Instruction words of an assembler (binutils 2.40), and every operation by its own word.
#[test]
fn instruction_words_name_their_operation() {
    let rows = [
        ("d50e871f", "alle3"),
        ("d50e8320", "vae3is"),
        ("d50e81a0", "vale3os"),
        ("d50e8620", "rvae3"),
        ("d50e85a0", "rvale3os"),
        ("d50e879f", "paall"),
        ("d50e819f", "paallos"),
        ("d50e8460", "rpaos"),
        ("d50e84e0", "rpalos"),
        ("d50c8020", "ipas2e1is"),
    ];
    for (word, name) in rows {
        assert!(text("tlbi", &[word]).starts_with(&format!("tlbi {name} ")), "{word}");
        assert!(text("tlbi", &[name]).starts_with(&format!("tlbi {name} ")), "{name}");
    }
    for name in vmsa::maintenance::TlbiName::ALL {
        for op in [TlbiOp::new(*name), TlbiOp::new(*name).without_xs()] {
            let (op1, crn, crm, op2) = op.fields();
            let fields = [(op1, 16), (crn, 12), (crm, 8), (op2, 5)].map(|(field, low)| u32::from(field) << low);
            let word = fields.iter().fold(0xd508_0000_u32, |word, field| word | field);
            assert!(text("tlbi", &[&format!("{word:x}")]).starts_with(&format!("tlbi {op} ")), "{op}");
        }
    }
    // A DSB, and a SYS that is no TLBI.
    assert!(text("tlbi", &["d5033f9f"]).starts_with("no TLBI") && text("tlbi", &["d5087520"]).starts_with("no TLBI"));
}
