extern crate std;

use super::*;
use crate::{Granule4K, Granule16K, Granule64K};

fn shape<G: Granule>(bits: u32, layout: Layout) -> (i8, usize) {
    let geometry = Geometry::<G>::new(bits, layout, AddressHalf::Upper).unwrap();
    (geometry.start().number(), geometry.root_entries())
}

/// TCR_ELx.TnSZ and the initial lookup level: D8.2.9 and its tables.
#[test]
fn start_levels_match_the_manual() {
    assert_eq!(shape::<Granule4K>(39, Layout::Bits48), (1, 512));
    assert_eq!(shape::<Granule4K>(48, Layout::Bits48), (0, 512));
    assert_eq!(shape::<Granule4K>(52, Layout::Lpa2), (-1, 16));
    assert_eq!(shape::<Granule16K>(36, Layout::Bits48), (2, 2048));
    assert_eq!(shape::<Granule16K>(47, Layout::Bits48), (1, 2048));
    assert_eq!(shape::<Granule16K>(48, Layout::Bits48), (0, 2));
    assert_eq!(shape::<Granule16K>(52, Layout::Lpa2), (0, 32));
    assert_eq!(shape::<Granule64K>(42, Layout::Bits48), (2, 8192));
    assert_eq!(shape::<Granule64K>(48, Layout::Bits48), (1, 64));
    assert_eq!(shape::<Granule64K>(52, Layout::Lpa), (1, 1024));
}

#[test]
fn every_width_has_a_root_that_covers_it_exactly() {
    fn check<G: Granule>(layout: Layout, largest: u32) {
        for bits in 25..=largest {
            let geometry = Geometry::<G>::new(bits, layout, AddressHalf::Lower).unwrap();
            let covered = (geometry.root_entries() as u64) << Geometry::<G>::shift(geometry.start());
            assert_eq!(covered, geometry.input_bytes());
            assert!((2..=G::ENTRIES).contains(&geometry.root_entries()));
        }
        let error = Geometry::<G>::new(largest + 1, layout, AddressHalf::Lower).unwrap_err();
        assert_eq!(error, GeometryError::InputBits { asked: largest + 1, largest });
    }
    check::<Granule4K>(Layout::Bits48, 48);
    check::<Granule4K>(Layout::Lpa2, 52);
    check::<Granule16K>(Layout::Bits48, 48);
    check::<Granule16K>(Layout::Lpa2, 52);
    check::<Granule64K>(Layout::Bits48, 52);
    check::<Granule64K>(Layout::Lpa, 52);
}

#[test]
fn no_root_stands_higher_than_the_highest() {
    fn check<G: Granule>(layout: Layout) {
        let stage1 = (25..=52).filter_map(|bits| Geometry::<G>::new(bits, layout, AddressHalf::Lower).ok());
        let shapes = (25..=52).flat_map(|bits| Level::ALL.map(|start| (bits, start)));
        let stage2 = shapes.filter_map(|(bits, start)| Geometry::<G>::stage2(bits, start, layout).ok());
        let highest = stage1.chain(stage2).map(Geometry::start).min();
        assert_eq!(highest, Some(G::PAGE_SIZE.highest_root(layout)), "{} {layout:?}", G::PAGE_SIZE);
    }
    check::<Granule4K>(Layout::Bits48);
    check::<Granule4K>(Layout::Lpa2);
    check::<Granule16K>(Layout::Bits48);
    check::<Granule16K>(Layout::Lpa2);
    check::<Granule64K>(Layout::Bits48);
    check::<Granule64K>(Layout::Lpa);
}

#[test]
fn layouts_belong_to_granules() {
    assert!(Geometry::<Granule4K>::new(48, Layout::Lpa, AddressHalf::Lower).is_err());
    assert!(Geometry::<Granule64K>::new(48, Layout::Lpa2, AddressHalf::Lower).is_err());
    assert!(Geometry::<Granule16K>::new(24, Layout::Bits48, AddressHalf::Lower).is_err());
}

