//! The device tree that a guest is given: another program reads it, and our own reader finds what was asked for.

mod support;

use dtoolkit::fdt::Fdt;
use dtoolkit::model::DeviceTree;
use kerncore::devicetree::{CopyError, Edits, MAX_HIDDEN, copy};
use kerncore::list::List;
use kerncore::range::PhysicalRange;
use support::{MIB, range, read, tree};
use vmsa::PhysAddr;

fn edits<'e>(bootargs: &'e str, hidden: &[PhysicalRange]) -> Edits<'e> {
    let mut list = List::<_, MAX_HIDDEN>::new(PhysicalRange::EMPTY);
    hidden.iter().for_each(|range| list.push(*range).unwrap());
    Edits { bootargs, hidden: list }
}

fn copied(blob: &[u8], edits: &Edits) -> Vec<u8> {
    let mut to = vec![0xa5; blob.len() + 256];
    let length = copy(blob, edits, &mut to).expect("room");
    to.truncate(length);
    to
}

const RAM: u64 = 0x4000_0000;

#[test]
fn nothing_but_what_was_asked_for_is_different() {
    for original in [tree::virt(), tree::virt_with(2, 8), tree::soc()] {
        let blob = original.to_dtb();
        let bootargs = read(&blob).0.bootargs;
        let same = copied(&blob, &edits(bootargs, &[]));
        let reread = DeviceTree::from_fdt(&Fdt::new(&same).expect("another reader takes it"));
        assert_eq!(reread.to_dtb(), blob);
    }
}

#[test]
fn hidden_memory_is_in_no_bank() {
    let blob = tree::virt().to_dtb();
    // The middle of the bank, and its end.
    let hidden = [range(RAM + 2 * MIB, 4 * MIB), range(RAM + 2044 * MIB, 4 * MIB)];
    let guest = copied(&blob, &edits("quiet", &hidden));
    let (machine, findings) = read(&guest);
    assert_eq!(findings.to_string(), "");
    assert_eq!(machine.bootargs, "quiet");
    assert_eq!(*machine.banks, [range(RAM, 2 * MIB), range(RAM + 6 * MIB, 2038 * MIB)]);
    let reread = Fdt::new(&guest).expect("another reader takes it");
    assert!(reread.find_node("/memory@40000000").is_some());
}

#[test]
fn overlapping_hidden_ranges_and_whole_banks() {
    let mut two = tree::virt();
    two.root.remove_child("memory@40000000").unwrap();
    two.root.add_child(tree::memory(&[(RAM, 64 * MIB), (RAM + 128 * MIB, 64 * MIB)]));
    two.root.add_child(tree::memory(&[(RAM + 256 * MIB, 2 * MIB)]));
    let blob = two.to_dtb();
    let hidden = [range(RAM + 16 * MIB, 16 * MIB), range(RAM + 24 * MIB, 168 * MIB), range(RAM + 256 * MIB, 2 * MIB)];
    let guest = copied(&blob, &edits("", &hidden));
    let (machine, _) = read(&guest);
    assert_eq!(*machine.banks, [range(RAM, 16 * MIB)]);
    assert!(Fdt::new(&guest).expect("a tree").find_node("/memory@50000000").is_none(), "nothing is left of it");
}

#[test]
fn cells_of_one_word_are_written_as_they_were() {
    let mut narrow = tree::virt();
    narrow.root.remove_child("memory@40000000").unwrap();
    tree::set(&mut narrow, "/", tree::cells("#address-cells", &[1]));
    tree::set(&mut narrow, "/", tree::cells("#size-cells", &[1]));
    let memory = [tree::cells("reg", &[RAM as u32, 64 << 20]), tree::text("device_type", "memory")];
    narrow.root.add_child(tree::node("memory@40000000", memory));
    let guest = copied(&narrow.to_dtb(), &edits("", &[range(RAM + 8 * MIB, 8 * MIB)]));
    assert_eq!(*read(&guest).0.banks, [range(RAM, 8 * MIB), range(RAM + 16 * MIB, 48 * MIB)]);
}

#[test]
fn a_copy_that_does_not_fit_and_an_original_that_is_none() {
    let blob = tree::virt().to_dtb();
    let edits = edits("x", &[]);
    let whole = copied(&blob, &edits).len();
    for room in 0..whole {
        assert_eq!(copy(&blob, &edits, &mut vec![0; room]), Err(CopyError::NoRoom(room)));
    }
    assert_eq!(copy(&blob, &edits, &mut vec![0; whole]), Ok(whole));
    assert!(matches!(copy(b"no tree at all", &edits, &mut [0; 64]), Err(CopyError::Original(_))));
    // Every truncation is an error or a copy that can be read, and none is a panic.
    for length in 0..blob.len() {
        let mut to = vec![0; blob.len() + 64];
        let _ = copy(&blob[..length], &edits, &mut to);
    }
    assert_eq!(PhysAddr::new(RAM), read(&blob).0.banks[0].start);
}

#[test]
fn damaged_trees_are_copied_or_refused() {
    let seed = 0x5eed_c0de;
    let mut random = seed::Seed::new(seed);
    let blob = tree::soc().to_dtb();
    let edits = edits("quiet", &[range(RAM, 4 * MIB)]);
    let (mut copies, mut refusals) = (0, 0);
    for round in 0..5000 {
        let mut damaged = blob.clone();
        for _ in 0..=random.index(8) {
            let at = random.index(damaged.len());
            damaged[at] = random.bits() as u8;
        }
        let mut to = vec![0; blob.len() + 256];
        match copy(&damaged, &edits, &mut to) {
            Ok(length) => {
                // Whatever became of it, it can be read as far as the original.
                read(&to[..length]);
                copies += 1;
            }
            Err(_) => refusals += 1,
        }
        assert_eq!(copies + refusals, round + 1, "seed {seed:#x}");
    }
    assert!(copies > 100 && refusals > 100, "seed {seed:#x}: {copies} copies, {refusals} refusals");
}
