//! What does a part of what is needed does not do the rest: barriers, TLBIs and loads, each one step too weak.

use crate::common;
use common::*;
use machine::barrier::{Accesses, Barrier, Domain};
use machine::event::Level;
use machine::finding::Rule;
use machine::machine::{Machine, Outcome};
use machine::registers::{Ets, Features, HCR_FB, HCRX_FNXS, Register};
use machine::syndrome::{AccessKind, FaultKind};
use machine::tlbi::Opcode;

const PA: u64 = 0x8000_0000;
const OTHER: u64 = 0x8001_0000;
const FLAG: u64 = 0x7000_0000;
const L3B: u64 = 0x4000_4000;
const PAGE_0: u64 = 1 << 48;
const VAE1ISNXS: Opcode = Opcode::new(0, 9, 3, 1);
const ISH_NXS: Barrier = Barrier::Dsb { domain: Domain::Inner, accesses: Accesses::All, is_nxs: true };
const DMB_ST: Barrier = Barrier::Dmb { domain: Domain::Inner, accesses: Accesses::Stores };

fn settling(count: usize, ets: Ets) -> Machine {
    let mut machine = el1(count, Features { ets, ..Features::full(3) });
    machine.settle_stores();
    machine
}

/// True when `cpu` may fault for page 0.
fn may_fault(machine: &Machine, cpu: u8) -> bool {
    machine.clone().access(cpu, 0, AccessKind::Read).may_fault(FaultKind::Translation)
}

/// True when `cpu` may translate page 0.
fn translates(machine: &Machine, cpu: u8) -> bool {
    machine.clone().access(cpu, 0, AccessKind::Read).addresses().count() != 0
}

/// Breaks page 0 and makes that visible, so that only TLBs have it.
fn stale(mut machine: Machine) -> Machine {
    map(&mut machine, L3, PAGE | PA);
    machine.store(0, L3, 0);
    machine.barrier(0, ISH);
    machine.barrier(0, ISB);
    machine
}

#[test]
fn a_barrier_for_loads_finishes_and_orders_no_store() {
    for (barrier, is_finished) in
        [(Barrier::Dsb { domain: Domain::Inner, accesses: Accesses::Loads, is_nxs: false }, false), (ISHST, true)]
    {
        let mut machine = el1(2, Features::full(3));
        machine.store(0, L3, PAGE | PA);
        machine.barrier(0, barrier);
        assert_eq!(may_fault(&machine, 1), !is_finished, "{barrier}");
    }
    for (accesses, is_ordered) in [(Accesses::Loads, false), (Accesses::Stores, true), (Accesses::All, true)] {
        let mut machine = settling(2, Ets::Ets2);
        machine.store(0, L3, PAGE | PA);
        machine.barrier(0, Barrier::Dmb { domain: Domain::Inner, accesses });
        machine.barrier(1, ISH);
        machine.barrier(1, ISB);
        assert_eq!(may_fault(&machine, 1), !is_ordered, "{accesses:?}");
    }
}

#[test]
fn a_plain_store_is_no_release() {
    for is_release in [false, true] {
        let mut machine = el1(2, Features::full(3));
        machine.store(0, L3B, PAGE | PA);
        if is_release {
            machine.store_release(0, L2 + 8, L3B | TABLE)
        } else {
            machine.store(0, L2 + 8, L3B | TABLE)
        }
        if is_release {
            silent(&machine)
        } else {
            caught(&machine, Rule::NotVisible)
        }
        let mut machine = settling(2, Ets::Ets2);
        machine.store(0, L3, PAGE | PA);
        if is_release {
            machine.store_release(0, FLAG, 1)
        } else {
            machine.store(0, FLAG, 1)
        }
        machine.barrier(1, ISH);
        machine.barrier(1, ISB);
        assert_eq!(may_fault(&machine, 1), !is_release);
    }
}

/// Who reads its own store knows nothing of when others see that.
#[test]
fn ones_own_store_is_no_news() {
    for cpu in [0, 1] {
        let mut machine = settling(2, Ets::Ets2);
        machine.store(0, L3, PAGE | PA);
        machine.load(cpu, L3);
        machine.barrier(1, ISH);
        machine.barrier(1, ISB);
        assert_eq!(may_fault(&machine, 1), cpu == 0);
        let mut machine = settling(2, Ets::Ets2);
        map(&mut machine, L3, PAGE | PA);
        machine.store(0, L3, PAGE | OTHER);
        let ways = machine.ways(cpu, 0, AccessKind::Read);
        let observed = |output| {
            let way = ways.iter().find(|way| way.outcome == Outcome::Translated(output)).expect("either may be seen");
            way.observed
        };
        assert_eq!((observed(PA), observed(OTHER)), (None, (cpu == 1).then_some(L3)));
    }
}

