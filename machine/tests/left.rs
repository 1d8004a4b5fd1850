//! What CPUs leave behind, and come to: contexts, writes that nothing orders yet, halves that they share; and what somebody who
//! watches them asks of tables.

use crate::common;
use common::*;
use machine::barrier::{Accesses, Barrier, Domain};
use machine::event::{Level, Owned};
use machine::finding::{Lint, Reason, Rule};
use machine::machine::{Machine, Outcome};
use machine::registers::{Features, Register};
use machine::syndrome::{AccessKind, FaultKind};

const PA: u64 = 0x8000_0000;
/// The root of another page table, and its tables behind it.
const ASIDE: u64 = 0x4200_0000;
const ISHST_DMB: Barrier = Barrier::Dmb { domain: Domain::Inner, accesses: Accesses::Stores };

/// Root, and a table at each level behind it.
fn chain(machine: &mut Machine, root: u64) {
    (0..3).for_each(|level| machine.store(0, root + level * 0x1000, (root + (level + 1) * 0x1000) | TABLE));
    machine.barrier(0, ISH);
}

/// With TTBR.CnP in one half alone a CPU shares what others share in both: what one of them caches all may use.
#[test]
fn who_shares_one_half_may_have_what_others_share() {
    let upper = 0x4100_0000;
    let mut machine = Machine::new(&[Features::full(0); 2]);
    tables(&mut machine);
    chain(&mut machine, upper);
    machine.store(0, upper + 0x3000, PAGE | NON_GLOBAL | PA);
    machine.barrier(0, ISH);
    for (cpu, other) in [(0, upper | 1), (1, ASIDE)] {
        let roots = [(Register::Ttbr0El1, 1 << 48 | ROOT | 1), (Register::Ttbr1El1, other)];
        msr(&mut machine, cpu, &[(Register::MairEl1, MAIR), (Register::TcrEl1, TCR_48), roots[0], roots[1]]);
        msr(&mut machine, cpu, &[(Register::SctlrEl1, 1)]);
    }
    machine.store(0, upper + 0x3000, 0);
    machine.barrier(0, ISH);
    machine.tlbi(0, VMALLE1, 0);
    machine.barrier(0, ISH);
    machine.barrier(0, ISB);
    machine.release(0, PA, 0x1000, Owned::Frame);
    caught(&machine, Rule::Reuse);
    assert_eq!(machine.findings()[0].cpus, 0b10);
}

/// A write that is made again says nothing new: what was there before the first may still be walked.
#[test]
fn a_write_that_is_repeated_is_one() {
    let mut machine = el1(1, Features::full(0));
    (0..10).for_each(|_| machine.write_register(0, Register::Ttbr0El1, 1 << 48 | ASIDE));
    machine.store(0, L3, PAGE | PA);
    machine.barrier(0, ISH);
    let answer = machine.access(0, 0, AccessKind::Read);
    assert!(answer.outcomes.contains(&Outcome::Translated(PA)), "{answer:x?}");
}

#[test]
fn writes_that_nothing_orders_are_not_combined_for_ever() {
    use Register::{HcrxEl2, MairEl2, TcrEl2, Ttbr0El2, Ttbr1El1, Ttbr1El2};
    let mut machine = el1(1, Features::full(0));
    map(&mut machine, L3, PAGE | PA);
    for value in 1..9 {
        for register in [Ttbr1El1, MairEl2, TcrEl2, Ttbr0El2, Ttbr1El2, HcrxEl2] {
            machine.write_register(0, register, value << 12);
        }
    }
    assert_eq!(machine.access(0, 0, AccessKind::Read).outcomes, [Outcome::Translated(PA)]);
}

