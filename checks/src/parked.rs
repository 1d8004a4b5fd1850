//! What a CPU does that is called to park: an interrupt, which comes between any two steps of its program.

use machine::barrier::{Accesses, Barrier, Domain};
use machine::event::Event;
use machine::registers::Register;
use machine::tlbi::Opcode;

use crate::calling::Calling;
use crate::cpu::Cpu;
use crate::omission::Omission;
use crate::request::{Request, Software};
use crate::scenario::Scenario;

/// TLBI VMALLE1.
const FORGET_ALL: Opcode = Opcode::new(0, 8, 7, 0);
const DSB_NSH: Barrier = Barrier::Dsb { domain: Domain::NonShareable, accesses: Accesses::All, is_nxs: false };

/// Answers each call to CPU `number`, whose page table begins at `root`.
pub(crate) fn answer_calls(cpu: &Cpu<'_>, scenario: &Scenario, number: usize, root: u64) {
    let [off, on] = scenario.parameters.parked(root, number as u8);
    let calling = |what| {
        cpu.software(Software::Calling(what));
    };
    loop {
        calling(Calling::Answer);
        if scenario.omitted != Some(Omission::Leaving) {
            // No walk of the tables begins from here on.
            walk_by(cpu, &off);
        }
        // What is cached of the tables may change size meanwhile.
        event(cpu, Event::Tlbi { opcode: FORGET_ALL, operand: 0 });
        // It is gone before the CPU says that it is parked.
        event(cpu, Event::Barrier(DSB_NSH));
        // This CPU itself is sure of that.
        event(cpu, Event::Barrier(Barrier::Isb));
        calling(Calling::Parked);
        calling(Calling::Stay);
        walk_by(cpu, &on);
        calling(Calling::Return);
    }
}

/// From the ISB on walks begin by these registers alone.
fn walk_by(cpu: &Cpu<'_>, roots: &[(Register, u64)]) {
    for (register, value) in roots {
        event(cpu, Event::Write { register: *register, value: *value });
    }
    event(cpu, Event::Barrier(Barrier::Isb));
}

#[track_caller]
fn event(cpu: &Cpu<'_>, event: Event) {
    cpu.ask(Request::Event(event));
}
