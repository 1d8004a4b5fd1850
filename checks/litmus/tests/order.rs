//! What a TLBI comes after, without a DSB: published shapes, one part at a time.

use litmus::herd;
use litmus::judge::{self, Result};
use machine::registers::Ets;

/// CPU 0 breaks x and then stores x's address to z. CPU 1 reads that, does `between`, invalidates x and reads x.
fn still_translates(between: &[&str]) -> bool {
    let first = ["STR X0,[X1]", "DMB ST", "STR X2,[X3]"];
    let before = ["LDR X2,[X3]"];
    let after = ["DSB ISH", "ISB", "L0:", "LDR W4,[X5]"];
    let second: Vec<&str> = before.iter().chain(between).chain(&after).copied().collect();
    let line = |(number, text): (usize, &&str)| format!("{} | {text} ;\n", first.get(number).unwrap_or(&""));
    let code: String = second.iter().enumerate().map(line).collect();
    let text = format!(
        "AArch64 order\n{{\n[z]=y;\npteval_t 0:X0=(oa:PA(x),valid:0); 0:X1=PTE(x); 0:X2=x; 0:X3=z;\n\
         1:X3=z; 1:X5=x; 1:X6=x;\n}}\nP0 | P1 ;\n{code}exists (1:X2=x /\\ ~fault(P1:L0,x))\n"
    );
    let test = herd::parse("order.litmus", &text).expect("a good test");
    let [without, with] = [Ets::None, Ets::Ets2].map(|ets| judge::run(&test, ets).result);
    assert_eq!(without, with, "{between:?}");
    match with {
        Result::Reached => true,
        Result::Never => false,
        other => panic!("{between:?}: {other}"),
    }
}

const INVALIDATE: [&str; 2] = ["LSR X9,X6,#12", "TLBI VAAE1IS,X9"];

fn before_tlbi(between: &[&'static str]) -> bool {
    still_translates(&[between, &INVALIDATE].concat())
}

#[test]
fn an_address_dependency_orders_a_tlbi() {
    assert!(!still_translates(&["LSR X9,X2,#12", "TLBI VAAE1IS,X9"]));
    assert!(!before_tlbi(&["EOR X8,X2,X2", "ADD X6,X6,X8"]));
    assert!(!before_tlbi(&["CMP X2,X5", "CSEL X6,X6,X6,EQ"]));
    // What is read plays no part in these.
    assert!(before_tlbi(&[]));
    assert!(before_tlbi(&["EOR X8,X2,X2", "ADD X7,X6,X8"]));
    assert!(still_translates(&["EOR X9,X2,X2", "TLBI VMALLE1IS"]));
}

#[test]
fn a_control_dependency_orders_a_tlbi_behind_an_isb() {
    assert!(!before_tlbi(&["CBZ X2,L0", "ISB"]));
    assert!(before_tlbi(&["CBZ X2,L0"]));
    assert!(before_tlbi(&["ISB", "CBZ X2,L0"]));
    assert!(before_tlbi(&["CBZ X6,L0", "ISB"]));
    // An access at an address that was read is as good as a branch.
    assert!(!before_tlbi(&["EOR X8,X2,X2", "ADD X8,X8,X3", "LDR X7,[X8]", "ISB"]));
}

#[test]
fn a_dsb_that_waits_for_the_load_orders_a_tlbi() {
    for (barrier, still) in [("DSB LD", false), ("DSB SY", false), ("DSB ST", true), ("DMB SY", true)] {
        assert_eq!(before_tlbi(&[barrier]), still, "{barrier}");
    }
}

/// A walk that has seen a store comes before an ISB too.
#[test]
fn a_walk_orders_a_tlbi_behind_an_isb() {
    for (barrier, expected) in [("ISB", Result::Never), ("NOP", Result::Reached)] {
        let text = format!(
            "AArch64 walk\n{{\nTTD(y)=(oa:PA(y),valid:0);\npteval_t 0:X0=(oa:PA(x),valid:0); 0:X1=PTE(x);\n\
             pteval_t 0:X2=(oa:PA(y),valid:1); 0:X3=PTE(y);\n1:X5=x; 1:X6=y;\n}}\nP0 | P1 ;\n\
             STR X0,[X1] | L1: ;\n | LDR W7,[X6] ;\nDMB ST | {barrier} ;\nSTR X2,[X3] | LSR X9,X5,#12 ;\n\
             | TLBI VAAE1IS,X9 ;\n | DSB ISH ;\n | ISB ;\n | L0: ;\n | LDR W4,[X5] ;\n\
             exists (~fault(P1:L1,y) /\\ ~fault(P1:L0,x))\n"
        );
        let test = herd::parse("walk.litmus", &text).expect("a good test");
        assert_eq!(judge::run(&test, Ets::Ets2).result, expected, "{barrier}");
    }
}
