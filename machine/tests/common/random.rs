//! Random machines under random events: what the concrete machine holds must be in the may-TLB at every step, and what
//! an access does must be among the answers that the may-TLB allows.
#![allow(missing_docs, unreachable_pub)]

use machine::barrier::{Accesses, Barrier, Domain};
use machine::concrete::Concrete;
use machine::event::{Event, Level, Owned};
use machine::machine::{Machine, Outcome};
use machine::registers::{Ets, Features, HCR_E2H, HCR_TGE, Register};
use machine::seed::Seed;
use machine::syndrome::{AccessKind, FaultKind};
use machine::tlbi::Opcode;

use super::*;

pub const L3B: u64 = 0x4000_4000;
const FRAMES: u64 = 0x8000_0000;
/// A table that forbids EL0 and writing below it.
const LIMITS: u64 = 0b11 << 61;
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
pub enum Setting {
    El1,
    El2,
    /// EL2&0: EL2 with E2H and TGE.
    Host,
    Combined,
    /// Stage 2 alone.
    Flat,
    /// EL1 with 64 KiB pages and 42 bits.
    Wide,
    /// EL1 with 16 KiB pages and 36 bits in the upper half.
    Upper,
}

/// One test for each setting, so that they run side by side.
macro_rules! for_each_setting {
    ($test:ident) => {
        for_each_setting! { $test: el1 El1, el2 El2, el2_as_a_host Host, both_stages Combined, stage_2_alone Flat,
        pages_of_64_kib Wide, the_upper_half Upper }
    };
    ($test:ident: $($name:ident $setting:ident),*) => {$(
        #[test]
        fn $name() {
            $test(Setting::$setting);
        }
    )*};
}

/// Where leaves are and what names them in TLBIs.
struct Shape {
    /// First input address.
    base: u64,
    page_shift: u8,
    /// The descriptor that links the last table, and two tables for it.
    link: u64,
    last: [u64; 2],
    /// TG of a hint or range.
    granule: u64,
}

impl Setting {
    pub const ALL: [Self; 7] = [Self::El1, Self::El2, Self::Host, Self::Combined, Self::Flat, Self::Wide, Self::Upper];

    const fn shape(self) -> Shape {
        let wide = [0x4100_0000, 0x4102_0000];
        match self {
            Self::Wide => Shape { base: 0, page_shift: 16, link: ROOT, last: wide, granule: 3 },
            Self::Upper => Shape { base: 0xffff_fff0_0000_0000, page_shift: 14, link: ROOT, last: wide, granule: 2 },
            _ => Shape { base: 0, page_shift: 12, link: L2, last: [L3, L3B], granule: 1 },
        }
    }

    const fn has_asid(self) -> bool {
        matches!(self, Self::El1 | Self::Host | Self::Combined | Self::Wide | Self::Upper)
    }
}

/// A leaf's number: the first set, and the border of sets of 16, 32 and 128.
fn slot(seed: &mut Seed) -> u64 {
    match seed.below(8) {
        0 => 30 + seed.below(4),
        1 => 126 + seed.below(4),
        _ => seed.below(18),
    }
}

pub fn features(seed: &mut Seed) -> Features {
    Features {
        ets: *seed.pick(&[Ets::None, Ets::Ets2, Ets::Ets3]),
        range_tlbi: !seed.one_in(4),
        repeat_tlbi: seed.one_in(8),
        ..Features::full(seed.below(4) as u8)
    }
}

