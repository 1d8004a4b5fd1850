//! Corners that random runs do not come to: roots that share a page, the first word of memory, memory types whose inner and outer
//! cacheability differ, a CPU without EL2.

use crate::common;

use common::*;
use machine::context::Tag;
use machine::finding::{Reason, Rule};
use machine::machine::{Machine, Outcome};
use machine::registers::{Features, HCR_VM, Register};
use machine::syndrome::{AccessKind, Fault, FaultKind};

/// Roots of four entries, 32 bytes each: 32 bits of input address, from level 1.
const SMALL: u64 = 0x4000_8040;

#[test]
fn a_root_is_as_long_as_its_entries_are() {
    let mut machine = Machine::new(&[Features::full(2)]);
    let tcr = TCR_48 & !0x3f | 32 | 1 << 23;
    let writes = [(Register::MairEl1, MAIR), (Register::TcrEl1, tcr), (Register::Ttbr0El1, 1 << 48 | SMALL)];
    msr(&mut machine, 0, &writes);
    msr(&mut machine, 0, &[(Register::SctlrEl1, 1)]);
    for (word, is_its) in [(SMALL - 8, false), (SMALL, true), (SMALL + 24, true), (SMALL + 32, false)] {
        assert_eq!(machine.is_descriptor(word), is_its, "{word:#x}");
        assert_eq!(machine.links_at(word, L2 | TABLE).len(), usize::from(is_its), "{word:#x}");
    }
}

#[test]
fn the_first_word_of_memory_is_a_descriptor_like_any_other() {
    let mut machine = Machine::new(&[Features::full(2)]);
    machine.store(0, 0, L1 | TABLE);
    machine.store(0, L1, BLOCK);
    machine.barrier(0, ISH);
    enable_el1(&mut machine, 0, 1, 0);
    machine.store(0, 0, 0);
    assert_eq!(machine.unseen().map(|it| it.0).collect::<Vec<_>>(), [0]);
    machine.barrier(0, ISH);
    assert_eq!(machine.unseen().count(), 0);
    assert_eq!(machine.may().stale().len(), 1, "the table entry; the block is reached through that");
}

#[test]
fn what_is_cached_at_one_place_alone_has_a_shareability() {
    // Inner write-back and outer non-cacheable, the reverse, and neither.
    for (memory, is_cached) in [(0x4f, true), (0xf4, true), (0x44, false)] {
        let mut machine = el1(1, Features::full(2));
        msr(&mut machine, 0, &[(Register::MairEl1, memory)]);
        map(&mut machine, L3, PAGE);
        machine.store(0, L3, PAGE ^ 1 << 8);
        let reasons: Vec<_> = machine.findings().iter().map(|it| it.reason).collect();
        assert_eq!(reasons.contains(&Some(Reason::MemoryType)), is_cached, "{memory:#x}: {reasons:?}");
        assert_eq!(rules(&machine).contains(&Rule::BreakExpected), is_cached, "{memory:#x}");
    }
}

#[test]
fn hcr_says_nothing_where_el2_is_not_there() {
    for el2 in [true, false] {
        let mut machine = Machine::new(&[Features { el2, ..Features::full(2) }]);
        msr(&mut machine, 0, &[(Register::VtcrEl2, 25 | 1 << 6 | 5 << 16), (Register::HcrEl2, HCR_VM)]);
        let answer = machine.access(0, 0x1000, AccessKind::Read);
        assert_eq!(answer.outcomes.contains(&Outcome::Translated(0x1000)), !el2, "{answer:x?}");
    }
}

#[test]
fn an_address_beyond_the_page_table_faults() {
    let mut machine = el1(1, Features::full(2));
    let answer = machine.access(0, 1 << 50, AccessKind::Read);
    let fault = Fault { kind: FaultKind::Translation, level: 0, is_stage2: false, is_on_walk: false, intermediate: 0 };
    assert_eq!(answer.outcomes, [Outcome::Fault(fault)]);
}

#[test]
fn an_asid_is_free_where_nothing_but_nt_was_there() {
    for (value, is_found) in [(BLOCK | NON_GLOBAL, true), (BLOCK | NON_GLOBAL | NT, false)] {
        let mut machine = Machine::new(&[Features::full(2)]);
        machine.store(0, ROOT, value);
        machine.barrier(0, ISH);
        // 39 bits: blocks stand in the root, and there is no table to keep.
        let tcr = TCR_48 & !0x3f | 25 | 1 << 23;
        let writes = [(Register::MairEl1, MAIR), (Register::TcrEl1, tcr), (Register::Ttbr0El1, 1 << 48 | ROOT)];
        msr(&mut machine, 0, &writes);
        msr(&mut machine, 0, &[(Register::SctlrEl1, 1)]);
        machine.reuse_asid(0, Tag::el10(0), 1);
        assert_eq!(rules(&machine).contains(&Rule::Reuse), is_found, "{value:#x}");
    }
}

#[test]
fn what_leads_to_equal_memory_is_compared_no_further_than_it_reaches() {
    for (differs_at, is_wrong) in [(0x8000_1000, false), (0x8000_0ff8, true), (0x8000_0000, true)] {
        let mut machine = el1(1, Features::full(2));
        machine.store(0, differs_at, 1);
        map(&mut machine, L3 + 8, PAGE | RO | 0x8000_0000);
        machine.store(0, L3 + 8, PAGE | RO | 0x8004_0000);
        assert_eq!(!rules(&machine).is_empty(), is_wrong, "{differs_at:#x}: {:?}", machine.findings());
    }
}

#[test]
fn members_of_a_set_are_those_whose_addresses_are_asked_for() {
    let mut machine = el1(1, Features::full(2));
    map(&mut machine, L3 + 16 * 8, PAGE | CONT | 0x8001_0000);
    let set = machine.leaves(Tag::el10(0), 0x1_0000)[0];
    let cases = [
        (0x1_0000, 0x1_ffff, 0xffff),
        (0x1_0000, 0x1_0fff, 1),
        (0x1_1000, 0x1_1fff, 2),
        (0x1_0fff, 0x1_1000, 3),
        (0x1_f000, 0x5_0000, 0x8000),
        (0x1_ffff, 0x1_ffff, 0x8000),
        (0, 0x1_0000, 1),
        (0, 0xffff, 0),
        (0x2_0000, 0x2_ffff, 0),
    ];
    for (first, last, members) in cases {
        assert_eq!(set.members(first, last), members, "{first:#x}..={last:#x}");
        assert_eq!(set.overlaps(first, last), members != 0, "{first:#x}..={last:#x}");
    }
}
