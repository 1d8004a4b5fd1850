//! What the finder finds.

use super::find;
use crate::sites::{Site, apply};

fn mutated(text: &str) -> String {
    let sites = find("x.rs", text).expect("Rust");
    let numbered: Vec<(usize, &Site)> = sites.iter().enumerate().collect();
    apply(text, &numbered).0
}

fn changes(text: &str) -> Vec<String> {
    let sites = find("x.rs", text).expect("Rust");
    let change = |site: &Site| format!("{}: {} → {}", site.kind, site.before, site.after.join(" | "));
    sites.iter().map(change).collect()
}

#[test]
fn sites_nest() {
    assert_eq!(
        mutated("fn f(a: X) -> X { g(a < b && !c) }"),
        "fn f(a: X) -> X { g((match ::mutant::and(0, (::mutant::lt!(1, a , b)) ) { Some(known) => known, None => !c })) }"
    );
}

#[test]
fn every_kind_of_site_is_found() {
    let text = "impl T { fn f(&self) -> bool { if let Some(x) = y { g(x | AA); } else if h { return true; }
        for i in a..b { z += 1; } match k { P if q => 2, R => MAX } } }";
    let expected = [
        "early return: the body → return false | return true",
        "condition: let Some(x) = y → false",
        "statement: g(x | AA); → nothing",
        "mask: x | AA → x & AA | x",
        "constant: AA → AA + 1 | AA - 1",
        "condition: h → false | true",
        "statement: return true; → nothing",
        "constant: true → false",
        "range: a → a + 1",
        "range: b → b + 1",
        "statement: z += 1; → nothing",
        "arithmetic: z += 1 → z -= 1",
        "constant: 1 → 1 + 1 | 1 - 1",
        "arms: P if q => 2, R => MAX → swapped",
        "condition: q → false | true",
        "constant: 2 → 2 + 1 | 2 - 1",
        "constant: MAX → MAX + 1 | MAX - 1",
    ];
    let found = changes(text);
    for change in expected {
        assert!(found.iter().any(|it| it == change), "{change} is not among {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn what_the_compiler_evaluates_and_what_tests_hold_is_left_alone() {
    let text = "const A: u8 = 1 + 2; #[cfg(test)] mod tests { fn f() { a < b; } } type T = [u8; 3];
        enum E { A = 3 } impl fmt::Display for E { fn fmt(&self) { g(3); } }";
    assert_eq!(changes(text), [""; 0]);
}
