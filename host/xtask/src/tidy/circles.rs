//! Circles between the files of a crate: files that use each other, directly or by others.
//!
//! ```text
//! use crate::a::{b, C};  super::d()  →  paths  →  the file that has what a path names  →  arrows  →  circles
//! ```
//! A name that a file re-exports belongs to the file that it comes from. A file that only re-exports what is below it does not
//! use it, and a file may use the head of the module that it is in. Tests may use whatever they test.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Kind, Source};

/// A module: the names from the crate's root to it; and before them, that of the program where a crate has several.
type Module = Vec<String>;

/// A name that a file brings into its scope.
struct Import {
    name: String,
    target: Module,
}

/// What one file says of others.
struct File {
    imports: Vec<Import>,
    /// Every path that begins at `crate`, `self`, `super` or a child; and whether the file only re-exports it.
    paths: Vec<(Module, bool)>,
}

/// The circles of a crate: its files, each circle in order of their names. `folder` is that of its sources.
pub(crate) fn find(folder: &str, sources: &[&Source]) -> Vec<Vec<String>> {
    let modules: BTreeMap<Module, &Source> =
        sources.iter().filter_map(|source| Some((module(folder, &source.path)?, *source))).collect();
    let files = modules.iter().map(|(here, source)| (here.clone(), read(here, source, &modules)));
    let files: BTreeMap<Module, File> = files.collect();
    let arrows: BTreeMap<&Module, BTreeSet<Module>> =
        files.iter().map(|(here, file)| (here, arrows(here, file, &files))).collect();
    let reached: BTreeMap<&Module, BTreeSet<Module>> =
        arrows.keys().map(|here| (*here, reach(here, &arrows))).collect();
    let circle = |here: &Module| {
        let others = reached[here].iter().filter(|other| reached.get(other).is_some_and(|back| back.contains(here)));
        others.map(|other| modules[other].path.clone()).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    let circles: BTreeSet<Vec<String>> = reached.keys().map(|here| circle(here)).filter(|it| !it.is_empty()).collect();
    circles.into_iter().collect()
}

/// The module of a file; `None` for a file of tests.
fn module(folder: &str, path: &str) -> Option<Module> {
    let inside = path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".rs")?;
    let mut names: Module = inside.split('/').map(str::to_string).collect();
    if names.iter().any(|name| name == "tests" || name.ends_with("_tests")) {
        return None;
    }
    // Programs beside the library are crates of their own.
    let program = match names.first()?.as_str() {
        "bin" => names.drain(..2).nth(1),
        "main" if names.len() == 1 => names.pop(),
        _ => None,
    };
    if matches!(names.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        names.pop();
    }
    Some(program.into_iter().map(|name| format!("bin {name}")).chain(names).collect())
}

/// Where the module's crate begins.
fn root(here: &[String]) -> &[String] {
    let is_program = here.first().is_some_and(|name| name.starts_with("bin "));
    &here[..usize::from(is_program)]
}

fn read(here: &Module, source: &Source, modules: &BTreeMap<Module, &Source>) -> File {
    let mut file = File { imports: Vec::new(), paths: Vec::new() };
    for index in 0..source.tokens.len() {
        let Some(word) = source.word(index).filter(|_| !source.is_test(index)) else { continue };
        let is_inner = index >= 2 && is_separator(source, index - 2);
        if is_inner || !is_separator(source, index + 1) {
            continue;
        }
        let parent = here.len().checked_sub(1).filter(|parent| *parent >= root(here).len());
        let base = match (word, parent) {
            ("crate", _) => root(here).to_vec(),
            ("self", _) => here.clone(),
            ("super", Some(parent)) => here[..parent].to_vec(),
            _ => {
                let child: Module = here.iter().cloned().chain([word.to_string()]).collect();
                if !modules.contains_key(&child) {
                    continue;
                }
                child
            }
        };
        let is_import = index >= 1 && source.word(index - 1) == Some("use");
        let is_public = is_import
            && index >= 2
            && (source.word(index - 2) == Some("pub")
                || source.tokens.get(index - 2).is_some_and(|it| it.kind == Kind::Close(')')));
        let mut leaves = Vec::new();
        tree(source, index + 3, base, &mut leaves);
        for (path, name) in leaves {
            let is_below = path.len() > here.len() && path.starts_with(here);
            let uses = (0..source.tokens.len()).filter(|it| source.word(*it) == Some(&name) && !source.is_test(*it));
            file.paths.push((path.clone(), is_public && is_below && uses.count() <= 1));
            if is_import {
                file.imports.push(Import { name, target: path });
            }
        }
    }
    file
}

fn is_separator(source: &Source, index: usize) -> bool {
    source.is_mark(index, ':') && source.is_mark(index + 1, ':')
}

