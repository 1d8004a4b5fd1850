//! The last byte, the last member, the other bit: what lies beside what is meant, and says nothing.

use crate::common;

use common::*;
use machine::attributes::Permissions;
use machine::barrier::{Accesses, Barrier, Domain};
use machine::context::Tag;
use machine::event::{Event, Level, Owned};
use machine::finding::Rule;
use machine::machine::{Machine, Outcome};
use machine::registers::{Features, HCR_E2H, HCR_FB, HCR_TGE, HCRX_FNXS, Register};
use machine::syndrome::{AccessKind, FaultKind};
use machine::tlbi::Opcode;

const PA: u64 = 0x8000_0000;
const OTHER: u64 = 0x9000_0000;

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

/// Whose set has lost a member may meet elsewhere what stands in that place, on the way there and on the way back.
#[test]
fn a_member_that_was_forgotten_meets_nothing_elsewhere() {
    const ASIDE: u64 = 0x4200_0000;
    for (page, is_found) in [(3, false), (2, true), (4, true)] {
        let mut machine = el1(1, Features::full(2));
        (0..16).for_each(|page| machine.store(0, L3 + page * 8, PAGE | NON_GLOBAL | CONT | PA | page << 12));
        (0..3).for_each(|level| machine.store(0, ASIDE + level * 0x1000, (ASIDE + (level + 1) * 0x1000) | TABLE));
        machine.store(0, ASIDE + 0x3000 + page * 8, PAGE | OTHER);
        machine.barrier(0, ISH);
        (0..16).for_each(|page| machine.store(0, L3 + page * 8, 0));
        machine.barrier(0, ISH);
        forget(&mut machine, 3..4);
        silent(&machine);
        let mut found = [false; 2];
        for (found, ttbr) in found.iter_mut().zip([2 << 48 | ASIDE, 1 << 48 | ROOT]) {
            msr(&mut machine, 0, &[(Register::Ttbr0El1, ttbr)]);
            *found = !machine.take_findings().is_empty();
        }
        assert_eq!(found, [is_found; 2], "{page}");
    }
}

