//! What a file says is what is run: each test here is one that ran with another meaning, or was refused without need.

use litmus::judge::{self, Result as Ours};
use litmus::{herd, isla};
use machine::registers::Ets;

fn results(test: &litmus::test::Test) -> [Ours; 2] {
    [Ets::None, Ets::Ets2].map(|ets| judge::run(test, ets).result)
}

fn herd(text: &str) -> [Ours; 2] {
    results(&herd::parse("test.litmus", text).unwrap_or_else(|error| panic!("{error}\n{text}")))
}

fn isla(text: &str) -> [Ours; 2] {
    results(&isla::parse("test.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}")))
}

const ALWAYS: [Ours; 2] = [Ours::Always; 2];
const NEVER: [Ours; 2] = [Ours::Never; 2];
const REACHED: [Ours; 2] = [Ours::Reached; 2];

/// A page that another thread makes valid: what the load that finds it invalid leads to.
fn with_variant(variant: &str, condition: &str) -> String {
    format!(
        "AArch64 variants\n{variant}\n{{\n [x]=1; [PTE(x)]=(valid:0);\n 0:X1=x; 0:X0=7; 0:X2=0;\n 1:X0=(oa:PA(x)); 1:X1=PTE(x);\n}}
 P0          | P1          ;\nL0:          | STR X0,[X1] ;\n LDR W0,[X1] |             ;\n MOV W2,#1   |             ;\n{condition}\n"
    )
}

/// `handled` executes the faulting instruction again, until that does not fault; `skip` goes on behind it.
#[test]
fn what_handles_a_fault_returns_to_the_instruction() {
    for variant in ["Variant=handled", "Variant=imprecise", "variant = vmsa,Handled"] {
        assert_eq!(herd(&with_variant(variant, "forall (0:X0=1 /\\ 0:X2=1)")), ALWAYS, "{variant}");
        assert_eq!(herd(&with_variant(variant, "exists (fault(P0:L0,x) /\\ 0:X0=1)")), REACHED, "{variant}");
    }
    for variant in ["Variant=skip", "Variant=faultToNext", "variant=FaultToNext"] {
        assert_eq!(herd(&with_variant(variant, "forall (0:X2=1)")), ALWAYS, "{variant}");
        assert_eq!(herd(&with_variant(variant, "exists (fault(P0:L0,x) /\\ 0:X0=7)")), REACHED, "{variant}");
        assert_eq!(herd(&with_variant(variant, "exists (fault(P0:L0,x) /\\ 0:X0=1)")), NEVER, "{variant}");
    }
    for variant in ["Variant=fatal", "VARIANT=precise", ""] {
        let condition = "forall (0:X2=1 /\\ ~fault(P0,x) \\/ 0:X2=0 /\\ fault(P0,x))";
        assert_eq!(herd(&with_variant(variant, condition)), ALWAYS, "{variant}");
    }
}

/// Where nobody ever mends what faults, no execution comes to its end.
#[test]
fn a_fault_that_nobody_mends_is_handled_forever() {
    let text = "AArch64 stuck\nVariant=handled\n{\n[PTE(x)]=(valid:0);\n0:X1=x;\n}\n P0          ;\n LDR W0,[X1] ;\nexists (0:X0=0)\n";
    assert_eq!(herd(text), [Ours::Lost; 2]);
}

/// A handler that counts is in no state twice.
#[test]
fn an_execution_that_never_ends_is_given_up() {
    let text = "AArch64 counting\n{\n[PTE(x)]=(valid:0);\n0:X1=x;\n}
 P0          | P0.F         ;\n LDR W0,[X1] | ADD X9,X9,#1 ;\n             | ERET         ;\nexists (0:X0=0)\n";
    assert_eq!(herd(text), [Ours::TooLarge; 2]);
}