#[test]
fn offsets_cover_the_half_to_its_last_byte() {
    let upper = Geometry::<Granule4K>::new(39, Layout::Bits48, AddressHalf::Upper).unwrap();
    assert_eq!(upper.base(), 0xffff_ff80_0000_0000);
    assert_eq!(upper.offset(0xffff_ff80_0000_1000), Some(0x1000));
    assert_eq!(upper.offset(0xffff_ff7f_ffff_f000), None);
    assert_eq!(upper.offsets(0xffff_ffff_ffff_f000, 0), Some((0x7f_ffff_f000, 0x80_0000_0000)));
    assert_eq!(upper.offsets(0xffff_ffff_ffff_f000, 0x1000), None);
    let lower = Geometry::<Granule4K>::new(39, Layout::Bits48, AddressHalf::Lower).unwrap();
    assert_eq!(lower.offsets(0, 0x80_0000_0000), Some((0, 0x80_0000_0000)));
    assert_eq!(lower.offsets(0, 0x80_0000_1000), None);
    assert_eq!(lower.offsets(0x2000, 0x1000), None);
    assert_eq!(lower.offsets(0x80_0000_0000, 0x80_0000_0000), None);
    assert_eq!(lower.index(Level::L1, 0x7f_ffff_ffff), 511);
    assert_eq!(lower.index(Level::L3, 0x20_3000), 3);
    assert_eq!(lower.table_end(Level::L3, 0x20_3007), 0x40_0000);
    assert_eq!(lower.table_end(Level::L1, 0x20_3007), 0x80_0000_0000);
}

/// (granule, layout, input bits, level, root descriptors, tables): D8.2.10 and the tables of VTCR_EL2.SL0.
#[test]
fn stage_2_roots_match_the_manual() {
    fn check<G: Granule>(bits: u32, layout: Layout, start: i8, entries: usize, tables: usize) {
        let geometry = Geometry::<G>::stage2(bits, Level::new(start).unwrap(), layout).unwrap();
        assert_eq!((geometry.root_entries(), geometry.root_tables()), (entries, tables), "{bits} {layout:?} {start}");
        assert_eq!(geometry.root_bytes(), entries as u64 * 8);
        assert_eq!(geometry.index(geometry.start(), geometry.input_bytes() - 1), entries - 1);
        assert_eq!(geometry.table_end(geometry.start(), 0), geometry.input_bytes());
    }
    check::<Granule4K>(32, Layout::Bits48, 1, 4, 1);
    check::<Granule4K>(32, Layout::Bits48, 2, 2048, 4);
    check::<Granule4K>(34, Layout::Bits48, 2, 8192, 16);
    check::<Granule4K>(40, Layout::Bits48, 1, 1024, 2);
    check::<Granule4K>(43, Layout::Bits48, 1, 8192, 16);
    check::<Granule4K>(48, Layout::Bits48, 0, 512, 1);
    check::<Granule4K>(52, Layout::Lpa2, 0, 8192, 16);
    check::<Granule4K>(52, Layout::Lpa2, -1, 16, 1);
    check::<Granule16K>(40, Layout::Bits48, 2, 32768, 16);
    check::<Granule16K>(40, Layout::Bits48, 1, 16, 1);
    check::<Granule16K>(48, Layout::Bits48, 1, 4096, 2);
    check::<Granule16K>(51, Layout::Lpa2, 1, 32768, 16);
    check::<Granule16K>(52, Layout::Lpa2, 0, 32, 1);
    check::<Granule64K>(46, Layout::Bits48, 2, 131_072, 16);
    check::<Granule64K>(48, Layout::Bits48, 1, 64, 1);
    check::<Granule64K>(52, Layout::Lpa, 1, 1024, 1);
}

#[test]
fn stage_2_roots_that_no_granule_has_are_refused() {
    fn refuses<G: Granule>(bits: u32, layout: Layout, start: Level) {
        let error = Geometry::<G>::stage2(bits, start, layout).unwrap_err();
        assert!(matches!(error, GeometryError::StartLevel { asked, .. } if asked == bits), "{error}");
    }
    refuses::<Granule4K>(44, Layout::Bits48, Level::L1);
    refuses::<Granule4K>(39, Layout::Bits48, Level::L0);
    refuses::<Granule4K>(48, Layout::Bits48, Level::MINUS_1);
    refuses::<Granule16K>(48, Layout::Bits48, Level::L0);
    refuses::<Granule16K>(52, Layout::Lpa2, Level::L1);
    refuses::<Granule16K>(52, Layout::Lpa2, Level::MINUS_1);
    refuses::<Granule64K>(48, Layout::Bits48, Level::L2);
    refuses::<Granule64K>(48, Layout::Lpa, Level::L0);
    let wide = Geometry::<Granule64K>::stage2(52, Level::L1, Layout::Bits48);
    assert_eq!(wide, Err(GeometryError::InputBits { asked: 52, largest: 48 }));
}

