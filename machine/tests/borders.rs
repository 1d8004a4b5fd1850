//! Traces after public reports, right and wrong uses beside each other: what the judge says first of each, remembering or not.

use machine::trace::{Judge, Trace};

/// Two page tables of 48 bits; the first has ASID 1, leads to itself by its last slot, and maps its last table as a page there.
const START: &str = "vellum trace 1\ncpu 0 ets=2 tlb=2 ttl=1\ncpu 1 ets=2 tlb=2 ttl=1\n\
    memory 0x40000000 0x40001703\nmemory 0x40000ff8 0x40000703\nmemory 0x40001000 0x40002703\n\
    memory 0x40002000 0x40003703 0x40004703\nmemory 0x40003000 0x60000080000f43\n\
    memory 0x40010000 0x40011003\nmemory 0x40011000 0x40012003\nmemory 0x40012000 0x40013003\n\
    memory 0x40013000 0x60000090000f43\nmemory 0x40020000 0x40001703\n";
/// Both halves are walked, and the upper one is empty.
const ON: &str = "msr mair_el1 0x4400ff; msr tcr_el1 0x1535103510; msr ttbr0_el1 0x1000040000000; \
    msr ttbr1_el1 0x40030000; isb; msr sctlr_el1 1; isb; ";
/// The rest after a TLBI.
const END: &str = "dsb ish; isb; ";
const FREE: &str = "free table 0x40003000 0x1000";

/// Lines of one CPU, without its number.
fn of(cpu: u8, lines: &str) -> String {
    lines.split("; ").filter(|line| !line.is_empty()).map(|line| format!("{cpu} {line}\n")).collect()
}

/// Rule and line of the first finding, or "clean".
fn first(text: &str, remembers: bool) -> String {
    let trace = Trace::read(text).expect("a trace");
    let mut judge = Judge::new(&trace, false);
    if !remembers {
        judge.remember_nothing();
    }
    while judge.step().unwrap_or_else(|error| panic!("{error:?} in\n{text}")) {}
    let finding = judge.findings().iter().find(|it| !it.is_lint());
    finding.map_or_else(
        || "clean".into(),
        |it| format!("{} {}", it.rule.label(), trace.quote(judge.line_of(it.event).expect("a line"))),
    )
}

#[track_caller]
fn judged(text: &str, expected: &str) {
    for remembers in [true, false] {
        let found = first(text, remembers);
        assert!(found == expected || found.starts_with(&format!("{expected} ")), "{expected}, found {found}:\n{text}");
    }
}

/// CPU 0 runs on the first page table, and does this.
#[track_caller]
fn case(lines: &str, expected: &str) {
    judged(&format!("{START}{}{}", of(0, ON), of(0, lines)), expected);
}

/// A table leaves a page table whose slots lead to the root: its page is mapped by that way too.
#[test]
fn a_table_is_a_page_by_a_recursive_slot() {
    let unlinked = |tlbis: &str| format!("store 0x40002000 0; dsb ishst; {tlbis}{END}{FREE}");
    let (own, page) = ("tlbi vaae1is 0; ", "tlbi vaae1is 0xff8000000; ");
    case(&unlinked(own), "V3 0 free table");
    case(&unlinked(page), "V3 0 free table");
    case(&unlinked(&format!("{own}tlbi vaae1is 0xff8000001; ")), "V3");
    case(&unlinked(&format!("tlbi vaale1is 0; {page}")), "V3");
    case(&unlinked(&format!("{own}{page}")), "clean");
    case(&unlinked("tlbi vmalle1is; "), "clean");
    // The next table's page is another.
    case(&format!("store 0x40002008 0; dsb ishst; {own}tlbi vaae1is 0x200; {END}free table 0x40004000 0x1000"), "V3");
}

