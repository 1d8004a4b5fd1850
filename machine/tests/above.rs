//! A CPU above the guest: what of the guest it may still walk at EL2, and which of its TLBIs are the guest's.

use crate::common;
use common::*;
use machine::barrier::Barrier;
use machine::context::Tag;
use machine::event::{Level, Owned};
use machine::finding::Rule;
use machine::machine::Machine;
use machine::registers::{Features, HCR_E2H, HCR_TGE, Register};
use machine::syndrome::AccessKind;
use machine::tlbi::Opcode;

const PA: u64 = 0x8000_0000;
const OTHER: u64 = 0x9000_0000;
const OTHER_ROOT: u64 = 0x5800_0000;

/// VMID 7 with one page, and other tables for it that map the page elsewhere; the CPU has come to EL2.
fn guest(stops_walks: bool) -> Machine {
    let mut machine = stage2(1, Features::full(3));
    if stops_walks {
        machine.stop_walks_at_el2();
    }
    map(&mut machine, S2_L3, S2_PAGE | PA);
    for (word, value) in [(0, 0x1000 | TABLE), (0x1000, 0x2000 | TABLE), (0x2000, S2_PAGE)] {
        let to = if value & !0xfff == 0 { OTHER } else { OTHER_ROOT };
        machine.store(0, OTHER_ROOT + word, to | value);
    }
    machine.barrier(0, ISH);
    machine.enter(0, Level::El2);
    machine
}

/// Where the guest may come to after its tables were switched under one VMID, all TLBs having been invalidated before.
fn switched(stops_walks: bool, before: &[Barrier]) -> Vec<u64> {
    let mut machine = guest(stops_walks);
    before.iter().for_each(|barrier| machine.barrier(0, *barrier));
    machine.tlbi(0, ALLE1IS, 0);
    machine.barrier(0, ISH);
    machine.write_register(0, Register::VttbrEl2, 7 << 48 | OTHER_ROOT);
    machine.enter(0, Level::El1);
    machine.access(0, 0, AccessKind::Read).addresses().collect()
}

/// Walks that were begun at EL1 go on until a DSB that waits for loads; none is begun at EL2. (RNRJPP, RLFHQG)
#[test]
fn behind_a_dsb_at_el2_nothing_of_the_guest_is_walked() {
    assert_eq!(switched(true, &[ISH]), [OTHER]);
    assert_eq!(switched(true, &[]), [PA, OTHER]);
    assert_eq!(switched(true, &[ISHST, ISB]), [PA, OTHER]);
    assert_eq!(switched(false, &[ISH]), [PA, OTHER], "the rules hold software to more");
}

/// What was cached before is there still, and after the return all of it may be walked again.
#[test]
fn what_the_guest_had_is_kept() {
    let mut machine = guest(true);
    machine.barrier(0, ISH);
    assert_eq!(machine.digest(), machine.clone().digest());
    machine.store(0, S2_L3, 0);
    machine.barrier(0, ISH);
    let mut back = machine.clone();
    back.enter(0, Level::El1);
    assert_eq!(back.access(0, 0, AccessKind::Read).addresses().collect::<Vec<_>>(), [PA]);
    machine.tlbi(0, ALLE1IS, 0);
    machine.barrier(0, ISH);
    machine.enter(0, Level::El1);
    assert_eq!(machine.access(0, 0, AccessKind::Read).addresses().count(), 0);
    map(&mut machine, S2_L3, S2_PAGE | PA);
    assert_eq!(machine.access(0, 0, AccessKind::Read).addresses().collect::<Vec<_>>(), [PA]);
    silent(&machine);
}

/// A host's E1 operations are its own EL2&0's, but for those that only a guest can need.
#[test]
fn some_tlbis_are_the_guests_alone() {
    let left = |opcode: Opcode, hcr: u64| {
        let mut machine = guest(false);
        machine.store(0, S2_L3, 0);
        machine.barrier(0, ISH);
        // Not synchronized: which regime others act on is uncertain.
        machine.write_register(0, Register::HcrEl2, 1 | hcr);
        machine.tlbi(0, opcode, 0);
        machine.barrier(0, ISH);
        let left = machine.may().stale().iter().filter(|(entry, _)| entry.tag == Tag::stage2(7)).count();
        (left, machine.may().stale().len() - left)
    };
    for hcr in [0, HCR_E2H, HCR_E2H | HCR_TGE] {
        assert_eq!(left(ALLE1IS, hcr), (0, 0));
        assert_eq!(left(VMALLS12E1IS, hcr), (0, 0));
        assert_eq!(left(IPAS2E1IS, hcr), (0, 1));
    }
    // And none of the host's.
    let mut host = el2(1, Features::full(0));
    msr(&mut host, 0, &[(Register::HcrEl2, HCR_E2H | HCR_TGE), (Register::TcrEl2, TCR_48 | 1 << 23)]);
    host.tlbi(0, ALLE2IS, 0);
    host.barrier(0, ISH);
    host.barrier(0, ISB);
    map(&mut host, L3, PAGE | PA);
    host.store(0, L3, 0);
    host.barrier(0, ISH);
    for opcode in [ALLE1IS, VMALLS12E1IS, VMALLE1IS] {
        host.tlbi(0, opcode, 0);
        host.barrier(0, ISH);
        host.barrier(0, ISB);
        let left = host.may().stale().iter().filter(|(entry, _)| !entry.is_table()).count();
        assert_eq!(left, usize::from(opcode != VMALLE1IS), "{opcode:?}");
    }
}

/// An ASID of which only a TLB still holds something: no table of it maps anything any more.
#[test]
fn an_asid_is_not_free_while_a_tlb_holds_it() {
    let reuse = |is_forgotten: bool| {
        let mut machine = el1(1, Features::full(0));
        machine.store(0, ROOT, 0);
        machine.barrier(0, ISH);
        if is_forgotten {
            machine.tlbi(0, ASIDE1IS, 1 << 48);
            machine.barrier(0, ISH);
            machine.barrier(0, ISB);
        }
        machine.reuse_asid(0, Tag::el10(0), 1);
        machine
    };
    let machine = reuse(false);
    caught(&machine, Rule::Reuse);
    assert!(machine.findings()[0].cached.is_some_and(|it| it.is_table()));
    silent(&reuse(true));
}

/// A TLBI that ends a table takes one member of the set below it, and spares the others nothing.
#[test]
fn a_set_below_a_table_falls_member_by_member() {
    let run = |freed: u64| {
        let mut machine = el1(1, Features::full(0));
        (0..16).for_each(|page| machine.store(0, L3 + page * 8, PAGE | CONT | PA | page << 12));
        machine.barrier(0, ISH);
        unmap(&mut machine, L2, VAAE1IS, 0x1);
        machine.release(0, PA | freed << 12, 4096, Owned::Frame);
        machine
    };
    caught(&run(0), Rule::Reuse);
    caught(&run(2), Rule::Reuse);
}
