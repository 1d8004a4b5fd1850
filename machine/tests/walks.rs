//! Walks against vectors derived by hand from DDI 0487, D8.2 and D8.3: where each descriptor is, and what it says.

use std::collections::BTreeMap;

use machine::attributes::{MemoryType, Permissions};
use machine::context::{Context, contexts};
use machine::registers::{Features, Register, Registers};
use machine::syndrome::{AccessKind, Fault, FaultKind};
use machine::walker::combined::{Translation, translate};

const R: u64 = 0x1_0000_0000;
const A: u64 = 0x1_0001_0000;
const B: u64 = 0x1_0002_0000;
const C: u64 = 0x1_0003_0000;
const D: u64 = 0x1_0004_0000;
const AF: u64 = 1 << 10;

struct Walk {
    registers: Registers,
    words: BTreeMap<u64, u64>,
}

impl Walk {
    /// EL1 with TTBR0 = `root` and these bits of TCR (plus TTBR1 walks off).
    fn el1(tcr: u64, root: u64) -> Self {
        let mut registers = Registers::default();
        registers.set(Register::SctlrEl1, 1);
        registers.set(Register::TcrEl1, tcr | 1 << 23);
        registers.set(Register::Ttbr0El1, root);
        registers.set(Register::MairEl1, 0xff);
        Self { registers, words: BTreeMap::new() }
    }

    fn stage2(vtcr: u64, root: u64) -> Self {
        let mut registers = Registers::default();
        registers.set(Register::VtcrEl2, vtcr);
        registers.set(Register::VttbrEl2, root);
        registers.set(Register::HcrEl2, 1);
        Self { registers, words: BTreeMap::new() }
    }

    fn word(mut self, address: u64, value: u64) -> Self {
        self.words.insert(address, value);
        self
    }

    fn with(mut self, register: Register, value: u64) -> Self {
        self.registers.set(register, value);
        self
    }

    fn context(&self, features: &Features, address: u64) -> Context {
        let is_upper = address >> 63 == 1;
        contexts(&self.registers, features).find(|it| it.stage1.is_upper == is_upper).expect("a context")
    }

    fn run(&self, features: &Features, address: u64) -> Result<Translation, Fault> {
        let context = self.context(features, address);
        translate(&context.stage1, address, &mut |word| self.words.get(&word).copied().unwrap_or(0))
    }

    #[track_caller]
    fn reaches(&self, address: u64, output: u64) {
        assert_eq!(self.run(&Features::full(0), address).map(|it| it.output), Ok(output), "{address:#x}");
    }

    #[track_caller]
    fn faults(&self, address: u64, kind: FaultKind, level: i8) {
        assert_eq!(self.run(&Features::full(0), address).map(|it| it.output), Err(Fault::stage1(kind, level)));
    }
}

const TG_16K: u64 = 2 << 14;
const TG_64K: u64 = 1 << 14;
const IPS_48: u64 = 5 << 32;
const IPS_52: u64 = 6 << 32;
const DS: u64 = 1 << 59;

#[test]
fn four_kib_granule() {
    // 0x1234_5678_9abc: indices 0x24, 0xd1, 0xb3, 0x189.
    let walk = Walk::el1(16 | IPS_48, R).word(R + 0x120, A | 3).word(A + 0x688, B | 3).word(B + 0x598, C | 3);
    walk.word(C + 0xc48, 0x8765_4000 | AF | 3).reaches(0x1234_5678_9abc, 0x8765_4abc);
    // 39 bits start at level 1: indices 0x7d, 1, 1.
    let walk = Walk::el1(25 | IPS_48, R).word(R + 0x3e8, A | 3).word(A + 8, B | 3);
    walk.word(B + 8, 0x1_2345_6000 | AF | 3).reaches(0x1f_4020_1008, 0x1_2345_6008);
    // A 2 MiB block at level 2, a 1 GiB block at level 1.
    let walk = Walk::el1(25 | IPS_48, R).word(R, A | 3).word(A + 16, 0xa_bc60_0000 | AF | 1);
    walk.reaches(0x41_2345, 0xa_bc61_2345);
    Walk::el1(25 | IPS_48, R).word(R + 16, 0xf_c000_0000 | AF | 1).reaches(0x9234_5678, 0xf_d234_5678);
}