/// HCR_EL2.FB is for TLBIs at EL1.
#[test]
fn forced_broadcast_is_not_for_el2() {
    for level in [Level::El1, Level::El2] {
        let mut machine = el1(2, Features::full(3));
        msr(&mut machine, 0, &[(Register::HcrEl2, HCR_FB)]);
        let mut machine = stale(machine);
        machine.enter(0, level);
        machine.tlbi(0, VMALLE1, 0);
        machine.barrier(0, ISH);
        assert_eq!(translates(&machine, 1), level == Level::El2, "{level:?}");
    }
}

#[test]
fn a_dsb_nxs_completes_nxs_tlbis_alone() {
    for (opcode, hcrx, is_complete) in [(VAE1IS, 0, false), (VAE1ISNXS, 0, true), (VAE1IS, HCRX_FNXS, true)] {
        let mut machine = el1(2, Features::full(3));
        msr(&mut machine, 0, &[(Register::HcrxEl2, hcrx)]);
        let mut machine = stale(machine);
        machine.tlbi(0, opcode, PAGE_0);
        machine.barrier(0, ISH_NXS);
        assert_eq!(translates(&machine, 1), !is_complete, "{opcode:?} {hcrx}");
    }
    // A CPU without FEAT_XS need not act on one.
    for xs in [true, false] {
        let mut machine = Machine::new(&[Features::full(3), Features { xs, ..Features::full(3) }]);
        tables(&mut machine);
        (0..2).for_each(|cpu| enable_el1(&mut machine, cpu, 1, ROOT));
        let mut machine = stale(machine);
        machine.tlbi(0, VAE1ISNXS, PAGE_0);
        machine.barrier(0, ISH);
        assert_eq!(translates(&machine, 1), !xs);
    }
}

/// Nor does a TLBI nXS, or a DSB nXS, wait for all that walks had begun.
#[test]
fn an_nxs_tlbi_waits_for_no_walk() {
    for (opcode, barrier, is_over) in [(VAE1IS, ISH, true), (VAE1ISNXS, ISH, false), (VAE1IS, ISH_NXS, false)] {
        let mut machine = settling(2, Ets::None);
        machine.store(0, L3, PAGE | PA);
        machine.barrier(0, ISH);
        machine.tlbi(0, opcode, PAGE_0);
        machine.barrier(0, barrier);
        assert_eq!(may_fault(&machine, 1), !is_over, "{opcode:?} {barrier}");
    }
}

/// Another CPU's DSB, another regime's TLBI.
#[test]
fn what_others_do_ends_nothing() {
    for (issuer, completer, is_over) in [(0, 0, true), (0, 1, false)] {
        let mut machine = settling(3, Ets::None);
        machine.store(0, L3, PAGE | PA);
        machine.barrier(0, ISH);
        machine.tlbi(issuer, VAE1IS, PAGE_0);
        machine.barrier(completer, ISH);
        assert_eq!(may_fault(&machine, 2), !is_over);
    }
    for (opcode, is_over) in [(VMALLE1IS, true), (ALLE1IS, true), (ALLE2IS, false)] {
        let mut machine = settling(2, Ets::None);
        machine.store(0, L3, PAGE | PA);
        machine.barrier(0, ISH);
        machine.enter(0, Level::El2);
        machine.tlbi(0, opcode, 0);
        machine.barrier(0, ISH);
        assert_eq!(may_fault(&machine, 1), !is_over, "{opcode:?}");
    }
}

/// A late fault of a store that was settled after the TLBI outlives that, even where the TLBI ends one of the same word.
#[test]
fn a_tlbi_ends_no_late_fault_of_a_later_store() {
    let mut machine = settling(3, Ets::None);
    machine.store(0, L3, PAGE | PA);
    machine.barrier(0, DMB_ST);
    machine.barrier(1, ISH);
    machine.tlbi(1, VAE1IS, PAGE_0);
    machine.store(0, L3, 0);
    machine.store(0, L3, PAGE | PA);
    machine.barrier(0, ISH);
    let last = machine.events();
    machine.barrier(1, ISH);
    assert!(may_fault(&machine, 2));
    // Of two that are late, the later says what does not fault.
    let ways = machine.ways(2, 0, AccessKind::Read);
    let settled = ways.iter().filter(|way| matches!(way.outcome, Outcome::Fault(_))).map(|way| way.settled).max();
    assert_eq!(settled, Some(Some(last)));
}

