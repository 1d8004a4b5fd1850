//! Random changes against a naive model: what each page may do, page by page.

use crate::common;

use std::ops::Range;

use common::{DATA, GIB, Live, MIB, Plan, at, cpu, leaves, painted, region, tables};
use proptest::prelude::*;
use vellum_linearmap::{Context, Wanted};
use vellum_vmsa::{BbmLevel, Descriptor, Granule, Granule4K, Granule16K, Granule64K, Stage1Attributes};

/// What a page may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct May {
    write: bool,
    execute: bool,
    see: bool,
}

impl May {
    fn after(self, wanted: Wanted) -> Self {
        match wanted {
            Wanted::ReadOnly => Self { write: false, ..self },
            Wanted::Writable => Self { write: true, ..self },
            Wanted::Executable => Self { execute: true, ..self },
            Wanted::NotExecutable => Self { execute: false, ..self },
            Wanted::ReadOnlyExecutable => Self { write: false, execute: true, ..self },
            Wanted::Hidden => Self { see: false, ..self },
            Wanted::Shown => Self { see: true, ..self },
            Wanted::Default => Self { see: true, write: true, ..self },
            Wanted::Leading { .. } | Wanted::Present { .. } | Wanted::Absent => unreachable!("not among `Wanted::ALL`"),
        }
    }

    fn of(leaf: Descriptor) -> Self {
        let has = |attribute: Stage1Attributes| leaf.bits() & attribute.bits() != 0;
        assert!(has(Stage1Attributes::AF) && !has(Stage1Attributes::DBM) && has(Stage1Attributes::UXN));
        Self { write: !has(Stage1Attributes::READ_ONLY), execute: !has(Stage1Attributes::PXN), see: leaf.is_valid() }
    }
}

/// Memory of more than one bank: a page before a block, whole blocks, a read-only part, a hole.
fn plan(page_bytes: u64) -> Plan {
    let image = GIB + 64 * MIB..GIB + 66 * MIB;
    Plan {
        regions: vec![
            region(GIB - page_bytes, image.start, DATA),
            region(image.start, image.end, DATA.union(Stage1Attributes::READ_ONLY)),
            region(image.end, 2 * GIB + 36 * MIB + 3 * page_bytes, DATA),
            region(3 * GIB, 3 * GIB + 2 * MIB, DATA),
        ],
        ..Plan::one(0, 0)
    }
}

/// The pages of a plan, each at its place.
fn pages(plan: &Plan, page_bytes: u64) -> Vec<u64> {
    let regions = plan.regions.iter().map(|region| region.physical.start.bits()..region.physical.end.bits());
    regions.flat_map(|range| range.step_by(page_bytes as usize)).collect()
}

struct Model {
    pages: Vec<u64>,
    page_bytes: u64,
    may: Vec<May>,
}

impl Model {
    fn new(plan: &Plan, page_bytes: u64) -> Self {
        let pages = pages(plan, page_bytes);
        let is_image = |page: &u64| (GIB + 64 * MIB..GIB + 66 * MIB).contains(page);
        let may = pages.iter().map(|page| May { write: !is_image(page), execute: false, see: true }).collect();
        Self { pages, page_bytes, may }
    }

    /// The places of pages from `start` on, if all are there.
    fn find(&self, range: &Range<u64>) -> Option<Range<usize>> {
        let first = self.pages.binary_search(&range.start).ok()?;
        let count = ((range.end - range.start) / self.page_bytes) as usize;
        let last = self.pages.get(first + count - 1)?;
        (last + self.page_bytes == range.end).then_some(first..first + count)
    }

    fn check<G: Granule>(&self, map: &Live<G>) {
        let mut place = 0;
        for (start, bytes, leaf) in leaves(map) {
            let may = May::of(leaf);
            for page in (start..start + bytes).step_by(self.page_bytes as usize) {
                assert_eq!((self.pages[place], self.may[place]), (page, may), "{page:#x} in the leaf at {start:#x}");
                place += 1;
            }
        }
        assert_eq!(place, self.pages.len(), "pages that are not mapped");
    }
}

