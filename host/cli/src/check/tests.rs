//! Each kind of finding, in a page table made for it, and none in a clean one.

use std::io::Write;

use image::{FileMemory, Origin, Regime, Shape};
use vmsa::{AddressHalf, Layout, PageSize, PhysAddr};

use super::*;

mod board;

const PAGE: u64 = 0x0060_0000_0000_0703;
const BLOCK: u64 = 0x0060_0000_0000_0701;
const CONTIGUOUS: u64 = 1 << 52;
const READ_ONLY: u64 = 1 << 7;

/// A machine with 4 KiB pages and 39 bits: the root at 0, tables at 0x1000, 0x2000 and so on, memory up to 0x8000.
fn machine(descriptors: &[(usize, usize, u64)]) -> (Machine, Root) {
    let mut bytes = vec![0; 0x8000];
    for &(table, index, descriptor) in descriptors {
        let at = table * 0x1000 + index * 8;
        bytes[at..at + 8].copy_from_slice(&descriptor.to_le_bytes());
    }
    let path = std::env::temp_dir().join(format!("vellum-check-{}-{:p}", std::process::id(), &bytes));
    std::fs::File::create(&path).and_then(|mut file| file.write_all(&bytes)).expect("a file");
    let memory = FileMemory::open(&path, 0).expect("the file");
    std::fs::remove_file(path).expect("removed");
    let shape = Shape::stage1(PageSize::Size4K, Layout::Bits48, 39, AddressHalf::Upper).expect("a shape");
    (Machine::new(Box::new(memory)), Root::bare(Regime::El1Upper, PhysAddr::new(0), shape, Origin::Flags))
}

fn kinds(descriptors: &[(usize, usize, u64)]) -> Vec<(Kind, u64, u64)> {
    let (mut machine, root) = machine(descriptors);
    let base = root.shape.base();
    let found = check(&mut machine, &[root]).unwrap_or_else(|Failure(line)| panic!("{line}"));
    found.iter().map(|finding| (finding.kind, finding.input - base, finding.bytes)).collect()
}

/// A page table with a table of pages at 2, reached from 0x1000.
fn pages(entries: impl IntoIterator<Item = (usize, u64)>) -> Vec<(usize, usize, u64)> {
    let links = [(0, 0, 0x1003), (1, 0, 0x2003)];
    links.into_iter().chain(entries.into_iter().map(|(index, descriptor)| (2, index, descriptor))).collect()
}

#[test]
fn a_clean_table_has_no_findings() {
    assert_eq!(kinds(&pages([(0, PAGE | 0x4000_0000), (1, PAGE | 0x5000_0000)])), []);
}

#[test]
fn writable_and_executable_is_found() {
    let wx = PAGE & !(1 << 53) | 0x4000_0000;
    assert_eq!(kinds(&pages([(3, wx), (4, wx + 0x1000)])), [(Kind::Wx, 0x3000, 0x2000)]);
    let user = PAGE & !(1 << 54) | 1 << 6 | 1 << 11 | 0x4000_0000;
    assert_eq!(kinds(&pages([(3, user)])), [(Kind::UserWx, 0x3000, 0x1000)]);
    assert_eq!(kinds(&pages([(3, wx | READ_ONLY)])), []);
}

#[test]
fn a_writable_alias_of_read_only_memory_is_found() {
    let aliased = pages([(0, PAGE | READ_ONLY | 0x4000_1000), (8, PAGE | 0x4000_1000)]);
    assert_eq!(kinds(&aliased), [(Kind::Alias, 0, 0x1000)]);
    let within_a_block = [&pages([(0, PAGE | READ_ONLY | 0x4000_1000)])[..], &[(1, 4, BLOCK | 0x4000_0000)]].concat();
    assert_eq!(kinds(&within_a_block), [(Kind::Alias, 0, 0x1000)]);
    let user = PAGE | READ_ONLY | 1 << 6 | 1 << 11 | 0x4000_1000;
    assert_eq!(
        kinds(&pages([(0, user), (8, PAGE | 0x4000_1000)])),
        [],
        "a process's page is writable in the linear map"
    );
}

