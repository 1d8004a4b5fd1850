//! What a TLBI comes after, and for whom it ends what walks had begun. (DDI 0487, B2.3: DSB-ordered-before, context
//! synchronization, address dependencies; D8.17, RWWQZZ)

use crate::common;
use common::*;
use machine::barrier::{Accesses, Barrier, Domain};
use machine::context::Tag;
use machine::finding::Rule;
use machine::machine::Machine;
use machine::registers::{Ets, Features, Register};
use machine::syndrome::{AccessKind, FaultKind};
use machine::tlbi::Opcode;

const PA: u64 = 0x8000_0000;
const FLAG: u64 = 0x7000_0000;
const PAGE_0: u64 = 1 << 48;
const VAE1OS: Opcode = Opcode::new(0, 8, 1, 1);
const DMB_ST: Barrier = Barrier::Dmb { domain: Domain::Inner, accesses: Accesses::Stores };

const fn dsb(domain: Domain, accesses: Accesses) -> Barrier {
    Barrier::Dsb { domain, accesses, is_nxs: false }
}

/// `count` CPUs whose stores settle, and page 0 mapped.
fn mapped(count: usize, features: Features) -> Machine {
    let mut machine = el1(count, features);
    machine.settle_stores();
    map(&mut machine, L3, PAGE | PA);
    machine
}

/// CPUs that still translate page 0, each asked in a copy.
fn translating(machine: &Machine) -> Vec<u8> {
    let translates = |cpu: &u8| machine.clone().access(*cpu, 0, AccessKind::Read).addresses().count() != 0;
    (0..machine.cpus().len() as u8).filter(translates).collect()
}

/// CPUs that may fault for page 0.
fn faulting(machine: &Machine) -> Vec<u8> {
    let may_fault = |cpu: &u8| machine.clone().access(*cpu, 0, AccessKind::Read).may_fault(FaultKind::Translation);
    (0..machine.cpus().len() as u8).filter(may_fault).collect()
}

/// CPU 0 breaks the page and orders that before a flag. What CPU 1 then does has come after it, if the DSB between waits for
/// that: its load, or its own store, which is later in coherence order.
#[test]
fn a_tlbi_comes_after_what_the_dsb_before_it_waits_for() {
    for (stores, accesses, is_ordered) in [
        (false, Accesses::Loads, true),
        (false, Accesses::Stores, false),
        (false, Accesses::All, true),
        (true, Accesses::Loads, false),
        (true, Accesses::Stores, true),
        (true, Accesses::All, true),
    ] {
        let mut machine = mapped(3, Features::full(3));
        machine.store(0, L3, 0);
        machine.barrier(0, DMB_ST);
        machine.store(0, FLAG, 1);
        if stores {
            machine.store(1, FLAG, 2)
        } else {
            machine.load(1, FLAG);
        }
        machine.barrier(1, dsb(Domain::Inner, accesses));
        machine.tlbi(1, VAE1IS, PAGE_0);
        machine.barrier(1, ISH);
        machine.barrier(1, ISB);
        let still: &[u8] = if is_ordered { &[] } else { &[0, 1, 2] };
        assert_eq!(translating(&machine), still, "{stores} {accesses:?}");
    }
}

/// CPU 0 takes the page away and has no DSB. What is mapped next meets it, unless a lock went from there to the CPU that invalidates,
/// before its DSB.
#[test]
fn who_takes_a_lock_invalidates_what_its_last_holder_took_away() {
    const OTHER: u64 = 0x9000_0000;
    for (steps, is_seen) in [
        ("unlock lock dsb", true),
        ("lock unlock dsb", false),
        ("unlock dsb lock", false),
        ("unlock dsb", false),
        ("lock dsb", false),
        ("dsb", false),
        ("unlock lock", false),
    ] {
        for dsb in [ISHST, ISH] {
            let mut machine = el1(3, Features::full(2));
            map(&mut machine, L3, PAGE | PA);
            machine.store(0, L3, 0);
            for step in steps.split(' ') {
                match step {
                    "unlock" => machine.unlock(0),
                    "lock" => machine.lock(1),
                    _ => machine.barrier(1, dsb),
                }
            }
            // No lock takes the place of the TLBI.
            let mut forgetful = machine.clone();
            forgetful.store(2, L3, PAGE | OTHER);
            caught(&forgetful, Rule::Overlap);
            machine.tlbi(1, VAE1IS, PAGE_0);
            machine.barrier(1, ISH);
            machine.barrier(1, ISB);
            machine.store(2, L3, PAGE | OTHER);
            assert_eq!(rules(&machine).is_empty(), is_seen, "{steps}, {dsb}");
        }
    }
}

