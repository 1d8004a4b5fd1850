//! Memory to plan for: a size, banks, a device tree, or what a kernel's linear map holds now.

use std::fs;
use std::ops::Range;

use image::{Root, Source, number};
use kerncore::devicetree::{self, MachineDescription, Problem};
use kerncore::finding::{Finding, Findings, Severity};
use kerncore::memory_map::{MemoryMap, Occupants};
use kerncore::range::PhysicalRange;
use linearmap::Region;
use vmsa::{PageSize, PhysAddr, Rights, Stage1Attributes};

use crate::args::{AccessArguments, MachineArguments};
use crate::dump::Totals;
use crate::runs::Run;
use crate::say;
use crate::select::{self, Failure, Selection};
use crate::space::Space;

/// Physical memory.
pub(crate) struct Memory {
    /// What it is, in words.
    pub(super) name: String,
    /// In ascending order, none touching another.
    pub(super) ranges: Vec<Range<u64>>,
    /// What cannot be written of it.
    pub(super) read_only: Vec<Range<u64>>,
    /// How the kernel maps it that was read.
    pub(crate) now: Option<Now>,
    /// Bits of virtual address of that kernel.
    pub(super) bits: Option<u32>,
}

/// How a kernel maps its memory.
pub(crate) struct Now {
    pub(crate) root: Root,
    pub(crate) totals: Totals,
}

/// Where memory of which only the size is known begins, as on QEMU's virt.
const BASE: u64 = 1 << 30;

const NORMAL: Stage1Attributes = Stage1Attributes::INNER_SHAREABLE.union(Stage1Attributes::NO_EXECUTE);

/// Whether a region cannot be written.
pub(super) fn is_read_only(region: &Region) -> bool {
    region.attributes.contains(Stage1Attributes::READ_ONLY)
}

impl Memory {
    fn new(name: String, mut ranges: Vec<Range<u64>>, mut read_only: Vec<Range<u64>>) -> Result<Self, Failure> {
        ranges.sort_by_key(|range| range.start);
        read_only.sort_by_key(|range| range.start);
        if let Some(pair) = ranges.windows(2).find(|pair| pair[1].start < pair[0].end) {
            return Err(Failure(format!(
                "{name}: {:#x} is in two banks: let each begin where the last ends",
                pair[1].start
            )));
        }
        ranges.dedup_by(|next, range| {
            let touches = range.end == next.start;
            range.end = if touches { next.end } else { range.end };
            touches
        });
        Ok(Self { name, ranges, read_only, now: None, bits: None })
    }

    /// The whole pages of it, cut where writable memory meets other.
    pub(super) fn regions(&self, page_bytes: u64) -> Vec<Region> {
        let whole = |range: &Range<u64>| range.start.next_multiple_of(page_bytes)..range.end / page_bytes * page_bytes;
        let mut regions = Vec::new();
        let mut add = |start: u64, end: u64, attributes| {
            if start < end {
                regions.push(Region { physical: PhysAddr::new(start)..PhysAddr::new(end), attributes });
            }
        };
        // Both lists ascend: each is gone through once.
        let mut parts = self.read_only.iter().map(whole).filter(|part| !part.is_empty()).peekable();
        for range in self.ranges.iter().map(whole).filter(|range| !range.is_empty()) {
            let mut at = range.start;
            while let Some(part) = parts.next_if(|part| part.end <= range.end) {
                add(at, part.start, NORMAL);
                add(part.start.max(at), part.end, NORMAL.union(Stage1Attributes::READ_ONLY));
                at = part.end.max(at);
            }
            add(at, range.end, NORMAL);
        }
        regions
    }
}

/// What the user says; of a kernel, how it is read.
pub(super) fn read(text: &str, access: &AccessArguments) -> Result<Memory, Failure> {
    if let Some(memory) = told(text) {
        let is_of_kernel = *access != AccessArguments::default();
        let line = "--ram, --ttbr1 and their like say how a kernel is read: name one with --memory, as of vellum dump";
        return if is_of_kernel { Err(Failure(line.to_owned())) } else { memory };
    }
    let source = text.parse::<Source>().map_err(|error| {
        Failure(format!(
            "--memory {text}: no size (256G; K, M, G, T), no banks (0x40000000-0x80000000), no dtb:FILE, and {error}"
        ))
    })?;
    kernel(text, &MachineArguments { source, access: access.clone() })
}

