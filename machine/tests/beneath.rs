//! Guests whose tables lie at other intermediate addresses than physical ones, and those that have none.

use crate::common;

use common::*;
use machine::event::{Level, Owned};
use machine::finding::Rule;
use machine::machine::{Machine, Outcome};
use machine::registers::{Features, Register};
use machine::syndrome::{AccessKind, Fault, FaultKind};
use machine::tlbi::Opcode;

const PA: u64 = 0x8000_0000;
const OTHER: u64 = 0x9000_0000;

/// A guest whose tables lie at intermediate addresses from 1 GiB, which stage 2 has at 2 GiB.
fn moved() -> Machine {
    let mut machine = Machine::new(&[Features::full(2)]);
    let at = |word: u64| word - ROOT + PA;
    machine.store(0, S2_ROOT, S2_L2 | TABLE);
    machine.store(0, S2_ROOT + 8, S2_BLOCK | PA);
    machine.store(0, S2_L2, S2_BLOCK | OTHER);
    machine.store(0, at(ROOT), L1 | TABLE);
    machine.store(0, at(L1), L2 | TABLE);
    machine.store(0, at(L2), L3 | TABLE);
    machine.store(0, at(L3 + 8), PAGE | NON_GLOBAL | 0x5000);
    machine.barrier(0, ISH);
    let writes = [(Register::VtcrEl2, 25 | 1 << 6 | 5 << 16), (Register::VttbrEl2, 7 << 48 | S2_ROOT)];
    msr(&mut machine, 0, &writes);
    enable_el1(&mut machine, 0, 1, ROOT);
    msr(&mut machine, 0, &[(Register::HcrEl2, 1)]);
    machine
}

#[test]
fn tables_of_a_guest_are_where_stage_2_has_them() {
    let mut machine = moved();
    let answer = machine.access(0, 0x1234, AccessKind::Read);
    assert_eq!(answer.outcomes, [Outcome::Translated(OTHER + 0x5234)]);
    machine.store(0, L2 - ROOT + PA, 0);
    machine.barrier(0, ISH);
    machine.release(0, L3, 0x1000, Owned::Table);
    silent(&machine);
    machine.release(0, L3 - ROOT + PA, 0x1000, Owned::Table);
    caught(&machine, Rule::Reuse);
}

#[test]
fn what_stage_2_has_with_nt_is_not_kept_of_both_stages_either() {
    for nt in [0, NT] {
        let mut machine = moved();
        machine.enter(0, Level::El2);
        // The page at 2 MiB of intermediate addresses.
        map(&mut machine, S2_L2 + 8, S2_BLOCK | nt | PA);
        map(&mut machine, L3 - ROOT + PA + 16, PAGE | NON_GLOBAL | 0x20_0000);
        machine.store(0, S2_L2 + 8, 0);
        machine.barrier(0, ISH);
        machine.tlbi(0, IPAS2E1IS, 0x200);
        machine.barrier(0, ISH);
        machine.store(0, S2_L2 + 8, S2_BLOCK | OTHER);
        machine.barrier(0, ISH);
        assert_eq!(rules(&machine).is_empty(), nt != 0, "{nt:#x}: {:?}", machine.findings());
    }
}

#[test]
fn stage_1_that_is_off_has_no_tables() {
    let mut machine = Machine::new(&[Features::full(2)]);
    machine.store(0, S2_ROOT, S2_L2 | TABLE);
    machine.store(0, S2_L2, S2_BLOCK | PA);
    // It would be a block, were it a descriptor of stage 1.
    machine.store(0, PA, BLOCK | 0x4000_0000);
    machine.barrier(0, ISH);
    let writes = [(Register::VtcrEl2, 25 | 1 << 6 | 5 << 16), (Register::VttbrEl2, 7 << 48 | S2_ROOT)];
    msr(&mut machine, 0, &writes);
    msr(&mut machine, 0, &[(Register::HcrEl2, 1)]);
    let outcomes = |machine: &mut Machine, address| machine.access(0, address, AccessKind::Read).outcomes;
    assert_eq!(outcomes(&mut machine, 0x1234), [Outcome::Translated(PA + 0x1234)]);
    machine.release(0, 0, 0x1000, Owned::Table);
    silent(&machine);
    // Beyond what it has addresses for.
    let fault = Fault::stage1(FaultKind::Translation, 0);
    assert_eq!(outcomes(&mut machine, 0xffff_0000_0000_0000), [Outcome::Fault(fault)]);
}

