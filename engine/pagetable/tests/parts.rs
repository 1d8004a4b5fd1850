//! Parts: what can be claimed, what a part can reach, and what a release gives back.

use crate::common;

use common::{DATA, GIB, MIB, leaves, live_4k, map, read_only, tables_above, unmap};
use vellum_pagetable::{Change, El1, Memory, Part, Refusal, Reserve, Summary};
use vellum_vmsa::{Granule4K, LeafSize, Level, PhysAddr, Stage1Attributes, VirtAddr};

type Claimed<'m> = Part<'m, Granule4K, El1, Memory>;

fn change(memory: &Memory, part: &mut Claimed<'_>, changes: &[Change<El1>]) -> Result<usize, Refusal> {
    let (mut reserve, mut gather) = (Reserve::new(), part.gather());
    let mut plan = part.plan(changes, None)?;
    memory.supply::<Granule4K>(&mut reserve, plan.tables_needed());
    plan.apply(&mut reserve, &mut gather)?;
    Ok(gather.finish(memory).count())
}

/// A claim makes the tables on the way, and refuses before it makes any if there are too few.
#[test]
fn a_claim_makes_its_way_and_a_release_gives_it_back() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[]);
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    memory.supply::<Granule4K>(&mut reserve, 1);
    let _ = memory.take_steps();
    let refusal = table.claim(VirtAddr::new(5 * MIB), Level::L3, &mut reserve, &mut gather).unwrap_err();
    let short = 1 + tables_above();
    assert_eq!((refusal, reserve.count(), memory.take_steps()), (Refusal::ReserveShortBy(short), 1, vec![]));
    memory.supply::<Granule4K>(&mut reserve, short);
    let mut part = table.claim(VirtAddr::new(5 * MIB), Level::L3, &mut reserve, &mut gather).unwrap();
    let _ = gather.finish(&memory);
    assert_eq!((part.range(), reserve.count()), (VirtAddr::new(4 * MIB)..VirtAddr::new(6 * MIB), 0));
    assert_eq!(Summary::read(&table.view(), table.view().range()).unwrap().tables(), 2 + short);
    change(&memory, &mut part, &[map(5 * MIB, 0x2000, GIB, LeafSize::LARGEST)]).unwrap();
    assert_eq!(leaves(&table).len(), 2);
    // What a part maps stays when it is released.
    table.release(part, &mut gather);
    assert_eq!((gather.finish(&memory).count(), leaves(&table).len()), (0, 2));
    let mut part = table.claim(VirtAddr::new(5 * MIB), Level::L3, &mut reserve, &mut gather).unwrap();
    assert_eq!(change(&memory, &mut part, &[unmap(4 * MIB, 2 * MIB)]), Ok(0));
    table.release(part, &mut gather);
    assert_eq!(gather.finish(&memory).count(), 1);
    assert!(leaves(&table).is_empty());
}

#[test]
fn a_part_reaches_no_further_than_its_table() {
    let memory = Memory::new();
    let setup = [map(0, 4 * MIB, GIB, LeafSize::PAGE)];
    let mut table = live_4k(&memory, &setup);
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    let mut part = table.claim(VirtAddr::new(2 * MIB), Level::L3, &mut reserve, &mut gather).unwrap();
    let before = memory.descriptors();
    for (wanted, at) in [
        (read_only(0, 0x1000), 0),
        (read_only(MIB, 2 * MIB), MIB),
        (unmap(3 * MIB, 2 * MIB), 4 * MIB),
        (unmap(0, 8 * MIB), 0),
    ] {
        assert_eq!(change(&memory, &mut part, &[wanted]), Err(Refusal::OutsidePart(at)));
    }
    let list = [read_only(2 * MIB, 0x1000), read_only(MIB, 0x1000)];
    assert_eq!(change(&memory, &mut part, &list), Err(Refusal::OutsidePart(MIB)));
    let none = Stage1Attributes::empty();
    assert!(!part.protect_page(VirtAddr::new(0x1000), Stage1Attributes::READ_ONLY, none, None));
    assert!(!part.protect_page(VirtAddr::new(4 * MIB), Stage1Attributes::READ_ONLY, none, None));
    assert!(
        !part.make_page_valid(VirtAddr::new(0x1000), false, None)
            && !part.make_page_valid(VirtAddr::new(4 * MIB), false, None)
    );
    assert!(memory.descriptors() == before, "a refusal changes something");
    assert!(
        part.make_page_valid(VirtAddr::new(2 * MIB), false, None)
            && part.make_page_valid(VirtAddr::new(2 * MIB), true, None)
    );
    assert!(part.protect_page(VirtAddr::new(4 * MIB - 0x1000), Stage1Attributes::READ_ONLY, none, None));
    // All of it is not a table too many: that the part is in stays.
    assert_eq!(change(&memory, &mut part, &[unmap(2 * MIB, 2 * MIB)]), Ok(0));
    assert_eq!(change(&memory, &mut part, &[map(2 * MIB, 2 * MIB, GIB, LeafSize::LARGEST)]), Ok(0));
    assert!(leaves(&table).iter().all(|(_, bytes, _)| *bytes == 0x1000));
}