/// An alias of a table: as long as it is written it is a choice, as the linear map is; what only a TLB holds is none.
#[test]
fn a_table_is_a_page_by_an_alias() {
    let alias = "store 0x40004000 0x60000040003f03; dsb ish; ";
    let out = format!("store 0x40002000 0; dsb ishst; tlbi vmalle1is; {END}");
    case(&format!("{alias}{out}{FREE}"), "clean");
    case(&format!("{alias}{out}store 0x40004000 0; {FREE}"), "V3");
    case(&format!("{alias}{out}store 0x40004000 0; dsb ish; {FREE}"), "V3");
    case(&format!("{alias}{out}store 0x40004000 0; dsb ish; tlbi vaale1is 0x201; {END}{FREE}"), "V3");
    case(&format!("{alias}{out}store 0x40004000 0; dsb ish; tlbi vaale1is 0x200; {END}{FREE}"), "clean");
    let text = format!("{START}{}{}", of(0, ON), of(0, &format!("{alias}{out}{FREE}")));
    let trace = Trace::read(&text).expect("a trace");
    let mut judge = Judge::new(&trace, false);
    judge.be_strict();
    while judge.step().expect("it makes sense") {}
    assert_eq!(judge.findings().len(), 1, "a strict judge finds what is linked");
}

/// The root at 0x40020000 links the same tables as the first.
#[test]
fn another_root_links_the_table_still() {
    let other = "msr ttbr0_el1 0x2000040020000; isb; ";
    let here = "msr ttbr0_el1 0x1000040000000; isb; ";
    let (gone, cleared) = ("store 0x40000000 0; dsb ishst; ", "store 0x40020000 0; dsb ishst; ");
    let (all, free) = (format!("tlbi vmalle1is; {END}"), "free table 0x40001000 0x1000; ");
    case(&format!("{other}{here}{gone}{all}{free}"), "V3 0 free table");
    // Nothing is cached, and the other root would bring it back.
    case(&format!("{other}{here}{gone}{all}{cleared}{free}"), "clean");
    case(&format!("{other}{here}{gone}tlbi vaae1is 0; {END}{free}"), "V3 0 free table");
    case(&format!("{other}{here}{gone}{cleared}{all}{free}{other}"), "clean");
    // Nobody had walked there before.
    case(&format!("{gone}tlbi vmalle1is; {END}tlbi vaae1is 0xff8000000; {END}{free}{other}"), "V3 0 msr ttbr0_el1");
    // Another CPU walks there now.
    let both = format!("{START}{}{}", of(0, ON), of(1, &ON.replace("0x1000040000000", "0x2000040020000")));
    judged(&format!("{both}{}", of(0, &format!("{gone}{all}{free}"))), "V3 0 free table");
    judged(&format!("{both}{}", of(0, &format!("{gone}{cleared}{all}{free}"))), "clean");
    let text = format!("{both}{}", of(0, &format!("{all}{free}")));
    let trace = Trace::read(&text).expect("a trace");
    let mut judge = Judge::new(&trace, false);
    while judge.step().expect("it makes sense") {}
    let story = judge.story(&judge.findings()[0]).to_string();
    assert!(story.contains("There leads, from the root 0x40020000: EL1&0 level-0 table 0x0"), "{story}");
}

/// Process 1 is left by `leave`, forgotten, and given away from the root down or from below; then `back` follows.
fn ended(leave: &str, is_from_below: bool, back: &str) -> String {
    let mut tables = [0x4000_0000_u64, 0x4000_1000, 0x4000_2000, 0x4000_3000];
    if is_from_below {
        tables.reverse();
    }
    let freed: String = tables.iter().map(|table| format!("free table {table:#x} 0x1000; ")).collect();
    format!("{leave}tlbi vmalle1is; {END}{freed}{back}")
}

const WALKS_OFF: &str = "msr tcr_el1 0x1535103590; isb; ";
const WALKS_ON: &str = "msr tcr_el1 0x1535103510; isb; ";
const NEXT: &str = "msr ttbr0_el1 0x2000040010000; isb; ";
const OLD: &str = "msr ttbr0_el1 0x1000040000000; isb; ";

