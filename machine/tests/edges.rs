//! The last byte, the last member, the other bit: what lies beside what is meant, and says nothing.

mod common;

use common::*;
use machine::barrier::{Accesses, Barrier, Domain};
use machine::context::Tag;
use machine::event::{Event, Level, Owned};
use machine::finding::Rule;
use machine::machine::{Machine, Outcome};
use machine::registers::{Features, HCR_E2H, HCR_FB, HCR_TGE, HCRX_FNXS, Register};
use machine::syndrome::AccessKind;

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

/// Sixteen pages that were a set, and are broken.
fn broken_set() -> Machine {
    let mut machine = el1(1, Features::full(2));
    (0..16).for_each(|page| machine.store(0, L3 + page * 8, PAGE | NON_GLOBAL | CONT | PA | page << 12));
    machine.barrier(0, ISH);
    (0..16).for_each(|page| machine.store(0, L3 + page * 8, 0));
    machine.barrier(0, ISH);
    machine
}

fn forget(machine: &mut Machine, pages: std::ops::Range<u64>) {
    pages.for_each(|page| machine.tlbi(0, VALE1IS, 1 << 48 | page));
    machine.barrier(0, ISH);
    machine.barrier(0, ISB);
}

#[test]
fn a_set_whose_members_were_each_forgotten_is_gone() {
    for (forgotten, is_found) in [(0..16, false), (0..15, true), (1..16, true)] {
        let mut machine = broken_set();
        forget(&mut machine, forgotten.clone());
        machine.release(0, PA, 0x1_0000, Owned::Frame);
        assert_eq!(rules(&machine).contains(&Rule::Reuse), is_found, "{forgotten:?}");
        assert_eq!(machine.may().stale().is_empty(), !is_found, "{forgotten:?}");
    }
}

#[test]
fn where_a_member_was_forgotten_something_else_may_stand() {
    for (page, is_found) in [(2, true), (3, false), (4, true)] {
        let mut machine = broken_set();
        forget(&mut machine, 3..4);
        machine.store(0, L3 + page * 8, PAGE | NON_GLOBAL | OTHER);
        assert_eq!(!rules(&machine).is_empty(), is_found, "{page}");
    }
}

#[test]
fn a_set_of_sixteen_kib_pages_has_128_members() {
    let mut machine = Machine::new(&[Features::full(2)]);
    // 36 bits: a root of level 2.
    machine.store(0, ROOT, 0x4001_0000 | TABLE);
    (0..128).for_each(|page| machine.store(0, 0x4001_0000 + page * 8, PAGE | CONT | PA | page << 14));
    machine.barrier(0, ISH);
    let tcr = TCR_48 & !0x3f | 28 | 2 << 14 | 1 << 23;
    let writes = [(Register::MairEl1, MAIR), (Register::TcrEl1, tcr), (Register::Ttbr0El1, 1 << 48 | ROOT)];
    msr(&mut machine, 0, &writes);
    msr(&mut machine, 0, &[(Register::SctlrEl1, 1)]);
    let set = machine.leaves(Tag::el10(0), 0)[0];
    assert_eq!(set.members(0, 0x1f_ffff), u128::MAX);
    assert_eq!(set.members(0x1f_c000, 0x1f_ffff), 1 << 127);
    assert_eq!(set.members(0x1f_ffff, 0x1f_ffff), 1 << 127);
    assert!(set.overlaps(0x1f_ffff, u64::MAX) && !set.overlaps(0x20_0000, u64::MAX));
}

#[test]
fn other_bits_of_sctlr_leave_the_mmu_off() {
    for bits in [1 << 2 | 1 << 12, 0] {
        let mut machine = Machine::new(&[Features::full(2)]);
        msr(&mut machine, 0, &[(Register::SctlrEl1, bits), (Register::SctlrEl2, bits)]);
        for level in [Level::El1, Level::El2] {
            machine.enter(0, level);
            let answer = machine.access(0, 0x1234, AccessKind::Read);
            assert_eq!(answer.outcomes, [Outcome::Translated(0x1234)], "{level:?}, {bits:#x}");
        }
    }
}

