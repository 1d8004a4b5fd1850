//! `vectors`: an abort on its way to Rust and back, and one in an exception handler on its way to the end.

use a64::interpreter::Access;
use machine::syndrome::{AccessKind, Fault, FaultKind};

use super::{Case, Piece, Ran, high};
use crate::finding::Found;
use crate::lab::{Lab, Patch};
use crate::run::Run;
use crate::shape::{CHOSEN, Shape};

/// `hardware::exception::Frame`: x0 to x30, SP_EL0, ELR_EL1, SPSR_EL1, ESR_EL1, FAR_EL1.
const FRAME_WORDS: u64 = 36;
const FAULTED: u64 = 0xffff_dead_0000_0008;

pub(super) fn piece() -> Piece {
    let mut cases = Vec::new();
    for to in [CHOSEN[2], CHOSEN[6], CHOSEN[9]] {
        for kind in [FaultKind::Translation, FaultKind::Conflict] {
            let of = format!("{kind:?} fault, {to}").to_lowercase();
            cases.push(Case::new(of.clone(), move |lab, patch| abort(lab, patch, to, kind)));
            let work = move |lab: &Lab, patch| emergency(lab, patch, to, kind);
            cases.push(Case::new(format!("{of}, in a handler"), work));
        }
    }
    Piece { name: "vectors", cases }
}

/// A CPU that runs high code whose load faults; gives the run and the code's address.
fn fault<'l>(lab: &'l Lab, patch: Option<Patch>, to: Shape, kind: FaultKind, is_own_stack: bool) -> (Run<'l>, u64) {
    let mut run = high(lab, patch, to, lab.link("boot_exception_stack_end"));
    run.state.machine_mut().store(0, lab.physical("per_cpu"), lab.link("boot_emergency_stack_end"));
    run.state.core_mut(0).select_stack(is_own_stack);
    let place = lab.link("identity_main");
    run.state.core_mut(0).go_to(place);
    let access = Access { address: FAULTED, kind: AccessKind::Read, bytes: 8 };
    run.state.fault(0, &access, Fault::stage1(kind, 0));
    (run, place)
}

fn abort(lab: &Lab, patch: Option<Patch>, to: Shape, kind: FaultKind) -> Result<Ran, Found> {
    let (mut run, place) = fault(lab, patch, to, kind, false);
    let (stack, top, status) =
        (run.get_system(0, "SP_EL0"), run.get_system(0, "SP_EL1"), run.get_system(0, "SPSR_EL1"));
    let frame = top - 8 * FRAME_WORDS;
    let handler = lab.link("handle_exception");
    let vector = run.state.cores()[0].place();
    run.run_to(0, vector, handler, "it does not come to Rust")?;
    run.check_certain(0)?;
    run.expect_registers(0, &[(0, 0), (1, frame), (29, 0)])?;
    let syndrome = run.get_system(0, "ESR_EL1");
    let mut words: Vec<u64> = (0..31).map(|register| 0x1000 + register).collect();
    words.extend([stack, place, status, syndrome, FAULTED]);
    run.expect_words(0, lab.kernel.to_physical(frame), &words)?;
    run.expect(0, syndrome >> 26 == 0x25, || format!("ESR_EL1 is {syndrome:#x}, expected a data abort of EL1"))?;
    // Rust returns, with every register changed that a function may change.
    let back = run.get(0, 30);
    (0..19).for_each(|register| run.set(0, register, 0xbad));
    run.run_to(0, back, place, "it does not return")?;
    let registers: Vec<(u8, u64)> = (0..31).map(|register| (register, 0x1000 + u64::from(register))).collect();
    run.expect_registers(0, &registers)?;
    let now = [run.get_system(0, "SP_EL0"), run.get_system(0, "SP_EL1"), run.get_system(0, "SPSel")];
    run.expect(0, now == [stack, top, 0], || format!("the stacks are {now:#x?}"))?;
    Ok(Ran::of(run))
}

fn emergency(lab: &Lab, patch: Option<Patch>, to: Shape, kind: FaultKind) -> Result<Ran, Found> {
    let (mut run, place) = fault(lab, patch, to, kind, true);
    let frame = lab.link("boot_emergency_stack_end") - 8 * FRAME_WORDS;
    let (handler, stack, vector) =
        (lab.link("handle_exception"), run.get_system(0, "SP_EL1"), run.state.cores()[0].place());
    run.run_to(0, vector, handler, "it does not come to Rust")?;
    // The report needs the stack pointer that was of doubtful worth.
    let kept = run.get_system(0, "TPIDR_EL0");
    run.expect(0, kept == stack, || format!("TPIDR_EL0 is {kept:#x}, expected {stack:#x}"))?;
    run.expect_registers(0, &[(0, 4), (1, frame)])?;
    let words: Vec<u64> = (0..31).map(|register| 0x1000 + register).collect();
    run.expect_words(0, lab.kernel.to_physical(frame), &words)?;
    run.expect_words(0, lab.kernel.to_physical(frame) + 8 * 32, &[place])?;
    Ok(Ran::of(run))
}
