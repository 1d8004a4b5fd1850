//! `secondary_entry`: a CPU that is started by another one, out of reset at EL1 or EL2. The boot CPU cleans the record with
//! the kernel's own routine; the other reads it past its caches, says what it is, waits at the gate, and joins once the boot
//! CPU has opened it, or goes off where that turns it away.

use machine::event::Level;

use super::switch::check_translation;
use super::{Case, Piece, Ran};
use crate::finding::Found;
use crate::lab::{ISAR0, Lab, MMFR0, Patch};
use crate::run::{Run, Stop};
use crate::shape::{CHOSEN, EARLY, Shape};

/// `hardware::secondary::StartRecord` begins with the translation; then come, word by word: stack, exception stack, per-CPU
/// data, vectors, entry, argument, SMC, the gate. The answer has lines of its own.
const ANSWER: u64 = 2048;
const GATE: u64 = 12 * 8;
/// What the boot CPU writes there.
const OPEN: u64 = 1;
const TURNED_AWAY: u64 = 2;
/// Bytes of the record.
const RECORD: u64 = 4096;
const ARGUMENT: u64 = 0x77;

pub(super) fn piece() -> Piece {
    let mut cases = Vec::new();
    for (level, name) in [(Level::El1, "EL1"), (Level::El2, "EL2")] {
        for to in CHOSEN {
            cases.push(Case::new(format!("joins {to}, from {name}"), move |lab, patch| join(lab, patch, level, to)));
        }
        for is_smc in [false, true] {
            let conduit = if is_smc { "SMC" } else { "HVC" };
            let work = move |lab: &Lab, patch| turn_away(lab, patch, level, is_smc);
            cases.push(Case::new(format!("is turned away, from {name}, by {conduit}"), work));
        }
    }
    Piece { name: "secondary_entry", cases }
}

/// The boot CPU writes the record and cleans it; the other one starts. Gives the record's physical address.
fn start<'l>(
    lab: &'l Lab,
    patch: Option<Patch>,
    level: Level,
    to: Shape,
    is_smc: bool,
) -> Result<(Run<'l>, u64), Found> {
    let mut run = lab.running(to, patch);
    run.set_system(0, "CTR_EL0", crate::caches::CTR);
    let before = *EARLY.iter().find(|shape| shape.page_size != to.page_size).unwrap_or(&EARLY[0]);
    lab.reset(&mut run, 1, level, before);
    let record = lab.record();
    let rest = [
        lab.link("boot_stack_end"),
        lab.link("boot_exception_stack_end"),
        lab.link("per_cpu"),
        lab.link("vectors"),
        lab.link("handle_exception"),
        ARGUMENT,
        is_smc.into(),
        0,
    ];
    let words = lab.translation(to).registers.into_iter().chain(rest);
    // Rust writes the record whole, the answer too.
    let all = words.chain(std::iter::repeat(0));
    for (place, word) in (record..record + RECORD).step_by(8).zip(all) {
        run.store(0, place, word, true)?;
    }
    let back = lab.link("handle_exception");
    [(0, lab.kernel.to_link(record)), (1, lab.kernel.to_link(record) + RECORD), (30, back)]
        .into_iter()
        .for_each(|(register, value)| run.set(0, register, value));
    run.run_to(0, lab.link("clean_and_invalidate_to_poc"), back, "it does not return")?;
    run.set(1, 0, record);
    Ok((run, record))
}

fn join(lab: &Lab, patch: Option<Patch>, level: Level, to: Shape) -> Result<Ran, Found> {
    let (mut run, record) = start(lab, patch, level, to, false)?;
    let entry = lab.link("handle_exception");
    let after = wait_at_gate(lab, &mut run, record)?;
    run.expect(1, run.get_system(1, "SCTLR_EL1") & 1 == 0, || "its MMU is on before the gate is open".to_owned())?;
    decide(lab, &mut run, record, OPEN)?;
    run.run_to(1, after, entry, "it does not join")?;
    run.check_certain(1)?;
    run.expect_registers(1, &[(0, ARGUMENT), (29, 0), (30, 0)])?;
    let expected = [
        ("SP_EL0", lab.link("boot_stack_end")),
        ("SP_EL1", lab.link("boot_exception_stack_end")),
        ("TPIDR_EL1", lab.link("per_cpu")),
        ("VBAR_EL1", lab.link("vectors")),
        ("CurrentEL", 1 << 2),
        ("SPSel", 0),
        ("DAIF", 0x3c0),
        ("CPACR_EL1", 0),
    ];
    run.expect_systems(1, &expected)?;
    check_translation(&mut run, lab, 1, to, to)?;
    Ok(Ran::of(run))
}

fn turn_away(lab: &Lab, patch: Option<Patch>, level: Level, is_smc: bool) -> Result<Ran, Found> {
    let (mut run, record) = start(lab, patch, level, CHOSEN[2], is_smc)?;
    let after = wait_at_gate(lab, &mut run, record)?;
    decide(lab, &mut run, record, TURNED_AWAY)?;
    let called = run.run(1, after, &[])?;
    run.expect(1, called == Stop::Calls, || format!("it does not call firmware: {called:?}"))?;
    // CPU_OFF does not return, and here it does: then the CPU waits, and what it executes touches no memory.
    run.expect_registers(1, &[(0, 0x8400_0002)])?;
    let waits = run.go_on(1, &[])?;
    run.expect(1, waits == Stop::Waits, || format!("it does not wait: {waits:?}"))?;
    let (place, before) = (run.state.cores()[1].place(), run.steps);
    let again = run.run(1, place + 4, &[])?;
    let is_loop = again == Stop::Waits && run.state.cores()[1].place() == place && run.steps == before + 2;
    run.expect(1, is_loop, || "woken, it does something other than to wait again".to_owned())?;
    Ok(Ran::of(run))
}

/// The CPU goes to the gate, and says what it is. Gives the instruction behind that where it waits.
fn wait_at_gate(lab: &Lab, run: &mut Run<'_>, record: u64) -> Result<u64, Found> {
    let entry = lab.link("handle_exception");
    run.caches.set_flag(record + ANSWER);
    let stop = run.run(1, lab.physical("secondary_entry"), &[entry])?;
    run.expect(1, stop == Stop::Waits, || format!("it does not wait at the gate: {stop:?}"))?;
    check_answer(run, record)?;
    let after = run.state.cores()[1].place() + 4;
    let woken = run.run(1, after, &[entry])?;
    run.expect(1, woken == Stop::Waits, || format!("woken, it passes a closed gate: {woken:?}"))?;
    Ok(after)
}

/// The boot CPU writes its decision, and cleans it.
fn decide(lab: &Lab, run: &mut Run<'_>, record: u64, word: u64) -> Result<(), Found> {
    run.store(0, record + GATE, word, true)?;
    let (gate, back) = (lab.kernel.to_link(record) + GATE, lab.link("handle_exception"));
    [(0, gate), (1, gate + 8), (30, back)].into_iter().for_each(|(register, value)| run.set(0, register, value));
    run.run_to(0, lab.link("clean_to_poc"), back, "clean_to_poc does not return")
}

/// What the boot CPU reads of the answer.
fn check_answer(run: &mut Run<'_>, record: u64) -> Result<(), Found> {
    let answer = [1, 0x410f_d0f0, ISAR0, MMFR0, 1 << 16];
    for (place, word) in (record + ANSWER..).step_by(8).zip(answer) {
        let found = run.load(0, place, true)?;
        run.expect(0, found == word, || format!("the answer at {place:#x} is {found:#x}, expected {word:#x}"))?;
    }
    Ok(())
}
