//! The rules for a crate as a whole: its circles, and whether it is there.

use std::path::Path;

use super::finding::Finding;
use super::{
    circles::{self, Circle},
    figures::Figures,
    house,
    source::Source,
};

/// Where the lists are.
const HOUSE: &str = "host/xtask/src/tidy/house.rs";

fn of_house(text: String) -> Finding {
    Finding { path: HOUSE.into(), line: 1, text }
}

/// Circles between the files of a crate: those by paths are findings. Of the others, the shortest way round each goes into `ways`, and
/// how many files and folders are in them into `figures`.
pub(crate) fn circles(
    name: &str,
    folder: &str,
    sources: &[Source],
    figures: &mut Figures,
    ways: &mut Vec<String>,
) -> Vec<Finding> {
    let folder = format!("{folder}/src");
    let inside: Vec<&Source> = sources.iter().filter(|source| Path::new(&source.path).starts_with(&folder)).collect();
    let found = circles::find(&folder, &inside);
    for (figure, circles) in [("circles", &found.methods), ("folders", &found.folders)] {
        figures.add(name, figure, circles.iter().map(|it| it.members.len()).sum());
        ways.extend(circles.iter().map(|it| format!("{name}: {} in a circle: {}", it.members.len(), it.way)));
    }
    let text = |it: &Circle| format!("a circle: {}, expected arrows one way", it.way);
    found.paths.iter().map(|it| Finding { path: it.members[0].clone(), line: 1, text: text(it) }).collect()
}

/// Files of tests beside an `all.rs`, where it alone is a program, that it does not name: nothing would run them.
pub(crate) fn unnamed_tests(sources: &[Source]) -> Vec<Finding> {
    let all = sources.iter().filter_map(|it| Some((it.path.strip_suffix("all.rs")?, it)));
    let unnamed = all.filter(|(folder, _)| folder.ends_with("/tests/")).flat_map(|(folder, all)| {
        let beside = sources.iter().filter_map(move |it| it.path.strip_prefix(folder)?.strip_suffix(".rs"));
        beside
            .filter(|name| *name != "all" && !name.contains('/'))
            .filter(|name| !(0..all.tokens.len()).any(|index| all.reads(index, &["mod", name])))
            .map(move |name| Finding {
                path: all.path.clone(),
                line: 1,
                text: format!("no `mod {name};`, expected one for each file of tests beside it"),
            })
    });
    unnamed.collect()
}

/// Crates and places on the lists that are not there.
pub(crate) fn missing(root: &Path, members: &[&str]) -> Vec<Finding> {
    let used = house::ROOMS.iter().flat_map(|room| room.may_use.iter().chain([&room.name]));
    let mut missing: Vec<&str> = used.copied().filter(|name| !members.contains(name)).collect();
    missing.sort_unstable();
    missing.dedup();
    let crates =
        missing.into_iter().map(|name| of_house(format!("`{name}` is no crate of the workspace, expected one")));
    let places = house::ASSEMBLY.iter().chain(house::UNSAFE).filter(|place| !root.join(place).exists());
    crates.chain(places.map(|place| of_house(format!("`{place}` is not there, expected a folder or a file")))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found() {
        let texts = [("a.rs", "use crate::b::f;"), ("b.rs", "use crate::a::g;")];
        let read = |(file, text): &(&str, &str)| Source::new(&format!("x/src/{file}"), text).expect("Rust");
        let sources: Vec<Source> = texts.iter().map(read).collect();
        let (mut figures, mut ways) = (Figures::default(), Vec::new());
        let found = circles("x", "x", &sources, &mut figures, &mut ways);
        let way = "x/src/a.rs → x/src/b.rs (f) → x/src/a.rs (g)";
        assert_eq!(found[0].to_string(), format!("x/src/a.rs:1: a circle: {way}, expected arrows one way"));
        assert_eq!(ways, [way, "a → b (f) → a (g)"].map(|way| format!("x: 2 in a circle: {way}")));
        assert_eq!((found.len(), figures.get("x", "circles"), figures.get("x", "folders")), (1, Some(2), Some(2)));
    }

    #[test]
    fn tests_that_nothing_names_are_found() {
        let texts = [("all.rs", "mod a;"), ("a.rs", ""), ("b.rs", ""), ("common/mod.rs", "")];
        let read = |(file, text): &(&str, &str)| Source::new(&format!("x/tests/{file}"), text).expect("Rust");
        let sources: Vec<Source> = texts.iter().map(read).collect();
        let found = unnamed_tests(&sources);
        assert!(found.len() == 1 && found[0].to_string().starts_with("x/tests/all.rs:1: no `mod b;`"), "{found:?}");
        assert_eq!(unnamed_tests(&sources[1..]), []);
    }

    #[test]
    fn rooms_that_are_not_there_are_found() {
        let all: Vec<&str> = house::ROOMS.iter().map(|room| room.name).collect();
        let root = crate::cargo::workspace();
        assert_eq!(missing(&root, &all), []);
        assert_eq!(missing(&root.join("nowhere"), &all).len(), house::ASSEMBLY.len() + house::UNSAFE.len());
        let less: Vec<&str> = all.iter().copied().filter(|name| *name != "vellum-vmsa").collect();
        assert!(missing(&root, &less)[0].text.starts_with("`vellum-vmsa` is no crate"));
    }
}
