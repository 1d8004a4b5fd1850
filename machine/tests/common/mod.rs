//! Small machines for the tests: registers and descriptors spelled out, no help from the code under test.
#![allow(missing_docs, unreachable_pub)]

pub mod protocol;
#[macro_use]
pub mod random;
pub mod unmapped;

use machine::barrier::Barrier;
use machine::finding::{Finding, Rule};
use machine::machine::Machine;
use machine::registers::{Features, Register};
use machine::tlbi::Opcode;

pub const ROOT: u64 = 0x4000_0000;
pub const L1: u64 = 0x4000_1000;
pub const L2: u64 = 0x4000_2000;
pub const L3: u64 = 0x4000_3000;
/// Stage 2: root at level 1, then these.
pub const S2_ROOT: u64 = 0x5000_0000;
pub const S2_L2: u64 = 0x5000_2000;
pub const S2_L3: u64 = 0x5000_3000;

/// MAIR: 0 Normal write-back, 1 Device-nGnRnE, 2 Normal NC.
pub const MAIR: u64 = 0x0044_00ff;

/// Stage-1 page: valid, AF, inner shareable, EL1 read-write, MAIR 0, global, no execution.
pub const PAGE: u64 = 0x0060_0000_0000_0703;
pub const BLOCK: u64 = PAGE & !2;
pub const TABLE: u64 = 3;
pub const NON_GLOBAL: u64 = 1 << 11;
pub const AF: u64 = 1 << 10;
pub const RO: u64 = 1 << 7;
pub const DEVICE: u64 = 1 << 2;
pub const CONT: u64 = 1 << 52;
pub const NT: u64 = 1 << 16;
/// Stage-2 page: valid, AF, inner shareable, read-write, Normal write-back.
pub const S2_PAGE: u64 = 0x0000_0000_0000_07ff;
pub const S2_BLOCK: u64 = S2_PAGE & !2;

pub const VAE1: Opcode = Opcode::new(0, 8, 7, 1);
pub const VAE1IS: Opcode = Opcode::new(0, 8, 3, 1);
pub const VALE1IS: Opcode = Opcode::new(0, 8, 3, 5);
pub const VAAE1IS: Opcode = Opcode::new(0, 8, 3, 3);
pub const VAALE1IS: Opcode = Opcode::new(0, 8, 3, 7);
pub const ASIDE1IS: Opcode = Opcode::new(0, 8, 3, 2);
pub const VMALLE1: Opcode = Opcode::new(0, 8, 7, 0);
pub const VMALLE1IS: Opcode = Opcode::new(0, 8, 3, 0);
pub const VAE2IS: Opcode = Opcode::new(4, 8, 3, 1);
pub const VALE2IS: Opcode = Opcode::new(4, 8, 3, 5);
pub const ALLE2IS: Opcode = Opcode::new(4, 8, 3, 0);
pub const ALLE1IS: Opcode = Opcode::new(4, 8, 3, 4);
pub const VMALLS12E1IS: Opcode = Opcode::new(4, 8, 3, 6);
pub const IPAS2E1IS: Opcode = Opcode::new(4, 8, 0, 1);
pub const IPAS2LE1IS: Opcode = Opcode::new(4, 8, 0, 5);
pub const RVAE1IS: Opcode = Opcode::new(0, 8, 2, 1);
pub const RVALE1IS: Opcode = Opcode::new(0, 8, 2, 5);

pub const ISH: Barrier = Barrier::DSB_ISH;
pub const ISHST: Barrier = Barrier::DSB_ISHST;
pub const NSH: Barrier = Barrier::DSB_NSH;
pub const ISB: Barrier = Barrier::Isb;

/// T0SZ = T1SZ = 16, 4 KiB granules, 48-bit output, 16-bit ASIDs.
pub const TCR_48: u64 = 16 | 16 << 16 | 2 << 30 | 5 << 32 | 1 << 36;