/// The paths that go on at `index` from `base`, each with the name that it has here. The index after them.
fn tree(source: &Source, mut index: usize, mut base: Module, leaves: &mut Vec<(Module, String)>) -> usize {
    loop {
        if source.opens(index, '{') {
            index += 1;
            while !matches!(source.tokens.get(index).map(|it| &it.kind), Some(Kind::Close('}')) | None) {
                if source.is_mark(index, ',') {
                    index += 1;
                    continue;
                }
                let next = tree(source, index, base.clone(), leaves);
                index = next.max(index + 1);
            }
            return index + 1;
        }
        match source.word(index) {
            Some("super") => drop(base.pop()),
            Some("self") => {}
            Some(word) => base.push(word.to_string()),
            None => {
                leaves.push((base, "*".into()));
                return index + 1;
            }
        }
        if is_separator(source, index + 1) {
            index += 3;
            continue;
        }
        let renamed = source.word(index + 1) == Some("as");
        let name = if renamed { source.word(index + 2) } else { base.last().map(String::as_str) };
        leaves.push((base.clone(), name.unwrap_or("*").to_string()));
        return index + if renamed { 3 } else { 1 };
    }
}

fn arrows(here: &Module, file: &File, files: &BTreeMap<Module, File>) -> BTreeSet<Module> {
    let used = file.paths.iter().filter(|(_, is_door)| !is_door).map(|(path, _)| owner(path, files, 0));
    let is_head = |other: &Module| here.starts_with(other) && other.len() > root(here).len();
    used.filter(|other| other != here && !is_head(other) && files.contains_key(other)).collect()
}

/// The file that has what a path names: by way of re-exports, as far as there are files.
fn owner(path: &[String], files: &BTreeMap<Module, File>, depth: usize) -> Module {
    let mut here = root(path).to_vec();
    for (at, name) in path.iter().enumerate().skip(here.len()) {
        let child: Module = here.iter().cloned().chain([name.clone()]).collect();
        if files.contains_key(&child) {
            here = child;
            continue;
        }
        let import = files.get(&here).and_then(|file| file.imports.iter().find(|import| import.name == *name));
        return match import {
            // A name may be imported from where it is re-exported, and so on; not without end.
            Some(import) if depth < 8 => {
                let path: Module = import.target.iter().chain(&path[at + 1..]).cloned().collect();
                owner(&path, files, depth + 1)
            }
            _ => here,
        };
    }
    here
}

fn reach(from: &Module, arrows: &BTreeMap<&Module, BTreeSet<Module>>) -> BTreeSet<Module> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from.clone()]);
    while let Some(here) = open.pop() {
        for next in arrows.get(&here).into_iter().flatten() {
            if reached.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::new(&format!("c/src/{path}"), text).expect("Rust")).collect();
        find("c/src", &sources.iter().collect::<Vec<_>>())
    }

    fn one(files: &[&str]) -> Vec<Vec<String>> {
        vec![files.iter().map(|file| format!("c/src/{file}")).collect()]
    }

    const LIB: (&str, &str) = ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\n");

    #[test]
    fn arrows_one_way_are_fine() {
        let c = ("c.rs", "fn f(_: crate::A) {}");
        assert_eq!(
            circles(&[LIB, ("a.rs", "pub struct A;"), ("b.rs", "use crate::a::A;\nuse super::c::f;"), c]),
            [[""; 0]; 0]
        );
        // The head of a module has what its files share.
        let head = ("a/mod.rs", "mod d;\npub use d::D;\npub struct A;\nfn f(_: D) {}");
        assert_eq!(circles(&[LIB, head, ("a/d.rs", "use super::A;\npub struct D;"), ("b.rs", "")]), [[""; 0]; 0]);
        // The door of the crate only re-exports: who uses it, uses what is behind it.
        assert_eq!(circles(&[LIB, ("a.rs", "pub struct A;\nuse crate::b;"), ("b.rs", "")]), [[""; 0]; 0]);
    }

    #[test]
    fn circles_are_found() {
        let [a, b] = [("a.rs", "use super::b::B;\npub struct A;"), ("b.rs", "fn f() { crate::c::g() }\npub struct B;")];
        assert_eq!(circles(&[LIB, a, b, ("c.rs", "use crate::{a::{A as X}, d};")]), one(&["a.rs", "b.rs", "c.rs"]));
        assert_eq!(circles(&[LIB, a, b, ("c.rs", "use crate::A;")]), one(&["a.rs", "b.rs", "c.rs"]));
        let head = ("a/mod.rs", "mod d;\npub use d::D;\npub struct A;\nfn f(_: D) {}");
        let below = ("a/d.rs", "use super::A;\nuse crate::b::B;");
        assert_eq!(circles(&[LIB, head, below, ("b.rs", "use crate::A;")]), one(&["a/d.rs", "a/mod.rs", "b.rs"]));
        let lib = ("lib.rs", "mod a;\nmod b;\nmod c;\nfn f() { c::g() }");
        assert_eq!(circles(&[lib, ("a.rs", ""), ("b.rs", ""), ("c.rs", "use crate::{a, b};")]), [[""; 0]; 0]);
        assert_eq!(circles(&[LIB, a, b, ("c.rs", "#[cfg(test)] mod tests { use crate::A; }")]), [[""; 0]; 0]);
    }

    #[test]
    fn programs_are_crates_of_their_own() {
        let main = ("bin/p/main.rs", "mod a;\nuse a::f;\nfn main() { f() }");
        assert_eq!(circles(&[LIB, main, ("bin/p/a.rs", "use crate::X;")]), one(&["bin/p/a.rs", "bin/p/main.rs"]));
        assert_eq!(circles(&[LIB, main, ("bin/p/a.rs", ""), ("a.rs", "use crate::b;"), ("b.rs", "")]), [[""; 0]; 0]);
    }
}