#[test]
fn a_root_that_was_given_away_comes_back() {
    for is_from_below in [false, true] {
        let case = |leave: &str, back: &str, expected: &str| case(&ended(leave, is_from_below, back), expected);
        case(WALKS_OFF, "", "clean");
        case(WALKS_OFF, WALKS_ON, "V3 0 msr tcr_el1");
        case(WALKS_OFF, &format!("{NEXT}{WALKS_ON}"), "clean");
        // Two writes that nothing orders take effect in either order.
        case(WALKS_OFF, &format!("msr ttbr0_el1 0x2000040010000; {WALKS_ON}"), "V3 0 msr tcr_el1");
        case(NEXT, NEXT, "clean");
        case(NEXT, OLD, "V3 0 msr ttbr0_el1");
        case(NEXT, "msr ttbr1_el1 0x40000000; isb", "V3 0 msr ttbr1_el1");
        // Its memory is somebody else's root now, with what was stored there, or with nothing.
        case(NEXT, &format!("store 0x40000000 0x40011003; store 0x40000ff8 0; dsb ish; {OLD}"), "clean");
        case(&format!("{NEXT}store 0x40000000 0; store 0x40000ff8 0; dsb ish; "), OLD, "clean");
        // The register has named it all the while, whatever is there.
        case(WALKS_OFF, &format!("store 0x40000000 0; store 0x40000ff8 0; dsb ish; {WALKS_ON}"), "V3 0 msr tcr_el1");
        // A table of it is linked elsewhere with what it held.
        case(NEXT, "store 0x40012008 0x40003003", "V3 0 store");
        case(NEXT, "store 0x40003000 0; dsb ish; store 0x40012008 0x40003003; dsb ish", "clean");
    }
}

/// The root stays, and a table that it links is given away while no CPU walks there.
#[test]
fn a_link_to_what_was_given_away_comes_back() {
    let away = |before: &str, back: &str| {
        format!("{NEXT}{before}tlbi vmalle1is; {END}{FREE}; {back}msr ttbr0_el1 0x5000040000000; isb")
    };
    case(&away("", ""), "V3 0 msr ttbr0_el1");
    case(&away("store 0x40003000 0; dsb ish; ", ""), "V3 0 msr ttbr0_el1");
    case(&away("", "store 0x40003000 0x60000099000f43; dsb ish; "), "V3 0 msr ttbr0_el1");
    case(&away("", "store 0x40002000 0; dsb ish; "), "clean");
    case(&away("", "store 0x40003000 0; store 0x40002000 0x40003003; dsb ish; "), "clean");
    // An empty table is allocated as it is.
    case(&away("store 0x40003000 0; dsb ish; ", "store 0x40002000 0x40003003; dsb ish; "), "clean");
}

/// TCR.E0PDx takes a half from EL0, and from nobody else; a TLB may have kept it.
#[test]
fn e0pd_takes_a_half_from_el0() {
    let upper = "memory 0x40030000 0x40031003\nmemory 0x40031000 0x40032003\nmemory 0x40032000 0x40033003\n\
        memory 0x40033000 0x60000090000743\n";
    let (low, high) = ("revoked 0 0xfff rwx", "revoked 0xffff000000000000 0xffff000000000fff rwx");
    let on = |bits: u64| ON.replace("0x1535103510", &format!("{:#x}", 0x15_3510_3510 | bits));
    let case = |bits: u64, lines: &str, expected: &str| {
        judged(&format!("{START}{upper}{}{}", of(0, &on(bits)), of(0, lines)), expected);
    };
    for (bit, own, other) in [(1 << 55, low, high), (1 << 56, high, low)] {
        case(bit, &format!("{own}/---"), "clean");
        case(bit, &format!("{other}/---"), "V4");
        case(0, &format!("{own}/---"), "V4");
        case(bit, &own.replace("rwx", "---/---"), "V4");
        let late = format!("msr tcr_el1 {:#x}; isb; ", 0x15_3510_3510_u64 | bit);
        case(0, &format!("{late}{own}/---"), "V4");
        case(0, &format!("{late}tlbi vmalle1; dsb nsh; isb; {own}/---"), "clean");
    }
}