#[test]
fn a_fault_of_stage_2_is_on_the_walk_or_behind_it() {
    const NOWHERE: u64 = 0xc000_0000;
    let mut machine = moved();
    let at = |word: u64| word - ROOT + PA;
    map(&mut machine, at(L3 + 16), PAGE | NON_GLOBAL | NOWHERE);
    map(&mut machine, at(L2 + 8), NOWHERE | TABLE);
    for (address, intermediate, is_on_walk) in [(0x2008, NOWHERE + 8, false), (0x20_3008, NOWHERE + 24, true)] {
        let fault = Fault { is_on_walk, ..Fault::stage2(FaultKind::Translation, 1, intermediate) };
        let answer = machine.access(0, address, AccessKind::Read);
        assert_eq!(answer.outcomes, [Outcome::Fault(fault)], "{address:#x}");
    }
    msr(&mut machine, 0, &[(Register::SctlrEl1, 0)]);
    let fault = Fault::stage2(FaultKind::Translation, 1, NOWHERE);
    assert_eq!(machine.access(0, NOWHERE, AccessKind::Read).outcomes, [Outcome::Fault(fault)]);
}

/// What is remembered of a page that was read at an odd address is true of the table in that page.
#[test]
fn an_odd_address_in_a_table_does_not_hide_its_words() {
    let mut machine = moved();
    let at = |word: u64| word - ROOT + PA;
    map(&mut machine, at(L2 + 8), BLOCK | NON_GLOBAL | ROOT);
    // Another word, and what was known of stage 2 is known no more.
    map(&mut machine, S2_ROOT + 8, S2_BLOCK | PA | 1 << 55);
    assert_eq!(machine.access(0, 0x20_3001, AccessKind::Read).outcomes, [Outcome::Translated(at(L3) + 1)]);
    machine.store(0, at(L3 + 8), 0);
    let answer = machine.access(0, 0x1234, AccessKind::Read);
    assert!(answer.outcomes.contains(&Outcome::Translated(OTHER + 0x5234)), "{answer:x?}");
}

/// The tables of a guest are where stage 2 says, and that is known again once the guest is, though its stage 2 was empty meanwhile.
#[test]
fn tables_are_found_again_when_their_stage_2_is_filled_anew() {
    let mut machine = Machine::new(&[Features::full(0)]);
    tables(&mut machine);
    let vttbr = |vmid: u64, root: u64| (Register::VttbrEl2, vmid << 48 | root);
    msr(&mut machine, 0, &[(Register::VtcrEl2, 25 | 1 << 6 | 5 << 16), vttbr(7, S2_ROOT)]);
    msr(&mut machine, 0, &[(Register::HcrEl2, 1)]);
    enable_el1(&mut machine, 0, 1, ROOT);
    assert!(!machine.is_descriptor(L3));
    msr(&mut machine, 0, &[vttbr(8, 0x5800_0000)]);
    machine.release(0, S2_ROOT, 0x1000, Owned::Table);
    for gib in [1, 2] {
        machine.store(0, S2_ROOT + gib * 8, S2_BLOCK | gib << 30);
    }
    machine.barrier(0, ISH);
    msr(&mut machine, 0, &[vttbr(7, S2_ROOT)]);
    silent(&machine);
    assert!(machine.is_descriptor(L3));
    map(&mut machine, L3, PAGE | NON_GLOBAL | PA);
    map(&mut machine, L3, PAGE | NON_GLOBAL | OTHER);
    caught(&machine, Rule::BreakExpected);
}

/// What stage 2 has of the last page of a table is where its last words are.
#[test]
fn a_large_table_is_found_wherever_stage_2_has_each_of_its_pages() {
    const TABLES: u64 = 0x4100_0000;
    for page in [0, 1, 14, 15] {
        let mut machine = Machine::new(&[Features::full(0)]);
        let (l2, l3) = (0x5010_0000, 0x5010_1000);
        machine.store(0, S2_ROOT + 8, l2 | TABLE);
        machine.store(0, l2 + 8 * 8, l3 | TABLE);
        // The root, and the first fifteen pages of the next table: 64 KiB each.
        for at in (0..32).filter(|at| *at != 16 + page) {
            machine.store(0, l3 + at * 8, S2_PAGE | (TABLES + at * 0x1000));
        }
        machine.store(0, TABLES, (TABLES + 0x1_0000) | TABLE);
        machine.barrier(0, ISH);
        msr(&mut machine, 0, &[(Register::VtcrEl2, 25 | 1 << 6 | 5 << 16), (Register::VttbrEl2, 7 << 48 | S2_ROOT)]);
        let tcr = TCR_48 & !0x3f | 22 | 1 << 14 | 1 << 23;
        let writes = [(Register::MairEl1, MAIR), (Register::TcrEl1, tcr), (Register::Ttbr0El1, 1 << 48 | TABLES)];
        msr(&mut machine, 0, &writes);
        msr(&mut machine, 0, &[(Register::SctlrEl1, 1)]);
        msr(&mut machine, 0, &[(Register::HcrEl2, 1)]);
        let moved = 0x4300_0000;
        map(&mut machine, l3 + (16 + page) * 8, S2_PAGE | moved);
        assert!(machine.is_descriptor(moved + 0xff8), "page {page}");
        assert!(!machine.is_descriptor(moved + 0x1000) && !machine.is_descriptor(moved - 8));
    }
}

