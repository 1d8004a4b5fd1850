//! What must hold for any bytes whatever that are passed as a device tree, and a source of such bytes.

use kerncore::buddy::{Buddy, Layout};
use kerncore::command_line;
use kerncore::devicetree::{MAX_BANKS, MAX_CPUS, MachineDescription};
use kerncore::early::{EarlyAllocator, End, Request};
use kerncore::finding::Findings;
use kerncore::memory_map::{MAX_RANGES, MemoryMap, Occupants, Purpose};
use kerncore::range::{PHYSICAL_END, PhysicalRange};
use vmsa::{PageSize, PhysAddr};

use super::{MIB, read, tree};
use seed::Seed;

/// Takes `bytes` all the way from a blob to an allocator, and checks what must hold on the way.
pub(crate) fn fuzz_device_tree(bytes: &[u8]) {
    let (mut machine, mut findings) = read(bytes);
    check_machine(&machine);
    assert!(findings.fatal().is_some() || !machine.banks.is_empty());
    command_line::parse(machine.bootargs, &mut findings);
    for page_size in PageSize::ALL {
        boot(&mut machine, page_size, &mut findings);
    }
    check_lines(&findings);
}

fn check_machine(machine: &MachineDescription<'_>) {
    assert!(machine.banks.len() <= MAX_BANKS && machine.cpus.len() <= MAX_CPUS);
    assert!(machine.banks.iter().all(|bank| bank.start < bank.end && bank.end <= PHYSICAL_END));
    assert!(machine.banks.windows(2).all(|pair| pair[0].end <= pair[1].start));
    assert!(machine.reservations.iter().all(|entry| !entry.range.is_empty()));
    assert!(machine.initrd.is_none_or(|initrd| !initrd.is_empty() && machine.has_memory(&initrd)));
    assert!(machine.console.is_none_or(|console| !console.registers.is_empty()));
    assert!((16..32).contains(&machine.timer.physical_interrupt));
    assert!((16..32).contains(&machine.timer.virtual_interrupt));
}

/// Every finding is one line of printable ASCII that is not endless.
fn check_lines(findings: &Findings<'_>) {
    for finding in findings.iter() {
        let line = finding.to_string();
        assert!(line.len() < 300 && line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
    }
}

/// The way of a kernel through the other modules.
fn boot<'a>(machine: &mut MachineDescription<'a>, page_size: PageSize, findings: &mut Findings<'a>) {
    let image = machine.banks.first().map_or(PhysicalRange::EMPTY, |bank| {
        PhysicalRange::from_size(bank.start + 2 * MIB, 3 * MIB).intersection(bank)
    });
    let mut map = MemoryMap::new();
    map.make(machine, &Occupants { image, device_tree: PhysicalRange::EMPTY }, findings);
    map.keep_below(PhysAddr::new(1 << 48), machine, findings);
    check_map(&map, page_size);
    let layout = Layout::new(page_size, map.mapped(page_size));
    // Lies about the size of memory are fine, but the test does not have the memory to believe them.
    if layout.words() > 1 << 17 {
        return;
    }
    let mut early = EarlyAllocator::new(&mut map, page_size);
    for from in [End::Top, End::Bottom] {
        let request =
            Request { size_bytes: 3 * page_size.size_bytes(), from, ..Request::page(page_size, Purpose::Tables) };
        early.allocate(&request).ok();
    }
    let mut notes = vec![!0; layout.words()];
    let mut buddy = Buddy::new(&layout, &mut notes).unwrap();
    let given = early.hand_over(&mut buddy).unwrap();
    assert_eq!(given, buddy.free_bytes());
    let Some(block) = buddy.allocate(0) else { return assert_eq!(given, 0) };
    assert!(map.free(page_size).any(|range| range.contains(block)));
    buddy.free(block, 0).unwrap();
}

fn check_map(map: &MemoryMap, page_size: PageSize) {
    let pieces = map.pieces();
    assert!(pieces.len() <= MAX_RANGES && pieces.iter().all(|piece| !piece.range.is_empty()));
    assert!(pieces.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start));
    let mapped: Vec<_> = map.mapped(page_size).collect();
    assert!(map.free(page_size).all(|free| mapped.iter().any(|range| range.covers(&free))));
}

/// Whole blobs to start from.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    vec![
        tree::virt().to_dtb(),
        tree::virt_with(2, 9).to_dtb(),
        tree::soc().to_dtb(),
        tree::virt_but(|tree| {
            let pairs: Vec<_> = (0..70).map(|bank| (bank * 3 * MIB + 0x123, 2 * MIB + 0x456)).collect();
            tree::set(tree, "/memory@40000000", tree::reg(&pairs));
        }),
    ]
}

/// A few damages to one of `seeds`, all chosen by `seed`.
pub(crate) fn damage(seeds: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut random = Seed::new(seed);
    let mut blob = seeds[random.index(seeds.len())].clone();
    for _ in 0..=random.index(6) {
        damage_once(&mut blob, &mut random);
    }
    blob
}

fn damage_once(blob: &mut Vec<u8>, random: &mut Seed) {
    if blob.len() < 64 {
        return;
    }
    let words = blob.len() / 4;
    let [one, other] = [4 * random.index(words), 4 * random.index(words)];
    let lies = [0, 1, 2, 3, 4, 5, 8, 9, 0x20, 0x7fff_ffff, 0x8000_0000, u32::MAX, u32::MAX - 3, random.bits() as u32];
    let lie = random.pick(&lies).to_be_bytes();
    match random.index(9) {
        0 => blob[one] ^= 1 << random.index(8),
        1 => blob[one + 3] = random.bits() as u8,
        2 => blob[one..one + 4].copy_from_slice(&lie),
        // A header field, the magic and the version left alone most of the time.
        3 => {
            let field = 4 * *random.pick(&[1, 2, 3, 4, 8, 9, 9, 8, 1]);
            blob[field..field + 4].copy_from_slice(&lie);
        }
        4 => blob.truncate(random.index(blob.len())),
        5 => (0..4).for_each(|index| blob.swap(one + index, other + index)),
        6 => {
            let length = random.index(64).min(blob.len() - one.max(other));
            blob.copy_within(one..one + length, other);
        }
        7 => drop(blob.drain(one..(one + 4 * random.index(16)).min(words * 4))),
        _ => {
            let token = find_token(blob, one);
            blob[token..token + 4].copy_from_slice(&lie);
        }
    }
}

/// The next word at or after `from` that looks like a token, so that damage to the structure is not rare.
fn find_token(blob: &[u8], from: usize) -> usize {
    let is_token = |&offset: &usize| matches!(blob[offset..offset + 4], [0, 0, 0, 1 | 2 | 3 | 9]);
    (from..blob.len() - 3).step_by(4).find(is_token).unwrap_or(0)
}