/// Memory that is given away is what begins and ends where it is said, to the byte.
#[test]
fn what_is_given_away_ends_with_its_last_byte() {
    for (first, bytes, is_found) in [
        (PA - 0x1000, 0x1000, false),
        (PA - 0xfff, 0x1000, true),
        (PA, 1, true),
        (PA + 0xfff, 1, true),
        (PA + 0x1000, 0x1000, false),
    ] {
        let mut machine = el1(1, Features::full(2));
        map(&mut machine, L3, PAGE | PA);
        machine.store(0, L3, 0);
        machine.barrier(0, ISH);
        machine.release(0, first, bytes, Owned::Frame);
        assert_eq!(rules(&machine) == [Rule::Reuse], is_found, "{first:#x}, {bytes:#x}");
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
    assert_eq!(set.members(0x20_0000, u64::MAX), 0);
    assert!(set.overlaps(0x1f_ffff, u64::MAX) && !set.overlaps(0x20_0000, u64::MAX));
}

/// A block of stage 1 that stage 2 has page by page is kept page by page.
#[test]
fn a_page_of_a_block_has_no_members_beside_it() {
    let mut machine = stage2(1, Features::full(2));
    machine.store(0, S2_L3 + 8, S2_PAGE | OTHER);
    machine.store(0, S2_ROOT + 8, S2_BLOCK | ROOT);
    tables(&mut machine);
    machine.store(0, L2, BLOCK | NON_GLOBAL);
    machine.barrier(0, ISH);
    enable_el1(&mut machine, 0, 1, ROOT);
    let leaves = machine.leaves(Tag::el10(7), 0x1000);
    let page = leaves.iter().find(|leaf| leaf.own_log2 == 21).unwrap();
    assert_eq!((page.start, page.size_log2), (0x1000, 12));
    assert_eq!([0x0, 0x1000, 0x1fff, 0x2000].map(|at| page.members(at, at)), [0, 1, 1, 0]);
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
fn each_event_is_one() {
    let (tag, address) = (Tag::el10(0), L3);
    let events = [
        Event::Store { address, value: PAGE | PA, is_release: false },
        Event::Store { address, value: PAGE | PA, is_release: true },
        Event::CompareExchange { address, expected: PAGE | PA, value: 0 },
        Event::CompareExchange { address, expected: PAGE | PA, value: 0 },
        Event::Exchange { address, value: PAGE | PA },
        Event::Unlock,
        Event::Lock,
        Event::Barrier(ISH),
        Event::Barrier(ISB),
        Event::Tlbi { opcode: VMALLE1IS, operand: 0 },
        Event::Write { register: Register::MairEl1, value: MAIR },
        Event::Enter(Level::El0),
        Event::Access { address: 0x1000, kind: AccessKind::Read },
        Event::ConflictAbort,
        Event::Release { address: OTHER, size_bytes: 0x1000, owned: Owned::Frame },
        Event::ReuseAsid { tag, asid: 9 },
        Event::ReuseVmid(9),
        Event::Revoked { tag, asid: None, first: 0, last: 0xfff, allowed: Permissions::NONE },
        Event::Needs { first: 0, last: 0xfff },
        Event::NeedsNothing,
    ];
    let mut machine = el1(1, Features::full(2));
    for event in events {
        let before = machine.events();
        machine.apply(0, &event);
        assert_eq!(machine.events(), before + 1, "{event:?}");
    }
}

#[test]
fn fnxs_says_nothing_where_no_tlbi_is_nxs() {
    let mut machine = el1(2, Features { xs: false, ..Features::full(2) });
    map(&mut machine, L3, PAGE | PA);
    msr(&mut machine, 0, &[(Register::HcrxEl2, HCRX_FNXS)]);
    unmap(&mut machine, L3, VMALLE1IS, 0);
    map(&mut machine, L3, PAGE | OTHER);
    silent(&machine);
}

/// DS of EL2 is bit 32 of its TCR, unless EL2 is a host's: then bit 59.
#[test]
fn ranges_are_of_the_pages_that_the_regime_has() {
    const RVAE2IS: Opcode = Opcode::new(4, 8, 2, 1);
    for hcr in [0, 1, HCR_FB] {
        let mut machine = el2(1, Features::full(2));
        msr(&mut machine, 0, &[(Register::VtcrEl2, 25 | 1 << 6 | 5 << 16), (Register::VttbrEl2, 7 << 48 | S2_ROOT)]);
        msr(&mut machine, 0, &[(Register::HcrEl2, hcr), (Register::TcrEl2, 16 | 5 << 16 | 1 << 59)]);
        map(&mut machine, L3 + 8, PAGE | PA);
        unmap(&mut machine, L3 + 8, RVAE2IS, 1 << 46 | 1);
        map(&mut machine, L3 + 8, PAGE | OTHER);
        silent(&machine);
    }
}

#[test]
fn a_table_that_is_given_away_as_a_frame_stays_one() {
    for page in [L3, ROOT] {
        let mut machine = el1(1, Features::full(0));
        map(&mut machine, L3, PAGE | PA);
        machine.release(0, page, 0x1000, Owned::Frame);
        silent(&machine);
        machine.store(0, L3, PAGE | OTHER);
        caught(&machine, Rule::BreakExpected);
    }
}

/// The table falls to the TLBI, and of the set below it only the member that the TLBI names: on a CPU that is sure of
/// nothing before its ISB, too.
#[test]
fn a_tlbi_takes_one_member_of_the_set_below_its_table() {
    // Executable at EL1.
    const CODE: u64 = PAGE & !(1 << 53);
    for (page, is_found) in [(3, false), (4, true)] {
        let mut machine = el1(1, Features::full(0));
        (0..16).for_each(|page| machine.store(0, L3 + page * 8, CODE | NON_GLOBAL | CONT | PA | page << 12));
        machine.barrier(0, ISH);
        unmap(&mut machine, L2, VAE1IS, 1 << 48 | 3);
        let table = L3 + 0x1000;
        machine.store(0, table + page * 8, PAGE | NON_GLOBAL | OTHER);
        machine.barrier(0, ISHST);
        machine.store(0, L2, table | TABLE);
        assert_eq!(!rules(&machine).is_empty(), is_found, "{page}: {:?}", machine.findings());
    }
}

/// A fault is that of the address's own descriptor, whatever its neighbour would fault for.
#[test]
fn a_neighbour_with_the_contiguous_bit_faults_for_itself() {
    let mut machine = el1(1, Features::full(0));
    machine.store(0, L3 + 8, PAGE & !AF | CONT | PA | 0x1000);
    map(&mut machine, L3, PAGE | PA);
    assert_eq!(machine.access(0, 0, AccessKind::Read).outcomes, [Outcome::Translated(PA)]);
}

/// What a TLB kept is no new mapping: that a walk may still fault beside it is nobody's mistake.
#[test]
fn what_only_a_tlb_has_does_not_make_a_fault_late() {
    let mut machine = el1(1, Features::full(0));
    map(&mut machine, L3, PAGE | PA);
    machine.store(0, L3, 0);
    machine.barrier(0, ISH);
    machine.store(0, L3, 2);
    let answer = machine.access(0, 0, AccessKind::Read);
    assert!(answer.outcomes.contains(&Outcome::Translated(PA)) && answer.may_fault(FaultKind::Translation));
    silent(&machine);
}

#[test]
fn the_last_byte_of_a_page_is_ground_like_others() {
    let mut machine = el1(1, Features::full(2));
    let table = L3 + 0x1000;
    for word in [L3, table] {
        (0..3).for_each(|page| machine.store(0, word + page * 8, PAGE | PA | page << 12));
    }
    machine.barrier(0, ISH);
    machine.needs(0, 0x1fff, 0x2000);
    machine.store(0, L2, table | TABLE);
    assert!(!rules(&machine).contains(&Rule::OwnGround), "{:?}", machine.findings());
}

#[test]
fn who_may_hold_an_entry_is_known_while_it_is_linked_and_behind_that() {
    let mut machine = el1(2, Features::full(2));
    map(&mut machine, L3, PAGE | NON_GLOBAL | PA);
    let entry = machine.leaves(Tag::el10(0), 0)[0];
    let holders = |machine: &Machine| machine.may().holders(&entry).cpus();
    assert_eq!(holders(&machine), 0b11);
    machine.store(0, L3, 0);
    machine.barrier(0, ISH);
    assert_eq!(holders(&machine), 0b11);
    unmap(&mut machine, L3, VMALLE1, 0);
    assert_eq!(holders(&machine), 0b10);
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
