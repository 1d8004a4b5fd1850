//! ASIDs: no two spaces that a TLB may know have the same, through as many rollovers as there may be.

use crate::common;

use std::cell::{Cell, RefCell};

use common::{Alone, Kernel};
use proptest::prelude::*;
use vellum_pagetable::{Platform, Slot};
use vellum_userspace::{Asids, Numbers};
use vellum_vmsa::maintenance::TlbiOp;
use vellum_vmsa::{Descriptor, Granule4K, Maintenance};

/// One CPU: which space its TLB knows by each ASID.
#[derive(Default)]
struct Cpu {
    known: RefCell<std::collections::BTreeMap<u16, usize>>,
    forgotten: Cell<usize>,
    steps: RefCell<Vec<Maintenance>>,
}

impl Platform for Cpu {
    fn load(&self, _: Slot) -> Descriptor {
        Descriptor::INVALID
    }

    fn store(&self, _: Slot, _: Descriptor) {}

    fn exchange(&self, _: Slot, old: Descriptor, _: Descriptor) -> Result<(), Descriptor> {
        Err(old)
    }

    fn maintain(&self, operation: Maintenance) {
        self.steps.borrow_mut().push(operation);
        if let Maintenance::Invalidate(TlbiOp::VMALLE1, _) = operation {
            self.known.borrow_mut().clear();
            self.forgotten.set(self.forgotten.get() + 1);
        }
    }
}

/// CPUs run spaces in this order: `None` is none.
fn run(bits: u32, cpus: usize, spaces: usize, switches: &[(usize, Option<usize>)]) -> u64 {
    let kernel = Kernel::<Granule4K>::new();
    let spaces: Vec<_> = (0..spaces).map(|_| kernel.space()).collect();
    let asids = Asids::<Alone<Numbers>>::new(bits, cpus).unwrap();
    let machines: Vec<Cpu> = (0..cpus).map(|_| Cpu::default()).collect();
    let mut running = vec![None; cpus];
    for &(cpu, space) in switches {
        running[cpu] = space;
        let Some(space) = space else {
            asids.leave(cpu);
            continue;
        };
        let asid = asids.switch(&machines[cpu], cpu, spaces[space].context());
        assert_ne!(asid, 0);
        assert!(u32::from(asid) < 1 << bits);
        assert_eq!(asid, spaces[space].context().asid());
        let known = machines[cpu].known.borrow().get(&asid).copied();
        assert!(known.is_none_or(|known| known == space), "CPU {cpu} knows another space by {asid}");
        machines[cpu].known.borrow_mut().insert(asid, space);
        // Who runs now runs by the ASID that TLBIs name, whatever has rolled over.
        let now: Vec<u16> = running.iter().flatten().map(|&space: &usize| spaces[space].context().asid()).collect();
        for (one, other) in running.iter().flatten().zip(&now) {
            assert!(running.iter().flatten().zip(&now).all(|(its, asid)| (its == one) == (asid == other)));
        }
    }
    asids.rollovers()
}

#[test]
fn numbers_run_out_and_begin_again() {
    // CPU 1 runs one space all the while; CPU 0 runs others, more than there are numbers for.
    let mut switches = vec![(1, Some(0))];
    switches.extend((1..600).map(|space| (0, Some(space % 599 + 1))));
    assert_eq!(run(8, 2, 600, &switches), 2);
    assert_eq!(run(16, 2, 600, &switches), 0);
}

#[test]
fn a_cpu_forgets_before_it_runs_what_is_new() {
    let kernel = Kernel::<Granule4K>::new();
    let asids = Asids::<Alone<Numbers>>::new(8, 2).unwrap();
    let (cpus, spaces) = ([Cpu::default(), Cpu::default()], (0..257).map(|_| kernel.space()).collect::<Vec<_>>());
    asids.switch(&cpus[1], 1, spaces[256].context());
    let kept = spaces[256].context().asid();
    for space in &spaces[..255] {
        asids.switch(&cpus[0], 0, space.context());
    }
    assert_eq!(asids.rollovers(), 1);
    assert_eq!((cpus[0].forgotten.get(), cpus[1].forgotten.get()), (1, 0));
    cpus[1].steps.borrow_mut().clear();
    asids.switch(&cpus[1], 1, spaces[256].context());
    assert_eq!(spaces[256].context().asid(), kept, "a CPU runs it");
    let forget = Maintenance::Invalidate(TlbiOp::VMALLE1, 0);
    assert_eq!(*cpus[1].steps.borrow(), [Maintenance::DSB_ISHST, forget, Maintenance::DSB_NSH]);
    asids.switch(&cpus[1], 1, spaces[256].context());
    assert_eq!(cpus[1].forgotten.get(), 1, "once");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_cpu_knows_two_spaces_by_one_number(
        switches in prop::collection::vec((0..3_usize, prop::option::weighted(0.9, 0..400_usize)), 1000..3000),
    ) {
        run(8, 3, 400, &switches);
    }
}
