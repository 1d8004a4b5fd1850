//! Seven facts where a public checker errs: each in its legal and its illegal form.

use crate::common;
use common::*;
use machine::finding::Rule;
use machine::registers::Features;

const PA: u64 = 0x8000_0000;
const OTHER: u64 = 0x8001_0000;

#[test]
fn a_live_change_of_output_address_is_a_violation() {
    for bbm in 0..4 {
        let mut stage2 = stage2(2, Features::full(bbm));
        map(&mut stage2, S2_L3, S2_PAGE | PA);
        silent(&stage2);
        stage2.store(0, S2_L3, S2_PAGE | OTHER);
        caught(&stage2, Rule::BreakExpected);
        let mut stage1 = el2(2, Features::full(bbm));
        map(&mut stage1, L3, PAGE | PA);
        stage1.store(0, L3, PAGE | OTHER);
        caught(&stage1, Rule::BreakExpected);
    }
}

#[test]
fn a_live_change_from_normal_to_device_is_a_violation() {
    let mut stage1 = el2(1, Features::full(3));
    map(&mut stage1, L3, PAGE | PA);
    stage1.store(0, L3, PAGE | PA | DEVICE);
    caught(&stage1, Rule::BreakExpected);
    let mut stage2 = stage2(1, Features::full(3));
    map(&mut stage2, S2_L3, S2_PAGE | PA);
    stage2.store(0, S2_L3, (S2_PAGE & !0x3c) | PA);
    caught(&stage2, Rule::BreakExpected);
}

#[test]
fn without_access_flag_and_without_hardware_af_the_same_is_legal() {
    let mut machine = el2(2, Features::plain());
    map(&mut machine, L3, PAGE & !AF | PA);
    machine.store(0, L3, PAGE & !AF | PA | DEVICE);
    machine.barrier(0, ISH);
    machine.store(0, L3, PAGE | OTHER);
    machine.barrier(0, ISH);
    silent(&machine);
    // With hardware AF the walker may set the flag and cache it.
    let mut machine = el2(2, Features::full(0));
    msr(&mut machine, 1, &[(machine::registers::Register::TcrEl2, 16 | 5 << 16 | 1 << 21)]);
    machine.tlbi(1, ALLE2IS, 0);
    machine.barrier(1, ISH);
    machine.barrier(1, ISB);
    let before = machine.take_findings().len();
    assert_eq!(before, 0, "changing HA alone is no conflict");
    map(&mut machine, L3, PAGE & !AF | PA);
    machine.exchange(0, L3, PAGE & !AF | OTHER);
    caught(&machine, Rule::BreakExpected);
}

#[test]
fn a_last_level_tlbi_is_enough_for_a_block() {
    let mut machine = el2(2, Features::full(0));
    map(&mut machine, L2 + 8, BLOCK | PA);
    unmap(&mut machine, L2 + 8, VALE2IS, operand(0x20_0000));
    machine.store(0, L2 + 8, BLOCK | 0x9000_0000);
    machine.barrier(0, ISH);
    silent(&machine);
}

#[test]
fn a_level_3_hint_for_a_block_invalidates_nothing() {
    let mut machine = el2(2, Features::full(0));
    map(&mut machine, L2 + 8, BLOCK | PA);
    // TTL = 4K, level 3.
    unmap(&mut machine, L2 + 8, VALE2IS, operand(0x20_0000) | 0b0111 << 44);
    caught(&machine, Rule::Encoding);
    machine.store(0, L2 + 8, BLOCK | 0x9000_0000);
    caught(&machine, Rule::Overlap);
    // The right hint: TTL = 4K, level 2.
    let mut machine = el2(2, Features::full(0));
    map(&mut machine, L2 + 8, BLOCK | PA);
    unmap(&mut machine, L2 + 8, VALE2IS, operand(0x20_0000) | 0b0110 << 44);
    machine.store(0, L2 + 8, BLOCK | 0x9000_0000);
    silent(&machine);
}

#[test]
fn ishst_is_enough_before_the_tlbi_and_not_after() {
    let run = |before, after| {
        let mut machine = el2(2, Features::full(0));
        map(&mut machine, L3, PAGE | PA);
        machine.store(0, L3, 0);
        machine.barrier(0, before);
        machine.tlbi(0, VAE2IS, 0);
        machine.barrier(0, after);
        machine.barrier(0, ISB);
        machine.store(0, L3, PAGE | OTHER);
        machine
    };
    silent(&run(ISHST, ISH));
    caught(&run(ISHST, ISHST), Rule::Overlap);
    caught(&run(ISHST, NSH), Rule::Overlap);
}

#[test]
fn one_tlbi_at_the_only_leaf_lets_a_table_become_a_block() {
    let mut machine = el2(2, Features::full(0));
    map(&mut machine, L3, PAGE | PA);
    unmap(&mut machine, L2, VAE2IS, 0);
    machine.store(0, L2, BLOCK | PA);
    machine.barrier(0, ISH);
    silent(&machine);
    // With another leaf cached, one is not enough.
    let mut machine = el2(2, Features::full(0));
    map(&mut machine, L3, PAGE | PA);
    map(&mut machine, L3 + 8, PAGE | OTHER);
    unmap(&mut machine, L2, VAE2IS, 0);
    machine.store(0, L2, BLOCK | PA);
    caught(&machine, Rule::Overlap);
    // And the last-level form leaves the table in the walk caches.
    let mut machine = el2(2, Features::full(0));
    map(&mut machine, L3, PAGE | PA);
    unmap(&mut machine, L2, VALE2IS, 0);
    machine.store(0, L2, BLOCK | PA);
    caught(&machine, Rule::Overlap);
}