#[test]
fn four_kib_granule_with_52_bits() {
    // Level -1 resolves bits 51:48 with 16 entries; address bits 51:50 are in descriptor bits 9:8.
    let walk = Walk::el1(12 | IPS_52 | DS, R).word(R + 0x50, A | 3).word(A + 0x120, B | 3);
    let walk = walk.word(B + 0x688, C | 3).word(C + 0x598, D | 3);
    let leaf = 0x1_8765_4321_0000 | 3 << 8 | AF | 3;
    walk.word(D + 0xc48, leaf).reaches(0xa_1234_5678_9abc, 0xd_8765_4321_0abc);
    // A 512 GiB block exists at level 0, only with DS.
    let block =
        Walk::el1(12 | IPS_52 | DS, R).word(R, A | 3).word(A + 8, 0x3_0000_0000_0000 & !0x7f_ffff_ffff | AF | 1);
    block.reaches(0x80_0000_1234, 0x3_0000_0000_1234);
    Walk::el1(16 | IPS_48, R).word(R, 0x80_0000_0000 | AF | 1).faults(0x1234, FaultKind::Translation, 0);
    // The root's bits 51:48 are in bits 5:2 of TTBR.
    let walk = Walk::el1(12 | IPS_52 | DS, R | 0xc << 2).word(0xc_0000_0000_0000 | R, 0);
    let context = walk.context(&Features::full(0), 0);
    assert_eq!(context.stage1.root, 0xc_0001_0000_0000);
}

#[test]
fn sixteen_kib_granule() {
    // 47 bits start at level 1: 0x7654_3210_1234 has indices 0x765, 0x219, 0x40.
    let walk = Walk::el1(17 | TG_16K | IPS_48, R).word(R + 0x3b28, A | 3).word(A + 0x10c8, B | 3);
    walk.word(B + 0x200, 0x8765_4000 | AF | 3).reaches(0x7654_3210_1234, 0x8765_5234);
    // 48 bits start at level 0 with two entries.
    let walk = Walk::el1(16 | TG_16K | IPS_48, R).word(R + 8, A | 3).word(A, B | 3);
    walk.word(B + 8, 0x1_2a00_0000 | AF | 1).reaches(0x8000_0200_0042, 0x1_2a00_0042);
    // 36 bits start at level 2.
    let walk = Walk::el1(28 | TG_16K | IPS_48, R).word(R + 0x3ff8, A | 3);
    walk.word(A + 0x3ff8, 0x4000 | AF | 3).reaches(0xf_ffff_ffff, 0x7fff);
    // 64 GiB blocks at level 1 need DS.
    Walk::el1(17 | TG_16K | IPS_48, R).word(R + 8, 0x10_0000_0000 | AF | 1).faults(1 << 36, FaultKind::Translation, 1);
    let large = Walk::el1(12 | TG_16K | IPS_52 | DS, R).word(R, A | 3).word(A + 8, 0x20_0000_0000 | AF | 1);
    large.reaches(0x10_0000_0042, 0x20_0000_0042);
}

#[test]
fn sixty_four_kib_granule() {
    // 42 bits start at level 2: 0x155_5555_5555 has indices 0xaaa, 0x1555.
    let walk = Walk::el1(22 | TG_64K | IPS_48, R).word(R + 0x5550, A | 3);
    walk.word(A + 0xaaa8, 0x8765_0000 | AF | 3).reaches(0x155_5555_5555, 0x8765_5555);
    // 52 bits: level 1 has 1024 entries, address bits 51:48 are in descriptor bits 15:12.
    let walk = Walk::el1(12 | TG_64K | IPS_52, R).word(R + 0x1ff8, A | 3).word(A, B | 3);
    let leaf = 0x8765_4321_0000 | 0xb << 12 | AF | 3;
    walk.word(B + 8, leaf).reaches(0xf_fc00_0001_1234, 0xb_8765_4321_1234);
    // A 4 TiB block at level 1 needs FEAT_LPA.
    let walk = Walk::el1(12 | TG_64K | IPS_52, R).word(R + 8, 0x400_0000_0000 | AF | 1);
    walk.reaches(0x400_0000_0042, 0x400_0000_0042);
    let plain = walk.run(&Features { lpa: false, ..Features::full(0) }, 0x400_0000_0042);
    assert_eq!(plain.map(|it| it.output), Err(Fault::stage1(FaultKind::Translation, 1)));
    let block = Walk::el1(22 | TG_64K | IPS_48, R).word(R + 8, 0x6000_0000 | AF | 1);
    block.reaches(0x2345_6789, 0x6345_6789);
}

