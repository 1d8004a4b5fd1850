//! From one address space to the next where the ASID stands in TTBR1 (TCR.A1) and the root in TTBR0: two registers, whose writes
//! take effect in any order until a context synchronization event, but on CPUs that keep the program's. (D24.1.2.2)

use crate::common;
use common::*;
use machine::finding::Rule;
use machine::machine::Machine;
use machine::registers::{Features, Register};

const SECOND: u64 = 0x4100_0000;
/// The root of no page table: everything in it is invalid.
const RESERVED: u64 = 0x4200_0000;

/// Two page tables that lead address 0 to different frames, both writable.
fn two_tables(machine: &mut Machine) {
    tables(machine);
    machine.store(0, L3, PAGE | 0x8000_0000 | NON_GLOBAL);
    let above = [(SECOND, SECOND + 0x1000), (SECOND + 0x1000, SECOND + 0x2000), (SECOND + 0x2000, SECOND + 0x3000)];
    above.iter().for_each(|(word, table)| machine.store(0, *word, table | TABLE));
    machine.store(0, SECOND + 0x3000, PAGE | 0x9000_0000 | NON_GLOBAL);
    machine.barrier(0, ISH);
}

/// The CPU walks the first of them, with ASID 1.
fn machine(orders_writes: bool) -> Machine {
    let mut machine = Machine::new(&[Features { orders_writes, ..Features::full(2) }]);
    two_tables(&mut machine);
    let writes = [
        (Register::MairEl1, MAIR),
        (Register::TcrEl1, TCR_48 | 1 << 22 | 1 << 23),
        (Register::Ttbr0El1, ROOT),
        (Register::Ttbr1El1, 1 << 48),
    ];
    msr(&mut machine, 0, &writes);
    msr(&mut machine, 0, &[(Register::SctlrEl1, 1)]);
    machine
}

const EMPTY: (Register, u64) = (Register::Ttbr0El1, RESERVED);
const ASID_2: (Register, u64) = (Register::Ttbr1El1, 2 << 48);
const NEXT: (Register, u64) = (Register::Ttbr0El1, SECOND);

/// What is found in these writes, an ISB after each, or after the last alone.
fn found(orders_writes: bool, has_isbs: bool, writes: &[(Register, u64)]) -> Vec<Rule> {
    let mut machine = machine(orders_writes);
    for write in writes {
        machine.write_register(0, write.0, write.1);
        if has_isbs {
            machine.barrier(0, ISB);
        }
    }
    machine.barrier(0, ISB);
    rules(&machine)
}

#[test]
fn an_empty_root_in_between_needs_an_isb_or_a_cpu_that_writes_in_order() {
    let switch = [EMPTY, ASID_2, NEXT];
    assert_eq!(found(false, true, &switch), []);
    assert_eq!(found(true, false, &switch), []);
    let any_order = found(false, false, &switch);
    assert!(!any_order.is_empty() && any_order.iter().all(|it| *it == Rule::Overlap), "{any_order:?}");
}

#[test]
fn in_order_or_not_the_asid_must_not_meet_the_other_root() {
    for orders_writes in [false, true] {
        for has_isbs in [false, true] {
            // The old root with the new ASID, or the new root with the old ASID.
            for switch in [[ASID_2, NEXT], [NEXT, ASID_2]] {
                let found = found(orders_writes, has_isbs, &switch);
                assert!(found.contains(&Rule::Overlap), "{orders_writes} {has_isbs} {switch:?}: {found:?}");
            }
        }
    }
}

/// Where the CPU that comes second has met nothing, what the first may hold of both page tables is no concern of its: that was met before,
/// when the first CPU came.
#[test]
fn who_comes_meets_its_own_entries_alone() {
    let found = |was_there: bool| {
        let mut machine = Machine::new(&[Features::full(2); 2]);
        two_tables(&mut machine);
        enable_el1(&mut machine, 0, 1, ROOT);
        if was_there {
            enable_el1(&mut machine, 1, 1, ROOT);
        }
        msr(&mut machine, 0, &[(Register::Ttbr0El1, 1 << 48 | SECOND)]);
        let before = machine.take_findings().len();
        enable_el1(&mut machine, 1, 1, SECOND);
        (before, rules(&machine))
    };
    assert_eq!(found(false), (1, vec![]));
    assert_eq!(found(true), (1, vec![Rule::Overlap]));
}

/// A kernel's page table is that of every ASID: who walks it already compares nothing of it anew, however much a TLB may hold of the one
/// before, when the next process runs.
#[test]
fn the_next_asid_of_a_kernel_costs_nothing() {
    const KERNEL: u64 = 0x4300_0000;
    let mut machine = machine(true);
    // Without EPD1.
    msr(&mut machine, 0, &[(Register::TcrEl1, TCR_48 | 1 << 22)]);
    for root in [KERNEL, KERNEL + 0x4000] {
        for level in 0..3 {
            machine.store(0, root + level * 0x1000, (root + (level + 1) * 0x1000) | TABLE);
        }
        (0..512).for_each(|slot| machine.store(0, root + 0x3000 + slot * 8, PAGE | (0x8000_0000 + (slot << 12))));
        machine.barrier(0, ISH);
        msr(&mut machine, 0, &[(Register::Ttbr1El1, 1 << 48 | root)]);
    }
    silent(&machine);
    let before = machine.effort();
    msr(&mut machine, 0, &[(Register::Ttbr1El1, 3 << 48 | (KERNEL + 0x4000))]);
    assert!(machine.effort() - before < 512, "{}", machine.effort() - before);
    silent(&machine);
    // What is stored meets what is left of the root before, whatever the ASID.
    machine.store(0, KERNEL + 0x7000, PAGE | 0x9000_0000);
    caught(&machine, Rule::Overlap);
}

/// Who comes meets what TLBs alone hold, and what walks of the page table before may have found: neither is compared again.
#[test]
fn what_is_stale_hides_nothing_of_what_is_walked() {
    for (is_stale, is_other, expected) in
        [(false, true, vec![0]), (true, false, vec![0x1000]), (true, true, vec![0x1000, 0])]
    {
        let mut machine = machine(true);
        let page = |frame: u64| PAGE | frame | NON_GLOBAL;
        if is_stale {
            map(&mut machine, L3 + 8, page(0x8000_1000));
            map(&mut machine, L3 + 8, 0);
        }
        machine.store(0, SECOND + 0x3008, page(0x9000_1000));
        if !is_other {
            machine.store(0, SECOND + 0x3000, 0);
        }
        machine.barrier(0, ISH);
        msr(&mut machine, 0, &[NEXT]);
        let found: Vec<u64> = machine.findings().iter().map(|it| it.address).collect();
        assert_eq!(found, expected);
        assert!(rules(&machine).iter().all(|it| *it == Rule::Overlap));
    }
}
