//! Every public call that takes addresses, with those at the bounds of all numbers: nothing overflows, and what is refused has changed nothing.

use crate::common;

use std::ops::{ControlFlow, Range};

use common::{DATA, KERNEL, Table, leaves, live_at, shape};
use seed::Seed;
use vellum_pagetable::{Change, CopyEdit, El1, Licence, Memory, Reserve, Summary};
use vellum_vmsa::{
    AddressHalf, Geometry, Granule, Granule4K, Granule16K, Granule64K, LeafSize, PhysAddr, Stage1Attributes, VirtAddr,
};

/// Bytes of a range that is mapped leaf by leaf.
const FEW: u64 = 1 << 28;

/// A number at a bound of a page table's addresses, or of all numbers, mostly of a page.
fn number<G: Granule>(geometry: Geometry<G>, seed: &mut Seed) -> u64 {
    let page = G::SIZE_BYTES;
    let bound = match seed.below(6) {
        0 => geometry.base(),
        1 => geometry.base().wrapping_add(geometry.input_bytes()),
        2 => geometry.base().wrapping_add(FEW),
        3 => 0,
        _ => 1 << seed.below(64),
    };
    let beside = *seed.pick(&[0, 1, page, 2 * page, 17 * page, page << G::INDEX_BITS]);
    let number = bound.wrapping_add(if seed.one_in(2) { beside } else { beside.wrapping_neg() });
    if seed.one_in(8) { number } else { number & !(page - 1) }
}

fn range<G: Granule>(geometry: Geometry<G>, seed: &mut Seed) -> Range<VirtAddr> {
    let (start, end) = (number(geometry, seed), number(geometry, seed));
    let end = if seed.one_in(2) { end } else { start.wrapping_add(seed.below(40) * G::SIZE_BYTES) };
    VirtAddr::new(start)..VirtAddr::new(end)
}

fn change<G: Granule>(geometry: Geometry<G>, seed: &mut Seed) -> Change<El1> {
    let (from, to) = (range(geometry, seed), PhysAddr::new(number(geometry, seed)));
    let (set, clear, attributes) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty(), DATA);
    let largest = if seed.one_in(2) { LeafSize::LARGEST } else { LeafSize::PAGE };
    let is_few = from.end.bits().wrapping_sub(from.start.bits()) <= FEW;
    match seed.below(13) {
        0..=2 if is_few => Change::Map { from, to, attributes, largest },
        3 if is_few => Change::Remap { from, to, attributes, largest },
        4 => Change::Protect { from, set, clear },
        5 => Change::ProtectSparse { from, set, clear },
        6 => Change::UnmapMapped { from },
        7 => Change::MakeInvalid { from },
        8 => Change::MakeValid { from },
        9 => {
            if seed.one_in(2) {
                Change::Age { from }
            } else {
                Change::Clean { from }
            }
        }
        10 => Change::SplitToPages { from },
        11 => {
            if seed.one_in(2) {
                Change::Collapse { from }
            } else {
                Change::Split { at: from.start }
            }
        }
        _ => Change::Unmap { from },
    }
}

/// Plans changes, and makes them if that takes few tables. Whether they were refused.
fn edit<G: Granule>(table: &mut Table<'_, G>, memory: &Memory, seed: &mut Seed) -> bool {
    let geometry = table.geometry();
    let all = [change(geometry, seed), change(geometry, seed)];
    let changes = if seed.one_in(3) { &all[..] } else { &all[..1] };
    let licence = Licence::break_before_make(&());
    let mut gather = table.gather();
    let Ok(mut plan) = table.plan(changes, Some(&licence)) else { return true };
    let mut reserve = Reserve::new();
    let is_refused = plan.tables_needed() > 8;
    if !is_refused {
        memory.supply::<G>(&mut reserve, plan.tables_needed());
        plan.apply(&mut reserve, &mut gather).unwrap();
        let _ = gather.finish(memory);
    }
    is_refused
}

/// What is asked of addresses, and changes nothing.
fn look<G: Granule>(table: &mut Table<'_, G>, seed: &mut Seed) {
    let (geometry, view) = (table.geometry(), table.view());
    let (range, at) = (range(geometry, seed), VirtAddr::new(number(geometry, seed)));
    let is_inside = |at: VirtAddr| geometry.offset(at.bits()).is_some();
    assert!(is_inside(at) || view.translate(at).is_none() && view.find(at).is_none() && view.find_hole(at).is_none());
    assert!(is_inside(at) || view.path(at).next().is_none());
    let sees = |input: VirtAddr| {
        assert!(is_inside(input), "{input} is outside");
        ControlFlow::<()>::Continue(())
    };
    let seen = [
        view.for_each(range.clone(), |entry| sees(entry.input)).is_ok(),
        view.for_each_run(range.clone(), |entry, _| sees(entry.input)).is_ok(),
        Summary::read(&view, range.clone()).is_ok(),
        table.tables_to_copy(range.clone()).is_ok(),
    ];
    let is_range = geometry.offsets(range.start.bits(), range.end.bits()).is_some();
    assert!(is_range || !seen.contains(&true), "{range:?} is no range: {seen:?}");
    let edit = CopyEdit { set: Stage1Attributes::READ_ONLY, clear: Stage1Attributes::empty(), licence: None };
    assert!(is_range || table.plan_copy(std::iter::once(range), edit).is_err());
}

/// Calls about one page or one group. Whether nothing was done.
fn one<G: Granule>(table: &mut Table<'_, G>, memory: &Memory, seed: &mut Seed) -> bool {
    let geometry = table.geometry();
    let (at, to) = (VirtAddr::new(number(geometry, seed)), PhysAddr::new(number(geometry, seed)));
    let licence = Licence::break_before_make(&());
    let mut gather = table.gather();
    let is_done = match seed.below(6) {
        0 => table.protect_page(at, Stage1Attributes::READ_ONLY, Stage1Attributes::empty(), Some(&licence)),
        1 => table.make_page_valid(at, seed.one_in(2), Some(&licence)),
        2 => table.map_page(at, to, DATA),
        3 => table.map_group(at, to, DATA),
        4 => table.split_group(at, &licence),
        _ => {
            let _ = table.is_group_empty(at);
            table.fold_up(at, &range(geometry, seed), None, &mut gather);
            true
        }
    };
    let _ = gather.finish(memory);
    !is_done
}

fn run<G: Granule>(bits: u32, half: AddressHalf, seed: &mut Seed) {
    let (memory, geometry) = (Memory::new(), shape::<G>(bits, half));
    let mut table = live_at(&memory, geometry, KERNEL, &[]);
    for _ in 0..40 {
        let before = leaves(&table);
        let is_refused = if seed.one_in(4) { one(&mut table, &memory, seed) } else { edit(&mut table, &memory, seed) };
        assert!(!is_refused || leaves(&table) == before, "what was refused has changed something");
        look(&mut table, seed);
    }
}

#[test]
fn no_address_and_no_size_is_too_large() {
    let mut seed = Seed::new(43);
    for bits in [36, 39, 48, 52] {
        for half in [AddressHalf::Lower, AddressHalf::Upper] {
            for _ in 0..6 {
                run::<Granule4K>(bits, half, &mut seed);
                run::<Granule16K>(bits, half, &mut seed);
                run::<Granule64K>(bits, half, &mut seed);
            }
        }
    }
}