/// (granule, layout, level, a width that is refused, what is translated from there): D8.2.10.
#[test]
fn a_refused_root_says_what_its_level_translates() {
    fn check<G: Granule>(layout: Layout, start: i8, asked: u32, translates: Option<(u32, u32)>) {
        let start = Level::new(start).unwrap();
        let error = Geometry::<G>::stage2(asked, start, layout);
        assert_eq!(error, Err(GeometryError::StartLevel { asked, start, translates }));
    }
    check::<Granule4K>(Layout::Bits48, 3, 26, Some((13, 25)));
    check::<Granule4K>(Layout::Bits48, 2, 35, Some((22, 34)));
    check::<Granule4K>(Layout::Bits48, 1, 44, Some((31, 43)));
    check::<Granule4K>(Layout::Bits48, 0, 39, Some((40, 48)));
    check::<Granule4K>(Layout::Bits48, -1, 48, None);
    check::<Granule4K>(Layout::Lpa2, 0, 39, Some((40, 52)));
    check::<Granule4K>(Layout::Lpa2, -1, 48, Some((49, 52)));
    check::<Granule16K>(Layout::Bits48, 3, 30, Some((15, 29)));
    check::<Granule16K>(Layout::Bits48, 1, 36, Some((37, 48)));
    check::<Granule16K>(Layout::Bits48, 0, 48, None);
    check::<Granule16K>(Layout::Lpa2, 0, 47, Some((48, 52)));
    check::<Granule16K>(Layout::Lpa2, 1, 52, Some((37, 51)));
    check::<Granule16K>(Layout::Lpa2, -1, 52, None);
    check::<Granule64K>(Layout::Bits48, 2, 47, Some((30, 46)));
    check::<Granule64K>(Layout::Bits48, 1, 42, Some((43, 48)));
    check::<Granule64K>(Layout::Lpa, 1, 42, Some((43, 52)));
    check::<Granule64K>(Layout::Lpa, 0, 52, None);
    check::<Granule64K>(Layout::Lpa, -1, 52, None);
}

/// The widths whose roots stand highest, and one level below, of descriptors that hold 48 bits.
#[test]
fn usual_shapes_are_those_of_the_highest_roots_and_of_those_below() {
    fn check<G: Granule>(highest: std::ops::RangeInclusive<u32>, below: std::ops::RangeInclusive<u32>) {
        for bits in 25..=48 {
            for half in [AddressHalf::Lower, AddressHalf::Upper] {
                let shape = Geometry::<G>::new(bits, Layout::Bits48, half).unwrap();
                let expected = (highest.contains(&bits), below.contains(&bits));
                assert_eq!((shape.is_usual(), shape.is_usual_below()), expected, "{} {bits}", G::PAGE_SIZE);
            }
            let wide = if G::SHIFT == 16 { Layout::Lpa } else { Layout::Lpa2 };
            let shape = Geometry::<G>::new(bits, wide, AddressHalf::Lower).unwrap();
            assert!(!shape.is_usual() && !shape.is_usual_below(), "{} {bits}", G::PAGE_SIZE);
        }
    }
    check::<Granule4K>(40..=48, 31..=39);
    check::<Granule16K>(48..=48, 37..=47);
    check::<Granule64K>(43..=48, 30..=42);
}

/// Every granule, layout, level and width: what is made covers its input exactly, by no more than 16 tables.
#[test]
fn stage_2_translates_no_more_than_its_outputs_have() {
    let shape = |half| Geometry::<Granule64K>::new(52, Layout::Bits48, half).unwrap();
    assert!(!shape(AddressHalf::Lower).is_stage2());
    let shape = |half| Geometry::<Granule64K>::new(48, Layout::Bits48, half).unwrap();
    assert!(shape(AddressHalf::Lower).is_stage2() && !shape(AddressHalf::Upper).is_stage2());
}

#[test]
fn every_stage_2_shape_is_covered_by_its_root() {
    fn check<G: Granule>(layout: Layout) -> usize {
        let all = (0..64).flat_map(|bits| Level::ALL.map(|start| Geometry::<G>::stage2(bits, start, layout)));
        all.flatten()
            .map(|geometry| {
                let covered = (geometry.root_entries() as u64) << Geometry::<G>::shift(geometry.start());
                assert_eq!(covered, geometry.input_bytes());
                assert!((2..=16 * G::ENTRIES).contains(&geometry.root_entries()), "{geometry:?}");
                assert!((1..=16).contains(&geometry.root_tables()), "{geometry:?}");
            })
            .count()
    }
    let counts = [
        check::<Granule4K>(Layout::Bits48),
        check::<Granule4K>(Layout::Lpa2),
        check::<Granule16K>(Layout::Bits48),
        check::<Granule16K>(Layout::Lpa2),
        check::<Granule64K>(Layout::Bits48),
        check::<Granule64K>(Layout::Lpa),
    ];
    // By level, from 3: 1 + 10 + 13 + 9, and 52 bits add 4 at level 0 and 4 at −1; 5 + 15 + 12, and 3 + 5; 9 + 17 + 6, and 4.
    assert_eq!(counts, [33, 41, 32, 40, 32, 36]);
}
