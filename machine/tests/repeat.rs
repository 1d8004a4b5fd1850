//! CPUs on which a broadcast TLBI and its DSB are over too early: only a second round is sure to end an entry.

use crate::common;
use common::*;
use machine::context::Tag;
use machine::event::Owned;
use machine::finding::{Missing, Rule};
use machine::machine::Machine;
use machine::registers::{Features, Register};
use machine::tlbi::Opcode;

const PA: u64 = 0x8000_0000;
const OTHER: u64 = 0x9000_0000;
const ASID: u64 = 1 << 48;

/// CPUs 0 and 1 have a page; `repeats` says of each whether it takes two.
fn mapped(repeats: [bool; 2]) -> Machine {
    let features = repeats.map(|repeat_tlbi| Features { repeat_tlbi, ..Features::full(0) });
    let mut machine = Machine::new(&features);
    tables(&mut machine);
    (0..2).for_each(|cpu| enable_el1(&mut machine, cpu, 1, ROOT));
    map(&mut machine, L3, PAGE | PA | NON_GLOBAL);
    machine
}

#[derive(Clone, Copy)]
enum Step {
    Tlbi(Opcode, u64),
    Dsb,
}
use Step::{Dsb, Tlbi};

/// CPU 0 takes the page away by these steps, and puts another in its place.
fn replace(repeats: [bool; 2], steps: &[Step]) -> Machine {
    let mut machine = mapped(repeats);
    machine.store(0, L3, 0);
    machine.barrier(0, ISHST);
    for step in steps {
        match *step {
            Tlbi(opcode, operand) => machine.tlbi(0, opcode, operand),
            Dsb => machine.barrier(0, ISH),
        }
    }
    machine.barrier(0, ISB);
    machine.store(0, L3, PAGE | OTHER | NON_GLOBAL);
    machine
}

const ONE: Step = Tlbi(VAE1IS, ASID);

#[test]
fn the_second_round_ends_an_entry() {
    let once = [ONE, Dsb];
    silent(&replace([false, false], &once));
    silent(&replace([true, false], &once));
    for repeats in [[false, true], [true, true]] {
        let machine = replace(repeats, &once);
        caught(&machine, Rule::Overlap);
        assert_eq!(machine.findings()[0].missing, Missing::Repetition);
        assert_eq!(machine.findings()[0].cpus, 0b10, "the CPU that issued it is sure");
        silent(&replace(repeats, &[ONE, Dsb, ONE, Dsb]));
        silent(&replace(repeats, &[Tlbi(VMALLE1IS, 0), Dsb, ONE, Dsb]));
        // Two of one round are one; the second must be of the same entry, and complete.
        caught(&replace(repeats, &[ONE, ONE, Dsb]), Rule::Overlap);
        caught(&replace(repeats, &[ONE, Dsb, Tlbi(VAE1IS, ASID | 1), Dsb]), Rule::Overlap);
        caught(&replace(repeats, &[ONE, Dsb, Tlbi(VAE1IS, 2 * ASID), Dsb]), Rule::Overlap);
        caught(&replace(repeats, &[ONE, Dsb, ONE]), Rule::Overlap);
        caught(&replace(repeats, &[ONE, Dsb, Tlbi(VAE1, ASID), Dsb]), Rule::Overlap);
    }
}

#[test]
fn who_has_it_anew_begins_anew() {
    let mut machine = mapped([true, true]);
    for _ in 0..2 {
        machine.store(0, L3, 0);
        machine.barrier(0, ISHST);
        machine.tlbi(0, VAE1IS, ASID);
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        machine.store(0, L3, PAGE | PA | NON_GLOBAL);
        machine.barrier(0, ISHST);
    }
    silent(&machine);
    machine.store(0, L3, 0);
    machine.barrier(0, ISHST);
    machine.tlbi(0, VAE1IS, ASID);
    machine.barrier(0, ISH);
    machine.barrier(0, ISB);
    machine.release(0, PA, 4096, Owned::Frame);
    caught(&machine, Rule::Reuse);
}

