//! The ways an access may go: what hardware must write for each, where it may not write any more, and what a wrong operand is
//! told to be.

use crate::common;
use common::*;
use machine::barrier::{Accesses, Barrier, Domain};
use machine::finding::{Missing, Rule};
use machine::machine::{Machine, Outcome, Update};
use machine::registers::{Features, Register};
use machine::syndrome::{AccessKind, FaultKind};
use machine::tlbi::{Miss, Opcode};

const PA: u64 = 0x8000_0000;
const OTHER: u64 = 0x9000_0000;
const DBM: u64 = 1 << 51;
const HA: u64 = 1 << 39;
const HD: u64 = 1 << 40;

/// One CPU whose hardware sets access flags, dirty states, both or none, on a page.
fn marked(hardware: u64, page: u64) -> Machine {
    let mut machine = Machine::new(&[Features::full(0)]);
    tables(&mut machine);
    let writes = [
        (Register::MairEl1, MAIR),
        (Register::TcrEl1, TCR_48 | 1 << 23 | hardware),
        (Register::Ttbr0El1, 1 << 48 | ROOT),
        (Register::SctlrEl1, 1),
    ];
    msr(&mut machine, 0, &writes);
    map(&mut machine, L3, page);
    machine.take_findings();
    machine
}

/// What hardware writes on the way to `PA`, if there is such a way.
fn update(machine: &mut Machine, kind: AccessKind) -> Option<Option<Update>> {
    let ways = machine.ways(0, 0, kind);
    ways.iter().find(|way| way.outcome == Outcome::Translated(PA)).map(|way| way.update)
}

#[test]
fn hardware_writes_what_an_access_needs_and_no_more() {
    let (young, clean) = (PAGE & !AF | PA, PAGE | PA | RO | DBM);
    let to = |from: u64, to: u64| Some(Some(Update { word: L3, from, to }));
    let rows = [
        (HA, young, AccessKind::Read, to(young, young | AF)),
        (HA, young, AccessKind::Write, to(young, young | AF)),
        (HA, PAGE | PA, AccessKind::Write, Some(None)),
        (HA, clean, AccessKind::Read, Some(None)),
        (HA, clean, AccessKind::Write, None),
        (HA | HD, clean, AccessKind::Read, Some(None)),
        (HA | HD, clean, AccessKind::Write, to(clean, clean & !RO)),
        (HA | HD, clean & !AF, AccessKind::Write, to(clean & !AF, clean & !RO | AF)),
        (HA | HD, clean & !AF, AccessKind::Read, to(clean & !AF, clean)),
        (HA | HD, PAGE | PA | RO, AccessKind::Write, None),
        (0, PAGE | PA, AccessKind::Read, Some(None)),
        (0, young, AccessKind::Read, None),
    ];
    for (hardware, page, kind, expected) in rows {
        assert_eq!(update(&mut marked(hardware, page), kind), expected, "{hardware:#x}, {page:#x}, {kind:?}");
    }
}

/// The word shows something else by now: what is cached may be used, but nothing can be marked any more.
#[test]
fn hardware_does_not_mark_what_is_there_no_longer() {
    for (page, is_left) in [(PAGE & !AF | PA, false), (PAGE | PA, true)] {
        let mut machine = marked(HA, page);
        machine.exchange(0, L3, PAGE | OTHER);
        assert_eq!(update(&mut machine, AccessKind::Read), is_left.then_some(None), "{page:#x}");
        assert!(machine.access(0, 0, AccessKind::Read).addresses().any(|address| address == PA));
    }
}

/// What only a TLB holds is used as it is.
#[test]
fn nothing_is_written_for_what_a_tlb_kept() {
    let mut machine = marked(HA | HD, PAGE | PA);
    machine.exchange(0, L3, 0);
    machine.barrier(0, ISH);
    for kind in [AccessKind::Read, AccessKind::Write] {
        assert_eq!(update(&mut machine, kind), Some(None), "{kind:?}");
    }
}

/// Every access to a word is to all of it.
#[test]
fn the_lowest_bits_of_an_address_do_not_count() {
    let mut machine = el1(1, Features::full(0));
    for low in [0, 1, 4, 7] {
        machine.store(0, OTHER + low, 1);
        assert_eq!(machine.exchange(0, OTHER + low, 2), 1);
        assert_eq!(machine.compare_exchange(0, OTHER + low, 2, 3), Ok(2));
        assert_eq!(machine.compare_exchange(0, OTHER + low, 2, 4), Err(3));
        assert_eq!((machine.load(0, OTHER + low), machine.word(OTHER)), (3, 3), "{low}");
    }
}

const DMB_ST: Barrier = Barrier::Dmb { domain: Domain::Inner, accesses: Accesses::Stores };

