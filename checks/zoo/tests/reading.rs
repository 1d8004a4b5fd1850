//! What a case's file must hold, and what is told of one that makes no sense.

use std::path::Path;

use zoo::case::{Case, Version};
use zoo::configuration::{Configuration, Configurations};
use zoo::orders::Program;
use zoo::verdict;

const HEAD: &str = "where: here\nstory: it was wrong,\n  and so on.\n\n";
/// A page goes, and its frame; line 5 of the text is the first of these.
const BODY: &str = "setup kernel\nmemory L2 L3|Table\nmemory L3 Page|Frame\n0 store L3 0\n0 dsb ishst\n\
                    + 0 tlbi vaale1is Pages\n0 dsb ish\n0 isb\n0 free frame Frame 0x1000 ! V3\n";

fn read(text: &str) -> Result<Case, String> {
    Case::read("test", "test.case", text).map_err(|error| error.to_string())
}

fn one_configuration() -> Configurations {
    let mut configurations = Configurations::default();
    configurations.narrow("bbm=0").expect("a level");
    configurations.narrow("ets=2").expect("a value");
    configurations
}

fn misses(text: &str) -> Vec<String> {
    let case = read(text).unwrap_or_else(|error| panic!("{error}"));
    verdict::run(&case, &one_configuration()).unwrap_or_else(|error| panic!("{error}")).misses()
}

#[track_caller]
fn malformed(text: &str, what: &str) {
    let error = match read(text) {
        Err(error) => error,
        Ok(case) => match verdict::run(&case, &one_configuration()) {
            Err(error) => error.to_string(),
            Ok(verdict) => panic!("accepted: {:?}", verdict.misses()),
        },
    };
    assert!(error.contains(what), "{error}");
}

#[test]
fn what_is_stated_must_be_found_and_nothing_else() {
    let case = read(&format!("{HEAD}{BODY}")).expect("a case");
    assert_eq!(case.story, "it was wrong, and so on.");
    assert_eq!(misses(&format!("{HEAD}{BODY}")), [""; 0]);
    let other_rule = misses(&format!("{HEAD}{}", BODY.replace("V3", "V4")));
    assert!(other_rule[0].contains("V3 at line 13 found, not expected"), "{other_rule:?}");
    assert!(other_rule[1].contains("V4 expected at line 13, not found"), "{other_rule:?}");
    let other_line = misses(&format!("{HEAD}{}", BODY.replace(" ! V3", "").replace("0 isb", "0 isb ! V3")));
    assert_eq!(other_line.len(), 2, "{other_line:?}");
    let hole = misses(&format!("{HEAD}{}", BODY.replace("V3", "V3 hole")));
    assert!(hole[0].contains("which the file calls a hole"), "{hole:?}");
    let no_repair = misses(&format!("{HEAD}{}", BODY.replace("+ 0 tlbi", "+ 0 dsb ish\n- 0 tlbi")));
    assert!(no_repair.iter().any(|it| it.contains("fixed: V3 at line")), "{no_repair:?}");
}

#[test]
fn what_makes_no_sense_is_told_with_its_line() {
    let with = |from: &str, to: &str| format!("{HEAD}{}", BODY.replace(from, to));
    malformed("", "expected `where: …` and `story: …`");
    malformed("where here", "test.case:1: expected `KEY: text`");
    malformed("whence: here", "test.case:1: `whence`, expected where, story, legal or engine");
    malformed(&with(" ! V3", ""), "nothing is expected of it anywhere");
    malformed(&with("V3", "V3 bbm=0"), "nothing is expected in 9 configurations, expected `legal: …`");
    malformed(&format!("legal: why\n{HEAD}{BODY}"), "something is expected in every configuration");
    malformed(&with("+ 0 tlbi", "0 tlbi"), "both versions are the same");
    malformed(&with("V3", "V13"), "test.case:13: `V13`, expected a rule, V1 to V12");
    malformed(&with("V3", "V3 bbm=4"), "`bbm=4`, expected values out of [0, 1, 2, 3]");
    malformed(&with("V3", "V3 often"), "`often`, expected a condition");
    malformed(&with("0 store", "0 story"), "test.case:8: `story`, expected load, store");
    malformed(&with("L3 0", "L4 0"), "test.case:8: `L4` is no name that stands for anything here");
    malformed(&with("setup kernel", "setup here"), "here.setup");
    malformed(&with("0 isb", "+ 0 isb ! V3"), "which must be silent");
    malformed(&with("0 isb", "cpu 2 bbm=1"), "`bbm=1`, expected none: the configuration says it");
    malformed(&with("0 isb", "let low = 1"), "`low`, expected a name that begins with a capital");
    malformed(&with("0 isb", "0 isb for I in 3"), "expected `for NAME in FIRST..END`");
    malformed(&with("0 isb", "then"), "test.case:12: expected `together` and `then` in turn");
    malformed(&with("0 isb", "0 await 0"), "test.case:12: every CPU waits for ever");
    let engine = |text: &str| format!("{}engine: {text}\n\n{BODY}", HEAD.trim_end().to_owned() + "\n");
    malformed(&engine("unmap-page"), "expected `WORKLOAD [FLAG…] | CALL CHANGE | RULE`");
    malformed(&engine("no-such | x | V3"), "`no-such` is no workload of the checks");
    malformed(&engine("unmap-page often | x | V3"), "expected one of asid, range, hints, hardware, stage2, guest, el2");
}

#[test]
fn a_counterpart_must_be_there_and_be_caught_as_stated() {
    let with = |text: &str| misses(&format!("{}\nengine: {text}\n\n{BODY}", HEAD.trim_end()));
    assert_eq!(with("protect-page | vaale1is deleted | V4"), [""; 0]);
    assert!(with("protect-page | vaale1is deleted | V3")[0].contains("V3 expected, V4 found"));
    assert!(with("protect-page | vaale1is forgotten | V4")[0].contains("the engine makes no such call"));
}

/// CPU 1 comes to its access before CPU 0 maps the page, or after; only one of the orders is wrong, and the one in which the
/// lines stand is not.
#[test]
fn every_order_is_tried() {
    let body = "setup kernel\nmemory L2 L3|Table\nlet Mapped = 0\ntogether\n1 access read Kernel ! V9\n0 store L3 Page|Frame\n\
                + 0 dsb ishst\n+ 0 let Mapped = 1\nthen\n";
    let case = read(&format!("{HEAD}{body}+ 1 isb\n").replace("1 access", "+ 1 await Mapped\n+ 1 isb\n1 access"))
        .expect("a case");
    let explore = |version| {
        Program::new(&case, version, Configuration { bbm: 0, ets: 0 }).expect("a program").explore().expect("orders")
    };
    let (buggy, fixed) = (explore(Version::Buggy), explore(Version::Fixed));
    assert_eq!(buggy.found.keys().map(|it| it.rule.as_str()).collect::<Vec<_>>(), ["V9"]);
    let silent = buggy.silent.expect("an order in which nothing is found");
    assert!(silent.find("access") < silent.rfind("store"), "{silent}");
    assert!(fixed.found.is_empty() && fixed.silent.is_some(), "{:?}", fixed.found);
}

#[test]
fn a_case_of_ones_own_is_found_by_its_path() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/kvm-stage2-live.case");
    let named = zoo::folder::find(&[path.display().to_string()]).expect("a file");
    assert_eq!(named[0].name, "kvm-stage2-live");
    let error = zoo::folder::find(&[String::from("unicorn")]).expect_err("no case");
    assert!(error.to_string().contains("unicorn: no case has this name"), "{error}");
}
