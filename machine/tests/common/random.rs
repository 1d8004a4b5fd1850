//! Random machines under random events: what the concrete machine holds must be in the may-TLB at every step, and what
//! an access does must be among the answers that the may-TLB allows.
#![allow(dead_code, missing_docs, unreachable_pub)]

use machine::barrier::{Accesses, Barrier, Domain};
use machine::concrete::Concrete;
use machine::event::{Event, Level};
use machine::machine::{Machine, Outcome};
use machine::registers::{Ets, Features, Register};
use machine::seed::Seed;
use machine::syndrome::{AccessKind, FaultKind};
use machine::tlbi::Opcode;

use super::common::*;

pub const L3B: u64 = 0x4000_4000;
const FRAMES: u64 = 0x8000_0000;
const S2_TABLES: u64 = 0x5000_4000;
const S2_FRAMES: u64 = 0x5000_5000;
const S2_FRAMES_L3: u64 = 0x5000_6000;

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub events: u64,
    pub accesses: u64,
    pub findings: u64,
    pub conflicts: u64,
    pub mixed: u64,
    pub machines: u64,
    pub most_stale: usize,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum World {
    El1,
    El2,
    Combined,
    Flat,
}

pub fn features(seed: &mut Seed) -> Features {
    Features {
        ets: *seed.pick(&[Ets::None, Ets::Ets2, Ets::Ets3]),
        range_tlbi: !seed.one_in(4),
        ..Features::full(seed.below(4) as u8)
    }
}

pub fn machine(seed: &mut Seed, world: World) -> Machine {
    let cpus = 1 + seed.below(4) as usize;
    let features: Vec<Features> = (0..cpus).map(|_| features(seed)).collect();
    let mut machine = Machine::new(&features);
    tables(&mut machine);
    machine.store(0, S2_ROOT, S2_L2 | TABLE);
    machine.store(0, S2_L2, S2_L3 | TABLE);
    machine.store(0, S2_ROOT + 8, S2_TABLES | TABLE);
    machine.store(0, S2_TABLES, S2_BLOCK | 0x4000_0000);
    machine.store(0, S2_ROOT + 16, S2_FRAMES | TABLE);
    machine.store(0, S2_FRAMES, S2_FRAMES_L3 | TABLE);
    for page in 0..16 {
        machine.store(0, S2_FRAMES_L3 + page * 8, S2_PAGE | FRAMES | page << 12);
    }
    machine.barrier(0, ISH);
    let hardware = seed.below(4);
    for cpu in 0..cpus as u8 {
        if matches!(world, World::Combined | World::Flat) {
            let vtcr = 25 | 1 << 6 | 5 << 16 | hardware << 21;
            msr(&mut machine, cpu, &[(Register::VtcrEl2, vtcr), (Register::VttbrEl2, 7 << 48 | S2_ROOT)]);
            msr(&mut machine, cpu, &[(Register::HcrEl2, 1)]);
        }
        if matches!(world, World::El1 | World::Combined) {
            enable_el1(&mut machine, cpu, 1, ROOT);
            let tcr = TCR_48 | 1 << 23 | hardware << 39;
            msr(&mut machine, cpu, &[(Register::TcrEl1, tcr)]);
        }
        if world == World::El2 {
            let tcr = 16 | 5 << 16 | hardware << 21;
            msr(&mut machine, cpu, &[(Register::MairEl2, MAIR), (Register::TcrEl2, tcr), (Register::Ttbr0El2, ROOT)]);
            msr(&mut machine, cpu, &[(Register::SctlrEl2, 1)]);
            machine.enter(cpu, Level::El2);
        }
        machine.tlbi(cpu, VMALLS12E1IS, 0);
        machine.barrier(cpu, ISH);
        machine.barrier(cpu, ISB);
    }
    machine.take_findings();
    machine
}

