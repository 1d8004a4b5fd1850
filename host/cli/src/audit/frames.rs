//! Functions of a kernel that free memory: a file with one line for each, `free FUNCTION ADDRESS ORDER`, where ADDRESS and ORDER
//! are registers, or ORDER is `-`. Behind `pages BASE BYTES FIRST`, ADDRESS is that of a description of the page.

use std::fs;
use std::path::Path;

use image::{count, number};

use super::symbols::Symbols;
use crate::select::Failure;

/// The functions, as the plugin is told of them.
pub(super) fn read(path: &Path, symbols: &Symbols) -> Result<Vec<String>, Failure> {
    let failed = |what: String| Failure(format!("--frames {}: {what}", path.display()));
    let text =
        fs::read_to_string(path).map_err(|error| Failure::file(format_args!("--frames {}", path.display()), &error))?;
    let found = parse(&text, symbols).map_err(failed)?;
    if found.is_empty() { Err(failed("no function in it that --symbols names".into())) } else { Ok(found) }
}

/// Functions that this kernel does not have are another version's.
fn parse(text: &str, symbols: &Symbols) -> Result<Vec<String>, String> {
    let (mut pages, mut found) = (String::new(), Vec::new());
    for (at, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            ["pages", base, bytes, first] if number(base).and(count(bytes)).and(number(first)).is_ok() => {
                let numbers = [number(base), count(bytes), number(first)];
                pages = numbers.into_iter().flatten().map(|it| format!(":{it:#x}")).collect();
            }
            ["free", function, address, order] if is_register(address) && (order == "-" || is_register(order)) => {
                let places = symbols.places(function);
                found.extend(places.map(|place| format!("{place:#x}:{address}:{order}{pages}")));
            }
            _ => {
                return Err(format!(
                    "line {at}: `{}`, expected `free FUNCTION xN xN`, or `pages BASE BYTES FIRST`",
                    line.trim()
                ));
            }
        }
    }
    Ok(found)
}

fn is_register(text: &str) -> bool {
    text.strip_prefix('x').and_then(|it| it.parse::<u8>().ok()).is_some_and(|it| it < 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_by_their_places() {
        let symbols = Symbols::of(&[(0x1000, "free_pages"), (0x2000, "free_page.part.0"), (0x3000, "other")]);
        let text =
            "# ours\n\nfree free_pages x1 x2 # both\npages 0x100 64 0x40000000\nfree free_page x0 -\nfree gone x0 -\n";
        let found = parse(text, &symbols);
        assert_eq!(found, Ok(vec!["0x1000:x1:x2".into(), "0x2000:x0:-:0x100:0x40:0x40000000".into()]));
        for wrong in ["free f x31 x1", "free f x1", "pages 1 2", "take f x0 x1"] {
            assert!(parse(wrong, &symbols).is_err_and(|what| what.starts_with("line 1:")), "{wrong}");
        }
    }
}
