//! The zoo cannot pass vacuously: each animal misses once its repair is taken back, or its fault repaired, and each step of a
//! repair is needed.

use zoo::animal::{self, Act, Animal, Version};
use zoo::cell::{Cell, Cells};
use zoo::orders::Program;
use zoo::verdict;

fn all() -> Vec<Animal> {
    animal::find(&[]).expect("the animals")
}

fn cell(bbm: u8, ets: u8) -> Cells {
    let mut cells = Cells::default();
    cells.narrow(&format!("bbm={bbm}")).expect("a level");
    cells.narrow(&format!("ets={ets}")).expect("a value");
    cells
}

/// The animal in which both versions are as `version` was.
fn both_as(animal: &Animal, version: Version) -> Animal {
    let mut animal = Animal { engine: Vec::new(), ..animal.clone() };
    animal.steps.retain(|step| step.only.is_none_or(|only| only == version));
    animal.steps.iter_mut().for_each(|step| step.only = None);
    animal
}

fn misses(animal: &Animal, cells: &Cells) -> Vec<String> {
    verdict::run(animal, cells).unwrap_or_else(|error| panic!("{error}")).misses()
}

#[test]
fn there_are_many_and_each_is_caught() {
    let animals = all();
    assert!(animals.len() >= 50, "{}", animals.len());
    for animal in animals {
        let animal = Animal { engine: Vec::new(), ..animal };
        for cells in [cell(0, 0), cell(3, 3)] {
            assert_eq!(misses(&animal, &cells), [""; 0], "{}", animal.name);
        }
    }
}

#[test]
fn a_repair_that_is_taken_back_is_a_miss() {
    for animal in all() {
        let first = Cell::all().find(|cell| animal.expected(*cell).any(|(_, it)| !it.is_hole)).expect("a cell");
        let cells = cell(first.bbm, first.ets);
        let taken_back = misses(&both_as(&animal, Version::Buggy), &cells);
        assert!(taken_back.iter().any(|it| it.contains("fixed: ")), "{}: {taken_back:?}", animal.name);
        assert!(!taken_back.iter().any(|it| it.contains("buggy: ")), "{}: {taken_back:?}", animal.name);
        let fixed = both_as(&animal, Version::Fixed);
        let repaired = misses(&fixed, &cells);
        // What was expected of a line that only the fault had is expected no more.
        let is_expected = fixed.expected(first).next().is_some();
        assert_eq!(repaired.iter().any(|it| it.contains("buggy: ")), is_expected, "{}: {repaired:?}", animal.name);
        assert!(!repaired.iter().any(|it| it.contains("fixed: ")), "{}: {repaired:?}", animal.name);
    }
}

/// Barriers and TLBIs of repairs whose loss nothing notices. What ends a program is not asked about.
fn idle_steps(animal: &Animal) -> Vec<String> {
    let mut idle = Vec::new();
    for (number, step) in animal.steps.iter().enumerate().rev().skip(1).rev() {
        let Act::Event(_, words) = &step.act else { continue };
        if step.only != Some(Version::Fixed) || !["dsb", "tlbi", "isb"].contains(&words[0].as_str()) {
            continue;
        }
        let mut less = Animal { engine: Vec::new(), ..animal.clone() };
        less.steps.remove(number);
        let notices = |cells: &Cells| verdict::run(&less, cells).is_ok_and(|verdict| !verdict.is_silent);
        if ![cell(0, 0), cell(3, 3)].iter().any(notices) {
            idle.push(format!("{} {}", animal.name, words.join(" ")));
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
    let animals =
        text.split_once("<!-- animals -->\n").and_then(|(_, rest)| rest.split_once("<!-- end of animals -->"));
    let told = animals.map(|(animals, _)| animals.trim()).expect("the marks");
    let command = "what `cargo xtask check --zoo --page` prints is to stand between the marks of docs/zoo.md";
    assert!(told == zoo::page::page(&all()).trim(), "{command}");
}

#[test]
fn a_trace_of_it_is_judged_alike() {
    for animal in all() {
        for version in Version::BOTH {
            let cell = Cell { bbm: 0, ets: 0 };
            let explored = Program::new(&animal, version, cell).and_then(|it| it.explore()).expect("it makes sense");
            let (found, traces): (Vec<_>, Vec<_>) =
                explored.found.into_iter().map(|(it, (text, _))| (it.rule, text)).unzip();
            for (rule, text) in found.iter().zip(&traces) {
                let trace = machine::trace::Trace::read(text).expect("a trace");
                let mut judge = machine::trace::Judge::new(&trace, false);
                while judge.step().expect("it makes sense") {}
                assert_eq!(judge.findings()[0].rule.label(), rule, "{}", animal.name);
            }
            assert_eq!(found.is_empty(), version == Version::Fixed, "{}", animal.name);
        }
    }
}
