//! Which file calls a method that another file gives a type: an `impl` outside the file that has the type.
//!
//! A receiver is known if it is `self`, or has a name that is written with a type (a parameter, a
//! field, a `let`), or is the result of a function of the crate. Of others the method's name decides, if
//! nothing else has it.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    rules::body_end,
    source::{Kind, Source},
};

/// Names of methods that types of the standard library have too: a receiver of unknown type is one of those.
const COMMON: [&str; 4] = ["end", "find", "fold", "replace"];

/// The words of the types that a name has.
type Types<'s> = BTreeMap<&'s str, BTreeSet<&'s str>>;

/// An `impl` of a file: its type, and where its body is.
struct Block<'s> {
    of: &'s str,
    start: usize,
    end: usize,
    is_of_trait: bool,
}

/// What a crate's files say of functions and types.
struct Crate<'s, M> {
    blocks: BTreeMap<&'s M, Vec<Block<'s>>>,
    /// Where each type is.
    defined: BTreeSet<(&'s str, &'s M)>,
    named: Types<'s>,
    returned: Types<'s>,
    /// How often each function is written.
    written: BTreeMap<&'s str, usize>,
}

/// The file that calls, the one that has the method, and the method.
pub(super) fn arrows<M: Ord + Clone>(modules: &BTreeMap<M, &Source>) -> Vec<(M, M, String)> {
    let house = read(modules);
    // Each method of an `impl` outside its type's file.
    let mut methods: BTreeMap<&str, Vec<(&str, &M)>> = BTreeMap::new();
    for (here, source) in modules {
        let is_other = |it: &&Block<'_>| {
            !it.is_of_trait
                && !house.defined.contains(&(it.of, here))
                && house.defined.iter().any(|(name, _)| *name == it.of)
        };
        for block in house.blocks[here].iter().filter(is_other) {
            functions(source, block)
                .into_iter()
                .for_each(|name| methods.entry(name).or_default().push((block.of, here)));
        }
    }
    let mut found = Vec::new();
    for (here, source) in modules {
        let local = types(source);
        for (index, name) in words(source) {
            let is_call = source.opens(index + 1, '(') || source.is_separator(index + 1);
            let Some(of) = methods.get(name).filter(|_| is_call && index >= 3) else { continue };
            let types = match source.is_mark(index - 1, '.') {
                true => receiver(&house, source, here, &local, index - 2),
                false if source.is_separator(index - 2) => Some(named(&house, here, source, index - 3)),
                false => continue,
            };
            let is_guessed = house.written[name] == 1 && !COMMON.contains(&name);
            let is_it = |ty: &&str| types.as_ref().map_or(is_guessed, |types| types.contains(ty));
            let called = of.iter().filter(|(ty, file)| *file != here && is_it(ty));
            found.extend(called.map(|(_, file)| (here.clone(), (*file).clone(), name.to_string())));
        }
    }
    found
}

fn read<'s, M: Ord>(modules: &'s BTreeMap<M, &Source>) -> Crate<'s, M> {
    let mut house = Crate {
        blocks: modules.iter().map(|(here, it)| (here, blocks(it))).collect(),
        defined: BTreeSet::new(),
        named: Types::new(),
        returned: Types::new(),
        written: BTreeMap::new(),
    };
    for (here, source) in modules {
        types(source).into_iter().for_each(|(name, types)| house.named.entry(name).or_default().extend(types));
        for (index, word) in words(source) {
            let Some(name) = source.word(index + 1) else { continue };
            if ["struct", "enum", "union"].contains(&word) {
                house.defined.insert((name, here));
            } else if word == "fn" {
                *house.written.entry(name).or_default() += 1;
                house.returned.entry(name).or_default().extend(result(source, index));
            }
        }
    }
    house
}

/// The type that a path names: `Self` is that of the `impl` around it.
fn named<'s, M: Ord>(house: &Crate<'s, M>, here: &M, source: &'s Source, index: usize) -> BTreeSet<&'s str> {
    let around = || house.blocks[here].iter().find(|it| (it.start..it.end).contains(&index)).map(|it| it.of);
    source
        .word(index)
        .and_then(|it| if ["Self", "self"].contains(&it) { around() } else { Some(it) })
        .into_iter()
        .collect()
}

/// The types of the receiver that ends at a token; `None` if they are not known.
fn receiver<'s, M: Ord>(
    house: &Crate<'s, M>,
    source: &'s Source,
    here: &M,
    local: &Types<'s>,
    index: usize,
) -> Option<BTreeSet<&'s str>> {
    let types = match source.word(index) {
        Some("self") => return Some(named(house, here, source, index)),
        Some(name) if source.is_mark(index - 1, '.') => house.named.get(name),
        Some(name) => local.get(name),
        None => {
            let is_open = |it: &usize| matches!(source.tokens[*it].kind, Kind::Open('(', end) if end == index);
            let function = source.word((0..index).rev().find(is_open)?.checked_sub(1)?)?;
            house.returned.get(function)
        }
    };
    types.filter(|it| !it.is_empty()).cloned()
}

fn types(source: &Source) -> Types<'_> {
    let mut types = Types::new();
    words(source).for_each(|(index, word)| types.entry(word).or_default().extend(typed(source, index)));
    types
}

