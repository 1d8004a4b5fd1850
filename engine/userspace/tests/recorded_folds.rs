//! How often descriptors are looked at where leaves end and fold, beside how often they were when somebody last looked: what `recorded.rs` is
//! for all calls, with folios that fill whole blocks, which its random programs seldom have.

use crate::common;
use crate::recorded::record;

use common::{Kernel, RW, Space, access, anonymous};
use seed::Seed;
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::{Advice, Frames, Kind, Place, Rights};
use vellum_vmsa::{Granule, Granule4K, Granule16K, Level};

/// A multiple of every size of a block.
const BASE: u64 = 0x1_0000_0000;

/// A part of three blocks, mostly of a group or two.
fn part<G: Granule>(seed: &mut Seed, pages: u64) -> (u64, u64) {
    let from = seed.below(pages);
    let most = if seed.one_in(8) { pages - from } else { (pages - from).min(40) };
    (BASE + (from << G::SHIFT), (1 + seed.below(most)) << G::SHIFT)
}

fn step<G: Granule>(kernel: &Kernel<G>, space: &Space<G>, seed: &mut Seed, pages: u64) {
    let (at, bytes) = part::<G>(seed, pages);
    match seed.below(16) {
        0..=5 => {
            for rights in [Rights::READ, RW] {
                space.protect(at, bytes, rights).unwrap();
            }
            (at..at + bytes)
                .step_by(G::SIZE_BYTES as usize)
                .for_each(|at| _ = access(space, at, Kind::Write, 1).unwrap());
        }
        6 => space.protect(at, bytes, *seed.pick(&[Rights::READ, Rights::empty()])).unwrap(),
        7 => space.protect(BASE, pages << G::SHIFT, *seed.pick(&[Rights::READ, RW])).unwrap(),
        8 => space.advise(at, bytes, *seed.pick(&[Advice::Cold, Advice::Free])).unwrap(),
        9 if seed.one_in(2) => space.advise(at, bytes, Advice::DontNeed).unwrap(),
        10 => drop(space.fork().unwrap()),
        11 if seed.one_in(4) => _ = kernel.take(),
        _ => _ = access(space, at, *seed.pick(&[Kind::Read, Kind::Write]), 1),
    }
}

fn run<G: Granule>(number: u64, steps: usize) -> String {
    let (kernel, mut seed) = (Kernel::<G>::new(), Seed::new(number));
    let order = G::PAGE_SIZE.contiguous_shift(Level::L3).unwrap();
    kernel.0.folio_order.set(order);
    kernel.0.tolerates.set(!number.is_multiple_of(3));
    let updates = [HardwareUpdates::None, HardwareUpdates::DirtyState][number as usize % 2];
    let (space, pages) = (kernel.try_space(updates).unwrap(), 3 << (G::SHIFT - 3));
    space.map(anonymous(Place::Fixed(BASE), pages, RW)).unwrap();
    for group in (0..pages >> order).filter(|group| group % 32 != 31 || !number.is_multiple_of(4)) {
        access(&space, BASE + (group << order << G::SHIFT), Kind::Write, group).unwrap();
    }
    let mut blocks = 0;
    for _ in 0..steps {
        step(&kernel, &space, &mut seed, pages);
        let block = BASE + (seed.below(3) << (2 * G::SHIFT - 3));
        blocks += usize::from(common::leaf_bytes(&space, block) == Some(G::SIZE_BYTES << (G::SHIFT - 3)));
    }
    let machine = &kernel.0.machine;
    let (faults, loads, tlbis) = (kernel.0.faults.get(), machine.loads.get(), machine.tlbis.get());
    format!(
        "{} {number}: {:016x} faults={faults} loads={loads} tlbis={tlbis} blocks={blocks}",
        G::PAGE_SIZE,
        machine.told()
    )
}

#[test]
fn what_folds() {
    let small = (0..8).map(|number| run::<Granule4K>(number, 40));
    let large = (0..1).map(|number| run::<Granule16K>(number, 8));
    record::compare("folds", &small.chain(large).collect::<Vec<_>>());
}