/// Page tables are the kernel's.
#[test]
fn a_thread_at_el0_does_not_access_descriptors() {
    let text = "AArch64 user\nEL0=P0\n{\npteval_t 0:X0; pteval_t 1:X0;\n0:X1=PTE(x); 1:X1=PTE(x);\n}
 P0          | P1          ;\nL0:          |             ;\n LDR X0,[X1] | LDR X0,[X1] ;
forall (fault(P0:L0,PTE(x),MMU:Permission) /\\ 0:X0=0 /\\ ~fault(P1) /\\ 1:X0=(oa:PA(x)))\n";
    assert_eq!(herd(text), ALWAYS);
    // A descriptor is one word of a table, not all of the table.
    assert_eq!(
        herd(&text.replace("1:X1=PTE(x)", "1:X1=PTE(x); 1:X9=y").replace("P0:L0,PTE(x)", "P0:L0,PTE(y)")),
        [Ours::NotAlways; 2]
    );
}

/// The handler of a thread at EL0 runs at EL1, and returns to EL0.
#[test]
fn a_handler_runs_at_el1() {
    let text = "AArch64 handler\nuser=P0\n{\nint x=1;\n0:X0=x; 0:X5=PTE(x);\n[PTE(x)]=(el0:0);\n}
 P0          | P0.F           ;\nL0:          | LDR W2,[X0]    ;\n LDR W1,[X0] | LDR X4,[X5]    ;\nL1:          | ADR X3,L2      ;
 NOP         | MSR ELR_EL1,X3 ;\nL2:          | ERET           ;\n LDR W6,[X0] |                ;\n";
    let reached = format!("{text}exists (0:X2=1 /\\ 0:X4=(oa:PA(x),el0:0) /\\ fault(P0:L0,x,MMU:Permission))\n");
    // The load behind L2 faults each time, and returns to itself.
    assert_eq!(herd(&reached), [Ours::Lost; 2]);
    assert_eq!(herd(&reached.replace("LDR W6,[X0]", "NOP")), REACHED);
}

#[test]
fn an_svc_is_an_exception() {
    let text = |variant: &str, condition: &str| {
        format!(
            "AArch64 call\n{variant}\n{{\n0:X0=0;\n}}\n P0           ;\nL0:           ;\n SVC #0       ;\n ADD W0,W0,#1 ;\n{condition}\n"
        )
    };
    assert_eq!(herd(&text("Variant=fatal", "forall (fault(P0:L0,SupervisorCall) /\\ 0:X0=0)")), ALWAYS);
    assert_eq!(herd(&text("Variant=skip", "forall (fault(P0:L0) /\\ 0:X0=1)")), ALWAYS);
    assert_eq!(herd(&text("Variant=skip", "exists fault(P0,UndefinedInstruction)")), NEVER);
    let handled = "AArch64 call\nEL0=P0\n{\n0:X2=0;\n}\n P0           | P0.F      ;\n SVC #0       | MOV W2,#1 ;
 ADD W2,W2,#2 | ERET      ;\nforall 0:X2=3;\n";
    assert_eq!(herd(handled), ALWAYS);
}

#[test]
fn an_undefined_instruction_is_an_exception() {
    let text = "AArch64 undefined\nVariant=faultToNext\n{\n[PTE(x)]=(valid:0); [PTE(y)]=(af:0);\n0:X1=x; 0:X2=y;\n}
 P0          ;\nL0:          ;\n UDF #0      ;\nL1:          ;\n LDR W0,[X1] ;\nL2:          ;\n LDR W0,[X2] ;
forall (fault(P0:L0,UndefinedInstruction) /\\ fault(P0:L1,x,MMU:Translation) /\\ fault(P0:L2,y,D-MMU:AccessFlag))\n";
    assert_eq!(herd(text), ALWAYS);
}