/// A DSB for stores comes after what was settled before its CPU's last store; one for loads, before its last load.
#[test]
fn a_dsb_comes_behind_what_it_waits_for() {
    let dsb = |accesses| Barrier::Dsb { domain: Domain::Inner, accesses, is_nxs: false };
    let run = |steps: &dyn Fn(&mut Machine)| {
        let mut machine = el1(2, Features::full(3));
        machine.settle_stores();
        machine.store(0, L3, PAGE | PA);
        steps(&mut machine);
        machine.barrier(1, ISB);
        machine.access(1, 0, AccessKind::Read).may_fault(FaultKind::Translation)
    };
    let order = |machine: &mut Machine| machine.barrier(0, DMB_ST);
    let own = |machine: &mut Machine| machine.store(1, OTHER, 1);
    let exchange = |machine: &mut Machine| {
        machine.exchange(1, OTHER, 1);
    };
    let load = |machine: &mut Machine| {
        machine.load(1, OTHER);
    };
    type Access<'a> = &'a dyn Fn(&mut Machine);
    let rows: [(&str, bool, Access<'_>, Accesses); 8] = [
        ("a store", true, &own, Accesses::Stores),
        ("an exchange", true, &exchange, Accesses::Stores),
        ("a load", false, &load, Accesses::Stores),
        ("a store", false, &own, Accesses::Loads),
        ("a load", true, &load, Accesses::Loads),
        ("an exchange", true, &exchange, Accesses::Loads),
        ("a store", true, &own, Accesses::All),
        ("a load", true, &load, Accesses::All),
    ];
    for (what, is_ordered, access, accesses) in rows {
        let behind = |machine: &mut Machine| {
            order(machine);
            access(machine);
            machine.barrier(1, dsb(accesses));
        };
        assert_eq!(run(&behind), !is_ordered, "{what} behind, DSB for {accesses:?}");
        let before = |machine: &mut Machine| {
            access(machine);
            order(machine);
            machine.barrier(1, dsb(accesses));
        };
        assert_eq!(run(&before), accesses != Accesses::All, "{what} before, DSB for {accesses:?}");
    }
}

/// What is said of a TLBI whose operand names the page in another unit than 4 KiB; or does not name it at all.
#[test]
fn an_operand_in_another_unit_is_told_of() {
    let address = 0x8000_u64 << 12;
    let slot = L2 + 8 * (address >> 21);
    let run = |opcode: Opcode, operand: u64| {
        let mut machine = el1(1, Features::full(0));
        machine.store(0, slot, 0x4000_8000 | TABLE);
        map(&mut machine, 0x4000_8000, PAGE | PA);
        machine.store(0, 0x4000_8000, 0);
        machine.barrier(0, ISH);
        machine.tlbi(0, opcode, operand);
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        machine.store(0, 0x4000_8000, PAGE | OTHER);
        machine.findings().first().map(|it| {
            let is_told = matches!(it.missing, Missing::BetterTlbi(near) if near.why == Miss::Misencoded);
            (it.rule == Rule::Encoding, is_told)
        })
    };
    assert_eq!(run(VAAE1IS, address >> 12), None);
    for shift in [0, 14, 16] {
        assert_eq!(run(VAAE1IS, address >> shift), Some((true, true)), "{shift}");
        assert_eq!(run(VAE1IS, 1 << 48 | address >> shift), Some((true, true)), "{shift}");
    }
    assert_eq!(run(RVAE1IS, 1 << 48 | 1 << 46 | address), Some((true, true)));
    for other in [(address >> 12) + 1, address >> 13, address >> 15, 0, address + 1] {
        assert_eq!(run(VAAE1IS, other), Some((false, false)), "{other:#x}");
    }
}

/// What was there before what is read is none of its business.
#[test]
fn an_older_value_does_not_stand_for_what_hardware_would_have_to_mark() {
    let mut machine = marked(HA, PAGE | 0xa000_0000);
    machine.exchange(0, L3, PAGE & !AF | PA);
    machine.exchange(0, L3, PAGE | OTHER);
    assert_eq!(update(&mut machine, AccessKind::Read), None);
}

/// With FEAT_ETS2 its own stores come before the faults of a CPU. What another CPU stored before them its walker does not miss any
/// more, and that says nothing.
#[test]
fn only_what_a_walker_may_miss_says_when_its_faults_are_over() {
    let mut machine = el1(2, Features::full(3));
    machine.settle_stores();
    machine.store(0, L3, PAGE | PA);
    machine.load(1, L3);
    machine.barrier(1, ISH);
    machine.store(1, L3, 0);
    machine.store(1, L3, PAGE | PA);
    let ways = machine.ways(1, 0, AccessKind::Read);
    let faults: Vec<_> = ways.iter().filter(|way| matches!(way.outcome, Outcome::Fault(_))).collect();
    assert!(!faults.is_empty() && faults.iter().all(|way| way.settled == Some(0)), "{ways:x?}");
}
