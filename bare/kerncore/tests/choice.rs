//! What is chosen for CPUs as QEMU 7.2 has them, and where the linear map goes.

use expect_test::{Expect, expect};
use kerncore::choice::{Choice, Requirement, choose};
use kerncore::command_line::parse;
use kerncore::finding::Findings;
use kerncore::linear::Linear;
use vmsa::{IdRegisters, Layout, LeafSize, PageSize, PhysAddr};

/// A CPU by ID_AA64MMFR0_EL1 and ID_AA64MMFR2_EL1.
const fn cpu(mmfr0: u64, mmfr2: u64) -> IdRegisters {
    IdRegisters { pfr0: 0, isar0: 0, isar1: 0, mmfr0, mmfr1: 0, mmfr2 }
}

const MAX: IdRegisters = cpu(0x323_1020_1126, 0x1021_0110_1001_1011);
const WITHOUT_LPA2: IdRegisters = cpu(0x222_0010_1126, 0x1021_0110_1001_1011);
const CORTEX_A72: IdRegisters = cpu(0x1124, 0);
/// No CPU lacks 4K and 64K; the architecture allows it.
const ONLY_16K: IdRegisters = cpu(0xff1f_1125, 0);

const BELOW_48_BITS: PhysAddr = PhysAddr::new(0xc000_0000);
const ABOVE_48_BITS: PhysAddr = PhysAddr::new(1 << 49);

fn chosen(cpu: &IdRegisters, line: &str, memory_end: PhysAddr) -> (Choice, String) {
    let mut findings = Findings::new();
    let options = parse(line, &mut findings);
    (choose(cpu, &options, memory_end, &mut findings), findings.to_string())
}

/// A line for each command line: what is chosen, and what is said.
fn check(cpu: &IdRegisters, memory_end: PhysAddr, lines: &[&str], expect: Expect) {
    let told = lines.iter().map(|line| {
        let (choice, said) = chosen(cpu, line, memory_end);
        let Choice { page_size, page_size_reason, virtual_bits, bits_reason, layout, physical_limit } = choice;
        let limit = physical_limit.bits().ilog2();
        let (size, bits) = (page_size, virtual_bits);
        format!("{line}: {size} ({page_size_reason:?}), {bits} ({bits_reason:?}), {layout:?}, physical {limit}\n{said}")
    });
    expect.assert_eq(&told.collect::<String>());
}

