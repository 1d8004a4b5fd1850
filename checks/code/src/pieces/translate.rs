//! `read_translation`: an AT whose answer in PAR_EL1 is a TLB conflict is made again once this CPU has forgotten everything.

use machine::barrier::Barrier;
use machine::registers::Register;
use machine::syndrome::AccessKind;

use super::{Case, Piece, Ran};
use crate::finding::Found;
use crate::lab::{Lab, Patch};
use crate::run::Run;
use crate::shape::{CHOSEN, Shape};

/// Of the identity map: not the one that an operand of zeros names.
const ASID: u64 = 5;
/// What PAR_EL1 held before.
const BEFORE: u64 = 0xbad0_0000;
/// F and FST of PAR_EL1: a translation fault, of any level.
const FAULT: (u64, u64) = (0x79, 0x09);

pub(super) fn piece(name: &'static str, kind: AccessKind) -> Piece {
    let mut cases = Vec::new();
    for to in [CHOSEN[2], CHOSEN[6], CHOSEN[9]] {
        cases.push(Case::new(format!("{to}"), move |lab, patch| answer(lab, patch, to, name)));
        cases.push(Case::new(format!("{to}, a conflict"), move |lab, patch| conflict(lab, patch, to, name, kind)));
    }
    cases.push(Case::new("a conflict for ever".to_owned(), move |lab, patch| give_up(lab, patch, name)));
    Piece { name, cases }
}

/// A CPU that runs high code on a stack, and asks where `address` leads.
fn begin(run: &mut Run<'_>, lab: &Lab, address: u64) {
    run.set(0, 0, address);
    run.set_system(0, "SP_EL0", lab.link("boot_stack_end") - 64);
    run.state.core_mut(0).select_stack(false);
}

fn ask(run: &mut Run<'_>, lab: &Lab, name: &str, address: u64) -> Result<(), Found> {
    begin(run, lab, address);
    run.set(0, 30, lab.link("handle_exception"));
    run.set_system(0, "PAR_EL1", BEFORE);
    run.run_to(0, lab.link(name), lab.link("handle_exception"), "it does not come back")?;
    run.check_certain(0)
}

/// One AT is enough where nothing conflicts.
fn answer(lab: &Lab, patch: Option<Patch>, to: Shape, name: &str) -> Result<Ran, Found> {
    let mut run = lab.running(to, patch);
    let physical = lab.physical("boot_record");
    ask(&mut run, lab, name, lab.kernel.to_link(physical))?;
    run.expect_registers(0, &[(0, 0), (1, physical)])?;
    run.expect(0, run.translations == 1, || format!("{} AT, expected 1", run.translations))?;
    Ok(Ran::of(run))
}

/// The TLB holds what the tables do not say any more; the second AT finds nothing there.
fn conflict(lab: &Lab, patch: Option<Patch>, to: Shape, name: &str, kind: AccessKind) -> Result<Ran, Found> {
    let mut run = lab.running(to, patch);
    let address = lab.physical("boot_record");
    let ttbr0 = run.register(0, Register::Ttbr0El1);
    run.state.machine_mut().write_register(0, Register::Ttbr0El1, ttbr0 | ASID << 48);
    run.state.machine_mut().barrier(0, Barrier::Isb);
    run.outcomes(0, address, kind);
    let root = ttbr0 & 0x0000_ffff_ffff_f000;
    (0..512).for_each(|slot| run.state.machine_mut().store(1, root + 8 * slot, 0));
    run.state.machine_mut().barrier(1, Barrier::DSB_SY);
    let may_lead = run.outcomes(0, address, kind).len();
    run.expect(0, may_lead > 1, || format!("{address:#x} leads to {may_lead} places, expected more than one"))?;
    ask(&mut run, lab, name, address)?;
    let (fails, par) = (run.get(0, 0), run.get(0, 1));
    run.expect(0, fails == 1 && par & FAULT.0 == FAULT.1, || {
        format!("PAR_EL1 is {par:#x}, expected a translation fault")
    })?;
    run.expect(0, run.translations == 2, || format!("{} ATs, expected 2", run.translations))?;
    Ok(Ran::of(run))
}

/// It does not come back as if the page faulted.
fn give_up(lab: &Lab, patch: Option<Patch>, name: &str) -> Result<Ran, Found> {
    let mut run = lab.running(CHOSEN[2], patch);
    run.conflicts_for_ever = true;
    let address = lab.link("boot_record");
    begin(&mut run, lab, address);
    run.run_to(0, lab.link(name), lab.link("conflict_without_end"), "it is not named")?;
    run.expect_registers(0, &[(0, address)])?;
    run.expect(0, run.translations == 4097, || format!("{} ATs, expected 4097", run.translations))?;
    Ok(Ran::of(run))
}
