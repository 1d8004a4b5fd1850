//! The section markers of the text format: `---[ Linear Mapping start ]---`.

use std::fs;

use image::{Machine, Regime, Root, number};
use vmsa::ptdump::Marker;

use crate::select::Failure;

/// The markers that `--markers` asks for; without it, Linux's where vmcoreinfo says that it is Linux.
pub(crate) fn of(choice: Option<&str>, machine: &Machine, root: &Root) -> Result<Vec<(u64, String)>, Failure> {
    match choice {
        None if machine.vmcoreinfo.is_some() => Ok(linux(root)),
        None | Some("none") => Ok(Vec::new()),
        Some("linux") => Ok(linux(root)),
        Some(path) => {
            let text =
                fs::read_to_string(path).map_err(|error| Failure::file(format_args!("--markers {path}"), &error))?;
            parse(&text).map_err(|line| Failure(format!("--markers {path}: {line}")))
        }
    }
}

/// Markers as the formatter wants them.
pub(crate) fn borrow(markers: &[(u64, String)]) -> Vec<Marker<'_>> {
    markers.iter().map(|(address, name)| Marker { address: *address, name }).collect()
}

/// Linux's linear map is the lower half of the upper half.
fn linux(root: &Root) -> Vec<(u64, String)> {
    if !matches!(root.regime, Regime::El1Upper | Regime::El2Upper) {
        return Vec::new();
    }
    let start = root.shape.base();
    let end = u64::MAX << (root.shape.input_bits - 1);
    vec![(start, "Linear Mapping start".to_owned()), (end, "Linear Mapping end".to_owned())]
}

/// Lines of `ADDRESS NAME`, in any order; `#` begins a comment.
fn parse(text: &str) -> Result<Vec<(u64, String)>, String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim()).filter(|line| !line.is_empty());
    let mut markers = Vec::new();
    for line in lines {
        let (address, name) = line.split_once(char::is_whitespace).ok_or(format!("`{line}` is no `ADDRESS NAME`"))?;
        markers.push((number(address).map_err(|error| error.to_string())?, name.trim().to_owned()));
    }
    markers.sort();
    Ok(markers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_sections() {
        let text = "0xffff800000000000 Modules start # comment\n\n  0xffff000000000000   Linear Mapping start\n";
        let expected = [(0xffff_0000_0000_0000, "Linear Mapping start"), (0xffff_8000_0000_0000, "Modules start")];
        let parsed = parse(text).expect("markers");
        assert!(parsed.iter().map(|(address, name)| (*address, name.as_str())).eq(expected));
        assert!(parse("nonsense").is_err() && parse("x y").is_err());
    }
}