fn page(seed: &mut Seed, slot: u64) -> u64 {
    let frame = FRAMES | seed.below(4) << 12;
    match seed.below(12) {
        0..=3 => 0,
        4 => PAGE | frame | RO,
        5 => PAGE | frame | NON_GLOBAL,
        6 => PAGE & !AF | frame,
        7 => PAGE | frame | RO | 1 << 51,
        8 => PAGE | frame | DEVICE,
        9 => PAGE | FRAMES | slot << 12 | CONT,
        _ => PAGE | frame | 64,
    }
}

fn store(seed: &mut Seed, world: World) -> (u64, u64) {
    let slot = seed.below(18);
    let is_stage2 = matches!(world, World::Flat) || world == World::Combined && seed.one_in(2);
    if is_stage2 {
        let second = |value: u64| {
            if value == 0 { 0 } else { (value & 0xffff_f000) | (S2_PAGE & !0xc0) | (seed_bits(value) << 6) }
        };
        return match seed.below(8) {
            0 => (S2_L2, *seed.pick(&[0, S2_L3 | TABLE, S2_BLOCK | FRAMES])),
            1 => (S2_FRAMES, *seed.pick(&[0, S2_FRAMES_L3 | TABLE, S2_BLOCK | FRAMES])),
            2 => (S2_TABLES, *seed.pick(&[S2_BLOCK | 0x4000_0000, S2_BLOCK & !AF | 0x4000_0000, 0])),
            3..=5 => (S2_FRAMES_L3 + seed.below(4) * 8, second(page(seed, slot))),
            _ => (S2_L3 + slot * 8, second(page(seed, slot))),
        };
    }
    match seed.below(12) {
        0 => (
            L2,
            *seed.pick(&[0, L3 | TABLE, L3B | TABLE, BLOCK | FRAMES, BLOCK | FRAMES | NT, BLOCK | FRAMES | 1 << 11]),
        ),
        1 => (L3B + slot * 8, page(seed, slot)),
        2 => (L1, *seed.pick(&[L2 | TABLE, L2 | TABLE, 0, BLOCK | FRAMES])),
        _ => (L3 + slot * 8, page(seed, slot)),
    }
}

fn seed_bits(value: u64) -> u64 {
    (value >> 12 ^ value >> 6) & 3
}

pub fn address(seed: &mut Seed) -> u64 {
    match seed.below(8) {
        0 => FRAMES | seed.below(4) << 12,
        _ => seed.below(18) << 12 | seed.below(2) << 9,
    }
}

pub fn barrier(seed: &mut Seed) -> Barrier {
    let domain = *seed.pick(&[Domain::Inner, Domain::Inner, Domain::NonShareable, Domain::System, Domain::Outer]);
    match seed.below(8) {
        0 => Barrier::DSB_ISHST,
        1 => Barrier::Isb,
        2 => Barrier::Isb,
        3 => Barrier::Dmb { domain, accesses: Accesses::All },
        4 => Barrier::Dsb { domain, accesses: Accesses::Loads, is_nxs: false },
        5 => Barrier::Dsb { domain, accesses: Accesses::All, is_nxs: seed.one_in(2) },
        _ => Barrier::Dsb { domain, accesses: Accesses::All, is_nxs: false },
    }
}

pub fn tlbi(seed: &mut Seed) -> Event {
    let op1 = *seed.pick(&[0, 0, 4]);
    let crm = *seed.pick(&[0, 1, 2, 3, 3, 3, 4, 6, 7, 7]);
    let opcode = Opcode::new(op1, 8 + u32::from(seed.one_in(8)), crm, seed.below(8) as u32);
    let asid = (1 + seed.below(2)) << 48;
    let is_range = opcode.decode().is_some_and(|it| it.is_range);
    let operand = if is_range {
        asid | 1 << 46 | seed.below(2) << 44 | seed.below(4) << 39 | seed.below(18)
    } else {
        let hint = *seed.pick(&[0, 0, 0, 0b0111, 0b0110]);
        asid | hint << 44 | address(seed) >> 12
    };
    Event::Tlbi { opcode, operand }
}

