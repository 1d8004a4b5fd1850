//! A few words of machine code at a time: that fetches translate, that doubt is noticed, and how it is told.

use a64::interpreter::{Core, OnFault, State};
use code::finding::{Finding, Found};
use code::kernel::Kernel;
use code::run::{Run, Stop};
use machine::barrier::Barrier;
use machine::event::Level;
use machine::machine::Machine;
use machine::registers::{Ets, Features, Register};

const NOP: u32 = 0xd503_201f;
const ISB: u32 = 0xd503_3fdf;
const WFI: u32 = 0xd503_207f;
const MSR_SCTLR_X0: u32 = 0xd518_1000;
const SEV: u32 = 0xd503_209f;
const DMB_ISH: u32 = 0xd503_3bbf;
const DSB_NSHST: u32 = 0xd503_369f;
const DSB_ISHLD: u32 = 0xd503_399f;
const DSB_ISHST: u32 = 0xd503_3a9f;
const STR_X1_X2: u32 = 0xf900_0041;
const LDR_X1_X2: u32 = 0xf940_0041;
const MRS_ID: u32 = 0xd538_0703;

/// The tables, and two pages that the code may be on.
const ROOT: u64 = 0x10_0000;
const HERE: u64 = 0x20_0000;
const THERE: u64 = 0x20_1000;
/// A page that is executable, inner shareable, accessed, global; and a table.
const PAGE: u64 = 1 << 10 | 3 << 8 | 1 << 7 | 3;
const TABLE: u64 = 3;
const TABLES: [u64; 3] = [ROOT + 0x1000, ROOT + 0x2000, ROOT + 0x3000];

/// A machine with `code` at [`HERE`], and tables that lead [`HERE`] there.
fn run<'k>(kernel: &'k Kernel, code: &[u32]) -> Run<'k> {
    let features = Features { ets: Ets::None, ..Features::full(0) };
    let mut machine = Machine::new(&[features]);
    for (place, pair) in (HERE..).step_by(8).zip(code.chunks(2)) {
        let word = u64::from(pair[0]) | u64::from(*pair.get(1).unwrap_or(&NOP)) << 32;
        machine.store(0, place, word);
        machine.store(0, place - HERE + THERE, word);
    }
    for (word, descriptor) in [
        (ROOT, TABLES[0] | TABLE),
        (TABLES[0], TABLES[1] | TABLE),
        (TABLES[1] + 8, TABLES[2] | TABLE),
        (TABLES[2], HERE | PAGE),
    ] {
        machine.store(0, word, descriptor);
    }
    machine.barrier(0, Barrier::DSB_SY);
    let tcr = 16 | 1 << 23 | 5 << 32;
    for (register, value) in [(Register::MairEl1, 0xff), (Register::TcrEl1, tcr), (Register::Ttbr0El1, ROOT)] {
        machine.write_register(0, register, value);
    }
    machine.barrier(0, Barrier::Isb);
    Run::new(kernel, State::new(machine, vec![Core::new(0, Level::El1, OnFault::Vectors)], Ets::None))
}

fn switch_on(run: &mut Run<'_>) {
    let machine = run.state.machine_mut();
    machine.write_register(0, Register::SctlrEl1, 1);
    machine.barrier(0, Barrier::Isb);
}

fn told(found: Result<Stop, Found>) -> String {
    found.expect_err("a finding").to_string()
}

#[test]
fn code_runs_past_the_mmu_and_through_it() {
    let kernel = Kernel::default();
    let mut run = run(&kernel, &[NOP, ISB, NOP, WFI]);
    assert_eq!(run.run(0, HERE, &[]), Ok(Stop::Waits));
    switch_on(&mut run);
    assert_eq!(run.run(0, HERE, &[HERE + 8]), Ok(Stop::Reached(HERE + 8)));
    assert_eq!((run.steps, run.visited.len()), (6, 4));
}

#[test]
fn a_fetch_through_a_stale_entry_is_a_finding() {
    let kernel = Kernel::default();
    let mut run = run(&kernel, &[NOP, WFI]);
    switch_on(&mut run);
    let machine = run.state.machine_mut();
    machine.store(0, TABLES[2], 0);
    machine.barrier(0, Barrier::DSB_SY);
    machine.barrier(0, Barrier::Isb);
    let found = run.run(0, HERE, &[]).expect_err("it may fault");
    assert_eq!(found.finding.label(), "fetch");
    let text = found.to_string();
    assert!(text.contains("0x200000 could be at 0x200000 or take a Translation fault of level 3"), "{text}");
}

