//! Circles between the files of a crate: files that use each other, directly or by others.
//!
//! ```text
//! use crate::a::{b, C};  super::d()  →  paths  →  the file that has what a path names  →  arrows  →  circles
//! ```
//! A name that a file re-exports belongs to the file that it comes from. A file that only re-exports what is below it does not
//! use it. Tests may use whatever they test.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    methods,
    source::{Kind, Source},
};

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

/// What a file uses, each with a name by which it does.
type Arrows<N> = BTreeMap<N, BTreeMap<N, String>>;

/// Nodes that use each other, and the shortest way round.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Circle {
    pub(crate) members: Vec<String>,
    pub(crate) way: String,
}

/// The circles of a crate.
pub(crate) struct Circles {
    /// Of files, by the paths that they name.
    pub(crate) paths: Vec<Circle>,
    /// Of files, with the heads of their folders, and by methods too.
    pub(crate) methods: Vec<Circle>,
    /// Of the files and folders beside each other in a folder.
    pub(crate) folders: Vec<Circle>,
}

/// The circles of a crate. `folder` is that of its sources.
pub(crate) fn find(folder: &str, sources: &[&Source]) -> Circles {
    let modules: BTreeMap<Module, &Source> =
        sources.iter().filter_map(|source| Some((module(folder, &source.path)?, *source))).collect();
    let files = modules.iter().map(|(here, source)| (here.clone(), read(here, source, &modules)));
    let files: BTreeMap<Module, File> = files.collect();
    let mut all: Arrows<Module> = files.iter().map(|(here, file)| (here.clone(), arrows(here, file, &files))).collect();
    let is_head = |here: &Module, other: &Module| here.starts_with(other) && other.len() > root(here).len();
    let mut paths = all.clone();
    paths.iter_mut().for_each(|(here, to)| to.retain(|other, _| !is_head(here, other)));
    let folders = circles(&folders(&paths), |it| it.join("/"));
    let paths = circles(&paths, |it| modules[it].path.clone());
    for (here, other, name) in methods::arrows(&modules) {
        all.entry(here).or_default().entry(other).or_insert(format!("{name}()"));
    }
    Circles { paths, methods: circles(&all, |it| modules[it].path.clone()), folders }
}

/// The arrows between what stands beside each other in a folder.
fn folders(arrows: &Arrows<Module>) -> Arrows<Module> {
    let mut found = Arrows::new();
    for (here, other, name) in arrows.iter().flat_map(|(here, to)| to.iter().map(move |(it, name)| (here, it, name))) {
        let common = here.iter().zip(other).take_while(|(a, b)| a == b).count();
        if common < here.len().min(other.len()) {
            let inside: &mut BTreeMap<_, _> = found.entry(here[..=common].to_vec()).or_default();
            inside.entry(other[..=common].to_vec()).or_insert(name.clone());
        }
    }
    found
}

fn circles<N: Ord + Clone>(arrows: &Arrows<N>, name: impl Fn(&N) -> String) -> Vec<Circle> {
    let ways: BTreeMap<&N, BTreeMap<&N, &N>> = arrows.keys().map(|here| (here, ways(here, arrows))).collect();
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for (here, reached) in &ways {
        let is_back = |other: &&&N| ways.get(**other).is_some_and(|back| back.contains_key(*here));
        let members: Vec<&N> = reached.keys().filter(is_back).copied().collect();
        if members.is_empty() || !seen.insert(*here) {
            continue;
        }
        seen.extend(&members);
        let round = members.iter().map(|from| round(*from, &ways[*from])).min_by_key(Vec::len).unwrap_or_default();
        let steps = round.windows(2).map(|it| format!(" → {} ({})", name(it[1]), arrows[it[0]][it[1]]));
        let way = round.first().map(|it| name(it)).into_iter().chain(steps).collect();
        let members: BTreeSet<String> = members.into_iter().map(&name).collect();
        found.push(Circle { members: members.into_iter().collect(), way });
    }
    found
}

/// What is reached from a node, each with the node before it, on a shortest way.
fn ways<'a, N: Ord>(from: &'a N, arrows: &'a Arrows<N>) -> BTreeMap<&'a N, &'a N> {
    let (mut before, mut open) = (BTreeMap::new(), VecDeque::from([from]));
    while let Some(here) = open.pop_front() {
        for next in arrows.get(here).into_iter().flat_map(BTreeMap::keys) {
            before.entry(next).or_insert_with(|| {
                open.push_back(next);
                here
            });
        }
    }
    before
}