/// Memory that no kernel tells of, if the text is of that kind.
fn told(text: &str) -> Option<Result<Memory, Failure>> {
    if let Some(path) = text.strip_prefix("dtb:") {
        return Some(device_tree(path));
    }
    if let Some(bytes) = size(text) {
        let range = BASE..BASE + bytes;
        return Some(Memory::new(format!("{text} from {BASE:#x}"), vec![range], Vec::new()));
    }
    text.split_once('-').is_some_and(|(start, _)| number(start).is_ok()).then(|| banks(text))
}

/// `256G`, `3.5G`, `512MiB`, `64KB`, or bytes: always by powers of two, and a fraction of a byte is none.
fn size(text: &str) -> Option<u64> {
    let plain = text.strip_suffix(['B', 'b']).map_or(text, |short| short.strip_suffix('i').unwrap_or(short));
    let text = if plain.ends_with(|last: char| last.is_ascii_alphabetic()) { plain } else { text };
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'K' | 'k') => (&text[..at], 10),
        (at, 'M' | 'm') => (&text[..at], 20),
        (at, 'G' | 'g') => (&text[..at], 30),
        (at, 'T' | 't') => (&text[..at], 40),
        _ => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_digits = |text: &str| (1..=12).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit());
    // Bytes have no fraction; twelve decimals of a tebibyte are less than two bytes.
    if !is_digits(fraction) || digits.contains('.') && shift == 0 || whole.starts_with('+') {
        return None;
    }
    let part = (fraction.parse::<u128>().ok()? << shift) / 10u128.pow(fraction.len() as u32);
    let bytes = whole.parse::<u64>().ok()?.checked_mul(1 << shift)?.checked_add(part as u64)?;
    (1..=1 << 51).contains(&bytes).then_some(bytes)
}

/// `START-END[:ro],…`
fn banks(text: &str) -> Result<Memory, Failure> {
    let (mut ranges, mut read_only) = (Vec::new(), Vec::new());
    for bank in text.split(',') {
        let wrong =
            || Failure(format!("`{bank}` is no bank: START-END or START-END:ro, such as 0x40000000-0x80000000"));
        let (range, is_read_only) = bank.strip_suffix(":ro").map_or((bank, false), |range| (range, true));
        let (start, end) = range.split_once('-').ok_or_else(wrong)?;
        let range = number(start).map_err(|_| wrong())?..number(end).map_err(|_| wrong())?;
        if range.is_empty() || range.end > 1 << 52 {
            return Err(wrong());
        }
        ranges.push(range.clone());
        read_only.extend(is_read_only.then_some(range));
    }
    Memory::new("banks".to_owned(), ranges, read_only)
}

/// What a kernel would map that is told of its machine by this device tree.
fn device_tree(path: &str) -> Result<Memory, Failure> {
    let blob = fs::read(path).map_err(|error| Failure::file(path, &error))?;
    let (mut findings, mut machine, mut map) = (Findings::new(), MachineDescription::new(), MemoryMap::new());
    devicetree::read(&blob, &mut machine, &mut findings);
    let nobody = Occupants { image: PhysicalRange::EMPTY, device_tree: PhysicalRange::EMPTY };
    map.make(&mut machine, &nobody, &mut findings);
    for finding in findings.iter().filter(|finding| finding.severity() == Severity::Warning && is_of_memory(finding)) {
        say::note(format!("{path}: {finding}"));
    }
    if let Some(fatal) = findings.fatal() {
        let what = match fatal {
            Finding::DeviceTree(Problem::NoMemory) => {
                "it tells of no memory, expected a node /memory with device_type \"memory\" and a reg".to_owned()
            }
            Finding::DeviceTree(_) => "no device tree, or a damaged one".to_owned(),
            fatal => fatal.to_string(),
        };
        return Err(Failure(format!("{path}: {what}: save it again with dtc -O dtb, or qemu -M virt,dumpdtb=FILE")));
    }
    let ranges = map.mapped(PageSize::Size4K).map(|range| range.start.bits()..range.end.bits()).collect();
    Memory::new(format!("the memory of {path}"), ranges, Vec::new())
}

/// Whether a plan is told of it, and not only a kernel that boots with this tree.
const fn is_of_memory(finding: &Finding<'_>) -> bool {
    use Problem::{BankBeyond, BanksOverlap, EmptyBank, TooManyBanks};
    let of_banks = matches!(
        finding,
        Finding::DeviceTree(EmptyBank { .. } | BankBeyond { .. } | BanksOverlap { .. } | TooManyBanks { .. })
    );
    of_banks || matches!(finding, Finding::Memory(_))
}

