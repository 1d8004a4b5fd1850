//! Every call of a linear map, with addresses and sizes at the bounds of all numbers: nothing overflows, and what is refused has changed nothing.

use crate::common;

use std::ops::Range;

use common::{DATA, GIB, Live, Plan, cpu, leaves, paint_and_make, painted, tables};
use seed::Seed;
use vellum_linearmap::{Context, Wanted};
use vellum_vmsa::{BbmLevel, Granule, Granule4K, Granule16K, Granule64K, VirtAddr};

const FROM: u64 = GIB;
const TO: u64 = GIB + (256 << 20);

/// An address at a bound, mostly of a page.
fn address<G: Granule>(map: &Live<G>, seed: &mut Seed) -> u64 {
    let (base, page) = (map.view().geometry().base(), G::SIZE_BYTES);
    let bound = match seed.below(6) {
        0 => base,
        1 => base + FROM,
        2 => base + TO,
        3 => 0,
        _ => 1 << seed.below(64),
    };
    let beside = *seed.pick(&[0, 1, page, 2 * page, 17 * page, 2 << 20]);
    let number = bound.wrapping_add(if seed.one_in(2) { beside } else { beside.wrapping_neg() });
    if seed.one_in(8) { number } else { number & !(page - 1) }
}

fn range<G: Granule>(map: &Live<G>, seed: &mut Seed) -> Range<VirtAddr> {
    let (start, end) = (address(map, seed), address(map, seed));
    // A few pages as often as all between two bounds.
    let end = if seed.one_in(2) { end } else { start.wrapping_add(seed.below(4) * G::SIZE_BYTES) };
    VirtAddr::new(start)..VirtAddr::new(end)
}

fn wanted<G: Granule>(map: &Live<G>, seed: &mut Seed) -> Wanted {
    let displacement = address(map, seed);
    *seed.pick(&[
        Wanted::ReadOnly,
        Wanted::Writable,
        Wanted::Executable,
        Wanted::NotExecutable,
        Wanted::ReadOnlyExecutable,
        Wanted::Hidden,
        Wanted::Shown,
        Wanted::Default,
        Wanted::Absent,
        Wanted::Present { displacement, attributes: DATA },
        Wanted::Leading { displacement, attributes: DATA },
    ])
}

/// A call. Whether it was refused.
fn call<G: Granule>(map: &Live<G>, seed: &mut Seed) -> bool {
    let context = *seed.pick(&[Context::MayWait, Context::Atomic]);
    let (first, second) = ([range(map, seed)], [range(map, seed), range(map, seed)]);
    let (one, other) = (wanted(map, seed), wanted(map, seed));
    match seed.below(6) {
        0 | 1 => map.change(&first, one, context).is_err(),
        2 => map.change(&second, one, context).is_err(),
        3 => map.change_all(&[(&first, one), (&second, other)], context).is_err(),
        4 => map.remove(&second).is_err(),
        _ => map.add(&first, address(map, seed), DATA).is_err(),
    }
}

/// What is asked of addresses and numbers, and changes no leaf.
fn ask<G: Granule>(map: &Live<G>, seed: &mut Seed) {
    let number = address(map, seed);
    let _ = map.is_present(VirtAddr::new(number));
    match seed.below(3) {
        0 => _ = map.heal(number as usize),
        1 => map.heal_all(),
        // Of so many tables as there are numbers all are fetched that there are.
        _ => _ = map.set_reserve(seed.index(9)),
    }
}

fn run<G: Granule>(input_bits: u32, number: u64) {
    let mut seed = Seed::new(number);
    let level = *seed.pick(&[BbmLevel::Level0, BbmLevel::Level2, BbmLevel::Level3]);
    let map = painted::<G>(&Plan { input_bits, ..Plan::one(FROM, TO) }, cpu(level));
    map.embedder().parks.set(true);
    map.start_others();
    for _ in 0..60 {
        let before = (leaves(&map), tables(&map));
        if call(&map, &mut seed) {
            assert!((leaves(&map), tables(&map)) == before, "a refused change is half made");
        }
        ask(&map, &mut seed);
    }
}

#[test]
fn no_address_and_no_size_is_too_large() {
    for input_bits in [36, 39, 48, 52] {
        for number in 0..5 {
            run::<Granule4K>(input_bits, number);
            run::<Granule16K>(input_bits, number);
            run::<Granule64K>(input_bits, number);
        }
    }
}

/// A map of memory that lies, or whose range lies, at a bound.
#[test]
fn no_bank_and_no_range_is_too_large() {
    let bounds = [0, 1, 0x1000, 1 << 38, 1 << 39, 1 << 47, 1 << 48, 1 << 52, 1 << 63, u64::MAX - 0xfff, u64::MAX];
    for start in bounds {
        for end in bounds {
            let range = Some(VirtAddr::new(start)..VirtAddr::new(end));
            let made = paint_and_make::<Granule4K>(&Plan { range, ..Plan::one(FROM, TO) }, cpu(BbmLevel::Level3));
            assert!(made.is_err() || end.wrapping_sub(start) <= 1 << 39, "{start:#x} to {end:#x}");
        }
    }
}