/// A table falls in the second round, and of what is below it only that which each round selected.
#[test]
fn what_is_below_a_table_needs_both_rounds_too() {
    let free = |rounds: [&[u64]; 2]| {
        let mut machine = mapped([false, true]);
        map(&mut machine, L3 + 8, PAGE | OTHER | NON_GLOBAL);
        machine.store(0, L2, 0);
        machine.barrier(0, ISHST);
        for round in rounds {
            round.iter().for_each(|page| machine.tlbi(0, VAE1IS, ASID | page));
            machine.barrier(0, ISH);
        }
        machine.barrier(0, ISB);
        machine.release(0, L3, 4096, Owned::Table);
        silent(&machine);
        machine.release(0, OTHER, 4096, Owned::Frame);
        machine
    };
    silent(&free([&[0, 1], &[0, 1]]));
    caught(&free([&[0], &[0, 1]]), Rule::Reuse);
    caught(&free([&[0, 1], &[0]]), Rule::Reuse);
}

#[test]
fn members_of_a_contiguous_set_are_counted_each() {
    let run = |second: u64| {
        let mut machine = mapped([false, true]);
        unmap(&mut machine, L3, VAE1IS, ASID);
        machine.tlbi(0, VAE1IS, ASID);
        machine.barrier(0, ISH);
        (0..16).for_each(|page| machine.store(0, L3 + page * 8, PAGE | CONT | PA | page << 12 | NON_GLOBAL));
        machine.barrier(0, ISH);
        (0..16).for_each(|page| machine.store(0, L3 + page * 8, 0));
        machine.barrier(0, ISH);
        // In one batch, and then one by one.
        (0..16).for_each(|page| machine.tlbi(0, VAE1IS, ASID | page));
        machine.barrier(0, ISH);
        for page in 0..second {
            machine.tlbi(0, VAE1IS, ASID | page);
            machine.barrier(0, ISH);
        }
        machine.barrier(0, ISB);
        machine.release(0, PA, 1 << 16, Owned::Frame);
        machine
    };
    silent(&run(16));
    caught(&run(15), Rule::Reuse);
}

#[test]
fn what_was_kept_of_a_context_needs_both_rounds() {
    let reuse = |rounds: usize| {
        let mut machine = mapped([false, true]);
        msr(&mut machine, 1, &[(Register::Ttbr0El1, 2 << 48 | 0x4100_0000)]);
        msr(&mut machine, 0, &[(Register::Ttbr0El1, 2 << 48 | 0x4100_0000)]);
        for _ in 0..rounds {
            machine.tlbi(0, ASIDE1IS, ASID);
            machine.barrier(0, ISH);
        }
        machine.barrier(0, ISB);
        machine.reuse_asid(0, Tag::el10(0), 1);
        machine
    };
    caught(&reuse(1), Rule::Reuse);
    silent(&reuse(2));
}

/// Whoever may have the entry again since the first round has it anew.
#[test]
fn what_came_back_between_the_rounds_takes_two_more() {
    for comes_back in [false, true] {
        let mut machine = mapped([false, true]);
        unmap(&mut machine, L3, VAE1IS, ASID);
        if comes_back {
            map(&mut machine, L3, PAGE | PA | NON_GLOBAL);
            machine.store(0, L3, 0);
            machine.barrier(0, ISH);
        }
        machine.tlbi(0, VAE1IS, ASID);
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        let left = machine.access(1, 0, machine::syndrome::AccessKind::Read).addresses().count();
        assert_eq!(left == 1, comes_back);
    }
}

/// A first round for one member of a contiguous set is none for the others.
#[test]
fn a_round_for_one_member_is_none_for_the_set() {
    for (first, left) in [((VAE1IS, ASID), 1), ((VMALLE1IS, 0), 0)] {
        let mut machine = mapped([false, true]);
        machine.store(0, L3, 0);
        machine.barrier(0, ISH);
        (0..2).for_each(|_| {
            machine.tlbi(0, VMALLE1IS, 0);
            machine.barrier(0, ISH);
        });
        let member = |slot: u64| PAGE | PA | slot << 12 | NON_GLOBAL | CONT;
        (0..16).for_each(|slot| machine.store(0, L3 + slot * 8, member(slot)));
        machine.barrier(0, ISH);
        (0..16).for_each(|slot| machine.store(0, L3 + slot * 8, 0));
        machine.barrier(0, ISH);
        for (opcode, operand) in [first, (VMALLE1IS, 0)] {
            machine.tlbi(0, opcode, operand);
            machine.barrier(0, ISH);
        }
        let found = machine.access(1, 0x1000, machine::syndrome::AccessKind::Read).addresses().count();
        assert_eq!(found, left);
    }
}

