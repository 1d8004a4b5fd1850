//! CPUs of which some mark descriptors by hardware and others do not: what one marks the other may keep as it was.

use crate::common;
use common::*;
use machine::event::Owned;
use machine::finding::Rule;
use machine::machine::{Machine, Outcome, Update};
use machine::registers::{Features, Register};
use machine::syndrome::{AccessKind, FaultKind};
use machine::tlbi::Opcode;

const PA: u64 = 0x8000_0000;
const DBM: u64 = 1 << 51;
const HA_AND_HD: u64 = 1 << 39 | 1 << 40;
const VALE1: Opcode = Opcode::new(0, 8, 7, 5);

/// Two CPUs on one page, of which the first sets nothing by itself.
fn mixed(page: u64) -> Machine {
    let mut machine = Machine::new(&[Features::full(0), Features::full(0)]);
    tables(&mut machine);
    for (cpu, hardware) in [(0, 0), (1, HA_AND_HD)] {
        let writes = [
            (Register::MairEl1, MAIR),
            (Register::TcrEl1, TCR_48 | 1 << 23 | hardware),
            (Register::Ttbr0El1, 1 << 48 | ROOT),
            (Register::SctlrEl1, 1),
        ];
        msr(&mut machine, cpu, &writes);
    }
    map(&mut machine, L3, page);
    machine.take_findings();
    machine
}

/// A CPU that sets nothing by itself may keep a page as clean that another's hardware has marked, until it is told to forget it; the
/// other one never has it as anything but written.
#[test]
fn who_sets_nothing_keeps_what_another_has_marked() {
    for asid in [0, NON_GLOBAL] {
        let clean = PAGE | PA | RO | DBM | asid;
        let mut machine = mixed(clean);
        let outcomes = |machine: &mut Machine, cpu| machine.access(cpu, 0, AccessKind::Write).outcomes;
        let denied = |machine: &mut Machine, cpu| {
            let is_denied = |it: &Outcome| matches!(it, Outcome::Fault(fault) if fault.kind == FaultKind::Permission);
            outcomes(machine, cpu).iter().any(is_denied)
        };
        assert_eq!((outcomes(&mut machine, 0).len(), denied(&mut machine, 0)), (1, true), "it cannot write");
        machine.update_by_hardware(1, &Update { word: L3, from: clean, to: clean & !RO });
        assert_eq!(
            (outcomes(&mut machine, 0).len(), denied(&mut machine, 0)),
            (2, true),
            "it may write, and may fault"
        );
        assert_eq!(outcomes(&mut machine, 1), [Outcome::Translated(PA)]);
        machine.tlbi(0, VALE1, 1 << 48);
        assert!(denied(&mut machine, 0), "the TLBI is not done before a DSB");
        machine.barrier(0, NSH);
        machine.barrier(0, ISB);
        assert_eq!(outcomes(&mut machine, 0), [Outcome::Translated(PA)]);
        silent(&machine);
    }
}

/// What is kept so is forgotten by no walk, and harms whoever takes the frame.
#[test]
fn what_is_kept_as_clean_still_leads_to_its_frame() {
    for forgets in [VALE1, VALE1IS] {
        let clean = PAGE | PA | RO | DBM;
        let mut machine = mixed(clean);
        machine.update_by_hardware(1, &Update { word: L3, from: clean, to: clean & !RO });
        machine.exchange(1, L3, 0);
        machine.barrier(1, ISH);
        machine.tlbi(1, forgets, 1 << 48);
        machine.barrier(1, ISH);
        machine.barrier(1, ISB);
        machine.release(1, PA, 0x1000, Owned::Frame);
        match forgets {
            VALE1 => caught(&machine, Rule::Reuse),
            _ => silent(&machine),
        }
    }
}
