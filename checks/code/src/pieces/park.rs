//! `park`: a CPU leaves the kernel's tables, says so, waits, and comes back to them; and an exception meanwhile. `send_event`: it is let go.

use machine::machine::Outcome;
use machine::syndrome::AccessKind;

use super::switch::check_translation;
use super::{Case, Piece, Ran};
use crate::finding::Found;
use crate::lab::{Lab, Patch};
use crate::run::{Run, Stop};
use crate::shape::{BOARD, CHOSEN, Shape};

/// A table that maps nothing.
const EMPTY: u64 = 0x5800_0000;
/// The second word of the line: what the CPU has seen.
const SEEN: u64 = BOARD + 8;
/// Vectors are so far apart.
const VECTOR: u64 = 0x80;

pub(super) fn piece() -> Piece {
    let mut cases = Vec::new();
    for to in [CHOSEN[2], CHOSEN[6], CHOSEN[9]] {
        cases.push(Case::new(format!("{to}"), move |lab, patch| come_back(lab, patch, to)));
        cases.push(Case::new(format!("{to}, let go at once"), move |lab, patch| pass(lab, patch, to)));
        cases.push(Case::new(format!("{to}, an exception"), move |lab, patch| except(lab, patch, to)));
    }
    Piece { name: "park", cases }
}

pub(super) fn event() -> Piece {
    let case = |to: Shape| Case::new(to.to_string(), move |lab, patch| let_go(lab, patch, to));
    Piece { name: "send_event", cases: [CHOSEN[2], CHOSEN[6], CHOSEN[9]].into_iter().map(case).collect() }
}

/// A CPU that is about to park, and where it is to come back.
fn begin<'l>(lab: &'l Lab, patch: Option<Patch>, to: Shape, ticket: u64) -> (Run<'l>, u64) {
    let mut run = lab.running(to, patch);
    let back = lab.link("handle_exception");
    let [_, _, ttbr0, ..] = lab.translation(to).registers;
    let arguments = [(0, BOARD), (1, lab.physical("parked")), (2, ttbr0), (3, EMPTY), (30, back)];
    arguments.into_iter().for_each(|(register, value)| run.set(0, register, value));
    run.set_system(0, "VBAR_EL1", lab.link("vectors"));
    run.state.machine_mut().store(0, BOARD, ticket);
    (run, back)
}

/// It waits, and nothing of the kernel's tables is left.
fn check_parked(run: &mut Run<'_>, lab: &Lab, stop: Stop, ticket: u64) -> Result<(), Found> {
    run.expect(0, stop == Stop::Waits, || format!("it does not wait: {stop:?}"))?;
    let seen = run.load(0, SEEN, true)?;
    run.expect(0, seen == ticket, || format!("it has seen the ticket {seen}, expected {ticket}"))?;
    let vectors = run.get_system(0, "VBAR_EL1");
    run.expect(0, vectors == lab.physical("parked_vectors"), || format!("VBAR_EL1 is {vectors:#x}"))?;
    for (address, kind) in
        [(lab.link("handle_exception"), AccessKind::Fetch), (lab.link("boot_record"), AccessKind::Write)]
    {
        let outcomes = run.outcomes(0, address, kind);
        let is_gone = outcomes.iter().all(|it| matches!(it, Outcome::Fault(_)));
        run.expect(0, is_gone, || format!("{kind:?} of {address:#x}: {outcomes:x?}, expected a fault"))?;
    }
    Ok(())
}

/// It is back, and as it was.
fn check_back(run: &mut Run<'_>, lab: &Lab, to: Shape, stop: Stop, at: u64) -> Result<(), Found> {
    run.expect(0, stop == Stop::Reached(at), || format!("it does not come back: {stop:?}"))?;
    run.check_certain(0)?;
    let (vectors, expected) = (run.get_system(0, "VBAR_EL1"), lab.link("vectors"));
    run.expect(0, vectors == expected, || format!("VBAR_EL1 is {vectors:#x}, expected {expected:#x}"))?;
    check_translation(run, lab, 0, to, to)
}

fn come_back(lab: &Lab, patch: Option<Patch>, to: Shape) -> Result<Ran, Found> {
    let (mut run, back) = begin(lab, patch, to, 7);
    let stop = run.run(0, lab.link("park"), &[back])?;
    check_parked(&mut run, lab, stop, 7)?;
    // The next round begins before it has seen the end of this one.
    run.state.machine_mut().store(0, BOARD, 8);
    let after = run.state.cores()[0].place() + 4;
    let stop = run.run(0, after, &[back])?;
    check_parked(&mut run, lab, stop, 8)?;
    run.state.machine_mut().store(0, BOARD, 0);
    let stop = run.run(0, after, &[back])?;
    check_back(&mut run, lab, to, stop, back)?;
    Ok(Ran::of(run))
}

fn pass(lab: &Lab, patch: Option<Patch>, to: Shape) -> Result<Ran, Found> {
    let (mut run, back) = begin(lab, patch, to, 0);
    let stop = run.run(0, lab.link("park"), &[back])?;
    check_back(&mut run, lab, to, stop, back)?;
    run.expect_words(0, SEEN, &[0])?;
    Ok(Ran::of(run))
}

fn except(lab: &Lab, patch: Option<Patch>, to: Shape) -> Result<Ran, Found> {
    let (mut run, back) = begin(lab, patch, to, 7);
    let stop = run.run(0, lab.link("park"), &[back])?;
    check_parked(&mut run, lab, stop, 7)?;
    let parked = run.clone();
    for index in 0..16 {
        run = parked.clone();
        let vector = lab.link("vectors") + index * VECTOR;
        let stop = run.run(0, lab.physical("parked_vectors") + index * VECTOR, &[vector])?;
        check_back(&mut run, lab, to, stop, vector)?;
    }
    Ok(Ran::of(run))
}

/// A ticket is 0, and nothing has ordered that yet.
fn let_go(lab: &Lab, patch: Option<Patch>, to: Shape) -> Result<Ran, Found> {
    let (mut run, back) = begin(lab, patch, to, 7);
    run.store(0, BOARD, 0, true)?;
    run.run_to(0, lab.link("send_event"), back, "it does not return")?;
    Ok(Ran::of(run))
}