/// A fault is settled when the last store over a value that may bring it is.
#[test]
fn a_fault_is_settled_with_the_last_store() {
    let mut machine = settling(2, Ets::Ets2);
    let mut moments = Vec::new();
    for value in [2, PAGE | PA] {
        machine.store(0, L3, value);
        machine.barrier(0, DMB_ST);
        moments.push(machine.events());
    }
    let ways = machine.ways(1, 0, AccessKind::Read);
    let settled = ways.iter().filter(|way| matches!(way.outcome, Outcome::Fault(_))).map(|way| way.settled).min();
    assert_eq!(settled, Some(Some(moments[1])));
}

/// What a CPU no longer saw does not come back late.
#[test]
fn a_wider_dsb_brings_nothing_back() {
    let mut machine = el1(2, Features { ets: Ets::None, ..Features::full(3) });
    machine.store(0, L3, PAGE | PA);
    for barrier in [NSH, ISB, ISH] {
        machine.barrier(0, barrier);
    }
    assert!(!may_fault(&machine, 0) && may_fault(&machine, 1));
}

/// A barrier and a DSB of one CPU are for its own stores and what came before those, and for nothing that came after.
#[test]
fn a_store_that_came_later_is_not_ordered_with_ones_own() {
    let two_stores = |mut machine: Machine| {
        machine.store(0, L3, PAGE | PA);
        machine.store(1, L3, 0);
        machine
    };
    let mut machine = two_stores(settling(3, Ets::Ets2));
    machine.barrier(0, DMB_ST);
    machine.barrier(2, ISH);
    machine.tlbi(2, VAE1IS, PAGE_0);
    machine.barrier(2, ISH);
    assert!(translates(&machine, 0));
    let mut machine = two_stores(el1(2, Features::full(3)));
    machine.barrier(0, ISH);
    machine.tlbi(0, VAE1IS, PAGE_0);
    machine.barrier(0, ISH);
    assert!(translates(&machine, 1));
}

/// What two values gave is stale, not the newer one's alone.
#[test]
fn each_value_that_goes_out_of_sight_leaves_its_entry() {
    let mut machine = el1(2, Features::full(3));
    map(&mut machine, L3, PAGE | PA);
    machine.store(0, L3, PAGE | PA | RO);
    machine.store(0, L3, 0);
    machine.barrier(0, ISH);
    assert_eq!(machine.access(1, 0, AccessKind::Write).addresses().count(), 1);
}

/// A fetch is no explicit access: FEAT_ETS2 does not order its walk. (RNNFPF)
#[test]
fn a_fetch_faults_late_with_ets2_too() {
    let mut machine = el1(2, Features::full(3));
    machine.store(0, L3, PAGE | PA);
    machine.barrier(0, ISH);
    for is_synchronized in [false, true] {
        if is_synchronized {
            machine.barrier(1, ISB);
        }
        let may = |kind| machine.clone().access(1, 0, kind).may_fault(FaultKind::Translation);
        assert_eq!((may(AccessKind::Fetch), may(AccessKind::Read)), (!is_synchronized, false));
    }
}

/// Entries of two sizes may conflict up to BBM level 2, though they agree. (IHYQMB)
#[test]
fn sizes_conflict_below_bbm_level_3() {
    for bbm in 0..4 {
        let mut machine = el1(1, Features::full(bbm));
        (0..512).for_each(|page| machine.store(0, L3B + page * 8, PAGE | PA | page << 12));
        map(&mut machine, L2 + 8, BLOCK | PA);
        machine.store(0, L2 + 8, L3B | TABLE);
        machine.barrier(0, ISH);
        let may_abort = machine.access(0, 0x20_0000, AccessKind::Read).may_fault(FaultKind::Conflict);
        assert_eq!(may_abort, bbm < 3, "{bbm}");
    }
}

