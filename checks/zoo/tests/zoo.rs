//! The zoo cannot pass vacuously: each case misses once its repair is taken back, or its fault repaired, and each step of a
//! repair is needed.

use zoo::case::{Act, Case, Version};
use zoo::configuration::{Configuration, Configurations};
use zoo::orders::Program;
use zoo::verdict;

fn all() -> Vec<Case> {
    zoo::folder::find(&[]).expect("the cases")
}

fn configuration(bbm: u8, ets: u8) -> Configurations {
    let mut configurations = Configurations::default();
    configurations.narrow(&format!("bbm={bbm}")).expect("a level");
    configurations.narrow(&format!("ets={ets}")).expect("a value");
    configurations
}

/// The case in which both versions are as `version` was.
fn both_as(case: &Case, version: Version) -> Case {
    let mut case = Case { engine: Vec::new(), ..case.clone() };
    case.steps.retain(|step| step.only.is_none_or(|only| only == version));
    case.steps.iter_mut().for_each(|step| step.only = None);
    case
}

fn misses(case: &Case, configurations: &Configurations) -> Vec<String> {
    verdict::run(case, configurations).unwrap_or_else(|error| panic!("{error}")).misses()
}

#[test]
fn there_are_many_and_each_is_caught() {
    let cases = all();
    assert!(cases.len() >= 50, "{}", cases.len());
    for case in cases {
        let case = Case { engine: Vec::new(), ..case };
        for configurations in [configuration(0, 0), configuration(3, 3)] {
            assert_eq!(misses(&case, &configurations), [""; 0], "{}", case.name);
        }
    }
}

#[test]
fn a_repair_that_is_taken_back_is_a_miss() {
    for case in all() {
        let first = Configuration::all()
            .find(|it| case.expected(*it).any(|(_, expected)| !expected.is_hole))
            .expect("a configuration");
        let configurations = configuration(first.bbm, first.ets);
        let taken_back = misses(&both_as(&case, Version::Buggy), &configurations);
        assert!(taken_back.iter().any(|it| it.contains("fixed: ")), "{}: {taken_back:?}", case.name);
        assert!(!taken_back.iter().any(|it| it.contains("buggy: ")), "{}: {taken_back:?}", case.name);
        let fixed = both_as(&case, Version::Fixed);
        let repaired = misses(&fixed, &configurations);
        // What was expected of a line that only the fault had is expected no more.
        let is_expected = fixed.expected(first).next().is_some();
        assert_eq!(repaired.iter().any(|it| it.contains("buggy: ")), is_expected, "{}: {repaired:?}", case.name);
        assert!(!repaired.iter().any(|it| it.contains("fixed: ")), "{}: {repaired:?}", case.name);
    }
}

/// Barriers and TLBIs of repairs whose loss nothing notices. What ends a program is not asked about.
fn idle_steps(case: &Case) -> Vec<String> {
    let mut idle = Vec::new();
    for (number, step) in case.steps.iter().enumerate().rev().skip(1).rev() {
        let Act::Event(_, words) = &step.act else { continue };
        if step.only != Some(Version::Fixed) || !["dsb", "tlbi", "isb"].contains(&words[0].as_str()) {
            continue;
        }
        let mut less = Case { engine: Vec::new(), ..case.clone() };
        less.steps.remove(number);
        let notices = |configurations: &Configurations| {
            verdict::run(&less, configurations).is_ok_and(|verdict| !verdict.is_silent)
        };
        if ![configuration(0, 0), configuration(3, 3)].iter().any(notices) {
            idle.push(format!("{} {}", case.name, words.join(" ")));
        }
    }
    idle
}

#[test]
fn each_step_of_a_repair_is_needed() {
    let idle: Vec<String> = all().iter().flat_map(idle_steps).collect();
    assert!(idle.is_empty(), "{}", idle.join("\n"));
}

/// `docs/zoo.md` tells what the files tell.
#[test]
fn the_page_is_up_to_date() {
    let text = include_str!("../../../docs/zoo.md");
    let cases = text.split_once("<!-- cases -->\n").and_then(|(_, rest)| rest.split_once("<!-- end of cases -->"));
    let told = cases.map(|(cases, _)| cases.trim()).expect("the marks");
    let command = "what `cargo xtask check zoo --page` prints is to stand between the marks of docs/zoo.md";
    assert!(told == zoo::page::page(&all()).trim(), "{command}");
}

#[test]
fn a_trace_of_it_is_judged_alike() {
    for case in all() {
        for version in Version::BOTH {
            let configuration = Configuration { bbm: 0, ets: 0 };
            let explored =
                Program::new(&case, version, configuration).and_then(|it| it.explore()).expect("it makes sense");
            let (found, traces): (Vec<_>, Vec<_>) =
                explored.found.into_iter().map(|(it, (text, _))| (it.rule, text)).unzip();
            for (rule, text) in found.iter().zip(&traces) {
                let trace = machine::trace::Trace::read(text).expect("a trace");
                let mut judge = machine::trace::Judge::new(&trace, false);
                while judge.step().expect("it makes sense") {}
                assert_eq!(judge.findings()[0].rule.label(), rule, "{}", case.name);
            }
            assert_eq!(found.is_empty(), version == Version::Fixed, "{}", case.name);
        }
    }
}