/// TLBIs and MSRs of a higher exception level are UNDEFINED, but for what registers held when the trace begins.
#[test]
fn what_a_level_does_not_have_is_undefined() {
    let vttbr = "msr vttbr_el2 0x7000040010000; isb; ";
    for tlbi in ["alle1is", "vmalls12e1is", "vae2is 0", "alle2", "ipas2e1is 0", "ripas2e1is 0x400000000000"] {
        case(&format!("tlbi {tlbi}"), "V7");
        case(&format!("enter el2; tlbi {tlbi}"), "clean");
    }
    for tlbi in ["alle3is", "vae3is 0", "vale3 0", "rvae3isnxs 0"] {
        case(&format!("tlbi {tlbi}"), "V7");
        case(&format!("enter el2; tlbi {tlbi}"), "V7");
    }
    case(vttbr, "clean");
    case(&format!("tlbi vmalle1; {END}{vttbr}"), "V7 0 msr vttbr_el2");
    case(&format!("enter el2; {vttbr}"), "clean");
    case("enter el0; tlbi vmalle1", "V7");
    case("enter el0; msr ttbr0_el1 0x40010000", "V7");
    case("enter el0; enter el1; tlbi vmalle1; msr ttbr0_el1 0x2000040010000", "clean");
    // It does nothing.
    case(&format!("tlbi vmalle1; msr hcr_el2 0; store 0x40003000 0; dsb ish; tlbi alle1is; {END}"), "V7 0 msr hcr_el2");
}

/// Registers that the machine does not have: UNDEFINED below their level, and else of no effect.
#[test]
fn registers_that_the_machine_does_not_have_have_a_level() {
    for (register, undefined, defined) in [
        ("pir_el1", "el0", "el1"),
        ("pire0_el1", "el0", "el2"),
        ("TCR2_EL1", "el0", "el1"),
        ("tcr2_el2", "el1", "el2"),
        ("pir_el2", "el0", "el2"),
        ("vsttbr_el2", "el1", "el2"),
        ("por_el0", "", "el0"),
        ("ttbr0_el3", "el2", ""),
        ("tcr_el3", "el1", ""),
        ("sctlr_el3", "el2", ""),
        ("scr_el3", "el0", ""),
    ] {
        let msr = format!("msr {register} 0x11");
        for (level, expected) in
            [(undefined, "V7"), (defined, "clean")].into_iter().filter(|(level, _)| !level.is_empty())
        {
            case(&format!("enter {level}; {msr}"), expected);
        }
        // What it held before the trace began.
        case(&format!("{msr}; isb"), "clean");
    }
    let read = |lines: &str| Trace::read(&format!("{START}{}", of(0, lines))).map(|trace| trace.notes.len());
    assert_eq!(read("msr tcr2_el1 0xc0; msr pir_el1 0x11"), Ok(0));
    assert_eq!(read("msr tcr2_el1 2; msr tcr2_el2 8; msr tcr2_el1 0xa"), Ok(1));
    let line = read("msr tcr2_el1 0x20").expect_err("128-bit descriptors").what;
    assert!(line.contains("D128 in tcr2_el1"), "{line}");
}

/// TCR.T0SZ is changed while walks of that half may be cached (D24.2, TCR_EL1; K1.2.2): even if the same tables say the same.
#[test]
fn a_new_size_of_the_input_space_meets_nothing_of_the_old() {
    let tcr = |t0sz: u64| format!("msr tcr_el1 {:#x}; isb; ", 0x15_3510_3500 | t0sz);
    let empty = "msr ttbr0_el1 0x1000040040000; isb; tlbi vmalle1; dsb nsh; isb; ";
    let back = "msr ttbr0_el1 0x1000040000000; isb; ";
    for t0sz in [17, 24, 25] {
        case(&tcr(t0sz), &format!("V1 0 msr tcr_el1 {:#x}", 0x15_3510_3500 | t0sz));
        // A TLBI alone does not help while walks go on in between.
        case(&format!("tlbi vmalle1; dsb nsh; isb; {}", tcr(t0sz)), "V1");
        // By a root without an entry, as kernels do for their identity map; but what another root left must go first.
        case(&format!("{empty}{}{back}", tcr(t0sz)), "clean");
        case(&format!("msr ttbr0_el1 0x1000040040000; isb; {}{back}", tcr(t0sz)), "V1");
        // With walks off (EPD0), and what they left gone.
        let off = |t0sz: u64| format!("msr tcr_el1 {:#x}; isb; ", 0x15_3510_3580 | t0sz);
        case(&format!("{}tlbi vmalle1; dsb nsh; isb; {}{}", off(16), off(t0sz), tcr(t0sz)), "clean");
        case(&format!("{}{}{}", off(16), off(t0sz), tcr(t0sz)), "V1");
        // Another ASID is another matter, and the MMU may be off.
        case(
            &format!("msr ttbr0_el1 0x1000040040000; isb; msr ttbr0_el1 0x2000040040000; isb; {}", tcr(t0sz)),
            "clean",
        );
    }
    // The same size again, the upper half's in which nothing is mapped, and other fields.
    case(&tcr(16), "clean");
    case("msr tcr_el1 0x1535113510; isb; ", "clean");
    case("msr tcr_el1 0x5535103510; isb; ", "clean");
}