pub fn machine(seed: &mut Seed, setting: Setting) -> Machine {
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
    if let Setting::Wide | Setting::Upper = setting {
        machine.store(0, ROOT, setting.shape().last[0] | TABLE);
    }
    machine.barrier(0, ISH);
    let hardware = seed.below(4);
    for cpu in 0..cpus as u8 {
        if matches!(setting, Setting::Combined | Setting::Flat) {
            let vtcr = 25 | 1 << 6 | 5 << 16 | hardware << 21;
            msr(&mut machine, cpu, &[(Register::VtcrEl2, vtcr), (Register::VttbrEl2, 7 << 48 | S2_ROOT)]);
            msr(&mut machine, cpu, &[(Register::HcrEl2, 1)]);
        }
        if matches!(setting, Setting::El1 | Setting::Combined) {
            enable_el1(&mut machine, cpu, 1, ROOT);
            let tcr = TCR_48 | 1 << 23 | hardware << 39;
            msr(&mut machine, cpu, &[(Register::TcrEl1, tcr)]);
        }
        if let Setting::Wide | Setting::Upper = setting {
            let halves = match setting {
                Setting::Wide => 22 | 1 << 14 | 1 << 23,
                _ => 16 | 1 << 7 | 28 << 16 | 1 << 30,
            };
            let tcr = halves | 5 << 32 | 1 << 36 | hardware << 39;
            let ttbr = (Register::Ttbr0El1, 1 << 48 | ROOT);
            msr(&mut machine, cpu, &[(Register::MairEl1, MAIR), (Register::TcrEl1, tcr), ttbr]);
            msr(&mut machine, cpu, &[(Register::Ttbr1El1, ROOT), (Register::SctlrEl1, 1)]);
        }
        if setting == Setting::El2 {
            let tcr = 16 | 5 << 16 | hardware << 21;
            msr(&mut machine, cpu, &[(Register::MairEl2, MAIR), (Register::TcrEl2, tcr), (Register::Ttbr0El2, ROOT)]);
            msr(&mut machine, cpu, &[(Register::SctlrEl2, 1)]);
            machine.enter(cpu, Level::El2);
        }
        if setting == Setting::Host {
            msr(&mut machine, cpu, &[(Register::HcrEl2, HCR_E2H | HCR_TGE)]);
            let (tcr, ttbr) = (TCR_48 | 1 << 23 | hardware << 39, 1 << 48 | ROOT);
            msr(&mut machine, cpu, &[(Register::MairEl2, MAIR), (Register::TcrEl2, tcr), (Register::Ttbr0El2, ttbr)]);
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

fn page(seed: &mut Seed, slot: u64, shift: u8) -> u64 {
    let frame = FRAMES | seed.below(4) << shift;
    match seed.below(18) {
        0..=3 => 0,
        12 => (PAGE & !1) | frame,
        13 => PAGE ^ (1 << 8) | frame,
        14 => PAGE & !AF | frame | RO | 1 << 51,
        15 => PAGE | frame | 2 << 2,
        16 => (PAGE ^ (1 << 8)) | frame | 2 << 2,
        4 => PAGE | frame | RO,
        5 => PAGE | frame | NON_GLOBAL,
        6 => PAGE & !AF | frame,
        7 => PAGE | frame | RO | 1 << 51,
        8 => PAGE | frame | DEVICE,
        9 => PAGE | FRAMES | slot << shift | CONT,
        _ => PAGE | frame | 64,
    }
}

fn store(seed: &mut Seed, setting: Setting) -> (u64, u64) {
    let shape = setting.shape();
    let slot = slot(seed);
    let is_stage2 = matches!(setting, Setting::Flat) || setting == Setting::Combined && seed.one_in(2);
    if is_stage2 {
        let second = |value: u64| {
            if value == 0 { 0 } else { (value & (CONT | 0xffff_f000)) | (S2_PAGE & !0xc0) | (seed_bits(value) << 6) }
        };
        return match seed.below(8) {
            0 => (S2_L2, *seed.pick(&[0, S2_L3 | TABLE, S2_BLOCK | FRAMES])),
            1 => (S2_FRAMES, *seed.pick(&[0, S2_FRAMES_L3 | TABLE, S2_BLOCK | FRAMES])),
            2 => (S2_TABLES, *seed.pick(&[S2_BLOCK | 0x4000_0000, S2_BLOCK & !AF | 0x4000_0000, 0])),
            3..=5 => (S2_FRAMES_L3 + seed.below(4) * 8, second(page(seed, slot, 12))),
            _ => (S2_L3 + slot * 8, second(page(seed, slot, 12))),
        };
    }
    let [last, other] = shape.last;
    match seed.below(12) {
        0 => {
            let block = BLOCK | FRAMES;
            (
                shape.link,
                *seed.pick(&[
                    0,
                    last | TABLE,
                    other | TABLE,
                    block,
                    block | NT,
                    block | NON_GLOBAL,
                    block & !AF,
                    last | LIMITS | TABLE,
                ]),
            )
        }
        1 => (other + slot * 8, page(seed, slot, shape.page_shift)),
        2 if shape.link == L2 => (L1, *seed.pick(&[L2 | TABLE, L2 | TABLE, 0, BLOCK | FRAMES])),
        _ => (last + slot * 8, page(seed, slot, shape.page_shift)),
    }
}

fn seed_bits(value: u64) -> u64 {
    (value >> 12 ^ value >> 6) & 3
}

fn address(seed: &mut Seed, setting: Setting) -> u64 {
    let shape = setting.shape();
    match seed.below(8) {
        0 if shape.base == 0 => FRAMES | seed.below(4) << 12,
        _ => shape.base | slot(seed) << shape.page_shift | seed.below(2) << 9,
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

fn tlbi(seed: &mut Seed, setting: Setting) -> Event {
    let shape = setting.shape();
    let op1 = *seed.pick(&[0, 0, 4]);
    let crm = *seed.pick(&[0, 1, 2, 3, 3, 3, 4, 6, 7, 7]);
    let opcode = Opcode::new(op1, 8 + u32::from(seed.one_in(8)), crm, seed.below(8) as u32);
    let asid = (1 + seed.below(2)) << 48;
    let is_range = opcode.decode().is_some_and(|it| it.is_range);
    let operand = if is_range {
        let base = (shape.base >> shape.page_shift & ((1 << 37) - 1)) + slot(seed);
        asid | shape.granule << 46 | seed.below(2) << 44 | seed.below(4) << 39 | base
    } else {
        let hint = *seed.pick(&[0, 0, 0, shape.granule << 2 | 3, shape.granule << 2 | 2]);
        asid | hint << 44 | operand(address(seed, setting))
    };
    Event::Tlbi { opcode, operand }
}

pub fn event(seed: &mut Seed, setting: Setting) -> Event {
    match seed.below(20) {
        0..=5 => {
            let (address, value) = store(seed, setting);
            Event::Store { address, value, is_release: false }
        }
        6..=9 => Event::Barrier(barrier(seed)),
        10..=13 => tlbi(seed, setting),
        14 if setting.has_asid() => {
            let asid = 1 + seed.below(2);
            let register = if setting == Setting::Host { Register::Ttbr0El2 } else { Register::Ttbr0El1 };
            Event::Write { register, value: asid << 48 | ROOT }
        }
        15 if setting == Setting::Combined && seed.one_in(4) => {
            Event::Write { register: Register::VttbrEl2, value: (7 + seed.below(2)) << 48 | S2_ROOT }
        }
        16 if setting.has_asid() && setting != Setting::Combined => {
            let kernel = if setting == Setting::Host { Level::El2 } else { Level::El1 };
            Event::Enter(*seed.pick(&[Level::El0, kernel]))
        }
        17 if seed.one_in(2) => *seed.pick(&[Event::Unlock, Event::Lock]),
        _ => {
            let kind = *seed.pick(&[AccessKind::Read, AccessKind::Write, AccessKind::Fetch]);
            Event::Access { address: address(seed, setting), kind }
        }
    }
}

/// Memory, of a table or a leaf, gets another owner.
pub fn release(seed: &mut Seed) -> Event {
    let (address, owned) = match seed.below(2) {
        0 => (*seed.pick(&[L2, L3, L3B, S2_FRAMES_L3]), Owned::Table),
        _ => (FRAMES | seed.below(4) << 12, Owned::Frame),
    };
    Event::Release { address, size_bytes: 4096, owned }
}

/// Some stores become exchanges or releases, and some of what is stored over is loaded first.
fn exchanged(seed: &mut Seed, cpu: u8, event: Event, machine: &mut Machine) -> Event {
    let Event::Store { address, value, .. } = event else { return event };
    match seed.below(8) {
        0 | 1 => Event::CompareExchange { address, expected: machine.word(address), value },
        2 => Event::Exchange { address, value },
        3 => Event::Store { address, value, is_release: true },
        4 | 5 => {
            machine.load(cpu, address);
            event
        }
        _ => event,
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
    let setting = if seed.one_in(16) { Setting::Combined } else { *seed.pick(&Setting::ALL) };
    let setting = if setting == Setting::Combined && !seed.one_in(3) { Setting::El1 } else { setting };
    let mut machine = machine(&mut seed, setting);
    let cpus = machine.cpus().len() as u64;
    if seed.one_in(2) {
        machine.settle_stores();
    }
    let mut concrete = Concrete::new(machine, Seed::new(seed.bits()), 6);
    let addresses: Vec<u64> = (0..24).map(|_| address(&mut seed, setting)).collect();
    concrete.speculate_on(&addresses);
    tally.machines += 1;
    for _ in 0..300 {
        let cpu = seed.below(cpus) as u8;
        let event = if seed.one_in(32) { release(&mut seed) } else { event(&mut seed, setting) };
        let event = exchanged(&mut seed, cpu, event, concrete.machine_mut());
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
                "run {run:#x} {setting:?}: CPU {cpu} {address:#x} {kind:?}: {outcome:x?} not in {answer:x?}"
            );
            tally.accesses += 1;
            tally.mixed += u64::from(!answer.outcomes.contains(&outcome));
            tally.conflicts += u64::from(matches!(outcome, Outcome::Fault(it) if it.kind == FaultKind::Conflict));
        } else {
            concrete.step(cpu, &event);
        }
        if let Some((cpu, stray)) = concrete.stray() {
            panic!("run {run:#x} {setting:?}: after {event:x?} CPU {cpu} holds {stray:x?}");
        }
        tally.events += 1;
        tally.most_stale = tally.most_stale.max(concrete.machine().may().stale().len());
    }
    tally.findings += concrete.machine_mut().take_findings().len() as u64;
}

/// The machine alone, without concrete TLBs. The digest says that no event was left out, and what they led to.
#[allow(dead_code, reason = "an example runs it")]
pub fn run_plain(seed: u64, events: u64, setting: Setting) -> (u64, u64) {
    let mut seed = Seed::new(seed);
    let (mut done, mut digest) = (0, 0_u64);
    while done < events {
        let mut machine = machine(&mut seed, setting);
        let before = machine.events();
        let cpus = machine.cpus().len() as u64;
        for _ in 0..300 {
            let event = event(&mut seed, setting);
            machine.apply(seed.below(cpus) as u8, &event);
        }
        done += machine.events() - before;
        digest = digest.rotate_left(1) ^ machine.digest();
    }
    (done, digest)
}