#[test]
fn an_mmu_that_may_be_on_or_off_matters_where_the_two_differ() {
    let kernel = Kernel::default();
    // The page leads elsewhere, where the same code is.
    let mut one = run(&kernel, &[MSR_SCTLR_X0, NOP, ISB, WFI]);
    one.state.machine_mut().store(0, TABLES[2], THERE | PAGE);
    one.state.machine_mut().barrier(0, Barrier::DSB_SY);
    one.set(0, 0, 1);
    let text = told(one.run(0, HERE, &[]));
    assert!(text.contains("fetch: 0x200004 could be at 0x200004 or be at 0x201004"), "{text}");
    // Where it leads to itself there is no doubt, and what is left of it ends with the ISB.
    let mut other = run(&kernel, &[MSR_SCTLR_X0, NOP, ISB, WFI]);
    other.set(0, 0, 1);
    assert_eq!(other.run(0, HERE, &[HERE + 8]), Ok(Stop::Reached(HERE + 8)));
    assert!(other.check_certain(0).is_err_and(|found| found.to_string().contains("SCTLR_EL1 is not certain")));
    assert_eq!(other.run(0, HERE + 8, &[]), Ok(Stop::Waits));
    assert_eq!(other.check_certain(0), Ok(()));
    // Off again without an ISB, the tables go on leading elsewhere for a while.
    let mut back = run(&kernel, &[MSR_SCTLR_X0, NOP, ISB, WFI]);
    back.state.machine_mut().store(0, TABLES[2], THERE | PAGE);
    back.state.machine_mut().barrier(0, Barrier::DSB_SY);
    switch_on(&mut back);
    back.set(0, 0, 0);
    let text = told(back.run(0, HERE, &[]));
    assert!(text.contains("fetch: 0x200004 could be at 0x200004 or be at 0x201004"), "{text}");
}

#[test]
fn what_is_not_known_is_said_in_one_line() {
    let kernel = Kernel::default();
    let mut odd = run(&kernel, &[NOP, 0x9b01_7c00]);
    assert_eq!(told(odd.run(0, HERE, &[])), "CPU 0 at 0x200004 (?): 0x9b017c00 is no instruction that is known here");
    let mut unset = run(&kernel, &[MRS_ID]);
    let text = told(unset.run(0, HERE, &[]));
    assert!(text.ends_with("ID_AA64MMFR0_EL1 is read, and has no value here"), "{text}");
    let mut unaligned = run(&kernel, &[LDR_X1_X2]);
    unaligned.set(0, 2, HERE + 4);
    assert!(matches!(unaligned.run(0, HERE, &[]), Err(Found { finding: Finding::Unknown(_), .. })));
    let mut endless = run(&kernel, &[0x1400_0000]);
    let text = told(endless.run(0, HERE, &[]));
    assert!(text.contains("no end after 200000 instructions"), "{text}");
}

#[test]
fn data_is_not_read_in_a_byte_order_that_is_not_certain() {
    let kernel = Kernel::default();
    let mut early = run(&kernel, &[MSR_SCTLR_X0, LDR_X1_X2, WFI]);
    early.set(0, 0, 1 << 25);
    early.set(0, 2, HERE);
    let text = told(early.run(0, HERE, &[]));
    assert!(text.contains("sync: data is accessed while SCTLR_EL1.A or EE is not certain"), "{text}");
    let mut late = run(&kernel, &[MSR_SCTLR_X0, ISB, LDR_X1_X2, WFI]);
    late.set(0, 2, HERE);
    assert_eq!(late.run(0, HERE, &[]), Ok(Stop::Waits));
    assert_eq!(late.get(0, 1), u64::from(ISB) << 32 | u64::from(MSR_SCTLR_X0));
}

#[test]
fn an_event_may_not_overtake_a_store() {
    let kernel = Kernel::default();
    for (barrier, is_enough) in
        [(NOP, false), (DMB_ISH, false), (DSB_NSHST, false), (DSB_ISHLD, false), (DSB_ISHST, true)]
    {
        let mut run = run(&kernel, &[STR_X1_X2, barrier, SEV, WFI]);
        run.set(0, 2, THERE);
        match run.run(0, HERE, &[]) {
            Ok(stop) => assert!(is_enough && stop == Stop::Waits, "{barrier:#x}: {stop:?}"),
            Err(found) => assert!(!is_enough && found.finding.label() == "event", "{barrier:#x}: {found}"),
        }
    }
}

#[test]
fn files_that_are_no_kernel_are_refused() {
    for (file, what) in [(&b"text"[..], "not an ELF file"), (b"", "not an ELF file")] {
        assert!(Kernel::parse(file).is_err_and(|error| error.contains(what)));
    }
}
