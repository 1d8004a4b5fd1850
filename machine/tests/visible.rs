//! When a store is sure to be seen by another CPU's walker, though its own CPU has made no DSB: once it is ordered or
//! observed, and the other CPU has a DSB behind that. (DDI 0487, B2.3: stores are multi-copy atomic)

use crate::common;
use common::*;
use machine::barrier::{Accesses, Barrier, Domain};
use machine::machine::{Machine, Outcome};
use machine::registers::{Ets, Features};
use machine::syndrome::{AccessKind, FaultKind};
use machine::tlbi::Opcode;

const PA: u64 = 0x8000_0000;
const DMB_ST: Barrier = Barrier::Dmb { domain: Domain::Inner, accesses: Accesses::Stores };
const DSB_LD: Barrier = Barrier::Dsb { domain: Domain::Inner, accesses: Accesses::Loads, is_nxs: false };

fn two_cpus(ets: Ets) -> Machine {
    let mut machine = el1(2, Features { ets, ..Features::full(3) });
    machine.settle_stores();
    machine
}

/// CPU 0 makes a page valid by a plain store; may the other one still fault?
fn may_fault(ets: Ets, between: impl FnOnce(&mut Machine)) -> bool {
    let mut machine = two_cpus(ets);
    machine.store(0, L3, PAGE | PA);
    between(&mut machine);
    machine.access(1, 0, AccessKind::Read).may_fault(FaultKind::Translation)
}

#[test]
fn who_has_read_a_descriptor_walks_it_after_dsb_and_isb() {
    for ets in [Ets::None, Ets::Ets2] {
        let reads = |machine: &mut Machine, barrier, synchronizes: bool| {
            machine.load(1, L3);
            machine.barrier(1, barrier);
            if synchronizes {
                machine.barrier(1, ISB);
            }
        };
        assert!(!may_fault(ets, |machine| reads(machine, ISH, true)));
        assert!(!may_fault(ets, |machine| reads(machine, DSB_LD, true)));
        // A DSB for stores does not wait for the load; without FEAT_ETS2 an older walk may bring its fault.
        assert!(may_fault(ets, |machine| reads(machine, ISHST, true)));
        assert_eq!(may_fault(ets, |machine| reads(machine, ISH, false)), ets == Ets::None);
        // Reading something else tells nothing, and neither does a DSB before the store was seen.
        assert!(may_fault(ets, |machine| {
            machine.load(1, L3 + 8);
            machine.barrier(1, ISH);
            machine.barrier(1, ISB);
        }));
    }
}

/// What the rules hold software to: without settling, the DSB must be that of the CPU that stored.
#[test]
fn by_default_only_the_storing_cpus_dsb_counts() {
    let mut machine = el1(2, Features::full(3));
    machine.store(0, L3, PAGE | PA);
    machine.barrier(0, DMB_ST);
    machine.load(1, L3);
    machine.barrier(1, ISH);
    machine.barrier(1, ISB);
    let may_fault = |machine: &mut Machine| machine.access(1, 0, AccessKind::Read).may_fault(FaultKind::Translation);
    assert!(may_fault(&mut machine));
    machine.barrier(0, ISHST);
    assert!(!may_fault(&mut machine));
}

#[test]
fn a_store_ordered_by_its_cpu_is_seen_after_a_dsb_of_the_other() {
    for ets in [Ets::None, Ets::Ets2] {
        assert!(may_fault(ets, |machine| {
            machine.barrier(0, Barrier::Dmb { domain: Domain::NonShareable, accesses: Accesses::Stores });
            machine.barrier(1, ISH);
            machine.barrier(1, ISB);
        }));
        assert!(!may_fault(ets, |machine| {
            machine.barrier(0, DMB_ST);
            machine.barrier(1, ISH);
            machine.barrier(1, ISB);
        }));
        assert!(may_fault(ets, |machine| machine.barrier(0, DMB_ST)));
        assert!(may_fault(ets, |machine| {
            machine.barrier(1, ISH);
            machine.barrier(0, DMB_ST);
            machine.barrier(1, ISB);
        }));
    }
}