#[test]
fn hcr_makes_nobody_a_host_where_el2_is_not_there() {
    let answer = |el2, hcr| {
        let mut machine = el1(1, Features { el2, ..Features::full(2) });
        map(&mut machine, L3 + 8, PAGE | PA);
        msr(&mut machine, 0, &[(Register::HcrEl2, hcr)]);
        machine.enter(0, Level::El0);
        machine.access(0, 0x1000, AccessKind::Read).outcomes
    };
    let guest = answer(true, 0);
    assert_eq!(answer(false, HCR_TGE | HCR_E2H), guest);
    assert_ne!(answer(true, HCR_TGE | HCR_E2H), guest);
}

#[test]
fn hcr_broadcasts_nothing_where_el2_is_not_there() {
    for (el2, is_found) in [(true, false), (false, true)] {
        let mut machine = el1(2, Features { el2, ..Features::full(2) });
        map(&mut machine, L3, PAGE | PA);
        msr(&mut machine, 0, &[(Register::HcrEl2, HCR_FB)]);
        unmap(&mut machine, L3, VMALLE1, 0);
        map(&mut machine, L3, PAGE | OTHER);
        assert_eq!(rules(&machine).contains(&Rule::Overlap), is_found, "EL2: {el2}");
    }
}

#[test]
fn one_bit_of_hcrx_makes_tlbis_nxs() {
    let nxs = Barrier::Dsb { domain: Domain::Inner, accesses: Accesses::All, is_nxs: true };
    for (hcrx, is_found) in [(HCRX_FNXS, false), (!HCRX_FNXS & 0xff, true), (0, true)] {
        let mut machine = el1(2, Features::full(2));
        map(&mut machine, L3, PAGE | PA);
        msr(&mut machine, 0, &[(Register::HcrxEl2, hcrx)]);
        machine.store(0, L3, 0);
        machine.barrier(0, ISH);
        machine.tlbi(0, VMALLE1IS, 0);
        machine.barrier(0, nxs);
        machine.barrier(0, ISB);
        map(&mut machine, L3, PAGE | OTHER);
        assert_eq!(rules(&machine).contains(&Rule::Overlap), is_found, "{hcrx:#x}");
    }
}

#[test]
fn an_access_is_an_event_like_others() {
    let mut machine = el1(1, Features::full(2));
    let before = machine.events();
    machine.apply(0, &Event::Access { address: 0x1000, kind: AccessKind::Read });
    assert_eq!(machine.events(), before + 1);
}

#[test]
fn a_machine_may_have_64_cpus() {
    for cpus in [1, 63, 64] {
        let mut machine = el1(cpus, Features::full(2));
        machine.release(0, ROOT, 0x1000, Owned::Table);
        let found = &machine.findings()[0];
        assert_eq!((found.rule, found.cpus.count_ones() as usize), (Rule::Reuse, cpus));
    }
}

#[test]
fn an_odd_address_is_looked_up_like_others() {
    let mut machine = el1(1, Features::full(2));
    map(&mut machine, L3 + 8, PAGE | PA);
    machine.store(0, L3 + 8, 0);
    machine.barrier(0, ISH);
    for address in [0x1000, 0x1001, 0x1fff] {
        let answer = machine.access(0, address, AccessKind::Read);
        assert!(answer.outcomes.contains(&Outcome::Translated(PA + (address & 0xfff))), "{address:#x}: {answer:x?}");
    }
}

#[test]
fn tables_that_come_and_go_are_not_counted_for_ever() {
    let mut machine = el1(1, Features::full(2));
    for _ in 0..2000 {
        map(&mut machine, L2 + 8, (L3 + 0x1000) | TABLE);
        unmap(&mut machine, L2 + 8, VMALLE1IS, 0);
        machine.release(0, L3 + 0x1000, 0x1000, Owned::Table);
    }
    silent(&machine);
    assert_eq!(machine.overrun(), None);
}

#[test]
fn equal_memory_is_asked_for_where_both_entries_translate() {
    // Whose first word differs between what the block and what the page beside it lead to.
    for (differs, is_found) in [(0, false), (1, true), (2, false)] {
        let mut machine = el1(1, Features::full(2));
        machine.store(0, PA + differs * 0x1000, 1);
        map(&mut machine, L2, BLOCK | RO | PA);
        for page in 0..512 {
            let to = if page == 1 { OTHER } else { PA } + page * 0x1000;
            machine.store(0, L3 + page * 8, PAGE | RO | to);
        }
        machine.barrier(0, ISHST);
        machine.store(0, L2, L3 | TABLE);
        assert_eq!(!rules(&machine).is_empty(), is_found, "page {differs}: {:?}", machine.findings());
    }
}