/// Without a DSB: an address dependency to the TLBI, or a context synchronization event behind a branch, is as good. What was
/// settled after the load that they begin at is not ordered by them.
#[test]
fn a_tlbi_comes_after_a_load_that_it_depends_on() {
    for (opcode, after) in [(VAE1IS, &[][..]), (VAE1OS, &[]), (VAE1, &[0, 2])] {
        let mut machine = mapped(3, Features::full(3));
        let before = machine.events();
        machine.store(0, L3, 0);
        machine.barrier(0, DMB_ST);
        machine.store(0, FLAG, 1);
        machine.load(1, FLAG);
        let moment = machine.events();
        for (moment, still) in [(moment, after), (before, &[0, 1, 2])] {
            let mut machine = machine.clone();
            machine.tlbi_after(1, opcode, PAGE_0, moment);
            assert_eq!(translating(&machine), [0, 1, 2], "{opcode:?} is not complete");
            machine.barrier(1, dsb(Domain::System, Accesses::All));
            machine.barrier(1, ISB);
            assert_eq!(translating(&machine), still, "{opcode:?} {moment}");
        }
    }
}

/// An exchange is a load and a store, and a compare-and-exchange that finds something else a load alone.
#[test]
fn exchanges_are_waited_for_like_loads_and_stores() {
    type Make = fn(&mut Machine) -> u64;
    let makes: [(Make, [bool; 2]); 4] = [
        (|machine| machine.exchange(1, FLAG, 2), [true, true]),
        (|machine| machine.compare_exchange(1, FLAG, 1, 2).unwrap_or(0), [true, true]),
        (|machine| machine.compare_exchange(1, FLAG, 7, 2).unwrap_or_else(|found| found), [true, false]),
        (|machine| machine.word(FLAG), [false, false]),
    ];
    for (number, (make, ordered)) in makes.into_iter().enumerate() {
        for (accesses, is_ordered) in [Accesses::Loads, Accesses::Stores].into_iter().zip(ordered) {
            let mut machine = mapped(2, Features::full(3));
            machine.store(0, L3, 0);
            machine.barrier(0, DMB_ST);
            machine.store(0, FLAG, 1);
            assert_eq!(make(&mut machine), 1);
            machine.barrier(1, dsb(Domain::Inner, accesses));
            machine.tlbi(1, VAE1IS, PAGE_0);
            machine.barrier(1, ISH);
            machine.barrier(1, ISB);
            assert_eq!(translating(&machine).is_empty(), is_ordered, "{number} {accesses:?}");
        }
    }
}

/// What was settled after the load or store that a DSB waits for does not come before the DSB.
#[test]
fn a_dsb_orders_nothing_that_was_settled_after_what_it_waits_for() {
    for accesses in [Accesses::Loads, Accesses::Stores] {
        let mut machine = mapped(2, Features::full(3));
        machine.exchange(1, FLAG, 2);
        machine.store(0, L3, 0);
        machine.barrier(0, DMB_ST);
        machine.barrier(1, dsb(Domain::Inner, accesses));
        machine.tlbi(1, VAE1IS, PAGE_0);
        machine.barrier(1, ISH);
        assert_eq!(translating(&machine), [0, 1], "{accesses:?}");
    }
}

/// A DSB for stores shows its CPU's walker what came before its own store.
#[test]
fn who_has_stored_later_walks_what_was_stored_before_after_a_dsb_for_stores() {
    for accesses in [Accesses::Loads, Accesses::Stores] {
        let mut machine = el1(2, Features::full(3));
        machine.settle_stores();
        machine.store(0, L3, PAGE | PA);
        machine.barrier(0, DMB_ST);
        machine.store(0, FLAG, 1);
        machine.store(1, FLAG, 2);
        machine.barrier(1, dsb(Domain::Inner, accesses));
        machine.barrier(1, ISB);
        assert_eq!(faulting(&machine).contains(&1), accesses == Accesses::Loads);
    }
}

