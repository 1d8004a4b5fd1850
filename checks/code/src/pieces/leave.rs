//! `leave_identity_map`: relocates the image for its link address, switches, and goes to the high half.

use super::switch::check_translation;
use super::{Case, Piece, Ran};
use crate::finding::Found;
use crate::lab::{Lab, Patch};
use crate::shape::{CHOSEN, EARLY, Shape};

const ARGUMENT: u64 = 0x1234_5678;

pub(super) fn piece() -> Piece {
    let pairs = EARLY.into_iter().flat_map(|from| CHOSEN.into_iter().map(move |to| (from, to)));
    let case = |(from, to)| Case::new(format!("{from} to {to}"), move |lab, patch| leave(lab, patch, from, to));
    Piece { name: "leave_identity_map", cases: pairs.map(case).collect() }
}

fn leave(lab: &Lab, patch: Option<Patch>, from: Shape, to: Shape) -> Result<Ran, Found> {
    let mut run = lab.running(from, patch);
    lab.store(&mut run, to);
    // The structure is on the stack of whoever calls.
    let stack = lab.physical("boot_stack_end") - 0x100;
    for (number, value) in lab.translation(to).registers.into_iter().enumerate() {
        run.store(0, stack + 8 * number as u64, value, true)?;
    }
    let (entry, thread, exception) =
        (lab.link("handle_exception"), lab.link("boot_stack_end"), lab.link("boot_exception_stack_end"));
    let arguments = [stack, entry, ARGUMENT, thread, exception, lab.kernel.link];
    arguments.into_iter().enumerate().for_each(|(number, value)| run.set(0, number as u8, value));
    run.state.core_mut(0).select_stack(false);
    run.run_to(0, lab.physical("leave_identity_map"), entry, "it does not arrive")?;
    run.check_certain(0)?;
    run.expect_registers(0, &[(0, ARGUMENT), (29, 0), (30, 0)])?;
    let stacks = [run.get_system(0, "SP_EL0"), run.get_system(0, "SP_EL1"), run.get_system(0, "SPSel")];
    run.expect(0, stacks == [thread, exception, 0], || format!("the stacks are {stacks:#x?}"))?;
    check_relocated(&run, lab, lab.kernel.link)?;
    check_translation(&mut run, lab, 0, from, to)?;
    Ok(Ran::of(run))
}

/// Each address in the image's data is that of an image at `base`.
pub(super) fn check_relocated(run: &crate::run::Run<'_>, lab: &Lab, base: u64) -> Result<(), Found> {
    lab.kernel.relocations.iter().try_for_each(|(place, addend)| {
        let expected = addend.wrapping_sub(lab.kernel.link).wrapping_add(base);
        run.expect_words(0, lab.kernel.to_physical(*place), &[expected])
    })
}
