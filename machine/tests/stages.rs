//! What stage 1 made of a stage 2 that was changed: a TLBI by intermediate address does not end it, so until one of
//! stage 1 does, nothing different may take its place.

use crate::common;
use common::*;
use machine::event::{Level, Owned};
use machine::finding::{Reason, Rule};
use machine::machine::Machine;
use machine::registers::{Features, Register};
use machine::syndrome::AccessKind;
use machine::tlbi::Opcode;

const PA: u64 = 0x8000_0000;
const OTHER: u64 = 0x9000_0000;
const MIB_2: u64 = 0x20_0000;
/// Intermediate address of what changes: the second 2 MiB, at `S2_L2 + 8`.
const IPA: u64 = MIB_2;
const S2_TABLE: u64 = S2_L3 + 0x1000;
/// With this operand: every granule of 4 KiB in the 2 MiB at `IPA`.
const RIPAS2E1IS: Opcode = Opcode::new(4, 8, 0, 2);
const WHOLE: u64 = 1 << 46 | 1 << 44 | 7 << 39 | IPA >> 12;

/// What translates input addresses from 0 to `IPA`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    /// Nothing: stage 1 is off.
    Off,
    /// A page.
    Page,
    /// A 2 MiB block.
    Block,
    /// Sixteen contiguous pages.
    Set,
}

/// Two CPUs in VMID 7, whose stage-1 tables lie at intermediate addresses that translate to themselves.
fn guest(first: First, features: Features) -> Machine {
    let mut machine = Machine::new(&[features; 2]);
    machine.store(0, S2_ROOT, S2_L2 | TABLE);
    machine.store(0, S2_ROOT + 8, S2_BLOCK | 0x4000_0000);
    tables(&mut machine);
    match first {
        First::Off => {}
        First::Page => machine.store(0, L3, PAGE | NON_GLOBAL | IPA),
        First::Block => machine.store(0, L2, BLOCK | NON_GLOBAL | IPA),
        First::Set => {
            (0..16).for_each(|page| machine.store(0, L3 + page * 8, PAGE | NON_GLOBAL | CONT | IPA | page << 12));
        }
    }
    machine.barrier(0, ISH);
    for cpu in 0..2 {
        let writes = [(Register::VtcrEl2, 25 | 1 << 6 | 5 << 16), (Register::VttbrEl2, 7 << 48 | S2_ROOT)];
        msr(&mut machine, cpu, &writes);
        if first != First::Off {
            enable_el1(&mut machine, cpu, 1, ROOT);
        }
        msr(&mut machine, cpu, &[(Register::HcrEl2, 1)]);
    }
    machine.enter(0, Level::El2);
    machine
}

/// Stores each of `words`, the last of them when the others are finished.
fn put(machine: &mut Machine, words: &[(u64, u64)]) {
    for (word, value) in words {
        if Some(word) == words.last().map(|it| &it.0) {
            machine.barrier(0, ISHST);
        }
        machine.store(0, *word, *value);
    }
    machine.barrier(0, ISH);
}

/// At EL2 no ISB is needed for what only EL1 and EL0 use.
fn forget(machine: &mut Machine, opcode: Opcode, operand: u64) {
    machine.tlbi(0, opcode, operand);
    machine.barrier(0, ISH);
}

/// Takes the descriptors `words` of stage 2 away, and lets everything forget them but what is combined with stage 1.
fn take(machine: &mut Machine, words: &[u64]) {
    words.iter().for_each(|word| machine.store(0, *word, 0));
    machine.barrier(0, ISHST);
    forget(machine, RIPAS2E1IS, WHOLE);
}

/// A table with a few pages, with the Contiguous bit or without.
fn pages(output: u64, more: u64) -> Vec<(u64, u64)> {
    (0..16).map(|page| (S2_TABLE + page * 8, S2_PAGE | more | (output + page * 4096))).collect()
}

/// `before` and then `after` in stage 2, by break-before-make; with the TLBI of stage 1, or without.
fn change(first: First, bbm: u8, before: &[(u64, u64)], after: &[(u64, u64)], stage1: Option<Opcode>) -> Machine {
    let mut machine = guest(first, Features::full(bbm));
    put(&mut machine, before);
    let linked = S2_L2 + 8;
    let leaves: Vec<u64> = before.iter().map(|it| it.0).filter(|word| *word >= S2_TABLE).collect();
    take(&mut machine, &[leaves.as_slice(), &[linked]].concat());
    if let Some(opcode) = stage1 {
        forget(&mut machine, opcode, 0);
    }
    silent(&machine);
    put(&mut machine, after);
    machine
}

const ALL: [First; 4] = [First::Off, First::Page, First::Block, First::Set];
const LINK: (u64, u64) = (S2_L2 + 8, S2_TABLE | TABLE);