/// The report tells both addresses; pages that follow one another in both places are one line.
#[test]
fn an_alias_is_told_with_both_addresses() {
    let pages = pages([0, 1].into_iter().flat_map(|page| {
        let output = 0x4000_1000 + page as u64 * 0x1000;
        [(page, PAGE | READ_ONLY | output), (page + 8, PAGE | output)]
    }));
    let (mut machine, root) = machine(&pages);
    let roots = [root];
    let found = check(&mut machine, &roots).unwrap_or_else(|Failure(line)| panic!("{line}"));
    let mut text = Vec::new();
    report::text(&found, &roots, true, &mut text).expect("written");
    let text = String::from_utf8_lossy(&text).into_owned();
    let expected =
        "0xffffff8000000000-0xffffff8000002000        8K  read-only memory, writable at 0xffffff8000008000 (2×)";
    assert!(text.contains(expected), "{text}");
    let mut record = Vec::new();
    report::json(&found, &roots, &mut record).expect("written");
    assert!(String::from_utf8_lossy(&record).contains("\"other\":\"0xffffff8000008000\""));
}

#[test]
fn different_memory_types_are_found() {
    let device = PAGE | 4 << 2;
    assert_eq!(kinds(&pages([(0, PAGE | 0x4000_0000), (8, device | 0x4000_0000)])), [(Kind::Types, 0x8000, 0x1000)]);
    let tagged = PAGE | 1 << 2;
    assert_eq!(
        kinds(&pages([(0, PAGE | 0x4000_0000), (8, tagged | 0x4000_0000)])),
        [],
        "tags are no type of their own"
    );
}

#[test]
fn groups_are_uniform_or_found() {
    let group =
        |from: usize| (from..from + 16).map(|index| (index, PAGE | CONTIGUOUS | (0x4000_0000 + index as u64 * 0x1000)));
    assert_eq!(kinds(&pages(group(0))), []);
    let missing: Vec<_> = group(16).filter(|(index, _)| *index != 20).collect();
    assert_eq!(kinds(&pages(missing)), [(Kind::Contiguous, 0x1_0000, 0x1_0000)]);
    let unmarked = group(0).map(|(index, bits)| (index, if index == 3 { bits & !CONTIGUOUS } else { bits }));
    assert_eq!(kinds(&pages(unmarked)), [(Kind::Contiguous, 0, 0x1_0000)]);
    let accessed = group(0).map(|(index, bits)| (index, if index == 3 { bits & !(1 << 10) } else { bits }));
    assert_eq!(kinds(&pages(accessed)), [], "hardware may have set the access flag of one");
    let writable = group(0).map(|(index, bits)| (index, if index == 3 { bits | READ_ONLY } else { bits }));
    assert_eq!(kinds(&pages(writable)), [(Kind::Contiguous, 0, 0x1_0000)]);
}

#[test]
fn what_could_be_larger_is_found() {
    let run = |count: usize| (0..count).map(|index| (index, PAGE | (0x4000_0000 + index as u64 * 0x1000)));
    assert_eq!(kinds(&pages(run(32))), [(Kind::Larger, 0, 0x2_0000)]);
    assert_eq!(kinds(&pages(run(512))), [(Kind::Fold, 0, 0x20_0000)]);
    let unaligned = (0..512).map(|index| (index, PAGE | (0x4000_1000 + index as u64 * 0x1000)));
    assert_eq!(kinds(&pages(unaligned)), []);
}

#[test]
fn empty_tables_are_found() {
    assert_eq!(kinds(&pages([])), [(Kind::Empty, 0, 0x20_0000)]);
}

#[test]
fn reserved_bits_and_encodings_are_found() {
    assert_eq!(kinds(&pages([(0, PAGE | 1 << 48)])), [(Kind::Reserved, 0, 0x1000)]);
    assert_eq!(kinds(&pages([(0, PAGE & !2)])), [(Kind::Reserved, 0, 0x1000)]);
    assert_eq!(kinds(&[(0, 0, 0x1003 | 1 << 50), (1, 0, BLOCK)]), [(Kind::Reserved, 0, 1 << 30)]);
    assert_eq!(kinds(&[(0, 0, 0x1003), (1, 0, BLOCK | 1 << 12)]), [(Kind::Reserved, 0, 0x20_0000)]);
}

#[test]
fn tables_that_cannot_be_followed_are_found() {
    assert_eq!(kinds(&[(0, 1, 0x9_9003)]), [(Kind::Outside, 1 << 30, 1 << 30)]);
    assert_eq!(kinds(&[(0, 2, 0x3)]), [(Kind::Loop, 2 << 30, 1 << 30)]);
}