/// A TLBI by ASID leaves global entries, of a context that the CPU has left too.
#[test]
fn a_tlbi_by_asid_leaves_what_is_global() {
    for (attribute, opcode, operand, is_left) in
        [(0, ASIDE1IS, 2 << 48, true), (NON_GLOBAL, ASIDE1IS, 2 << 48, false), (0, VMALLE1IS, 0, false)]
    {
        let mut machine = el1(1, Features::full(3));
        map(&mut machine, L3, PAGE | PA | attribute);
        msr(&mut machine, 0, &[(Register::Ttbr0El1, 2 << 48 | ROOT)]);
        machine.tlbi(0, VMALLE1IS, 0);
        machine.barrier(0, ISH);
        msr(&mut machine, 0, &[(Register::Ttbr0El1, 3 << 48 | 0x4100_0000)]);
        machine.tlbi(0, ASIDE1IS, 1 << 48);
        machine.tlbi(0, opcode, operand);
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        msr(&mut machine, 0, &[(Register::Ttbr0El1, 2 << 48 | 0x4100_0000)]);
        assert_eq!(translates(&machine, 0), is_left, "{attribute:#x} {opcode:?}");
    }
}

/// The VMID that a TLBI is for is that in effect: while a write of VTTBR_EL2 is not, nobody knows.
#[test]
fn a_tlbi_under_an_uncertain_vmid_ends_nothing() {
    for is_synchronized in [false, true] {
        let mut machine = stage2(2, Features::full(3));
        map(&mut machine, S2_L3, S2_PAGE | PA);
        machine.store(0, S2_L3, 0);
        machine.barrier(0, ISH);
        msr(&mut machine, 0, &[(Register::VttbrEl2, 8 << 48 | S2_ROOT)]);
        machine.write_register(0, Register::VttbrEl2, 7 << 48 | S2_ROOT);
        if is_synchronized {
            machine.barrier(0, ISB);
        }
        machine.tlbi(0, VMALLS12E1IS, 0);
        machine.barrier(0, ISH);
        assert_eq!(translates(&machine, 1), !is_synchronized);
    }
}

/// With TCR.DS the base of a range counts 64 KiB, whatever the granule.
#[test]
fn a_range_with_ds_begins_elsewhere() {
    let (slot, address) = (L3 + 16 * 8, 0x1_0000);
    let page = PAGE & !0x300 | PA;
    let is_reached = |mut machine: Machine, all, range, operand| {
        machine.tlbi(0, all, 0);
        machine.barrier(0, ISH);
        map(&mut machine, slot, page);
        let found = |machine: &Machine| machine.clone().access(1, address, AccessKind::Read).addresses().count();
        assert_eq!(found(&machine), 1);
        unmap(&mut machine, slot, range, operand);
        found(&machine) == 0
    };
    for ds in [0, 1] {
        let mut at_el1 = el1(2, Features::full(3));
        (0..2).for_each(|cpu| msr(&mut at_el1, cpu, &[(Register::TcrEl1, TCR_48 | 1 << 23 | ds << 59)]));
        assert_eq!(is_reached(at_el1, VMALLE1IS, RVAE1IS, PAGE_0 | 1 << 46 | 1), ds == 1);
        let mut at_el2 = el2(2, Features::full(3));
        (0..2).for_each(|cpu| msr(&mut at_el2, cpu, &[(Register::TcrEl2, 16 | 5 << 16 | ds << 32)]));
        assert_eq!(is_reached(at_el2, ALLE2IS, Opcode::new(4, 8, 2, 1), 1 << 46 | 1), ds == 1);
    }
}

/// Stores without a barrier are over once a later one of another CPU in the same place is finished, be it to what is a table by then: whoever
/// links a table links no such store. One that came later, or over which none is finished, counts.
#[test]
fn a_finished_store_is_over_what_others_stored_before() {
    let table = L3 + 0x1000;
    let rules_after = |steps: &[&str]| {
        let mut machine = el1(2, Features::full(3));
        for step in steps {
            match *step {
                "first" => machine.store(1, table, PAGE | PA),
                "over" => machine.store(0, table, PAGE | PA | RO),
                "finish" => machine.barrier(0, ISHST),
                _ => machine.store(0, L2 + 8, table | TABLE),
            }
        }
        // An empty one.
        machine.store(1, L2 + 16, (L3 + 0x2000) | TABLE);
        rules(&machine)
    };
    for steps in [&["first", "over", "finish", "link"][..], &["first", "link", "over", "finish"]] {
        assert_eq!(rules_after(steps), [], "{steps:?}");
    }
    for steps in [&["over", "first", "finish", "link"][..], &["first", "link", "finish"], &["first", "link", "over"]] {
        assert_eq!(rules_after(steps), [Rule::NotVisible], "{steps:?}");
    }
}