/// From a node to itself.
fn round<'a, N: Ord>(from: &'a N, before: &BTreeMap<&'a N, &'a N>) -> Vec<&'a N> {
    let mut nodes = vec![from, before[from]];
    while nodes[nodes.len() - 1] != from {
        nodes.push(before[nodes[nodes.len() - 1]]);
    }
    nodes.reverse();
    nodes
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
    // The second time of paths that begin with a module which an import of the file names.
    for (index, is_alias) in [false, true].into_iter().flat_map(|it| (0..source.tokens.len()).map(move |at| (at, it))) {
        let Some(word) = source.word(index).filter(|_| !source.is_test(index)) else { continue };
        let is_inner = index >= 2 && (source.is_separator(index - 2) || source.is_mark(index - 1, '.'));
        if is_inner || !source.is_separator(index + 1) {
            continue;
        }
        let parent = here.len().checked_sub(1).filter(|parent| *parent >= root(here).len());
        let child: Module = here.iter().cloned().chain([word.to_string()]).collect();
        let alias = file.imports.iter().find(|import| import.name == word).map(|import| &import.target);
        let base = match (word, parent) {
            _ if is_alias => match alias.filter(|target| **target != child && modules.contains_key(*target)) {
                Some(target) => target.clone(),
                None => continue,
            },
            ("crate", _) => root(here).to_vec(),
            ("self", _) => here.clone(),
            ("super", Some(parent)) => here[..parent].to_vec(),
            _ if modules.contains_key(&child) => child,
            _ => continue,
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
        if source.is_separator(index + 1) {
            index += 3;
            continue;
        }
        let renamed = source.word(index + 1) == Some("as");
        let name = if renamed { source.word(index + 2) } else { base.last().map(String::as_str) };
        leaves.push((base.clone(), name.unwrap_or("*").to_string()));
        return index + if renamed { 3 } else { 1 };
    }
}

fn arrows(here: &Module, file: &File, files: &BTreeMap<Module, File>) -> BTreeMap<Module, String> {
    let used = file.paths.iter().filter(|(_, is_door)| !is_door);
    let used = used.map(|(path, _)| (owner(path, files, 0), path.last().cloned().unwrap_or_default()));
    used.filter(|(other, _)| other != here && files.contains_key(other)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Circles {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::new(&format!("c/src/{path}"), text).expect("Rust")).collect();
        find("c/src", &sources.iter().collect::<Vec<_>>())
    }

    fn members(circles: Vec<Circle>) -> Vec<Vec<String>> {
        circles.into_iter().map(|it| it.members).collect()
    }

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        members(found(files).paths)
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
    fn a_path_may_begin_with_what_an_import_names() {
        let [head, d] = [("a/mod.rs", "pub mod d;"), ("a/d.rs", "use crate::b;\npub fn g() {}")];
        let files = |b| [LIB, head, d, ("b.rs", b), ("c.rs", "")];
        assert_eq!(circles(&files("use crate::a as x;\nfn f() { x::d::g() }")), one(&["a/d.rs", "b.rs"]));
        assert_eq!(circles(&files("use crate::a;\nfn f(x: X) { x.a::<d::G>() }")), [[""; 0]; 0]);
    }

    #[test]
    fn heads_methods_and_folders_are_counted() {
        let head = ("a/mod.rs", "mod d;\nuse d::D;\npub struct A;");
        let both = found(&[LIB, head, ("a/d.rs", "use super::A;\npub struct D;"), ("b.rs", ""), ("c.rs", "")]);
        assert_eq!((both.paths.len(), members(both.methods)), (0, one(&["a/d.rs", "a/mod.rs"])));
        let [a, b] =
            [("a.rs", "pub struct A;\nfn f(a: A) { a.g() }"), ("b.rs", "use crate::a::A;\nimpl A { fn g(&self) {} }")];
        let both = found(&[LIB, a, b, ("c.rs", "")]);
        assert_eq!((both.paths.len(), members(both.methods)), (0, one(&["a.rs", "b.rs"])));
        let files = [("a/x.rs", "use crate::b::y;"), ("a/z.rs", ""), ("b/y.rs", ""), ("b/w.rs", "use crate::a::z;")];
        let both =
            found(&[&[LIB, ("a/mod.rs", "mod x;\nmod z;"), ("b/mod.rs", "mod y;\nmod w;")][..], &files].concat());
        assert_eq!((both.methods.len(), members(both.folders)), (0, vec![vec!["a".to_string(), "b".into()]]));
    }

    #[test]
    fn programs_are_crates_of_their_own() {
        let main = ("bin/p/main.rs", "mod a;\nuse a::f;\nfn main() { f() }");
        assert_eq!(circles(&[LIB, main, ("bin/p/a.rs", "use crate::X;")]), one(&["bin/p/a.rs", "bin/p/main.rs"]));
        assert_eq!(circles(&[LIB, main, ("bin/p/a.rs", ""), ("a.rs", "use crate::b;"), ("b.rs", "")]), [[""; 0]; 0]);
    }
}
