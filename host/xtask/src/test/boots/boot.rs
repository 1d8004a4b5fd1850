//! One boot test, and what is expected of it.

use crate::{outcome::Status, test::table::Place};

/// One boot test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Boot {
    pub(crate) name: String,
    /// The words that follow `cargo xtask run`.
    pub(crate) options: String,
    pub(crate) ends: Status,
    /// Words of the warnings that must come, in order. There may be no others.
    pub(crate) warnings: Vec<String>,
    /// All else that is expected, as `expect.rs` reads it.
    pub(crate) expect: Vec<String>,
    /// Its place in README's table.
    pub(crate) place: Option<Place>,
}

impl Boot {
    pub(super) fn new(name: String, options: String, expectations: Vec<String>) -> Boot {
        let mut boot =
            Boot { name, options, ends: Status::Passed, warnings: Vec::new(), expect: Vec::new(), place: None };
        for text in expectations {
            match text.split_once(' ') {
                Some(("ends", "failed")) => boot.ends = Status::Failed,
                Some(("ends", "bad input")) => boot.ends = Status::BadInput,
                Some(("ends", status)) => boot.ends = Status::Program(status.parse().expect("a status")),
                Some(("warns", words)) => boot.warnings.push(words.to_owned()),
                Some(("place", place)) => {
                    boot.place = place.split_once(' ').map(|(size, row)| (row.to_owned(), column(size)))
                }
                _ => boot.expect.push(text),
            }
        }
        boot
    }
}

/// The page sizes: the columns of README's table.
pub(crate) const PAGE_SIZES: [&str; 3] = ["4k", "16k", "64k"];

fn column(size: &str) -> usize {
    PAGE_SIZES.iter().position(|one| *one == size).expect("a page size")
}