fn block(output: u64) -> Vec<(u64, u64)> {
    vec![(S2_L2 + 8, S2_BLOCK | output)]
}

fn table(output: u64, more: u64) -> Vec<(u64, u64)> {
    [pages(output, more), vec![LINK]].concat()
}

#[test]
fn another_output_address_needs_the_tlbi_of_stage_1() {
    for first in ALL {
        for bbm in [0, 3] {
            for (before, after) in [
                (block(PA), block(OTHER)),
                (block(PA), table(OTHER, 0)),
                (table(PA, 0), block(OTHER)),
                (table(PA, CONT), table(OTHER, CONT)),
            ] {
                let wrong = change(first, bbm, &before, &after, None);
                caught(&wrong, Rule::StageOrder);
                assert_eq!(wrong.findings()[0].reason, Some(Reason::OutputAddress), "{first:?}");
                for opcode in [VMALLE1IS, VMALLS12E1IS, ALLE1IS] {
                    silent(&change(first, bbm, &before, &after, Some(opcode)));
                }
            }
        }
    }
}

/// Where stage 2 changes only the size of its leaves, what matters is the size of what stage 1 made of them.
#[test]
fn another_size_matters_where_the_combined_entry_has_it() {
    for first in ALL {
        for bbm in 0..4 {
            let conflicts = first != First::Page && bbm < 2;
            for (before, after) in [(block(PA), table(PA, 0)), (table(PA, 0), block(PA))] {
                let machine = change(first, bbm, &before, &after, None);
                let reason = machine.findings().first().and_then(|it| it.reason);
                assert_eq!(reason, conflicts.then_some(Reason::Size), "{first:?} {bbm}");
                silent(&change(first, bbm, &before, &after, Some(VMALLE1IS)));
            }
        }
    }
}

#[test]
fn another_contiguous_bit_matters_where_the_combined_entry_has_the_set() {
    for first in ALL {
        for bbm in 0..2 {
            let conflicts = first != First::Page && bbm == 0;
            for (before, after) in [(table(PA, CONT), table(PA, 0)), (table(PA, 0), table(PA, CONT))] {
                let machine = change(first, bbm, &before, &after, None);
                let reason = machine.findings().first().and_then(|it| it.reason);
                assert_eq!(reason, conflicts.then_some(Reason::Contiguous), "{first:?} {bbm}");
                silent(&change(first, bbm, &before, &after, Some(VMALLE1IS)));
            }
        }
    }
}

#[test]
fn the_order_and_the_barriers_count() {
    let run = |last: &dyn Fn(&mut Machine)| {
        let mut machine = guest(First::Page, Features::full(3));
        put(&mut machine, &block(PA));
        machine.store(0, S2_L2 + 8, 0);
        machine.barrier(0, ISHST);
        last(&mut machine);
        put(&mut machine, &block(OTHER));
        machine
    };
    let stage2 = |machine: &mut Machine| forget(machine, IPAS2E1IS, operand(IPA));
    let stage1 = |machine: &mut Machine| forget(machine, VMALLE1IS, 0);
    silent(&run(&|machine| {
        stage2(machine);
        stage1(machine);
    }));
    caught(
        &run(&|machine| {
            stage1(machine);
            stage2(machine);
        }),
        Rule::StageOrder,
    );
    // No DSB between the two, or none after.
    caught(
        &run(&|machine| {
            machine.tlbi(0, IPAS2E1IS, operand(IPA));
            stage1(machine);
        }),
        Rule::StageOrder,
    );
    caught(
        &run(&|machine| {
            stage2(machine);
            machine.tlbi(0, VMALLE1IS, 0);
        }),
        Rule::Overlap,
    );
    // By address, of the right page and of another one.
    let by_address = |address: u64| {
        run(&|machine| {
            stage2(machine);
            forget(machine, VAAE1IS, operand(address));
        })
    };
    silent(&by_address(0));
    caught(&by_address(0x1000), Rule::StageOrder);
    // The same block again.
    let mut same = guest(First::Page, Features::full(0));
    put(&mut same, &block(PA));
    take(&mut same, &[S2_L2 + 8]);
    put(&mut same, &block(PA));
    silent(&same);
}

