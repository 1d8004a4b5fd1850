//! A leaf whose access flag is clear, where hardware may set it, is in a TLB only from before the flag was cleared: who clears
//! it and has every TLB forget replaces it by compare-and-exchange. Each step of that is needed.

mod common;
use common::*;
use machine::barrier::{Accesses, Barrier, Domain};
use machine::finding::Rule;
use machine::machine::Machine;
use machine::registers::{Features, Register};
use machine::syndrome::AccessKind;
use machine::tlbi::Opcode;

const PA: u64 = 0x8000_0000;
const OTHER: u64 = 0x8001_0000;
const L3B: u64 = 0x4000_4000;
const VAE2: Opcode = Opcode::new(4, 8, 7, 1);
const DMB_ST: Barrier = Barrier::Dmb { domain: Domain::Inner, accesses: Accesses::Stores };
/// Executable at EL2.
const CODE: u64 = PAGE & !(1 << 54);

/// Two CPUs at EL2 whose hardware sets access flags.
fn setting() -> Machine {
    let mut machine = el2(2, Features::full(0));
    (0..2).for_each(|cpu| msr(&mut machine, cpu, &[(Register::TcrEl2, 16 | 5 << 16 | 1 << 21)]));
    machine.tlbi(1, ALLE2IS, 0);
    machine.barrier(1, ISH);
    (0..2).for_each(|cpu| machine.barrier(cpu, ISB));
    machine.take_findings();
    machine
}

/// `page` is used, its flag cleared, `between` done, and another page put in its place.
fn replaced(page: u64, between: impl FnOnce(&mut Machine)) -> Machine {
    let mut machine = setting();
    map(&mut machine, L3, page | PA);
    machine.store(0, L3, page & !AF | PA);
    between(&mut machine);
    assert!(machine.compare_exchange(0, L3, page & !AF | PA, page | OTHER).is_ok());
    machine
}

fn forget(machine: &mut Machine, cpu: u8, opcode: Opcode) {
    machine.tlbi(cpu, opcode, 0);
    machine.barrier(cpu, ISH);
}

#[test]
fn barriers_and_a_broadcast_tlbi_are_needed() {
    for before in [ISH, ISHST] {
        silent(&replaced(PAGE, |machine| {
            machine.barrier(0, before);
            forget(machine, 0, VAE2IS);
        }));
    }
    caught(&replaced(PAGE, |machine| forget(machine, 0, VAE2IS)), Rule::BreakExpected);
    // A TLBI of this CPU alone, and one that is not behind the store.
    for (cpu, opcode) in [(0, VAE2), (1, VAE2IS)] {
        caught(
            &replaced(PAGE, |machine| {
                machine.barrier(0, ISH);
                forget(machine, cpu, opcode);
            }),
            Rule::BreakExpected,
        );
    }
    // What may be executed is certain to its own CPU only after more.
    caught(
        &replaced(CODE, |machine| {
            machine.barrier(0, ISH);
            forget(machine, 0, VAE2IS);
        }),
        Rule::BreakExpected,
    );
}

#[test]
fn a_flag_that_was_set_meanwhile_begins_anew() {
    caught(
        &replaced(PAGE, |machine| {
            machine.barrier(0, ISH);
            machine.tlbi(0, VAE2IS, 0);
            machine.store(0, L3, PAGE | PA);
            machine.store(0, L3, PAGE & !AF | PA);
            machine.barrier(0, ISH);
        }),
        Rule::BreakExpected,
    );
}

/// While walks may miss that the flag was cleared, the TLBI that ends that ends nothing of what they kept since.
#[test]
fn a_flag_that_not_all_see_cleared_needs_another_tlbi() {
    for rounds in [1, 2] {
        let machine = replaced(PAGE, |machine| {
            machine.settle_stores();
            machine.barrier(0, DMB_ST);
            machine.barrier(1, ISH);
            (0..rounds).for_each(|_| forget(machine, 1, VAE2IS));
        });
        if rounds == 1 { caught(&machine, Rule::BreakExpected) } else { silent(&machine) }
    }
}

/// A table has no access flag: after a compare-and-exchange of its descriptor walks go on by what was there.
#[test]
fn a_table_is_no_leaf_without_its_flag() {
    let mut machine = setting();
    map(&mut machine, L3B, PAGE | OTHER);
    map(&mut machine, L3, PAGE | PA);
    machine.store(0, L2, 0);
    machine.barrier(0, ISH);
    forget(&mut machine, 0, ALLE2IS);
    machine.store(0, L2, L3 | TABLE);
    machine.barrier(0, ISH);
    forget(&mut machine, 0, ALLE2IS);
    assert!(machine.compare_exchange(0, L2, L3 | TABLE, L3B | TABLE).is_ok());
    assert!(machine.access(1, 0, AccessKind::Read).addresses().any(|address| address == PA));
}