#[test]
fn what_was_cached_before_the_observed_break_still_needs_a_tlbi() {
    let mut machine = two_cpus(Ets::Ets2);
    map(&mut machine, L3, PAGE | PA);
    machine.store(0, L3, 0);
    machine.load(1, L3);
    machine.barrier(1, ISH);
    assert_eq!(machine.access(1, 0, AccessKind::Read).addresses().count(), 1);
    // Its own TLBI, local as it may be, now ends it there and nowhere else.
    machine.tlbi(1, VAE1, 1 << 48);
    machine.barrier(1, NSH);
    machine.barrier(1, ISB);
    assert_eq!(machine.access(1, 0, AccessKind::Read).addresses().count(), 0);
    assert_eq!(machine.access(0, 0, AccessKind::Read).addresses().count(), 1);
}

/// Completing a TLBI waits for the accesses that were begun before it, faulting ones included. (RWWQZZ)
#[test]
fn a_broadcast_tlbi_ends_faults_that_are_late() {
    let mut machine = two_cpus(Ets::None);
    machine.store(0, L3, PAGE | PA);
    machine.barrier(0, ISH);
    let may_fault =
        |machine: &Machine| machine.clone().access(1, 0, AccessKind::Read).may_fault(FaultKind::Translation);
    assert!(may_fault(&machine));
    for (opcode, operand, ends) in
        [(VAE1IS, 1 << 48, true), (VMALLE1IS, 0, true), (VAE1IS, 1 << 48 | 1, false), (VAE1, 1 << 48, false)]
    {
        let mut machine = machine.clone();
        machine.tlbi(0, opcode, operand);
        assert!(may_fault(&machine));
        machine.barrier(0, ISH);
        assert_eq!(may_fault(&machine), !ends, "{opcode:?} {operand:#x}");
    }
}

/// A TLBI for the outer shareable domain is over at a DSB of that domain, and not before.
#[test]
fn a_dsb_of_a_smaller_domain_ends_nothing_of_a_wider_tlbi() {
    let vae1os = Opcode::new(0, 8, 1, 1);
    let osh = Barrier::Dsb { domain: Domain::Outer, accesses: Accesses::All, is_nxs: false };
    // A late fault; and an old value that a walk may still see.
    for (ets, writer) in [(Ets::None, 0), (Ets::Ets2, 1)] {
        for (opcode, barrier, ends) in [(VAE1IS, ISH, true), (vae1os, ISH, false), (vae1os, osh, true)] {
            let mut machine = el1(3, Features { ets, ..Features::full(3) });
            machine.settle_stores();
            machine.store(writer, L3, PAGE | PA);
            machine.barrier(writer, DMB_ST);
            machine.barrier(0, ISH);
            machine.tlbi(0, opcode, 1 << 48);
            machine.barrier(0, barrier);
            let answer = machine.access(2, 0, AccessKind::Read);
            assert_eq!(answer.may_fault(FaultKind::Translation), !ends, "{opcode:?} {barrier:?}");
        }
    }
}

