//! What is asked for on a command line, and what is said about it.

use expect_test::{Expect, expect};
use kerncore::command_line::{
    Conflicts, CpuOverride, Exit, Folios, LinearLeaves, Measure, Options, PageAllocator, PageSizes, Report, Rodata,
    StressKind, Word, Words, parse,
};
use kerncore::finding::Findings;
use proptest::prelude::*;
use vmsa::{BbmLevel, IdRegisters, PageSize};

/// The options and the findings of a line.
fn parsed(line: &str) -> (Options, String) {
    let mut findings = Findings::new();
    let options = parse(line, &mut findings);
    (options, findings.to_string())
}

/// Lines that ask for nothing that can be had.
fn check(lines: &[&str], expect: Expect) {
    let findings: String = lines.iter().map(|line| parsed(line).1).collect();
    expect.assert_eq(&findings);
    assert!(lines.iter().all(|line| parsed(line).0 == Options::default()));
}

#[test]
fn every_option_is_taken() {
    let line = "arm64.pagesize=16k vellum.exit=semihosting vellum.vabits=42 vellum.late=3 vellum.cpu2.granules=4k,64k \
                vellum.cpu7.bbm=1 vellum.cpu0.pabits=40 vellum.cpu1.silent=yes vellum.cpu2.deaf=yes vellum.report=json \
                rodata=noalias vellum.linearmap=pages vellum.pagealloc=debug vellum.bbm=3 vellum.stress=1000 vellum.seed=7 \
                vellum.conflicts=report vellum.trust-el1=yes vellum.stress-kind=kfence vellum.measure=linear \
                vellum.check-areas=yes \
                vellum.folio=group vellum.withhold=64M vellum.exhaust=yes vellum.init=\"busybox ls\"";
    let mut cpus = [CpuOverride::default(); 8];
    cpus[2].granules = Some(PageSizes::default().with(PageSize::Size4K).with(PageSize::Size64K));
    cpus[7].bbm = Some(BbmLevel::Level1);
    cpus[0].physical_bits = Some(40);
    cpus[1].is_silent = Some(true);
    cpus[2].is_deaf = Some(true);
    let expected = Options {
        conflicts: Some(Conflicts::Report),
        trusts_el1: Some(true),
        page_size: Some(PageSize::Size16K),
        exit: Some(Exit::Semihosting),
        report: Some(Report::Json),
        virtual_bits: Some(42),
        late_cpus: Some(3),
        rodata: Some(Rodata::NoAlias),
        linear_map: Some(LinearLeaves::Pages),
        page_allocator: Some(PageAllocator::Debug),
        bbm: Some(BbmLevel::Level3),
        exhausts: Some(true),
        stress: Some(1000),
        stress_kind: Some(StressKind::Kfence),
        measure: Some(Measure::Linear),
        checks_areas: Some(true),
        seed: Some(7),
        folios: Some(Folios::Group),
        withheld_bytes: Some(64 << 20),
        init: line.find("busybox ls").map(|at| (at as u32, 10)),
        cpus,
    };
    let (options, said) = parsed(line);
    assert_eq!(options, expected);
    expect![[r#"
        warning: command line: this is a test: cpu 0 is to believe of itself 40 bits of physical address, whatever it has
        warning: command line: this is a test: cpu 1 is to believe of itself no voice, whatever it has
        warning: command line: this is a test: cpu 2 is to believe of itself granules 4K and 64K, no ear, whatever it has
        warning: command line: this is a test: cpu 7 is to believe of itself BBM level 1, whatever it has
    "#]]
    .assert_eq(&said);
    assert_eq!([6, 7, 8].map(|cpu| options.bbm_of(cpu)), [Some(BbmLevel::Level3), Some(BbmLevel::Level1), None]);
    let granules = cpus[2].granules.unwrap();
    assert_eq!(PageSize::ALL.map(|size| granules.contains(size)), [true, false, true]);
}

#[test]
fn words_for_the_linear_map() {
    for (value, rodata) in [("on", Rodata::On), ("full", Rodata::On), ("off", Rodata::Off)] {
        assert_eq!(parsed(&format!("rodata={value}")).0.rodata, Some(rodata));
    }
    for value in ["", "ON", "yes"] {
        assert_eq!(parsed(&format!("rodata={value}")).0, Options::default());
    }
    assert_eq!(parsed("vellum.linearmap=largest").0.linear_map, Some(LinearLeaves::Largest));
    assert_eq!(parsed("vellum.pagealloc=plain").0.page_allocator, Some(PageAllocator::Plain));
    assert_eq!(parsed("vellum.conflicts=survive").0.conflicts, Some(Conflicts::Survive));
    assert_eq!(parsed("vellum.stress=4294967295").0.stress, Some(u32::MAX));
    assert_eq!(parsed("vellum.stress=4294967296").0.stress, None);
}

#[test]
fn values_at_the_edges() {
    for (name, size) in [("4k", PageSize::Size4K), ("16K", PageSize::Size16K), ("64k", PageSize::Size64K)] {
        assert_eq!(parsed(&format!("arm64.pagesize={name}")).0.page_size, Some(size));
    }
    for bits in 0..70 {
        let expected = (36..=52).contains(&bits).then_some(bits);
        assert_eq!(parsed(&format!("vellum.vabits={bits}")).0.virtual_bits, expected);
        let expected = [32, 36, 40, 42, 44, 48, 52].contains(&bits).then_some(bits);
        assert_eq!(parsed(&format!("vellum.cpu1.pabits={bits}")).0.cpus[1].physical_bits, expected);
        assert_eq!(parsed(&format!("vellum.late={bits}")).0.late_cpus, (bits < 8).then_some(bits));
        let expected = (bits < 4).then(|| BbmLevel::Level0 as u32 + bits);
        let level = parsed(&format!("vellum.cpu1.bbm={bits}")).0.cpus[1].bbm;
        assert_eq!(level.map(|level| level as u32), expected);
    }
}

#[test]
fn sizes_have_a_unit() {
    let withheld = |value: &str| parsed(&format!("vellum.withhold={value}")).0.withheld_bytes;
    assert_eq!(["64M", "1G", "0M"].map(withheld), [Some(64 << 20), Some(1 << 30), Some(0)]);
    assert_eq!(["", "M", "64", "64K", "64m", "-1M", "1.5G", "4294967296G", "1é"].map(withheld), [None; 9]);
    assert_eq!(withheld("4294967295G"), Some(u64::from(u32::MAX) << 30));
}

#[test]
fn words_of_others_are_passed_over() {
    let line = "console=ttyAMA0 nokaslr quiet arm64.nopauth arm64.nosve=1 vellum root=\"a b\" vellum- x.vellum.exit=y";
    check(&[line, "", "   ", "-- vellum.nonsense", "quiet -- vellum.exit=semihosting"], expect![[r#""#]]);
}

#[test]
fn what_is_unknown_is_named_with_its_neighbour() {
    let lines = [
        "vellum.exits=psci",
        "vellum.VABITS=48",
        "vellum.cpu.bbm=1",
        "vellum.cpu1.granule=4k",
        "vellum.cpu-1.bbm=1",
        "vellum.cpu8.bbm=1",
        "vellum.cpu99999999999999999999.pabits=40",
        "vellum.",
        "vellum.an-option-with-a-very-long-name-that-goes-on-and-on-and-is-cut-before-the-screen-ends=1",
    ];
    check(
        &lines,
        expect![[r#"
            warning: command line: option vellum.exits is unknown, the nearest that is known is vellum.exit; ignored
            warning: command line: option vellum.VABITS is unknown, the nearest that is known is vellum.vabits; ignored
            warning: command line: option vellum.cpu.bbm is unknown, the nearest that is known is vellum.cpuN.bbm; ignored
            warning: command line: option vellum.cpu1.granule is unknown, the nearest that is known is vellum.cpuN.granules; ignored
            warning: command line: option vellum.cpu-1.bbm is unknown, the nearest that is known is vellum.cpuN.bbm; ignored
            warning: command line: option vellum.cpu8.bbm is about no CPU, expected 0 to 7; ignored
            warning: command line: option vellum.cpu99999999999999999999.pabits is about no CPU, expected 0 to 7; ignored
            warning: command line: option vellum. is unknown, the nearest that is known is vellum.bbm; ignored
            warning: command line: option vellum.an-option-with-a-very-long-name-that-goes-on-and-on-and-i... is unknown, the nearest that is known is vellum.pagealloc; ignored
        "#]],
    );
}

#[test]
fn values_that_make_no_sense() {
    let lines = [
        "arm64.pagesize=8k arm64.pagesize",
        "vellum.exit=reboot",
        "vellum.vabits=35 vellum.vabits=+48 vellum.vabits=0x30 vellum.vabits=",
        "vellum.late=8",
        "vellum.cpu0.granules=4k,8k vellum.cpu0.granules= vellum.cpu0.granules=,",
        "vellum.cpu0.bbm=4",
        "vellum.cpu0.pabits=41",
        "vellum.cpu1.silent=",
        "vellum.cpu1.deaf=",
    ];
    check(
        &lines,
        expect![[r#"
        warning: command line: arm64.pagesize=8k makes no sense, expected 4k, 16k or 64k; the default is used
        warning: command line: arm64.pagesize has no value, expected 4k, 16k or 64k; the default is used
        warning: command line: vellum.exit=reboot makes no sense, expected semihosting, psci or monitor; psci is used
        warning: command line: vellum.vabits=35 makes no sense, expected a number from 36 to 52; the largest that is allowed is used
        warning: command line: vellum.vabits=+48 makes no sense, expected a number from 36 to 52; the largest that is allowed is used
        warning: command line: vellum.vabits=0x30 makes no sense, expected a number from 36 to 52; the largest that is allowed is used
        warning: command line: vellum.vabits= makes no sense, expected a number from 36 to 52; the largest that is allowed is used
        warning: command line: vellum.late=8 makes no sense, expected a number of CPUs from 0 to 7; no CPU is held back
        warning: command line: vellum.cpu0.granules=4k,8k makes no sense, expected a list of 4k, 16k and 64k; what the CPU says of itself is believed
        warning: command line: vellum.cpu0.granules= makes no sense, expected a list of 4k, 16k and 64k; what the CPU says of itself is believed
        warning: command line: vellum.cpu0.granules=, makes no sense, expected a list of 4k, 16k and 64k; what the CPU says of itself is believed
        warning: command line: vellum.cpu0.bbm=4 makes no sense, expected a level from 0 to 3; what the CPU says of itself is believed
        warning: command line: vellum.cpu0.pabits=41 makes no sense, expected 32, 36, 40, 42, 44, 48 or 52; what the CPU says of itself is believed
        warning: command line: vellum.cpu1.silent= makes no sense, expected yes or no; the CPU announces itself
        warning: command line: vellum.cpu1.deaf= makes no sense, expected yes or no; the CPU answers
    "#]],
    );
}

#[test]
fn the_last_of_several_wins() {
    let (options, findings) =
        parsed("vellum.vabits=48 vellum.vabits=39 vellum.vabits=4x vellum.cpu1.bbm=0 vellum.cpu2.bbm=0");
    assert_eq!(options.virtual_bits, Some(39));
    expect![[r#"
        warning: command line: option vellum.vabits is given again, expected once; this value is used
        warning: command line: vellum.vabits=4x makes no sense, expected a number from 36 to 52; the earlier value stays
        warning: command line: this is a test: cpu 1 is to believe of itself BBM level 0, whatever it has
        warning: command line: this is a test: cpu 2 is to believe of itself BBM level 0, whatever it has
    "#]]
    .assert_eq(&findings);
}

#[test]
fn quotes() {
    let line = " a=\"b c\"\t\"d e=f g\"  h \"i\" j=k\"l m\"n o=\"\" = p=q=r ";
    let words: Vec<String> = Words::new(line)
        .map(|Word { name, value }| format!("<{name}>{}", value.map_or(String::new(), |value| format!("=<{value}>"))))
        .collect();
    expect![[r#"<a>=<b c> <d e>=<f g> <h> <i> <j>=<k"l m"n> <o>=<> <>=<> <p>=<q=r>"#]].assert_eq(&words.join(" "));
    assert_eq!(
        parsed("\"vellum.vabits=48\" vellum.exit=\"psci\"").0,
        Options { virtual_bits: Some(48), exit: Some(Exit::Psci), ..Options::default() }
    );
    let (options, findings) = parsed("quiet init=\"/bin/sh vellum.vabits=48");
    assert_eq!(options, Options::default());
    expect![[r#"
        warning: command line: the quote in init="/bin/sh vellum.vabits=48 is not closed, expected another; taken up to the end
    "#]].assert_eq(&findings);
}

proptest! {
    /// Whatever stands on the line, each finding is one line of text, and what is asked for is possible.
    #[test]
    fn any_line_is_survived(pieces in prop::collection::vec(0..PIECES.len(), 0..40)) {
        let line: String = pieces.into_iter().map(|piece| PIECES[piece]).collect();
        let (options, findings) = parsed(&line);
        prop_assert!(options.virtual_bits.is_none_or(|bits| (36..=52).contains(&bits)));
        prop_assert!(options.late_cpus.is_none_or(|cpus| cpus < 8));
        prop_assert!(findings.lines().all(|line| line.starts_with("warning: ") && line.len() < 300));
        prop_assert!(findings.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)));
    }
}

const PIECES: [&str; 20] = [
    "vellum.",
    "arm64.pagesize",
    "cpu",
    "0",
    "3",
    "9",
    ".bbm",
    ".granules",
    ".pabits",
    "vabits",
    "late",
    "exit",
    "=",
    "=",
    "\"",
    " ",
    " ",
    "4k,",
    "\u{e9}\u{1b}\n",
    "--",
];

/// What nobody can believe: the CPU that boots translates by one of its granules.
#[test]
fn the_boot_cpu_claims_no_granule_that_it_lacks() {
    // Granules of 4K and 64K, as Cortex-A72 has them.
    let cpu = IdRegisters { mmfr0: 0x1124, ..IdRegisters::default() };
    let limited = |line| {
        let (mut options, _) = parsed(line);
        let mut findings = Findings::new();
        options.limit_boot_cpu(&cpu, &mut findings);
        (options.cpus[0].granules, findings.to_string())
    };
    let sizes = |sizes: &[PageSize]| Some(sizes.iter().fold(PageSizes::default(), |set, size| set.with(*size)));
    let quiet = |granules| (granules, String::new());
    assert_eq!(limited("vellum.cpu1.granules=16k"), quiet(None));
    assert_eq!(limited("vellum.cpu0.granules=64k"), quiet(sizes(&[PageSize::Size64K])));
    let (granules, said) = limited("vellum.cpu0.granules=16k,64k");
    assert_eq!(granules, sizes(&[PageSize::Size64K]));
    expect![[r#"
        warning: command line: vellum.cpu0.granules claims 16K, expected granules that cpu 0 has, as it translates by one of them; those that it lacks are not believed
    "#]]
    .assert_eq(&said);
    assert_eq!(limited("vellum.cpu0.granules=16k"), (None, said));
}