/// A change: what, from which page, how many, in how many places, where from.
#[derive(Clone, Debug)]
struct Step {
    wanted: Wanted,
    ranges: Vec<(prop::sample::Index, u32)>,
    is_atomic: bool,
    heals: u8,
}

fn step() -> impl Strategy<Value = Step> {
    // Mostly one page, seldom very many: lengths go up by powers of two.
    let range = (any::<prop::sample::Index>(), prop_oneof![3 => 0u32..1, 2 => 0u32..19]);
    let ranges = prop::collection::vec(range, 1..4);
    (prop::sample::select(&Wanted::ALL), ranges, any::<bool>(), 0u8..5)
        .prop_map(|(wanted, ranges, is_atomic, heals)| Step { wanted, ranges, is_atomic, heals })
}

fn run<G: Granule>(level: BbmLevel, steps: &[Step]) {
    let input_bits = [36, 39, 48, 52][steps.len() % 4];
    let plan = Plan { input_bits, ..plan(G::SIZE_BYTES) };
    let map = painted::<G>(&plan, cpu(level));
    assert!(map.refill());
    let (first, tables_at_first) = (leaves(&map), tables(&map));
    let held = map.embedder().out.get();
    let mut model = Model::new(&plan, G::SIZE_BYTES);
    model.check(&map);
    for step in steps {
        let ranges: Vec<_> = step
            .ranges
            .iter()
            .map(|(index, log)| {
                let start = *index.get(&model.pages);
                // As many as a size would align to, from there on.
                start..start + (G::SIZE_BYTES << log)
            })
            .collect();
        let asked: Vec<_> = ranges.iter().map(|range| at(&map, range.start, range.end - range.start)).collect();
        let places: Option<Vec<_>> = ranges.iter().map(|range| model.find(range)).collect();
        let context = if step.is_atomic { Context::Atomic } else { Context::MayWait };
        let changed = map.change(&asked, step.wanted, context);
        match places {
            Some(places) => {
                changed.unwrap();
                for place in places.into_iter().flatten() {
                    model.may[place] = model.may[place].after(step.wanted);
                }
            }
            None => assert!(changed.is_err(), "{ranges:x?} has a hole"),
        }
        model.check(&map);
        map.refill();
        match step.heals {
            0 => map.heal_all(),
            heals => (1..heals).for_each(|_| _ = map.heal(3)),
        }
        model.check(&map);
    }
    // Everything as it was: then the map is as it was, leaf for leaf, and every table is where it was.
    let everything: Vec<_> = plan
        .regions
        .iter()
        .map(|region| at(&map, region.physical.start.bits(), region.physical.end - region.physical.start))
        .collect();
    map.set_direct_map_default(&everything, Context::MayWait).unwrap();
    map.set_memory_nx(&everything, Context::MayWait).unwrap();
    map.set_memory_ro(&everything[1..2], Context::MayWait).unwrap();
    map.heal_all();
    assert_eq!(leaves(&map), first);
    assert_eq!((tables(&map), map.embedder().out.get()), (tables_at_first, held));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_page_is_as_asked_and_healing_makes_the_map_whole_4k(
        steps in prop::collection::vec(step(), 1..12), tolerates in any::<bool>(),
    ) {
        run::<Granule4K>(if tolerates { BbmLevel::Level3 } else { BbmLevel::Level0 }, &steps);
    }

    #[test]
    fn every_page_is_as_asked_and_healing_makes_the_map_whole_16k(
        steps in prop::collection::vec(step(), 1..12), tolerates in any::<bool>(),
    ) {
        run::<Granule16K>(if tolerates { BbmLevel::Level3 } else { BbmLevel::Level1 }, &steps);
    }

    #[test]
    fn every_page_is_as_asked_and_healing_makes_the_map_whole_64k(
        steps in prop::collection::vec(step(), 1..12), tolerates in any::<bool>(),
    ) {
        run::<Granule64K>(if tolerates { BbmLevel::Level3 } else { BbmLevel::Level0 }, &steps);
    }
}