/// What is shown too early by one write is one mistake, in however many page tables, and is told once.
#[test]
fn what_is_shown_too_early_is_told_once() {
    let mut machine = Machine::new(&[Features::full(0)]);
    let roots = [(Register::Ttbr0El1, 1 << 48 | ROOT), (Register::Ttbr1El1, ASIDE)];
    msr(&mut machine, 0, &[(Register::MairEl1, MAIR), (Register::TcrEl1, TCR_48), roots[0], roots[1]]);
    machine.store(0, ROOT, L1 | TABLE);
    machine.store(0, ASIDE, (ASIDE + 0x1000) | TABLE);
    machine.barrier(0, ISHST_DMB);
    machine.write_register(0, Register::SctlrEl1, 1);
    assert_eq!(rules(&machine), [Rule::NotVisible]);
    // And not again when the same table is walked for somebody else.
    machine.barrier(0, ISB);
    for asid in 2..5 {
        msr(&mut machine, 0, &[(Register::Ttbr0El1, asid << 48 | ROOT)]);
    }
    assert_eq!(rules(&machine), [Rule::NotVisible]);
}

#[test]
fn what_one_cpu_kept_needs_no_broadcast_and_is_forgotten_once() {
    let mut machine = el1(1, Features::full(0));
    msr(&mut machine, 0, &[(Register::Ttbr0El1, 2 << 48 | ASIDE)]);
    machine.lint();
    machine.tlbi(0, ASIDE1IS, 1 << 48);
    assert_eq!(rules(&machine), [Rule::Lint(Lint::LocalSuffices)]);
    machine.barrier(0, ISH);
    machine.barrier(0, ISB);
    machine.take_findings();
    machine.tlbi(0, VMALLE1, 0);
    assert_eq!(rules(&machine), [Rule::Lint(Lint::NothingCached)]);
}

/// What was linked after a CPU left it cannot have kept.
#[test]
fn a_vmid_whose_stage_2_was_empty_when_it_was_left_is_free() {
    for is_late in [true, false] {
        let mut machine = Machine::new(&[Features::full(0)]);
        let vttbr = |vmid: u64, root: u64| (Register::VttbrEl2, vmid << 48 | root);
        msr(&mut machine, 0, &[(Register::VtcrEl2, 25 | 1 << 6 | 5 << 16), vttbr(7, S2_ROOT)]);
        msr(&mut machine, 0, &[(Register::HcrEl2, 1)]);
        let link = |machine: &mut Machine| map(machine, S2_ROOT, S2_L2 | TABLE);
        if !is_late {
            link(&mut machine);
        }
        msr(&mut machine, 0, &[vttbr(8, ASIDE)]);
        if is_late {
            link(&mut machine);
        }
        machine.reuse_vmid(0, 7);
        assert_eq!(rules(&machine).contains(&Rule::Reuse), !is_late, "{:?}", machine.findings());
    }
}

/// A table that is linked where nobody walks from the root, but from a table that a TLB kept, must be visible too; and one that is
/// linked where one of two page tables is walked.
#[test]
fn a_table_is_walked_from_wherever_somebody_comes() {
    let link = |machine: &mut Machine| {
        let table = 0x4500_0000;
        machine.store(0, table, PAGE | PA);
        machine.store(0, L2 + 8, table | TABLE);
    };
    let mut machine = el1(1, Features::full(0));
    machine.store(0, L1, 0);
    machine.barrier(0, ISH);
    msr(&mut machine, 0, &[(Register::Ttbr0El1, 2 << 48 | ASIDE)]);
    silent(&machine);
    link(&mut machine);
    caught(&machine, Rule::NotVisible);
    let mut machine = el1(1, Features::full(0));
    machine.store(0, ASIDE, L1 | TABLE);
    machine.barrier(0, ISH);
    msr(&mut machine, 0, &[(Register::Ttbr0El1, 2 << 48 | ASIDE)]);
    machine.tlbi(0, VMALLE1IS, 0);
    machine.barrier(0, ISH);
    machine.barrier(0, ISB);
    silent(&machine);
    link(&mut machine);
    caught(&machine, Rule::NotVisible);
}

