//! ASIDs: no two spaces that a TLB may know have the same, through as many rollovers as there may be.

use crate::common;

use std::cell::{Cell, RefCell};

use common::Alone;
use proptest::prelude::*;
use vellum_pagetable::{Platform, Slot};
use vellum_userspace::{Asids, Context, Numbers};
use vellum_vmsa::maintenance::TlbiOp;
use vellum_vmsa::{Descriptor, Maintenance};

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
    let spaces: Vec<Context> = (0..spaces).map(|_| Context::default()).collect();
    let asids = Asids::<Alone<Numbers>>::new(bits, cpus).unwrap();
    let machines: Vec<Cpu> = (0..cpus).map(|_| Cpu::default()).collect();
    let mut running = vec![None; cpus];
    for &(cpu, space) in switches {
        running[cpu] = space;
        let Some(space) = space else {
            asids.leave(cpu);
            continue;
        };
        let asid = asids.switch(&machines[cpu], cpu, &spaces[space]);
        assert_ne!(asid, 0);
        assert!(u32::from(asid) < 1 << bits);
        assert_eq!(asid, spaces[space].asid());
        let known = machines[cpu].known.borrow().get(&asid).copied();
        assert!(known.is_none_or(|known| known == space), "CPU {cpu} knows another space by {asid}");
        machines[cpu].known.borrow_mut().insert(asid, space);
        // Who runs now runs by the ASID that TLBIs name, whatever has rolled over.
        let now: Vec<u16> = running.iter().flatten().map(|&space: &usize| spaces[space].asid()).collect();
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
    let mut switches: Vec<_> = (0..65_535).map(|space| (0, Some(space))).collect();
    assert_eq!(run(16, 1, 65_536, &switches), 0);
    switches.push((0, Some(65_535)));
    assert_eq!(run(16, 1, 65_536, &switches), 1);
}

#[test]
fn a_cpu_forgets_before_it_runs_what_is_new() {
    let asids = Asids::<Alone<Numbers>>::new(8, 2).unwrap();
    let (cpus, spaces) = ([Cpu::default(), Cpu::default()], (0..257).map(|_| Context::default()).collect::<Vec<_>>());
    asids.switch(&cpus[1], 1, &spaces[256]);
    let kept = spaces[256].asid();
    for space in &spaces[..255] {
        asids.switch(&cpus[0], 0, space);
    }
    assert_eq!(asids.rollovers(), 1);
    assert_eq!((cpus[0].forgotten.get(), cpus[1].forgotten.get()), (1, 0));
    cpus[1].steps.borrow_mut().clear();
    asids.switch(&cpus[1], 1, &spaces[256]);
    assert_eq!(spaces[256].asid(), kept, "a CPU runs it");
    let forget = Maintenance::Invalidate(TlbiOp::VMALLE1, 0);
    assert_eq!(*cpus[1].steps.borrow(), [Maintenance::DSB_ISHST, forget, Maintenance::DSB_NSH]);
    asids.switch(&cpus[1], 1, &spaces[256]);
    assert_eq!(cpus[1].forgotten.get(), 1, "once");
}

#[test]
fn there_is_a_number_for_each_of_255_spaces_before_and_after_a_rollover() {
    let asids = Asids::<Alone<Numbers>>::new(8, 1).unwrap();
    let (cpu, spaces) = (Cpu::default(), (0..510).map(|_| Context::default()).collect::<Vec<_>>());
    let mut given = Vec::new();
    // CPU 0 runs the last of the first 255 when numbers run out, so that its number stays taken.
    for (count, space) in (1..).zip(&spaces) {
        given.push(asids.switch(&cpu, 0, space));
        let rollovers = if count <= 255 { 0 } else { 1 + (count - 256) / 254 };
        assert_eq!(asids.rollovers(), rollovers, "after {count} spaces");
    }
    assert_eq!(given[..255], (1..=255).collect::<Vec<u16>>());
    assert_eq!(given[255..509], (1..=254).collect::<Vec<u16>>());
}

#[test]
fn asids_have_8_bits_at_the_least_and_16_at_the_most() {
    for (asked, bits) in [(0, 8), (7, 8), (8, 8), (16, 16), (17, 16), (32, 16)] {
        let (asids, cpu) = (Asids::<Alone<Numbers>>::new(asked, 1).unwrap(), Cpu::default());
        let mut spaces = 0_u32;
        while asids.rollovers() == 0 {
            asids.switch(&cpu, 0, &Context::default());
            spaces += 1;
        }
        assert_eq!(spaces, 1 << bits, "{asked}");
    }
}

#[test]
fn a_cpu_that_is_not_counted_forgets_each_time() {
    let asids = Asids::<Alone<Numbers>>::new(8, 1).unwrap();
    let (cpu, space) = (Cpu::default(), Context::default());
    (1..4).for_each(|times| {
        asids.switch(&cpu, 1, &space);
        assert_eq!(cpu.forgotten.get(), times);
    });
    asids.leave(1);
    assert!(Asids::<Alone<Numbers>>::new(8, usize::MAX).is_none(), "no heap is as large");
}

#[test]
fn a_cpu_that_has_run_nothing_takes_no_number() {
    let asids = Asids::<Alone<Numbers>>::new(8, 3).unwrap();
    let (cpu, spaces) = (Cpu::default(), (0..258).map(|_| Context::default()).collect::<Vec<_>>());
    let given: Vec<u16> = spaces.iter().map(|space| asids.switch(&cpu, 0, space)).collect();
    assert_eq!((asids.rollovers(), &given[254..]), (1, &[255, 1, 2, 3][..]));
}

#[test]
fn a_cpu_that_runs_nothing_keeps_no_number() {
    let asids = Asids::<Alone<Numbers>>::new(8, 2).unwrap();
    let (cpus, spaces) = ([Cpu::default(), Cpu::default()], (0..257).map(|_| Context::default()).collect::<Vec<_>>());
    let first = asids.switch(&cpus[1], 1, &spaces[256]);
    asids.leave(1);
    for space in &spaces[..255] {
        asids.switch(&cpus[0], 0, space);
    }
    assert_eq!(asids.rollovers(), 1);
    assert_eq!(spaces[254].asid(), first, "nobody runs the space whose number it was");
    assert_ne!(asids.switch(&cpus[1], 1, &spaces[256]), first);
}

/// CPU 1 runs a space all the while, which CPU 0 runs too once in each generation.
#[test]
fn a_space_that_two_cpus_run_keeps_its_number_through_two_rollovers() {
    let asids = Asids::<Alone<Numbers>>::new(8, 2).unwrap();
    let (cpus, spaces) = ([Cpu::default(), Cpu::default()], (0..600).map(|_| Context::default()).collect::<Vec<_>>());
    let (kept, others) = spaces.split_first().unwrap();
    let number = asids.switch(&cpus[1], 1, kept);
    let mut others = others.iter();
    for rollovers in 1..=2 {
        while asids.rollovers() < rollovers {
            asids.switch(&cpus[0], 0, others.next().unwrap());
        }
        assert_eq!(asids.switch(&cpus[0], 0, kept), number, "after rollover {rollovers}");
    }
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