/// FEAT_ETS3 orders permission faults too. Late ones are not made here, whatever the CPU has, so it is as FEAT_ETS2: while an
/// entry may be cached it faults for both, and once its TLBI is complete for neither.
#[test]
fn ets3_is_as_ets2() {
    let run = |ets: Ets| {
        let mut machine = two_cpus(ets);
        let mut seen = Vec::new();
        let mut look = |machine: &mut Machine| {
            let answers = [0, 1].map(|cpu| machine.access(cpu, 0, AccessKind::Write).outcomes);
            let findings: Vec<_> = machine.findings().iter().map(|it| (it.rule, it.event)).collect();
            seen.push((answers, findings));
        };
        map(&mut machine, L3, PAGE | PA | RO | NON_GLOBAL);
        look(&mut machine);
        machine.store(0, L3, PAGE | PA | NON_GLOBAL);
        look(&mut machine);
        machine.barrier(0, ISH);
        look(&mut machine);
        machine.tlbi(0, VAE1IS, 1 << 48);
        look(&mut machine);
        machine.barrier(0, ISH);
        look(&mut machine);
        machine.store(0, L3, 0);
        machine.barrier(1, ISH);
        look(&mut machine);
        seen
    };
    let seen = run(Ets::Ets3);
    assert_eq!(seen, run(Ets::Ets2));
    let may_be_refused: Vec<bool> = seen
        .iter()
        .map(|(answers, _)| {
            let is_refusal = |it: &Outcome| matches!(it, Outcome::Fault(fault) if fault.kind == FaultKind::Permission);
            answers[1].iter().any(is_refusal)
        })
        .collect();
    assert_eq!(may_be_refused, [true, true, true, true, false, false]);
}

/// What CPU 1 did before its DSB and TLBI was ordered by CPU 0 before, so the TLBI ends what CPU 2 may still walk of it.
#[test]
fn a_broadcast_tlbi_behind_a_settled_break_ends_it_everywhere() {
    for is_settled in [true, false] {
        let mut machine = el1(3, Features::full(3));
        machine.settle_stores();
        map(&mut machine, L3, PAGE | PA);
        machine.store(0, L3, 0);
        if is_settled {
            machine.barrier(0, DMB_ST);
        }
        machine.barrier(1, ISH);
        machine.tlbi(1, VAE1IS, 1 << 48);
        assert_eq!(machine.access(2, 0, AccessKind::Read).addresses().count(), 1);
        machine.barrier(1, ISH);
        assert_eq!(machine.access(2, 0, AccessKind::Read).addresses().count(), usize::from(!is_settled));
    }
    // Without a DSB before it the TLBI is ordered behind nothing.
    let mut machine = two_cpus(Ets::Ets2);
    map(&mut machine, L3, PAGE | PA);
    machine.store(0, L3, 0);
    machine.barrier(0, DMB_ST);
    machine.tlbi(0, VAE1IS, 1 << 48);
    machine.barrier(0, ISH);
    assert_eq!(machine.access(1, 0, AccessKind::Read).addresses().count(), 1);
}

/// FEAT_ETS2 orders a fault behind what its CPU did before. The rules ask for a DSB all the same; only who asks for single
/// ways learns that this one does not exist.
#[test]
fn with_ets2_a_fault_for_ones_own_past_is_settled() {
    for ets in [Ets::None, Ets::Ets2, Ets::Ets3] {
        let mut machine = two_cpus(ets);
        machine.store(0, L3, PAGE | PA);
        let mut settled = |cpu| {
            let ways = machine.ways(cpu, 0, AccessKind::Read);
            let fault = ways.iter().find(|way| matches!(way.outcome, Outcome::Fault(_))).expect("a fault");
            fault.settled
        };
        assert_eq!(settled(0), (ets != Ets::None).then_some(0));
        assert_eq!(settled(1), None);
    }
}

/// A CPU without range TLBIs need not act on a broadcast one, and nobody waits for its walks.
#[test]
fn a_range_tlbi_ends_nothing_where_it_does_not_reach() {
    for range_tlbi in [true, false] {
        let full = Features::full(3);
        let mut machine = Machine::new(&[full, full, Features { range_tlbi, ..full }]);
        machine.settle_stores();
        tables(&mut machine);
        (0..3).for_each(|cpu| enable_el1(&mut machine, cpu, 1, ROOT));
        map(&mut machine, L3, PAGE | PA);
        machine.store(0, L3, 0);
        machine.barrier(0, DMB_ST);
        machine.barrier(1, ISH);
        machine.tlbi(1, RVAE1IS, 1 << 48 | 1 << 46);
        machine.barrier(1, ISH);
        assert_eq!(machine.access(2, 0, AccessKind::Read).addresses().count(), usize::from(!range_tlbi));
    }
}