#[test]
fn the_worst_comes_first() {
    let wx = PAGE & !(1 << 53) | 0x4000_0000;
    let all = [&pages([(3, wx)])[..], &[(1, 1, 0x3003)]].concat();
    let order: Vec<Kind> = kinds(&all).into_iter().map(|(kind, ..)| kind).collect();
    assert_eq!(order, [Kind::Wx, Kind::Empty]);
}

/// Leaves of a Linux with indirection: what bits 7 and 51 say to those who know no better is not what counts.
mod indirect {
    use vmsa::{Indirection, Overlay, PermissionControl};

    use super::*;

    const DBM: u64 = 1 << 51;
    /// UXN and PXN alone: the kernel's constants. Linux sets bit 7 too, and clears it where it likes.
    const CONSTANTS: u64 = PAGE;
    const DATA: u64 = PAGE | DBM;
    const TEXT: u64 = PAGE & !(1 << 53);

    fn found(control: PermissionControl, entries: &[(usize, u64)]) -> Vec<(Kind, u64, u64)> {
        let (mut machine, root) = machine(&pages(entries.iter().copied()));
        let base = root.shape.base();
        let found = check(&mut machine, &[Root { control, ..root }]).unwrap_or_else(|Failure(line)| panic!("{line}"));
        found.iter().map(|finding| (finding.kind, finding.input - base, finding.bytes)).collect()
    }

    /// Five pages at two addresses each: constants and constants, text and constants, data that is clean and constants, data and
    /// data, and constants that are data elsewhere.
    #[test]
    fn of_five_aliases_one_is_writable() {
        let pairs = [
            (CONSTANTS, CONSTANTS | READ_ONLY),
            (TEXT, CONSTANTS | READ_ONLY),
            (CONSTANTS, CONSTANTS),
            (DATA, DATA | READ_ONLY),
            (CONSTANTS | READ_ONLY, DATA),
        ];
        let entries: Vec<(usize, u64)> = (0..)
            .zip(pairs)
            .flat_map(|(place, (one, other))| {
                let output = 0x4000_0000 + 0x2000 * place as u64;
                [(place, one | output), (place + 16, other | output)]
            })
            .collect();
        let linux = PermissionControl {
            indirection: Indirection::LINUX,
            manages_dirty_state: true,
            ..PermissionControl::default()
        };
        assert_eq!(found(linux, &entries), [(Kind::Alias, 4 << 12, 0x1000)]);
        let by_bits = PermissionControl { indirection: Indirection::Off, ..linux };
        let wrong = [(Kind::Wx, 1 << 12, 0x1000), (Kind::Alias, 4 << 12, 0x1000), (Kind::Alias, 16 << 12, 0x2000)];
        assert_eq!(found(by_bits, &entries), wrong, "what bits would say is not what counts");
    }

    #[test]
    fn what_nobody_knows_is_no_finding() {
        let unknown = PermissionControl { indirection: Indirection::Unknown, ..PermissionControl::default() };
        let wx = PAGE & !(1 << 53) | 0x4000_0000;
        assert_eq!(found(unknown, &[(3, wx), (5, wx | READ_ONLY)]), []);
        assert_eq!(found(unknown, &[(3, PAGE), (5, PAGE | 4 << 2)]), [(Kind::Types, 0x5000, 0x1000)]);
    }

    #[test]
    fn an_overlay_takes_the_right_to_write() {
        let all = PermissionControl {
            indirection: Indirection::By(0x7777_7777_7777_7777, 0),
            ..PermissionControl::default()
        };
        assert_eq!(found(all, &[(3, PAGE | 0x4000_0000)]), [(Kind::Wx, 0x3000, 0x1000)]);
        let overlaid = PermissionControl { overlay: Overlay::By(3), ..all };
        assert_eq!(found(overlaid, &[(3, PAGE | 0x4000_0000)]), []);
    }

    /// Hardware makes members of a group dirty one by one, whatever their bit 51.
    #[test]
    fn members_of_a_group_may_differ_in_their_dirty_state() {
        let member = |index: usize, bits: u64| (index, bits | CONTIGUOUS | (0x4000_0000 + index as u64 * 0x1000));
        let entries: Vec<_> =
            (0..16).map(|index| member(index, DATA | if index == 3 { READ_ONLY } else { 0 })).collect();
        let linux = PermissionControl { indirection: Indirection::LINUX, ..PermissionControl::default() };
        assert_eq!(found(linux, &entries), [(Kind::Contiguous, 0, 0x1_0000)]);
        assert_eq!(found(PermissionControl { manages_dirty_state: true, ..linux }, &entries), []);
    }
}