/// Arrays, pointers, widths, and values that are not numbers.
#[test]
fn variables_are_as_wide_as_they_are_declared() {
    let text = |condition: &str| {
        format!(
            "AArch64 widths\n{{\n int a[3]={{1,2,3}}; int *p = &a; int8_t b=-1; uint64_t d=-1; [q]=a; int w=-1;
 0:X1=a; 0:X2=p; 0:X3=q; 0:X4=b;\n}}\n P0             ;\n LDR W5,[X1,#4] ;\n LDR X6,[X2]    ;\n LDR W7,[X6,#8] ;
 LDR X8,[X3]    ;\n LDRB W9,[X4]   ;\n LDRH W10,[X4]  ;\n MOV W11,#9     ;\n STR W11,[X1,#8];\n{condition}\n"
        )
    };
    for condition in [
        "0:X5=2 /\\ 0:X6=a /\\ 0:X7=3 /\\ 0:X8=a /\\ 0:X9=0xff /\\ 0:X10=0xff",
        "a={1,2,9} /\\ a[1]=2 /\\ a[2]<>3 /\\ p=a /\\ [q]=a /\\ 0:X6=0:X8",
        "b=-1 /\\ [d]=-1 /\\ w=-1 /\\ [a]=1 /\\ a<>2 /\\ not (a!=1)",
        "a=1 /\\ (a=2 => false) /\\ true",
    ] {
        assert_eq!(herd(&text(&format!("forall ({condition});"))), ALWAYS, "{condition}");
    }
    assert_eq!(herd(&text("forall a={1,2,3}")), [Ours::NotAlways; 2]);
    assert_eq!(herd(&text("locations [a; 0:X5;]")), ALWAYS);
}

/// What a filter drops counts for neither side.
#[test]
fn a_filter_drops_executions() {
    let text = |condition: &str| with_variant("Variant=skip", condition);
    assert_eq!(herd(&text("filter (0:X0=1) forall ~fault(P0)")), ALWAYS);
    assert_eq!(herd(&text("filter ~fault(P0)\nexists (0:X0=7)")), NEVER);
    assert_eq!(herd(&text("exists (0:X0=7)")), REACHED);
}

/// AT tells what an access would meet, and faults never.
#[test]
fn at_asks_the_tables() {
    let text = |at: &str, condition: &str| {
        format!(
            "AArch64 at\n{{\n[PTE(x)]=(oa:PA(y),db:0); [PTE(z)]=(el0:0);\n0:X1=x; 0:X2=z;\n}}\n P0              ;\n {at} ;\n ISB             ;
 MRS X3,PAR_EL1  ;\nforall ({condition} /\\ ~fault(P0))\n"
        )
    };
    for (at, condition) in [
        ("AT S1E0R,X1", "0:X3=parel1_t:(oa:PA(y))"),
        ("AT S1E1R,X1", "0:X3=parel1_t:(oa:PA(y))"),
        ("AT S1E1W,X1", "0:X3=parel1_t:(f:1)"),
        ("AT S1E1W,X2", "0:X3=parel1_t:(oa:PA(z))"),
        ("AT S1E0W,X2", "0:X3=parel1_t:(f:1)"),
    ] {
        assert_eq!(herd(&text(at, condition)), ALWAYS, "{at}");
    }
}