#[test]
fn what_is_asked_for_is_taken() {
    check(
        &MAX,
        BELOW_48_BITS,
        &[
            "",
            "vellum.vabits=39",
            "arm64.pagesize=16k vellum.vabits=47",
            "arm64.pagesize=64k vellum.vabits=42",
            "arm64.pagesize=64k",
            "vellum.vabits=36",
            "vellum.vabits=50",
        ],
        expect![[r#"
            : 4K (Default), 52 (Largest), Lpa2, physical 52
            vellum.vabits=39: 4K (Default), 39 (Asked), Bits48, physical 48
            arm64.pagesize=16k vellum.vabits=47: 16K (Asked), 47 (Asked), Bits48, physical 48
            arm64.pagesize=64k vellum.vabits=42: 64K (Asked), 42 (Asked), Bits48, physical 48
            arm64.pagesize=64k: 64K (Asked), 52 (Largest), Lpa, physical 52
            vellum.vabits=36: 4K (Default), 36 (Asked), Bits48, physical 48
            vellum.vabits=50: 4K (Default), 50 (Asked), Lpa2, physical 52
        "#]],
    );
}

#[test]
fn what_the_cpu_lacks_is_said_and_replaced() {
    let lines = ["arm64.pagesize=16k", "vellum.vabits=52", "arm64.pagesize=64k vellum.vabits=49", "vellum.vabits=35"];
    check(
        &CORTEX_A72,
        BELOW_48_BITS,
        &lines,
        expect![[r#"
            arm64.pagesize=16k: 4K (Instead(Size16K)), 48 (Largest), Bits48, physical 44
            warning: command line: arm64.pagesize=16K: the CPU has no 16K granule, expected one that it has; 4K is used
            vellum.vabits=52: 4K (Default), 48 (Instead(52)), Bits48, physical 44
            warning: command line: vellum.vabits=52: the CPU has at most 48 with 4K pages, expected 36 to 48; 48 is used
            arm64.pagesize=64k vellum.vabits=49: 64K (Asked), 48 (Instead(49)), Bits48, physical 44
            warning: command line: vellum.vabits=49: the CPU has at most 48 with 64K pages, expected 36 to 48; 48 is used
            vellum.vabits=35: 4K (Default), 48 (Largest), Bits48, physical 44
            warning: command line: vellum.vabits=35 makes no sense, expected a number from 36 to 52; the largest that is allowed is used
        "#]],
    );
    check(
        &WITHOUT_LPA2,
        BELOW_48_BITS,
        &["vellum.vabits=52", "arm64.pagesize=64k vellum.vabits=52"],
        expect![[r#"
            vellum.vabits=52: 4K (Default), 48 (Instead(52)), Bits48, physical 48
            warning: command line: vellum.vabits=52: the CPU has at most 48 with 4K pages, expected 36 to 48; 48 is used
            arm64.pagesize=64k vellum.vabits=52: 64K (Asked), 52 (Asked), Lpa, physical 52
        "#]],
    );
    check(
        &ONLY_16K,
        BELOW_48_BITS,
        &["", "arm64.pagesize=4k", "arm64.pagesize=8k"],
        expect![[r#"
            : 16K (Default), 48 (Largest), Bits48, physical 48
            arm64.pagesize=4k: 16K (Instead(Size4K)), 48 (Largest), Bits48, physical 48
            warning: command line: arm64.pagesize=4K: the CPU has no 4K granule, expected one that it has; 16K is used
            arm64.pagesize=8k: 16K (Default), 48 (Largest), Bits48, physical 48
            warning: command line: arm64.pagesize=8k makes no sense, expected 4k, 16k or 64k; the default is used
        "#]],
    );
}

#[test]
fn memory_beyond_48_bits_wants_wide_descriptors() {
    let lines = ["vellum.vabits=48", "arm64.pagesize=16k vellum.vabits=48", "arm64.pagesize=64k vellum.vabits=48"];
    check(
        &MAX,
        ABOVE_48_BITS,
        &lines,
        expect![[r#"
            vellum.vabits=48: 4K (Default), 48 (Asked), Lpa2, physical 52
            arm64.pagesize=16k vellum.vabits=48: 16K (Asked), 48 (Asked), Lpa2, physical 52
            arm64.pagesize=64k vellum.vabits=48: 64K (Asked), 48 (Asked), Lpa, physical 52
        "#]],
    );
    check(
        &WITHOUT_LPA2,
        ABOVE_48_BITS,
        &lines,
        expect![[r#"
            vellum.vabits=48: 4K (Default), 48 (Asked), Bits48, physical 48
            arm64.pagesize=16k vellum.vabits=48: 16K (Asked), 48 (Asked), Bits48, physical 48
            arm64.pagesize=64k vellum.vabits=48: 64K (Asked), 48 (Asked), Lpa, physical 52
        "#]],
    );
}

/// Every page size and width, for RAM that starts anywhere: the map stays in its half, and no leaf that is worth it is lost.
#[test]
fn the_linear_map_keeps_alignment_and_its_half() {
    for size in ["4k", "16k", "64k"] {
        for bits in 36..=52 {
            let (choice, said) = chosen(&MAX, &format!("arm64.pagesize={size} vellum.vabits={bits}"), BELOW_48_BITS);
            assert_eq!((choice.virtual_bits, said.as_str()), (bits, ""));
            for lowest in [0, 0x1000, 0x4000_0000, 0x4123_4000, 1 << 40, (1 << 47) + 0x1_0000, (1 << 51) + (1 << 33)] {
                check_linear(&choice, PhysAddr::new(lowest));
            }
        }
    }
}

fn check_linear(choice: &Choice, lowest: PhysAddr) {
    let linear = Linear::new(choice, lowest);
    let what = format!("{choice:?} {lowest:?} {linear:?}");
    let half = 1u64 << (choice.virtual_bits - 1);
    assert_eq!((linear.base, linear.capacity), (0u64.wrapping_sub(2 * half), half), "{what}");
    assert!(linear.origin <= lowest.bits() && lowest < linear.limit(), "{what}");
    // At most a quarter is lost to alignment.
    assert!(linear.limit() - lowest >= half / 4 * 3, "{what}");
    let last = PhysAddr::new(linear.limit().bits() - 1);
    assert_eq!(linear.address(last).bits(), linear.base + half - 1, "{what}");
    assert!(linear.contains(linear.address(lowest)) && linear.contains(linear.address(last)), "{what}");
    assert!(!linear.contains(linear.address(linear.limit())), "{what}");
    let sizes = LeafSize::all(choice.page_size, choice.layout).map(|leaf| leaf.size_bytes(choice.page_size));
    let worth = sizes.filter(|size| *size <= half / 4).max().unwrap_or_else(|| PageSize::Size4K.size_bytes());
    assert_eq!(linear.offset() % worth, 0, "{what}");
}

/// Overrides are what they say.
#[test]
fn a_cpu_is_refused_for_what_it_lacks() {
    let mut said = String::new();
    let boots = [(MAX, "arm64.pagesize=16k"), (MAX, "arm64.pagesize=64k"), (CORTEX_A72, "")];
    let beliefs = [
        "",
        "vellum.cpu1.granules=4k",
        "vellum.cpu1.granules=16k,64k",
        "vellum.cpu1.pabits=40",
        "vellum.cpu1.granules=4k,16k,64k vellum.cpu1.pabits=52",
        "vellum.cpu1.bbm=0",
    ];
    for (boot, line) in boots {
        let choice = chosen(&boot, line, BELOW_48_BITS).0;
        let range = boot.physical_range().min(if choice.layout == Layout::Bits48 { 5 } else { 6 });
        let requirement = Requirement::new(&choice, range);
        for (name, cpu) in [("max", MAX), ("max,lpa2=off", WITHOUT_LPA2), ("cortex-a72", CORTEX_A72)] {
            for belief in beliefs {
                let belief = parse(belief, &mut Findings::new()).cpus[1];
                if let Some(missing) = requirement.missing(&belief.believe(cpu)) {
                    said.push_str(&format!("{line} on {name} [{belief}]: {missing}\n"));
                }
            }
        }
    }
    expect![[r#"
        arm64.pagesize=16k on max [granules 4K]: it has no 16K granule
        arm64.pagesize=16k on max [40 bits of physical address]: it has 40 bits of physical address, expected 52 as the boot CPU uses
        arm64.pagesize=16k on max,lpa2=off []: it has no 52-bit addresses with 16K pages (LPA2), which are in use
        arm64.pagesize=16k on max,lpa2=off [granules 4K]: it has no 16K granule
        arm64.pagesize=16k on max,lpa2=off [granules 16K and 64K]: it has no 52-bit addresses with 16K pages (LPA2), which are in use
        arm64.pagesize=16k on max,lpa2=off [40 bits of physical address]: it has no 52-bit addresses with 16K pages (LPA2), which are in use
        arm64.pagesize=16k on max,lpa2=off [granules 4K and 16K and 64K, 52 bits of physical address]: it has no 52-bit addresses with 16K pages (LPA2), which are in use
        arm64.pagesize=16k on max,lpa2=off [BBM level 0]: it has no 52-bit addresses with 16K pages (LPA2), which are in use
        arm64.pagesize=16k on cortex-a72 []: it has no 16K granule
        arm64.pagesize=16k on cortex-a72 [granules 4K]: it has no 16K granule
        arm64.pagesize=16k on cortex-a72 [granules 16K and 64K]: it has no 52-bit addresses with 16K pages (LPA2), which are in use
        arm64.pagesize=16k on cortex-a72 [40 bits of physical address]: it has no 16K granule
        arm64.pagesize=16k on cortex-a72 [granules 4K and 16K and 64K, 52 bits of physical address]: it has no 52-bit addresses with 16K pages (LPA2), which are in use
        arm64.pagesize=16k on cortex-a72 [BBM level 0]: it has no 16K granule
        arm64.pagesize=64k on max [granules 4K]: it has no 64K granule
        arm64.pagesize=64k on max [40 bits of physical address]: it has 40 bits of physical address, expected 52 as the boot CPU uses
        arm64.pagesize=64k on max,lpa2=off [granules 4K]: it has no 64K granule
        arm64.pagesize=64k on max,lpa2=off [40 bits of physical address]: it has 40 bits of physical address, expected 52 as the boot CPU uses
        arm64.pagesize=64k on cortex-a72 []: it has 44 bits of physical address, expected 52 as the boot CPU uses
        arm64.pagesize=64k on cortex-a72 [granules 4K]: it has no 64K granule
        arm64.pagesize=64k on cortex-a72 [granules 16K and 64K]: it has 44 bits of physical address, expected 52 as the boot CPU uses
        arm64.pagesize=64k on cortex-a72 [40 bits of physical address]: it has 40 bits of physical address, expected 52 as the boot CPU uses
        arm64.pagesize=64k on cortex-a72 [granules 4K and 16K and 64K, 52 bits of physical address]: it has no 52 bits of virtual address with 64K pages (LVA), which are in use
        arm64.pagesize=64k on cortex-a72 [BBM level 0]: it has 44 bits of physical address, expected 52 as the boot CPU uses
         on max [granules 16K and 64K]: it has no 4K granule
         on max [40 bits of physical address]: it has 40 bits of physical address, expected 44 as the boot CPU uses
         on max,lpa2=off [granules 16K and 64K]: it has no 4K granule
         on max,lpa2=off [40 bits of physical address]: it has 40 bits of physical address, expected 44 as the boot CPU uses
         on cortex-a72 [granules 16K and 64K]: it has no 4K granule
         on cortex-a72 [40 bits of physical address]: it has 40 bits of physical address, expected 44 as the boot CPU uses
    "#]]
    .assert_eq(&said);
}
