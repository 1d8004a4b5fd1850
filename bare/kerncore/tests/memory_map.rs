//! The memory map: as people see it, from whole machines, and against a naive model.

mod support;

use expect_test::expect;
use kerncore::devicetree::{MachineDescription, Reservation};
use kerncore::finding::Findings;
use kerncore::memory_map::{Kind, MAX_RANGES, MapFull, MemoryMap, Occupants, Problem, Purpose};
use kerncore::range::{Bytes, PhysicalRange};
use kerncore::text::Text;
use proptest::prelude::*;
use support::{GIB, KIB, MIB, range, read, tree};
use vmsa::{PageSize, PhysAddr};

/// The kernel where QEMU puts it, and the blob behind.
const IMAGE: (u64, u64) = (0x4020_0000, 0x60_0000);
const BLOB: (u64, u64) = (0x4800_0000, 0x10_0000);

/// A map of `machine`, and what was found.
fn made(machine: &mut MachineDescription<'_>, image: (u64, u64)) -> (MemoryMap, String) {
    let (mut map, mut findings) = (MemoryMap::new(), Findings::new());
    let occupants = Occupants { image: range(image.0, image.1), device_tree: range(BLOB.0, BLOB.1) };
    map.make(machine, &occupants, &mut findings);
    (map, findings.to_string())
}

fn machine_with(banks: &[(u64, u64)]) -> MachineDescription<'static> {
    let mut machine = MachineDescription::new();
    for &(start, size) in banks {
        machine.banks.push(range(start, size)).unwrap();
    }
    machine
}