/// Writes registers and synchronizes.
pub fn msr(machine: &mut Machine, cpu: u8, writes: &[(Register, u64)]) {
    for (register, value) in writes {
        machine.write_register(cpu, *register, *value);
    }
    machine.barrier(cpu, ISB);
}

/// `cpus` CPUs on one EL1&0 page table in TTBR0: root -> L1 -> L2 -> L3 for addresses below 2 MiB.
pub fn el1(cpus: usize, features: Features) -> Machine {
    let mut machine = Machine::new(&vec![features; cpus]);
    tables(&mut machine);
    for cpu in 0..cpus as u8 {
        enable_el1(&mut machine, cpu, 1, ROOT);
    }
    machine
}

pub fn tables(machine: &mut Machine) {
    machine.store(0, ROOT, L1 | TABLE);
    machine.store(0, L1, L2 | TABLE);
    machine.store(0, L2, L3 | TABLE);
    machine.barrier(0, ISH);
}

pub fn enable_el1(machine: &mut Machine, cpu: u8, asid: u64, root: u64) {
    let ttbr = asid << 48 | root;
    let writes = [(Register::MairEl1, MAIR), (Register::TcrEl1, TCR_48 | 1 << 23), (Register::Ttbr0El1, ttbr)];
    msr(machine, cpu, &writes);
    msr(machine, cpu, &[(Register::SctlrEl1, 1)]);
}

/// The same tables for EL2.
pub fn el2(cpus: usize, features: Features) -> Machine {
    let mut machine = Machine::new(&vec![features; cpus]);
    tables(&mut machine);
    for cpu in 0..cpus as u8 {
        let writes = [(Register::MairEl2, MAIR), (Register::TcrEl2, 16 | 5 << 16), (Register::Ttbr0El2, ROOT)];
        msr(&mut machine, cpu, &writes);
        msr(&mut machine, cpu, &[(Register::SctlrEl2, 1)]);
        machine.enter(cpu, machine::event::Level::El2);
    }
    machine
}

/// Stage 2 of VMID 7 with 39 bits from level 1; stage 1 off. Its level-2 and level-3 tables translate from 0.
pub fn stage2(cpus: usize, features: Features) -> Machine {
    let mut machine = Machine::new(&vec![features; cpus]);
    machine.store(0, S2_ROOT, S2_L2 | TABLE);
    machine.store(0, S2_L2, S2_L3 | TABLE);
    machine.barrier(0, ISH);
    for cpu in 0..cpus as u8 {
        let writes = [(Register::VtcrEl2, 25 | 1 << 6 | 5 << 16), (Register::VttbrEl2, 7 << 48 | S2_ROOT)];
        msr(&mut machine, cpu, &writes);
        msr(&mut machine, cpu, &[(Register::HcrEl2, 1)]);
    }
    machine
}

/// The operand of a TLBI by address.
pub const fn operand(address: u64) -> u64 {
    address >> 12 & 0xfff_ffff_ffff
}

pub fn rules(machine: &Machine) -> Vec<Rule> {
    machine.findings().iter().map(|it| it.rule).collect()
}

#[track_caller]
pub fn silent(machine: &Machine) {
    let findings: Vec<&Finding> = machine.findings().iter().filter(|it| !it.is_lint()).collect();
    assert!(findings.is_empty(), "{}", findings[0]);
}

#[track_caller]
pub fn caught(machine: &Machine, rule: Rule) {
    assert!(rules(machine).contains(&rule), "expected {rule:?}, found {:#?}", machine.findings());
}

/// Maps, makes visible and uses `descriptor` at `word`.
pub fn map(machine: &mut Machine, word: u64, descriptor: u64) {
    machine.store(0, word, descriptor);
    machine.barrier(0, ISH);
    machine.barrier(0, ISB);
}

/// Break, TLBI and both barriers.
pub fn unmap(machine: &mut Machine, word: u64, opcode: Opcode, operand: u64) {
    machine.store(0, word, 0);
    machine.barrier(0, ISH);
    machine.tlbi(0, opcode, operand);
    machine.barrier(0, ISH);
    machine.barrier(0, ISB);
}
