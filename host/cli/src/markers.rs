//! The section markers of the text format: `---[ Linear Mapping start ]---`.

use std::fs;

use image::{Machine, Regime, Root, VmcoreInfo, number};
use vmsa::ptdump::Marker;

use crate::select::Failure;

/// The markers that `--markers` asks for; without it, Linux's where vmcoreinfo says that it is Linux.
pub(crate) fn of(choice: Option<&str>, machine: &Machine, root: &Root) -> Result<Vec<(u64, String)>, Failure> {
    match choice {
        None if machine.vmcoreinfo.is_some() => Ok(linux(root, machine.vmcoreinfo.as_ref())),
        None | Some("none") => Ok(Vec::new()),
        Some("linux") => Ok(linux(root, machine.vmcoreinfo.as_ref())),
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

/// Where Linux (6.1 and later) says that its other areas are, by its own names for them.
const AREAS: [(&str, &str); 6] = [
    ("MODULES_VADDR", "Modules start"),
    ("MODULES_END", "Modules end"),
    ("VMALLOC_START", "vmalloc() area"),
    ("VMALLOC_END", "vmalloc() end"),
    ("VMEMMAP_START", "vmemmap start"),
    ("VMEMMAP_END", "vmemmap end"),
];

/// Linux's linear map is the lower half of the upper half.
fn linux(root: &Root, info: Option<&VmcoreInfo>) -> Vec<(u64, String)> {
    if !matches!(root.regime, Regime::El1Upper | Regime::El2Upper) {
        return Vec::new();
    }
    let start = root.shape.base();
    let end = u64::MAX << (root.shape.input_bits - 1);
    let linear = [(start, "Linear Mapping start".to_owned()), (end, "Linear Mapping end".to_owned())];
    let address = |key: &str| info?.number(key).filter(|address| (start..=root.shape.last()).contains(address));
    let areas = AREAS.iter().filter_map(|(key, name)| Some((address(key)?, (*name).to_owned())));
    let mut markers: Vec<_> = linear.into_iter().chain(areas).collect();
    markers.sort_by_key(|(address, _)| *address);
    markers
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
    use image::{Origin, shape_of_half};
    use vmsa::{AddressHalf, PhysAddr};

    use super::*;

    /// As Linux 6.12 writes them; an address that is not of this half is none.
    #[test]
    fn a_kernel_names_its_areas() {
        let shape = shape_of_half(0x15_b510_3510, AddressHalf::Upper, None).expect("48 bits");
        let root = Root::bare(Regime::El1Upper, PhysAddr::new(0), shape, Origin::Flags);
        let text = b"NUMBER(VA_BITS)=48\nNUMBER(MODULES_VADDR)=0xffff800000000000\nNUMBER(MODULES_END)=0xffff800080000000\n\
                     NUMBER(VMALLOC_START)=0xffff800080000000\nNUMBER(VMEMMAP_START)=0xfffffdffc0000000\nNUMBER(VMEMMAP_END)=0x1000\n";
        let names = |markers: Vec<(u64, String)>| markers.into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        let linear = ["Linear Mapping start", "Linear Mapping end"];
        let areas = ["Modules start", "Modules end", "vmalloc() area", "vmemmap start"];
        assert_eq!(names(linux(&root, Some(&VmcoreInfo::parse(text)))), [&linear[..], &areas].concat());
        assert_eq!(names(linux(&root, None)), linear);
        assert!(linux(&Root { regime: Regime::El1Lower, ..root }, Some(&VmcoreInfo::parse(text))).is_empty());
    }

    #[test]
    fn a_file_names_sections() {
        let text = "0xffff800000000000 Modules start # comment\n\n  0xffff000000000000   Linear Mapping start\n";
        let expected = [(0xffff_0000_0000_0000, "Linear Mapping start"), (0xffff_8000_0000_0000, "Modules start")];
        let parsed = parse(text).expect("markers");
        assert!(parsed.iter().map(|(address, name)| (*address, name.as_str())).eq(expected));
        assert!(parse("nonsense").is_err() && parse("x y").is_err());
    }
}
