//! `end_conflict`: a TLB conflict abort, whatever was running, and the way back to it.

use a64::interpreter::Access;
use machine::barrier::Barrier;
use machine::machine::Outcome;
use machine::registers::Register;
use machine::syndrome::{AccessKind, Fault, FaultKind};

use super::{Case, Piece, Ran, high};
use crate::finding::Found;
use crate::lab::{Lab, Patch};
use crate::run::Run;
use crate::shape::{CHOSEN, Shape};

/// Of the identity map: not the one that an operand of zeros names.
const ASID: u64 = 5;

/// `hardware::per_cpu::PerCpu`, in words: the emergency stack, a record, what EL0 needs, the CPU's number, then what the handler keeps.
const SCRATCH: u64 = 5;
const COUNTS: u64 = SCRATCH + 3;
const REPEATS: u64 = COUNTS + 4;
const PATIENCE: u64 = REPEATS + 1;

/// How often one may come again here.
const TIMES: u64 = 3;
/// What the next one may come of.
const ADDRESS: u64 = 0xffff_dead_0000_0008;

pub(super) fn piece() -> Piece {
    let mut cases = Vec::new();
    for to in [CHOSEN[2], CHOSEN[6], CHOSEN[9]] {
        for kind in [AccessKind::Read, AccessKind::Write, AccessKind::Fetch] {
            for in_handler in [false, true] {
                let place = if in_handler { "in a handler" } else { "in a thread" };
                let name = format!("{kind:?}, {place}, {to}").to_lowercase();
                cases.push(Case::new(name, move |lab, patch| survive(lab, patch, to, kind, in_handler)));
            }
        }
        cases.push(Case::new(format!("without progress, {to}"), move |lab, patch| give_up(lab, patch, to)));
    }
    Piece { name: "end_conflict", cases }
}

fn word(lab: &Lab, word: u64) -> u64 {
    lab.physical("per_cpu") + 8 * word
}

/// A CPU that runs high code.
fn begin<'l>(lab: &'l Lab, patch: Option<Patch>, to: Shape, in_handler: bool) -> Run<'l> {
    // Nothing is at this SP_EL1.
    let mut run = high(lab, patch, to, ADDRESS);
    run.set_system(0, "TPIDR_EL0", 0x77);
    run.state.machine_mut().store(0, word(lab, PATIENCE), TIMES);
    run.state.core_mut(0).select_stack(in_handler);
    run.state.core_mut(0).go_to(lab.link("identity_main"));
    run
}

fn conflict(run: &mut Run<'_>, address: u64, kind: AccessKind) {
    run.state.fault(0, &Access { address, kind, bytes: 8 }, Fault::stage1(FaultKind::Conflict, 0));
}

/// It is back, and nothing is as the conflict left it but the counts.
fn come_back(run: &mut Run<'_>, lab: &Lab, place: u64, in_handler: bool) -> Result<(), Found> {
    let vector = run.state.cores()[0].place();
    let offset = vector - lab.link("vectors");
    run.expect(0, offset == if in_handler { 0x200 } else { 0 }, || format!("the vector at {offset:#x} is taken"))?;
    run.run_to(0, vector, place, "the access is not made again")?;
    run.check_certain(0)?;
    let registers: Vec<(u8, u64)> = (0..31).map(|register| (register, 0x1000 + u64::from(register))).collect();
    run.expect_registers(0, &registers)?;
    let stack = lab.link("boot_stack_end") - 64;
    run.expect_systems(0, &[("SP_EL0", stack), ("SP_EL1", ADDRESS), ("SPSel", in_handler.into()), ("TPIDR_EL0", 0x77)])
}

fn survive(lab: &Lab, patch: Option<Patch>, to: Shape, kind: AccessKind, in_handler: bool) -> Result<Ran, Found> {
    let mut run = begin(lab, patch, to, in_handler);
    let place = run.state.cores()[0].place();
    // What the TLB may hold of the identity map, and the tables do not say any more.
    let old = lab.physical("image_start");
    let ttbr0 = run.register(0, Register::Ttbr0El1);
    run.state.machine_mut().write_register(0, Register::Ttbr0El1, ttbr0 | ASID << 48);
    run.state.machine_mut().barrier(0, Barrier::Isb);
    let before = run.outcomes(0, old, AccessKind::Read);
    run.expect(0, before == [Outcome::Translated(old)], || format!("{old:#x} leads to {before:x?}"))?;
    let root = ttbr0 & 0x0000_ffff_ffff_f000;
    (0..512).for_each(|slot| run.state.machine_mut().store(1, root + 8 * slot, 0));
    run.state.machine_mut().barrier(1, Barrier::DSB_SY);
    let address = if kind == AccessKind::Fetch { place } else { ADDRESS };
    conflict(&mut run, address, kind);
    come_back(&mut run, lab, place, in_handler)?;
    let after = run.outcomes(0, old, AccessKind::Read);
    let is_gone = after.iter().all(|outcome| matches!(outcome, Outcome::Fault(_)));
    run.expect(0, is_gone, || format!("{old:#x} leads to {after:x?} yet"))?;
    let is_data = u64::from(kind != AccessKind::Fetch);
    run.expect_words(0, word(lab, COUNTS), &[1 - is_data, is_data])?;
    Ok(Ran::of(run))
}

/// One that comes again and again is an exception like any other, whatever FAR_EL1 says; one of another instruction begins anew, and so
/// does one behind a resize.
fn give_up(lab: &Lab, patch: Option<Patch>, to: Shape) -> Result<Ran, Found> {
    let mut run = begin(lab, patch, to, false);
    let place = run.state.cores()[0].place();
    for place in [place + 4, place] {
        run.state.core_mut(0).go_to(place);
        for repeats in 0..TIMES {
            conflict(&mut run, ADDRESS + 8 * repeats, AccessKind::Read);
            come_back(&mut run, lab, place, false)?;
            run.expect_words(0, word(lab, REPEATS), &[repeats])?;
        }
    }
    let resizes = lab.physical("resizes");
    for resize in 1..=2 * TIMES {
        run.state.machine_mut().store(0, resizes, resize);
        conflict(&mut run, ADDRESS + 8, AccessKind::Read);
        come_back(&mut run, lab, place, false)?;
        run.expect_words(0, word(lab, REPEATS), &[0])?;
    }
    for _ in 1..TIMES {
        conflict(&mut run, ADDRESS + 8, AccessKind::Read);
        come_back(&mut run, lab, place, false)?;
    }
    run.set_system(0, "SP_EL1", lab.link("boot_exception_stack_end"));
    conflict(&mut run, ADDRESS + 8, AccessKind::Read);
    let handler = lab.link("handle_exception");
    let vector = run.state.cores()[0].place();
    run.run_to(0, vector, handler, "it does not come to Rust")?;
    run.expect_registers(0, &[(0, 0)])?;
    let frame = lab.kernel.to_physical(run.get(0, 1));
    let words: Vec<u64> = (0..31).map(|register| 0x1000 + register).collect();
    run.expect_words(0, frame, &words)?;
    Ok(Ran::of(run))
}