/// Where stores settle, walks that were begun before a TLBI are over with it: those by a table, if its range is all that the table
/// translates.
#[test]
fn a_range_that_is_all_of_a_table_waits_for_its_walks() {
    // The first page, the number of pages by 64, less one.
    for (first, num, waits) in
        [(0x200, 7, true), (0x200, 15, true), (0x1c0, 8, true), (0x200, 6, false), (0x201, 7, false)]
    {
        let mut machine = el1(2, Features::full(3));
        machine.settle_stores();
        let table = 0x4500_0000;
        machine.store(0, table, PAGE | PA);
        machine.barrier(0, ISH);
        machine.store(0, L2 + 8, table | TABLE);
        machine.barrier(0, ISHST_DMB);
        machine.barrier(1, ISH);
        machine.tlbi(1, RVAE1IS, 1 << 48 | 1 << 46 | 1 << 44 | num << 39 | first);
        machine.barrier(1, ISH);
        machine.barrier(0, ISB);
        let may_fault = machine.access(0, 0x20_0000, AccessKind::Read).may_fault(FaultKind::Translation);
        assert_eq!(may_fault, !waits, "{first:#x}, {num}");
    }
}

#[test]
fn a_page_table_is_live_once_somebody_may_walk_it() {
    let mut machine = Machine::new(&[Features::full(0)]);
    tables(&mut machine);
    let tcr = (Register::TcrEl1, TCR_48 | 1 << 23);
    msr(&mut machine, 0, &[(Register::MairEl1, MAIR), tcr, (Register::Ttbr0El1, 1 << 48 | ROOT)]);
    let links = machine.links_by(0, Register::SctlrEl1, 1);
    assert_eq!(links.len(), 1);
    assert!(!machine.is_live(&links[0]));
    msr(&mut machine, 0, &[(Register::SctlrEl1, 1)]);
    assert!(machine.is_live(&links[0]));
}

/// A word that was a descriptor, and whose store is not finished, is not learnt: that somebody may still see the old value is
/// known better here.
#[test]
fn what_is_not_finished_is_not_learnt() {
    let mut machine = el1(2, Features::full(0));
    machine.store(1, L3 + 8, PAGE | PA);
    unmap(&mut machine, L2, VMALLE1IS, 0);
    machine.release(0, L3, 0x1000, Owned::Table);
    assert!(!machine.is_descriptor(L3 + 8));
    assert!(!machine.learn((L3 + 8) | 5, 7));
    assert_eq!(machine.word(L3 + 8), PAGE | PA);
    machine.barrier(1, ISH);
    assert!(machine.learn((L3 + 8) | 5, 7));
    assert_eq!(machine.word(L3 + 8), 7);
}

/// At EL1 a CPU does not execute what EL0 alone may, with FEAT_ETS2 the DSB after a TLBI is enough for that. (RBLDZX)
#[test]
fn what_el0_alone_executes_is_gone_with_the_dsb() {
    const USER: u64 = 1 << 6;
    const NEVER_AT_EL1: u64 = 1 << 53;
    const NEVER_AT_EL0: u64 = 1 << 54;
    let found = |level: Level, more: u64| {
        let mut machine = el1(1, Features::full(3));
        machine.enter(0, level);
        map(&mut machine, L3, PAGE & !(NEVER_AT_EL1 | NEVER_AT_EL0) | NON_GLOBAL | RO | PA | more);
        machine.store(0, L3, 0);
        machine.barrier(0, ISHST);
        machine.tlbi(0, VAE1IS, 1 << 48);
        machine.barrier(0, ISH);
        machine.release(0, PA, 0x1000, Owned::Frame);
        !machine.findings().is_empty()
    };
    assert!(!found(Level::El1, USER | NEVER_AT_EL1) && found(Level::El0, USER | NEVER_AT_EL1));
    assert!(found(Level::El1, NEVER_AT_EL0) && !found(Level::El1, NEVER_AT_EL0 | NEVER_AT_EL1));
}

/// A block that was split in place says of a page's memory what the page says, unless that permits less by now, or is none.
#[test]
fn a_leaf_that_was_split_in_place_does_no_harm_to_what_is_given_away() {
    let found = |page: u64, value: u64| {
        let mut machine = el1(2, Features::full(3));
        map(&mut machine, L2 + 8, BLOCK | PA);
        (0..512).for_each(|page| machine.store(0, L3 + page * 8, PAGE | PA | page << 12));
        machine.barrier(0, ISHST);
        machine.store(0, L2 + 8, L3 | TABLE);
        machine.barrier(0, ISH);
        machine.store(0, L3 + page * 8, value);
        machine.barrier(0, ISH);
        machine.take_findings();
        machine.release(0, PA | 0x7000, 0x2000, Owned::Frame);
        !machine.findings().is_empty()
    };
    assert!(!found(9, 0) && !found(6, 0) && found(7, 0) && found(8, 0) && found(8, PAGE | PA | RO | 0x8000));
}