/// Instructions that tests use beside loads and stores of words.
#[test]
fn ordinary_instructions_are_known() {
    for (code, condition) in [
        ("UBFX X3,X1,#4,#8", "0:X3=0x56"),
        ("BIC X3,X1,X2,LSL 10", "0:X3=0x1165"),
        ("LDP W3,W4,[X5]", "0:X3=1 /\\ 0:X4=2"),
        ("LDR W3,[X5],#4", "0:X3=1 /\\ 0:X5<>a"),
        ("LDR W3,[X5,#4]!", "0:X3=2 /\\ 0:X5<>a"),
        ("STP W1,W2,[X5]", "a={0x1565,1}"),
        ("STRH W1,[X5,#2]", "a={0x15650001,2}"),
        ("LDADDB W2,W3,[X5]", "0:X3=1 /\\ a={2,2}"),
        ("SWPALH W1,W3,[X5]", "0:X3=1 /\\ a={0x1565,2}"),
        ("TBNZ X1,#2,L; MOV X3,#5; L:", "0:X3=0"),
        ("MOVK X1,#2,LSL #16", "0:X1=0x21565"),
        ("MOVN X3,#0", "0:X3=-1"),
        ("CINC X3,X1,EQ", "0:X3=0x1565"),
    ] {
        let code: String = code.split(';').map(|line| format!(" {line} ;\n")).collect();
        let text = format!(
            "AArch64 code\n{{\nint a[2]={{1,2}}; uint64_t 0:X3; 0:X1=0x1565; 0:X2=1; 0:X5=a;\n}}\n P0 ;\n CMP X1,#0 ;\n{code}forall ({condition})\n"
        );
        assert_eq!(herd(&text), ALWAYS, "{code}");
    }
}

/// What cannot be given its meaning is refused by name.
#[test]
fn what_is_refused_has_a_name() {
    let good =
        "AArch64 refused\nVariant=vmsa\n{\nint x=1;\n0:X1=x;\n}\n P0          ;\n LDR W0,[X1] ;\nexists (0:X0=1)\n";
    assert_eq!(herd(good), REACHED);
    for (from, to, construct) in [
        ("Variant=vmsa", "variant=memtag", "variant memtag"),
        ("Variant=vmsa", "VARIANT=vmsa,mlpt", "variant mlpt"),
        ("LDR W0,[X1]", "FADD D0,D1,D2", "instruction FADD"),
        ("LDR W0,[X1]", "TLBI FOO,X1", "TLBI FOO"),
        ("LDR W0,[X1]", "HVC #0", "instruction HVC"),
        ("LDR W0,[X1]", "MRS X0,FOO_EL1", "system register FOO_EL1"),
        ("int x=1", "__int128 x=1", "type __int128"),
        ("int x=1", "[PTE(x)]=(contig:1)", "descriptor field contig"),
        ("int x=1", "[PTE(x)]=(attrs:(Normal,iWT,oNC))", "memory type"),
        ("0:X1=x;", "0:X1=x:red;", "tag"),
        ("0:X1=x;", "0:X1=TTD(x,S1,LV2);", "level of a descriptor"),
        ("0:X1=x;", "0:V1=x;", "vector register"),
        ("0:X1=x;", "0:%x1=x;", "symbolic register"),
        ("(0:X0=1)", "fault(P0,x,MMU:TLBConflictAbort)", "fault MMU:TLBConflictAbort"),
        ("(0:X0=1)", "fault(P0,x,TagCheck)", "fault TagCheck"),
        ("exists", "observed", "form"),
    ] {
        let text = good.replace(from, to);
        assert_ne!(text, good, "{from}");
        let error = herd::parse("bad.litmus", &text).expect_err(&text);
        assert_eq!(error.construct, construct, "{error}");
    }
}

/// A table at stage 1 beneath EL2: whether it maps its own pages decides whether EL2 can change it.
fn itself(option: &str) -> String {
    format!(
        r#"
arch = "AArch64"
name = "itself"
symbolic = ["x"]
page_table_setup = """
    option default_tables = false;
    {option}
    physical pa1;
    s1table hyp_map 0x200000 {{
        x |-> pa1;
        x ?-> invalid;
    }}
    *pa1 = 7;
"""
[thread.0]
code = """
    MOV X0,#0
    STR XZR,[X2]
    MOV X0,#1
"""
[thread.0.reset]
R2 = "pte3(x, hyp_map)"
TTBR0_EL2 = "ttbr(asid=0x0, base=hyp_map)"
VBAR_EL2 = "0x2000"
"PSTATE.EL" = "0b10"
"PSTATE.SP" = "0b1"
[section.handler]
address = "0x2200"
code = "MOV X0,#2"
[final]
assertion = "0:X0 = 1"
"#
    )
}