/// What the linear map of a kernel holds.
fn kernel(name: &str, machine: &MachineArguments) -> Result<Memory, Failure> {
    let Selection { mut machine, roots } = select::open(machine)?;
    let space = Space::read(&mut machine, &roots[0])?;
    drop(machine);
    of(name, &space)
}

/// The same of what was read.
pub(crate) fn of(name: &str, space: &Space) -> Result<Memory, Failure> {
    let root = &space.root;
    let runs: Vec<&Run> = space.linear().collect();
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
        return Err(Failure(format!("{name}: no memory is mapped there: try vellum dump {name}")));
    };
    let mut totals = Totals::default();
    runs.iter().for_each(|run| totals.run(run));
    let (start, end) = (first.input, last.input.wrapping_add(last.bytes(root)));
    for table in &space.tables {
        // The root among them, wherever it begins.
        let last = table.input.wrapping_add(root.shape.reach(table.level) - 1);
        if table.input <= end.wrapping_sub(1) && start <= last {
            totals.table(root, table);
        }
    }
    let range = |run: &&Run| run.output..run.output + run.bytes(root);
    let writes = |run: &&&Run| {
        root.permissions(run.descriptor, run.inherited).is_none_or(|of| of.privileged.contains(Rights::WRITE))
    };
    let read_only = runs.iter().filter(|run| !writes(run)).map(range).collect();
    let memory = Memory::new(format!("the linear map of {name}"), runs.iter().map(range).collect(), read_only)?;
    Ok(Memory { bits: Some(root.shape.input_bits), now: Some(Now { root: root.clone(), totals }), ..memory })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Memory, Failure> {
        super::read(text, &AccessArguments::default())
    }

    #[test]
    fn sizes_and_banks() {
        assert_eq!((size("256G"), size("4t"), size("65536")), (Some(256 << 30), Some(4 << 40), Some(65536)));
        assert_eq!(
            ["256GiB", "256GB", "256gb", "1Ki"].map(size),
            [Some(256 << 30), Some(256 << 30), Some(256 << 30), None]
        );
        assert_eq!(
            ["3.5G", "0.5T", "1.25GiB", "2.0M", "0.001K", "1.999999999999T"].map(size),
            [Some(7 << 29), Some(1 << 39), Some(5 << 28), Some(2 << 20), Some(1), Some((2 << 40) - 2)]
        );
        assert!(
            [
                "3.5",
                "3.G",
                ".5G",
                "3.5.5G",
                "3,5G",
                "-3.5G",
                "+3G",
                "3.+5G",
                "0.0G",
                "0.0001K",
                "2048.1T",
                "1.1234567890123G"
            ]
            .iter()
            .all(|text| size(text).is_none())
        );
        assert_eq!(size("2048T"), Some(1 << 51));
        assert!(
            [size("4P"), size("5B"), size("B"), size("iB"), size("0G"), size("9999999999T"), size("x"), size("")]
                .iter()
                .all(Option::is_none)
        );
        let memory =
            read("0x80000000-0xc0000000,0x40000000-0x48000000,0x48000000-0x48010000:ro").unwrap_or_else(|_| panic!());
        assert_eq!(memory.ranges, [0x4000_0000..0x4801_0000, 0x8000_0000..0xc000_0000]);
        let regions = memory.regions(0x1_0000);
        assert_eq!(regions.iter().map(is_read_only).collect::<Vec<_>>(), [false, true, false]);
        assert!(read("0x1000-0x3000,0x2000-0x4000").is_err() && read("5-4").is_err() && read("lots").is_err());
    }

    #[test]
    fn pages_are_cut_inwards() {
        let memory = read("0x40001000-0x40041000,0x40012000-0x40013000").err();
        assert!(memory.is_some(), "banks that overlap");
        let memory = read("0x40001000-0x40021000,0x40021000-0x40042000:ro").unwrap_or_else(|_| panic!());
        let regions = memory.regions(0x1_0000);
        let ends: Vec<(u64, u64)> =
            regions.iter().map(|region| (region.physical.start.bits(), region.physical.end.bits())).collect();
        // The page in which the two meet can be written.
        assert_eq!(ends, [(0x4001_0000, 0x4003_0000), (0x4003_0000, 0x4004_0000)]);
    }
}