/// Where a table was linked before and is no more is no part of a state: of two that are equal the same is said from then on. In the
/// one it was what is still a table elsewhere, in the other it is none any more.
#[test]
fn where_a_table_was_decides_nothing() {
    let state = |table: u64| {
        let mut machine = el1(2, Features::full(3));
        map(&mut machine, L3, PAGE | PA);
        map(&mut machine, L2 + 8, table | TABLE);
        unmap(&mut machine, L2 + 8, VMALLE1IS, 0);
        machine
    };
    let mut twins = [state(L3), state(L3 + 0x1000)];
    assert_eq!(twins[0].digest(), twins[1].digest());
    for machine in &mut twins {
        machine.store(0, L3, 0);
        machine.unlock(0);
        machine.lock(1);
        machine.barrier(1, ISHST);
        machine.tlbi(1, VAE1IS, 1 << 48);
        machine.barrier(1, ISH);
        machine.barrier(1, ISB);
        machine.store(1, L3, PAGE | (PA + 0x1000));
        silent(machine);
    }
    assert_eq!(twins[0].digest(), twins[1].digest());
}

/// Who comes to a page table is told of each fault that was made meanwhile, and of each once, however many pages it is about.
#[test]
fn each_fault_is_told_to_who_comes_once() {
    let mut machine = el1(1, Features::full(3));
    (0..4).for_each(|page| map(&mut machine, L3 + page * 8, PAGE | NON_GLOBAL | PA | page << 12));
    map(&mut machine, L2 + 8, (L3 + 0x1000) | TABLE);
    (0..8).for_each(|page| map(&mut machine, L3 + 0x1000 + page * 8, PAGE | NON_GLOBAL | PA | page << 12));
    msr(&mut machine, 0, &[(Register::Ttbr0El1, 2 << 48 | ASIDE)]);
    // Two pages, and one table with eight.
    let words = [L3, L3 + 8, L2 + 8];
    words.into_iter().for_each(|word| map(&mut machine, word, 0));
    map(&mut machine, L3, PAGE | NON_GLOBAL | PA | 0x8000);
    map(&mut machine, L3 + 8, PAGE | NON_GLOBAL | PA | 0x9000);
    map(&mut machine, L2 + 8, BLOCK | NON_GLOBAL | PA | 0x20_0000);
    silent(&machine);
    msr(&mut machine, 0, &[(Register::Ttbr0El1, 1 << 48 | ROOT)]);
    let causes: Vec<_> = machine.findings().iter().map(|it| it.origin.and_then(|it| it.word)).collect();
    assert_eq!(causes, words.map(Some), "{:#?}", machine.findings());
    // Of another page table with the same ASID: another page, and other memory.
    let mut machine = el1(1, Features::full(3));
    (0..3).for_each(|level| map(&mut machine, ASIDE + level * 0x1000, (ASIDE + (level + 1) * 0x1000) | TABLE));
    for page in 0..4 {
        map(&mut machine, L3 + page * 8, PAGE | NON_GLOBAL | PA | page << 12);
        let other = if page < 2 { PAGE | 0x8000 } else { PAGE | DEVICE };
        map(&mut machine, ASIDE + 0x3000 + page * 8, other | NON_GLOBAL | PA | page << 12);
    }
    silent(&machine);
    msr(&mut machine, 0, &[(Register::Ttbr0El1, 1 << 48 | ASIDE)]);
    let reasons: Vec<_> = machine.findings().iter().map(|it| it.reason).collect();
    assert_eq!(reasons, [Some(Reason::OutputAddress), Some(Reason::MemoryType)], "{:#?}", machine.findings());
}