/// What stage 2 does not let TLBs keep, they keep of no walk of both stages: a leaf of stage 1 there may be replaced as it is.
#[test]
fn a_leaf_above_nt_of_stage_2_needs_no_break() {
    for (nt, is_found) in [(0, true), (NT, false)] {
        let mut machine = moved();
        let word = L3 - ROOT + PA + 16;
        machine.enter(0, Level::El2);
        map(&mut machine, S2_L2 + 8, S2_BLOCK | nt | PA);
        machine.enter(0, Level::El1);
        map(&mut machine, word, PAGE | NON_GLOBAL | 0x20_0000);
        silent(&machine);
        map(&mut machine, word, PAGE | NON_GLOBAL | 0x20_1000);
        assert_eq!(!rules(&machine).is_empty(), is_found, "{nt:#x}: {:?}", machine.findings());
    }
}

/// Who sets nT in a leaf of stage 2 leaves in TLBs what both stages had made before, until they are made to forget both.
#[test]
fn what_was_kept_before_nt_was_set_is_kept() {
    for (tlbi, found) in
        [(None, &[Rule::Reuse][..]), (Some((IPAS2E1IS, 0x200)), &[Rule::StageOrder]), (Some((VMALLS12E1IS, 0)), &[])]
    {
        let mut machine = moved();
        let word = L3 - ROOT + PA + 16;
        machine.enter(0, Level::El2);
        map(&mut machine, S2_L2 + 8, S2_BLOCK | PA);
        machine.enter(0, Level::El1);
        map(&mut machine, word, PAGE | NON_GLOBAL | 0x20_8000);
        machine.enter(0, Level::El2);
        map(&mut machine, S2_L2 + 8, S2_BLOCK | NT | PA);
        if let Some((opcode, operand)) = tlbi {
            machine.tlbi(0, opcode, operand);
            machine.barrier(0, ISH);
        }
        machine.enter(0, Level::El1);
        silent(&machine);
        map(&mut machine, word, 0);
        machine.release(0, PA + 0x8000, 0x1000, Owned::Frame);
        assert_eq!(rules(&machine), found, "{tlbi:?}");
    }
}

/// A CPU that comes later may find by an old value of stage 2 a table of stage 1 that the CPUs who are there find no more: the table
/// stays one at that place.
#[test]
fn who_comes_later_may_find_a_table_by_an_old_value_of_stage_2() {
    const TABLES: u64 = 0x5000_4000;
    const MOVED: u64 = 0x4100_0000;
    let come = |machine: &mut Machine, cpu: u8| {
        let stage2 = [(Register::VtcrEl2, 25 | 1 << 6 | 5 << 16), (Register::VttbrEl2, 7 << 48 | S2_ROOT)];
        msr(machine, cpu, &stage2);
        msr(machine, cpu, &[(Register::HcrEl2, 1)]);
        enable_el1(machine, cpu, 1, ROOT);
    };
    let mut machine = Machine::new(&[Features::full(3); 2]);
    tables(&mut machine);
    let second = [(S2_ROOT, S2_L2 | TABLE), (S2_L2, S2_L3 | TABLE), (S2_ROOT + 8, TABLES | TABLE)];
    second.into_iter().for_each(|(word, value)| map(&mut machine, word, value));
    map(&mut machine, TABLES, S2_BLOCK | 0x4000_0000);
    let pages = [(1, MOVED), (3, PA), (4, OTHER)];
    pages.into_iter().for_each(|(page, to)| map(&mut machine, S2_L3 + page * 8, S2_PAGE | to));
    map(&mut machine, L2, 0x1000 | TABLE);
    come(&mut machine, 0);
    // CPU 0 forgets all of it, and makes the table one of another level; nothing of that is shown to anybody else.
    machine.store(0, S2_L3 + 8, 0);
    machine.barrier(0, NSH);
    machine.tlbi(0, Opcode::new(4, 8, 7, 6), 0);
    machine.barrier(0, NSH);
    machine.barrier(0, ISB);
    for (word, value) in [(S2_L3 + 16, S2_PAGE | MOVED), (L1 + 8, 0x2000 | TABLE)] {
        machine.store(0, word, value);
        machine.barrier(0, NSH);
    }
    come(&mut machine, 1);
    machine.take_findings();
    machine.store(1, MOVED, PAGE | 0x3000);
    machine.barrier(1, NSH);
    machine.store(1, MOVED, PAGE | 0x4000);
    caught(&machine, Rule::BreakExpected);
}
