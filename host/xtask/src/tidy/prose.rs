//! The English of pages and comments, counted by the rules that a count can hold.

use std::{collections::BTreeMap, path::Path};

use super::figures::{Figures, NAMES};

const RELATIVES: &str = "what who whoever whatever whom whose";
const NEVER: &str = "be it|be they|but for|nothing of|none of|of its own|all the same|in its turn|by what|for who|with whom|of whom|\
    comes of|come of|comes to|so many|so much|amid|beneath|for ever|is to be|are to be|was to be|were to be|as it was|in vain|what no|\
    who no";
/// Pages and comments in tests, records and data are not measured.
const OUTSIDE: [&str; 9] =
    ["/test/", "/tests/", "/test.rs", "/tests.rs", "recorded", "/LICENSE", "/data/", "api.txt", ".tsv"];

/// The words of a file, and its figures, which are the last of [`NAMES`].
pub(crate) fn measure(path: &str, text: &str) -> (usize, [usize; 5]) {
    let (is_rust, full) = (path.ends_with(".rs"), format!("/{path}"));
    if OUTSIDE.iter().any(|it| full.contains(it)) || !(is_rust || path.ends_with(".md") || path.ends_with(".txt")) {
        return (0, [0; 5]);
    }
    let is_wide = |line: &&str| {
        let start = line.trim_start();
        let is_page =
            if is_rust { start.starts_with("///") || start.starts_with("//!") } else { !start.starts_with('|') };
        is_page && !path.ends_with(".txt") && line.chars().count() > 100
    };
    let wide = text.lines().filter(is_wide).count();
    let paragraphs = paragraphs(text, is_rust);
    let all: Vec<String> = paragraphs.iter().flat_map(|it| words(it)).map(str::to_lowercase).collect();
    let what = all.iter().filter(|word| RELATIVES.split(' ').any(|it| it == *word)).count();
    let has =
        |phrase: &str| all.windows(phrase.split(' ').count()).filter(|it| phrase.split(' ').eq(it.iter())).count();
    let never = NEVER.split('|').map(has).sum();
    let long = paragraphs.iter().flat_map(|it| sentences(it)).filter(|words| *words > 25).count();
    let same = paragraphs.iter().filter(|it| is_rust && it.starts_with("The same")).count();
    (all.len(), [what, long, never, wide, same])
}

/// Adds the figures of all texts to those of their rooms: crates, with their folders, and pages.
pub(super) fn add(texts: &[(String, String)], crates: &[(&str, String)], figures: &mut Figures) {
    let mut rooms: BTreeMap<&str, (usize, [usize; 5])> = BTreeMap::new();
    for (path, text) in texts {
        let inside = crates.iter().filter(|(_, folder)| Path::new(path).starts_with(folder));
        let room = inside.max_by_key(|(_, folder)| folder.len()).map(|(name, _)| *name);
        let room = rooms.entry(room.unwrap_or(path.split('/').next().unwrap_or(path))).or_default();
        let (words, found) = measure(path, text);
        room.0 += words;
        room.1.iter_mut().zip(found).for_each(|(sum, it)| *sum += it);
    }
    for (room, (words, mut found)) in rooms.into_iter().filter(|(_, (words, _))| *words > 0) {
        // The rule allows four in a thousand words.
        found[0] *= usize::from(found[0] * 1000 > words * 4);
        NAMES[3..].iter().zip(found).for_each(|(figure, it)| figures.add(room, figure, it));
    }
}

/// Paragraphs and items of lists, without code, tables and headings.
fn paragraphs(text: &str, is_rust: bool) -> Vec<String> {
    let (mut paragraphs, mut is_code) = (vec![String::new()], false);
    for line in text.lines() {
        let comment = line.trim_start().strip_prefix("//").map(|it| it.trim_start_matches(['/', '!']));
        let line = if is_rust { comment.unwrap_or_default() } else { line }.trim();
        is_code = (is_code && !(is_rust && comment.is_none())) ^ line.starts_with("```");
        let is_left_out = is_code || line.starts_with("```") || ["|", "#", "!["].iter().any(|it| line.starts_with(it));
        let is_item = line.starts_with("- ") || line.split_once(". ").is_some_and(|(it, _)| it.parse::<u8>().is_ok());
        if line.is_empty() || is_item || is_left_out {
            paragraphs.push(String::new());
        }
        if let Some(paragraph) = paragraphs.last_mut().filter(|_| !is_left_out) {
            let code = line.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "CODE" });
            let plain: String = code.collect();
            let mut links = plain.split("](");
            *paragraph += links.next().unwrap_or_default();
            links.for_each(|it| *paragraph += it.split_once(')').map_or(it, |(_, rest)| rest));
            paragraph.push(' ');
        }
    }
    paragraphs
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    const INSIDE: [char; 3] = ['\'', '’', '-'];
    let parts = text.split(|it: char| !it.is_ascii_alphabetic() && !INSIDE.contains(&it));
    parts.map(|it| it.trim_start_matches(INSIDE)).filter(|it| !it.is_empty())
}

/// The words of each sentence.
fn sentences(paragraph: &str) -> Vec<usize> {
    let (mut lengths, mut has_ended) = (vec![0], true);
    for part in paragraph.replace('*', "").split_whitespace() {
        if has_ended && part.starts_with(|it: char| it.is_ascii_uppercase() || it == '(') {
            lengths.push(0);
        }
        has_ended = part.ends_with(['.', '!', '?', ':']);
        *lengths.last_mut().expect("one at least") += words(part).count();
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_a_page_that_breaks_it() {
        let long = format!("{}word.", "word ".repeat(25));
        for (text, expected) in [
            ("Who reads what, whose page? `what` [who](what)", [4, 0, 0, 0, 0]),
            (&long, [0, 1, 0, 1, 0]),
            (&long.replace(". ", ".\n"), [0, 1, 0, 1, 0]),
            ("One. Two:\n- nothing of it, but\nfor one", [0, 0, 2, 0, 0]),
            ("```\nwhat\n```\n| what |\n# What\nThe same.", [0; 5]),
        ] {
            assert_eq!(measure("a.md", text).1, expected, "{text}");
        }
        let rust = "/// The same, but what?\nfn what() {}\n// a\n// The same\n";
        assert_eq!(measure("a.rs", rust), (7, [1, 0, 0, 0, 1]));
        assert_eq!(measure("a/tests/b.rs", rust), (0, [0; 5]));
    }
}