/// CPU 0 makes page 0 valid; without FEAT_ETS2 a walk of each CPU may have begun before.
fn late(count: usize, ets: Ets) -> Machine {
    let mut machine = el1(count, Features { ets, ..Features::full(3) });
    machine.settle_stores();
    machine.store(0, L3, PAGE | PA);
    machine.barrier(0, ISH);
    machine
}

/// The CPU that issues the TLBI may itself have looked ahead of the TLBI, and goes on with that until it synchronizes.
#[test]
fn who_issues_a_tlbi_may_fault_late_until_it_synchronizes() {
    for (ets, before, after) in [(Ets::None, &[0, 1, 2][..], &[0][..]), (Ets::Ets2, &[], &[])] {
        for (opcode, operand) in [(VAE1IS, PAGE_0), (VMALLE1IS, 0)] {
            let mut machine = late(3, ets);
            machine.tlbi(0, opcode, operand);
            assert_eq!(faulting(&machine), before);
            machine.barrier(0, ISH);
            assert_eq!(faulting(&machine), after, "{opcode:?}");
            machine.barrier(0, ISB);
            assert_eq!(faulting(&machine), []);
        }
    }
    // A local TLBI waits for nobody else.
    let mut machine = late(2, Ets::None);
    machine.tlbi(0, VAE1, PAGE_0);
    machine.barrier(0, ISH);
    machine.barrier(0, ISB);
    assert_eq!(faulting(&machine), [1]);
}

/// The same TLBI shows a settled store to every walker. No access of another CPU is left then that had missed the store.
#[test]
fn what_a_tlbi_shows_to_others_they_do_not_fault_for_late() {
    let mut machine = el1(3, Features { ets: Ets::None, ..Features::full(3) });
    machine.settle_stores();
    machine.store(0, L3, PAGE | PA);
    machine.barrier(0, DMB_ST);
    machine.load(1, L3);
    let moment = machine.events();
    machine.tlbi_after(1, VAE1IS, PAGE_0, moment);
    assert_eq!(faulting(&machine), [0, 1, 2]);
    machine.barrier(1, ISH);
    assert_eq!(faulting(&machine), [1]);
    machine.barrier(1, ISB);
    assert_eq!(faulting(&machine), []);
}

/// Each CPU's own: what one is shown later brings no fault back to another that has synchronized.
#[test]
fn a_late_fault_is_of_those_who_are_shown_the_store() {
    // A load of any byte of the word shows the store.
    for byte in [0, 1, 7] {
        let mut machine = el1(2, Features { ets: Ets::None, ..Features::full(3) });
        machine.settle_stores();
        machine.store(0, L3, PAGE | PA);
        machine.barrier(0, NSH);
        machine.barrier(0, ISB);
        assert_eq!(faulting(&machine), [1]);
        machine.load(1, L3 + byte);
        machine.barrier(1, ISH);
        assert_eq!(faulting(&machine), [1]);
        machine.barrier(1, ISB);
        assert_eq!(faulting(&machine), []);
    }
}

/// Each TLBI needs a DSB as wide as itself, whatever other one is underway.
#[test]
fn a_tlbi_of_each_scope_waits_for_its_own_dsb() {
    let wide = dsb(Domain::Outer, Accesses::All);
    let [this, other] = [PAGE_0, PAGE_0 | 1];
    for (inner, outer, barriers, left) in [
        (this, other, &[ISH][..], &[0][..]),
        (other, this, &[ISH], &[0, 1]),
        (other, this, &[NSH], &[0, 1]),
        (this, other, &[NSH], &[0, 1]),
        (other, this, &[ISH, ISH], &[0, 1]),
        (other, this, &[ISH, wide], &[0]),
        (this, other, &[NSH, ISH], &[0]),
    ] {
        let mut machine = late(2, Ets::None);
        machine.tlbi(0, VAE1OS, outer);
        machine.tlbi(0, VAE1IS, inner);
        barriers.iter().for_each(|barrier| machine.barrier(0, *barrier));
        assert_eq!(faulting(&machine), left, "{inner:#x} {outer:#x} {barriers:?}");
    }
}