fn words(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    (0..source.tokens.len()).filter(|it| !source.is_test(*it)).filter_map(|it| Some((it, source.word(it)?)))
}

fn blocks(source: &Source) -> Vec<Block<'_>> {
    words(source).filter(|(_, word)| *word == "impl").filter_map(|(index, _)| block(source, index)).collect()
}

/// The item that begins with `impl` at `index`; none if that is in a type.
fn block(source: &Source, index: usize) -> Option<Block<'_>> {
    let before = index.checked_sub(1).map(|it| &source.tokens[it].kind);
    if !matches!(before, None | Some(Kind::Close(_) | Kind::Mark(';') | Kind::Open('{', _)))
        && source.word(index - 1) != Some("unsafe")
    {
        return None;
    }
    let (mut of, mut is_of_trait, mut is_over, mut depth, mut at) = ("", false, false, 0, index + 1);
    loop {
        match &source.tokens.get(at)?.kind {
            Kind::Open('{', end) if depth == 0 => return Some(Block { of, start: at, end: *end, is_of_trait }),
            Kind::Open(_, end) => at = *end,
            Kind::Mark('<') => depth += 1,
            Kind::Mark('>') if !source.is_mark(at - 1, '-') => depth -= 1,
            Kind::Word(word) if depth == 0 && word == "for" => is_of_trait = true,
            Kind::Word(word) if depth == 0 && word == "where" => is_over = true,
            Kind::Word(word) if depth == 0 && !is_over => of = word,
            _ => {}
        }
        at += 1;
    }
}

/// The functions of a block, those in their bodies left out.
fn functions<'s>(source: &'s Source, block: &Block<'_>) -> Vec<&'s str> {
    let (mut names, mut at) = (Vec::new(), block.start + 1);
    while at < block.end {
        if source.word(at) == Some("fn") {
            names.extend(source.word(at + 1));
            at = body_end(source, at).unwrap_or(at);
        }
        at += 1;
    }
    names
}

/// The words of the type behind `name:`.
fn typed(source: &Source, index: usize) -> Vec<&str> {
    let is_typed = source.is_mark(index + 1, ':')
        && !source.is_separator(index + 1)
        && !index.checked_sub(1).is_some_and(|it| source.is_mark(it, ':'));
    if is_typed { type_words(source, index + 2) } else { Vec::new() }
}

/// The words of what the function at `index` returns.
fn result(source: &Source, index: usize) -> Vec<&str> {
    let mut at = index + 1;
    loop {
        match source.tokens.get(at).map(|it| &it.kind) {
            Some(Kind::Open('(', end)) => at = *end,
            Some(Kind::Mark('-')) if source.is_mark(at + 1, '>') => return type_words(source, at + 2),
            Some(Kind::Open('{', _) | Kind::Mark(';')) | None => return Vec::new(),
            _ => {}
        }
        at += 1;
    }
}

fn type_words(source: &Source, mut at: usize) -> Vec<&str> {
    let (mut words, mut depth) = (Vec::new(), 0);
    while let Some(token) = source.tokens.get(at) {
        match &token.kind {
            Kind::Mark('<') => depth += 1,
            Kind::Mark('>') if !source.is_mark(at - 1, '-') => depth -= 1,
            Kind::Mark(',' | ';' | '=') | Kind::Open('{', _) | Kind::Close(_) if depth <= 0 => break,
            Kind::Word(word) => words.push(word.as_str()),
            _ => {}
        }
        at += 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(caller: &str) -> Vec<(&str, &str, String)> {
        let texts = [
            ("a", "pub struct A; pub struct B { a: A, n: u8 }\nfn make() -> A { A }".to_string()),
            (
                "b",
                "use a::A;\nimpl A { pub fn act(&self) { fn inner() {} } fn new() -> Self { A } fn find() {} }"
                    .to_string(),
            ),
            ("c", caller.to_string()),
        ];
        let sources: Vec<(&str, Source)> =
            texts.iter().map(|(name, text)| (*name, Source::new("x.rs", text).expect("Rust"))).collect();
        arrows(&sources.iter().map(|(name, source)| (*name, source)).collect())
    }

    #[test]
    fn calls_of_methods_that_another_file_has_are_found() {
        for call in ["f(x: &mut A) { x.act() }", "f(b: B) { b.a.act() }", "f() { make().act() }", "f() { A::act(&A) }"]
        {
            assert_eq!(found(&format!("fn {call}")), [("c", "b", "act".to_string())], "{call}");
        }
        assert_eq!(found("impl A { fn f(&self) { self.act(); } }"), [("c", "b", "act".to_string())]);
        // A receiver of unknown type, and a name that nothing else has.
        assert_eq!(found("fn f() { g(|x| x.act()) }"), [("c", "b", "act".to_string())]);
    }

    #[test]
    fn names_that_only_look_alike_are_not() {
        for call in ["f(x: Other) { x.act() }", "f(b: B) { b.n.act() }", "f() { x.find() }", "act() { x.act() }"] {
            assert_eq!(found(&format!("fn {call}")), [], "{call}");
        }
        assert_eq!(found("impl Act for A { fn f(&self) { self.inner() } }"), []);
        assert_eq!(found("#[cfg(test)] mod tests { fn f(x: A) { x.act() } }"), []);
    }
}