#[test]
fn another_virtual_machine_is_another_matter() {
    let mut machine = guest(First::Page, Features::full(0));
    // CPU 1 runs VMID 8, on its own stage 2 that maps the same.
    let (root, middle) = (0x5100_0000, 0x5100_2000);
    let own = [(middle + 8, S2_BLOCK | PA), (root + 8, S2_BLOCK | 0x4000_0000), (root, middle | TABLE)];
    put(&mut machine, &own);
    msr(&mut machine, 1, &[(Register::VttbrEl2, 8 << 48 | root)]);
    forget(&mut machine, VMALLS12E1IS, 0);
    put(&mut machine, &block(PA));
    // VMID 8 forgets its stage 2 alone, VMID 7 all.
    machine.enter(1, Level::El2);
    machine.store(1, middle + 8, 0);
    machine.barrier(1, ISH);
    machine.tlbi(1, IPAS2E1IS, operand(IPA));
    machine.barrier(1, ISH);
    machine.barrier(1, ISB);
    take(&mut machine, &[S2_L2 + 8]);
    forget(&mut machine, VMALLE1IS, 0);
    put(&mut machine, &block(OTHER));
    silent(&machine);
    put(&mut machine, &[(middle + 8, S2_BLOCK | OTHER)]);
    caught(&machine, Rule::StageOrder);
}

/// The guest's tables themselves move: what was found by the old ones stays.
#[test]
fn tables_of_stage_1_move_with_stage_2() {
    let run = |page: u64, stage1: bool| {
        let mut machine = guest(First::Page, Features::full(3));
        put(&mut machine, &table(PA, 0));
        machine.store(0, S2_ROOT + 8, 0);
        machine.barrier(0, ISHST);
        forget(&mut machine, IPAS2E1IS, operand(0x4000_0000));
        if stage1 {
            forget(&mut machine, VMALLE1IS, 0);
        }
        let moved = 0xc000_0000;
        let copies = [(ROOT, L1 | TABLE), (L1, L2 | TABLE), (L2, L3 | TABLE), (L3, PAGE | NON_GLOBAL | page)];
        copies.iter().for_each(|(word, value)| machine.store(0, moved | (word & 0xffff), *value));
        put(&mut machine, &[(S2_ROOT + 8, S2_BLOCK | moved)]);
        machine
    };
    silent(&run(IPA, false));
    silent(&run(IPA + 0x1000, true));
    caught(&run(IPA + 0x1000, false), Rule::StageOrder);
}

/// With stage 1 off, what stage 2 makes is combined all the same: the TLBI of stage 1 ends it, that of stage 2 does not.
#[test]
fn with_stage_1_off_the_entries_are_combined() {
    let run = |steps: &[(Opcode, u64)]| {
        let mut machine = guest(First::Off, Features::full(3));
        put(&mut machine, &block(PA));
        machine.store(0, S2_L2 + 8, 0);
        machine.barrier(0, ISHST);
        steps.iter().for_each(|(opcode, operand)| forget(&mut machine, *opcode, *operand));
        machine.enter(0, Level::El1);
        let old = machine.access(0, IPA, AccessKind::Read).addresses().count();
        machine.release(0, PA, MIB_2, Owned::Frame);
        (old, machine.findings().iter().map(|it| it.rule).collect::<Vec<_>>())
    };
    assert_eq!(run(&[(IPAS2E1IS, operand(IPA))]), (1, vec![Rule::StageOrder]));
    assert_eq!(run(&[(IPAS2E1IS, operand(IPA)), (VMALLE1IS, 0)]), (0, vec![]));
    assert_eq!(run(&[(IPAS2E1IS, operand(IPA)), (VAAE1IS, operand(IPA))]), (0, vec![]));
    assert_eq!(run(&[(VMALLS12E1IS, 0)]), (0, vec![]));
}

/// What stage 2 alone made answers nothing once stage 1 is on: SCTLR_EL1.M is no field that a TLB may cache, as HCR_EL2.VM is one.
#[test]
fn with_stage_1_on_what_was_found_without_it_answers_nothing() {
    const ELSEWHERE: u64 = 0x4000_1000;
    let mut machine = guest(First::Off, Features::full(3));
    put(&mut machine, &[(S2_L2, S2_BLOCK | PA)]);
    machine.store(0, L3, PAGE | NON_GLOBAL | ELSEWHERE);
    machine.barrier(0, ISH);
    let addresses = |machine: &mut Machine| {
        machine.enter(0, Level::El1);
        machine.access(0, 0, AccessKind::Read).addresses().collect::<Vec<_>>()
    };
    assert_eq!(addresses(&mut machine), [PA]);
    enable_el1(&mut machine, 0, 1, ROOT);
    assert_eq!(addresses(&mut machine), [ELSEWHERE]);
    msr(&mut machine, 0, &[(Register::SctlrEl1, 0)]);
    assert_eq!(addresses(&mut machine), [PA]);
    silent(&machine);
    // It was there all the time: where stage 2 maps something else, it is met.
    machine.enter(0, Level::El2);
    machine.store(0, S2_L2, 0);
    machine.barrier(0, ISHST);
    forget(&mut machine, IPAS2E1IS, 0);
    put(&mut machine, &[(S2_L2, S2_BLOCK | OTHER)]);
    caught(&machine, Rule::StageOrder);
}