/// A CPU that need not act on a TLBI is not waited for, nor one where it takes two; the others are.
#[test]
fn who_is_not_reached_faults_late() {
    let plain = Features { ets: Ets::None, ..Features::full(3) };
    let first_of = |range_tlbi, repeat_tlbi, opcode, operand| {
        let mut machine = Machine::new(&[plain, plain, Features { range_tlbi, repeat_tlbi, ..plain }]);
        machine.settle_stores();
        tables(&mut machine);
        (0..3).for_each(|cpu| enable_el1(&mut machine, cpu, 1, ROOT));
        machine.store(0, L3, PAGE | PA);
        machine.barrier(0, ISH);
        machine.tlbi(0, opcode, operand);
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        faulting(&machine)
    };
    let range = PAGE_0 | 1 << 46;
    assert_eq!(first_of(true, false, RVAE1IS, range), []);
    assert_eq!(first_of(false, false, RVAE1IS, range), [2]);
    assert_eq!(first_of(true, true, VAE1IS, PAGE_0), [2]);
}

/// A TLBI by address waits for walks to that address. A walk to another one may still go by the table that it covers a part
/// of, and one with another ASID by the same leaf.
#[test]
fn a_tlbi_waits_for_no_walk_that_it_does_not_select() {
    let is_found = |word, asids: [u64; 2], opcode, operand| {
        let mut machine = el1(2, Features::full(3));
        machine.settle_stores();
        map(&mut machine, L3, PAGE | NON_GLOBAL | PA);
        for (cpu, asid) in asids.into_iter().enumerate() {
            msr(&mut machine, cpu as u8, &[(Register::Ttbr0El1, asid << 48 | ROOT)]);
        }
        machine.store(0, word, 0);
        machine.barrier(0, DMB_ST);
        machine.barrier(1, ISH);
        machine.tlbi(1, opcode, operand);
        machine.barrier(1, ISH);
        !machine.leaves(Tag::el10(0), 0).is_empty()
    };
    assert!(!is_found(L3, [1, 1], VAE1IS, PAGE_0));
    assert!(is_found(L3, [2, 1], VAE1IS, PAGE_0));
    assert!(!is_found(L3, [2, 1], VAAE1IS, PAGE_0));
    assert!(!is_found(L2, [1, 1], VMALLE1IS, 0));
    assert!(is_found(L2, [1, 1], VAE1IS, PAGE_0 | 1));
}

/// CPU 0 fills tables that no walk comes to yet, and has no DSB. A lock that went from there to the CPU that names the root, before its DSB, shows
/// them to that CPU: not to another one, and not what is stored later.
#[test]
fn who_takes_a_lock_has_a_root_that_its_last_holder_filled() {
    for (steps, is_seen) in [
        ("unlock lock dsb", true),
        ("dmb unlock lock dsb", true),
        ("unlock dmb lock dsb", true),
        ("unlock store lock dsb", false),
        ("unlock dmb store lock dsb", false),
        ("lock unlock dsb", false),
        ("unlock dsb lock", false),
        ("unlock dsb", false),
        ("lock dsb", false),
        ("dmb dsb", false),
        ("unlock lock", false),
    ] {
        for newcomer in [1, 2] {
            let mut machine = Machine::new(&[Features::full(0); 3]);
            for (word, table) in [(ROOT, L1), (L1, L2), (L2, L3)] {
                machine.store(0, word, table | TABLE);
            }
            for step in steps.split(' ') {
                match step {
                    "unlock" => machine.unlock(0),
                    "lock" => machine.lock(1),
                    "dmb" => machine.barrier(0, DMB_ST),
                    "store" => machine.store(0, ROOT, L1 | TABLE | 1 << 59),
                    _ => machine.barrier(1, ISH),
                }
            }
            enable_el1(&mut machine, newcomer, 1, ROOT);
            let expected = if is_seen && newcomer == 1 { vec![] } else { vec![Rule::NotVisible] };
            assert_eq!(rules(&machine), expected, "{steps}, CPU {newcomer}");
        }
    }
}

/// A lock that is given away orders nothing that its holder stores later: a table whose content has no barrier is linked too early still.
#[test]
fn a_lock_orders_no_later_link() {
    let mut machine = el1(1, Features::full(0));
    machine.store(0, L3 + 0x1000, PAGE | PA);
    machine.unlock(0);
    machine.store(0, L2 + 8, (L3 + 0x1000) | TABLE);
    caught(&machine, Rule::NotVisible);
}