fn event(seed: &mut Seed, world: World) -> Event {
    match seed.below(20) {
        0..=5 => {
            let (address, value) = store(seed, world);
            Event::Store { address, value, is_release: false }
        }
        6..=9 => Event::Barrier(barrier(seed)),
        10..=13 => tlbi(seed),
        14 if matches!(world, World::El1 | World::Combined) => {
            let asid = 1 + seed.below(2);
            Event::Write { register: Register::Ttbr0El1, value: asid << 48 | ROOT }
        }
        15 if world == World::Combined && seed.one_in(4) => {
            Event::Write { register: Register::VttbrEl2, value: (7 + seed.below(2)) << 48 | S2_ROOT }
        }
        16 if world == World::El1 => Event::Enter(*seed.pick(&[Level::El0, Level::El1])),
        _ => {
            let kind = *seed.pick(&[AccessKind::Read, AccessKind::Write, AccessKind::Fetch]);
            Event::Access { address: address(seed), kind }
        }
    }
}

/// Runs `events` events from `seed`, on a new machine every few hundred; panics on the first entry or answer that the
/// may-TLB does not allow.
pub fn refine(seed: u64, events: u64) -> Tally {
    let mut tally = Tally::default();
    let mut outer = Seed::new(seed);
    while tally.events < events {
        let run = outer.bits();
        refine_one(run, &mut tally);
    }
    tally
}

pub fn refine_one(run: u64, tally: &mut Tally) {
    let mut seed = Seed::new(run);
    let worlds = [World::El1, World::El2, World::El1, World::El2, World::El1, World::El2, World::Flat, World::Combined];
    let world = *seed.pick(&worlds);
    let machine = machine(&mut seed, world);
    let cpus = machine.cpus().len() as u64;
    let mut concrete = Concrete::new(machine, Seed::new(seed.bits()), 6);
    let addresses: Vec<u64> = (0..18).map(|slot| slot << 12).chain([FRAMES]).collect();
    concrete.speculate_on(&addresses);
    tally.machines += 1;
    for _ in 0..300 {
        let cpu = seed.below(cpus) as u8;
        let event = event(&mut seed, world);
        if std::env::var("RUN").is_ok() {
            println!("{} {cpu} {event:x?} {:x?}", tally.events, concrete.machine().may().memory().word(L1));
        }
        if let Event::Access { address, kind } = event {
            let answer = concrete.machine_mut().access(cpu, address, kind);
            let outcome = concrete.access(cpu, address, kind);
            let is_mixed =
                concrete.machine().cpus()[cpu as usize].features().bbm == 0 && answer.may_fault(FaultKind::Conflict);
            let is_allowed = answer.outcomes.contains(&outcome) || is_mixed;
            assert!(
                is_allowed,
                "run {run:#x} {world:?}: CPU {cpu} {address:#x} {kind:?}: {outcome:x?} not in {answer:x?}"
            );
            tally.accesses += 1;
            tally.mixed += u64::from(!answer.outcomes.contains(&outcome));
            tally.conflicts += u64::from(matches!(outcome, Outcome::Fault(it) if it.kind == FaultKind::Conflict));
        } else {
            concrete.step(cpu, &event);
        }
        if let Some((cpu, stray)) = concrete.stray() {
            panic!("run {run:#x} {world:?}: after {event:x?} CPU {cpu} holds {stray:x?}");
        }
        tally.events += 1;
        tally.most_stale = tally.most_stale.max(concrete.machine().may().stale().len());
    }
    tally.findings += concrete.machine_mut().take_findings().len() as u64;
}

/// The machine alone, without concrete TLBs; returns a digest so that no event can be left out.
pub fn run_plain(seed: u64, events: u64, world: World) -> u64 {
    let mut seed = Seed::new(seed);
    let (mut done, mut digest) = (0, 0_u64);
    while done < events {
        let mut machine = machine(&mut seed, world);
        let cpus = machine.cpus().len() as u64;
        for _ in 0..300 {
            let event = event(&mut seed, world);
            machine.apply(seed.below(cpus) as u8, &event);
            done += 1;
        }
        digest = digest.rotate_left(1) ^ machine.digest();
    }
    digest
}