#[test]
fn a_new_table_maps_its_own_pages() {
    assert_eq!(isla(&itself("")), REACHED);
    assert_eq!(isla(&itself("option self_map = true;")), REACHED);
    assert_eq!(isla(&itself("option self_map = false;")), NEVER);
    assert_eq!(isla(&itself("option self_map = false;").replace("0:X0 = 1", "0:X0 = 2")), REACHED);
}

/// A test of one load whose registers are given by expressions.
fn with_registers(setup: &str, registers: &str, assertion: &str) -> String {
    format!(
        "arch = \"AArch64\"\nname = \"registers\"\nsymbolic = [\"x\"]\npage_table_setup = \"\"\"\nphysical pa1 pa2;\n{setup}\n*pa1 = 0x107;\n\"\"\"
[thread.0]\ncode = \"LDR X0,[X1]\"\n[thread.0.reset]\nR1 = \"x\"\n{registers}\n[final]\nassertion = \"{assertion}\"\n"
    )
}

#[test]
fn expressions_are_what_they_are_to_isla() {
    for (registers, assertion) in [
        ("R2 = \"bvor(0b100, 0b001)\"", "0:X2 = 5"),
        ("R2 = \"bvand(0xff, 0x0f)\"\nR3 = \"bvxor(1, 3)\"", "0:X2 = 15 & 0:X3 = 2"),
        ("R2 = \"bvlshr(pa1, 12)\"\nR3 = \"page(pa1)\"", "0:X2 = bvlshr(pa1, 12) & ~0:X2 = 0"),
        ("R2 = \"bvshl(1, 4)\"\nR3 = \"exts(0b10, 64)\"\nR4 = \"extz(0b10, 64)\"", "0:X2 = 16 & 0:X3 = -2 & 0:X4 = 2"),
        ("R2 = \"offset(level=3, va=x)\"\nR3 = \"index(level=3, va=x)\"", "0:X2 = offset(level=3, va=x)"),
        ("R2 = \"pte3(x, page_table_base)\"", "*pte3(x, page_table_base) = desc3(x, page_table_base)"),
        ("R2 = \"mkdesc3(oa=pa1, Valid=0b0, AF=0b0)\"", "0:X2 = mkdesc3(oa=pa1, AF=0b0, Valid=0b0)"),
        (
            "R2 = \"ttbr(asid=0x2, base=page_table_base, CnP=0b1)\"",
            "0:X2 = ttbr(CnP=0b1, asid=2, base=page_table_base)",
        ),
        ("", "0:X0[7..0] = 7 & 0:X0[11:8] = 1"),
        ("R2 = \"1\"", "(0:X0 = 0x107 and 0:X2 = 1) or false"),
        ("R2 = \"1\"", "0:X2 = 1 -> 0:X0 ~ 7"),
        ("R2 = \"0x107\"", "0:X0 = 0:X2 & *pa1 = 0:X2 & 0:X0 = *pa1"),
    ] {
        let text = with_registers("x |-> pa1;", registers, assertion);
        assert_eq!(isla(&text), REACHED, "{registers} {assertion}");
    }
    let forall = with_registers("x |-> pa1;", "", "0:X0 = 0x107").replace("[final]", "[final]\nkind = \"forall\"");
    assert_eq!(isla(&forall), ALWAYS);
    let narrow = with_registers("x |-> pa1;", "", "*pa1 = 7")
        .replace("[thread.0]\n", "[types]\npa1 = \"uint8_t\"\n[thread.0]\n");
    assert_eq!(isla(&narrow), REACHED);
}

