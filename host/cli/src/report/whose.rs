//! Of two machines, which one a section of the page tells of, and where its links lead.

use maud::{Markup, html};

use super::Snapshot;
use super::changes::{self, Pair};
use crate::space::Space;

/// Of which machine a section tells, and how its words lead into the picture.
pub(super) struct Whose {
    /// `: name` where there are two machines.
    pub(super) name: String,
    /// What the names of its sections end with; those of the only machine, or the later, with nothing.
    end: &'static str,
    /// For each of its page tables the number that the picture has for it.
    numbers: Vec<usize>,
}

impl Whose {
    pub(super) fn new(place: usize, both: &[&Snapshot]) -> Self {
        let [before, after] = both else {
            return Self { name: String::new(), end: "", numbers: (0..both[0].spaces.len()).collect() };
        };
        let pairs = changes::pairs(&before.spaces, &after.spaces);
        let is_of = |pair: &Pair<'_>, space: &Space| {
            let of = if place == 0 { pair.before } else { pair.after };
            of.is_some_and(|of| std::ptr::eq(of, space))
        };
        let number = |space: &Space| pairs.iter().position(|pair| is_of(pair, space)).unwrap_or(0);
        let numbers = both[place].spaces.iter().map(number).collect();
        Self { name: format!(": {}", both[place].name), end: if place == 0 { "-before" } else { "" }, numbers }
    }

    pub(super) fn id(&self, name: &str) -> String {
        format!("{name}{}", self.end)
    }

    /// A place of one of its page tables, and a link to it in the picture.
    pub(super) fn link(&self, table: usize, start: u64, bytes: u64) -> Markup {
        link(self.numbers.get(table).copied().unwrap_or(table), start, bytes)
    }
}

/// A place, and a link to it in the picture.
pub(super) fn link(table: usize, start: u64, bytes: u64) -> Markup {
    let range = format!("{start:#018x}-{:#018x}", start.wrapping_add(bytes));
    html! { a href=(format!("#{table}:{range}")) { code { (range) } } }
}