#[test]
fn faults_name_their_level() {
    let walk = Walk::el1(16 | IPS_48, R);
    walk.faults(0, FaultKind::Translation, 0);
    let walk = walk.word(R, A | 3).word(A, B | 3).word(B, C | 3).word(C, 0x8000_0000 | AF | 1);
    // 0b01 at level 3 is reserved.
    walk.faults(0, FaultKind::Translation, 3);
    walk.word(C, 0x8000_0003).faults(0, FaultKind::AccessFlag, 3);
    // 40-bit output: one bit more is an Address size fault, of the table that holds it as well.
    let small = Walk::el1(25 | 2 << 32, R).word(R, 1 << 40 | 3);
    small.faults(0, FaultKind::AddressSize, 1);
    Walk::el1(25 | 2 << 32, R).word(R, A | 3).word(A, 1 << 40 | AF | 1).faults(0, FaultKind::AddressSize, 2);
    Walk::el1(25 | IPS_48, R).faults(1 << 39, FaultKind::Translation, 0);
}

#[test]
fn the_upper_half_has_its_own_root_and_size() {
    let tcr = 16 | 25 << 16 | 2 << 30 | IPS_48;
    let mut walk = Walk::el1(tcr, R).with(Register::Ttbr1El1, A).word(A + 0xff8, 0x4000_0000 | AF | 1);
    walk.registers.set(Register::TcrEl1, tcr);
    walk.reaches(0xffff_ffff_c000_1234, 0x4000_1234);
    // TG1 has its own encoding: 1 is 16K, 3 is 64K.
    for (tg1, size, word, output) in [(1, 28, 0x3ff8, 0x200_0000), (3, 22, 0xfff8, 0x2000_0000)] {
        let tcr = 16 | size << 16 | tg1 << 30 | IPS_48;
        let mut walk = Walk::el1(tcr, R).with(Register::Ttbr1El1, A).word(A + word, output | AF | 1);
        walk.registers.set(Register::TcrEl1, tcr);
        walk.reaches(0xffff_ffff_ffff_0000, output | (output - 1) & !0xffff);
    }
}

#[test]
fn table_descriptors_limit_what_is_below() {
    let leaf = 0x8000_0000 | 1 << 6 | AF | 3;
    let permissions = |table: u64, tcr: u64| {
        let walk = Walk::el1(25 | IPS_48 | tcr, R).word(R, A | table | 3).word(A, B | 3).word(B, leaf);
        walk.run(&Features::full(0), 0).expect("mapped").attributes.permissions.0
    };
    let all = Permissions::READ | Permissions::WRITE | Permissions::USER_READ | Permissions::USER_WRITE;
    let user = Permissions::USER_READ | Permissions::USER_WRITE | Permissions::USER_EXECUTE;
    // What EL0 may write, EL1 never executes.
    assert_eq!(permissions(0, 0), all | Permissions::USER_EXECUTE);
    assert_eq!(permissions(1 << 61, 0) & (Permissions::USER_READ | Permissions::USER_WRITE), 0);
    assert_eq!(permissions(1 << 62, 0) & (Permissions::WRITE | Permissions::USER_WRITE), 0);
    assert_eq!(permissions(1 << 60, 0) & Permissions::USER_EXECUTE, 0);
    assert_eq!(permissions(1 << 59 | 1 << 62, 0) & Permissions::EXECUTE, 0);
    // HPD0 ignores them.
    assert_eq!(permissions(0xf << 59, 1 << 41), user | all);
}