#[test]
fn virt() {
    let blob = tree::virt().to_dtb();
    let (map, findings) = made(&mut read(&blob).0, IMAGE);
    expect![[r#"
        0x0000000040000000-0x00000000401fffff       2M  free
        0x0000000040200000-0x00000000407fffff       6M  image
        0x0000000040800000-0x0000000047ffffff     120M  free
        0x0000000048000000-0x00000000480fffff       1M  device tree
        0x0000000048100000-0x00000000bfffffff    1919M  free
    "#]]
    .assert_eq(&format!("{map}{findings}"));
    assert_eq!(map.mapped(PageSize::Size4K).collect::<Vec<_>>(), [range(0x4000_0000, 2 * GIB)]);
}

#[test]
fn memory_is_withheld_from_the_top() {
    let blob = tree::virt().to_dtb();
    let withheld = |bytes| {
        let (mut map, _) = made(&mut read(&blob).0, IMAGE);
        let withheld = map.withhold(bytes).unwrap();
        assert_eq!(map.bytes(|kind| kind == Kind::Withheld), withheld);
        assert_eq!(map.mappable(PageSize::Size4K).collect::<Vec<_>>(), [range(0x4000_0000, 2 * GIB)]);
        (map, withheld)
    };
    let (map, bytes) = withheld(65 * MIB);
    assert_eq!(bytes, 64 * MIB);
    assert_eq!(map.mapped(PageSize::Size4K).collect::<Vec<_>>(), [range(0x4000_0000, 1984 * MIB)]);
    let top = range(0xbc00_0000, 64 * MIB);
    assert!(map.is_all(top, |kind| kind == Kind::Withheld) && !map.is_all(top, |kind| kind == Kind::Free));
    assert!(!map.is_all(range(0xbbff_f000, 64 * MIB), |kind| kind == Kind::Withheld));
    // Half of 2041 MiB, in units.
    assert_eq!(withheld(u64::MAX).1, 1020 * MIB);
    assert_eq!(withheld(2 * MIB - 1).1, 0);
    // The highest piece has less, and what does not fill a unit stays.
    let (mut map, _) = made(&mut machine_with(&[(0x4000_0000, 256 * MIB), (0x8010_0000, 6 * MIB)]), IMAGE);
    assert_eq!(map.withhold(16 * MIB), Ok(16 * MIB));
    expect![[r#"
        0x0000000040000000-0x00000000401fffff       2M  free
        0x0000000040200000-0x00000000407fffff       6M  image
        0x0000000040800000-0x0000000047ffffff     120M  free
        0x0000000048000000-0x00000000480fffff       1M  device tree
        0x0000000048100000-0x000000004f3fffff     115M  free
        0x000000004f400000-0x000000004fffffff      12M  withheld
        0x0000000080100000-0x00000000801fffff       1M  free
        0x0000000080200000-0x00000000805fffff       4M  withheld
        0x0000000080600000-0x00000000806fffff       1M  free
    "#]]
    .assert_eq(&map.to_string());
}

#[test]
fn soc_with_all_kinds() {
    let blob = tree::soc().to_dtb();
    let mut machine = read(&blob).0;
    machine.initrd = Some(range(0x4900_0000, 0x12_3456));
    let (mut map, mut findings) = made(&mut machine, IMAGE);
    map.mark(range(0xb000_0000, 2 * MIB), Kind::Early(Purpose::Tables)).unwrap();
    let mut more = Findings::new();
    map.keep_below(PhysAddr::new(0xbe00_0000), &mut machine, &mut more);
    findings += &more.to_string();
    expect![[r#"
        0x0000000040000000-0x000000004000ffff      64K  reserved
        0x0000000040010000-0x00000000401fffff    1984K  free
        0x0000000040200000-0x00000000407fffff       6M  image
        0x0000000040800000-0x0000000047ffffff     120M  free
        0x0000000048000000-0x00000000480fffff       1M  device tree
        0x0000000048100000-0x0000000048ffffff      15M  free
        0x0000000049000000-0x0000000049123455   ~1165K  initrd
        0x0000000049123456-0x00000000500007ff ~113525K  free
        0x0000000050000800-0x00000000500017ff       4K  reserved
        0x0000000050001800-0x000000005fffffff  262138K  free
        0x0000000060000000-0x00000000607fffff       8M  reserved
        0x0000000060800000-0x00000000afffffff    1272M  free
        0x00000000b0000000-0x00000000b01fffff       2M  early: tables
        0x00000000b0200000-0x00000000bdffffff     222M  free
        0x00000000be000000-0x00000000bfffffff      32M  out of reach
        warning: memory: 32M at and above 0x00000000be000000 are out of reach, expected below; unused
    "#]]
    .assert_eq(&format!("{map}{findings}"));
}

#[test]
fn mapped_memory_is_ram_without_what_must_not_be() {
    let mut machine = machine_with(&[(0x4000_0123, 0x1_0000), (0x4001_0123, 0x5000), (0x5000_0000, 0x10_0000)]);
    let mut reserve = |start, size, no_map| {
        let entry = Reservation { range: range(start, size), no_map, name: Text::new("") };
        machine.reservations.push(entry).unwrap();
    };
    reserve(0x4000_8000, 0x1000, false);
    reserve(0x5000_5800, 0x100, true);
    let (map, _) = made(&mut machine, (0x5008_0000, 0x1_0000));
    let mapped = |size| map.mapped(size).map(|range| format!("{range:?}")).collect::<Vec<_>>().join(" ");
    expect!["0x40001000..0x40015000 0x50000000..0x50005000 0x50006000..0x50100000"]
        .assert_eq(&mapped(PageSize::Size4K));
    expect!["0x40004000..0x40014000 0x50000000..0x50004000 0x50008000..0x50100000"]
        .assert_eq(&mapped(PageSize::Size16K));
    expect!["0x50010000..0x50100000"].assert_eq(&mapped(PageSize::Size64K));
    let free = |size| map.free(size).map(|range| format!("{range:?}")).collect::<Vec<_>>().join(" ");
    expect!["0x40001000..0x40008000 0x40009000..0x40015000 0x50000000..0x50005000 0x50006000..0x50080000 0x50090000..0x50100000"].assert_eq(&free(PageSize::Size4K));
}

#[test]
fn what_is_wrong_is_said() {
    let mut lines = String::new();
    let mut say = |label: &str, findings: String| lines += &format!("{label}:\n{findings}");
    say("image nowhere", made(&mut machine_with(&[(0x8000_0000, MIB), (BLOB.0, BLOB.1)]), IMAGE).1);
    say("blob half outside", made(&mut machine_with(&[(0x4000_0000, BLOB.0 - 0x4000_0000 + 1)]), IMAGE).1);
    say("nothing free", made(&mut machine_with(&[IMAGE, BLOB]), IMAGE).1);
    let mut machine = machine_with(&[(0x4000_0000, GIB)]);
    machine.initrd = Some(range(0x4040_0000, MIB));
    say("initrd in the image", made(&mut machine, IMAGE).1);
    assert_eq!(machine.initrd, None);
    let no_map = Reservation { range: range(0x4000_0000, 4 * MIB), no_map: true, name: Text::new("secure") };
    machine.reservations.push(no_map).unwrap();
    say("image in secure memory", made(&mut machine, IMAGE).1);
    let mut machine = machine_with(&[(0x4000_0000, GIB)]);
    let (mut map, _) = made(&mut machine, IMAGE);
    let mut findings = Findings::new();
    map.keep_below(PhysAddr::new(0x4000_0000), &mut machine, &mut findings);
    say("all out of reach", findings.to_string());
    let banks: Vec<_> = (0..64).map(|bank| (bank * MIB, 0x8_0000)).collect();
    let mut machine = machine_with(&banks);
    for (start, _) in banks {
        let range = range(start + 0x3_0000, 0x2_0000);
        machine.reservations.push(Reservation { range, no_map: true, name: Text::new("") }).unwrap();
    }
    say("too many pieces", made(&mut machine, (0, 0x1000)).1);
    lines += &format!("full:\nfatal: memory: {}\n", Problem::Full);
    expect![[r#"
        image nowhere:
        fatal: memory: image 0x0000000040200000-0x00000000407fffff is not wholly in memory, expected it in a bank; cannot go on
        blob half outside:
        warning: memory: device tree 0x0000000048000000-0x00000000480fffff is not wholly in memory, expected it in a bank; the part outside is not managed
        nothing free:
        fatal: memory: nothing is free, expected room for page tables at least; cannot go on
        initrd in the image:
        warning: memory: initrd 0x0000000040400000-0x00000000404fffff overlaps image, expected them apart; the initrd is ignored
        image in secure memory:
        warning: memory: image 0x0000000040200000-0x00000000407fffff overlaps a no-map reservation, expected them apart; it is mapped all the same
        all out of reach:
        fatal: memory: image 0x0000000040200000-0x00000000407fffff is out of reach, expected below 0x0000000040000000; cannot go on
        warning: memory: device tree 0x0000000048000000-0x00000000480fffff is out of reach, expected below 0x0000000040000000; ignored
        warning: memory: 1G at and above 0x0000000040000000 are out of reach, expected below; unused
        fatal: memory: nothing is free, expected room for page tables at least; cannot go on
        too many pieces:
        warning: memory: device tree 0x0000000048000000-0x00000000480fffff is not wholly in memory, expected it in a bank; the part outside is not managed
        warning: memory: more than 128 ranges, expected fewer; the smallest free ones, 12672K, are unused
        full:
        fatal: memory: more than 128 ranges, expected fewer; cannot go on
    "#]].assert_eq(&lines);
}

#[test]
fn a_second_limit_tells_only_what_is_new() {
    let mut machine = machine_with(&[(0x4000_0000, 4 * GIB)]);
    let (mut map, _) = made(&mut machine, IMAGE);
    let clip = |map: &mut MemoryMap, limit| map.clip(PhysAddr::new(limit)).unwrap();
    assert_eq!(clip(&mut map, 0x1_0000_0000), GIB);
    assert_eq!(clip(&mut map, 0x1_0000_0000), 0);
    assert_eq!(clip(&mut map, 0xc000_0000), GIB);
    assert_eq!(map.bytes(|kind| kind == Kind::Lost), 2 * GIB);
    assert_eq!(map.kind_at(PhysAddr::new(0x1_3fff_ffff)), Some(Kind::Lost));
    assert_eq!(map.kind_at(PhysAddr::new(0x1_4000_0000)), None);
}

#[test]
fn a_full_map_forgets_the_smallest_free_range() {
    let mut map = MemoryMap::new();
    for index in 0..63 {
        map.insert(range(index * MIB, 0x1000 * (1 + index)), Kind::Free).unwrap();
        map.insert(range(index * MIB + 0x8_0000, 0x1000), Kind::Reserved { no_map: false }).unwrap();
    }
    assert_eq!((map.pieces().len(), map.forgotten_bytes()), (126, 0));
    map.insert(range(GIB, MIB), Kind::Free).unwrap();
    map.mark(range(GIB, 0x1000), Kind::Image).unwrap();
    assert_eq!(map.forgotten_bytes(), 0x1000);
    map.mark(range(GIB + 0x4000, 0x1000), Kind::Image).unwrap();
    map.mark(range(GIB + 0x8000, 0x1000), Kind::Image).unwrap();
    // The third of these is what is left between two marks.
    assert_eq!((map.forgotten_bytes(), map.kind_at(PhysAddr::new(0))), (0x1000 + 0x2000 + 0x3000 + 0x3000, None));
    // What an operation is about is never forgotten, however small.
    map.mark(range(4 * MIB, 0x800), Kind::Early(Purpose::Tables)).unwrap();
    assert_eq!(map.kind_at(PhysAddr::new(4 * MIB)), Some(Kind::Early(Purpose::Tables)));
    assert_eq!(map.kind_at(PhysAddr::new(4 * MIB + 0x800)), Some(Kind::Free));
}

#[test]
fn a_map_full_of_what_is_needed_refuses() {
    let mut map = MemoryMap::new();
    for index in 0..MAX_RANGES as u64 - 1 {
        map.insert(range(index * MIB, KIB), Kind::Reserved { no_map: false }).unwrap();
    }
    let before: Vec<_> = map.pieces().to_vec();
    assert_eq!(map.insert(range(GIB, KIB), Kind::Free), Err(MapFull));
    assert_eq!(map.mark(range(0, 10), Kind::Image), Err(MapFull));
    assert_eq!(map.pieces(), before);
}

#[test]
fn sizes_are_exact_in_the_largest_unit() {
    let sizes = [0, 1, 1023, 1024, 1536, 36 * KIB, 512 * MIB, GIB + KIB, 4096 * GIB, 1 << 52, u64::MAX];
    let sizes: Vec<String> = sizes.iter().map(|&size| format!("|{:>8}|{}", Bytes(size), Bytes(size))).collect();
    expect![[r#"
        |      0B|0B
        |      1B|1B
        |   1023B|1023B
        |      1K|1K
        |   1536B|1536B
        |     36K|36K
        |    512M|512M
        |  ~1024M|~1024M
        |      4T|4T
        |      4P|4P
        | ~16383P|~16383P"#]]
    .assert_eq(&sizes.join("\n"));
    assert!(size_of::<MemoryMap>() <= 5136, "{}", size_of::<MemoryMap>());
}

/// Small numbers stand for addresses, so that a model can hold a kind for each.
const MODEL_END: usize = 200;

fn kinds() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![
        Kind::Free,
        Kind::Image,
        Kind::Reserved { no_map: true },
        Kind::Reserved { no_map: false },
        Kind::Early(Purpose::Tables),
        Kind::Early(Purpose::Stacks),
    ])
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(Kind),
    Mark(Kind),
    Remove,
    Clip,
}

fn operations() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => kinds().prop_map(Operation::Insert),
        3 => kinds().prop_map(Operation::Mark),
        1 => Just(Operation::Remove),
        1 => Just(Operation::Clip),
    ]
}

/// Runs of the model that `is_meant`, as ranges.
fn runs(model: &[Option<Kind>], is_meant: impl Fn(Kind) -> bool) -> Vec<PhysicalRange> {
    let meant = |index: usize| model.get(index).copied().flatten().is_some_and(&is_meant);
    let starts = (0..model.len()).filter(|&index| meant(index) && (index == 0 || !meant(index - 1)));
    starts.map(|start| range(start as u64, (start..).take_while(|&index| meant(index)).count() as u64)).collect()
}

proptest! {
    #[test]
    fn a_map_is_a_kind_for_each_address(
        steps in prop::collection::vec((0..MODEL_END, 0..60usize, operations()), 0..60),
    ) {
        let mut map = MemoryMap::new();
        let mut model = vec![None; MODEL_END + 60];
        for (start, size, operation) in steps {
            let (at, slots) = (range(start as u64, size as u64), start..start + size);
            match operation {
                Operation::Insert(kind) => {
                    map.insert(at, kind).unwrap();
                    model[slots].fill(Some(kind));
                }
                Operation::Mark(kind) => {
                    map.mark(at, kind).unwrap();
                    model[slots].iter_mut().flatten().for_each(|slot| *slot = kind);
                }
                Operation::Remove => {
                    map.remove(at).unwrap();
                    model[slots].fill(None);
                }
                Operation::Clip => {
                    let lost = model[start..].iter_mut().flatten().filter(|kind| **kind != Kind::Lost);
                    let lost = lost.map(|kind| *kind = Kind::Lost).count() as u64;
                    prop_assert_eq!(map.clip(PhysAddr::new(start as u64)), Ok(lost));
                }
            }
            for (address, kind) in model.iter().enumerate() {
                prop_assert_eq!(map.kind_at(PhysAddr::new(address as u64)), *kind);
            }
            let mut pieces = map.pieces().iter().zip(&map.pieces()[map.pieces().len().min(1)..]);
            prop_assert!(pieces.all(|(low, high)| low.range.end < high.range.start
                || (low.range.end == high.range.start && low.kind != high.kind)));
        }
        prop_assert_eq!(map.ram().collect::<Vec<_>>(), runs(&model, |_| true));
        prop_assert_eq!(map.forgotten_bytes(), 0);
    }
}
