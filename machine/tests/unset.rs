//! A leaf whose access flag is clear, where hardware may set it, is in a TLB only from before the flag was cleared: who clears
//! it and has every TLB forget replaces it by compare-and-exchange. Each step of that is needed.

use crate::common;
use common::*;
use machine::barrier::{Accesses, Barrier, Domain};
use machine::event::Level;
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

/// A page table that nobody uses any more has the same leaf at another address, of which the TLBI knows nothing.
#[test]
fn who_uses_a_leaf_no_more_asks_for_no_tlbi() {
    const ASIDE: u64 = 0x4200_0000;
    let mut machine = setting();
    for (word, next) in [(ASIDE, ASIDE + 0x1000), (ASIDE + 0x1000, ASIDE + 0x2000), (ASIDE + 0x2008, L3)] {
        machine.store(0, word, next | TABLE);
    }
    machine.barrier(0, ISH);
    for root in [ASIDE, ROOT] {
        msr(&mut machine, 0, &[(Register::Ttbr0El2, root)]);
    }
    forget(&mut machine, 0, ALLE2IS);
    machine.barrier(0, ISB);
    map(&mut machine, L3, PAGE | PA);
    machine.store(0, L3, PAGE & !AF | PA);
    machine.barrier(0, ISH);
    forget(&mut machine, 0, VAE2IS);
    assert!(machine.compare_exchange(0, L3, PAGE & !AF | PA, PAGE | OTHER).is_ok());
    silent(&machine);
}

#[test]
fn a_table_may_stand_at_address_0() {
    let mut machine = setting();
    machine.store(0, L2, 0);
    machine.barrier(0, ISH);
    forget(&mut machine, 0, ALLE2IS);
    map(&mut machine, L2, TABLE);
    map(&mut machine, 0, PAGE | PA);
    machine.store(0, 0, PAGE & !AF | PA);
    machine.barrier(0, ISH);
    forget(&mut machine, 0, VAE2IS);
    assert!(machine.compare_exchange(0, 0, PAGE & !AF | PA, PAGE | OTHER).is_ok());
    silent(&machine);
}

/// A TLBI for one ASID leaves what a CPU kept of another.
#[test]
fn what_was_kept_of_another_asid_is_not_swept() {
    for (asids, is_found) in [([1, 1], false), ([2, 1], true)] {
        let mut machine = Machine::new(&[Features::full(0)]);
        tables(&mut machine);
        let tcr = (Register::TcrEl1, TCR_48 | 1 << 23 | 1 << 39);
        msr(&mut machine, 0, &[(Register::MairEl1, MAIR), tcr, (Register::Ttbr0El1, asids[0] << 48 | ROOT)]);
        msr(&mut machine, 0, &[(Register::SctlrEl1, 1)]);
        map(&mut machine, L3, PAGE | NON_GLOBAL | PA);
        machine.store(0, L3, PAGE & !AF | NON_GLOBAL | PA);
        machine.barrier(0, ISH);
        msr(&mut machine, 0, &[(Register::Ttbr0El1, asids[1] << 48 | ROOT)]);
        machine.tlbi(0, VAE1IS, 1 << 48);
        machine.barrier(0, ISH);
        let (from, to) = (PAGE & !AF | NON_GLOBAL | PA, PAGE | NON_GLOBAL | OTHER);
        assert!(machine.compare_exchange(0, L3, from, to).is_ok());
        assert_eq!(!rules(&machine).is_empty(), is_found, "{asids:?}: {:?}", machine.findings());
    }
}

/// A TLBI that ends a leaf of stage 2 ends what stage 1 made of the word as well, or it does not: nobody counts on it.
#[test]
fn a_leaf_of_both_stages_is_never_certain_to_be_forgotten() {
    for is_both in [true, false] {
        let mut machine = Machine::new(&[Features::full(0)]);
        tables(&mut machine);
        machine.store(0, S2_ROOT, S2_L2 | TABLE);
        if is_both {
            machine.store(0, S2_L2, L3 | TABLE);
        }
        for gib in [1, 2] {
            machine.store(0, S2_ROOT + gib * 8, S2_BLOCK | gib << 30);
        }
        machine.barrier(0, ISH);
        let vtcr = 25 | 1 << 6 | 5 << 16 | 1 << 21;
        msr(&mut machine, 0, &[(Register::VtcrEl2, vtcr), (Register::VttbrEl2, 7 << 48 | S2_ROOT)]);
        let tcr = (Register::TcrEl1, TCR_48 | 1 << 23 | 1 << 39);
        msr(&mut machine, 0, &[(Register::MairEl1, MAIR), tcr, (Register::Ttbr0El1, 1 << 48 | ROOT)]);
        msr(&mut machine, 0, &[(Register::SctlrEl1, 1)]);
        msr(&mut machine, 0, &[(Register::HcrEl2, 1)]);
        machine.enter(0, Level::El2);
        let page = PAGE | NON_GLOBAL;
        map(&mut machine, L3, page | PA);
        machine.store(0, L3, page & !AF | PA);
        machine.barrier(0, ISH);
        machine.tlbi(0, ALLE1IS, 0);
        machine.barrier(0, ISH);
        silent(&machine);
        assert!(machine.compare_exchange(0, L3, page & !AF | PA, page | OTHER).is_ok());
        assert_eq!(!rules(&machine).is_empty(), is_both, "{:?}", machine.findings());
    }
}
