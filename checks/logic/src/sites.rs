//! The sites of a source file: where something can be another thing, what that is, and how the text becomes both.
//!
//! Nothing is written anew: texts are inserted around operands and in place of operators, so that sites nest.

use std::ops::Range;

use syn::spanned::Spanned;

/// A text that goes into a file at `at`, in place of `removed` bytes. `§` stands for the site's number.
pub(crate) struct Edit {
    pub(crate) at: usize,
    pub(crate) removed: usize,
    /// Of edits at one place, the one that was found first comes first.
    pub(crate) order: usize,
    pub(crate) text: String,
}

/// A place in the sources, and what else can stand there.
pub(crate) struct Site {
    /// From the workspace's root.
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) function: String,
    pub(crate) kind: &'static str,
    pub(crate) before: String,
    /// What each variant makes of it.
    pub(crate) after: Vec<String>,
    pub(crate) edits: Vec<Edit>,
    pub(crate) is_const: bool,
}

impl Site {
    /// Whether a jump may be left out here.
    pub(crate) fn is_jump(&self) -> bool {
        self.kind == "statement" && ["return", "break", "continue"].iter().any(|it| self.before.starts_with(it))
    }
}

/// Where sites stand in a text that was made.
pub(crate) type Ranges = Vec<(usize, Range<usize>)>;

/// The text with the edits of these sites, each with its number; and where each site stands in it.
pub(crate) fn apply(text: &str, sites: &[(usize, &Site)]) -> (String, Ranges) {
    let mut edits: Vec<(usize, &Edit)> =
        sites.iter().flat_map(|(number, site)| site.edits.iter().map(|edit| (*number, edit))).collect();
    edits.sort_by_key(|(_, edit)| (edit.at, edit.order));
    let (mut made, mut done, mut ranges) = (String::new(), 0, Ranges::new());
    for (number, edit) in edits {
        made += &text[done..edit.at];
        let start = made.len();
        made += &edit.text.replace('§', &number.to_string());
        done = edit.at + edit.removed;
        match ranges.iter_mut().find(|(known, _)| *known == number) {
            Some((_, range)) => range.end = made.len(),
            None => ranges.push((number, start..made.len())),
        }
    }
    made += &text[done..];
    (made, ranges)
}

/// The bytes of what was parsed.
pub(crate) fn range(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}