/// What may be mapped has its tables; assertions about addresses move names.
#[test]
fn tables_and_addresses_are_as_the_setup_says() {
    let maybe = with_registers("x ?-> pa1;", "R2 = \"pte3(x, page_table_base)\"", "*pte3(x, page_table_base) = 0");
    assert_eq!(isla(&maybe.replace("LDR X0,[X1]", "NOP")), REACHED);
    for (setup, assertion) in [
        ("virtual y; assert x[47..21] == y[47..21]; x |-> pa1; y |-> pa2;", "0:X3[47..21] = bvlshr(x, 21)"),
        ("virtual y; assert x[47..39] != y[47..39]; x |-> pa1; y |-> pa2;", "~0:X3[47..39] = bvlshr(x, 39)"),
        (
            "virtual y; assert (x[20..12] == y[20..12]) && (x != y); assert x[38..30] != y[38..30]; x |-> pa1; y |-> pa2;",
            "0:X3[20..12] = index(level=3, va=x) & ~0:X3 = x",
        ),
        ("virtual y; assert x == y; x |-> pa1;", "0:X3 = x"),
    ] {
        assert_eq!(isla(&with_registers(setup, "R3 = \"y\"", assertion)), REACHED, "{setup}");
    }
    for (setup, construct) in [
        ("assert pa1 == pa2; x |-> pa1;", "assert"),
        ("assert x == x[1..0]; x |-> pa1;", "assert"),
        ("let f(a) = a; x |-> pa1;", "let"),
        ("option wide = true; x |-> pa1;", "option wide"),
        ("x |-> pa1 with [AQ = 0b1];", "attribute"),
        ("x |-> pa1 with funny;", "attributes funny"),
    ] {
        let error = isla::parse("bad.toml", &with_registers(setup, "", "true")).expect_err(setup);
        assert_eq!(error.construct, construct, "{error}");
    }
}

/// Registers and functions that are not known, and parts of a file that would change its meaning.
#[test]
fn what_isla_knows_and_we_do_not_has_a_name() {
    let good = with_registers("x |-> pa1;", "R2 = \"pa1\"", "0:X0 = 0x107");
    assert_eq!(isla(&good), REACHED);
    for (from, to, construct) in [
        ("R2 = \"pa1\"", "R2 = \"bvmul(1, 2)\"", "function bvmul"),
        ("R2 = \"pa1\"", "R2 = \"ttbr(asid=1, root=pa1)\"", "function ttbr"),
        ("R2 = \"pa1\"", "R2 = \"mkdesc3(oa=pa1, FOO=1)\"", "attribute FOO"),
        ("R2 = \"pa1\"", "R2 = \"pte3(0x7fc0000000, page_table_base)\"", "table that is not there"),
        ("R2 = \"pa1\"", "FOO_EL1 = \"0\"", "register FOO_EL1"),
        ("0:X0 = 0x107", "0:X2 = 0x403018", "address as a number"),
        ("[thread.0]\n", "[thread.0]\ninterrupt = [{ at = \"L\" }]\n", "interrupt"),
        ("[thread.0]\n", "[[self_modify]]\naddress = \"x:\"\n[thread.0]\n", "self_modify"),
        ("[thread.0]\n", "[types]\nx = \"float\"\n[thread.0]\n", "type float"),
    ] {
        let text = good.replace(from, to);
        assert_ne!(text, good, "{from}");
        let error = isla::parse("bad.toml", &text).expect_err(to);
        assert_eq!(error.construct, construct, "{error}");
    }
}

/// Without page tables a name is where it says, and holds what `[locations]` says.
#[test]
fn a_test_without_page_tables_is_run() {
    let text = "arch = \"AArch64\"\nname = \"data\"\nsymbolic = [\"x\", \"y\"]\n[locations]\nx = \"3\"\n[thread.0]\ninit = { X1 = \"x\", X3 = \"y\" }
code = \"\"\"\nLDR X0,[X1]\nSTR X0,[X3]\n\"\"\"\n[final]\nassertion = \"0:X0 = 3 & *y = 3\"\n";
    assert_eq!(isla(text), REACHED);
}