#[test]
fn a_larger_leaf_is_no_part() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 2 * MIB, GIB, LeafSize::LARGEST)]);
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    memory.supply::<Granule4K>(&mut reserve, 4);
    let (start, end) = (table.geometry().start(), table.geometry().input_bytes());
    let mut refusal = |at, level| table.claim(VirtAddr::new(at), level, &mut reserve, &mut gather).unwrap_err();
    assert_eq!(refusal(0x1000, Level::L3), Refusal::AlreadyMapped(0x1000));
    assert_eq!(refusal(0x1000, start), Refusal::OutsidePart(0x1000));
    assert_eq!(refusal(end, Level::L2), Refusal::OutOfRange(end));
}

/// Two parts are edited turn by turn, each with a gather of its own that is finished last.
#[test]
fn parts_are_edited_side_by_side() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 4 * MIB, GIB, LeafSize::PAGE)]);
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    let mut parts =
        [0, 2 * MIB].map(|at| table.claim(VirtAddr::new(at), Level::L3, &mut reserve, &mut gather).unwrap());
    let mut gathers = [table.gather(), table.gather()];
    for page in 0..4 {
        for (number, (part, gather)) in parts.iter_mut().zip(&mut gathers).enumerate() {
            let wanted = [read_only(number as u64 * 2 * MIB + page * 0x1000, 0x1000)];
            part.plan(&wanted, None).unwrap().apply(&mut reserve, gather).unwrap();
        }
    }
    let issued = gathers.map(|mut gather| {
        let _ = gather.finish(&memory);
        gather.issued()
    });
    assert_eq!(issued, [1, 1], "each has one range of four pages");
    let is_read_only = |bits: u64| bits & Stage1Attributes::READ_ONLY.bits() != 0;
    assert_eq!(leaves(&table).iter().filter(|(.., leaf)| is_read_only(leaf.bits())).count(), 8);
}

/// What a part's shortcuts say is done is done, within the part alone.
#[test]
fn a_page_of_a_part_changes_by_one_store() {
    let memory = Memory::new();
    let setup = [map(0, 8 * MIB - 0x1000, GIB, LeafSize::PAGE)];
    let mut table = live_4k(&memory, &setup);
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    let mut part = table.claim(VirtAddr::new(2 * MIB), Level::L3, &mut reserve, &mut gather).unwrap();
    let (none, bits) =
        (Stage1Attributes::empty(), |at: u64| table.view().translate(VirtAddr::new(at)).map(|it| it.descriptor.bits()));
    let (to, before) = (PhysAddr::new(64 * MIB), memory.descriptors());
    for at in [0, MIB, 2 * MIB - 0x1000, 4 * MIB, 5 * MIB, 6 * MIB - 0x1000, 8 * MIB - 0x1000] {
        let page = VirtAddr::new(at);
        assert!(!part.protect_page(page, Stage1Attributes::READ_ONLY, none, None), "{at:#x}");
        assert!(!part.make_page_valid(page, false, None) && !part.map_page(page, to, DATA), "{at:#x}");
    }
    assert!(memory.descriptors() == before);
    for at in [2 * MIB, 3 * MIB, 4 * MIB - 0x1000] {
        let (page, old) = (VirtAddr::new(at), bits(at).unwrap());
        assert!(part.protect_page(page, Stage1Attributes::READ_ONLY, none, None));
        assert_eq!(bits(at), Some(old | 1 << 7));
        assert!(part.make_page_valid(page, false, None) && bits(at).is_none());
        assert!(part.make_page_valid(page, true, None) && bits(at) == Some(old | 1 << 7));
        assert!(!part.map_page(page, to, DATA), "it is mapped");
        assert_eq!(change(&memory, &mut part, &[unmap(at, 0x1000)]), Ok(0));
        assert!(part.map_page(page, to, DATA) && bits(at) == Some(old - (GIB + at) + to.bits()));
    }
}
