//! What may change in a live table, and how, over BBM levels: size, the Contiguous bit, nG, permissions.

use crate::common;
use common::*;
use machine::attributes::Permissions;
use machine::context::Tag;
use machine::finding::Rule;
use machine::machine::Machine;
use machine::registers::{Features, Register};

const PA: u64 = 0x8000_0000;
const ASID: u64 = 1 << 48;

/// A 2 MiB block at 0x20_0000 and an equal table for it at `L3 + 0x1000`, filled but not linked.
fn block_and_table(features: Features) -> (Machine, u64) {
    let mut machine = el1(2, features);
    map(&mut machine, L2 + 8, BLOCK | PA);
    let table = L3 + 0x1000;
    for page in 0..512 {
        machine.store(0, table + page * 8, PAGE | PA | page << 12);
    }
    machine.barrier(0, ISHST);
    (machine, table)
}

#[test]
fn a_block_becomes_an_equal_table() {
    for bbm in 0..4 {
        let (mut machine, table) = block_and_table(Features::full(bbm));
        machine.store(0, L2 + 8, table | TABLE);
        match bbm {
            0 => caught(&machine, Rule::BreakExpected),
            1 => caught(&machine, Rule::NoTranslation),
            _ => silent(&machine),
        }
        // Only the size may change: not the output of one page of 512.
        let (mut machine, table) = block_and_table(Features::full(3));
        machine.store(0, table + 0x800, PAGE | PA);
        machine.barrier(0, ISHST);
        machine.store(0, L2 + 8, table | TABLE);
        caught(&machine, Rule::BreakExpected);
    }
}

#[test]
fn one_weak_cpu_decides() {
    let mut machine = Machine::new(&[Features::full(3), Features::full(0)]);
    tables(&mut machine);
    enable_el1(&mut machine, 0, 1, ROOT);
    map(&mut machine, L2 + 8, BLOCK | PA);
    for page in 0..512 {
        machine.store(0, L3 + 0x1000 + page * 8, PAGE | PA | page << 12);
    }
    machine.barrier(0, ISHST);
    // It is not on this table yet.
    let mut parked = machine.clone();
    parked.store(0, L2 + 8, (L3 + 0x1000) | TABLE);
    silent(&parked);
    enable_el1(&mut parked, 1, 1, ROOT);
    // What CPU 0 may still hold is no concern of CPU 1.
    silent(&parked);
    enable_el1(&mut machine, 1, 1, ROOT);
    machine.store(0, L2 + 8, (L3 + 0x1000) | TABLE);
    caught(&machine, Rule::BreakExpected);
}

#[test]
fn the_nt_protocol_has_an_order() {
    let split = |invalidates: bool| {
        let (mut machine, table) = block_and_table(Features::full(1));
        machine.store(0, L2 + 8, BLOCK | PA | NT);
        machine.barrier(0, ISH);
        if invalidates {
            machine.tlbi(0, VALE1IS, ASID | 0x200);
            machine.barrier(0, ISH);
            machine.barrier(0, ISB);
        }
        machine.store(0, L2 + 8, table | TABLE);
        machine
    };
    silent(&split(true));
    caught(&split(false), Rule::NoTranslation);
    // Merge: table -> block with nT, TLBI, then nT goes.
    let merge = |invalidates: bool| {
        let (mut machine, table) = block_and_table(Features::full(1));
        unmap(&mut machine, L2 + 8, VALE1IS, ASID | 0x200);
        map(&mut machine, L2 + 8, table | TABLE);
        machine.store(0, L2 + 8, BLOCK | PA | NT);
        machine.barrier(0, ISH);
        if invalidates {
            machine.tlbi(0, RVAE1IS, ASID | 1 << 46 | 1 << 44 | 7 << 39 | 0x200);
            machine.barrier(0, ISH);
            machine.barrier(0, ISB);
        }
        machine.store(0, L2 + 8, BLOCK | PA);
        machine
    };
    silent(&merge(true));
    caught(&merge(false), Rule::NoTranslation);
}

