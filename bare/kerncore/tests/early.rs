//! The early allocator, and how it hands over.

mod support;

use expect_test::expect;
use kerncore::buddy::{Buddy, Layout};
use kerncore::early::{EarlyAllocator, EarlyError, End, Request};
use kerncore::memory_map::{Kind, MemoryMap, Purpose};
use proptest::prelude::*;
use support::{MIB, range};
use vmsa::{PageSize, PhysAddr};

fn map() -> MemoryMap {
    let mut map = MemoryMap::new();
    map.insert(range(0x4000_0800, 64 * MIB), Kind::Free).unwrap();
    map.insert(range(0x8000_0000, 16 * MIB), Kind::Free).unwrap();
    map.mark(range(0x4020_0000, 6 * MIB), Kind::Image).unwrap();
    map
}

#[test]
fn allocations_become_part_of_the_map() {
    let mut map = map();
    let mut early = EarlyAllocator::new(&mut map, PageSize::Size4K);
    let page = Request::page(PageSize::Size4K, Purpose::Tables);
    for _ in 0..3 {
        early.allocate(&page).unwrap();
    }
    let stacks =
        Request { size_bytes: 40_000, alignment_bytes: 0x1_0000, from: End::Bottom, purpose: Purpose::Stacks, ..page };
    assert_eq!(early.allocate(&stacks), Ok(range(0x4001_0000, 0xa000)));
    let below = Request { below: PhysAddr::new(0x4123_4567), purpose: Purpose::PageAllocator, ..page };
    assert_eq!(early.allocate(&below), Ok(range(0x4123_3000, 0x1000)));
    let large = Request { size_bytes: 2 * MIB, alignment_bytes: 2 * MIB, purpose: Purpose::Stage2Tables, ..page };
    assert_eq!(early.allocate(&large), Ok(range(0x80c0_0000, 2 * MIB)));
    assert_eq!((early.given_bytes(Purpose::Tables), early.given_bytes(Purpose::Stacks)), (0x3000, 0xa000));
    assert_eq!(early.all_given_bytes(), 0x3000 + 0xa000 + 0x1000 + 2 * MIB);
    expect![[r#"
        0x0000000040000800-0x000000004000ffff      62K  free
        0x0000000040010000-0x0000000040019fff      40K  early: stacks
        0x000000004001a000-0x00000000401fffff    1944K  free
        0x0000000040200000-0x00000000407fffff       6M  image
        0x0000000040800000-0x0000000041232fff   10444K  free
        0x0000000041233000-0x0000000041233fff       4K  early: page allocator
        0x0000000041234000-0x00000000440007ff   46898K  free
        0x0000000080000000-0x0000000080bfffff      12M  free
        0x0000000080c00000-0x0000000080dfffff       2M  early: the tables of stage 2
        0x0000000080e00000-0x0000000080ffcfff    2036K  free
        0x0000000080ffd000-0x0000000080ffffff      12K  early: tables
    "#]]
    .assert_eq(&early.map().to_string());
}

#[test]
fn refusals_change_nothing() {
    let mut map = map();
    let before = map.pieces().to_vec();
    let mut early = EarlyAllocator::new(&mut map, PageSize::Size16K);
    let page = Request::page(PageSize::Size16K, Purpose::Tables);
    let requests = [
        Request { size_bytes: 65 * MIB, ..page },
        Request { below: PhysAddr::new(0x4000_4000), ..page },
        Request { alignment_bytes: 1 << 40, ..page },
        Request { size_bytes: 0, ..page },
        Request { size_bytes: u64::MAX, ..page },
        Request { alignment_bytes: 0, ..page },
        Request { alignment_bytes: 0x3000, from: End::Bottom, ..page },
    ];
    let errors: Vec<String> = requests.iter().map(|request| early.allocate(request).unwrap_err().to_string()).collect();
    expect![[r#"
        no room is free for tables: wanted 65M aligned to 16K below 0x0010000000000000
        no room is free for tables: wanted 16K aligned to 16K below 0x0000000040004000
        no room is free for tables: wanted 16K aligned to 1T below 0x0010000000000000
        no such size or alignment can be for tables: wanted 0B aligned to 16K below 0x0010000000000000
        no such size or alignment can be for tables: wanted ~16383P aligned to 16K below 0x0010000000000000
        no such size or alignment can be for tables: wanted 16K aligned to 0B below 0x0010000000000000
        no such size or alignment can be for tables: wanted 16K aligned to 12K below 0x0010000000000000"#]]
    .assert_eq(&errors.join("\n"));
    assert_eq!(map.pieces(), before);
}

#[test]
fn a_full_map_refuses() {
    let mut map = MemoryMap::new();
    for index in 0..126 {
        map.insert(range(index * MIB, 0x1000), Kind::Image).unwrap();
    }
    map.insert(range(0x4000_0000, MIB), Kind::Free).unwrap();
    let mut early = EarlyAllocator::new(&mut map, PageSize::Size4K);
    let page = Request::page(PageSize::Size4K, Purpose::Tables);
    assert_eq!(early.allocate(&page), Err(EarlyError::MapFull(page)));
}

#[test]
fn the_rest_is_handed_over() {
    let mut map = map();
    let layout = Layout::new(PageSize::Size4K, map.mapped(PageSize::Size4K));
    let mut notes = vec![0; layout.words()];
    let mut buddy = Buddy::new(&layout, &mut notes).unwrap();
    let mut early = EarlyAllocator::new(&mut map, PageSize::Size4K);
    early.allocate(&Request { size_bytes: 7 * MIB, ..Request::page(PageSize::Size4K, Purpose::Tables) }).unwrap();
    let bytes = early.hand_over(&mut buddy).unwrap();
    // The first bank begins and ends in the middle of a page.
    assert_eq!(bytes, 80 * MIB - 0x1000 - 6 * MIB - 7 * MIB);
    assert_eq!(buddy.free_bytes(), bytes);
    expect!["68604K free, 0B given out; free blocks: 1 of 4K, 1 of 8K, 1 of 16K, 1 of 32K, 1 of 64K, 1 of 128K, 1 of 256K, 1 of 512K, 2 of 1M, 2 of 8M, 1 of 16M, 1 of 32M"].assert_eq(&buddy.to_string());
}

fn requests() -> impl Strategy<Value = Request> {
    (1..300_000u64, 0..22u32, any::<bool>(), 0x4000_0000..0x8200_0000u64).prop_map(|(size_bytes, shift, top, below)| {
        Request {
            size_bytes,
            alignment_bytes: 1 << shift,
            below: PhysAddr::new(below),
            from: if top { End::Top } else { End::Bottom },
            purpose: Purpose::Tables,
        }
    })
}

proptest! {
    #[test]
    fn what_is_given_was_free_and_is_as_wanted(requests in prop::collection::vec(requests(), 0..40), size in 0..3usize) {
        let page_size = PageSize::ALL[size];
        let mut map = map();
        let mut given: Vec<kerncore::range::PhysicalRange> = Vec::new();
        for request in requests {
            let free: Vec<_> = map.free(page_size).collect();
            let mut early = EarlyAllocator::new(&mut map, page_size);
            let Ok(range) = early.allocate(&request) else { continue };
            prop_assert!(free.iter().any(|free| free.covers(&range)));
            prop_assert!(given.iter().all(|other| !other.overlaps(&range)));
            prop_assert!(range.start.is_aligned(request.alignment_bytes.max(page_size.size_bytes())));
            prop_assert!(range.end <= request.below);
            prop_assert_eq!(range.size_bytes(), request.size_bytes.next_multiple_of(page_size.size_bytes()));
            given.push(range);
        }
        let total: u64 = given.iter().map(|range| range.size_bytes()).sum();
        prop_assert_eq!(EarlyAllocator::new(&mut map, page_size).all_given_bytes(), total);
    }
}
