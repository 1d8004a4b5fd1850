//! `switch_translation`: MMU off, new tables, MMU on, from each map that the kernel uses to each other.

use machine::machine::Outcome;
use machine::syndrome::AccessKind;

use super::{Case, Piece, Ran};
use crate::finding::Found;
use crate::lab::{Lab, Patch};
use crate::run::Run;
use crate::shape::{CHOSEN, EARLY, RAM, Shape, UART};

pub(super) fn piece() -> Piece {
    let shapes = || EARLY.into_iter().chain(CHOSEN);
    let mut cases = Vec::new();
    for is_on in [true, false] {
        for (from, to) in shapes().flat_map(|from| shapes().map(move |to| (from, to))).filter(|(from, to)| from != to) {
            let state = if is_on { "" } else { ", MMU off already" };
            cases.push(Case::new(format!("{from} to {to}{state}"), move |lab, patch| {
                switch(lab, patch, from, to, is_on)
            }));
        }
    }
    Piece { name: "switch_translation", cases }
}

fn switch(lab: &Lab, patch: Option<Patch>, from: Shape, to: Shape, is_on: bool) -> Result<Ran, Found> {
    let mut run = lab.running(from, patch);
    if !is_on {
        lab.leave(&mut run, 0);
    }
    lab.store(&mut run, to);
    let values = lab.translation(to).registers;
    values.iter().enumerate().for_each(|(number, value)| run.set(0, number as u8, *value));
    // Any place that both maps hold will do to return to.
    let back = lab.physical("leave_identity_map");
    run.set(0, 30, back);
    run.run_to(0, lab.physical("switch_translation"), back, "it does not return")?;
    run.check_certain(0)?;
    check_translation(&mut run, lab, 0, from, to)?;
    Ok(Ran::of(run))
}

/// `cpu` translates by `to`, and nothing of `from` is left.
pub(super) fn check_translation(run: &mut Run<'_>, lab: &Lab, cpu: usize, from: Shape, to: Shape) -> Result<(), Found> {
    run.expect_translation(cpu, lab.translation(to).registers)?;
    for (address, kind, expected) in probes(lab, from, to) {
        let outcomes = run.outcomes(cpu, address, kind);
        let is_right = match expected {
            Some(physical) => outcomes == [Outcome::Translated(physical)],
            None => outcomes.iter().all(|it| matches!(it, Outcome::Fault(_))),
        };
        run.expect(cpu, is_right, || format!("{kind:?} of {address:#x}: {outcomes:x?}, expected {expected:x?}"))?;
    }
    Ok(())
}

/// Where accesses lead under `to`: `None` where they must fault, though `from` or another map has something there.
fn probes(lab: &Lab, from: Shape, to: Shape) -> Vec<(u64, AccessKind, Option<u64>)> {
    let (text, data) = (lab.physical("switch_translation"), lab.physical("boot_record"));
    let (rust, link) = (lab.physical("handle_exception"), |physical| lab.kernel.to_link(physical));
    let (is_early, bits) = (to.upper_bits == 0, to.upper_bits);
    let early = |physical| is_early.then_some(physical);
    let high = |physical| (!is_early).then_some(physical);
    let mut probes = vec![
        (text, AccessKind::Fetch, Some(text)),
        (text, AccessKind::Write, None),
        (rust, AccessKind::Fetch, early(rust)),
        (data, AccessKind::Write, early(data)),
        (link(rust), AccessKind::Fetch, high(rust)),
        (link(data), AccessKind::Write, high(data)),
        (link(data), AccessKind::Fetch, None),
        (UART, AccessKind::Read, early(UART)),
    ];
    for upper in [from.upper_bits, bits].into_iter().filter(|bits| *bits != 0) {
        let last = RAM.end - RAM.start - 8;
        let address = (u64::MAX << upper) + last;
        let is_mapped = upper == bits;
        probes.push((address, AccessKind::Write, is_mapped.then_some(RAM.end - 8)));
    }
    probes
}