/// Write access is taken from a guest at stage 2: what both stages made together grants it still.
#[test]
fn stage_2_is_revoked_once_stage_1_forgets_too() {
    let start = "vellum trace 1\ncpu 0 ets=2\nmemory 0x50000000 0x50002003\nmemory 0x50002000 0x50003003\n\
        memory 0x50003000 0x800007ff 0x800017ff\n";
    let on = "enter el2; msr vtcr_el2 0x50059; msr vttbr_el2 0x7000050000000; isb; msr hcr_el2 1; isb; ";
    let case = |lines: &str, expected: &str| judged(&format!("{start}{}", of(0, &format!("{on}{lines}"))), expected);
    let stored = "store 0x50003000 0x8000077f; dsb ishst; ";
    let first = "tlbi ipas2e1is 0; dsb ish; ";
    let revoked = |page: u64, vmid: u64| format!("revoked {page:#x} {:#x} r-x/r-x vmid {vmid}", page + 0xfff);
    case(&format!("{stored}{}", revoked(0, 7)), "V4");
    case(&format!("{stored}{first}{}", revoked(0, 7)), "V12");
    case(&format!("{stored}{first}tlbi vmalle1is; {END}{}", revoked(0, 7)), "clean");
    case(&format!("{stored}tlbi vmalls12e1is; {END}{}", revoked(0, 7)), "clean");
    case(&format!("{stored}{first}{}", revoked(0, 8)), "clean");
    case(&format!("{stored}{first}{}", revoked(0x2000, 7)), "clean");
}

/// Accesses that can only fault are no findings, and are known.
#[test]
fn accesses_that_can_only_fault_are_known() {
    let faults = |lines: &str| {
        let text = format!("{START}{}{}", of(0, ON), of(0, lines));
        let trace = Trace::read(&text).expect("a trace");
        let mut judge = Judge::new(&trace, false);
        while judge.step().expect("it makes sense") {}
        assert!(judge.findings().is_empty(), "{:?}", judge.findings());
        judge.faults().iter().map(|(_, fault)| fault.to_string()).collect::<Vec<String>>().join(", ")
    };
    let page = |descriptor: u64, access: &str| {
        faults(&format!("store 0x40003008 {descriptor:#x}; dsb ish; isb; access {access} 0x1000"))
    };
    let good = 0x60_0000_8000_0f43;
    assert_eq!(page(good, "write"), "");
    assert_eq!(page(0, "read"), "a stage-1 translation fault at level 3");
    assert_eq!(page(good | 0x80, "write"), "a stage-1 permission fault at level 3");
    assert_eq!(page(good | 0x80, "read"), "");
    assert_eq!(page(good & !0x400, "read"), "a stage-1 access flag fault at level 3");
    // parange=5 is 48 bits; TCR.IPS = 0 is 32.
    assert_eq!(page(good | 1 << 47, "read"), "");
    let narrow = "msr tcr_el1 0x1035103510; isb; store 0x40003008 0x60000180000f43; dsb ish; isb; access read 0x1000";
    assert_eq!(faults(narrow), "a stage-1 address size fault at level 3");
    let high = "msr tcr_el1 0x1035103510; isb; msr ttbr0_el1 0x2000140000000; isb; access read 0x1000";
    assert_eq!(faults(high), "a stage-1 address size fault at level 0");
    let at_el0 =
        |tcr: u64| faults(&format!("msr tcr_el1 {tcr:#x}; isb; tlbi vmalle1; dsb nsh; isb; enter el0; access read 0"));
    assert_eq!(at_el0(0x15_3510_3510), "");
    assert_eq!(at_el0(0x15_3510_3510 | 1 << 55), "a stage-1 translation fault at level 0");
}
