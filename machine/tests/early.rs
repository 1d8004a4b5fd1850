//! A mapping that was invalid before is used: by whom that is too early, and what makes it right. No TLB holds what is invalid, so
//! that no TLBI is asked for. (DDI 0487, D8.2.6: RSPVBD, RNNFPF)

use crate::common;
use common::*;
use machine::barrier::{Accesses, Barrier, Domain};
use machine::event::{Event, Level};
use machine::finding::{Missing, Rule};
use machine::machine::Machine;
use machine::registers::{Ets, Features, Register};
use machine::syndrome::AccessKind::{self, Fetch, Read, Write};

const PA: u64 = 0x8000_0000;
/// Executable by EL1.
const CODE: u64 = PAGE & !(1 << 53);
const NSHST: Barrier = Barrier::Dsb { domain: Domain::NonShareable, accesses: Accesses::Stores, is_nxs: false };
const ISHLD: Barrier = Barrier::Dsb { domain: Domain::Inner, accesses: Accesses::Loads, is_nxs: false };
const DMB: Barrier = Barrier::Dmb { domain: Domain::Inner, accesses: Accesses::All };
const SYNC: Event = Event::Barrier(ISB);
const EXCEPTION: Event = Event::Enter(Level::El1);

const fn barrier(barrier: Barrier) -> Event {
    Event::Barrier(barrier)
}

/// CPU 0 makes a page valid; what happens between that and the use of it.
fn is_early(ets: Ets, between: &[(u8, Event)], cpu: u8, kind: AccessKind) -> bool {
    let mut machine = el1(2, Features { ets, ..Features::full(3) });
    machine.store(0, L3, CODE | PA);
    between.iter().for_each(|(cpu, event)| machine.apply(*cpu, event));
    machine.access(cpu, 0, kind);
    let missing: Vec<_> = machine.findings().iter().map(|it| (it.rule, it.missing)).collect();
    assert!(missing.is_empty() || missing == [(Rule::NotVisible, Missing::Visibility(L3))], "{missing:?}");
    !missing.is_empty()
}

#[test]
fn it_takes_the_dsb_of_the_cpu_that_stored() {
    for ets in [Ets::None, Ets::Ets2, Ets::Ets3] {
        for kind in [Read, Write, Fetch] {
            for (between, cpu, expected) in [
                (&[][..], 0, true),
                (&[], 1, true),
                (&[(0, SYNC), (1, SYNC)], 0, true),
                (&[(0, barrier(DMB)), (0, SYNC)], 0, true),
                (&[(0, barrier(ISHLD)), (0, SYNC)], 0, true),
                // Another CPU's.
                (&[(1, barrier(ISH)), (1, SYNC), (0, EXCEPTION)], 0, true),
                (&[(1, barrier(ISH)), (1, SYNC), (0, EXCEPTION)], 1, true),
                (&[(0, barrier(ISHST)), (0, SYNC)], 0, false),
                (&[(0, barrier(ISHST)), (1, SYNC)], 1, false),
                // One that does not reach the other CPU.
                (&[(0, barrier(NSHST)), (0, SYNC), (1, SYNC)], 0, false),
                (&[(0, barrier(NSHST)), (0, SYNC), (1, SYNC)], 1, true),
            ] {
                assert_eq!(is_early(ets, between, cpu, kind), expected, "{ets:?} {kind:?} {between:?} on CPU {cpu}");
            }
        }
    }
}

#[test]
fn without_ets2_and_for_fetches_it_takes_a_context_synchronization_event_behind_it() {
    for (ets, kind, needs) in [
        (Ets::None, Read, true),
        (Ets::None, Fetch, true),
        (Ets::Ets2, Write, false),
        (Ets::Ets2, Fetch, true),
        (Ets::Ets3, Read, false),
    ] {
        let dsb = (0, barrier(ISHST));
        for (between, expected) in [
            (&[dsb][..], needs),
            (&[(0, SYNC), dsb], needs),
            (&[dsb, (1, SYNC)], needs),
            (&[dsb, (0, SYNC)], false),
            // An exception, or the return from one, is as good.
            (&[dsb, (0, EXCEPTION)], false),
        ] {
            assert_eq!(is_early(ets, between, 0, kind), expected, "{ets:?} {kind:?} {between:?}");
        }
    }
}

#[test]
fn what_hangs_below_a_table_is_used_too_early_as_well() {
    for is_ordered in [false, true] {
        let mut machine = el1(1, Features::full(3));
        machine.store(0, L3 + 0x1000, PAGE | PA);
        machine.barrier(0, DMB);
        machine.store(0, L2 + 8, (L3 + 0x1000) | TABLE);
        if is_ordered {
            machine.barrier(0, ISHST);
        }
        machine.access(0, 0x20_0000, Read);
        assert_eq!(rules(&machine), if is_ordered { vec![] } else { vec![Rule::NotVisible] });
    }
}

/// Break-before-make ends with a mapping that is new: its own DSB is needed, and no TLBI.
#[test]
fn the_make_of_break_before_make_needs_a_dsb() {
    for is_ordered in [false, true] {
        let mut machine = el1(1, Features::full(0));
        map(&mut machine, L3, PAGE | PA);
        unmap(&mut machine, L3, VAE1IS, 1 << 48);
        machine.store(0, L3, PAGE | (PA + 0x1000));
        if is_ordered {
            machine.barrier(0, ISHST);
        }
        machine.access(0, 0, Write);
        assert_eq!(rules(&machine), if is_ordered { vec![] } else { vec![Rule::NotVisible] });
    }
}

/// Where faults are nobody's to repeat: in the upper half, and in EL2 where that has no halves.
#[test]
fn addresses_of_a_kernel_are_told_from_a_users() {
    let mut machine = el1(1, Features::full(0));
    assert_eq!(machine.kernel_addresses(L3 + 8), None);
    msr(&mut machine, 0, &[(Register::TcrEl1, TCR_48), (Register::Ttbr1El1, ROOT)]);
    assert_eq!(machine.kernel_addresses(L3 + 8), Some((0xffff_0000_0000_1000, 0xffff_0000_0000_1fff)));
    assert_eq!(machine.kernel_addresses(L2), Some((0xffff_0000_0000_0000, 0xffff_0000_001f_ffff)));
    assert_eq!(machine.kernel_addresses(0x8000_0000), None);
    assert_eq!(el2(1, Features::full(0)).kernel_addresses(L3 + 8), Some((0x1000, 0x1fff)));
    assert_eq!(stage2(1, Features::full(0)).kernel_addresses(S2_L3), None);
}

/// Who has no lines is told the word that a walk may miss.
#[test]
fn a_story_names_the_store() {
    let mut machine: Machine = el1(1, Features::full(0));
    machine.store(0, L3, PAGE | PA);
    machine.access(0, 0x123, Read);
    let story = machine.findings()[0].to_string();
    assert!(story.contains("CPU 0 used it (address 0x123)"), "{story}");
    assert!(story.contains("Missing: a DSB by the CPU that stored to 0x40003000"), "{story}");
}