#[test]
fn the_contiguous_bit_changes_in_place_only_from_level_1() {
    for bbm in 0..4 {
        let mut machine = el1(1, Features::full(bbm));
        for page in 0..16 {
            machine.store(0, L3 + page * 8, PAGE | PA | page << 12);
        }
        machine.barrier(0, ISH);
        silent(&machine);
        for page in 0..16 {
            machine.store(0, L3 + page * 8, PAGE | PA | page << 12 | CONT);
        }
        match bbm {
            0 => assert!(rules(&machine).iter().any(|it| matches!(it, Rule::BreakExpected | Rule::Contiguous))),
            _ => silent(&machine),
        }
    }
    // Break all, TLBI all, make all.
    let unfold = |tlbis: u64| {
        let mut machine = el1(1, Features::full(0));
        let set = |machine: &mut Machine, value: &dyn Fn(u64) -> u64| {
            (0..16).for_each(|page| machine.store(0, L3 + page * 8, value(page)));
            machine.barrier(0, ISH);
        };
        set(&mut machine, &|page| PAGE | PA | page << 12 | CONT);
        set(&mut machine, &|_| 0);
        (0..tlbis).for_each(|page| machine.tlbi(0, VAALE1IS, page));
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        set(&mut machine, &|page| PAGE | (PA + 0x10_0000) | page << 12);
        machine
    };
    silent(&unfold(16));
    // One for each entry, not one for the set: but what is left of the others ends where each was asked for.
    assert!(unfold(15).findings().iter().any(|it| it.address == 15 << 12));
    assert!(unfold(1).findings().iter().all(|it| it.address != 0));
    // A set with a wrong address in it is misprogrammed at any level.
    let mut machine = el1(1, Features::full(3));
    map(&mut machine, L3, PAGE | PA | CONT);
    map(&mut machine, L3 + 8, PAGE | PA | 0x5000 | CONT);
    caught(&machine, Rule::Contiguous);
}

#[test]
fn global_beside_non_global() {
    let mut machine = el1(1, Features::full(3));
    map(&mut machine, L3, PAGE | PA | NON_GLOBAL);
    machine.store(0, L3, PAGE | PA);
    caught(&machine, Rule::BreakExpected);
    let mut machine = el1(1, Features::full(3));
    map(&mut machine, L3, PAGE | PA);
    machine.store(0, L3, PAGE | PA | NON_GLOBAL);
    silent(&machine);
}

#[test]
fn permissions_change_in_place_and_are_revoked_by_a_tlbi() {
    let protect = |opcode, operand| {
        let mut machine = el1(2, Features::full(0));
        map(&mut machine, L3, PAGE | PA);
        machine.store(0, L3, PAGE | PA | RO);
        machine.barrier(0, ISHST);
        machine.tlbi(0, opcode, operand);
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        machine.revoked(0, Tag::el10(0), None, 0, 0xfff, Permissions(Permissions::READ));
        machine
    };
    silent(&protect(VALE1IS, ASID));
    caught(&protect(VALE1IS, ASID | 1), Rule::Revocation);
    caught(&protect(VAE1, ASID), Rule::Revocation);
    // DBM with hardware dirty state is write permission.
    let mut machine = el1(1, Features::full(0));
    msr(&mut machine, 0, &[(Register::TcrEl1, TCR_48 | 1 << 23 | 3 << 39)]);
    machine.tlbi(0, VMALLE1IS, 0);
    machine.barrier(0, ISH);
    machine.barrier(0, ISB);
    map(&mut machine, L3, PAGE | PA | RO | 1 << 51);
    machine.revoked(0, Tag::el10(0), None, 0, 0xfff, Permissions(Permissions::READ));
    caught(&machine, Rule::Revocation);
}