#[test]
fn stage_2_roots_may_be_concatenated() {
    // 40 bits from level 1: two tables, 1024 entries; 0x80_4020_1234 has indices 0x201, 1, 1.
    let walk = Walk::stage2(24 | 1 << 6 | 5 << 16, R).word(R + 0x1008, A | 3).word(A + 8, B | 3);
    walk.word(B + 8, 0x8000_0000 | 0x7ff).reaches(0x80_4020_1234, 0x8000_0234);
    // 64K, 42 bits from level 2 and 16K, 40 bits from level 1: SL0 counts down from 3 there.
    let walk = Walk::stage2(22 | 1 << 6 | TG_64K | 5 << 16, R).word(R + 8, 0x6000_0000 | 0x7fd);
    walk.reaches(0x2345_6789, 0x6345_6789);
    let walk = Walk::stage2(24 | 2 << 6 | TG_16K | 5 << 16, R).word(R + 8, A | 3).word(A, 0x200_0000 | 0x7fd);
    walk.reaches(0x10_0000_0042, 0x200_0042);
    // 52 bits from level -1: SL2.
    let walk = Walk::stage2(12 | 1 << 33 | 1 << 32 | 6 << 16, R).word(R + 8, A | 3).word(A, 0x80_0000_0000 | 0x4fd);
    walk.reaches(0x1_0000_0000_0042, 0x80_0000_0042);
}

#[test]
fn stage_2_faults_are_told_from_stage_1_faults() {
    let both = |walk: Walk| {
        let mut walk = walk.with(Register::SctlrEl1, 1).with(Register::TcrEl1, 25 | IPS_48 | 1 << 23);
        walk.registers.set(Register::Ttbr0El1, 0x4000_0000);
        walk.registers.set(Register::MairEl1, 0xff);
        walk
    };
    let base = || both(Walk::stage2(25 | 1 << 6 | 5 << 16, R));
    // The root of stage 1 is at an intermediate address that stage 2 does not map.
    let fault = base().run(&Features::full(0), 0).unwrap_err();
    assert_eq!(fault, Fault { is_on_walk: true, ..Fault::stage2(FaultKind::Translation, 1, 0x4000_0000) });
    assert_eq!(fault.esr(AccessKind::Write, false), 0x24 << 26 | 1 << 25 | 1 << 7 | 1 << 6 | 0b0101);
    assert_eq!(fault.hpfar(), 0x4_0000 << 4);
    // Root and tables at 0x4000_0000 -> 0x1_4000_0000, the output not mapped.
    let mapped = || base().word(R + 8, 0x1_4000_0000 | 0x7fd).word(0x1_4000_0000, 0x8000_0000 | AF | 1);
    let fault = mapped().run(&Features::full(0), 0x1234).unwrap_err();
    assert_eq!(fault, Fault::stage2(FaultKind::Translation, 1, 0x8000_1234));
    let done = mapped().word(R + 16, 0x2_c000_0000 | 0x7fd).run(&Features::full(0), 0x1234).expect("mapped");
    assert_eq!(done.output, 0x2_c000_1234);
    assert_eq!(done.attributes.memory, MemoryType::WRITE_BACK);
    // Device at stage 2 wins.
    let device = mapped().word(R + 16, 0x2_c000_0000 | 0x7c1).run(&Features::full(0), 0).expect("mapped");
    assert_eq!(device.attributes.memory, MemoryType::Device(0));
}

#[test]
fn status_codes() {
    let table = [
        (FaultKind::AddressSize, 0, 0b00_0000),
        (FaultKind::AddressSize, -1, 0b10_1001),
        (FaultKind::Translation, -1, 0b10_1011),
        (FaultKind::Translation, 0, 0b00_0100),
        (FaultKind::Translation, 3, 0b00_0111),
        (FaultKind::AccessFlag, 1, 0b00_1001),
        (FaultKind::Permission, 3, 0b00_1111),
        (FaultKind::Conflict, 0, 0b11_0000),
    ];
    for (kind, level, status) in table {
        assert_eq!(Fault::stage1(kind, level).status(), status, "{kind:?} {level}");
    }
    let fault = Fault::stage1(FaultKind::Permission, 3);
    assert_eq!(fault.esr(AccessKind::Fetch, true), 0x21 << 26 | 1 << 25 | 0b1111);
}