/// Who comes back between the rounds, and leaves again, may have kept it anew.
#[test]
fn who_comes_back_to_a_context_needs_both_rounds_again() {
    for (rounds, is_found) in [(1, true), (2, false)] {
        let mut machine = mapped([false, true]);
        let leave = |machine: &mut Machine, cpu| msr(machine, cpu, &[(Register::Ttbr0El1, 2 << 48 | 0x4100_0000)]);
        let forget = |machine: &mut Machine| {
            machine.tlbi(0, ASIDE1IS, ASID);
            machine.barrier(0, ISH);
            machine.barrier(0, ISB);
        };
        (0..2).for_each(|cpu| leave(&mut machine, cpu));
        forget(&mut machine);
        msr(&mut machine, 1, &[(Register::Ttbr0El1, ASID | ROOT)]);
        leave(&mut machine, 1);
        (0..rounds).for_each(|_| forget(&mut machine));
        machine.reuse_asid(0, Tag::el10(0), 1);
        assert_eq!(rules(&machine).contains(&Rule::Reuse), is_found, "{rounds}");
    }
}

/// Members that go in one batch go each by its own TLBI, and the others stay.
#[test]
fn members_go_one_by_one_in_one_batch() {
    let mut machine = mapped([false, false]);
    unmap(&mut machine, L3, VAE1IS, ASID);
    (0..16).for_each(|page| machine.store(0, L3 + page * 8, PAGE | CONT | PA | page << 12 | NON_GLOBAL));
    machine.barrier(0, ISH);
    (0..16).for_each(|page| machine.store(0, L3 + page * 8, 0));
    machine.barrier(0, ISH);
    [3, 5].into_iter().for_each(|page| machine.tlbi(0, VAE1IS, ASID | page));
    machine.barrier(0, ISH);
    machine.barrier(0, ISB);
    [3, 5].into_iter().for_each(|page| machine.release(0, PA + page * 4096, 4096, Owned::Frame));
    silent(&machine);
    machine.release(0, PA + 4 * 4096, 4096, Owned::Frame);
    caught(&machine, Rule::Reuse);
}

/// A member whose second TLBI comes in one batch with the set's first is gone, and the set is not.
#[test]
fn a_members_second_round_beside_the_first_of_the_set() {
    let mut machine = mapped([false, true]);
    (0..16).for_each(|page| machine.store(0, L3 + page * 8, 0));
    machine.barrier(0, ISH);
    (0..2).for_each(|_| {
        machine.tlbi(0, VMALLE1IS, 0);
        machine.barrier(0, ISH);
    });
    (0..16).for_each(|page| machine.store(0, L3 + page * 8, PAGE | CONT | PA | page << 12 | NON_GLOBAL));
    machine.barrier(0, ISH);
    (1..16).for_each(|page| machine.store(0, L3 + page * 8, 0));
    machine.barrier(0, ISH);
    for _ in 0..2 {
        (1..16).for_each(|page| machine.tlbi(0, VAE1IS, ASID | page));
        machine.barrier(0, ISH);
    }
    machine.store(0, L3, 0);
    machine.barrier(0, ISH);
    machine.tlbi(0, VAE1IS, ASID | 3);
    machine.barrier(0, ISH);
    [0, 3].into_iter().for_each(|page| machine.tlbi(0, VAE1IS, ASID | page));
    machine.barrier(0, ISH);
    machine.barrier(0, ISB);
    machine.release(0, PA + 3 * 4096, 4096, Owned::Frame);
    silent(&machine);
    machine.release(0, PA, 4096, Owned::Frame);
    caught(&machine, Rule::Reuse);
}