/// Hardware must set the flag before it keeps a leaf: who clears it, invalidates, and still finds it clear by
/// compare-and-exchange, replaces what nobody has.
#[test]
fn a_leaf_whose_access_flag_is_still_clear_is_replaced_by_compare_and_exchange() {
    let with_hardware = || {
        let mut machine = el2(2, Features::full(0));
        for cpu in 0..2 {
            msr(&mut machine, cpu, &[(machine::registers::Register::TcrEl2, 16 | 5 << 16 | 1 << 21)]);
        }
        machine.tlbi(1, ALLE2IS, 0);
        machine.barrier(1, ISH);
        for cpu in 0..2 {
            machine.barrier(cpu, ISB);
        }
        machine.take_findings();
        map(&mut machine, L3, PAGE | PA);
        machine.store(0, L3, PAGE & !AF | PA);
        machine.barrier(0, ISH);
        machine
    };
    let invalidated = || {
        let mut machine = with_hardware();
        machine.tlbi(0, VAE2IS, 0);
        machine.barrier(0, ISH);
        machine
    };
    // From before the flag was cleared, somebody may have it.
    let mut machine = with_hardware();
    assert!(machine.compare_exchange(0, L3, PAGE & !AF | PA, PAGE | OTHER).is_ok());
    caught(&machine, Rule::BreakExpected);
    let mut machine = invalidated();
    assert!(machine.compare_exchange(0, L3, PAGE & !AF | PA, PAGE | OTHER).is_ok());
    silent(&machine);
    let mut answers = machine.access(1, 0, machine::syndrome::AccessKind::Read);
    answers.outcomes.retain(|it| *it != machine::machine::Outcome::Translated(OTHER));
    assert_eq!(answers.outcomes, []);
    // An exchange may come after the flag was set, and a leaf with the flag may be kept.
    let mut machine = invalidated();
    machine.exchange(0, L3, PAGE | OTHER);
    caught(&machine, Rule::BreakExpected);
    let mut machine = invalidated();
    assert!(machine.compare_exchange(0, L3, PAGE & !AF | PA, PAGE | PA).is_ok());
    assert!(machine.compare_exchange(0, L3, PAGE | PA, PAGE | OTHER).is_ok());
    caught(&machine, Rule::BreakExpected);
}

/// A TLBI for stage 2 leaves what stage 1 has made of its leaf, so a compare-and-exchange must not take that away.
#[test]
fn a_leaf_of_stage_2_outlives_its_access_flag_in_combined_entries() {
    let mut machine = stage2(2, Features::full(0));
    for cpu in 0..2 {
        msr(&mut machine, cpu, &[(machine::registers::Register::VtcrEl2, 25 | 1 << 6 | 5 << 16 | 1 << 21)]);
    }
    map(&mut machine, S2_L3, S2_PAGE | PA);
    machine.store(0, S2_L3, S2_PAGE & !AF | PA);
    machine.barrier(0, ISH);
    machine.tlbi(0, IPAS2E1IS, 0);
    machine.barrier(0, ISH);
    assert!(machine.compare_exchange(0, S2_L3, S2_PAGE & !AF | PA, 0).is_ok());
    machine.barrier(0, ISH);
    machine.tlbi(0, IPAS2E1IS, 0);
    machine.barrier(0, ISH);
    let mut reaches = || machine.access(1, 0, machine::syndrome::AccessKind::Read).addresses().count();
    assert_eq!(reaches(), 1);
    machine.tlbi(0, VMALLE1IS, 0);
    machine.barrier(0, ISH);
    let mut reaches = || machine.access(1, 0, machine::syndrome::AccessKind::Read).addresses().count();
    assert_eq!(reaches(), 0);
}

/// A TLBI for one of two ASIDs does not end what the other has of a leaf, flag or no flag.
#[test]
fn a_leaf_outlives_its_access_flag_under_another_asid() {
    for asids in [[1, 1], [1, 2]] {
        let mut machine = el1(2, Features::full(0));
        machine.settle_stores();
        for cpu in 0..2 {
            msr(&mut machine, cpu, &[(machine::registers::Register::TcrEl1, TCR_48 | 1 << 23 | 1 << 39)]);
            let root = asids[cpu as usize] << 48 | ROOT;
            msr(&mut machine, cpu, &[(machine::registers::Register::Ttbr0El1, root)]);
        }
        for cpu in 0..2 {
            machine.tlbi(cpu, VMALLE1IS, 0);
            machine.barrier(cpu, ISH);
            machine.barrier(cpu, ISB);
        }
        map(&mut machine, L3, PAGE | NON_GLOBAL | PA);
        machine.store(0, L3, PAGE & !AF | NON_GLOBAL | PA);
        machine.barrier(
            0,
            machine::barrier::Barrier::Dmb {
                domain: machine::barrier::Domain::Inner,
                accesses: machine::barrier::Accesses::Stores,
            },
        );
        machine.barrier(1, ISH);
        machine.tlbi(1, VAE1IS, 1 << 48);
        machine.barrier(1, ISH);
        machine.tlbi(1, VAE1IS, 1 << 48);
        machine.barrier(1, ISH);
        assert!(machine.compare_exchange(0, L3, PAGE & !AF | NON_GLOBAL | PA, 0).is_ok());
        let reached = machine.access(1, 0, machine::syndrome::AccessKind::Read).addresses().count();
        assert_eq!(reached, usize::from(asids[1] == 2));
    }
}
