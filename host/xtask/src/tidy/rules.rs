//! The rules for one source file. Each is a function from the file to its findings, and has a bad sample below. What clippy finds
//! as well (the root `Cargo.toml` and `clippy.toml` say what) is not looked for again.

use super::finding::Finding;
use super::{
    house,
    source::{Kind, Source},
};

/// A rule: what it finds in a file, as line and words.
type Rule = fn(&Source) -> Vec<(usize, String)>;

const RULES: [Rule; 10] = [
    file_length,
    function_length,
    assembly,
    unsafe_code,
    unfinished_work,
    ignored_tests,
    engine_heads,
    engine_statics,
    descriptor_stores,
    ways_down,
];

/// All findings in one file.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let found = RULES.iter().flat_map(|rule| rule(source));
    found.map(|(line, text)| Finding { path: source.path.clone(), line, text }).collect()
}

fn file_length(source: &Source) -> Vec<(usize, String)> {
    let length = source.lines.len();
    let head = source.lines.first().map_or("", |line| line.as_str());
    let is_data = ["// data", "// generated"].iter().any(|start| head.starts_with(start));
    if is_data || length <= house::FILE_LINES {
        return Vec::new();
    }
    let limit = house::FILE_LINES;
    vec![(length, format!("file of {length} lines, expected at most {limit} (or a first line `// data: …`)"))]
}

fn function_length(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for index in 0..source.tokens.len() {
        // `fn(` is a type.
        if source.word(index) != Some("fn") || source.opens(index + 1, '(') {
            continue;
        }
        let Some(body_end) = body_end(source, index) else { continue };
        let first = source.tokens[index].line;
        let length = source.tokens[body_end].line - first + 1;
        if length > house::FUNCTION_LINES {
            let name = source.word(index + 1).unwrap_or("?");
            let limit = house::FUNCTION_LINES;
            found.push((first, format!("function `{name}` of {length} lines, expected at most {limit}")));
        }
    }
    found
}

/// Index of the brace that closes the body of the function at `index`; none if it is only declared.
pub(super) fn body_end(source: &Source, index: usize) -> Option<usize> {
    let mut at = index + 1;
    loop {
        match source.tokens.get(at)?.kind {
            Kind::Open('{', close) => return Some(close),
            Kind::Open(_, close) => at = close + 1,
            Kind::Mark(';') | Kind::Close(_) => return None,
            _ => at += 1,
        }
    }
}

fn assembly(source: &Source) -> Vec<(usize, String)> {
    if is_in(source, house::ASSEMBLY) {
        return Vec::new();
    }
    let is_assembly = |index: usize| {
        matches!(source.word(index), Some("asm" | "global_asm" | "naked_asm")) && source.is_mark(index + 1, '!')
    };
    findings(source, is_assembly, "assembly, expected in bare/hardware")
}

fn unsafe_code(source: &Source) -> Vec<(usize, String)> {
    if is_in(source, house::UNSAFE) {
        return Vec::new();
    }
    let is_unsafe = |index: usize| source.word(index) == Some("unsafe");
    findings(source, is_unsafe, "unsafe code, expected only in bare/ and the list in tidy/house.rs")
}

fn unfinished_work(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for word in ["TODO", "FIXME", "XXX"] {
        let lines = source.lines_with(word).into_iter();
        found.extend(lines.map(|line| (line, format!("`{word}`, expected finished work or an issue"))));
    }
    found
}

fn ignored_tests(source: &Source) -> Vec<(usize, String)> {
    findings(source, |index| source.reads(index, &["#", "[", "ignore"]), "ignored test, expected a test that runs")
}

fn engine_heads(source: &Source) -> Vec<(usize, String)> {
    if !source.path.starts_with(house::ENGINE) || !source.path.ends_with("/src/lib.rs") {
        return Vec::new();
    }
    let has = |expected: &[&str]| (0..source.tokens.len()).any(|index| source.reads(index, expected));
    let mut found = Vec::new();
    if !has(&["#", "!", "[", "forbid", "(", "unsafe_code"]) {
        found.push((1, "engine crate, expected `#![forbid(unsafe_code)]`".to_string()));
    }
    if !has(&["#", "!", "[", "no_std", "]"]) {
        found.push((1, "engine crate, expected `#![no_std]`".to_string()));
    }
    found
}

fn engine_statics(source: &Source) -> Vec<(usize, String)> {
    if !is_engine_code(source, house::ENGINE) {
        return Vec::new();
    }
    // `'static` is a lifetime.
    let is_static = |index: usize| {
        source.word(index) == Some("static")
            && (index == 0 || !source.is_mark(index - 1, '\''))
            && !source.is_test(index)
    };
    findings(source, is_static, "static in the engine, expected a value that its user owns")
}

fn descriptor_stores(source: &Source) -> Vec<(usize, String)> {
    let (folder, files) = house::DESCRIPTOR_STORES;
    if !is_engine_code(source, folder) || files.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let stores = store_calls(source).into_iter().filter(|&index| !source.is_test(index));
    stores
        .map(|index| {
            (source.tokens[index].line, format!("store of a descriptor, expected only in {}", files.join(" and ")))
        })
        .collect()
}

fn ways_down(source: &Source) -> Vec<(usize, String)> {
    let (folder, file) = (house::DESCRIPTOR_STORES.0, house::WAYS_DOWN);
    if !is_engine_code(source, folder) || source.path == file {
        return Vec::new();
    }
    let is_way = |index: usize| {
        source.reads(index, &["Meaning", ":", ":", "Table", "("]) && source.word(index + 5).is_some_and(|it| it != "_")
    };
    findings(source, is_way, &format!("a descriptor read as the way to a table, expected only in {file}"))
}

/// Where `Platform::store`, `store_pair` and `exchange` are called. A platform that hands the call on to another one, in
/// a function of that name, is still the platform.
pub(crate) fn store_calls(source: &Source) -> Vec<usize> {
    let is_name = |index: usize| matches!(source.word(index), Some("store" | "store_pair" | "exchange"));
    let mut calls = Vec::new();
    let mut index = 0;
    while index < source.tokens.len() {
        if source.word(index) == Some("fn") && is_name(index + 1) {
            index = body_end(source, index).unwrap_or(index + 1);
        } else if is_name(index) && source.opens(index + 1, '(') {
            calls.push(index);
        }
        index += 1;
    }
    calls
}

/// Whether the file belongs to the code, as opposed to the tests, of a folder.
fn is_engine_code(source: &Source, folder: &str) -> bool {
    source.path.starts_with(folder) && source.path.contains("/src/") && !source.path.ends_with("tests.rs")
}

fn is_in(source: &Source, places: &[&str]) -> bool {
    places.iter().any(|place| source.path.starts_with(place))
}

/// The lines of the tokens that `is_bad`.
fn findings(source: &Source, is_bad: impl Fn(usize) -> bool, text: &str) -> Vec<(usize, String)> {
    let bad = (0..source.tokens.len()).filter(|&index| is_bad(index));
    bad.map(|index| (source.tokens[index].line, text.to_string())).collect()
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
