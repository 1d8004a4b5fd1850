//! `image_header`: the way from a boot loader to Rust, at EL1 and at EL2, with what a loader may leave in caches and TLBs.

use a64::instruction::Instruction;
use a64::registers::System;
use machine::barrier::Barrier;
use machine::event::Level;
use machine::registers::Register;

use super::leave::check_relocated;
use super::{Case, Piece, Ran};
use crate::finding::Found;
use crate::kernel::LOAD;
use crate::lab::{Lab, Patch};
use crate::run::Run;
use crate::shape::{EARLY, Shape};

const DEVICE_TREE: u64 = 0x4800_0000;
/// `hardware::boot::Boot` has six words before the translation: device tree, exception level, counter, load address.
const TRANSLATION: u64 = 48;
/// Of the flat Image (arm64 boot protocol).
const HEADER_BYTES: u64 = 64;
/// Of sixteen vectors.
const VECTORS_BYTES: u64 = 0x800;

pub(super) fn piece() -> Piece {
    let levels = [(Level::El1, "EL1"), (Level::El2, "EL2")].into_iter();
    let pairs = levels.flat_map(|level| EARLY.into_iter().map(move |shape| (level, shape)));
    let case = |((level, name), shape): ((Level, &str), Shape)| {
        Case::new(format!("{shape}, from {name}"), move |lab, patch| enter(lab, patch, level, shape, &[]))
    };
    let without = |lab: &Lab, patch| enter(lab, patch, Level::El2, EARLY[0], &["ICC_SRE_EL2"]);
    let without = Case::new("4K early, from EL2, without ICC_SRE_EL2".to_owned(), without);
    Piece { name: "image_header", cases: pairs.map(case).chain([without]).collect() }
}

/// Code of which an instruction cache may hold something older: all but the header, the entry code until it drops that, and
/// `enter_el1` with its vectors. Of those few instructions nothing else can be hoped for.
fn leave_old_code(run: &mut Run<'_>, lab: &Lab) {
    let at = |name| lab.physical(name);
    let entered = lab.kernel.instructions(at("entry"), at("text_end"));
    let dropped = entered.filter(|it| it.1 == Instruction::Barrier(Barrier::Isb)).map(|it| it.0 + 4).next();
    let mut first = [
        at("image_header")..at("image_header") + HEADER_BYTES,
        at("entry")..dropped.unwrap_or(at("text_end")),
        at("enter_el1")..at("el2_vectors") + VECTORS_BYTES,
    ];
    first.sort_by_key(|it| it.start);
    let starts = first.iter().map(|it| it.end);
    let ends = first.iter().skip(1).map(|it| it.start).chain([at("text_end")]);
    starts.zip(ends).for_each(|(start, end)| run.caches.leave_old_code(start..end));
}

fn enter(lab: &Lab, patch: Option<Patch>, level: Level, shape: Shape, lacking: &[&str]) -> Result<Ran, Found> {
    let mut run = lab.run(patch);
    let before = *EARLY.iter().find(|it| it.page_size != shape.page_size).unwrap_or(&EARLY[0]);
    lab.reset(&mut run, 0, level, before);
    let at = |name| lab.physical(name);
    run.caches.leave_dirty(at("bss_start")..at("image_end"));
    leave_old_code(&mut run, lab);
    run.lacking = lacking.iter().filter_map(|name| System::named(name)).collect();
    run.set(0, 0, DEVICE_TREE);
    let build = at("build_identity_map");
    run.run_to(0, at("image_header"), build, "it does not come to Rust")?;
    run.check_certain(0)?;
    check_first(&run, lab, level)?;
    // What `build_identity_map` does, with the MMU off: tables, and what to load.
    lab.store_past_caches(&mut run, shape)?;
    let (record, values) = (at("boot_record"), lab.boot_translation(shape).registers);
    for (place, value) in (record + TRANSLATION..).step_by(8).zip(values) {
        run.store(0, place, value, false)?;
    }
    let (back, main) = (run.get(0, 30), at("identity_main"));
    // It may use any register that a function may.
    (0..19).for_each(|register| run.set(0, register, 0xbad0_0000 + u64::from(register)));
    run.run_to(0, back, main, "it does not come to Rust with the MMU on")?;
    run.check_certain(0)?;
    run.expect_registers(0, &[(0, record)])?;
    run.expect_translation(0, values)?;
    // From now on all of it is read through the caches.
    for place in (at("rodata_start")..at("image_end")).step_by(8) {
        run.load(0, place, true)?;
    }
    Ok(Ran::of(run))
}

/// What EL2 traps of EL1 is nothing that the CPU has and EL1 may use: bits that trap when they are clear are set.
fn check_traps(run: &Run<'_>) -> Result<(), Found> {
    let expected = [
        ("HFGRTR_EL2", 0b11 << 54), // nTPIDR2_EL0, nSMPRI_EL1
        ("HFGWTR_EL2", 0b11 << 54),
        ("HFGITR_EL2", 0),
        ("HDFGRTR_EL2", 0),
        ("HDFGWTR_EL2", 0),
        ("HAFGRTR_EL2", 0),
        ("HDFGRTR2_EL2", 1 << 4),           // nPMUACR_EL1
        ("HDFGWTR2_EL2", 1 << 4 | 1 << 21), // nPMZR_EL0
    ];
    run.expect_systems(0, &expected)?;
    let found = run.register(0, Register::HcrxEl2);
    run.expect(0, found == 1 << 23, || format!("HCRX_EL2 is {found:#x}, expected EnFPM alone"))
}

/// What the first function of Rust finds.
fn check_first(run: &Run<'_>, lab: &Lab, level: Level) -> Result<(), Found> {
    let at = |name| lab.physical(name);
    let (record, per_cpu) = (at("boot_record"), at("per_cpu"));
    if level == Level::El2 {
        check_traps(run)?;
    }
    let level = if level == Level::El2 { 2 } else { 1 };
    run.expect_registers(0, &[(0, record), (29, 0)])?;
    run.expect_words(0, record, &[DEVICE_TREE, level, 12345, LOAD])?;
    run.expect_words(0, per_cpu, &[at("boot_emergency_stack_end")])?;
    let expected = [
        ("SP_EL0", at("boot_stack_end")),
        ("SP_EL1", at("boot_exception_stack_end")),
        ("TPIDR_EL1", per_cpu),
        ("VBAR_EL1", at("vectors")),
        ("CurrentEL", 1 << 2),
        ("SPSel", 0),
        ("DAIF", 0x3c0),
    ];
    run.expect_systems(0, &expected)?;
    for place in (at("bss_start")..at("early_tables_start")).step_by(8) {
        let is_written = place == per_cpu || (record..record + 32).contains(&place);
        run.expect(0, is_written || run.machine().word(place) == 0, || format!("{place:#x} of bss is not zero"))?;
    }
    check_relocated(run, lab, LOAD)
}
